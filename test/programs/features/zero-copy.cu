// Host memory that kernels reach: allocated mapped, and the program's own, registered.
#include <cstdio>
#include <vector>

#include "../check.h"

__global__ void add(int *out, const int *a, const int *b, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = a[i] + b[i];
}

int main() {
  constexpr int count = 5000;
  int *allocated, *device_view, *combined;
  CHECK(
      cudaHostAlloc(&allocated, count * sizeof(int), cudaHostAllocMapped | cudaHostAllocPortable));
  CHECK(cudaHostAlloc(&combined, count * sizeof(int), cudaHostAllocWriteCombined));
  CHECK(cudaHostGetDevicePointer(&device_view, allocated, 0));
  std::vector<int> own(count + 1024);
  CHECK(cudaHostRegister(own.data(), own.size() * sizeof(int), cudaHostRegisterMapped));
  int *own_view;
  CHECK(cudaHostGetDevicePointer(&own_view, own.data(), 0));
  for (int i = 0; i < count; i++) {
    allocated[i] = i;
    combined[i] = 3 * i;
  }
  add<<<(count + 127) / 128, 128>>>(own_view, device_view, combined, count);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < count; i++)
    if (own[i] != 4 * i) {
      fprintf(stderr, "element %d is %d\n", i, own[i]);
      return 1;
    }
  unsigned flags;
  CHECK(cudaHostGetFlags(&flags, allocated));
  printf("mapped %d, portable %d\n", (flags & cudaHostAllocMapped) != 0,
         (flags & cudaHostAllocPortable) != 0);
  cudaPointerAttributes attributes;
  CHECK(cudaPointerGetAttributes(&attributes, own.data() + 7));
  printf("registered memory is host memory: %d\n", attributes.type == cudaMemoryTypeHost);
  SHOW(cudaHostRegister(own.data(), 64, cudaHostRegisterDefault));
  cudaGetLastError();
  CHECK(cudaHostUnregister(own.data()));
  SHOW(cudaHostUnregister(own.data()));
  cudaGetLastError();
  CHECK(cudaPointerGetAttributes(&attributes, own.data()));
  printf("unregistered memory is unknown: %d\n", attributes.type == cudaMemoryTypeUnregistered);
  CHECK(cudaFreeHost(allocated));
  CHECK(cudaFreeHost(combined));
  return 0;
}
