// The arrays of a session, mipmapped ones and their levels among them. What they take of the device
// counts towards the session's memory, by a rule that the guest knows too (abi_array.h). The table
// is the leader's.
//
// Arrays that were destroyed are overwritten and given back by a thread beside the leader: drivers
// wait for the device when they destroy one.
//
// Lock: mutex_, innermost.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "base/driver.h"
#include "base/handles.h"
#include "memory/memory.h"
#include "memory/scrubber.h"
#include "wire_calls.h"

namespace outboard {

struct Array {
  CUarray object = nullptr;                // or
  CUmipmappedArray mipmapped = nullptr;    // with `levels` of them
  uint64_t row = 0, rows = 1, slices = 1;  // extents, the row in bytes
  uint64_t element = 1;                    // bytes
  bool layered = false;                    // slices are layers or faces: levels have as many
  unsigned levels = 0;
  std::vector<uint64_t> minted;  // handles of levels
  bool is_level = false;
  uint64_t bytes = 0;

  // Of a level; 0 is the array itself.
  Array at_level(unsigned level) const;
};

class Arrays {
 public:
  // `aside` runs a job on another thread of the session.
  Arrays(const Driver &driver, Memory &memory, Scrubber &scrubber,
         std::function<void(std::function<void()>)> aside);

  bool can_mint(uint64_t handle) const { return table_.can_mint(handle); }
  Array *find(uint64_t handle) { return table_.find(handle); }
  // Those that are the device's again do not count any more.
  size_t count() const { return count_.load(std::memory_order_relaxed); }

  CUresult create(const wire_ArrayCreate &q);
  // Why a level cannot be had however the device feels about it, or null.
  const char *misuse(const wire_ArrayLevel &q);
  CUresult level(const wire_ArrayLevel &q);
  // Forgets it, and its levels with it; CUDA_ERROR_INVALID_HANDLE for what is none.
  CUresult destroy(uint64_t handle);
  // Everything, while no other thread does anything. The first error: memory may not be clean then.
  CUresult release();

  // Waits for what is being overwritten, for a moment: it may wait for work of the guest.
  void drain();

 private:
  CUresult make(const wire_ArrayCreate &q, Array *array);
  CUresult overwrite(const Array &array);
  CUresult give_back(const Array &array);
  void reap();

  static constexpr std::chrono::seconds kPatience{2};

  const Driver &driver_;
  Memory &memory_;
  Scrubber &scrubber_;
  const std::function<void(std::function<void()>)> aside_;
  HandleTable<Array, WIRE_KIND_ARRAY> table_;
  std::atomic<size_t> count_{0};

  std::mutex mutex_;
  std::condition_variable drained_;
  std::vector<Array> doomed_;
  bool reaping_ = false;
  CUresult unclean_ = CUDA_SUCCESS;  // the first error of that
};

}  // namespace outboard
