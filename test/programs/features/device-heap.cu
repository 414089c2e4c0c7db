// malloc and free in kernels: memory that outlives its kernel, a heap that runs out and recovers.
#include "../check.h"

struct Node {
  int value;
  Node *next;
};

__global__ void build(Node **lists, int length) {
  Node *head = nullptr;
  for (int i = 0; i < length; i++) {
    auto *node = static_cast<Node *>(malloc(sizeof(Node)));
    if (!node) __trap();
    node->value = threadIdx.x * 1000 + i;
    node->next = head;
    head = node;
  }
  lists[threadIdx.x] = head;
}
__global__ void sum(Node **lists, long long *sums) {
  long long total = 0;
  for (Node *node = lists[threadIdx.x]; node;) {
    Node *next = node->next;
    total += node->value;
    free(node);
    node = next;
  }
  sums[threadIdx.x] = total;
}
__global__ void exhaust(int *blocks, int round) {
  void *taken[64];
  int count = 0;
  while (count < 64 && (taken[count] = malloc(1 << 20))) count++;
  blocks[round] = count;
  for (int i = 0; i < count; i++) free(taken[i]);
  int *one = new int[100];
  one[99] = count;
  blocks[2 + round] = one[99];
  delete[] one;
}

int main() {
  Node **lists;
  long long *sums;
  int *blocks;
  CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 16 << 20));
  CHECK(cudaMalloc(&lists, sizeof(Node *) * 64));
  CHECK(cudaMallocManaged(&sums, sizeof(long long) * 64));
  CHECK(cudaMallocManaged(&blocks, sizeof(int) * 4));
  build<<<1, 64>>>(lists, 50);
  sum<<<1, 64>>>(lists, sums);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < 64; i++)
    if (sums[i] != i * 50000LL + 49 * 25) return fprintf(stderr, "list %d: %lld\n", i, sums[i]), 1;
  for (int round = 0; round < 2; round++) exhaust<<<1, 1>>>(blocks, round);
  CHECK(cudaDeviceSynchronize());
  if (blocks[0] < 12 || blocks[0] > 16 || blocks[1] != blocks[0] || blocks[2] != blocks[0])
    return fprintf(stderr, "%d and %d blocks of 1 MiB\n", blocks[0], blocks[1]), 1;
  size_t limit = 0;
  CHECK(cudaDeviceGetLimit(&limit, cudaLimitMallocHeapSize));
  SHOW(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 32 << 20));
  printf("lists were built and freed, the heap of %zu MiB ran out and recovered\n", limit >> 20);
  return 0;
}
