// Uploads of more than a server takes up ahead, while a stream is held by a function of the program
// and a library is loaded, which a driver may let wait for the function. The function has to come
// back nevertheless, and nothing of the uploads is lost. flags: -lcuda
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "check.h"
#include "check_driver.h"

constexpr size_t kBytes = size_t{32} << 20;
constexpr int kUploads = 12;

static void CUDART_CB sleeps(void *entered) {
  static_cast<std::atomic<bool> *>(entered)->store(true);
  // Until the load waits, and the uploads lie behind it.
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
}

static void load() {
  const std::string text =
      ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry nothing()\n{\n  ret;\n}\n";
  CUlibrary library;
  CUkernel kernel;
  CUfunction function;
  CHECK(cudaSetDevice(0));
  DRIVER(cuLibraryLoadData(&library, text.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  DRIVER(cuLibraryGetKernel(&kernel, library, "nothing"));
  DRIVER(cuKernelGetFunction(&function, kernel));
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  DRIVER(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaStreamDestroy(stream));
  DRIVER(cuLibraryUnload(library));
}

// Sums each upload's bytes up by the place of the upload.
__global__ void add_up(const unsigned char *bytes, int upload, unsigned long long *sums) {
  unsigned long long sum = 0;
  for (size_t i = threadIdx.x * size_t{4096}; i < kBytes; i += blockDim.x * size_t{4096})
    sum += bytes[i];
  atomicAdd(&sums[upload], sum);
}

int main() {
  unsigned char *pinned, *device;
  unsigned long long *sums, seen[kUploads];
  CHECK(cudaMallocHost(&pinned, kBytes));
  for (size_t i = 0; i < kBytes; i++) pinned[i] = static_cast<unsigned char>(i >> 12);
  CHECK(cudaMalloc(&device, kBytes));
  CHECK(cudaMalloc(&sums, sizeof seen));
  CHECK(cudaMemset(sums, 0, sizeof seen));
  cudaStream_t held, uploads;
  CHECK(cudaStreamCreateWithFlags(&held, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&uploads, cudaStreamNonBlocking));
  add_up<<<1, 32, 0, uploads>>>(device, 0, sums);
  CHECK(cudaMemsetAsync(sums, 0, sizeof seen, uploads));
  CHECK(cudaDeviceSynchronize());
  std::atomic<bool> entered{false};
  CHECK(cudaLaunchHostFunc(held, sleeps, &entered));
  while (!entered) std::this_thread::yield();
  std::thread loads(load);
  std::this_thread::sleep_for(std::chrono::milliseconds(40));
  for (int i = 0; i < kUploads; i++) {
    CHECK(cudaMemcpyAsync(device, pinned, kBytes, cudaMemcpyHostToDevice, uploads));
    add_up<<<1, 32, 0, uploads>>>(device, i, sums);
  }
  loads.join();
  CHECK(cudaMemcpyAsync(seen, sums, sizeof seen, cudaMemcpyDeviceToHost, uploads));
  CHECK(cudaStreamSynchronize(uploads));
  CHECK(cudaStreamSynchronize(held));
  for (int i = 0; i < kUploads; i++) printf("upload %d: %llu\n", i, seen[i]);
  CHECK(cudaFree(sums));
  CHECK(cudaFree(device));
  CHECK(cudaFreeHost(pinned));
  return 0;
}
