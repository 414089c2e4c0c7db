// Room in pinned chunks for payload on its way to the device. Each piece is placed behind the one
// before it; a full chunk is free again when the copies of every stream that used it are done. Used
// by the leader alone. For each payload: place, receive it there, queue the copy, copied.
#pragma once

#include <deque>

#include "copies/staging.h"

namespace outboard {

class UploadStaging {
 public:
  UploadStaging(const Driver &driver, Staging &staging) : driver_(driver), staging_(staging) {}

  // Returns pinned memory for `length` bytes (1 to Chunk::kSize) and their padding to 8, whose copy
  // will be queued on `stream`. Never null. When all chunks are under way it waits some
  // milliseconds for one and then takes one more, up to a gibibyte of them (session_limits.h); from
  // there on it waits for the oldest. What is placed without `copied` is given to the next one who
  // asks.
  uint8_t *place(size_t length, CUstream stream);
  // Says that the copy out of what was placed last is queued on its stream.
  void copied();
  // To be called before a stream is destroyed.
  void leave(CUstream stream);
  // Gives all chunks back. No copy may be running any more.
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
