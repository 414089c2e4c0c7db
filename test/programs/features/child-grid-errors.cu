// What kernels are told when they launch what cannot be launched: errors of each thread, limits,
// and questions about the device. A child that fails ends the context.
// flags: -rdc=true -lcudadevrt
#include "../check.h"

__global__ void nothing() {}
__global__ void __launch_bounds__(128) small_blocks() {}
__global__ void child(int *out) { atomicAdd(out, 1); }

__device__ void say(const char *what, cudaError_t error) {
  printf("%s: %s\n", what, cudaGetErrorName(error));
}
__device__ void say_last(const char *what) { say(what, cudaGetLastError()); }

__global__ void shapes() {
  nothing<<<0, 1>>>();
  say_last("empty grid");
  nothing<<<1, 0>>>();
  say_last("empty block");
  nothing<<<1, 1025>>>();
  say_last("large block");
  nothing<<<dim3(1, 1, 65536), 1>>>();
  say_last("deep grid");
  small_blocks<<<1, 256>>>();
  say_last("block of 256 where 128 are allowed");
  nothing<<<1, 1, 200000>>>();
  say_last("200000 bytes of shared memory");
  nothing<<<1, 1>>>();
  say_last("a good one");
}

__global__ void streams(int *out) {
  cudaStream_t stream;
  cudaEvent_t event;
  say("blocking stream", cudaStreamCreateWithFlags(&stream, cudaStreamDefault));
  say("event with time", cudaEventCreateWithFlags(&event, cudaEventDefault));
  cudaGetLastError();
  say("stream", cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  say("event", cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  say("record in the tail", cudaEventRecord(event, cudaStreamTailLaunch));
  say("wait in a fire and forget", cudaStreamWaitEvent(cudaStreamFireAndForget, event, 0));
  say("wait for what was not recorded", cudaStreamWaitEvent(stream, event, 0));
  say("destroy", cudaStreamDestroy(stream));
  say("destroy again", cudaStreamDestroy(stream));
  cudaGetLastError();
  nothing<<<1, 1, 0, stream>>>();
  say_last("launch in no stream");
  say("destroy event", cudaEventDestroy(event));
  say("record no event", cudaEventRecord(event, 0));
  say("copy to the host", cudaMemcpyAsync(out, out + 1, 4, cudaMemcpyDeviceToHost, 0));
  say("copy from nowhere", cudaMemcpyAsync(out, (void *)4096, 4, cudaMemcpyDeviceToDevice, 0));
  say("last of them", cudaPeekAtLastError());
  say("and again", cudaGetLastError());
  say("then none", cudaGetLastError());
}

// Odd threads fail, and only they know.
__global__ void of_each_thread(int *failed) {
  nothing<<<1, threadIdx.x % 2 ? 2000 : 1>>>();
  __syncthreads();
  if (cudaGetLastError() == (threadIdx.x % 2 ? cudaErrorInvalidConfiguration : cudaSuccess))
    atomicAdd(failed, 1);
}

// The tail starts when the grid has ended, so all that is put there is pending.
__global__ void pending(int *out, int tried) {
  int made = 0;
  cudaError_t error = cudaSuccess;
  for (int i = 0; i < tried; i++) {
    child<<<1, 1, 0, cudaStreamTailLaunch>>>(out);
    cudaError_t now = cudaGetLastError();
    if (now)
      error = now;
    else
      made++;
  }
  printf("%d of %d can be pending, then %s\n", made, tried, cudaGetErrorName(error));
}

__global__ void down(int depth) {
  down<<<1, 1>>>(depth + 1);
  if (cudaError_t error = cudaGetLastError())
    printf("%s at depth %d\n", cudaGetErrorName(error), depth);
}

__global__ void questions() {
  int value = -1, device = -1;
  size_t limit = 0;
  say("count", cudaGetDeviceCount(&value));
  say("device", cudaGetDevice(&device));
  cudaDeviceGetAttribute(&value, cudaDevAttrMaxThreadsPerBlock, device);
  printf("%d threads in a block\n", value);
  cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, device);
  printf("%d in a warp\n", value);
  say("attribute of no device", cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 99));
  cudaDeviceGetLimit(&limit, cudaLimitDevRuntimePendingLaunchCount);
  printf("%d may be pending\n", (int)limit);
  say("limit", cudaDeviceGetLimit(&limit, (cudaLimit)77));
  cudaFuncAttributes about;
  say("attributes", cudaFuncGetAttributes(&about, small_blocks));
  printf("blocks of %d threads\n", about.maxThreadsPerBlock);
  say("attributes of no kernel", cudaFuncGetAttributes(&about, (const void *)16));
  say("occupancy", cudaOccupancyMaxActiveBlocksPerMultiprocessor(&value, small_blocks, 64, 0));
  printf("%s\n", value > 0 ? "some fit" : "none fits");
  void *memory = nullptr;
  say("malloc", cudaMalloc(&memory, 1000));
  say("free", cudaFree(memory));
  say("free again", cudaFree(memory));
  say("malloc of too much", cudaMalloc(&memory, size_t(1) << 40));
  cudaRuntimeGetVersion(&value);
  printf("version %s\n", value >= 12000 ? "12 or later" : "too old");
  printf("%s\n", cudaGetErrorName((cudaError_t)12345));
}

// The calls below <<<>>>: parameters as they lie in memory.
__global__ void by_hand(int *out) {
  void *buffer = cudaGetParameterBuffer(alignof(int *), sizeof out);
  *(int **)buffer = out;
  say("launch by hand", cudaLaunchDevice((void *)child, buffer, dim3(2), dim3(3), 0, 0));
  say("the same again", cudaLaunchDevice((void *)child, buffer, dim3(2), dim3(3), 0, 0));
  say("no buffer", cudaLaunchDeviceV2(nullptr, 0));
  say("no kernel", cudaLaunchDevice((void *)out, nullptr, dim3(2), dim3(3), 0, 0));
  // One that is never used goes with the grid.
  void *unused = cudaGetParameterBuffer(16, 64);
  printf("%s\n", unused ? "unused buffer" : "none");
}

__global__ void write_nowhere(int *at) { *at = 1; }
__global__ void bad_child() { write_nowhere<<<1, 1>>>((int *)4096); }

int main() {
  int *out, host[2];
  CHECK(cudaDeviceSetLimit(cudaLimitDevRuntimePendingLaunchCount, 100));
  CHECK(cudaMalloc(&out, sizeof host));
  CHECK(cudaMemset(out, 0, sizeof host));
  shapes<<<1, 1>>>();
  CHECK(cudaDeviceSynchronize());
  streams<<<1, 1>>>(out);
  CHECK(cudaDeviceSynchronize());
  of_each_thread<<<1, 64>>>(out);
  pending<<<1, 1>>>(out + 1, 120);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
  printf("%d threads know their errors, %d grids ran in the tail\n", host[0], host[1]);
  down<<<1, 1>>>(0);
  CHECK(cudaDeviceSynchronize());
  questions<<<1, 1>>>();
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemset(out, 0, sizeof host));
  by_hand<<<1, 1>>>(out);
  CHECK(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
  printf("%d threads ran\n", host[0]);
  bad_child<<<1, 1>>>();
  SHOW(cudaDeviceSynchronize());
  return host[0] != 6;
}
