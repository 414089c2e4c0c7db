// Entry points: launches and host functions.
#include "entry/entry.h"
#include "streams/launch.h"

using namespace softdev::driver;

namespace {

CUresult run(const LaunchRequest &request, CUstream handle, Default null) {
  StreamRef stream;
  if (CUresult bad = find_stream(handle, null, &stream)) return bad;
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
  for (unsigned i = 0; i < config->numAttrs; i++) {
    const CUlaunchAttribute &attribute = config->attrs[i];
    switch (attribute.id) {
      case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        request.cooperative = attribute.value.cooperative != 0;
        break;
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        if (attribute.value.clusterDim.x > 1 || attribute.value.clusterDim.y > 1 ||
            attribute.value.clusterDim.z > 1)
          return refuse(CUDA_ERROR_NOT_SUPPORTED, "clusters of blocks are not supported");
        break;
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
      case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
      case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
        return refuse(CUDA_ERROR_NOT_SUPPORTED, "launch attribute %d is not supported",
                      attribute.id);
      default:  // hints
        log(Level::kDebug, "launch attribute %d has no effect here", attribute.id);
        break;
    }
  }
  return run(request, config->hStream, null);
}

CUresult call_host(CUstream handle, CUhostFn function, void *data, Default null) {
  StreamRef stream;
  if (CUresult bad = find_stream(handle, null, &stream)) return bad;
  if (!function) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&]() -> CUresult {
    auto work = std::make_shared<Operation>(stream.context, Where::kProgram);
    work->run = [function, data](Operation &) {
      HostFunctionScope scope;
      function(data);
    };
    Queue::push(*stream, work);
    return CUDA_SUCCESS;
  });
}

CUresult add_callback(CUstream handle, CUstreamCallback callback, void *data, unsigned flags,
                      Default null) {
  StreamRef stream;
  if (CUresult bad = find_stream(handle, null, &stream)) return bad;
  if (!callback || flags) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&]() -> CUresult {
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
  return call_host(stream, function, data, Default::kLegacy);
}
CUresult cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn function, void *data) {
  return call_host(stream, function, data, Default::kPerThread);
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
