// What a thread can read of itself: numbers, masks, sizes, clocks.
#include <cstdint>

#include "../check.h"

#define READ32(name)                                   \
  ([] {                                                \
    unsigned v;                                        \
    asm volatile("mov.u32 %0, %%" name ";" : "=r"(v)); \
    return v;                                          \
  }())
#define READ64(name)                                   \
  ([] {                                                \
    unsigned long long v;                              \
    asm volatile("mov.u64 %0, %%" name ";" : "=l"(v)); \
    return v;                                          \
  }())

__global__ void read(uint32_t *out) {
  extern __shared__ int room[];
  room[threadIdx.x % 4] = 0;
  unsigned me = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  unsigned lane = me % 32, all = blockDim.x * blockDim.y * blockDim.z;
  unsigned bad = 0;
  bad |= (READ32("laneid") != lane) << 0;
  bad |= (READ32("warpid") != me / 32) << 1;
  bad |= (READ32("nwarpid") < (all + 31) / 32) << 2;
  bad |= (READ32("lanemask_eq") != 1u << lane) << 3;
  bad |= (READ32("lanemask_lt") != (1u << lane) - 1) << 4;
  bad |= (READ32("lanemask_ge") != ~((1u << lane) - 1)) << 5;
  bad |= ((READ32("lanemask_le") ^ READ32("lanemask_gt")) != ~0u) << 6;
  bad |= (READ32("smid") >= READ32("nsmid")) << 7;
  bad |= (READ32("dynamic_smem_size") != 48) << 8;
  bad |= (READ32("total_smem_size") < 48) << 9;
  bad |= (READ64("gridid") != READ32("gridid")) << 10;
  unsigned long long before = READ64("clock64"), timer = READ64("globaltimer");
  unsigned short early = READ32("clock_hi") > READ64("clock64") >> 32;
  bad |= (READ64("clock64") < before) << 11;
  bad |= (READ64("globaltimer") < timer) << 12;
  bad |= early << 13;
  bad |= (READ32("tid.x") != threadIdx.x || READ32("ntid.z") != blockDim.z) << 14;
  bad |= (READ32("ctaid.y") != blockIdx.y || READ32("nctaid.x") != gridDim.x) << 15;
  unsigned block = blockIdx.x + gridDim.x * blockIdx.y;
  out[block * all + me] = bad;
}

int main() {
  uint32_t *out;
  constexpr int kThreads = 6 * 60;
  CHECK(cudaMallocManaged(&out, sizeof(uint32_t) * kThreads));
  for (int i = 0; i < kThreads; i++) out[i] = ~0u;
  read<<<dim3(3, 2), dim3(5, 4, 3), 48>>>(out);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < kThreads; i++)
    if (out[i]) return fprintf(stderr, "thread %d: registers %x are wrong\n", i, out[i]), 1;
  printf("%d threads know who they are\n", kThreads);
  return 0;
}
