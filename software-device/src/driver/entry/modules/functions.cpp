// Entry points: functions, kernels and their attributes.
#include "entry/entry.h"
#include "streams/launch.h"

using namespace softdev::driver;

namespace {

// A function is in a context, as it was found in a module of it; a kernel is meant as it is in the
// current one.
CUresult find(const void *handle, Callable *callable) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter_anywhere(&context)) return bad;
  if (!context && driver()->handles.find<LibraryKernel>(handle))
    if (CUresult bad = enter(&context)) return bad;
  return guarded([&] { return find_callable(handle, context, callable); });
}

// A kernel as it is on a device: in the current context if that is of the device, else in the
// device's primary one.
CUresult find_on(CUkernel handle, CUdevice ordinal, Callable *callable) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter_anywhere(&context)) return bad;
  Device *device = driver()->device(ordinal);
  if (!device) return CUDA_ERROR_INVALID_DEVICE;
  if (!driver()->handles.find<LibraryKernel>(handle))
    return refuse(CUDA_ERROR_INVALID_HANDLE, "%p is no kernel", static_cast<void *>(handle));
  if (!context || &context->device() != device) {
    context = device->primary;
    if (!context->active()) return CUDA_ERROR_INVALID_CONTEXT;
  }
  return guarded([&] { return find_callable(handle, context, callable); });
}

int required_cluster(const softdev::KernelAttributes &attributes, const FunctionSettings &settings,
                     int dimension) {
  if (attributes.required_cluster[0])
    return static_cast<int>(attributes.required_cluster[dimension]);
  return settings.cluster[dimension];
}

CUresult require_cluster(const Callable &callable, int dimension, int value) {
  if (CUresult bad = prepare(*callable.kernel)) return bad;
  if (callable.kernel->attributes().required_cluster[0])
    return refuse(CUDA_ERROR_INVALID_VALUE, "%s was compiled for clusters of one size",
                  callable.kernel->name().c_str());
  if (value < 0) return CUDA_ERROR_INVALID_VALUE;
  callable.settings->cluster[dimension] = value;
  return CUDA_SUCCESS;
}

CUresult get(int *value, CUfunction_attribute which, const Callable &callable) {
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult bad = prepare(*callable.kernel)) return bad;
  const softdev::KernelAttributes &attributes = callable.kernel->attributes();
  const FunctionSettings &settings = *callable.settings;
  const Device &device = callable.instance->context()->device();
  switch (which) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = static_cast<int>(attributes.max_threads);
      break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = static_cast<int>(attributes.static_shared);
      break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
      *value = 0;
      break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      *value = static_cast<int>(attributes.local_bytes);
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = static_cast<int>(attributes.registers);
      break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      *value = attributes.ptx_version;
      break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = device.compute_major * 10 + device.compute_minor;
      break;
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
      *value = 0;
      break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = dynamic_shared_limit(attributes, settings);
      break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      *value = settings.carveout;
      break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
      *value = attributes.cluster_must_be_set;
      break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
      *value = required_cluster(attributes, settings, 0);
      break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
      *value = required_cluster(attributes, settings, 1);
      break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
      *value = required_cluster(attributes, settings, 2);
      break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      *value = settings.non_portable_cluster;
      break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      *value = settings.cluster_policy;
      break;
    default:
      return refuse(CUDA_ERROR_INVALID_VALUE, "there is no function attribute %d", which);
  }
  return CUDA_SUCCESS;
}

CUresult set(CUfunction_attribute which, int value, const Callable &callable) {
  FunctionSettings &settings = *callable.settings;
  switch (which) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: {
      if (CUresult bad = prepare(*callable.kernel)) return bad;
      int most = callable.instance->context()->device().multiprocessor().shared_of_block -
                 static_cast<int>(callable.kernel->attributes().static_shared);
      if (value < 0 || value > most)
        return refuse(CUDA_ERROR_INVALID_VALUE,
                      "%s can have at most %d bytes of dynamic shared "
                      "memory, not %d",
                      callable.kernel->name().c_str(), most, value);
      settings.max_dynamic_shared = value;
      return CUDA_SUCCESS;
    }
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      if (value < -1 || value > 100) return CUDA_ERROR_INVALID_VALUE;
      settings.carveout = value;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      settings.non_portable_cluster = value != 0;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      settings.cluster_policy = value;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
      return require_cluster(callable, 0, value);
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
      return require_cluster(callable, 1, value);
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
      return require_cluster(callable, 2, value);
    default:
      return refuse(CUDA_ERROR_INVALID_VALUE, "function attribute %d cannot be set", which);
  }
}

CUresult parameter(const std::vector<softdev::ParameterInfo> &parameters, size_t index,
                   size_t *offset, size_t *size) {
  if (!offset || index >= parameters.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = parameters[index].offset;
  if (size) *size = parameters[index].size;
  return CUDA_SUCCESS;
}

CUresult cache_config(const Callable &callable, CUfunc_cache config) {
  if (static_cast<unsigned>(config) > CU_FUNC_CACHE_PREFER_EQUAL) return CUDA_ERROR_INVALID_VALUE;
  callable.settings->cache_config = config;
  return CUDA_SUCCESS;
}

// Of a kernel in whatever context: `tell(parameters)`.
template <class Tell>
CUresult with_parameters(CUkernel handle, Tell tell) {
  if (CUresult bad = enter()) return bad;
  auto kernel = driver()->handles.find<LibraryKernel>(handle);
  auto library = kernel ? kernel->library.lock() : nullptr;
  if (!library) return CUDA_ERROR_INVALID_HANDLE;
  return guarded([&]() -> CUresult {
    std::vector<softdev::ParameterInfo> parameters;
    std::string reason;
    if (CUresult bad = library->parameters(kernel->name, &parameters, &reason))
      return refuse(bad, "%s", reason.c_str());
    return tell(parameters);
  });
}

}  // namespace

extern "C" {

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute which, CUfunction function) {
  Callable callable;
  if (CUresult bad = find(function, &callable)) return bad;
  return get(value, which, callable);
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute which, int value) {
  Callable callable;
  if (CUresult bad = find(function, &callable)) return bad;
  return set(which, value, callable);
}

CUresult cuFuncGetName(const char **name, CUfunction function) {
  Callable callable;
  if (CUresult bad = find(function, &callable)) return bad;
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  *name = callable.kernel->name().c_str();
  return CUDA_SUCCESS;
}

CUresult cuFuncGetModule(CUmodule *module, CUfunction function) {
  Callable callable;
  if (CUresult bad = find(function, &callable)) return bad;
  if (!module) return CUDA_ERROR_INVALID_VALUE;
  *module = reinterpret_cast<CUmodule>(callable.instance->module);
  return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *size) {
  Callable callable;
  if (CUresult bad = find(function, &callable)) return bad;
  return parameter(callable.kernel->parameters(), index, offset, size);
}

CUresult cuFuncGetParamCount(CUfunction function, size_t *count) {
  Callable callable;
  if (CUresult bad = find(function, &callable)) return bad;
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  *count = callable.kernel->parameters().size();
  return CUDA_SUCCESS;
}

CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config) {
  Callable callable;
  if (CUresult bad = find(function, &callable)) return bad;
  return cache_config(callable, config);
}

CUresult cuFuncSetSharedMemConfig(CUfunction function, CUsharedconfig config) {
  Callable callable;
  if (CUresult bad = find(function, &callable)) return bad;
  return static_cast<unsigned>(config) > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE
             ? CUDA_ERROR_INVALID_VALUE
             : CUDA_SUCCESS;
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function) {
  Callable callable;
  if (CUresult bad = find(function, &callable)) return bad;
  if (!state) return CUDA_ERROR_INVALID_VALUE;
  *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction function) {
  Callable callable;
  if (CUresult bad = find(function, &callable)) return bad;
  return prepare(*callable.kernel);
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel) {
  Callable callable;
  if (CUresult bad = find(kernel, &callable)) return bad;
  if (!function) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&] {
    *function =
        as_handle<CUfunction>(*callable.instance->function(callable.kernel, callable.settings));
    return CUDA_SUCCESS;
  });
}

CUresult cuKernelGetName(const char **name, CUkernel handle) {
  if (CUresult bad = enter()) return bad;
  auto kernel = driver()->handles.find<LibraryKernel>(handle);
  if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  *name = kernel->name.c_str();
  return CUDA_SUCCESS;
}

CUresult cuKernelGetLibrary(CUlibrary *library, CUkernel handle) {
  if (CUresult bad = enter()) return bad;
  auto kernel = driver()->handles.find<LibraryKernel>(handle);
  auto owner = kernel ? kernel->library.lock() : nullptr;
  if (!owner) return CUDA_ERROR_INVALID_HANDLE;
  if (!library) return CUDA_ERROR_INVALID_VALUE;
  *library = as_handle<CUlibrary>(*owner);
  return CUDA_SUCCESS;
}

CUresult cuKernelGetParamInfo(CUkernel handle, size_t index, size_t *offset, size_t *size) {
  return with_parameters(handle, [&](const std::vector<softdev::ParameterInfo> &parameters) {
    return parameter(parameters, index, offset, size);
  });
}

CUresult cuKernelGetParamCount(CUkernel handle, size_t *count) {
  return with_parameters(handle, [&](const std::vector<softdev::ParameterInfo> &parameters) {
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    *count = parameters.size();
    return CUDA_SUCCESS;
  });
}

CUresult cuKernelGetAttribute(int *value, CUfunction_attribute which, CUkernel kernel,
                              CUdevice device) {
  Callable callable;
  if (CUresult bad = find_on(kernel, device, &callable)) return bad;
  return get(value, which, callable);
}

CUresult cuKernelSetAttribute(CUfunction_attribute which, int value, CUkernel kernel,
                              CUdevice device) {
  Callable callable;
  if (CUresult bad = find_on(kernel, device, &callable)) return bad;
  return set(which, value, callable);
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice device) {
  Callable callable;
  if (CUresult bad = find_on(kernel, device, &callable)) return bad;
  return cache_config(callable, config);
}

}  // extern "C"
