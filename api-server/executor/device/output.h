// What kernels print. Drivers write it to the process's standard output. So file descriptor 1
// becomes a pipe, which a thread empties into a buffer that sessions read from. Whatever else wrote
// there would reach a guest, so logs go to file descriptor 2.
//
// The buffer is bounded, as a kernel decides how much it prints: a driver's own buffer is bounded,
// too (CU_LIMIT_PRINTF_FIFO_SIZE), but one number may be printed a gigabyte wide. When it is full,
// the oldest text is lost, as in the driver's.
//
// Drivers write failed assertions of kernels to `stderr` of the C library, as others write much
// else. That stream is replaced by one that keeps what reads like an assertion and passes the rest
// on. `stdout` is replaced, too, as cuBLAS complains there of arguments: that is for the log.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

namespace outboard {

// Any thread.
class Output {
 public:
  // Redirects file descriptor 1. May be called once in a process. Throws Error.
  static Output &install();
  // Returns what `install` has returned, or null when it was not called.
  static Output *installed();

  // Returns the assertions since the last call; empty when there are none.
  std::string take_assertions();

  // Drops what was printed before.
  void skip();
  // Writes up to `room` bytes of new text to `to`, and returns how many; 0 when there is none.
  size_t read(char *to, size_t room);

 private:
  explicit Output(int pipe) : pipe_(pipe) {}

  void watch();
  void take_in();

  static ssize_t write_error(void *output, const char *text, size_t length);
  static ssize_t write_printed(void *, const char *text, size_t length);

  const int pipe_;  // the end that is read from
  std::mutex mutex_;
  std::string assertions_;
  std::string text_;  // what lies before `begin_` was read
  size_t begin_ = 0;
  std::array<char, 64 << 10> part_;  // the thread reads from the pipe into this
};

}  // namespace outboard
