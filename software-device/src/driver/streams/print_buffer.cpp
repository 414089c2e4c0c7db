#include "streams/print_buffer.h"

#include <cstdio>

namespace softdev::driver {

void PrintBuffer::set_size(size_t size) {
  std::lock_guard guard(mutex_);
  size_ = size;
}

bool PrintBuffer::put(std::string_view text) {
  std::lock_guard guard(mutex_);
  const size_t room = text.size() + kOfEach;
  if (room > size_) return false;
  while (taken_ > size_ - room) {
    begin_ += lengths_.front();
    taken_ -= lengths_.front() + kOfEach;
    lengths_.pop_front();
  }
  // What is gone gives its memory back now and then.
  if (begin_ > text_.size() / 2) {
    text_.erase(0, begin_);
    begin_ = 0;
  }
  text_ += text;
  lengths_.push_back(text.size());
  taken_ += room;
  empty_.store(false, std::memory_order_relaxed);
  return true;
}

void PrintBuffer::flush() {
  if (empty_.load(std::memory_order_relaxed)) return;
  std::lock_guard guard(mutex_);
  if (lengths_.empty()) return;
  fwrite(text_.data() + begin_, 1, text_.size() - begin_, stdout);
  fflush(stdout);
  text_.clear();
  lengths_.clear();
  begin_ = taken_ = 0;
  empty_.store(true, std::memory_order_relaxed);
}

}  // namespace softdev::driver
