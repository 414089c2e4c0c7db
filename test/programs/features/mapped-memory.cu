// Pinned and registered memory in the hands of kernels, fills and copies: by its pointer, in
// structures, through pointers in device memory, in graphs; what either side changes in turn.
// flags: -lcuda
#include <cuda.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "../check.h"

struct job {
  int scale;
  const int *in;
  int *out;
};

__global__ void run(job j, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) j.out[i] = j.scale * j.in[i];
}
// The pointers are nowhere but in device memory.
__global__ void run_hidden(const job *jobs, int count) {
  const job j = jobs[blockIdx.y];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) j.out[i] = j.scale * j.in[i];
}
__global__ void add_to_each(int *values, int first, int step, int count, int add) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[first + i * step] += add;
}
__global__ void count_bytes(const unsigned char *bytes, int count, unsigned *sum) {
  unsigned mine = 0;
  for (int i = threadIdx.x; i < count; i += blockDim.x) mine += bytes[i];
  atomicAdd(sum, mine);
}
__global__ void slow(int *where, int rounds) {
  unsigned value = 1;
  for (int i = 0; i < rounds; i++) value = value * 1664525u + 1013904223u;
  where[0] = value ? 5 : 6;
}

static long total(const int *values, int count) {
  long sum = 0;
  for (int i = 0; i < count; i++) sum += values[i];
  return sum;
}

int main() {
  constexpr int count = 3000;
  constexpr int blocks = (count + 127) / 128;
  int maps;
  CHECK(cudaDeviceGetAttribute(&maps, cudaDevAttrCanMapHostMemory, 0));
  printf("maps host memory: %d\n", maps);
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));

  // In a structure, without asking for a device pointer.
  int *in, *out;
  CHECK(cudaMallocHost(&in, count * sizeof *in));
  CHECK(cudaMallocHost(&out, count * sizeof *out));
  for (int i = 0; i < count; i++) in[i] = i;
  run<<<blocks, 128, 0, stream>>>(job{3, in, out}, count);
  CHECK(cudaStreamSynchronize(stream));
  printf("in a structure: %ld\n", total(out, count));

  // In device memory, after asking; more than once, and the host changes something in between.
  job jobs[2] = {{2, nullptr, nullptr}, {5, nullptr, nullptr}}, *device_jobs;
  int *first, *second;
  CHECK(cudaHostAlloc(&first, count * sizeof *first, cudaHostAllocMapped));
  CHECK(
      cudaHostAlloc(&second, count * sizeof *second, cudaHostAllocMapped | cudaHostAllocPortable));
  for (int i = 0; i < count; i++) first[i] = 1;
  for (job &j : jobs) CHECK(cudaHostGetDevicePointer((void **)&j.in, first, 0));
  CHECK(cudaHostGetDevicePointer(&jobs[0].out, second, 0));
  CHECK(cudaMalloc(&jobs[1].out, count * sizeof(int)));
  CHECK(cudaMalloc(&device_jobs, sizeof jobs));
  CHECK(cudaMemcpy(device_jobs, jobs, sizeof jobs, cudaMemcpyHostToDevice));
  for (int round = 0; round < 3; round++) {
    first[round * 7] += 100;
    run_hidden<<<dim3(blocks, 2), 128, 0, stream>>>(device_jobs, count);
    CHECK(cudaMemcpyAsync(out, jobs[1].out, count * sizeof(int), cudaMemcpyDefault, stream));
    CHECK(cudaStreamSynchronize(stream));
    printf("hidden, round %d: %ld and %ld\n", round, total(second, count), total(out, count));
  }

  // The program's own memory, not in whole pages: two kernels and the host change it in turn.
  std::vector<int> own(20000, 1);
  int *registered = own.data() + 3, *view;
  CHECK(cudaHostRegister(registered, 19990 * sizeof(int), cudaHostRegisterMapped));
  CHECK(cudaHostGetDevicePointer(&view, registered, 0));
  for (int round = 0; round < 4; round++) {
    registered[round] = 50;                         // beside what kernels change
    registered[1000 * round + 500] = 1000 * round;  // and where they add to it
    add_to_each<<<19, 128, 0, stream>>>(view, 100, 8, 2400, 1);
    add_to_each<<<1, 1, 0, stream>>>(view, 19989, 1, 1, 7);
    CHECK(cudaStreamSynchronize(stream));
    printf("registered, round %d: %ld, last %d\n", round, total(own.data(), 20000),
           registered[19989]);
  }
  printf("around it: %d %d %d and %d %d\n", own[0], own[1], own[2], own[19993], own[19999]);
  int *inside;
  CHECK(cudaHostGetDevicePointer(&inside, registered + 10, 0));
  printf("inside: %d\n", (int)(inside - view));

  // Copies that name it on the host while the device has newer bytes.
  add_to_each<<<1, 32, 0, stream>>>(view, 0, 1, 32, 11);
  CHECK(cudaMemcpyAsync(jobs[1].out, registered, 128, cudaMemcpyHostToDevice, stream));
  CHECK(cudaMemcpyAsync(out, jobs[1].out, 128, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaMemcpyAsync(registered + 64, out, 128, cudaMemcpyDefault, stream));
  CHECK(cudaStreamSynchronize(stream));
  printf("copied from it: %ld, into it: %ld\n", total(out, 32), total(registered + 64, 32));
  CHECK(cudaHostUnregister(registered));
  printf("unregistered: %ld\n", total(own.data(), 20000));

  // Read-only.
  unsigned *sum;
  CHECK(cudaMallocHost(&sum, sizeof *sum));
  *sum = 0;
  auto *file = (unsigned char *)mmap(nullptr, 12288, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(file, 3, 12288);
  int can_read;
  CHECK(cudaDeviceGetAttribute(&can_read, cudaDevAttrHostRegisterReadOnlySupported, 0));
  CHECK(cudaHostRegister(file, 12288, cudaHostRegisterMapped | cudaHostRegisterReadOnly));
  unsigned char *bytes;
  CHECK(cudaHostGetDevicePointer(&bytes, file, 0));
  count_bytes<<<1, 64, 0, stream>>>(bytes, 12288, sum);
  file[0] = 4;  // unseen or seen: the next one sees it
  CHECK(cudaStreamSynchronize(stream));
  *sum = 0;
  count_bytes<<<1, 64, 0, stream>>>(bytes, 12288, sum);
  CHECK(cudaStreamSynchronize(stream));
  printf("read-only %d: %u\n", can_read, *sum);
  CHECK(cudaHostUnregister(file));

  // Fills and copies, in a row and in planes.
  CHECK(cudaMemsetAsync(in, 0, count * sizeof(int), stream));
  CHECK(cudaMemset2DAsync(in + 10, 40, 1, 8, 20, stream));
  CHECK(cudaMemcpyAsync(second, in, 1024, cudaMemcpyDeviceToDevice, stream));
  CHECK(cudaMemcpy2DAsync(second + 512, 16, in + 10, 40, 8, 20, cudaMemcpyHostToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  printf("filled: %ld, copied: %ld\n", total(in, count), total(second, 512 + 80));

  // A copy that is waited for tells of the kernel before it.
  first[0] = 0;
  slow<<<1, 1>>>(first, 200000);
  CHECK(cudaMemcpy(jobs[1].out, out, 64, cudaMemcpyHostToDevice));
  printf("after a copy: %d\n", first[0]);
  slow<<<1, 1>>>(second, 200000);
  CHECK(cudaMemcpy(first, second, 4, cudaMemcpyDefault));
  printf("copied by host pointers: %d\n", first[0]);

  // In a graph: captured before the memory was mapped by anything else.
  int *source, *result;
  CHECK(cudaMallocHost(&source, count * sizeof(int)));
  CHECK(cudaMallocHost(&result, count * sizeof(int)));
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK(cudaMemcpyAsync(jobs[1].out, source, count * sizeof(int), cudaMemcpyHostToDevice, stream));
  run<<<blocks, 128, 0, stream>>>(job{2, jobs[1].out, in}, count);
  CHECK(cudaMemcpyAsync(result, in, count * sizeof(int), cudaMemcpyDefault, stream));
  CHECK(cudaMemsetAsync(in, 1, 4, stream));
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  for (int round = 1; round < 4; round++) {
    for (int i = 0; i < count; i++) source[i] = round;
    // From the second round on, kernels have these two as well.
    if (round > 1) add_to_each<<<blocks, 128, 0, stream>>>(source, 0, 1, count, 1);
    CHECK(cudaGraphLaunch(exec, stream));
    if (round > 1) add_to_each<<<1, 128, 0, stream>>>(result, 0, 1, 100, 1);
    CHECK(cudaStreamSynchronize(stream));
    printf("graph, round %d: %ld, %ld\n", round, total(result, count), total(in, count));
  }

  // Freed while it is used, and errors.
  slow<<<1, 1, 0, stream>>>(source, 1000000);
  CHECK(cudaFreeHost(source));
  CHECK(cudaStreamSynchronize(stream));
  unsigned flags;
  SHOW(cudaHostGetFlags(&flags, own.data()));
  SHOW(cudaHostGetDevicePointer(&view, own.data(), 0));
  SHOW(cudaHostGetDevicePointer(&view, out, 1));
  SHOW(cudaHostUnregister(out));
  SHOW(cudaFreeHost(out + 1));
  SHOW(cudaHostRegister(out, 64, cudaHostRegisterDefault));
  SHOW(cudaFree(out));
  cudaGetLastError();
  CHECK(cudaHostGetFlags(&flags, out));
  printf("flags %u\n", flags);
  cudaPointerAttributes attributes;
  CHECK(cudaPointerGetAttributes(&attributes, out + 5));
  printf("type %d, host %d, device %d\n", attributes.type, attributes.hostPointer == out + 5,
         attributes.devicePointer == out + 5);
  CUdeviceptr base;
  size_t size;
  CUresult ranged = cuMemGetAddressRange(&base, &size, (CUdeviceptr)(out + 5));
  printf("range %d: %d, %zu\n", ranged, base == (CUdeviceptr)out, size);
  for (int *memory : {in, out, first, second, result}) CHECK(cudaFreeHost(memory));
  CHECK(cudaFreeHost(sum));
  return 0;
}
