#include "library.h"

#include <stdatomic.h>

#include "handle.h"
#include "jit.h"

static _Bool is_library(const struct module *module) { return !module->context; }

static CUresult load_beside(struct module *module, unsigned lane) {
  if (module->beside[lane]) return CUDA_SUCCESS;
  static const struct jit no_jit;
  uint64_t handle;
  CUresult result = module_load(&module->image, 1, &no_jit, 0, &handle);
  if (!result) module->beside[lane] = handle;
  return result;
}

CUresult library_here(struct module **module) {
  if (!lanes_many() || !is_library(*module)) return CUDA_SUCCESS;
  unsigned lane = lane_here();
  lane_follow(lane, CUDA_ERROR_INVALID_HANDLE);
  if ((*module)->lane == lane) return CUDA_SUCCESS;
  CUresult result = load_beside(*module, lane);
  if (!result) *module = handle_object(WIRE_KIND_MODULE, (*module)->beside[lane]);
  return result;
}

CUresult library_function_here(struct function **function) {
  unsigned lane = lane_here();
  if (!lanes_many() || (*function)->lane == LANE_ANY) return CUDA_SUCCESS;
  lane_follow(lane, CUDA_ERROR_INVALID_HANDLE);
  if ((*function)->lane == lane) return CUDA_SUCCESS;
  struct function *there = atomic_load(&(*function)->beside[lane]);
  CUresult result = CUDA_SUCCESS;
  if (!there) {
    pthread_mutex_lock(&module_lock);
    struct module *module = handle_object(WIRE_KIND_MODULE, (*function)->module);
    uint64_t handle;
    result = module ? library_here(&module) : CUDA_ERROR_INVALID_HANDLE;
    if (!result) result = module_get_function(&handle, module, (*function)->name);
    if (!result) {
      there = handle_object(WIRE_KIND_FUNCTION, handle);
      atomic_store(&(*function)->beside[lane], there);
    }
    pthread_mutex_unlock(&module_lock);
  }
  if (!result) *function = there;
  return result;
}

void library_end_beside(struct module *module) {
  for (unsigned lane = 0; lane < LANES_MAX; lane++) {
    struct module *there =
        module->beside[lane] ? handle_object(WIRE_KIND_MODULE, module->beside[lane]) : NULL;
    if (!there) continue;
    struct lane_thread before = lane_enter(lane);
    module_end(there);
    lane_leave(before);
  }
}
