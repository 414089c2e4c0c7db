// The smallest whole CUDA program: two arrays go to the device, one kernel adds them, the sum
// comes back and is compared with the CPU's, bit for bit.

#include <vector>

#include "support/arguments.h"
#include "support/check.h"
#include "support/checksum.h"
#include "support/random.h"
#include "support/stopwatch.h"

__global__ void add(const float *a, const float *b, float *sum, int size) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < size) sum[i] = a[i] + b[i];
}

int main(int argc, char **argv) {
  Arguments arguments(argc, argv, "Adds two vectors on the device and checks every element.");
  const int size = arguments.integer("--size", 1 << 20, 1, 1 << 28, "elements of each vector");
  Stopwatch watch(arguments.flag("--time", "print timings on stderr"));
  arguments.finish();

  std::vector<float> a(size), b(size), sum(size);
  Random random(1);
  for (int i = 0; i < size; i++) {
    a[i] = random.unit();
    b[i] = random.unit();
  }
  watch.lap("prepare");

  const size_t bytes = size * sizeof(float);
  float *device_a, *device_b, *device_sum;
  CHECK(cudaMalloc(&device_a, bytes));
  CHECK(cudaMalloc(&device_b, bytes));
  CHECK(cudaMalloc(&device_sum, bytes));
  CHECK(cudaMemcpy(device_a, a.data(), bytes, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(device_b, b.data(), bytes, cudaMemcpyHostToDevice));
  const int block = 256;
  add<<<(size + block - 1) / block, block>>>(device_a, device_b, device_sum, size);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(sum.data(), device_sum, bytes, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(device_a));
  CHECK(cudaFree(device_b));
  CHECK(cudaFree(device_sum));
  watch.lap("device");

  for (int i = 0; i < size; i++) {
    float expected = a[i] + b[i];
    if (sum[i] != expected) {
      std::fprintf(stderr, "vector-add: wrong: element %d is %a, the CPU says %a\n", i, sum[i],
                   expected);
      return 1;
    }
  }
  watch.lap("check");
  std::printf("vector-add: %d elements, checksum %016llx, correct\n", size,
              static_cast<unsigned long long>(checksum(sum.data(), bytes)));
  return 0;
}
