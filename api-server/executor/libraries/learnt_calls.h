// What sessions of a function have learnt of this machine's libraries, for the next one: which
// calls have succeeded, so that it need not wait for them, and what was asked that has the same
// answer each time, so that it need not ask. A guest knows them by keys of its own; nothing else of
// them is told to anybody. Questions are kept as they travel, and asked anew for each session:
// algorithms are those of a session alone.
//
// Kept between sessions as bytes: the maker, then each call as its key, its function (kStarts or
// kStartsLt for one that starts work) and how many bytes of arguments lie behind, a multiple of 8.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

namespace outboard {

// Any thread.
class LearntCalls {
 public:
  // Functions of calls that start work: of cuBLAS, and of cuBLASLt.
  static constexpr uint32_t kStarts = UINT32_MAX, kStartsLt = UINT32_MAX - 1;
  // Of all of them as they are kept. The oldest are forgotten beyond it.
  static constexpr size_t kMostBytes = 24 << 10;
  static constexpr size_t kMostArguments = 1024;

  struct Call {
    uint64_t key;
    uint32_t function;
    std::vector<uint64_t> arguments;
  };

  // Of a library and a device by that name: what others have learnt is nothing here.
  explicit LearntCalls(const std::string &maker);

  // Takes what earlier sessions have left. It may be anything.
  void take(std::span<const uint8_t> kept);
  // The session has called a library.
  void is_used();
  // By one of the functions above.
  void succeeded(uint64_t key, uint32_t function) { add(key, function, {}); }
  void answered(uint64_t key, uint32_t function, std::span<const uint8_t> arguments) {
    add(key, function, arguments);
  }

  // Returns all of them, the oldest first.
  std::vector<Call> all() const;
  // Returns them as they are kept; nothing where the session has called no library.
  std::vector<uint8_t> kept() const;

 private:
  void add(uint64_t key, uint32_t function, std::span<const uint8_t> arguments);

  const uint64_t maker_;
  mutable std::mutex mutex_;
  std::deque<Call> calls_;
  std::unordered_set<uint64_t> keys_;
  size_t bytes_ = 0;
  bool used_ = false;
};

}  // namespace outboard
