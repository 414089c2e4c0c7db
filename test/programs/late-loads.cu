// A stream is held by a function of the program, which fills pinned memory; behind it lie copies of
// that memory to the device, which read it when it is their turn; and a library is loaded and used
// for the first time meanwhile. A driver may let that wait for the stream, and start nothing until
// it is done: what ends the wait must need nothing of it. flags: -lcuda
#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "check_driver.h"

constexpr int kRounds = 2, kKernels = 8;
constexpr size_t kBytes = (17 << 20) + 5;  // more than one piece
constexpr size_t kWidth = 100, kHeight = 50, kPitch = 256;

struct Filled {
  std::atomic<bool> entered{false};
  unsigned char *bytes;
  int round;
};

static void CUDART_CB fills(void *data) {
  auto *filled = static_cast<Filled *>(data);
  filled->entered = true;
  std::this_thread::sleep_for(std::chrono::milliseconds(80));
  for (size_t i = 0; i < kBytes; i++)
    filled->bytes[i] = static_cast<unsigned char>(i % 251 + static_cast<size_t>(filled->round));
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
    DRIVER(cuLibraryGetKernel(&kernel, library, ("k" + std::to_string(i)).c_str()));
    DRIVER(cuKernelGetFunction(&function, kernel));
    void *arguments[] = {&word};
    DRIVER(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr));
  }
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaStreamDestroy(stream));
  DRIVER(cuLibraryUnload(library));
}

static size_t differences(const unsigned char *got, const unsigned char *wanted, size_t size) {
  size_t count = 0;
  for (size_t i = 0; i < size; i++) count += got[i] != wanted[i];
  return count;
}

int main() {
  const std::string text = library_text();
  int *word;
  unsigned char *device, *plane, *pinned;
  cudaArray_t array;
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<unsigned char>();
  CHECK(cudaMalloc(&word, sizeof *word));
  CHECK(cudaMalloc(&device, kBytes));
  CHECK(cudaMalloc(&plane, kPitch * kHeight));
  CHECK(cudaMallocArray(&array, &format, kWidth, kHeight));
  CHECK(cudaMallocHost(&pinned, kBytes));
  CHECK(cudaMemset(word, 0, sizeof *word));
  cudaStream_t held;
  CHECK(cudaStreamCreateWithFlags(&held, cudaStreamNonBlocking));
  CHECK(cudaDeviceSynchronize());
  for (int round = 1; round <= kRounds; round++) {
    memset(pinned, 0, kBytes);
    CHECK(cudaMemset(plane, 0, kPitch * kHeight));
    Filled filled;
    filled.bytes = pinned;
    filled.round = round;
    CHECK(cudaLaunchHostFunc(held, fills, &filled));
    while (!filled.entered) std::this_thread::yield();
    CHECK(cudaMemcpyAsync(device, pinned, kBytes, cudaMemcpyHostToDevice, held));
    CHECK(cudaMemcpy2DAsync(plane, kPitch, pinned, kWidth + 7, kWidth, kHeight,
                            cudaMemcpyHostToDevice, held));
    CHECK(cudaMemcpy2DToArrayAsync(array, 0, 0, pinned + 1, kWidth + 3, kWidth, kHeight,
                                   cudaMemcpyHostToDevice, held));
    std::thread loads([&] { load_and_launch(text, word); });
    loads.join();
    CHECK(cudaStreamSynchronize(held));
    std::vector<unsigned char> got(kBytes), rows(kWidth * kHeight), elements(kWidth * kHeight);
    std::vector<unsigned char> wanted_rows, wanted_elements;
    for (size_t y = 0; y < kHeight; y++) {
      wanted_rows.insert(wanted_rows.end(), pinned + y * (kWidth + 7),
                         pinned + y * (kWidth + 7) + kWidth);
      wanted_elements.insert(wanted_elements.end(), pinned + 1 + y * (kWidth + 3),
                             pinned + 1 + y * (kWidth + 3) + kWidth);
    }
    CHECK(cudaMemcpy(got.data(), device, kBytes, cudaMemcpyDeviceToHost));
    CHECK(
        cudaMemcpy2D(rows.data(), kWidth, plane, kPitch, kWidth, kHeight, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy2DFromArray(elements.data(), kWidth, array, 0, 0, kWidth, kHeight,
                                cudaMemcpyDeviceToHost));
    int sum = 0;
    CHECK(cudaMemcpy(&sum, word, sizeof sum, cudaMemcpyDeviceToHost));
    printf("round %d: byte 300 is %d; %zu, %zu and %zu bytes differ; added %d\n", round, got[300],
           differences(got.data(), pinned, kBytes),
           differences(rows.data(), wanted_rows.data(), rows.size()),
           differences(elements.data(), wanted_elements.data(), elements.size()), sum);
  }
  CHECK(cudaStreamDestroy(held));
  CHECK(cudaFreeHost(pinned));
  CHECK(cudaFreeArray(array));
  CHECK(cudaFree(plane));
  CHECK(cudaFree(device));
  CHECK(cudaFree(word));
  return 0;
}
