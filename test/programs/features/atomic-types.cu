// Atomics of every type: integers, counters, floating point, halves and pairs of them, exchange,
// compare and swap. flags: -gencode arch=compute_90,code=compute_90
#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "../check.h"

constexpr int kBlocks = 16, kThreads = 128, kAll = kBlocks * kThreads;

struct Cells {
  int sum, least, most;
  unsigned counter_up, counter_down, bits_and, bits_or, bits_xor, last, locked;
  unsigned long long wide_sum, wide_most, wide_or;
  float single_sum;
  double double_sum;
  __half2 half_pair;
  __half half;
  __nv_bfloat162 brain_pair;
  unsigned short small;
  unsigned short padding;
};

__global__ void update(Cells *cells, int *slots) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&cells->sum, i);
  atomicMin(&cells->least, 500 - i);
  atomicMax(&cells->most, i * 3);
  unsigned at = atomicInc(&cells->counter_up, 99);
  atomicDec(&cells->counter_down, 99);
  atomicAnd(&cells->bits_and, ~(1u << (i % 7)));
  atomicOr(&cells->bits_or, 1u << (i % 31));
  atomicXor(&cells->bits_xor, static_cast<unsigned>(i));
  atomicExch(&cells->last, 7u);
  atomicAdd(&cells->wide_sum, 1ull << 33);
  atomicMax(&cells->wide_most, static_cast<unsigned long long>(i) << 32);
  atomicOr(&cells->wide_or, 1ull << (i % 63));
  atomicAdd(&cells->single_sum, 0.5f);
  atomicAdd(&cells->double_sum, 0.25);
  if (i < 256) {  // halves count exactly up to 2048 quarters
    atomicAdd(&cells->half_pair, __halves2half2(__float2half(1.0f), __float2half(0.25f)));
    atomicAdd(&cells->half, __float2half(0.5f));
    atomicAdd(&cells->brain_pair,
              __halves2bfloat162(__float2bfloat16(1.0f), __float2bfloat16(0.5f)));
  }
  unsigned short seen = cells->small, want;
  do {
    want = seen;
    seen = atomicCAS(&cells->small, want, static_cast<unsigned short>(want + 3));
  } while (seen != want);
  // A lock taken by every thread, in whatever order.
  for (bool done = false; !done;) {
    if (atomicCAS(&cells->locked, 0u, 1u) == 0) {
      slots[at]++;
      __threadfence();
      atomicExch(&cells->locked, 0u);
      done = true;
    }
  }
}

#define EXPECT(what, value)                                             \
  if (!((what) == (value))) {                                           \
    fprintf(stderr, "%s is %.17g\n", #what, static_cast<double>(what)); \
    return 1;                                                           \
  }

int main() {
  Cells *device, host = {};
  int *slots, counts[100];
  host.bits_and = 0xffffffffu;
  CHECK(cudaMalloc(&device, sizeof host));
  CHECK(cudaMalloc(&slots, sizeof counts));
  CHECK(cudaMemset(slots, 0, sizeof counts));
  CHECK(cudaMemcpy(device, &host, sizeof host, cudaMemcpyHostToDevice));
  update<<<kBlocks, kThreads>>>(device, slots);
  CHECK(cudaMemcpy(&host, device, sizeof host, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(counts, slots, sizeof counts, cudaMemcpyDeviceToHost));
  EXPECT(host.sum, kAll * (kAll - 1) / 2);
  EXPECT(host.least, 500 - (kAll - 1));
  EXPECT(host.most, (kAll - 1) * 3);
  EXPECT(host.counter_up, static_cast<unsigned>(kAll % 100));
  EXPECT(host.counter_down, static_cast<unsigned>((100 - kAll % 100) % 100));
  EXPECT(host.bits_and, 0xffffff80u);
  EXPECT(host.bits_or, 0x7fffffffu);
  EXPECT(host.bits_xor, 0u);
  EXPECT(host.last, 7u);
  EXPECT(host.wide_sum, static_cast<unsigned long long>(kAll) << 33);
  EXPECT(host.wide_most, static_cast<unsigned long long>(kAll - 1) << 32);
  EXPECT(host.wide_or, 0x7fffffffffffffffull);
  EXPECT(host.single_sum, kAll * 0.5f);
  EXPECT(host.double_sum, kAll * 0.25);
  EXPECT(__low2float(host.half_pair), 256.0f);
  EXPECT(__high2float(host.half_pair), 64.0f);
  EXPECT(__half2float(host.half), 128.0f);
  EXPECT(__low2float(host.brain_pair), 256.0f);
  EXPECT(__high2float(host.brain_pair), 128.0f);
  EXPECT(host.small, kAll * 3);
  int total = 0;
  for (int count : counts) total += count;
  EXPECT(total, kAll);
  printf("%d threads updated 20 cells\n", kAll);
  return 0;
}
