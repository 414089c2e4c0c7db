#include "copies/staging.h"

#include <cstring>

#include "base/error.h"
#include "base/waiting.h"

namespace outboard {

Staging::Staging(const Driver &driver, unsigned least, unsigned most)
    : driver_(driver), most_(most) {
  for (unsigned i = 0; i < least; i++) {
    Chunk *chunk = make();
    if (!chunk) throw Error("OB_DEVICE_OPEN", "the driver refuses pinned memory for copies");
    free_.push_back(chunk);
  }
}

Staging::~Staging() {
  for (const auto &chunk : all_) destroy(*chunk);
}

void Staging::destroy(Chunk &chunk) {
  for (CUevent event : chunk.events) {
    if (event) driver_.cuEventDestroy_v2(event);
  }
  driver_.cuMemFreeHost(chunk.data);
}

Chunk *Staging::make() {
  auto chunk = std::make_unique<Chunk>();
  void *data = nullptr;
  if (driver_.cuMemHostAlloc(&data, Chunk::kRoom, 0) != CUDA_SUCCESS) return nullptr;
  chunk->data = static_cast<uint8_t *>(data);
  for (CUevent &event : chunk->events) {
    if (driver_.cuEventCreate(&event, kWaitEvent) != CUDA_SUCCESS) {
      event = nullptr;
      destroy(*chunk);
      return nullptr;
    }
  }
  all_.push_back(std::move(chunk));
  return all_.back().get();
}

Chunk *Staging::try_take() {
  std::lock_guard lock(mutex_);
  if (free_.empty()) return all_.size() < most_ ? make() : nullptr;
  Chunk *chunk = free_.back();
  free_.pop_back();
  return chunk;
}

Chunk *Staging::try_more(unsigned limit) {
  std::lock_guard lock(mutex_);
  return all_.size() < limit ? make() : nullptr;
}

Chunk *Staging::take() {
  std::unique_lock lock(mutex_);
  if (free_.empty()) {
    if (Chunk *made = make()) return made;
  }
  given_.wait(lock, [this] { return !free_.empty(); });
  Chunk *chunk = free_.back();
  free_.pop_back();
  return chunk;
}

void Staging::give(Chunk *chunk) {
  {
    std::lock_guard lock(mutex_);
    free_.push_back(chunk);
  }
  given_.notify_one();
}

void Staging::scrub() {
  std::lock_guard lock(mutex_);
  for (Chunk *chunk : free_) {
    explicit_bzero(chunk->data, chunk->dirty);
    chunk->dirty = 0;
  }
  while (all_.size() > most_ && !free_.empty()) {
    Chunk *chunk = free_.back();
    free_.pop_back();
    destroy(*chunk);
    std::erase_if(all_, [&](const auto &owned) { return owned.get() == chunk; });
  }
}

}  // namespace outboard
