// What a session has that moves while its program runs: kernels that keep the address of a variable
// that the program never asks for, and of a function; constants; several streams and events; copies
// that land later; host functions; modules that come and go. Each line of standard input is a step,
// which says what it found.
//   step     work on all of it     late     work that is still under way when the next line is read
//   link     begin to link        free     and end it
//   load     load one more library, and unload the one before
//   end      free everything, and end
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <cuda.h>

#include "check.h"
#include "check_driver.h"

__device__ unsigned hidden = 5;
__device__ unsigned *kept;
__constant__ unsigned factors[4];
__device__ unsigned twice(unsigned x) { return 2 * x; }
__device__ unsigned thrice(unsigned x) { return 3 * x; }
typedef unsigned (*Operation)(unsigned);
__device__ Operation operations[] = {twice, thrice};

__global__ void keep() { kept = &hidden; }
__global__ void work(unsigned *data, unsigned n, unsigned which) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] = operations[which & 1](data[i]) + *kept + factors[i & 3];
}
__global__ void more() { ++*kept; }

static const char *const kLibrary = R"(.version 7.0
.target sm_52
.address_size 64
.visible .global .align 4 .u32 counted = 7;
.visible .entry count(.param .u64 to) {
  .reg .u64 %a; .reg .u32 %v;
  ld.param.u64 %a, [to];
  ld.global.u32 %v, [counted];
  add.u32 %v, %v, 1;
  st.global.u32 [counted], %v;
  st.global.u32 [%a], %v;
  ret;
}
)";

int main() {
  const unsigned n = 1 << 16;
  unsigned *data, *counted, *host, constants[4] = {1, 2, 3, 4};
  CHECK(cudaMalloc(&data, n * sizeof *data));
  CHECK(cudaMalloc(&counted, sizeof *counted));
  CHECK(cudaMallocHost(&host, n * sizeof *host));
  CHECK(cudaMemset(data, 1, n * sizeof *data));
  CHECK(cudaMemcpyToSymbol(factors, constants, sizeof constants));
  keep<<<1, 1>>>();
  CHECK(cudaDeviceSynchronize());
  int least, greatest;
  CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaStream_t stream, second;
  CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
  CHECK(cudaStreamCreate(&second));
  cudaEvent_t begin, now, untimed;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&now));
  CHECK(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
  CHECK(cudaEventRecord(begin, stream));
  CUlinkState link = nullptr;
  CUmodule library = nullptr;
  unsigned called = 0, step = 0;
  float last = 0;
  char line[64];
  while (fgets(line, sizeof line, stdin)) {
    const std::string word(line, strcspn(line, "\n"));
    if (word == "step" || word == "late") {
      ++step;
      work<<<n / 256, 256, 0, stream>>>(data, n, step);
      more<<<1, 1, 0, stream>>>();
      CHECK(cudaEventRecord(untimed, stream));
      CHECK(cudaStreamWaitEvent(second, untimed, 0));
      CHECK(cudaLaunchHostFunc(
          second, [](void *to) { ++*static_cast<unsigned *>(to); }, &called));
      CHECK(cudaMemcpyAsync(host, data, n * sizeof *host, cudaMemcpyDeviceToHost, second));
    }
    if (word == "step") {
      CHECK(cudaEventRecord(now, second));
      CHECK(cudaStreamSynchronize(second));
      float ms;
      CHECK(cudaEventElapsedTime(&ms, begin, now));
      if (ms < last) printf("time ran backwards: from %f to %f\n", last, ms);
      last = ms;
      uint64_t sum = 0;
      for (unsigned i = 0; i < n; i++) sum = sum * 31 + host[i];
      int priority;
      CHECK(cudaStreamGetPriority(stream, &priority));
      printf("%u: %016llx, %u calls, priority %d\n", step, static_cast<unsigned long long>(sum),
             called, priority - greatest);
    }
    if (word == "link") DRIVER(cuLinkCreate(0, nullptr, nullptr, &link));
    if (word == "free") DRIVER(cuLinkDestroy(link));
    if (word == "load") {
      CUmodule next;
      DRIVER(cuModuleLoadData(&next, kLibrary));
      if (library) DRIVER(cuModuleUnload(library));
      library = next;
    }
    if (word == "load" || (word == "step" && library)) {
      CUfunction count;
      void *arguments[] = {&counted};
      unsigned value;
      DRIVER(cuModuleGetFunction(&count, library, "count"));
      DRIVER(cuLaunchKernel(count, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));
      CHECK(cudaMemcpy(&value, counted, sizeof value, cudaMemcpyDeviceToHost));
      printf("the library has counted to %u\n", value);
    }
    if (word == "end") break;
    if (word != "step") printf("%s\n", word.c_str());
    fflush(stdout);
  }
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaFree(data));
  CHECK(cudaFree(counted));
  puts("over");
  return 0;
}
