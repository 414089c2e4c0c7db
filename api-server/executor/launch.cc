// Kernel launches: the parameters lie packed in the frame and go to the driver from there.
#include "dispatch.h"
#include "session.h"

namespace outboard {

namespace {

CUresult launch_cooperative(const Gate::Pass &pass, const wire_Launch &q, CUfunction function,
                            CUstream stream, void **extra) {
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attribute.value.cooperative = 1;
  const CUlaunchConfig config = {q.grid_x,  q.grid_y, q.grid_z, q.block_x,  q.block_y,
                                 q.block_z, q.shared, stream,   &attribute, 1};
  return pass->cuLaunchKernelEx(&config, function, nullptr, extra);
}

// Saturates: the driver refuses what is too large.
uint64_t blocks_of(const wire_Launch &q) {
  uint64_t blocks = uint64_t{q.grid_x} * q.grid_y;
  return __builtin_mul_overflow(blocks, q.grid_z, &blocks) ? UINT64_MAX : blocks;
}

}  // namespace

void handle_Launch(Session &s, const wire_Launch &q, std::span<const uint8_t> parameters,
                   Starts<Work::kKernel> work) {
  const auto posted = [&](CUresult result) { s.posted(WIRE_Launch, result); };
  const Function *function = s.find_function(q.function);
  CUstream stream;
  if (!function || !s.find(q.stream, &stream)) return posted(CUDA_ERROR_INVALID_HANDLE);
  if (function->layout_known && parameters.size() != function->parameter_bytes) {
    return posted(CUDA_ERROR_INVALID_VALUE);
  }
  count_alone(s.count().launches);
  s.launched();
  size_t size = parameters.size();
  void *packed[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, const_cast<uint8_t *>(parameters.data()),
                    CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
  void **extra = size ? packed : nullptr;
  Gate::Pass pass = work.kernel(stream, *function->cost, blocks_of(q));
  if (q.cooperative) {
    return posted(pass.did(launch_cooperative(pass, q, function->object, stream, extra)));
  }
  posted(pass.did(pass->cuLaunchKernel(function->object, q.grid_x, q.grid_y, q.grid_z, q.block_x,
                                       q.block_y, q.block_z, q.shared, stream, nullptr, extra)));
}

}  // namespace outboard
