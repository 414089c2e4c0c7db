// Counts bytes with atomics, twice: all threads on one set of counters in global memory, or each
// block on its own set in shared memory, added to the global one at the end. Addition of integers
// has no order, so both must be exact however the threads meet.

#include <cstdint>
#include <vector>

#include "support/arguments.h"
#include "support/check.h"
#include "support/checksum.h"
#include "support/random.h"
#include "support/stopwatch.h"

constexpr int kBins = 256;
constexpr int kBlock = 256;
constexpr int kMostBlocks = 64;

__global__ void count_global(const uint8_t *bytes, int size, unsigned *bins) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < size; i += gridDim.x * blockDim.x) {
    atomicAdd(&bins[bytes[i]], 1u);
  }
}

__global__ void count_shared(const uint8_t *bytes, int size, unsigned *bins) {
  __shared__ unsigned own[kBins];
  for (int bin = threadIdx.x; bin < kBins; bin += blockDim.x) own[bin] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < size; i += gridDim.x * blockDim.x) {
    atomicAdd(&own[bytes[i]], 1u);
  }
  __syncthreads();
  for (int bin = threadIdx.x; bin < kBins; bin += blockDim.x) {
    if (own[bin]) atomicAdd(&bins[bin], own[bin]);
  }
}

int main(int argc, char **argv) {
  Arguments arguments(argc, argv, "Counts bytes with global and with shared atomics.");
  const int size = arguments.integer("--size", 1 << 20, 1, 1 << 30, "bytes to count");
  Stopwatch watch(arguments.flag("--time", "print timings on stderr"));
  arguments.finish();

  // The lesser of two random bytes: small values are common, so counters are really fought over.
  std::vector<uint8_t> bytes(size);
  std::vector<unsigned> expected(kBins, 0), bins(kBins);
  Random random(4);
  for (uint8_t &byte : bytes) {
    uint64_t draw = random.next();
    uint8_t one = draw & 255, other = draw >> 8 & 255;
    byte = one < other ? one : other;
    expected[byte]++;
  }
  watch.lap("CPU");

  uint8_t *device_bytes;
  unsigned *device_bins;
  CHECK(cudaMalloc(&device_bytes, size));
  CHECK(cudaMalloc(&device_bins, kBins * sizeof(unsigned)));
  CHECK(cudaMemcpy(device_bytes, bytes.data(), size, cudaMemcpyHostToDevice));
  watch.lap("upload");

  int blocks = (size + kBlock - 1) / kBlock;
  if (blocks > kMostBlocks) blocks = kMostBlocks;
  const struct {
    const char *name;
    void (*kernel)(const uint8_t *, int, unsigned *);
  } variants[] = {{"global", count_global}, {"shared", count_shared}};
  for (const auto &variant : variants) {
    CHECK(cudaMemset(device_bins, 0, kBins * sizeof(unsigned)));
    variant.kernel<<<blocks, kBlock>>>(device_bytes, size, device_bins);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(bins.data(), device_bins, kBins * sizeof(unsigned), cudaMemcpyDeviceToHost));
    watch.lap(variant.name);
    for (int bin = 0; bin < kBins; bin++) {
      if (bins[bin] == expected[bin]) continue;
      std::fprintf(stderr, "histogram: wrong: %s counts %u of byte %d, the CPU %u\n", variant.name,
                   bins[bin], bin, expected[bin]);
      return 1;
    }
    std::printf("histogram: %s, %d bytes, %u of 0, %u of 255, checksum %016llx, correct\n",
                variant.name, size, bins[0], bins[kBins - 1],
                static_cast<unsigned long long>(checksum(bins.data(), kBins * sizeof(unsigned))));
  }
  CHECK(cudaFree(device_bytes));
  CHECK(cudaFree(device_bins));
  return 0;
}
