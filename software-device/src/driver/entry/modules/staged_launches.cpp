// Entry points: launches as before CUDA 4: shape and parameters are set on the function, one call
// each, and then it is launched.
#include "entry/entry.h"
#include "streams/launch.h"

using namespace softdev::driver;

namespace {

CUresult look_up(CUfunction handle, std::shared_ptr<Function> *function) {
  *function = driver()->handles.find<Function>(handle);
  if (!*function)
    return refuse(CUDA_ERROR_INVALID_HANDLE, "%p is no function", static_cast<void *>(handle));
  return CUDA_SUCCESS;
}

CUresult find(CUfunction handle, std::shared_ptr<Function> *function) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  return look_up(handle, function);
}

CUresult set_parameter(CUfunction handle, int offset, const void *value, size_t size) {
  std::shared_ptr<Function> function;
  if (CUresult bad = find(handle, &function)) return bad;
  if (!value || offset < 0 || size > limits::kParameterBytes ||
      static_cast<size_t>(offset) > limits::kParameterBytes - size)
    return CUDA_ERROR_INVALID_VALUE;
  return guarded([&] {
    std::lock_guard guard(function->staged.mutex);
    std::vector<uint8_t> &bytes = function->staged.parameters;
    size_t end = static_cast<size_t>(offset) + size;
    if (bytes.size() < end) bytes.resize(end);
    if (size) memcpy(bytes.data() + offset, value, size);
    return CUDA_SUCCESS;
  });
}

CUresult launch_staged(CUfunction handle, int width, int height, CUstream stream_handle) {
  StreamRef stream;
  if (CUresult bad = find_stream(stream_handle, Default::kLegacy, &stream)) return bad;
  std::shared_ptr<Function> function;
  if (CUresult bad = look_up(handle, &function)) return bad;
  if (width <= 0 || height <= 0) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&] {
    std::lock_guard guard(function->staged.mutex);
    StagedLaunch &staged = function->staged;
    staged.parameters.resize(std::max(staged.parameters.size(), staged.parameter_size));
    size_t size = staged.parameter_size;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, staged.parameters.data(),
                     CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    LaunchRequest request;
    request.function = handle;
    request.grid = {static_cast<uint32_t>(width), static_cast<uint32_t>(height), 1};
    request.block = {staged.block[0], staged.block[1], staged.block[2]};
    request.dynamic_shared = staged.shared;
    request.extra = size ? extra : nullptr;
    return launch(stream, request);
  });
}

}  // namespace

extern "C" {

CUresult cuFuncSetBlockShape(CUfunction handle, int x, int y, int z) {
  std::shared_ptr<Function> function;
  if (CUresult bad = find(handle, &function)) return bad;
  if (x <= 0 || y <= 0 || z <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard guard(function->staged.mutex);
  function->staged.block[0] = static_cast<unsigned>(x);
  function->staged.block[1] = static_cast<unsigned>(y);
  function->staged.block[2] = static_cast<unsigned>(z);
  return CUDA_SUCCESS;
}

CUresult cuFuncSetSharedSize(CUfunction handle, unsigned int bytes) {
  std::shared_ptr<Function> function;
  if (CUresult bad = find(handle, &function)) return bad;
  std::lock_guard guard(function->staged.mutex);
  function->staged.shared = bytes;
  return CUDA_SUCCESS;
}

CUresult cuParamSetSize(CUfunction handle, unsigned int bytes) {
  std::shared_ptr<Function> function;
  if (CUresult bad = find(handle, &function)) return bad;
  if (bytes > limits::kParameterBytes) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard guard(function->staged.mutex);
  function->staged.parameter_size = bytes;
  return CUDA_SUCCESS;
}

CUresult cuParamSeti(CUfunction function, int offset, unsigned int value) {
  return set_parameter(function, offset, &value, sizeof value);
}
CUresult cuParamSetf(CUfunction function, int offset, float value) {
  return set_parameter(function, offset, &value, sizeof value);
}
CUresult cuParamSetv(CUfunction function, int offset, void *value, unsigned int bytes) {
  return set_parameter(function, offset, value, bytes);
}

CUresult cuLaunch(CUfunction function) { return launch_staged(function, 1, 1, nullptr); }
CUresult cuLaunchGrid(CUfunction function, int width, int height) {
  return launch_staged(function, width, height, nullptr);
}
CUresult cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream) {
  return launch_staged(function, width, height, stream);
}

}  // extern "C"
