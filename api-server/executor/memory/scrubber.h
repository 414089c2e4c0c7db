// Overwrites memory that is given back, on a stream of its own. It does not pass the gate, as it is
// not the guest's: nothing else does so but page porters (page_porter.h) and moves. Each call
// queues its work and returns the driver's result; `wait` waits for it.
#pragma once

#include <algorithm>
#include <mutex>

#include "base/driver.h"

namespace outboard {

class Scrubber {
 public:
  Scrubber(const Driver &driver, CUstream stream) : driver_(driver), stream_(stream) {}

  // Writes zeros to `size` bytes.
  CUresult zero(uint64_t address, uint64_t size) {
    return driver_.work.calls_.cuMemsetD8Async(address, 0, size, stream_);
  }
  // Writes one word, for which a stream may wait.
  CUresult write(uint64_t address, uint32_t word) {
    return driver_.work.calls_.cuMemsetD32Async(address, word, 1, stream_);
  }
  // Makes the zeros that arrays are overwritten with. To be called before the first of those.
  CUresult prepare() {
    std::lock_guard lock(mutex_);
    if (zeros_) return CUDA_SUCCESS;
    CUresult result = driver_.cuMemAlloc_v2(&zeros_, kZeros);
    if (result == CUDA_SUCCESS) result = zero(zeros_, kZeros);
    return result;
  }
  // Writes zeros to an array of `slices` slices, which have `rows` rows of `row` bytes each.
  CUresult zero(CUarray array, uint64_t row, uint64_t rows, uint64_t slices) {
    const uint64_t width = std::min(row, kZeros);
    const uint64_t height = std::clamp<uint64_t>(kZeros / width, 1, rows);
    const uint64_t depth =
        height < rows ? 1 : std::clamp<uint64_t>(kZeros / width / rows, 1, slices);
    CUresult result = CUDA_SUCCESS;
    for (uint64_t z = 0; z < slices; z += depth) {
      for (uint64_t y = 0; y < rows; y += height) {
        for (uint64_t x = 0; x < row && result == CUDA_SUCCESS; x += width) {
          CUDA_MEMCPY3D copy{};
          copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
          copy.srcDevice = zeros_;
          copy.srcPitch = width;
          copy.srcHeight = height;
          copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
          copy.dstArray = array;
          copy.dstXInBytes = x;
          copy.dstY = y;
          copy.dstZ = z;
          copy.WidthInBytes = std::min(width, row - x);
          copy.Height = std::min(height, rows - y);
          copy.Depth = std::min(depth, slices - z);
          result = driver_.work.calls_.cuMemcpy3DAsync_v2(&copy, stream_);
        }
      }
    }
    return result;
  }
  // Copies the bytes of memory that becomes another piece of memory.
  CUresult copy(uint64_t to, uint64_t from, uint64_t size) {
    return driver_.work.calls_.cuMemcpyDtoDAsync_v2(to, from, size, stream_);
  }
  // Waits until all that was queued is done.
  CUresult wait() { return driver_.cuStreamSynchronize(stream_); }
  // Gives back what this has on the device. Nothing may be called after it.
  void release() {
    if (zeros_) driver_.cuMemFree_v2(zeros_);
    zeros_ = 0;
  }
  // Returns CUDA_SUCCESS when all that was queued is done, CUDA_ERROR_NOT_READY when it is not.
  CUresult done() { return driver_.cuStreamQuery(stream_); }

 private:
  const Driver &driver_;
  const CUstream stream_;

  static constexpr uint64_t kZeros = 2 << 20;
  std::mutex mutex_;
  CUdeviceptr zeros_ = 0;
};

}  // namespace outboard
