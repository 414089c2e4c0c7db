// The arrays of a session, mipmapped ones and their levels among them. What they take of the device
// counts towards the session's memory, by a rule that the guest knows too (abi_array.h). Used by
// the leader alone, unless it says otherwise.
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

// An array, a mipmapped array, or a level of one.
struct Array {
  CUarray object = nullptr;                // null when it is mipmapped
  CUmipmappedArray mipmapped = nullptr;    // has `levels` levels
  uint64_t row = 0, rows = 1, slices = 1;  // the extents; a row is counted in bytes
  uint64_t element = 1;                    // bytes of an element
  bool layered = false;                    // slices are layers or faces, so each level has as many
  unsigned levels = 0;
  std::vector<uint64_t> minted;  // the handles of its levels
  bool is_level = false;
  uint64_t number = 0;  // no other array of the session has it, also one that was destroyed
  uint64_t bytes = 0;   // what it counts towards the session's memory

  // Returns the extents of a level. Level 0 has those of the array.
  Array at_level(unsigned level) const;
};

class Arrays {
 public:
  // All that is passed outlives this. `aside` runs a job on another thread of the session.
  Arrays(const Driver &driver, Memory &memory, Scrubber &scrubber,
         std::function<void(std::function<void()>)> aside);

  bool can_mint(uint64_t handle) const { return table_.can_mint(handle); }
  Array *find(uint64_t handle) { return table_.find(handle); }
  // Returns an array's number; 0 when there is none of this handle.
  uint64_t number_of(uint64_t handle) {
    const Array *array = find(handle);
    return array ? array->number : 0;
  }
  // Whether the session has no array; some may still be overwritten.
  bool empty() const { return table_.empty(); }
  // Returns how many arrays the device has not back yet.
  size_t count() const { return count_.load(std::memory_order_relaxed); }

  // Makes an array under a handle that can be minted. CUDA_ERROR_OUT_OF_MEMORY when the session's
  // limit or the device has not so much left, or another error of the driver.
  CUresult create(const wire_ArrayCreate &q);
  // Returns the rule that a guest breaks which wants this level; null when it breaks none.
  const char *misuse(const wire_ArrayLevel &q);
  // Keeps a level, for which `misuse` has returned null, under a handle of its own.
  CUresult level(const wire_ArrayLevel &q);
  // Forgets an array, and its levels with it. Another thread overwrites it and gives it back.
  // CUDA_ERROR_INVALID_HANDLE when there is none.
  CUresult destroy(uint64_t handle);
  // Overwrites and gives back all arrays, while no other thread of the session does anything.
  // Returns the first error; then some memory may not have been overwritten.
  CUresult release();

  // Waits until what was destroyed is the device's again, but at most kPatience: the device may
  // wait for work of the guest.
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
  uint64_t numbers_ = 0;  // that were given to arrays
  std::atomic<size_t> count_{0};

  std::mutex mutex_;
  std::condition_variable drained_;
  std::vector<Array> doomed_;
  bool reaping_ = false;
  CUresult unclean_ = CUDA_SUCCESS;  // the first error of overwriting
};

}  // namespace outboard
