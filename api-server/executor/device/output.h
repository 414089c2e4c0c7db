// What kernels print. Drivers write it to the process's standard output, so the process gives up
// file descriptor 1: it becomes a pipe, which a thread empties into a buffer that sessions read
// from. Everything else that writes there would reach a guest; logs go to file descriptor 2.
//
// The buffer is bounded, for a kernel decides how much it prints: a driver keeps no more than its
// own (CU_LIMIT_PRINTF_FIFO_SIZE), but one number may be printed a gigabyte wide. The oldest text
// is lost, as it is in the driver's.
//
// Assertions of kernels come through `stderr` of the C library, as much else does: that stream is
// replaced by one that keeps what reads like an assertion and passes the rest on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

namespace outboard {

class Output {
 public:
  // Redirects file descriptor 1, once per process. Throws Error.
  static Output &install();
  // The redirection, or null.
  static Output *installed();

  // Assertions since the last time; empty when there are none.
  std::string take_assertions();

  // What was printed before is nobody's.
  void skip();
  // Up to `room` bytes of new text; 0 when there is none.
  size_t read(char *to, size_t room);

 private:
  explicit Output(int pipe) : pipe_(pipe) {}

  void watch();
  void take_in();

  static ssize_t write_error(void *output, const char *text, size_t length);

  const int pipe_;  // its end to read from
  std::mutex mutex_;
  std::string assertions_;
  std::string text_;  // from `begin_` on not read yet
  size_t begin_ = 0;
  std::array<char, 64 << 10> part_;  // on its way there
};

}  // namespace outboard
