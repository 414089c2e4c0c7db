// All devices of the machine at work in one program: each has its own memory, variables, streams
// and errors; copies and events reach from one to the next. What it prints does not say whether
// devices reach each other's memory, nor how many there are.
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "check.h"

constexpr int count = 300000;
constexpr size_t bytes = count * sizeof(int);
constexpr int blocks = (count + 255) / 256;

__device__ int scale = 1;
__constant__ int shift;

__global__ void fill(int *into, int with) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) into[i] = i % 1000 * with;
}

__global__ void change(int *data) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] = data[i] * scale + shift;
}

__global__ void sum(const int *data, unsigned long long *into) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) atomicAdd(into, (unsigned long long)data[i]);
}

// Takes so long that who does not wait for it comes too early.
__global__ void slowly(int *data, int with) {
  long long until = clock64() + 2000000;
  while (clock64() < until) {
  }
  for (int i = 0; i < count; i += 1000) data[i] = with;
}

static unsigned long long total(const int *data) {
  unsigned long long *on_device, result = 0;
  CHECK(cudaMalloc(&on_device, sizeof result));
  CHECK(cudaMemset(on_device, 0, sizeof result));
  sum<<<blocks, 256>>>(data, on_device);
  CHECK(cudaMemcpy(&result, on_device, sizeof result, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(on_device));
  return result;
}

static cudaTextureObject_t texture_of(int *data) {
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.devPtr = data;
  resource.res.linear.desc = cudaCreateChannelDesc<int>();
  resource.res.linear.sizeInBytes = bytes;
  cudaTextureDesc description = {};
  cudaTextureObject_t texture;
  CHECK(cudaCreateTextureObject(&texture, &resource, &description, nullptr));
  return texture;
}

static void say_memory_of(cudaTextureObject_t texture, const int *data) {
  cudaResourceDesc resource;
  CHECK(cudaGetTextureObjectResourceDesc(&resource, texture));
  printf("a texture of %s memory\n", resource.res.linear.devPtr == data ? "its" : "other");
}

static void say(const char *what, unsigned long long value) { printf("%s: %llu\n", what, value); }

// What cudaMemcpy is for who asks for a default stream of each thread.
extern "C" cudaError_t cudaMemcpy_ptds(void *to, const void *from, size_t bytes,
                                       cudaMemcpyKind kind);

int main() {
  int devices = 0;
  CHECK(cudaGetDeviceCount(&devices));
  if (devices < 2) {
    fprintf(stderr, "this takes two devices\n");
    return 2;
  }
  const int last = devices - 1;
  std::vector<int *> memory(devices);

  // Each has its own kernels, variables and memory.
  for (int d = 0; d < devices; d++) {
    CHECK(cudaSetDevice(d));
    CHECK(cudaMalloc(&memory[d], bytes));
    int own_scale = d + 2, own_shift = 100 * d;
    CHECK(cudaMemcpyToSymbol(scale, &own_scale, sizeof own_scale));
    CHECK(cudaMemcpyToSymbol(shift, &own_shift, sizeof own_shift));
  }
  for (int d = 0; d < devices; d++) {
    CHECK(cudaSetDevice(d));
    fill<<<blocks, 256>>>(memory[d], d + 1);
    change<<<blocks, 256>>>(memory[d]);
  }
  for (int d : {0, last}) {
    CHECK(cudaSetDevice(d));
    say(d ? "the last" : "the first", total(memory[d]));
    cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, memory[d]));
    if (attributes.device != d) printf("its memory is said to be of %d\n", attributes.device);
  }

  // From one to the next.
  CHECK(cudaSetDevice(0));
  CHECK(cudaMemcpyPeer(memory[last], last, memory[0], 0, bytes));
  CHECK(cudaSetDevice(last));
  say("copied to the last", total(memory[last]));
  change<<<blocks, 256>>>(memory[last]);
  CHECK(cudaMemcpy(memory[0], memory[last], bytes, cudaMemcpyDefault));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaSetDevice(0));
  say("and back", total(memory[0]));

  // Pinned memory that another device gets, in the thread's own stream: it has been read when the
  // call returns.
  int *source;
  CHECK(cudaMallocHost(&source, bytes));
  for (int i = 0; i < count; i++) source[i] = 3;
  CHECK(cudaMemcpy_ptds(memory[last], source, bytes, cudaMemcpyHostToDevice));
  for (int i = 0; i < count; i++) source[i] = 0;
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaSetDevice(last));
  say("from pinned memory", total(memory[last]));
  CHECK(cudaSetDevice(0));
  CHECK(cudaFreeHost(source));

  // In the order of streams.
  cudaStream_t here, there;
  cudaEvent_t filled, taken;
  CHECK(cudaStreamCreateWithFlags(&here, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&filled, cudaEventDisableTiming));
  CHECK(cudaSetDevice(last));
  CHECK(cudaStreamCreateWithFlags(&there, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&taken, cudaEventDisableTiming));
  for (int round = 0; round < 3; round++) {
    CHECK(cudaSetDevice(0));
    if (round) CHECK(cudaStreamWaitEvent(here, taken, 0));
    slowly<<<1, 1, 0, here>>>(memory[0], 5000 + round);
    CHECK(cudaMemcpyPeerAsync(memory[last], last, memory[0], 0, bytes, here));
    CHECK(cudaEventRecord(filled, here));
    CHECK(cudaSetDevice(last));
    CHECK(cudaStreamWaitEvent(there, filled, 0));
    change<<<blocks, 256, 0, there>>>(memory[last]);
    CHECK(cudaMemcpyPeerAsync(memory[0], 0, memory[last], last, bytes, there));
    CHECK(cudaEventRecord(taken, there));
  }
  CHECK(cudaEventSynchronize(taken));
  CHECK(cudaSetDevice(0));
  say("to and fro", total(memory[0]));

  // An event that is long over, one that was never recorded, and a chain of waits.
  cudaEvent_t never;
  CHECK(cudaEventCreate(&never));
  CHECK(cudaSetDevice(last));
  CHECK(cudaStreamWaitEvent(there, filled, 0));
  CHECK(cudaStreamWaitEvent(there, never, 0));
  CHECK(cudaStreamSynchronize(there));
  CHECK(cudaSetDevice(0));

  // Host memory, pinned and not, by streams of either device.
  int *pinned, *plain = (int *)malloc(bytes);
  CHECK(cudaMallocHost(&pinned, bytes));
  for (int i = 0; i < count; i++) plain[i] = i & 7;
  CHECK(cudaMemcpyAsync(memory[last], plain, bytes, cudaMemcpyHostToDevice, here));
  memset(plain, 0, bytes);
  CHECK(cudaMemcpyAsync(pinned, memory[last], bytes, cudaMemcpyDeviceToHost, here));
  CHECK(cudaStreamSynchronize(here));
  unsigned long long seen = 0;
  for (int i = 0; i < count; i++) seen += pinned[i];
  say("through the host", seen);
  // From pinned memory to one device, in a stream of the other.
  for (int i = 0; i < count; i++) pinned[i] = i & 15;
  CHECK(cudaMemcpyAsync(memory[0], pinned, bytes, cudaMemcpyHostToDevice, there));
  CHECK(cudaStreamSynchronize(there));
  say("by the other's stream", total(memory[0]));
  CHECK(cudaMemcpy(pinned, memory[last], bytes, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(plain, memory[last], bytes, cudaMemcpyDeviceToHost));
  printf("%s\n", memcmp(plain, pinned, bytes) ? "differs" : "the same");

  // Kernels of both reach the same pinned memory, one after the other.
  for (int d : {0, last, 0}) {
    CHECK(cudaSetDevice(d));
    change<<<blocks, 256>>>(pinned);
    CHECK(cudaDeviceSynchronize());
  }
  seen = 0;
  for (int i = 0; i < count; i++) seen += pinned[i];
  say("pinned", seen);

  // And the same managed memory.
  int *managed;
  CHECK(cudaMallocManaged(&managed, bytes));
  for (int i = 0; i < count; i++) managed[i] = i & 3;
  for (int d : {last, 0, last}) {
    CHECK(cudaSetDevice(d));
    change<<<blocks, 256>>>(managed);
    CHECK(cudaDeviceSynchronize());
    managed[0]++;
  }
  seen = 0;
  for (int i = 0; i < count; i++) seen += managed[i];
  say("managed", seen);
  CHECK(cudaFree(managed));

  // A plane.
  cudaMemcpy3DPeerParms plane = {};
  plane.srcDevice = 0;
  plane.dstDevice = last;
  plane.srcPtr = make_cudaPitchedPtr(memory[0], 1200, 1200, 100);
  plane.dstPtr = make_cudaPitchedPtr(memory[last], 2000, 2000, 100);
  plane.extent = make_cudaExtent(800, 90, 2);
  CHECK(cudaMemset(memory[0], 3, bytes));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy3DPeer(&plane));
  CHECK(cudaSetDevice(last));
  say("a plane", total(memory[last]));

  // An array of one, filled from the other's memory and read back there; and many copies in one
  // call.
  cudaArray_t array;
  cudaChannelFormatDesc format = cudaCreateChannelDesc<int>();
  CHECK(cudaMallocArray(&array, &format, 200, 100));
  CHECK(cudaSetDevice(0));
  fill<<<blocks, 256>>>(memory[0], 3);
  CHECK(cudaMemcpy2DToArray(array, 0, 0, memory[0], 800, 800, 100, cudaMemcpyDeviceToDevice));
  CHECK(cudaMemset(memory[0], 0, bytes));
  CHECK(cudaMemcpy2DFromArray(memory[0], 1000, array, 40, 5, 700, 90, cudaMemcpyDeviceToDevice));
  CHECK(cudaDeviceSynchronize());
  say("through an array", total(memory[0]));
  CHECK(cudaFreeArray(array));
  const void *sources[] = {memory[0], memory[last], plain};
  void *targets[] = {memory[last], memory[0] + 50000, memory[last] + 50000};
  size_t sizes[] = {40000, 60000, 80000}, attribute_of = 0;
  cudaMemcpyAttributes attributes = {};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  CHECK(cudaSetDevice(last));
  CHECK(cudaMemset(memory[last], 1, bytes));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpyBatchAsync(targets, sources, sizes, 1, &attributes, &attribute_of, 1, there));
  CHECK(cudaStreamSynchronize(there));
  CHECK(cudaMemcpyBatchAsync(targets + 1, sources + 1, sizes + 1, 2, &attributes, &attribute_of, 1,
                             there));
  CHECK(cudaStreamSynchronize(there));
  say("in one call", total(memory[last]));
  CHECK(cudaSetDevice(0));
  say("and the other way", total(memory[0]));
  CHECK(cudaSetDevice(last));

  // What is of two devices does not go together.
  cudaEvent_t begin, end;
  float time;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventRecord(begin, there));
  SHOW(cudaEventRecord(begin, here));
  CHECK(cudaSetDevice(0));
  CHECK(cudaEventCreate(&end));
  CHECK(cudaEventRecord(end, here));
  CHECK(cudaStreamSynchronize(here));
  SHOW(cudaEventElapsedTime(&time, begin, end));
  cudaGetLastError();

  // A thread for each.
  std::vector<unsigned long long> sums(devices);
  std::vector<std::thread> threads;
  for (int d = 0; d < devices; d++)
    threads.emplace_back([&, d] {
      CHECK(cudaSetDevice(d));
      for (int round = 0; round < 20; round++) {
        fill<<<blocks, 256>>>(memory[d], d + round);
        sums[d] += total(memory[d]);
      }
    });
  for (auto &thread : threads) thread.join();
  say("the first thread", sums[0]);
  say("the last thread", sums[last]);

  // One starts anew, and the others keep what they have.
  CHECK(cudaSetDevice(0));
  const cudaTextureObject_t first_texture = texture_of(memory[0]);
  CHECK(cudaSetDevice(last));
  say_memory_of(texture_of(memory[last]), memory[last]);
  CHECK(cudaSetDevice(0));
  say_memory_of(first_texture, memory[0]);
  CHECK(cudaSetDevice(last));
  CHECK(cudaDeviceReset());
  CHECK(cudaSetDevice(0));
  say("the first again", total(memory[0]));
  say_memory_of(first_texture, memory[0]);
  CHECK(cudaDestroyTextureObject(first_texture));
  CHECK(cudaSetDevice(last));
  CHECK(cudaMalloc(&memory[last], bytes));
  fill<<<blocks, 256>>>(memory[last], 1);
  say("the last again", total(memory[last]));
  // What reaches across finds it as it is now.
  CHECK(cudaSetDevice(0));
  CHECK(cudaMemcpyPeerAsync(memory[last], last, memory[0], 0, bytes, here));
  CHECK(cudaStreamSynchronize(here));
  CHECK(cudaSetDevice(last));
  say("copied again", total(memory[last]));

  // An error is of one device.
  cudaEvent_t failing;
  CHECK(cudaEventCreate(&failing));
  fill<<<blocks, 256>>>((int *)16, 1);
  (void)cudaEventRecord(failing);  // it may have failed by now
  CHECK(cudaSetDevice(0));
  CHECK(cudaStreamWaitEvent(here, failing, 0));
  CHECK(cudaStreamSynchronize(here));
  CHECK(cudaSetDevice(last));
  SHOW(cudaDeviceSynchronize());
  SHOW(cudaMemset(memory[last], 0, 4));
  CHECK(cudaSetDevice(0));
  // What waits for it goes on.
  CHECK(cudaStreamWaitEvent(here, failing, 0));
  CHECK(cudaStreamSynchronize(here));
  say("the first still", total(memory[0]));
  return 0;
}
