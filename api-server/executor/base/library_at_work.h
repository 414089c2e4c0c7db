// Whether a thread is in a call of a library, whose complaints are not what kernels print.
#pragma once

namespace outboard {

// As long as there is one, its thread is. One at a time for each thread.
class LibraryAtWork {
 public:
  LibraryAtWork() { at_work_ = true; }
  ~LibraryAtWork() { at_work_ = false; }
  LibraryAtWork(const LibraryAtWork &) = delete;

  // Whether the calling thread is.
  static bool here() { return at_work_; }

 private:
  static inline thread_local bool at_work_ = false;
};

}  // namespace outboard
