// Kernel launches: the parameters lie packed in the frame and go to the driver from there.
#include "commands/launch_attributes.h"
#include "dispatch.h"
#include "session/session.h"

namespace outboard {

namespace {

template <class Command>
uint64_t blocks_of(const Command &q) {
  return blocks_of_grid(q.grid_x, q.grid_y, q.grid_z);
}

// What a launch needs beside its shape; `result` is why it cannot be.
struct Target {
  Function *function;
  CUstream stream = nullptr;
  CUresult result = CUDA_ERROR_INVALID_HANDLE;

  template <class Command>
  Target(Session &s, const Command &q, std::span<const uint8_t> parameters)
      : function(s.objects().find_function(q.function)) {
    if (!function || !s.objects().find(q.stream, &stream)) return;
    const bool fits = !function->layout_known || parameters.size() == function->parameter_bytes;
    result = fits ? s.stacks().need(function) : CUDA_ERROR_INVALID_VALUE;
  }
};

// The parameters of a launch as the driver takes them in one piece.
class Packed {
 public:
  explicit Packed(std::span<const uint8_t> parameters)
      : size_(parameters.size()),
        words_{CU_LAUNCH_PARAM_BUFFER_POINTER, const_cast<uint8_t *>(parameters.data()),
               CU_LAUNCH_PARAM_BUFFER_SIZE, &size_, CU_LAUNCH_PARAM_END} {}
  Packed(const Packed &) = delete;
  void **extra() { return size_ ? words_ : nullptr; }

 private:
  size_t size_;
  void *words_[5];
};

template <class Command>
CUresult launch(const Gate::Pass &pass, const Command &q, const Target &target,
                CUlaunchAttribute *attributes, unsigned count, Packed &packed) {
  const CUlaunchConfig config = {q.grid_x,  q.grid_y, q.grid_z,      q.block_x,  q.block_y,
                                 q.block_z, q.shared, target.stream, attributes, count};
  return pass->cuLaunchKernelEx(&config, target.function->object, nullptr, packed.extra());
}

}  // namespace

void handle_Launch(Session &s, const wire_Launch &q, std::span<const uint8_t> parameters,
                   Starts<Work::kKernel> work) {
  const auto posted = [&](CUresult result) { s.posted(WIRE_Launch, result); };
  const Target target(s, q, parameters);
  if (target.result != CUDA_SUCCESS) return posted(target.result);
  count_alone(s.count().launches);
  s.answers().launched();
  Packed packed(parameters);
  Gate::Pass pass = work.launch(target.stream, *target.function->cost, blocks_of(q));
  if (q.cooperative) {
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attribute.value.cooperative = 1;
    return posted(pass.started(launch(pass, q, target, &attribute, 1, packed)));
  }
  posted(pass.started(pass->cuLaunchKernel(target.function->object, q.grid_x, q.grid_y, q.grid_z,
                                           q.block_x, q.block_y, q.block_z, q.shared, target.stream,
                                           nullptr, packed.extra())));
}

void handle_LaunchWith(Session &s, const wire_LaunchWith &q, std::span<const uint8_t> attributes,
                       std::span<const uint8_t> parameters, Starts<Work::kKernel> work) {
  const auto posted = [&](CUresult result) { s.posted(WIRE_LaunchWith, result); };
  LaunchAttributes read;
  if (const char *why = read.decode(attributes)) return s.violation(why);
  const Target target(s, q, parameters);
  if (target.result != CUDA_SUCCESS) return posted(target.result);
  if (const CUresult result = read.resolve(s); result != CUDA_SUCCESS) return posted(result);
  count_alone(s.count().launches);
  s.answers().launched();
  Packed packed(parameters);
  Gate::Pass pass = work.launch(target.stream, *target.function->cost, blocks_of(q));
  posted(pass.started(launch(pass, q, target, read.data(), read.count(), packed)));
}

}  // namespace outboard
