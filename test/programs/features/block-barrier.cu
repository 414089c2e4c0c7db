// Barriers of a block: phases, tokens, a completion function, threads that drop out, copies.
#include <cuda/barrier>

#include "../check.h"

struct Count {
  int *phases;
  __device__ void operator()() noexcept { ++*phases; }
};
using Counted = cuda::barrier<cuda::thread_scope_block, Count>;
using Barrier = cuda::barrier<cuda::thread_scope_block>;

// Every phase, one thread fewer; who is left adds what the one before it has left behind.
__global__ void dropping(int *out) {
  __shared__ alignas(Barrier) unsigned char storage[sizeof(Barrier)];
  __shared__ int cells[2][64];
  auto *bar = reinterpret_cast<Barrier *>(storage);
  int me = threadIdx.x;
  if (me == 0) init(bar, 64);
  cells[0][me] = me;
  __syncthreads();
  int phase = 0;
  for (; phase < me; phase++) {
    auto token = bar->arrive();
    bar->wait(std::move(token));
    cells[(phase + 1) & 1][me] = cells[phase & 1][me - 1] + 1;
    bar->arrive_and_wait();
  }
  out[me] = cells[phase & 1][me];
  bar->arrive_and_drop();
}

__global__ void completing(int *out) {
  __shared__ alignas(Counted) unsigned char storage[sizeof(Counted)];
  __shared__ int phases;
  auto *bar = reinterpret_cast<Counted *>(storage);
  if (threadIdx.x == 0) {
    phases = 0;
    new (bar) Counted(96, Count{&phases});
  }
  __syncthreads();
  for (int i = 0; i < 10; i++) {
    bar->arrive_and_wait();
    if (phases < i + 1) __trap();
  }
  __syncthreads();
  out[threadIdx.x] = phases;
}

__global__ void copying(int *out, const int *in) {
  __shared__ alignas(Barrier) unsigned char storage[sizeof(Barrier)];
  __shared__ alignas(16) int buffer[256];
  auto *bar = reinterpret_cast<Barrier *>(storage);
  if (threadIdx.x == 0) init(bar, 64);
  __syncthreads();
  const int *from = in + blockIdx.x * 256 + threadIdx.x * 4;
  cuda::memcpy_async(buffer + threadIdx.x * 4, from, cuda::aligned_size_t<16>(16), *bar);
  bar->arrive_and_wait();
  for (int i = threadIdx.x; i < 256; i += 64) out[blockIdx.x * 256 + i] = buffer[255 - i];
}

int main() {
  int *in, *out;
  CHECK(cudaMallocManaged(&in, 4096));
  CHECK(cudaMallocManaged(&out, 4096));
  dropping<<<1, 64>>>(out);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < 64; i++)
    if (out[i] != i) return fprintf(stderr, "thread %d has %d\n", i, out[i]), 1;
  completing<<<1, 96>>>(out);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < 96; i++)
    if (out[i] != 10) return fprintf(stderr, "thread %d saw %d phases\n", i, out[i]), 1;
  for (int i = 0; i < 1024; i++) in[i] = i * i;
  copying<<<4, 64>>>(out, in);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < 1024; i++)
    if (out[i] != in[(i & ~255) + 255 - (i & 255)]) return fprintf(stderr, "copy %d\n", i), 1;
  printf("threads dropped out, phases were counted, copies arrived\n");
  return 0;
}
