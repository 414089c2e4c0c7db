// What an array library does at its start, at once: a stream is held by a function of the program;
// behind it lies an upload from pageable memory; a library is loaded and its kernels are looked up
// and launched for the first time; a thread asks how far all is. A driver may let loads and
// look-ups wait for the function, and does not let the function wait for them. flags: -lcuda
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "check_driver.h"

constexpr int kRounds = 3, kKernels = 24;
constexpr size_t kBytes = 24 << 20;

static void CUDART_CB sleeps(void *entered) {
  static_cast<std::atomic<bool> *>(entered)->store(true);
  std::this_thread::sleep_for(std::chrono::milliseconds(80));
}

// Kernels k0, k1, ...: each adds its number to a word.
static std::string library_text() {
  std::string text = ".version 7.0\n.target sm_70\n.address_size 64\n";
  for (int i = 0; i < kKernels; i++) {
    const std::string number = std::to_string(i);
    text += ".visible .entry k" + number +
            "(.param .u64 at)\n{\n  .reg .u64 %a<2>;\n  .reg .u32 %r<2>;\n"
            "  ld.param.u64 %a1, [at];\n  atom.global.add.u32 %r1, [%a1], " +
            number + ";\n  ret;\n}\n";
  }
  return text;
}

static void load_and_launch(const std::string &text, int *word) {
  CUlibrary library;
  DRIVER(cuLibraryLoadData(&library, text.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (int i = 0; i < kKernels; i++) {
    CUkernel kernel;
    CUfunction function;
    int registers = 0;
    DRIVER(cuLibraryGetKernel(&kernel, library, ("k" + std::to_string(i)).c_str()));
    DRIVER(cuKernelGetFunction(&function, kernel));
    DRIVER(cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function));
    void *arguments[] = {&word};
    DRIVER(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr));
  }
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaStreamDestroy(stream));
  DRIVER(cuLibraryUnload(library));
}

int main() {
  const std::string text = library_text();
  int *word;
  unsigned char *device;
  CHECK(cudaMalloc(&word, sizeof *word));
  CHECK(cudaMalloc(&device, kBytes));
  CHECK(cudaMemset(word, 0, sizeof *word));
  cudaStream_t held;
  cudaEvent_t behind;
  CHECK(cudaStreamCreateWithFlags(&held, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&behind, cudaEventDisableTiming));
  CHECK(cudaDeviceSynchronize());
  for (int round = 1; round <= kRounds; round++) {
    std::vector<unsigned char> bytes(kBytes, static_cast<unsigned char>(round));
    std::atomic<bool> entered{false}, done{false};
    CHECK(cudaLaunchHostFunc(held, sleeps, &entered));
    while (!entered) std::this_thread::yield();
    std::thread uploads([&] {
      CHECK(cudaMemcpyAsync(device, bytes.data(), kBytes, cudaMemcpyHostToDevice, held));
      CHECK(cudaEventRecord(behind, held));
    });
    std::thread loads([&] { load_and_launch(text, word); });
    std::thread asks([&] {
      while (!done) {
        size_t free_bytes, total;
        CHECK(cudaMemGetInfo(&free_bytes, &total));
        const cudaError_t stream = cudaStreamQuery(held);
        const cudaError_t event = cudaEventQuery(behind);
        if ((stream && stream != cudaErrorNotReady) || (event && event != cudaErrorNotReady))
          printf("a question failed\n");
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    uploads.join();
    loads.join();
    CHECK(cudaStreamSynchronize(held));
    CHECK(cudaEventSynchronize(behind));
    done = true;
    asks.join();
    unsigned char last = 0;
    int sum = 0;
    CHECK(cudaMemcpy(&last, device + kBytes - 1, 1, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(&sum, word, sizeof sum, cudaMemcpyDeviceToHost));
    printf("round %d: uploaded %d, added %d\n", round, last, sum);
  }
  CHECK(cudaEventDestroy(behind));
  CHECK(cudaStreamDestroy(held));
  CHECK(cudaFree(device));
  CHECK(cudaFree(word));
  return 0;
}
