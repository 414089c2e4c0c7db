#include "entry/work.h"

#include "entry/entry.h"

using namespace softdev::driver;

extern "C" CUresult softwareDeviceWorkNs(CUcontext handle, uint64_t *ns, uint32_t *workers) {
  Driver *all = driver();
  if (!all) return CUDA_ERROR_NOT_INITIALIZED;
  // A GPU does not count either; and where processes take turns, what waits would count as work.
  if (const Traits &traits = all->settings.traits;
      traits.uncounted_work || !traits.time_slices.empty())
    return CUDA_ERROR_NOT_SUPPORTED;
  const uint64_t number = handle ? reinterpret_cast<uint64_t>(handle) : ContextStack::top();
  std::shared_ptr<Context> context = all->handles.find<Context>(number);
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  if (!ns || !workers) return CUDA_ERROR_INVALID_VALUE;
  *ns = context->worked_ns.load(std::memory_order_relaxed);
  *workers = all->engine().workers();
  return CUDA_SUCCESS;
}
