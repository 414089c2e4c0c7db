// Memory of the program's own, registered as it lies: at any byte, pieces that share a page; and
// what is refused. flags: -lcuda
#include <cuda.h>
#include <sys/mman.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "../check.h"

__global__ void add(unsigned char *bytes, int count, int value) {
  for (int i = threadIdx.x; i < count; i += blockDim.x) bytes[i] += value;
}

static void expect(const char *what, CUresult wanted, CUresult got) {
  const char *name = nullptr;
  cuGetErrorName(got, &name);
  printf("%s: %s\n", what, name);
  if (got != wanted) exit(1);
}

int main() {
  CHECK(cudaFree(nullptr));
  constexpr size_t page = 4096;
  auto *bytes = static_cast<unsigned char *>(
      mmap(nullptr, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  const struct {
    size_t at, size;
  } pieces[] = {{0, 20}, {20, 81}, {101, 8000}, {8101, 20}, {8121, 4000}};
  for (bool backwards : {false, true}) {
    memset(bytes, 1, 4 * page);
    for (int i = 0; i < 5; i++) {
      const auto &piece = pieces[backwards ? 4 - i : i];
      CHECK(cudaHostRegister(bytes + piece.at, piece.size, cudaHostRegisterDefault));
    }
    for (int i = 0; i < 5; i++) {
      void *device;
      CHECK(cudaHostGetDevicePointer(&device, bytes + pieces[i].at, 0));
      add<<<1, 128>>>(static_cast<unsigned char *>(device), static_cast<int>(pieces[i].size),
                      i + 1);
      CHECK(cudaGetLastError());
    }
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < 5; i++) {
      for (size_t k = 0; k < pieces[i].size; k++)
        if (bytes[pieces[i].at + k] != i + 2) {
          fprintf(stderr, "byte %zu of piece %d is %d\n", k, i, bytes[pieces[i].at + k]);
          return 1;
        }
      CHECK(cudaHostUnregister(bytes + pieces[i].at));
    }
    printf("five pieces of three pages, %s\n", backwards ? "the last first" : "in order");
  }

  void *none = nullptr;
  expect("of no bytes", CUDA_ERROR_INVALID_VALUE, cuMemHostAlloc(&none, 0, 0));
  expect("of no bytes", CUDA_ERROR_INVALID_VALUE, cuMemAllocHost(&none, 0));
  expect("no memory freed", CUDA_SUCCESS, cuMemFreeHost(nullptr));
  CHECK(cudaMallocHost(&none, 0));
  CHECK(cudaFreeHost(none));
  CHECK(cudaHostRegister(bytes + 100, 5000, cudaHostRegisterDefault));
  for (size_t at : {size_t{100}, size_t{0}, size_t{5099}, size_t{2000}})
    expect("registered in part", CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
           cuMemHostRegister(bytes + at, at ? 50 : 101, 0));
  expect("not where it begins", CUDA_ERROR_INVALID_VALUE, cuMemHostUnregister(bytes + 101));
  expect("where it begins", CUDA_SUCCESS, cuMemHostUnregister(bytes + 100));
  expect("once more", CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(bytes + 100));
  void *pinned;
  CHECK(cudaMallocHost(&pinned, 1000));
  expect("not by registering", CUDA_ERROR_INVALID_VALUE, cuMemHostUnregister(pinned));
  CHECK(cudaFreeHost(pinned));
  munmap(bytes + page, page);
  expect("across a hole", CUDA_ERROR_INVALID_VALUE, cuMemHostRegister(bytes + 100, 2 * page, 0));
  expect("before it", CUDA_SUCCESS, cuMemHostRegister(bytes + 100, page - 100, 0));
  expect("before it, back", CUDA_SUCCESS, cuMemHostUnregister(bytes + 100));
  unsigned char *closed = bytes + 2 * page;
  mprotect(closed, 2 * page, PROT_READ);
  expect("of what is only read", CUDA_ERROR_INVALID_VALUE, cuMemHostRegister(closed, page, 0));
  expect("to be only read", CUDA_SUCCESS,
         cuMemHostRegister(closed, page, CU_MEMHOSTREGISTER_READ_ONLY));
  expect("to be only read, back", CUDA_SUCCESS, cuMemHostUnregister(closed));
  return 0;
}
