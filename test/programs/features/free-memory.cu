// What cudaMemGetInfo calls free can be had in one piece, and pinned memory takes nothing of it.
#include <cstdio>
#include <cstring>

#include "../check.h"

namespace {

constexpr size_t MiB = 1 << 20;

size_t free_now() {
  size_t free, total;
  CHECK(cudaMemGetInfo(&free, &total));
  return free;
}

// Takes all that is free, and nothing is left then but what no page of the device fits in.
void take_all(const char *when) {
  void *all, *more;
  const size_t free = free_now();
  CHECK(cudaMalloc(&all, free));
  printf("%s: all in one piece, and less than a page of 2 MiB is left: %d\n", when,
         free_now() < 2 * MiB);
  SHOW(cudaMalloc(&more, 4 * MiB));
  cudaGetLastError();
  CHECK(cudaFree(all));
  printf("all is back: %d\n", free_now() == free);
}

__global__ void sum(const unsigned *from, size_t count, unsigned long long *to) {
  unsigned long long own = 0;
  for (size_t i = threadIdx.x; i < count; i += blockDim.x) own += from[i];
  atomicAdd(to, own);
}

}  // namespace

int main() {
  setenv("SOFTWARE_DEVICE_MEMORY", "320M", 0);
  setenv("OUTBOARD_MEMORY", "256M", 0);
  take_all("at first");

  // Small allocations and holes.
  void *holes[9];
  for (int i = 0; i < 9; i++) CHECK(cudaMalloc(&holes[i], i % 2 ? 5 * MiB : 1000 + i * 300));
  for (int i = 1; i < 9; i += 2) CHECK(cudaFree(holes[i]));
  take_all("with small ones about");
  for (int i = 0; i < 9; i += 2) CHECK(cudaFree(holes[i]));

  // Arrays and memory in the order of a stream.
  cudaArray_t array;
  const cudaChannelFormatDesc floats = cudaCreateChannelDesc<float>();
  CHECK(cudaMallocArray(&array, &floats, 1000, 700));
  take_all("with an array");
  CHECK(cudaFreeArray(array));
  CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 9 * MiB + 12345));
  take_all("with a larger heap");

  // As libraries do that take nearly all at first, and pin memory later.
  unsigned *most, *pinned, *mapped;
  const size_t many = free_now() / 100 * 95, bytes = 100 * MiB;
  CHECK(cudaMalloc(&most, many));
  CHECK(cudaMallocHost(&pinned, bytes));
  const size_t left = free_now();
  for (size_t i = 0; i < bytes / 4; i++) pinned[i] = static_cast<unsigned>(i * 2654435761u);
  CHECK(cudaMemcpyAsync(most, pinned, bytes, cudaMemcpyHostToDevice));
  CHECK(cudaDeviceSynchronize());
  memset(pinned, 0, bytes);
  CHECK(cudaMemcpyAsync(pinned, most, bytes, cudaMemcpyDeviceToHost));
  CHECK(cudaDeviceSynchronize());
  size_t wrong = 0;
  for (size_t i = 0; i < bytes / 4; i++)
    wrong += pinned[i] != static_cast<unsigned>(i * 2654435761u);
  printf("%zu words are wrong; a copy took nothing of the device: %d\n", wrong, free_now() == left);

  // A kernel reads it in place.
  unsigned long long expected = 0;
  for (size_t i = 0; i < bytes / 4; i++) expected += pinned[i];
  unsigned long long *result;
  CHECK(cudaHostAlloc(&result, sizeof *result, cudaHostAllocMapped));
  *result = 0;
  CHECK(cudaHostGetDevicePointer(reinterpret_cast<void **>(&mapped), pinned, 0));
  sum<<<1, 256>>>(mapped, bytes / 4, result);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  printf("the kernel's sum is right: %d, and it took nothing of the device: %d\n",
         *result == expected, free_now() == left);
  CHECK(cudaFreeHost(result));
  CHECK(cudaFreeHost(pinned));
  CHECK(cudaFree(most));
  take_all("at last");
  return 0;
}
