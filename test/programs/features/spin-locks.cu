// Locks that threads spin on: between lanes of a warp, between blocks, with and without nanosleep.
#include "../check.h"

template <bool sleeps>
__device__ void lock(int *mutex) {
  unsigned wait = 8;
  while (atomicCAS(mutex, 0, 1) != 0)
    if (sleeps) {
      __nanosleep(wait);
      if (wait < 256) wait *= 2;
    }
  __threadfence();
}
__device__ void unlock(int *mutex) {
  __threadfence();
  atomicExch(mutex, 0);
}

template <bool sleeps>
__global__ void count(int *mutex, volatile int *counter) {
  lock<sleeps>(mutex);
  *counter = *counter + 1;
  unlock(mutex);
}

// Tickets: threads are served in order.
__global__ void tickets(int *next, volatile int *serving, int *order) {
  int mine = atomicAdd(next, 1);
  while (*serving != mine) {
  }
  __threadfence();
  order[mine] = blockIdx.x * blockDim.x + threadIdx.x;
  __threadfence();
  *serving = mine + 1;
}

int main() {
  int *words, *order;
  CHECK(cudaMallocManaged(&words, 64));
  CHECK(cudaMallocManaged(&order, sizeof(int) * 256));
  for (int i = 0; i < 16; i++) words[i] = 0;
  count<false><<<4, 64>>>(words, words + 1);
  count<true><<<4, 64>>>(words + 2, words + 3);
  tickets<<<4, 64>>>(words + 4, words + 5, order);
  CHECK(cudaDeviceSynchronize());
  if (words[1] != 256 || words[3] != 256)
    return fprintf(stderr, "%d and %d increments\n", words[1], words[3]), 1;
  bool seen[256] = {};
  for (int i = 0; i < 256; i++) seen[order[i] & 255] = true;
  for (int i = 0; i < 256; i++)
    if (!seen[i]) return fprintf(stderr, "thread %d was not served\n", i), 1;
  printf("256 threads took each lock once\n");
  return 0;
}
