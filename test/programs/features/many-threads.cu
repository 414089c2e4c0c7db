// Many threads at once: copies, pools, textures, graphs, events and functions, all in each other's
// way.
#include <atomic>
#include <thread>
#include <vector>

#include "../check.h"

constexpr int kThreads = 8, kRounds = 12;
constexpr size_t kWords = 3000, kLarge = 150000;

__device__ unsigned kept[kThreads];
__managed__ unsigned shared_words[kThreads * 1024];

__global__ void add(unsigned *words, size_t count, unsigned value) {
  const size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x;
  if (i < count) words[i] += value;
}

__global__ void fetch(cudaTextureObject_t from, unsigned *to, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] = tex1Dfetch<unsigned>(from, i);
}

void launch_add(unsigned *words, size_t count, unsigned value, cudaStream_t stream) {
  add<<<(count + 255) / 256, 256, 0, stream>>>(words, count, value);
  CHECK(cudaGetLastError());
}

std::atomic<int> called;
cudaEvent_t events[kThreads];

bool all_are(const unsigned *words, size_t count, unsigned value) {
  for (size_t i = 0; i < count; i++)
    if (words[i] != value) return false;
  return true;
}

// Copies of all sizes, to and from memory of all kinds.
bool copies(cudaStream_t stream, size_t count) {
  unsigned *device, *pinned;
  std::vector<unsigned> words(count, 3), own(count, 0);
  CHECK(cudaMalloc(&device, count * sizeof *device));
  CHECK(cudaHostAlloc(&pinned, count * sizeof *pinned, cudaHostAllocDefault));
  CHECK(cudaMemcpyAsync(device, words.data(), count * sizeof *device, cudaMemcpyHostToDevice,
                        stream));
  launch_add(device, count, 4, stream);
  CHECK(cudaMemcpyAsync(pinned, device, count * sizeof *device, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaHostRegister(own.data(), count * sizeof *device, cudaHostRegisterDefault));
  CHECK(
      cudaMemcpyAsync(own.data(), device, count * sizeof *device, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaHostUnregister(own.data()));
  const bool right = all_are(pinned, count, 7) && all_are(own.data(), count, 7);
  CHECK(cudaMemcpy(words.data(), device, count * sizeof *device, cudaMemcpyDeviceToHost));
  CHECK(cudaFreeHost(pinned));
  CHECK(cudaFree(device));
  return right && all_are(words.data(), count, 7);
}

// What a stream allocates, a texture reads.
bool pools(cudaStream_t stream) {
  unsigned *from, *to;
  CHECK(cudaMallocAsync(&from, kWords * sizeof *from, stream));
  CHECK(cudaMallocAsync(&to, kWords * sizeof *to, stream));
  CHECK(cudaMemsetAsync(from, 1, kWords * sizeof *from, stream));
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.devPtr = from;
  resource.res.linear.desc = cudaCreateChannelDesc<unsigned>();
  resource.res.linear.sizeInBytes = kWords * sizeof *from;
  cudaTextureDesc texture{};
  cudaTextureObject_t object;
  CHECK(cudaCreateTextureObject(&object, &resource, &texture, nullptr));
  fetch<<<(kWords + 255) / 256, 256, 0, stream>>>(object, to, kWords);
  std::vector<unsigned> words(kWords);
  CHECK(cudaMemcpyAsync(words.data(), to, kWords * sizeof *to, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaFreeAsync(from, stream));
  CHECK(cudaFreeAsync(to, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaDestroyTextureObject(object));
  return all_are(words.data(), kWords, 0x01010101);
}

// A graph of a fill, a kernel and a function, captured here while others capture theirs.
bool graphs(cudaStream_t stream) {
  unsigned *device;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK(cudaMalloc(&device, kWords * sizeof *device));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  CHECK(cudaMemsetAsync(device, 0, kWords * sizeof *device, stream));
  launch_add(device, kWords, 5, stream);
  CHECK(cudaLaunchHostFunc(
      stream, [](void *) { called++; }, nullptr));
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 3; i++) CHECK(cudaGraphLaunch(exec, stream));
  std::vector<unsigned> words(kWords);
  CHECK(cudaMemcpyAsync(words.data(), device, kWords * sizeof *device, cudaMemcpyDeviceToHost,
                        stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaFree(device));
  return all_are(words.data(), kWords, 5);
}

// What is asked, and what is kept in variables.
bool questions(int thread, cudaStream_t stream, unsigned round) {
  size_t free, total;
  CHECK(cudaMemGetInfo(&free, &total));
  cudaFuncAttributes attributes;
  CHECK(cudaFuncGetAttributes(&attributes, add));
  int blocks;
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 256, 0));
  unsigned now = 0;
  const unsigned value = thread * 1000 + round;
  CHECK(cudaMemcpyToSymbolAsync(kept, &value, sizeof value, thread * sizeof value,
                                cudaMemcpyHostToDevice, stream));
  CHECK(cudaMemcpyFromSymbolAsync(&now, kept, sizeof now, thread * sizeof now,
                                  cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  cudaPointerAttributes pointer;
  CHECK(cudaPointerGetAttributes(&pointer, shared_words));
  return now == value && free <= total && blocks > 0 && pointer.type == cudaMemoryTypeManaged &&
         cudaEventQuery(nullptr) == cudaErrorInvalidResourceHandle &&
         cudaGetLastError() == cudaErrorInvalidResourceHandle;
}

// The others' work, and functions among it.
bool order(int thread, cudaStream_t stream) {
  CHECK(cudaLaunchHostFunc(
      stream, [](void *) { called++; }, nullptr));
  CHECK(cudaEventRecord(events[thread], stream));
  CHECK(cudaStreamWaitEvent(stream, events[(thread + 1) % kThreads], 0));
  cudaEvent_t mine;
  CHECK(cudaEventCreateWithFlags(&mine, cudaEventDisableTiming));
  CHECK(cudaEventRecord(mine, stream));
  CHECK(cudaEventSynchronize(mine));
  CHECK(cudaEventDestroy(mine));
  return cudaStreamQuery(stream) == cudaSuccess;
}

bool work(int thread) {
  bool right = true;
  for (unsigned round = 0; round < kRounds; round++) {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int part = 0; part < 5; part++) {
      switch ((part + thread) % 5) {
        case 0:
          right &= copies(stream, round % 3 ? kWords + round : kLarge);
          break;
        case 1:
          right &= pools(stream);
          break;
        case 2:
          right &= graphs(stream);
          break;
        case 3:
          right &= questions(thread, stream, round);
          break;
        case 4:
          right &= order(thread, stream);
          break;
      }
    }
    CHECK(cudaStreamDestroy(stream));
  }
  return right;
}

int main() {
  for (cudaEvent_t &event : events) CHECK(cudaEventCreate(&event));
  bool right[kThreads];
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; i++) threads.emplace_back([i, &right] { right[i] = work(i); });
  for (std::thread &thread : threads) thread.join();
  for (int i = 0; i < kThreads; i++) printf("thread %d: %s\n", i, right[i] ? "right" : "wrong");
  printf("functions called: %d of %d\n", called.load(), kThreads * kRounds * 4);
  // Memory of all is everybody's own part now.
  launch_add(shared_words, kThreads * 1024, 1, nullptr);
  CHECK(cudaDeviceSynchronize());
  threads.clear();
  for (int i = 0; i < kThreads; i++)
    threads.emplace_back([i, &right] {
      unsigned *mine = shared_words + i * 1024;
      right[i] = all_are(mine, 1024, 1);
      for (int word = 0; word < 1024; word++) mine[word] += i;
    });
  for (std::thread &thread : threads) thread.join();
  launch_add(shared_words, kThreads * 1024, 1, nullptr);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < kThreads; i++)
    printf("managed %d: %s\n", i,
           right[i] && all_are(shared_words + i * 1024, 1024, 2 + i) ? "right" : "wrong");
}
