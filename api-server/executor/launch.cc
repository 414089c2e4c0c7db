// Kernel launches: the parameters lie packed in the frame and go to the driver from there.
#include "dispatch.h"
#include "session.h"

namespace outboard {

namespace {

CUresult launch_cooperative(const Driver &driver, const wire_Launch &q, CUfunction function,
                            CUstream stream, void **extra) {
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attribute.value.cooperative = 1;
  const CUlaunchConfig config = {q.grid_x,  q.grid_y, q.grid_z, q.block_x,  q.block_y,
                                 q.block_z, q.shared, stream,   &attribute, 1};
  return driver.cuLaunchKernelEx(&config, function, nullptr, extra);
}

}  // namespace

void handle_Launch(Session &s, const wire_Launch &q, std::span<const uint8_t> parameters) {
  const auto posted = [&](CUresult result) { s.posted(WIRE_Launch, result); };
  const Function *function = s.find_function(q.function);
  CUstream stream;
  if (!function || !s.find(q.stream, &stream)) return posted(CUDA_ERROR_INVALID_HANDLE);
  if (function->layout_known && parameters.size() != function->parameter_bytes) {
    return posted(CUDA_ERROR_INVALID_VALUE);
  }
  s.gate();
  count_alone(s.count().launches);
  s.launched();
  size_t size = parameters.size();
  void *packed[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, const_cast<uint8_t *>(parameters.data()),
                    CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
  void **extra = size ? packed : nullptr;
  if (q.cooperative) {
    return posted(launch_cooperative(s.driver(), q, function->object, stream, extra));
  }
  posted(s.driver().cuLaunchKernel(function->object, q.grid_x, q.grid_y, q.grid_z, q.block_x,
                                   q.block_y, q.block_z, q.shared, stream, nullptr, extra));
}

}  // namespace outboard
