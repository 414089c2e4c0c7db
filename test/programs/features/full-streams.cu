// Calls that are one operation of a stream for a driver of its own, and may be many for whoever
// carries them out elsewhere: behind a function of the program that sleeps, each of them, and many
// threads at once, fill a stream that takes only so many.
// flags: -lcuda
#include <cuda.h>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "../check.h"
#include "../check_driver.h"

constexpr size_t kWidth = 64 << 10, kPitch = kWidth + 256, kRows = 700;

__global__ void count(int *at) { atomicAdd(at, 1); }

// What the host writes next may be there before this one runs.
__global__ void wait_for(const volatile unsigned *flag, unsigned least) {
  while (*flag < least) continue;
}

static void CUDART_CB sleeps(void *) { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }

static cudaStream_t make() {
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

static void fill(std::vector<char> *bytes, int seed) {
  for (size_t i = 0; i < bytes->size(); i++)
    (*bytes)[i] = static_cast<char>(i * 7 + seed + (i >> 8));
}

static bool same_rows(const char *a, const char *b) {
  for (size_t row = 0; row < kRows; row++)
    if (memcmp(a + row * kPitch, b + row * kPitch, kWidth) != 0) return false;
  return true;
}

// A box whose rows lie apart on both sides, there and back.
static void boxes(char *device, char *pinned) {
  std::vector<char> from(kPitch * kRows);
  cudaStream_t stream = make();
  bool same = true;
  for (int i = 0; i < 3; i++) {
    fill(&from, i);
    CHECK(cudaLaunchHostFunc(stream, sleeps, nullptr));
    CHECK(cudaMemcpy2DAsync(device, kPitch, from.data(), kPitch, kWidth, kRows,
                            cudaMemcpyHostToDevice, stream));
    CHECK(cudaLaunchHostFunc(stream, sleeps, nullptr));
    CHECK(cudaMemcpy2DAsync(pinned, kPitch, device, kPitch, kWidth, kRows, cudaMemcpyDeviceToHost,
                            stream));
    CHECK(cudaStreamSynchronize(stream));
    same = same && same_rows(from.data(), pinned);
  }
  printf("boxes: %s\n", same ? "same" : "different");
}

// The same as two nodes of a graph, which is launched again and again.
static void graphs(char *device, char *pinned) {
  std::vector<char> from(kPitch * kRows);
  fill(&from, 17);
  cudaStream_t stream = make();
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  CHECK(cudaMemcpy2DAsync(device, kPitch, from.data(), kPitch, kWidth, kRows,
                          cudaMemcpyHostToDevice, stream));
  CHECK(cudaMemcpy2DAsync(pinned, kPitch, device, kPitch, kWidth, kRows, cudaMemcpyDeviceToHost,
                          stream));
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  memset(pinned, 0, kPitch * kRows);
  cudaStream_t other = make();
  for (int i = 0; i < 3; i++) {
    // On another stream: what is copied here does not depend on it, and may be sent at once.
    CHECK(cudaLaunchHostFunc(other, sleeps, nullptr));
    CHECK(cudaGraphLaunch(exec, stream));
  }
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaStreamSynchronize(other));
  printf("graphs: %s\n", same_rows(from.data(), pinned) ? "same" : "different");
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
}

// The same behind a kernel that waits for the host, which nobody else can tell.
static void graphs_behind_a_kernel(char *device) {
  std::vector<char> from(kPitch * kRows), back(kPitch * kRows);
  fill(&from, 31);
  cudaStream_t stream = make();
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  CHECK(cudaMemcpy2DAsync(device, kPitch, from.data(), kPitch, kWidth, kRows,
                          cudaMemcpyHostToDevice, stream));
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  unsigned *flag, *mapped;
  CHECK(cudaHostAlloc(&flag, sizeof *flag, cudaHostAllocMapped));
  CHECK(cudaHostGetDevicePointer(&mapped, flag, 0));
  *flag = 0;
  for (unsigned i = 1; i <= 3; i++) {
    wait_for<<<1, 1, 0, stream>>>(mapped, i);
    CHECK(cudaGetLastError());
    std::thread lets_go([=] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      *static_cast<volatile unsigned *>(flag) = i;
    });
    CHECK(cudaGraphLaunch(exec, stream));
    lets_go.join();
  }
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaMemcpy2D(back.data(), kPitch, device, kPitch, kWidth, kRows, cudaMemcpyDeviceToHost));
  printf("graphs behind a kernel: %s\n",
         same_rows(from.data(), back.data()) ? "same" : "different");
  CHECK(cudaFreeHost(flag));
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
}

// Many copies in one call.
static void batches(char *device) {
  constexpr size_t kCopies = 2000, kBytes = 64;
  std::vector<char> from(kCopies * kBytes), back(kCopies * kBytes);
  fill(&from, 5);
  std::vector<CUdeviceptr> to, at;
  std::vector<size_t> sizes(kCopies, kBytes);
  for (size_t i = 0; i < kCopies; i++) {
    at.push_back(reinterpret_cast<CUdeviceptr>(&from[i * kBytes]));
    to.push_back(reinterpret_cast<CUdeviceptr>(device + i * kBytes));
  }
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  size_t first = 0;
  cudaStream_t stream = make();
  CHECK(cudaLaunchHostFunc(stream, sleeps, nullptr));
  DRIVER(cuMemcpyBatchAsync(to.data(), at.data(), sizes.data(), kCopies, &attributes, &first, 1,
                            stream));
  CHECK(cudaMemcpyAsync(back.data(), device, back.size(), cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  printf("batches: %s\n", from == back ? "same" : "different");
}

// Questions between operations: a driver needs no room for them.
static void questions(int *word) {
  cudaStream_t stream = make();
  CHECK(cudaLaunchHostFunc(stream, sleeps, nullptr));
  for (int i = 0; i < 1500; i++) {
    CHECK(cudaMemsetAsync(word, i & 1, sizeof *word, stream));
    if (cudaError_t error = cudaStreamQuery(stream); error != cudaErrorNotReady) CHECK(error);
  }
  CHECK(cudaStreamSynchronize(stream));
  int value;
  CHECK(cudaMemcpy(&value, word, sizeof value, cudaMemcpyDeviceToHost));
  printf("questions: %x\n", value);
}

// All of them on one stream.
static void threads(int *word) {
  constexpr int kThreads = 64, kLaunches = 100;
  CHECK(cudaMemset(word, 0, sizeof *word));
  cudaStream_t stream = make();
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaLaunchHostFunc(stream, sleeps, nullptr));
  std::vector<std::thread> all;
  for (int i = 0; i < kThreads; i++)
    all.emplace_back([=] {
      for (int k = 0; k < kLaunches; k++) count<<<1, 1, 0, stream>>>(word);
      CHECK(cudaGetLastError());
    });
  for (std::thread &thread : all) thread.join();
  CHECK(cudaStreamSynchronize(stream));
  int value;
  CHECK(cudaMemcpy(&value, word, sizeof value, cudaMemcpyDeviceToHost));
  printf("threads: %d\n", value);
}

int main() {
  char *device, *pinned;
  int *word;
  CHECK(cudaMalloc(&device, kPitch * kRows));
  CHECK(cudaMalloc(&word, sizeof *word));
  CHECK(cudaMallocHost(&pinned, kPitch * kRows));
  boxes(device, pinned);
  graphs(device, pinned);
  graphs_behind_a_kernel(device);
  batches(device);
  questions(word);
  threads(word);
  CHECK(cudaFreeHost(pinned));
  CHECK(cudaFree(word));
  CHECK(cudaFree(device));
  return 0;
}
