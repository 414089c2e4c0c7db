// A program built for a debugger: -G keeps every variable on the stack.
// flags: -G
#include "../check.h"

struct Accumulator {
  float sum = 0;
  int count = 0;
  __device__ void add(float value) {
    sum += value;
    count++;
  }
  __device__ float mean() const { return count ? sum / static_cast<float>(count) : 0; }
};

__device__ float window(const float *in, int at, int count) {
  Accumulator accumulator;
  for (int i = at - 2; i <= at + 2; i++)
    if (i >= 0 && i < count) accumulator.add(in[i]);
  return accumulator.mean();
}

__global__ void smooth(const float *in, float *out, int count) {
  __shared__ float tile[128];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = i < count ? window(in, i, count) : 0;
  __syncthreads();
  if (i < count) out[i] = tile[threadIdx.x];
}

int main() {
  constexpr int kCount = 300;
  float *in, *out;
  CHECK(cudaMallocManaged(&in, sizeof(float) * kCount));
  CHECK(cudaMallocManaged(&out, sizeof(float) * kCount));
  for (int i = 0; i < kCount; i++) in[i] = static_cast<float>(i * i % 17);
  smooth<<<3, 128>>>(in, out, kCount);
  CHECK(cudaDeviceSynchronize());
  for (int at = 0; at < kCount; at++) {
    float sum = 0;
    int count = 0;
    for (int i = at - 2; i <= at + 2; i++)
      if (i >= 0 && i < kCount) sum += in[i], count++;
    if (out[at] != sum / static_cast<float>(count))
      return fprintf(stderr, "%d: %g\n", at, out[at]), 1;
  }
  printf("%d values were smoothed\n", kCount);
  return 0;
}
