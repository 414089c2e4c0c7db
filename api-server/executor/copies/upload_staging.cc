#include "copies/upload_staging.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/session_limits.h"

namespace outboard {

namespace {

// How long a chunk is waited for before there is one more.
constexpr std::chrono::milliseconds kPatience{5};

}  // namespace

bool UploadStaging::joins(CUstream stream) {
  if (std::find(streams_, streams_ + stream_count_, stream) != streams_ + stream_count_) {
    return true;
  }
  if (stream_count_ == Chunk::kStreams) return false;
  streams_[stream_count_++] = stream;
  return true;
}

uint8_t *UploadStaging::place(size_t length, CUstream stream) {
  if (current_ && (Chunk::kSize - used_ < length || !joins(stream))) close();
  if (!current_) {
    current_ = take();
    used_ = stream_count_ = 0;
    joins(stream);
  }
  placed_ = length;
  current_->dirty = std::max(current_->dirty, std::min(used_ + length + 8, Chunk::kRoom));
  return current_->data + used_;
}

void UploadStaging::copied() {
  used_ += (placed_ + 255) & ~size_t{255};
  if (used_ + kLeast > Chunk::kSize) close();
}

void UploadStaging::close() {
  if (!current_) return;
  for (unsigned i = 0; i < stream_count_; i++) {
    if (driver_.cuEventRecord(current_->events[i], streams_[i]) != CUDA_SUCCESS) {
      driver_.cuStreamSynchronize(streams_[i]);
    }
  }
  flights_.push_back({current_, stream_count_});
  current_ = nullptr;
}

void UploadStaging::leave(CUstream stream) {
  if (current_ &&
      std::find(streams_, streams_ + stream_count_, stream) != streams_ + stream_count_) {
    close();
  }
}

bool UploadStaging::landed(const Flight &flight) const {
  for (unsigned i = 0; i < flight.streams; i++) {
    if (driver_.cuEventQuery(flight.chunk->events[i]) == CUDA_ERROR_NOT_READY) return false;
  }
  return true;
}

Chunk *UploadStaging::take() {
  while (!flights_.empty() && landed(flights_.front())) {
    staging_.give(flights_.front().chunk);
    flights_.pop_front();
  }
  if (Chunk *chunk = staging_.try_take()) return chunk;
  // Another stream's may have landed before the oldest.
  for (auto at = flights_.begin(); at != flights_.end(); ++at) {
    if (!landed(*at)) continue;
    Chunk *chunk = at->chunk;
    flights_.erase(at);
    return chunk;
  }
  if (flights_.empty()) return staging_.take();
  // What holds the streams may be waiting for a command behind this one, which only we can take.
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!landed(flights_.front()) && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  if (!landed(flights_.front())) {
    if (Chunk *chunk = staging_.try_more(static_cast<unsigned>(session_limits.upload_chunks)))
      return chunk;
  }
  const Flight oldest = flights_.front();
  flights_.pop_front();
  for (unsigned i = 0; i < oldest.streams; i++) driver_.cuEventSynchronize(oldest.chunk->events[i]);
  return oldest.chunk;
}

void UploadStaging::release() {
  if (current_) staging_.give(current_);
  current_ = nullptr;
  for (const Flight &flight : flights_) staging_.give(flight.chunk);
  flights_.clear();
}

}  // namespace outboard
