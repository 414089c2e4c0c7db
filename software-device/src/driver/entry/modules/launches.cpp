// Entry points: launches and host functions.
#include "entry/entry.h"
#include "streams/host_function.h"
#include "streams/launch.h"

using namespace softdev::driver;

namespace {

CUresult run(const LaunchRequest &request, CUstream handle, Default null) {
  StreamRef stream;
  if (CUresult bad = find_for_work(handle, null, &stream)) return bad;
  return guarded([&] { return launch(stream, request); });
}

CUresult run_with_attributes(const CUlaunchConfig *config, CUfunction function, void **parameters,
                             void **extra, Default null) {
  if (!config || (config->numAttrs && !config->attrs)) return CUDA_ERROR_INVALID_VALUE;
  LaunchRequest request{
      .function = function,
      .grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
      .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
      .dynamic_shared = config->sharedMemBytes,
      .parameters = parameters,
      .extra = extra,
  };
  return guarded([&]() -> CUresult {
    for (unsigned i = 0; i < config->numAttrs; i++)
      if (CUresult bad = apply(config->attrs[i], &request)) return bad;
    return run(request, config->hStream, null);
  });
}

CUresult call_host(CUstream handle, CUhostFn function, void *data, unsigned sync_mode,
                   Default null) {
  StreamRef stream;
  if (CUresult bad = find_for_work(handle, null, &stream)) return bad;
  if (!function || sync_mode > CU_HOST_TASK_SPINWAIT) return CUDA_ERROR_INVALID_VALUE;
  return guarded(
      [&] { return submit(stream, std::make_shared<HostTask>(stream.context, function, data)); });
}

CUresult add_callback(CUstream handle, CUstreamCallback callback, void *data, unsigned flags,
                      Default null) {
  StreamRef stream;
  if (CUresult bad = find_for_work(handle, null, &stream)) return bad;
  if (!callback || flags) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&]() -> CUresult {
    // A node of a graph would have no stream to tell it of.
    if (CUresult bad = admit(stream, Use::kWait)) return bad;
    auto work = std::make_shared<Operation>(stream.context, Where::kProgram);
    work->always = true;  // unlike host functions, these are told of errors
    work->run = [handle, callback, data](Operation &operation) {
      HostFunctionScope scope;
      callback(handle, operation.context()->error(), data);
    };
    Queue::push(*stream, work);
    return CUDA_SUCCESS;
  });
}

}  // namespace

extern "C" {

#define SHAPE                                                                          \
  unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x, \
      unsigned int block_y, unsigned int block_z, unsigned int shared
#define REQUEST(is_cooperative, with_extra)                                                       \
  LaunchRequest {                                                                                 \
    .function = function, .grid = {grid_x, grid_y, grid_z}, .block = {block_x, block_y, block_z}, \
    .dynamic_shared = shared, .cooperative = is_cooperative, .parameters = parameters,            \
    .extra = with_extra                                                                           \
  }

CUresult cuLaunchKernel(CUfunction function, SHAPE, CUstream stream, void **parameters,
                        void **extra) {
  return run(REQUEST(false, extra), stream, Default::kLegacy);
}
CUresult cuLaunchKernel_ptsz(CUfunction function, SHAPE, CUstream stream, void **parameters,
                             void **extra) {
  return run(REQUEST(false, extra), stream, Default::kPerThread);
}
CUresult cuLaunchCooperativeKernel(CUfunction function, SHAPE, CUstream stream, void **parameters) {
  return run(REQUEST(true, nullptr), stream, Default::kLegacy);
}
CUresult cuLaunchCooperativeKernel_ptsz(CUfunction function, SHAPE, CUstream stream,
                                        void **parameters) {
  return run(REQUEST(true, nullptr), stream, Default::kPerThread);
}
CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters,
                          void **extra) {
  return run_with_attributes(config, function, parameters, extra, Default::kLegacy);
}
CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction function, void **parameters,
                               void **extra) {
  return run_with_attributes(config, function, parameters, extra, Default::kPerThread);
}
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data) {
  return call_host(stream, function, data, CU_HOST_TASK_BLOCKING, Default::kLegacy);
}
CUresult cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn function, void *data) {
  return call_host(stream, function, data, CU_HOST_TASK_BLOCKING, Default::kPerThread);
}
CUresult cuLaunchHostFunc_v2(CUstream stream, CUhostFn function, void *data,
                             unsigned int sync_mode) {
  return call_host(stream, function, data, sync_mode, Default::kLegacy);
}
CUresult cuLaunchHostFunc_v2_ptsz(CUstream stream, CUhostFn function, void *data,
                                  unsigned int sync_mode) {
  return call_host(stream, function, data, sync_mode, Default::kPerThread);
}
CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void *data,
                             unsigned int flags) {
  return add_callback(stream, callback, data, flags, Default::kLegacy);
}
CUresult cuStreamAddCallback_ptsz(CUstream stream, CUstreamCallback callback, void *data,
                                  unsigned int flags) {
  return add_callback(stream, callback, data, flags, Default::kPerThread);
}

}  // extern "C"
