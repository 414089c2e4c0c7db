#include "kernels/library.h"

#include <stdatomic.h>
#include <string.h>

#include "images/jit.h"
#include "kernels/internal.h"
#include "pages/page_variables.h"
#include "session/handle.h"

static _Bool is_library(const struct module *module) { return !module->context; }

// ---- managed variables -------------------------------------------------------------------------

static CUresult share(struct module *there, const struct global *global) {
  struct global *found;
  CUresult result = module_find_global(there, global->name, &found);
  if (result) return result;
  if (found->size != global->size) return CUDA_ERROR_INVALID_IMAGE;
  pages_variable_lies(there->session, global->address, found->address);
  return CUDA_SUCCESS;
}

CUresult library_share_beside(struct module *module, const struct global *global) {
  CUresult result = CUDA_SUCCESS;
  for (struct session *session = sessions; session < sessions + SESSIONS_MAX && !result; session++)
    if (module->beside[session->number])
      result = share(handle_object(WIRE_KIND_MODULE, module->beside[session->number]), global);
  return result;
}

CUresult library_share_all(struct module *there) {
  CUresult result = CUDA_SUCCESS;
  const struct global *global = there->first ? there->first->globals : NULL;
  for (; global && !result; global = global->next)
    if (global->managed && global->in_use) result = share(there, global);
  return result;
}

static void bring_of(struct session *session, const struct function *function) {
  pthread_mutex_lock(&module_lock);
  const struct module *module = handle_object(WIRE_KIND_MODULE, function->module);
  const struct module *first = module && module->first ? module->first : module;
  uint64_t addresses[16], count = 0;
  for (const struct global *global = first ? first->globals : NULL; global; global = global->next)
    if (global->managed && global->in_use && count < 16) addresses[count++] = global->address;
  pthread_mutex_unlock(&module_lock);
  // More than a few are brought with all that there are.
  if (count == 16) return pages_bring_variables(session);
  for (uint64_t i = 0; i < count; i++) pages_bring_variable(session, addresses[i]);
}

static void bring_named(struct session *session, unsigned char *parameters, uint32_t size) {
  for (uint32_t at = 0; at + sizeof(uint64_t) <= size; at += sizeof(uint64_t)) {
    uint64_t value;
    memcpy(&value, parameters + at, sizeof value);
    uint64_t here = pages_variable_here(session, value);
    if (!here) continue;
    pages_bring_variable(session, value);
    memcpy(parameters + at, &here, sizeof here);
  }
}

_Bool library_bring_and_hand_over(struct session *session, const struct function *function,
                                  unsigned char *parameters, uint32_t size) {
  if (parameters) bring_named(session, parameters, size);
  // Another thread may want them on another device.
  for (;;) {
    uint64_t moves = pages_moves;
    if (function)
      bring_of(session, function);
    else
      pages_bring_variables(session);
    if (pages_moves != moves) continue;
    _Bool shared = pages_hand_over(session);
    if (pages_moves == moves) return shared;
    if (shared) pages_handed_over();
  }
}

// ---- libraries ---------------------------------------------------------------------------------

static CUresult load_beside(struct module *module, struct session *session) {
  if (module->beside[session->number]) return CUDA_SUCCESS;
  static const struct jit no_jit;
  uint64_t handle;
  CUresult result = module_load(&module->image, 1, &no_jit, 0, &handle);
  if (result) return result;
  module->beside[session->number] = handle;
  struct module *there = handle_object(WIRE_KIND_MODULE, handle);
  there->first = module;
  return library_share_all(there);
}

CUresult library_here(struct module **module) {
  if (!sessions_many() || !is_library(*module)) return CUDA_SUCCESS;
  struct session *session = session_here();
  session_follow(session, CUDA_ERROR_INVALID_HANDLE);
  if ((*module)->session == session) return CUDA_SUCCESS;
  CUresult result = load_beside(*module, session);
  if (!result) *module = handle_object(WIRE_KIND_MODULE, (*module)->beside[session->number]);
  return result;
}

CUresult library_function_here(struct function **function) {
  struct session *session = session_here();
  if (!sessions_many() || (*function)->session == NULL) return CUDA_SUCCESS;
  session_follow(session, CUDA_ERROR_INVALID_HANDLE);
  if ((*function)->session == session) return CUDA_SUCCESS;
  struct function *there = atomic_load(&(*function)->beside[session->number]);
  CUresult result = CUDA_SUCCESS;
  if (!there) {
    pthread_mutex_lock(&module_lock);
    struct module *module = handle_object(WIRE_KIND_MODULE, (*function)->module);
    uint64_t handle;
    result = module ? library_here(&module) : CUDA_ERROR_INVALID_HANDLE;
    if (!result) result = module_get_function(&handle, module, (*function)->name);
    if (!result) {
      there = handle_object(WIRE_KIND_FUNCTION, handle);
      atomic_store(&(*function)->beside[session->number], there);
    }
    pthread_mutex_unlock(&module_lock);
  }
  if (!result) *function = there;
  return result;
}

void library_end_beside(struct module *module) {
  for (struct session *session = sessions; session < sessions + SESSIONS_MAX; session++) {
    struct module *there = module->beside[session->number]
                               ? handle_object(WIRE_KIND_MODULE, module->beside[session->number])
                               : NULL;
    if (!there) continue;
    struct thread_session before = session_switch(session);
    module_end(there);
    session_back(before);
  }
}
