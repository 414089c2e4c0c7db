// Payload on its way to the device, in pinned chunks. Each piece is placed behind the one before
// it; a full chunk is free again when the copies of every stream that used it are done. Used by the
// leader alone.
#pragma once

#include <deque>

#include "copies/staging.h"

namespace outboard {

class Uploads {
 public:
  Uploads(const Driver &driver, Staging &staging) : driver_(driver), staging_(staging) {}

  // Pinned memory for `length` bytes (at most Chunk::kSize) and some padding. Waits a moment when
  // more is under way than is good, and longer when it is a gibibyte.
  uint8_t *place(size_t length, CUstream stream);
  // The copy out of what was placed last is queued on the stream named there.
  void copied();
  // The stream is about to be destroyed.
  void leave(CUstream stream);
  // No copy is running any more.
  void release();

 private:
  struct Flight {
    Chunk *chunk;
    unsigned streams;
  };

  bool joins(CUstream stream);
  void close();
  bool landed(const Flight &flight) const;
  Chunk *take();

  // What is left of a chunk is given up below this.
  static constexpr size_t kLeast = 4 << 10;

  const Driver &driver_;
  Staging &staging_;
  Chunk *current_ = nullptr;
  size_t used_ = 0;
  size_t placed_ = 0;
  CUstream streams_[Chunk::kStreams] = {};
  unsigned stream_count_ = 0;
  std::deque<Flight> flights_;
};

}  // namespace outboard
