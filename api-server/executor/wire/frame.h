// Reads one frame where it lies. Every access is checked against the frame's size; the first one
// that does not fit sets a failure that stays, and nothing read after it may be used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "wire.h"

namespace outboard {

class FrameReader {
 public:
  // `frame` is 8-byte aligned; `present` bytes of it are in memory, at least a header. All of it
  // is, except for the payload of bulk frames.
  FrameReader(const uint8_t *frame, size_t present) : frame_(frame), present_(present) {
    const wire_header *h = header();
    if (h->size < sizeof *h || h->size % 8 != 0) {
      fail("its size is not a multiple of 8, at least 8");
    } else if (h->flags != 0) {
      fail("its flags are not 0");
    }
  }

  const wire_header *header() const { return reinterpret_cast<const wire_header *>(frame_); }

  // The fixed part, or null.
  template <class T>
  const T *body() {
    static_assert(sizeof(T) % 8 == 0 && alignof(T) <= 8);
    if (failed()) return nullptr;
    if (header()->size < sizeof(T) || present_ < sizeof(T)) {
      fail("it is shorter than its command");
      return nullptr;
    }
    cursor_ = sizeof(T);
    return reinterpret_cast<const T *>(frame_);
  }

  // Bytes behind the fixed part, padded to 8; empty when they do not fit.
  std::span<const uint8_t> blob(uint32_t size) {
    if (failed()) return {};
    const uint64_t padded = (uint64_t{size} + 7) & ~uint64_t{7};
    if (padded > present_ - cursor_ || padded > header()->size - cursor_) {
      fail("a text or block of bytes does not fit");
      return {};
    }
    std::span<const uint8_t> bytes(frame_ + cursor_, size);
    cursor_ += padded;
    return bytes;
  }

  // Whether exactly the whole frame was read.
  bool end() {
    if (!failed() && cursor_ != header()->size) fail("it is longer than its command");
    return !failed();
  }

  // Whether the rest of the frame is exactly `length` bytes of payload and their padding.
  bool bulk(uint64_t length) {
    if (failed()) return false;
    if (length > WIRE_BULK_MAX) {
      fail("its payload is larger than allowed");
    } else if (cursor_ + ((length + 7) & ~uint64_t{7}) != header()->size) {
      fail("its size and the length of its payload do not agree");
    }
    return !failed();
  }

  bool failed() const { return why_ != nullptr; }
  // What is wrong with the frame, or null.
  const char *why() const { return why_; }

 private:
  void fail(const char *why) {
    if (!why_) why_ = why;
  }

  const uint8_t *frame_;
  size_t present_;
  size_t cursor_ = sizeof(wire_header);
  const char *why_ = nullptr;
};

}  // namespace outboard
