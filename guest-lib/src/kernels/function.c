// Functions and kernels: look-ups answered from what their module's load told.
#include "kernels/function.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "guest_calls.h"
#include "kernels/internal.h"
#include "kernels/lookup.h"
#include "session/context.h"
#include "wire/answer.h"

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

CUresult guest_cuFuncGetParamCount(CUfunction func, size_t *paramCount) {
  const struct function *function = function_find(func);
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  if (!paramCount) return CUDA_ERROR_INVALID_VALUE;
  *paramCount = function->parameter_count;
  return CUDA_SUCCESS;
}

CUresult guest_cuKernelGetParamCount(CUkernel kernel, size_t *paramCount) {
  return guest_cuFuncGetParamCount((CUfunction)kernel, paramCount);
}

CUresult guest_cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function) {
  if (!state) return CUDA_ERROR_INVALID_VALUE;
  if (!function_find(function)) return CUDA_ERROR_INVALID_HANDLE;
  *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}

// Whether the device can run it is asked where it is not known.
CUresult guest_cuFuncLoad(CUfunction hfunc) {
  struct function *function;
  uint64_t wire;
  int threads;
  CUresult result = function_resolve(hfunc, &function, &wire);
  return result ? result
                : function_attribute(session_here(), function, wire,
                                     CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &threads);
}

// Bank sizes are a thing of GPUs long gone; the call is a no-op on every current one.
CUresult guest_cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config) {
  if (!function_find(hfunc)) return CUDA_ERROR_INVALID_HANDLE;
  return (unsigned)config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE ? CUDA_ERROR_INVALID_VALUE
                                                                      : CUDA_SUCCESS;
}

// ---- attributes --------------------------------------------------------------------------------

static void forget_refusals(struct function *function) {
  for (int i = 0; i < FUNCTION_ATTRIBUTES; i++) function->attributes_refused[i] = 0;
}

// Whether a refusal is of the attribute itself, so that asking again would bring the same. What is
// of the moment (memory, an earlier error of the work, a lost connection) is asked again.
static _Bool is_lasting(CUresult refusal) {
  return refusal == CUDA_ERROR_INVALID_VALUE || refusal == CUDA_ERROR_NOT_SUPPORTED;
}

void function_take_description(struct function *function, const struct wire_description *told) {
  for (int i = 0; i < WIRE_FUNCTION_ATTRIBUTES; i++)
    if (told->known & 1u << i) function->attributes[i] = told->attributes[i];
  function->attributes_known = told->known & ((1u << WIRE_FUNCTION_ATTRIBUTES) - 1);
  forget_refusals(function);
  // A kernel that nothing is known of has no occupancy either.
  if (told->known & 1u << CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)
    function_add_occupancy(function, 0, 0, told->blocks);
  function->described = 1;
}

void function_forget_description(struct function *function) {
  function->described = 0;
  function->attributes_known = 0;
  forget_refusals(function);
  function->cluster_set = 0;
  function_forget_occupancy(function);
}

void function_free(struct function *function) {
  if (!function) return;
  function_forget_occupancy(function);
  free(function->staged);
  free(function->name);
  free(function->parameters);
  free(function);
}

CUresult function_describe(struct session *session, struct function *function, uint64_t wire) {
  if (function->described) return CUDA_SUCCESS;
  struct answer answer;
  answer_init(&answer);
  CUresult result = ask_FunctionDescribe(session, wire, &answer);
  if (!result) {
    const struct wire_FunctionDescribe_reply *reply = answer.reply;
    struct wire_description told;
    if (reply->description_size == sizeof told &&
        reply->reply.header.size - sizeof *reply >= sizeof told) {
      memcpy(&told, reply + 1, sizeof told);
      function_take_description(function, &told);
    } else {
      result = CUDA_ERROR_UNKNOWN;
    }
  }
  answer_free(&answer);
  return result;
}

CUresult function_attribute(struct session *session, struct function *function, uint64_t wire,
                            CUfunction_attribute attribute, int *value) {
  if ((unsigned)attribute >= FUNCTION_ATTRIBUTES) return CUDA_ERROR_INVALID_VALUE;
  if (!(function->attributes_known & 1u << attribute) && attribute < WIRE_FUNCTION_ATTRIBUTES) {
    CUresult result = function_describe(session, function, wire);
    if (result) return result;
  }
  if (function->attributes_known & 1u << attribute) {
    *value = function->attributes[attribute];
    return CUDA_SUCCESS;
  }
  // One that the driver did not tell: it says why, or is newer than this library.
  const CUresult refused = (CUresult)function->attributes_refused[attribute];
  if (refused) return refused;
  struct answer answer;
  answer_init(&answer);
  CUresult result = ask_cuFuncGetAttribute(session, attribute, wire, &answer);
  if (!result) {
    *value = ((const struct wire_cuFuncGetAttribute_reply *)answer.reply)->pi;
    function->attributes[attribute] = *value;
    atomic_fetch_or(&function->attributes_known, 1u << attribute);
  } else if (is_lasting(result)) {
    function->attributes_refused[attribute] = (uint16_t)result;
  }
  answer_free(&answer);
  return result;
}

CUresult guest_cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc) {
  struct function *function;
  uint64_t wire;
  CUresult result = function_resolve(hfunc, &function, &wire);
  if (result) return result;
  return pi ? function_attribute(session_here(), function, wire, attrib, pi)
            : CUDA_ERROR_INVALID_VALUE;
}

// Whether the value can be set is known here. False: it is the driver's to say.
static _Bool check_set(struct function *function, CUfunction_attribute attribute, int *value,
                       CUresult *result) {
  const uint32_t shared = 1u << CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
  int most = device_attribute(device_here(), CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  *result = CUDA_SUCCESS;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      if (!most || !(function->attributes_known & shared)) return 0;
      most -= function->attributes[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES];
      if (*value < 0 || *value > most) *result = CUDA_ERROR_INVALID_VALUE;
      return 1;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      if (*value < -1 || *value > 100) *result = CUDA_ERROR_INVALID_VALUE;
      return 1;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      *value = *value != 0;
      return 1;
    default:
      return 0;
  }
}

CUresult guest_cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value) {
  struct function *function;
  uint64_t wire;
  CUresult result = function_resolve(hfunc, &function, &wire);
  if (result) return result;
  if ((unsigned)attrib >= FUNCTION_ATTRIBUTES) return CUDA_ERROR_INVALID_VALUE;
  if ((result = function_describe(session_here(), function, wire))) return result;
  struct session *session = session_here();
  if (check_set(function, attrib, &value, &result)) {
    if (!result) result = put_FunctionSet(session, wire, attrib, value);
    if (result) return result;
    function->attributes[attrib] = value;
    if (attrib == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)
      function_forget_occupancy(function);
    return CUDA_SUCCESS;
  }
  struct answer answer;
  answer_init(&answer);
  result = ask_cuFuncSetAttribute(session, wire, attrib, value, &answer);
  answer_free(&answer);
  // One attribute may change what others read.
  if (result) return result;
  _Bool cluster_set = function->cluster_set;
  function_forget_description(function);
  function->cluster_set = cluster_set || (attrib >= CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH &&
                                          attrib <= CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH);
  return CUDA_SUCCESS;
}

CUresult guest_cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config) {
  struct function *function;
  uint64_t wire;
  CUresult result = function_resolve(hfunc, &function, &wire);
  if (result) return result;
  if ((unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL) return CUDA_ERROR_INVALID_VALUE;
  return put_cuFuncSetCacheConfig(session_here(), wire, config);
}

CUresult guest_cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel,
                                    CUdevice dev) {
  if (!device_exists(dev)) return CUDA_ERROR_INVALID_DEVICE;
  session_use(session_of_device(dev));
  return guest_cuFuncGetAttribute(pi, attrib, (CUfunction)kernel);
}

CUresult guest_cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel,
                                    CUdevice dev) {
  if (!device_exists(dev)) return CUDA_ERROR_INVALID_DEVICE;
  session_use(session_of_device(dev));
  return guest_cuFuncSetAttribute((CUfunction)kernel, attrib, val);
}

CUresult guest_cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev) {
  if (!device_exists(dev)) return CUDA_ERROR_INVALID_DEVICE;
  session_use(session_of_device(dev));
  return guest_cuFuncSetCacheConfig((CUfunction)kernel, config);
}
