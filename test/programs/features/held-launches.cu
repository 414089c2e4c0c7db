// Far more launches than a stream's queue takes, behind functions of the program that sleep:
// whoever queues one too many waits, and what the functions do is heard all the same.
// flags: -lcuda
#include <cuda.h>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "../check.h"
#include "../check_driver.h"

constexpr int kLaunches = 5000, kStreams = 4;

__global__ void count(int *at) { *at += 1; }
__global__ void first_used_behind(int *at) { *at += 1000; }
__global__ void add_from(int *at, const int *from) { *at += *from; }

static void CUDART_CB sleeps(void *) { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }
// Takes and leaves what the device has there, too.
static void CUDART_CB doubles(void *data) {
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  *static_cast<int *>(data) *= 2;
}

static cudaStream_t make() {
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

static int taken(const int *at) {
  int value;
  CHECK(cudaMemcpy(&value, at, sizeof value, cudaMemcpyDeviceToHost));
  return value;
}

static void held(cudaStream_t stream, int *at, int launches) {
  CHECK(cudaLaunchHostFunc(stream, sleeps, nullptr));
  for (int i = 0; i < launches; i++) count<<<1, 1, 0, stream>>>(at);
}

static void one_stream(int *words) {
  cudaStream_t stream = make();
  held(stream, words, kLaunches);
  first_used_behind<<<1, 1, 0, stream>>>(words);
  CHECK(cudaStreamSynchronize(stream));
  printf("one stream: %d\n", taken(words));
}

static void several_streams(int *words) {
  cudaStream_t streams[kStreams];
  for (auto &stream : streams) stream = make();
  for (int i = 0; i < kStreams; i++) held(streams[i], words + i, kLaunches / kStreams);
  for (int i = 0; i < kStreams; i++) CHECK(cudaStreamSynchronize(streams[i]));
  for (int i = 0; i < kStreams; i++) printf("stream %d: %d\n", i, taken(words + i));
}

static void several_threads(int *words) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kStreams; i++) {
    threads.emplace_back([=] {
      cudaStream_t stream = make();
      for (int round = 0; round < 3; round++) held(stream, words + i, kLaunches / kStreams);
      CHECK(cudaStreamSynchronize(stream));
    });
  }
  for (std::thread &thread : threads) thread.join();
  for (int i = 0; i < kStreams; i++) printf("thread %d: %d\n", i, taken(words + i));
}

// A thread fills a stream that waits for a value, which another one writes later.
static void values(int *words) {
  unsigned *word;
  CHECK(cudaMalloc(&word, sizeof *word));
  CHECK(cudaMemset(word, 0, sizeof *word));
  CHECK(cudaDeviceSynchronize());
  std::atomic<bool> done{false};
  std::thread fills([&] {
    cudaStream_t stream = make();
    DRIVER(cuStreamWaitValue32(stream, reinterpret_cast<CUdeviceptr>(word), 1,
                               CU_STREAM_WAIT_VALUE_EQ));
    for (int i = 0; i < kLaunches; i++) count<<<1, 1, 0, stream>>>(words);
    CHECK(cudaStreamSynchronize(stream));
    done = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const bool early = done;
  cudaStream_t stream = make();
  DRIVER(cuStreamWriteValue32(stream, reinterpret_cast<CUdeviceptr>(word), 1, 0));
  CHECK(cudaStreamSynchronize(stream));
  fills.join();
  printf("values: %d, %s\n", taken(words), early ? "early" : "not before");
  CHECK(cudaFree(word));
}

// Copies of many pieces, each way.
static void copies(int *words) {
  constexpr size_t kLarge = 48 << 20;
  std::vector<char> from(kLarge);
  for (size_t i = 0; i < kLarge; i++) from[i] = static_cast<char>(i * 7 >> 4);
  char *device, *back;
  CHECK(cudaMalloc(&device, kLarge));
  CHECK(cudaMallocHost(&back, kLarge));
  cudaStream_t stream = make();
  for (int i = 0; i < 3; i++) {
    held(stream, words, 10);
    CHECK(cudaMemcpyAsync(device, from.data(), kLarge, cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemcpyAsync(back, device, kLarge, cudaMemcpyDeviceToHost, stream));
  }
  CHECK(cudaStreamSynchronize(stream));
  printf("copies: %s, %d\n", memcmp(from.data(), back, kLarge) ? "different" : "same",
         taken(words));
  CHECK(cudaFreeHost(back));
  CHECK(cudaFree(device));
}

static void graphs(int *words) {
  cudaStream_t stream = make();
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  for (int i = 0; i < 3; i++) count<<<1, 1, 0, stream>>>(words);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK(cudaLaunchHostFunc(stream, sleeps, nullptr));
  for (int i = 0; i < kLaunches / 2; i++) CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaStreamSynchronize(stream));
  printf("graphs: %d\n", taken(words));
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
}

// What a function leaves in memory that the device reads, too, is there for the launches behind it.
static void shared(const char *what, int *host, int *device, int *sum) {
  cudaStream_t stream = make();
  *host = 1;
  for (int i = 0; i < 3; i++) {
    CHECK(cudaLaunchHostFunc(stream, doubles, host));
    for (int k = 0; k < kLaunches / 4; k++) add_from<<<1, 1, 0, stream>>>(sum, device);
    count<<<1, 1, 0, stream>>>(device);
  }
  CHECK(cudaStreamSynchronize(stream));
  printf("%s memory: %d, and %d at last\n", what, taken(sum), *host);
}

int main() {
  constexpr size_t kBytes = kStreams * sizeof(int);
  int *words;
  CHECK(cudaMalloc(&words, kBytes));
  const auto clear = [&] {
    CHECK(cudaMemset(words, 0, kBytes));
    CHECK(cudaDeviceSynchronize());
    return words;
  };
  one_stream(clear());
  several_streams(clear());
  several_threads(clear());
  values(clear());
  copies(clear());
  graphs(clear());
  int *managed, *pinned, *mapped;
  CHECK(cudaMallocManaged(&managed, sizeof *managed));
  shared("managed", managed, managed, clear());
  CHECK(cudaHostAlloc(&pinned, sizeof *pinned, cudaHostAllocMapped));
  CHECK(cudaHostGetDevicePointer(&mapped, pinned, 0));
  shared("pinned", pinned, mapped, clear());
  CHECK(cudaFreeHost(pinned));
  CHECK(cudaFree(managed));
  CHECK(cudaFree(words));
  return 0;
}
