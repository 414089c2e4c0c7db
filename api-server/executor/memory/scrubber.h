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
  // `granule`: in which the device of that ordinal gives memory.
  Scrubber(const Driver &driver, CUstream stream, int ordinal, uint64_t granule)
      : driver_(driver),
        stream_(stream),
        ordinal_(ordinal),
        size_((kZeros + granule - 1) / granule * granule),
        granule_(granule) {}

  // Writes zeros to `size` bytes.
  CUresult zero(uint64_t address, uint64_t size) {
    return driver_.work.calls_.cuMemsetD8Async(address, 0, size, stream_);
  }
  // Writes one word, for which a stream may wait.
  CUresult write(uint64_t address, uint32_t word) {
    return driver_.work.calls_.cuMemsetD32Async(address, word, 1, stream_);
  }
  // Makes the zeros that arrays are overwritten with. To be called before the first of those. They
  // are no allocation: those lie among the variables of modules, which a session that moves needs
  // to have at the same addresses in a process that has had no arrays.
  CUresult prepare() {
    std::lock_guard lock(mutex_);
    if (zeros_) return CUDA_SUCCESS;
    CUdeviceptr address = 0;
    CUresult result = driver_.cuMemAddressReserve(&address, size_, granule_, 0, 0);
    if (result != CUDA_SUCCESS) return result;
    if ((result = place(address)) != CUDA_SUCCESS) {
      driver_.cuMemAddressFree(address, size_);
      return result;
    }
    zeros_ = address;
    return zero(zeros_, kZeros);
  }
  // Whether they are there.
  bool has_zeros() const { return zeros_ != 0; }
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
    if (!zeros_) return;
    driver_.cuMemUnmap(zeros_, size_);
    driver_.cuMemAddressFree(zeros_, size_);
    zeros_ = 0;
  }
  // Returns CUDA_SUCCESS when all that was queued is done, CUDA_ERROR_NOT_READY when it is not.
  CUresult done() { return driver_.cuStreamQuery(stream_); }

 private:
  // Memory at those addresses, which goes when it is unmapped.
  CUresult place(CUdeviceptr address) {
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, {ordinal_}};
    const CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle memory = 0;
    CUresult result = driver_.cuMemCreate(&memory, size_, &prop, 0);
    if (result != CUDA_SUCCESS) return result;
    result = driver_.cuMemMap(address, size_, 0, memory, 0);
    driver_.cuMemRelease(memory);
    if (result != CUDA_SUCCESS) return result;
    result = driver_.cuMemSetAccess(address, size_, &access, 1);
    if (result != CUDA_SUCCESS) driver_.cuMemUnmap(address, size_);
    return result;
  }

  static constexpr uint64_t kZeros = 2 << 20;
  const Driver &driver_;
  const CUstream stream_;
  const int ordinal_;
  const uint64_t size_, granule_;

  std::mutex mutex_;
  CUdeviceptr zeros_ = 0;
};

}  // namespace outboard
