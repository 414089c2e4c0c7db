// What kernels print. Drivers write it to the process's standard output, so the process gives up
// file descriptor 1: it becomes a file in memory that sessions read from. Everything else that
// writes there would reach a guest; logs go to file descriptor 2.
//
// Assertions of kernels come through `stderr` of the C library, as much else does: that stream is
// replaced by one that keeps what reads like an assertion and passes the rest on.
#pragma once

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

  // Moves to the end: what was printed before is nobody's.
  void skip();
  // Up to `room` bytes of new text; 0 when there is none.
  size_t read(char *to, size_t room);

 private:
  explicit Output(int fd) : fd_(fd) {}

  static ssize_t write_error(void *output, const char *text, size_t length);

  const int fd_;
  std::mutex mutex_;
  std::string assertions_;
  uint64_t position_ = 0;
  uint64_t freed_ = 0;
};

}  // namespace outboard
