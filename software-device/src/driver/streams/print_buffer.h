// What kernels have printed and nobody has been shown: of CU_LIMIT_PRINTF_FIFO_SIZE bytes. Once it
// is full, what is printed takes the place of what is oldest.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>

namespace softdev::driver {

class PrintBuffer {
 public:
  static constexpr size_t kDefault = 1 << 20;
  // That a call of printf takes beside its text.
  static constexpr size_t kOfEach = 16;

  // Nothing is in it.
  void set_size(size_t size);
  // The text of one call. False when it is larger than the buffer, and nobody will see it.
  bool put(std::string_view text);
  // Writes all of it to standard output.
  void flush();

 private:
  std::atomic<bool> empty_{true};
  std::mutex mutex_;
  std::string text_;  // from `begin_` on
  size_t begin_ = 0;
  std::deque<size_t> lengths_;  // of each call
  size_t taken_ = 0;
  size_t size_ = kDefault;
};

}  // namespace softdev::driver
