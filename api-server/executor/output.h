// What kernels print. Drivers write it to the process's standard output, so the process gives up
// file descriptor 1: it becomes a file in memory that sessions read from. Everything else that
// writes there would reach a guest; logs go to file descriptor 2.
#pragma once

#include <cstddef>
#include <cstdint>

namespace outboard {

class Output {
 public:
  // Redirects file descriptor 1, once per process. Throws Error.
  static Output &install();
  // The redirection, or null.
  static Output *installed();

  // Moves to the end: what was printed before is nobody's.
  void skip();
  // Up to `room` bytes of new text; 0 when there is none.
  size_t read(char *to, size_t room);

 private:
  explicit Output(int fd) : fd_(fd) {}

  const int fd_;
  uint64_t position_ = 0;
  uint64_t freed_ = 0;
};

}  // namespace outboard
