// Downloads of more than a server has pinned memory for, behind a function of the program, while
// another thread loads a library, which a driver may let wait for all of it. What is queued behind
// a download does not get into it. flags: -lcuda
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "check.h"
#include "check_driver.h"

constexpr size_t kBytes = size_t{96} << 20;
constexpr int kRounds = 3;

static void CUDART_CB sleeps(void *entered) {
  static_cast<std::atomic<bool> *>(entered)->store(true);
  // Until the download lies behind it, and the load waits.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
}

static void load(int round) {
  const std::string text =
      ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry nothing" +
      std::to_string(round) + "()\n{\n  ret;\n}\n";
  CUlibrary library;
  CUkernel kernel;
  CUfunction function;
  CHECK(cudaSetDevice(0));
  DRIVER(cuLibraryLoadData(&library, text.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  DRIVER(cuLibraryGetKernel(&kernel, library, ("nothing" + std::to_string(round)).c_str()));
  DRIVER(cuKernelGetFunction(&function, kernel));
  DRIVER(cuLibraryUnload(library));
}

int main() {
  unsigned char *pinned, *device;
  CHECK(cudaMallocHost(&pinned, kBytes));
  CHECK(cudaMalloc(&device, kBytes));
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (int round = 0; round < kRounds; round++) {
    std::atomic<bool> entered{false};
    CHECK(cudaMemsetAsync(device, round + 1, kBytes, stream));
    CHECK(cudaLaunchHostFunc(stream, sleeps, &entered));
    CHECK(cudaMemcpyAsync(pinned, device, kBytes, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaMemsetAsync(device, 77, kBytes, stream));
    while (!entered) std::this_thread::yield();
    std::thread loads(load, round);
    CHECK(cudaStreamSynchronize(stream));
    loads.join();
    size_t wrong = 0;
    for (size_t at = 0; at < kBytes; at += 64) wrong += pinned[at] != round + 1;
    printf("download %d: %zu wrong\n", round, wrong);
  }
  CHECK(cudaFree(device));
  CHECK(cudaFreeHost(pinned));
  return 0;
}
