// Functions and kernels: look-ups answered from the module's list, attributes asked once.
#include <stdatomic.h>

#include "context.h"
#include "guest_calls.h"
#include "handle.h"
#include "module.h"

CUresult guest_cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel) {
  if (!pFunc) return CUDA_ERROR_INVALID_VALUE;
  if (!function_find(kernel)) return CUDA_ERROR_INVALID_HANDLE;
  *pFunc = (CUfunction)kernel;
  return CUDA_SUCCESS;
}

CUresult guest_cuFuncGetModule(CUmodule *hmod, CUfunction hfunc) {
  struct function *function = function_find(hfunc);
  if (!hmod) return CUDA_ERROR_INVALID_VALUE;
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  *hmod = (CUmodule)(uintptr_t)function->module;
  return CUDA_SUCCESS;
}

CUresult guest_cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel) {
  return guest_cuFuncGetModule((CUmodule *)pLib, (CUfunction)kernel);
}

CUresult guest_cuFuncGetName(const char **name, CUfunction hfunc) {
  struct function *function = function_find(hfunc);
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  *name = function->name;
  return CUDA_SUCCESS;
}

CUresult guest_cuKernelGetName(const char **name, CUkernel hfunc) {
  return guest_cuFuncGetName(name, (CUfunction)hfunc);
}

CUresult guest_cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset,
                                  size_t *paramSize) {
  struct function *function = function_find(func);
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  if (!paramOffset || paramIndex >= function->parameter_count) return CUDA_ERROR_INVALID_VALUE;
  *paramOffset = function->parameters[paramIndex].offset;
  if (paramSize) *paramSize = function->parameters[paramIndex].size;
  return CUDA_SUCCESS;
}

CUresult guest_cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t *paramOffset,
                                    size_t *paramSize) {
  return guest_cuFuncGetParamInfo((CUfunction)kernel, paramIndex, paramOffset, paramSize);
}

CUresult guest_cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function) {
  if (!state) return CUDA_ERROR_INVALID_VALUE;
  if (!function_find(function)) return CUDA_ERROR_INVALID_HANDLE;
  *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}

CUresult guest_cuFuncLoad(CUfunction function) {
  return function_find(function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

// Bank sizes are a thing of GPUs long gone; the call is a no-op on every current one.
CUresult guest_cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config) {
  (void)config;
  return function_find(hfunc) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult guest_cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc) {
  if (!pi || (unsigned)attrib >= FUNCTION_ATTRIBUTES) return CUDA_ERROR_INVALID_VALUE;
  struct function *function = function_find(hfunc);
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  if (function->attributes_known & 1u << attrib) {
    *pi = function->attributes[attrib];
    return CUDA_SUCCESS;
  }
  uint64_t wire;
  CUresult result = function_resolve(hfunc, &function, &wire);
  if (result) return result;
  struct answer answer;
  answer_init(&answer);
  result = ask_cuFuncGetAttribute(attrib, wire, &answer);
  if (!result) {
    const struct wire_cuFuncGetAttribute_reply *reply = answer.reply;
    *pi = reply->pi;
    function->attributes[attrib] = reply->pi;
    atomic_fetch_or(&function->attributes_known, 1u << attrib);
  }
  answer_free(&answer);
  return result;
}

CUresult guest_cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value) {
  if ((unsigned)attrib >= FUNCTION_ATTRIBUTES) return CUDA_ERROR_INVALID_VALUE;
  struct function *function;
  uint64_t wire;
  CUresult result = function_resolve(hfunc, &function, &wire);
  if (result) return result;
  struct answer answer;
  answer_init(&answer);
  result = ask_cuFuncSetAttribute(wire, attrib, value, &answer);
  answer_free(&answer);
  // One attribute may change what others read.
  if (!result) function->attributes_known = 0;
  return result;
}

CUresult guest_cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel,
                                    CUdevice dev) {
  if (!device_exists(dev)) return CUDA_ERROR_INVALID_DEVICE;
  return guest_cuFuncGetAttribute(pi, attrib, (CUfunction)kernel);
}

CUresult guest_cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel,
                                    CUdevice dev) {
  if (!device_exists(dev)) return CUDA_ERROR_INVALID_DEVICE;
  return guest_cuFuncSetAttribute((CUfunction)kernel, attrib, val);
}

CUresult guest_cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev) {
  if (!device_exists(dev)) return CUDA_ERROR_INVALID_DEVICE;
  struct function *function;
  uint64_t wire;
  CUresult result = function_resolve(kernel, &function, &wire);
  return result ? result : put_cuFuncSetCacheConfig(wire, config);
}
