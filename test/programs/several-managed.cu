// Variables that are one for the host and all devices: what kernels of each do to them, in turn and
// from threads of their own; in graphs; by copies and pointers; after one device has started anew.
#include <cstdio>
#include <thread>
#include <vector>

#include "check.h"

struct State {
  int rounds;
  int *place;
};

__managed__ int values[3000] = {1, 2, 3};
__managed__ int counter = 7;
__managed__ State state;
__device__ int own;

__global__ void step(int with) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < 3000) values[i] += with;
  if (i == 0) {
    counter++;
    state.rounds = counter * 10 + with;
    own += with;
  }
}

// By a pointer, which has no library to it.
__global__ void sum(const int *from, int n, int *into) {
  *into = 0;
  for (int i = 0; i < n; i++) *into += from[i];
}

__global__ void count_up(int times) {
  for (int i = 0; i < times; i++) atomicAdd_system(&counter, 1);
}

struct Node {
  Node *next;
  int *values;
};

__global__ void walk(Node *node, int *sum) {
  *sum = 0;
  for (; node; node = node->next)
    for (int i = 0; i < 100; i++) *sum += node->values[i]++;
}

static void use(int device) { CHECK(cudaSetDevice(device)); }

// Found by pointers, and fetched to the device before.
static void fetched() {
  Node *first = nullptr;
  for (int i = 0; i < 6; i++) {
    Node *node;
    use(i % 2);
    CHECK(cudaMallocManaged(&node, sizeof *node));
    CHECK(cudaMallocManaged(&node->values, i % 3 ? 400 : 3 << 20));
    for (int k = 0; k < 100; k++) node->values[k] = i + k;
    node->next = first;
    first = node;
  }
  for (int device : {1, 0, 1}) {
    use(device);
    int *sum;
    CHECK(cudaMallocManaged(&sum, sizeof *sum));
    cudaMemLocation place = {cudaMemLocationTypeDevice, device};
    for (Node *node = first; node; node = node->next)
      CHECK(cudaMemPrefetchAsync(node->values, 400, place, 0, 0));
    for (Node *node = first; node; node = node->next)
      CHECK(cudaMemPrefetchAsync(node, sizeof *node, place, 0, 0));
    walk<<<1, 1>>>(first, sum);
    CHECK(cudaDeviceSynchronize());
    printf("fetched to %d: %d\n", device, *sum);
    CHECK(cudaFree(sum));
  }
}

static long total() {
  long all = 0;
  for (int value : values) all += value;
  return all;
}

int main() {
  int devices;
  CHECK(cudaGetDeviceCount(&devices));
  if (devices < 2) {
    fprintf(stderr, "this takes two devices\n");
    return 2;
  }
  printf("at first: %d %ld\n", counter, total());
  for (int round = 0; round < 6; round++) {
    use(round % 2);
    step<<<12, 256>>>(round + 1);
    CHECK(cudaDeviceSynchronize());
    printf("by %d: %d %d %ld\n", round % 2, counter, state.rounds, total());
    values[round * 500] += 1000;
  }
  // Several launches of one before the other has its turn, and nobody looks in between.
  for (int round = 0; round < 10; round++) {
    use(round % 3 == 0);
    step<<<12, 256>>>(1);
    if (round == 4) counter += 0;
    CHECK(cudaDeviceSynchronize());
  }
  printf("in turn: %d %ld\n", counter, total());

  void *places[2];
  int *results[2];
  for (int device : {0, 1}) {
    use(device);
    CHECK(cudaMalloc(&results[device], sizeof(int)));
    CHECK(cudaGetSymbolAddress(&places[device], values));
    sum<<<1, 1>>>(values, 3000, results[device]);
    int found;
    CHECK(cudaMemcpy(&found, results[device], sizeof found, cudaMemcpyDeviceToHost));
    printf("summed by %d: %d, own %s\n", device, found, places[device] == values ? "same" : "not");
    CHECK(cudaMemcpyFromSymbol(&found, own, sizeof found));
    printf("its own: %d\n", found);
  }
  cudaPointerAttributes attributes;
  CHECK(cudaPointerGetAttributes(&attributes, values));
  printf("type %d\n", attributes.type);

  // Copies and fills of what the other device had last.
  for (int device : {1, 0}) {
    use(device);
    step<<<12, 256>>>(2);
    CHECK(cudaDeviceSynchronize());
    use(1 - device);
    std::vector<int> host(3000);
    CHECK(cudaMemcpyFromSymbol(host.data(), values, sizeof values));
    long all = 0;
    for (int value : host) all += value;
    printf("copied by %d: %ld\n", 1 - device, all);
    CHECK(cudaMemset(values, 0, 1024));
    CHECK(cudaDeviceSynchronize());
    printf("filled: %d %ld\n", values[1], total());
  }

  cudaGraph_t graph;
  cudaGraphExec_t execs[2];
  for (int device : {0, 1}) {
    use(device);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    step<<<12, 256, 0, stream>>>(5);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&execs[device], graph, 0));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
  }
  for (int round = 0; round < 4; round++) {
    use(round % 2);
    CHECK(cudaGraphLaunch(execs[round % 2], 0));
    CHECK(cudaDeviceSynchronize());
    values[7]++;
    printf("graph of %d: %d %ld\n", round % 2, counter, total());
  }

  // Threads of their own, one at a time.
  counter = 0;
  for (int round = 0; round < 3; round++)
    for (int device : {0, 1})
      std::thread([device] {
        use(device);
        count_up<<<1, 1>>>(100);
        CHECK(cudaDeviceSynchronize());
      }).join();
  printf("counted: %d\n", counter);

  // And at once.
  counter = 0;
  std::thread both[2];
  for (int device : {0, 1})
    both[device] = std::thread([device] {
      use(device);
      for (int i = 0; i < 30; i++) {
        count_up<<<2, 32>>>(10);
        if (i % 4 == device) CHECK(cudaDeviceSynchronize());
      }
      CHECK(cudaDeviceSynchronize());
    });
  for (auto &thread : both) thread.join();
  printf("counted at once: %d\n", counter);
  counter = 600;
  fetched();

  use(1);
  CHECK(cudaDeviceReset());
  printf("after a reset: %d\n", counter);
  count_up<<<1, 1>>>(5);
  CHECK(cudaDeviceSynchronize());
  use(0);
  count_up<<<1, 1>>>(5);
  CHECK(cudaDeviceSynchronize());
  printf("after a reset: %d\n", counter);
  return 0;
}
