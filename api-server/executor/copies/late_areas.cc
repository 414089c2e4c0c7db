#include "copies/late_areas.h"

#include <algorithm>
#include <bit>

#include "base/session_limits.h"
#include "base/waiting.h"
#include "wire.h"

namespace outboard {

namespace {

constexpr size_t kLeast = 64 << 10;
constexpr size_t kPadding = 8;

}  // namespace

LateAreas::Area *LateAreas::take(size_t length, uint64_t stream) {
  Area *best = nullptr;
  for (Area &area : all_) {
    if (area.size < length || (best && best->size <= area.size)) continue;
    const bool free = !area.busy || driver_.cuEventQuery(area.copied) == CUDA_SUCCESS;
    if (free) area.busy = area.queued = false;
    if (free || (area.queued && area.stream == stream)) best = &area;
  }
  if (!best) best = make(length);
  if (best) {
    best->busy = true;
    best->stream = stream;
  }
  return best;
}

LateAreas::Area *LateAreas::make(size_t length) {
  const size_t size = std::max(kLeast, std::bit_ceil(length));
  if (bytes_ + size > session_limits.late_bytes) return nullptr;
  Area area;
  area.size = size;
  void *data = nullptr;
  if (driver_.cuEventCreate(&area.copied, kWaitEvent) != CUDA_SUCCESS) return nullptr;
  if (driver_.cuMemHostAlloc(&data, size + kPadding, 0) != CUDA_SUCCESS) {
    driver_.cuEventDestroy_v2(area.copied);
    return nullptr;
  }
  area.data = static_cast<uint8_t *>(data);
  bytes_ += size;
  all_.push_back(area);
  return &all_.back();
}

CUresult LateAreas::copied(Area *area, CUstream stream) {
  const CUresult result = driver_.cuEventRecord(area->copied, stream);
  area->queued = true;
  // It may still be read: it is never free.
  if (result != CUDA_SUCCESS) area->size = 0;
  return result;
}

void LateAreas::release() {
  for (Area &area : all_) {
    driver_.cuMemFreeHost(area.data);
    driver_.cuEventDestroy_v2(area.copied);
  }
  all_.clear();
  bytes_ = 0;
}

}  // namespace outboard
