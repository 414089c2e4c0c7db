// Entry points: contexts.
#include <algorithm>

#include "entry/entry.h"
#include "streams/task.h"
#include "streams/transfer.h"

using namespace softdev::driver;

namespace softdev::driver {

CUresult find_stream(CUstream handle, Default null, StreamRef *stream) {
  if (!handle) handle = null == Default::kLegacy ? CU_STREAM_LEGACY : CU_STREAM_PER_THREAD;
  if (handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
    std::shared_ptr<Context> context;
    if (CUresult bad = enter(&context)) return bad;
    *stream = {handle == CU_STREAM_LEGACY ? context->legacy_stream() : context->per_thread_stream(),
               context};
  } else {
    if (CUresult bad = enter()) return bad;
    auto found = driver()->handles.find<Stream>(handle);
    if (!found) return refuse(CUDA_ERROR_INVALID_HANDLE, "%p is no stream", (void *)handle);
    std::shared_ptr<Context> owner = found->context.lock();
    if (!owner || !owner->active()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (CUresult sticky = owner->error()) return sticky;
    *stream = {std::move(found), std::move(owner)};
  }
  return CUDA_SUCCESS;
}

CUresult find_for_work(CUstream handle, Default null, StreamRef *stream) {
  CUresult bad = find_stream(handle, null, stream);
  return bad ? bad : admit(*stream, Use::kQueue);
}

CUresult find_for_transfer(CUstream handle, Default null, bool asynchronous, StreamRef *stream) {
  if (asynchronous) return find_for_work(handle, null, stream);
  CUresult bad = find_stream(handle, null, stream);
  if (!bad) bad = admit_unsafe();
  return bad ? bad : admit(*stream, Use::kWait);
}

}  // namespace softdev::driver

namespace {

// A context handle that is alive, or the current one for NULL.
CUresult find(CUcontext handle, std::shared_ptr<Context> *context) {
  if (!handle) return enter(context);
  if (CUresult bad = enter()) return bad;
  *context = driver()->handles.find<Context>(handle);
  if (!*context)
    return refuse(CUDA_ERROR_INVALID_CONTEXT, "%p is no context", static_cast<void *>(handle));
  return CUDA_SUCCESS;
}

CUresult create(CUcontext *handle, unsigned flags, CUdevice ordinal) {
  if (CUresult bad = enter()) return bad;
  Device *device = driver()->device(ordinal);
  if (!device) return CUDA_ERROR_INVALID_DEVICE;
  if (!handle || (flags & ~static_cast<unsigned>(CU_CTX_FLAGS_MASK)))
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult bad = device->claim()) return bad;
  const CUresult result = guarded([&] {
    auto context = std::make_shared<Context>(device, false, flags);
    if (!context->activate())
      return refuse(CUDA_ERROR_OUT_OF_MEMORY, "the device has no memory for a context");
    driver()->handles.add(context);
    device->add_context(context);
    if (!ContextStack::push(context->handle())) return CUDA_ERROR_OUT_OF_MEMORY;
    *handle = as_handle<CUcontext>(*context);
    return CUDA_SUCCESS;
  });
  if (result) device->give_back();
  return result;
}

}  // namespace

extern "C" {

CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device) {
  return create(context, flags, device);
}

CUresult cuCtxCreate(CUcontext *context, unsigned int flags, CUdevice device) {
  return create(context, flags, device);
}

CUresult cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *affinity, int count,
                        unsigned int flags, CUdevice device) {
  if (affinity || count)
    return refuse(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, "contexts cannot have an affinity");
  return create(context, flags, device);
}

CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *parameters, unsigned int flags,
                        CUdevice device) {
  if (parameters && (parameters->execAffinityParams || parameters->numExecAffinityParams))
    return refuse(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, "contexts cannot have an affinity");
  if (parameters && parameters->cigParams)
    return refuse(CUDA_ERROR_NOT_SUPPORTED, "contexts for graphics are not supported");
  return create(context, flags, device);
}

CUresult cuCtxDestroy_v2(CUcontext handle) {
  if (CUresult bad = enter()) return bad;
  auto context = driver()->handles.find<Context>(handle);
  if (!context || context->primary())
    return refuse(CUDA_ERROR_INVALID_CONTEXT, "%p is no context that was created",
                  static_cast<void *>(handle));
  if (!driver()->handles.remove<Context>(handle)) return CUDA_ERROR_INVALID_CONTEXT;
  if (ContextStack::top() == context->handle()) ContextStack::pop();
  context->tear_down();
  context->device().remove_context(context.get());
  context->device().give_back();
  return CUDA_SUCCESS;
}

CUresult cuCtxDestroy(CUcontext handle) { return cuCtxDestroy_v2(handle); }

CUresult cuCtxGetCurrent(CUcontext *context) {
  if (CUresult bad = enter()) return bad;
  if (!context) return CUDA_ERROR_INVALID_VALUE;
  *context = reinterpret_cast<CUcontext>(ContextStack::top());
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext handle) {
  if (CUresult bad = enter()) return bad;
  std::shared_ptr<Context> context;
  if (handle)
    if (CUresult bad = find(handle, &context)) return bad;
  ContextStack::set_top(context ? context->handle() : 0);
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext handle) {
  if (CUresult bad = enter()) return bad;
  if (!handle) return CUDA_ERROR_INVALID_CONTEXT;
  std::shared_ptr<Context> context;
  if (CUresult bad = find(handle, &context)) return bad;
  return ContextStack::push(context->handle()) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuCtxPopCurrent_v2(CUcontext *handle) {
  if (CUresult bad = enter()) return bad;
  uint64_t top = ContextStack::pop();
  if (!top) return CUDA_ERROR_INVALID_CONTEXT;
  if (handle) *handle = reinterpret_cast<CUcontext>(top);
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext handle) { return cuCtxPushCurrent_v2(handle); }
CUresult cuCtxPopCurrent(CUcontext *handle) { return cuCtxPopCurrent_v2(handle); }

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext handle) {
  if (CUresult bad = enter()) return bad;
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  // Asking where one is works in a context that failed, or is not active yet.
  uint64_t number = handle ? reinterpret_cast<uint64_t>(handle) : ContextStack::top();
  auto context = driver()->handles.find<Context>(number);
  if (!context)
    return handle || !number ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_CONTEXT_IS_DESTROYED;
  *device = context->device().ordinal;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device) { return cuCtxGetDevice_v2(device, nullptr); }

CUresult cuCtxGetApiVersion(CUcontext handle, unsigned int *version) {
  std::shared_ptr<Context> context;
  if (CUresult bad = find(handle, &context)) return bad;
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  // The runtime takes this call to see whether a primary context has been reset.
  if (!context->active()) return CUDA_ERROR_INVALID_CONTEXT;
  *version = 3020;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext handle, unsigned long long *id) {
  std::shared_ptr<Context> context;
  if (CUresult bad = find(handle, &context)) return bad;
  if (!context->active()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (!id) return CUDA_ERROR_INVALID_VALUE;
  *id = context->id();
  return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned int *flags) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  *flags = context->flags;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned int flags) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  if (flags & ~static_cast<unsigned>(CU_CTX_FLAGS_MASK)) return CUDA_ERROR_INVALID_VALUE;
  context->flags = flags;
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize_v2(CUcontext handle) {
  std::shared_ptr<Context> context;
  if (CUresult bad = find(handle, &context)) return bad;
  if (!context->active()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return synchronise(context);
}

CUresult cuCtxSynchronize() { return cuCtxSynchronize_v2(nullptr); }

CUresult cuCtxGetLimit(size_t *value, CUlimit limit) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  if (static_cast<unsigned>(limit) >= CU_LIMIT_MAX) return CUDA_ERROR_INVALID_VALUE;
  // No context shares the device with graphics. cuBLASLt asks for that and takes a refusal for a
  // broken device.
  if (limit == CU_LIMIT_CIG_ENABLED || limit == CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED) {
    *value = 0;
    return CUDA_SUCCESS;
  }
  if (!default_limit(limit) && limit != CU_LIMIT_PERSISTING_L2_CACHE_SIZE)
    return CUDA_ERROR_UNSUPPORTED_LIMIT;
  *value = context->limit(limit);
  return CUDA_SUCCESS;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  if (static_cast<unsigned>(limit) >= CU_LIMIT_MAX) return CUDA_ERROR_INVALID_VALUE;
  if (limit == CU_LIMIT_PERSISTING_L2_CACHE_SIZE)
    value = std::min<size_t>(value, limits::kPersistingCache);  // a hint, and clamped
  else if (!default_limit(limit))
    return CUDA_ERROR_UNSUPPORTED_LIMIT;
  if (limit == CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT && value > limits::kMostPendingLaunches)
    return refuse(CUDA_ERROR_OUT_OF_MEMORY, "no more than %zu launches of kernels can be pending",
                  limits::kMostPendingLaunches);
  if (limit == CU_LIMIT_MALLOC_HEAP_SIZE && context->heap_in_use)
    return refuse(CUDA_ERROR_INVALID_VALUE, "a kernel that uses malloc is loaded already");
  const bool reserves = limit == CU_LIMIT_STACK_SIZE || limit == CU_LIMIT_MALLOC_HEAP_SIZE ||
                        limit == CU_LIMIT_PRINTF_FIFO_SIZE;
  if (reserves && value > driver()->memory.physical(context->device().ordinal).total())
    return CUDA_ERROR_OUT_OF_MEMORY;
  if (limit == CU_LIMIT_PRINTF_FIFO_SIZE) {
    value = std::max<size_t>((value + 1023) & ~size_t{1023}, 1024);
    if (!context->set_print_buffer(value))
      return refuse(CUDA_ERROR_INVALID_VALUE,
                    "a kernel that uses printf has been launched already");
  }
  if (limit == CU_LIMIT_STACK_SIZE) {
    if (driver()->settings.traits.hidden_memory) context->drain();
    if (!context->hidden.set_stacks(value))
      return refuse(CUDA_ERROR_OUT_OF_MEMORY, "the device has no memory for stacks of %zu bytes",
                    value);
  }
  std::lock_guard guard(context->limits_mutex);
  context->limits[limit] = value;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  if (least) *least = limits::kLeastPriority;
  if (greatest) *greatest = limits::kGreatestPriority;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *config) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  if (!config) return CUDA_ERROR_INVALID_VALUE;
  *config = static_cast<CUfunc_cache>(context->cache_config.load());
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  if (static_cast<unsigned>(config) > CU_FUNC_CACHE_PREFER_EQUAL) return CUDA_ERROR_INVALID_VALUE;
  context->cache_config = config;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig *config) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  if (!config) return CUDA_ERROR_INVALID_VALUE;
  *config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  // Banks of shared memory have one width on all devices of today: the call is heard and ignored.
  return static_cast<unsigned>(config) > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE
             ? CUDA_ERROR_INVALID_VALUE
             : CUDA_SUCCESS;
}

CUresult cuCtxResetPersistingL2Cache() {
  std::shared_ptr<Context> context;
  return enter(&context);
}

}  // extern "C"
