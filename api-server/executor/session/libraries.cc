#include "session/libraries.h"

#include "base/log.h"

namespace outboard {

namespace {
// Beyond so many, sizes are not told apart.
constexpr size_t kMostShapes = 4096;
}  // namespace

bool Libraries::has_room() const {
  // Far beyond what their memory allows.
  constexpr size_t kMost = 256;
  return count_ < kMost;
}

void Libraries::keep(uint64_t handle, std::shared_ptr<CublasHandle> object) {
  handles_.keep(handle, std::move(object));
  ++count_;
}

std::shared_ptr<CublasHandle> Libraries::find(uint64_t handle) {
  const auto *found = handles_.find(handle);
  return found ? *found : nullptr;
}

std::shared_ptr<CublasHandle> Libraries::take(uint64_t handle) {
  std::shared_ptr<CublasHandle> taken;
  if (handles_.take(handle, &taken)) --count_;
  return taken;
}

KernelCost *Libraries::cost_of(uint32_t function, const LibraryArguments &arguments) {
  const uint64_t shape = arguments.shape() * CUBLAS_CALL_COUNT + function;
  const auto found = costs_.find(shape);
  if (found != costs_.end()) return found->second;
  if (costs_.size() >= kMostShapes) return gate_.cost_of(cublas_calls[function].name);
  return costs_[shape] = gate_.cost_of(arguments.text());
}

KernelCost *Libraries::cost_of(const LtArguments &arguments) {
  const std::string text = arguments.text();
  const auto found = lt_costs_.find(text);
  if (found != lt_costs_.end()) return found->second;
  if (lt_costs_.size() >= kMostShapes) return gate_.cost_of("cublasLtMatmul");
  return lt_costs_[text] = gate_.cost_of(text);
}

void *Libraries::lt_handle(int *status) {
  std::lock_guard lock(lt_mutex_);
  *status = kCublasSuccess;
  if (void *handle = lt_handle_there()) return handle;
  void *const handle = cublas()->lt().create(status);
  lt_handle_.store(handle, std::memory_order_release);
  return handle;
}

void Libraries::say_refused(uint64_t session, const std::string &what) {
  constexpr unsigned kMost = 100;
  if (refusals_ >= kMost) return;
  const bool last = ++refusals_ == kMost;
  log_line(LogLevel::kWarn, session,
           what + (last ? ". Later ones of this session are not written here" : ""));
}

void Libraries::release() {
  if (void *handle = lt_handle_.exchange(nullptr)) cublas()->lt().destroy(handle);
  algos_.clear();
  handles_.each([this](const std::shared_ptr<CublasHandle> &handle) {
    if (handle && handle->object) cublas()->destroy(handle->object);
  });
  handles_.clear();
  count_ = 0;
}

}  // namespace outboard
