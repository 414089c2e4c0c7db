#include "session/move_area.h"

#include <sys/mman.h>

#include "base/sealed_memory.h"
#include "base/waiting.h"
#include "wire.h"

namespace outboard {

namespace {

// More than this nobody of ours offers.
constexpr uint64_t kMostSlot = 4 << 20;
constexpr uint64_t kMostBytes = 64 << 20;
constexpr uint64_t kPage = 4096;

}  // namespace

std::unique_ptr<MoveArea> MoveArea::shared(const Driver &driver, int descriptor, uint64_t size,
                                           uint64_t slot, unsigned slots) {
  if (slot == 0 || slot % kPage || slot > kMostSlot || slots < 2 || slots > WIRE_REGION_SLOTS ||
      size > kMostBytes || size < slot * slots || !is_sealed_memory(descriptor, size)) {
    return nullptr;
  }
  std::unique_ptr<MoveArea> area(new MoveArea(driver));
  void *mapped =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor, 0);
  if (mapped == MAP_FAILED) return nullptr;
  area->bytes_ = mapped;
  area->mapped_ = size;
  area->registered_ = driver.cuMemHostRegister_v2(mapped, size, 0) == CUDA_SUCCESS;
  return area->registered_ && area->prepare(slot, slots) ? std::move(area) : nullptr;
}

std::unique_ptr<MoveArea> MoveArea::own(const Driver &driver) {
  constexpr unsigned kPieces = 2;
  std::unique_ptr<MoveArea> area(new MoveArea(driver));
  const CUresult result = driver.cuMemHostAlloc(&area->bytes_, size_t{kPieces} * WIRE_BULK_MAX, 0);
  return result == CUDA_SUCCESS && area->prepare(WIRE_BULK_MAX, kPieces) ? std::move(area)
                                                                         : nullptr;
}

bool MoveArea::prepare(uint64_t piece, unsigned pieces) {
  piece_ = piece;
  if (driver_.cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0) != CUDA_SUCCESS)
    return false;
  for (unsigned i = 0; i < pieces; i++) {
    CUevent event;
    if (driver_.cuEventCreate(&event, kWaitEvent) != CUDA_SUCCESS) return false;
    read_.push_back(event);
  }
  return true;
}

MoveArea::~MoveArea() {
  if (stream_) {
    driver_.cuStreamSynchronize(stream_);
    driver_.cuStreamDestroy_v2(stream_);
  }
  for (CUevent event : read_) driver_.cuEventDestroy_v2(event);
  if (registered_) driver_.cuMemHostUnregister(bytes_);
  if (mapped_)
    munmap(bytes_, mapped_);
  else if (bytes_)
    driver_.cuMemFreeHost(bytes_);
}

bool MoveArea::fetch(unsigned piece, uint64_t address, uint64_t size) {
  uint8_t *to = static_cast<uint8_t *>(bytes_) + piece * piece_;
  return driver_.work.calls_.cuMemcpyDtoHAsync_v2(to, address, size, stream_) == CUDA_SUCCESS &&
         driver_.cuEventRecord(read_[piece], stream_) == CUDA_SUCCESS;
}

const uint8_t *MoveArea::wait(unsigned piece) {
  return driver_.cuEventSynchronize(read_[piece]) == CUDA_SUCCESS
             ? static_cast<const uint8_t *>(bytes_) + piece * piece_
             : nullptr;
}

}  // namespace outboard
