// What each kernel of a session has cost, by name, and what its next launch is predicted to cost
// from that. Costs are in nanoseconds of the device's time.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/counters.h"

namespace outboard {

// A kernel, or something else that is launched and costs time. Lives as long as its session.
class KernelCost {
 public:
  // Of a launch that nothing is known about.
  static constexpr uint64_t kUnknownNs = 200'000;

  // Nanoseconds that a launch of `blocks` blocks is going to take.
  uint64_t predict(uint64_t blocks) const {
    const uint64_t mean = mean_ns_.load(std::memory_order_acquire);
    if (mean == 0) return kUnknownNs;
    const uint64_t usual = mean_blocks_.load(std::memory_order_relaxed);
    return blocks == usual ? mean : scaled(mean, blocks, usual);
  }
  bool known() const { return mean_ns_.load(std::memory_order_relaxed) != 0; }

  // The name under which the table has it.
  const std::string &name() const { return *name_; }

  // Whether it has taken long beside what a launch may take (Gate::remember_long).
  std::atomic<bool> was_long{false};
  // The leader's: launches that were measured alone because nothing was known.
  unsigned alone = 0;
  // Of its name in the session's trace.
  uint32_t trace_name = 0;
  // Counts launches that are not measured, of so many blocks in all. The leader's.
  void count_unmeasured(uint64_t launches, uint64_t blocks) {
    count_alone(unmeasured_launches_, launches);
    count_alone(unmeasured_blocks_, blocks);
  }

 private:
  friend class KernelTimes;
  static uint64_t scaled(uint64_t mean, uint64_t blocks, uint64_t usual);

  const std::string *name_ = nullptr;
  std::atomic<uint64_t> mean_ns_{0};
  std::atomic<uint64_t> mean_blocks_{1};
  Counter unmeasured_launches_{0};
  Counter unmeasured_blocks_{0};
  // Measured so far; under the table's lock.
  uint64_t launches_ = 0;
  uint64_t blocks_ = 0;
  uint64_t ns_ = 0;
};

struct KernelTime {
  std::string name;
  uint64_t launches;
  uint64_t blocks;
  uint64_t ns;          // of all launches but those that are
  uint64_t unmeasured;  // launches whose cost nobody has measured
};

// What the table already counts of launches that have not ended.
struct EnteredTime {
  bool counted = false;
  uint64_t ns = 0;
};

// Lock: mutex_, innermost.
class KernelTimes {
 public:
  // Returns the entry of that name, which is made if need be. With very many names the rest share
  // one.
  KernelCost *find(const std::string &name);

  // Notes that some launches, of so many blocks in all, have ended and have taken `ns` together.
  // `learn`: later launches are predicted from it. `entered`: what `running` has noted of them.
  void measured(KernelCost *kernel, uint64_t launches, uint64_t blocks, uint64_t ns, bool learn,
                EnteredTime entered = {});

  // Notes what launches that have not ended have taken so far, and in *entered what is counted of
  // them now.
  void running(KernelCost *kernel, uint64_t launches, uint64_t blocks, uint64_t ns,
               EnteredTime *entered);

  // Returns the kernels that have cost most, at most so many, dearest first; those whose cost is
  // not known by launches.
  std::vector<KernelTime> list(size_t most);

 private:
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<KernelCost>> kernels_;
  size_t name_bytes_ = 0;
};

}  // namespace outboard
