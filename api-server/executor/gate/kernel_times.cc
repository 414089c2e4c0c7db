#include "gate/kernel_times.h"

#include <algorithm>

#include "base/session_limits.h"

namespace outboard {

namespace {

constexpr double kLeastNs = 100;
constexpr double kMostNs = 3600e9;

}  // namespace

uint64_t KernelCost::scaled(uint64_t mean, uint64_t blocks, uint64_t usual) {
  const double ratio = static_cast<double>(blocks) / static_cast<double>(usual);
  return static_cast<uint64_t>(std::clamp(static_cast<double>(mean) * ratio, kLeastNs, kMostNs));
}

KernelCost *KernelTimes::find(const std::string &name) {
  std::lock_guard lock(mutex_);
  const auto found = kernels_.find(name);
  if (found != kernels_.end()) return found->second.get();
  const bool room = kernels_.size() < session_limits.kernel_names &&
                    name_bytes_ + name.size() <= session_limits.kernel_name_bytes;
  const std::string key = room ? name : "(others)";
  std::unique_ptr<KernelCost> &made = kernels_[key];
  if (!made) {
    made = std::make_unique<KernelCost>();
    made->name_ = &kernels_.find(key)->first;
    name_bytes_ += key.size();
  }
  return made.get();
}

void KernelTimes::running(KernelCost *kernel, uint64_t launches, uint64_t blocks, uint64_t ns,
                          EnteredTime *entered) {
  std::lock_guard lock(mutex_);
  if (!entered->counted) {
    kernel->launches_ += launches;
    kernel->blocks_ += blocks;
  }
  kernel->ns_ += ns - entered->ns;
  *entered = {true, ns};
}

void KernelTimes::measured(KernelCost *kernel, uint64_t launches, uint64_t blocks, uint64_t ns,
                           bool learn, EnteredTime entered) {
  if (launches == 0) return;
  std::lock_guard lock(mutex_);
  if (!entered.counted) {
    kernel->launches_ += launches;
    kernel->blocks_ += blocks;
  }
  kernel->ns_ += ns - entered.ns;
  if (!learn) return;
  // A running mean, which follows a kernel that changes.
  constexpr double kWeight = 1.0 / 8;
  const auto follow = [&](std::atomic<uint64_t> &mean, double now, bool first) {
    const auto before = static_cast<double>(mean.load(std::memory_order_relaxed));
    const double after = first ? now : before + (now - before) * kWeight;
    mean.store(static_cast<uint64_t>(std::max(after, 1.0)), std::memory_order_release);
  };
  const bool first = !kernel->known();
  const auto n = static_cast<double>(launches);
  follow(kernel->mean_blocks_, static_cast<double>(blocks) / n, first);
  follow(kernel->mean_ns_, std::clamp(static_cast<double>(ns) / n, kLeastNs, kMostNs), first);
}

std::vector<KernelTime> KernelTimes::list(size_t most) {
  std::vector<KernelTime> all;
  {
    std::lock_guard lock(mutex_);
    for (const auto &[name, kernel] : kernels_) {
      const uint64_t unmeasured = kernel->unmeasured_launches_.load(std::memory_order_relaxed);
      const uint64_t launches = kernel->launches_ + unmeasured;
      if (launches == 0) continue;
      const uint64_t blocks =
          kernel->blocks_ + kernel->unmeasured_blocks_.load(std::memory_order_relaxed);
      all.push_back({name, launches, blocks, kernel->ns_, unmeasured});
    }
  }
  const auto dearer = [](const KernelTime &a, const KernelTime &b) {
    if (a.ns != b.ns) return a.ns > b.ns;
    return a.unmeasured != b.unmeasured ? a.unmeasured > b.unmeasured : a.name < b.name;
  };
  std::sort(all.begin(), all.end(), dearer);
  if (all.size() > most) all.resize(most);
  return all;
}

}  // namespace outboard
