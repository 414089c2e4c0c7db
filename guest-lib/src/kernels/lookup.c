// Kernels and variables of a module by name: answered from what its load told, else asked once.
#include "kernels/lookup.h"

#include <stdlib.h>
#include <string.h>

#include "guest_calls.h"
#include "kernels/function.h"
#include "kernels/internal.h"
#include "kernels/library.h"
#include "memory/variable.h"
#include "pages/page_ranges.h"
#include "pages/page_variables.h"
#include "session/handle.h"
#include "setup/log.h"
#include "wire/answer.h"

struct function *function_find(const void *handle) {
  return handle_object(WIRE_KIND_FUNCTION, handle_of(handle));
}

// For modules with more kernels than a load's answer lists.
static struct kernel *find_remote(struct session *session, struct module *module, const char *name,
                                  CUresult *result) {
  struct answer answer;
  answer_init(&answer);
  *result = ask_FunctionFind(session, module->wire, name, (uint32_t)strlen(name), &answer);
  struct kernel *kernel = NULL;
  if (!*result) {
    const struct wire_FunctionFind_reply *reply = answer.reply;
    uint64_t room = reply->reply.header.size - sizeof *reply;
    const struct wire_parameter *parameters = (const void *)(reply + 1);
    uint32_t count = reply->layout_size / sizeof *parameters;
    _Bool sound = reply->layout_size <= room && reply->parameter_bytes <= WIRE_FRAME_MAX / 2;
    for (uint32_t p = 0; sound && p < count; p++)
      sound = parameters[p].offset <= reply->parameter_bytes &&
              parameters[p].size <= reply->parameter_bytes - parameters[p].offset;
    if (sound) kernel = module_add_kernel(module, name, (uint32_t)strlen(name), parameters, count);
    if (kernel) {
      kernel->index = reply->kernel;
      kernel->parameter_bytes = reply->parameter_bytes;
    } else {
      *result = sound ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_UNKNOWN;
    }
  }
  answer_free(&answer);
  return kernel;
}

static CUresult bind(struct module *module, struct kernel *kernel) {
  struct function *function = calloc(1, sizeof *function);
  size_t layout = sizeof *kernel->parameters * kernel->parameter_count;
  if (function) {
    function->name = strdup(kernel->name);
    function->parameters = malloc(layout ? layout : 1);
  }
  _Bool library = !module->context;
  if (function) function->session = library ? module->session : NULL;
  // The kernels of a program's library are for any session.
  _Bool any = library && handle_session(WIRE_KIND_MODULE, module->own) == NULL;
  if (!function || !function->name || !function->parameters ||
      !(kernel->function = any ? handle_mint_for_any(WIRE_KIND_FUNCTION, function)
                               : handle_mint(session_here(), WIRE_KIND_FUNCTION, function))) {
    function_free(function);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  function->module = module->own;
  function->wire = kernel->function;
  function->index = kernel->index;
  memcpy(function->parameters, kernel->parameters, layout);
  function->parameter_count = kernel->parameter_count;
  function->parameter_bytes = kernel->parameter_bytes;
  if (kernel->description) function_take_description(function, kernel->description);
  return put_FunctionGet(session_here(), module->wire, kernel->function, kernel->index,
                         kernel->name, (uint32_t)strlen(kernel->name));
}

// After a reset.
static CUresult bind_again(struct function *function) {
  CUresult result = CUDA_SUCCESS;
  pthread_mutex_lock(&module_lock);
  struct module *module = handle_object(WIRE_KIND_MODULE, function->module);
  struct session *session = session_here();
  if (!function->wire) {
    result = module ? module_revive(module) : CUDA_ERROR_INVALID_HANDLE;
    uint64_t wire = result ? 0 : handle_mint(session, WIRE_KIND_FUNCTION, function);
    if (!result && !wire) result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!result)
      result = put_FunctionGet(session, module->wire, wire, function->index, function->name,
                               (uint32_t)strlen(function->name));
    if (!result) function->wire = wire;
  }
  pthread_mutex_unlock(&module_lock);
  return result;
}

uint64_t function_context(const void *handle) {
  const struct function *function = function_find(handle);
  const struct module *module = function ? handle_object(WIRE_KIND_MODULE, function->module) : NULL;
  return module ? module->context : 0;
}

CUresult function_resolve(const void *handle, struct function **function, uint64_t *wire) {
  *function = function_find(handle);
  if (!*function) return CUDA_ERROR_INVALID_HANDLE;
  if (sessions_many()) {
    CUresult result = library_function_here(function);
    if (result) return result;
  }
  if (__builtin_expect(!(*function)->wire, 0)) {
    CUresult result = bind_again(*function);
    if (result) return result;
  }
  *wire = (*function)->wire;
  return CUDA_SUCCESS;
}

CUresult module_get_function(void *out, struct module *module, const char *name) {
  CUresult result = module_revive(module);
  if (result) return result;
  struct kernel *kernel = NULL;
  for (uint32_t i = 0; i < module->listed && !kernel; i++)
    if (strcmp(module->kernels[i].name, name) == 0) kernel = &module->kernels[i];
  result = CUDA_ERROR_NOT_FOUND;
  if (!kernel && module->listed < module->kernel_count)
    kernel = find_remote(session_here(), module, name, &result);
  if (!kernel) return result;
  result = kernel->function ? CUDA_SUCCESS : bind(module, kernel);
  if (!result) *(uint64_t *)out = kernel->function;
  return result;
}

static CUresult get_function(void *out, const void *handle, const char *name) {
  if (!out || !name) return CUDA_ERROR_INVALID_VALUE;
  if (strlen(name) > WIRE_FRAME_MAX / 2) return CUDA_ERROR_NOT_FOUND;
  pthread_mutex_lock(&module_lock);
  struct module *module = module_find(handle);
  if (module) session_use(module->session);
  CUresult result = module ? module_get_function(out, module, name) : CUDA_ERROR_INVALID_HANDLE;
  pthread_mutex_unlock(&module_lock);
  return result;
}

// The first `room` kernels in the order of the module. What lies beyond a load's list the server
// tells by name only.
static CUresult enumerate(void *out, unsigned room, const void *handle) {
  pthread_mutex_lock(&module_lock);
  struct module *module = module_find(handle);
  if (module) session_use(module->session);
  CUresult result = module ? module_revive(module) : CUDA_ERROR_INVALID_HANDLE;
  if (!result && (!out || !room)) result = CUDA_ERROR_INVALID_VALUE;
  uint32_t count = module && room > module->kernel_count ? module->kernel_count : room;
  if (!result && count > module->in_order) {
    log_warn("a module of %u kernels: only the first %u can be enumerated", module->kernel_count,
             module->in_order);
    result = CUDA_ERROR_NOT_SUPPORTED;
  }
  for (uint32_t i = 0; !result && i < count; i++) {
    struct kernel *kernel = &module->kernels[i];
    if (!kernel->function) result = bind(module, kernel);
    if (!result) ((uint64_t *)out)[i] = kernel->function;
  }
  pthread_mutex_unlock(&module_lock);
  return result;
}

static CUresult ask_global(struct module *module, const char *name, struct global **found) {
  struct thread_session before = session_switch(module->session);
  struct answer answer;
  answer_init(&answer);
  CUresult result =
      ask_ModuleGlobal(module->session, module->wire, name, (uint32_t)strlen(name), &answer);
  if (!result) {
    const struct wire_ModuleGlobal_reply *reply = answer.reply;
    *found = module_add_global(module, name, (uint32_t)strlen(name), reply->address, reply->size,
                               reply->managed != 0);
    if (!*found) result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  answer_free(&answer);
  session_back(before);
  return result;
}

CUresult module_find_global(struct module *module, const char *name, struct global **found) {
  CUresult result = module_revive(module);
  struct global *global = !result ? module->globals : NULL;
  while (global && strcmp(global->name, name) != 0) global = global->next;
  *found = global;
  return result || global ? result : ask_global(module, name, found);
}

// The program gets to know the variable: from now on its address is one.
static CUresult take_into_use(struct module *module, struct global *global) {
  CUresult result = CUDA_SUCCESS;
  if (global->in_use) return result;
  struct thread_session before = session_switch(module->session);
  if (global->managed) {
    if (pages_variables) pages_send_home(global->address);
    result = pages_share_variable(module->session, global->address, global->size);
  }
  if (!result) memory_add_variable(module->session, global->address, global->size, global->managed);
  session_back(before);
  if (result) return result;
  global->in_use = 1;
  return global->managed ? library_share_beside(module, global) : CUDA_SUCCESS;
}

// Finds a variable where the program is told that it lies: on the device of the thread's session;
// one that is managed, on the device where its library was loaded first.
static CUresult find_global(struct module **module, const char *name, _Bool managed_only,
                            struct global **found) {
  struct module *first = *module;
  CUresult result = CUDA_SUCCESS;
  if (!managed_only) result = library_here(module);
  if (!result) result = module_find_global(*module, name, found);
  if (result || !(*found)->managed || *module == first) return result;
  *module = first;
  return module_find_global(first, name, found);
}

static CUresult get_global(CUdeviceptr *dptr, size_t *bytes, const void *handle, const char *name,
                           _Bool managed_only) {
  if (!name || (!dptr && !bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (strlen(name) > WIRE_FRAME_MAX / 2) return CUDA_ERROR_NOT_FOUND;
  pthread_mutex_lock(&module_lock);
  struct module *module = module_find(handle);
  struct global *global = NULL;
  CUresult result =
      module ? find_global(&module, name, managed_only, &global) : CUDA_ERROR_INVALID_HANDLE;
  if (!result && managed_only && !global->managed) result = CUDA_ERROR_NOT_FOUND;
  if (!result) result = take_into_use(module, global);
  if (!result) {
    if (dptr) *dptr = global->address;
    if (bytes) *bytes = global->size;
  }
  pthread_mutex_unlock(&module_lock);
  return result;
}

// ---- entry points ------------------------------------------------------------------------------

CUresult guest_cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name) {
  return get_function(hfunc, hmod, name);
}

CUresult guest_cuModuleEnumerateFunctions(CUfunction *functions, unsigned int numFunctions,
                                          CUmodule mod) {
  return enumerate(functions, numFunctions, mod);
}

CUresult guest_cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int numKernels,
                                         CUlibrary lib) {
  return enumerate(kernels, numKernels, lib);
}

CUresult guest_cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod,
                                    const char *name) {
  return get_global(dptr, bytes, hmod, name, 0);
}

CUresult guest_cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name) {
  return get_function(pKernel, library, name);
}

CUresult guest_cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
                                  const char *name) {
  return get_global(dptr, bytes, library, name, 0);
}

CUresult guest_cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
                                   const char *name) {
  return get_global(dptr, bytes, library, name, 1);
}
