// Managed memory with several devices that reach each other, none of which has asked for access:
// kernels find it by their parameters and by pointers in memory, one device after the other and
// both at once; the host and copies beside them. And memory of graphs that is given to a peer.
#include <cstdio>
#include <vector>

#include "check.h"

constexpr int count = 1 << 19;
constexpr size_t bytes = count * sizeof(int);

struct Node {
  Node *next;
  int *values;
  int sum;
};

__global__ void add(int *values, int n, int with) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] += with;
}

// A list whose links lie where only managed memory says.
__global__ void walk(Node *node, int with) {
  for (; node; node = node->next) {
    node->sum = 0;
    for (int i = 0; i < 256; i++) node->sum += node->values[i] += with;
  }
}

__global__ void count_up(unsigned long long *counter, int times) {
  for (int i = 0; i < times; i++) atomicAdd_system(counter, 1);
}

// Takes so long that who does not wait for it comes too early.
__global__ void slowly(int *values, int n, int with) {
  long long until = clock64() + 2000000;
  while (clock64() < until) {
  }
  for (int i = 0; i < n; i += 100) values[i] = with;
}

static void use(int device) { CHECK(cudaSetDevice(device)); }

static unsigned long long total(const int *values) {
  unsigned long long sum = 0;
  for (int i = 0; i < count; i++) sum += values[i];
  return sum;
}

static Node *list(int length) {
  Node *first = nullptr;
  for (int i = 0; i < length; i++) {
    Node *node;
    use(i % 2);
    CHECK(cudaMallocManaged(&node, sizeof *node));
    CHECK(cudaMallocManaged(&node->values, i % 3 ? 1024 : 3 << 20));
    for (int k = 0; k < 256; k++) node->values[k] = i + k;
    node->next = first;
    first = node;
  }
  return first;
}

static void pointers() {
  Node *first = list(8);
  for (int round = 0; round < 4; round++) {
    use(round % 2);
    walk<<<1, 1>>>(first, round + 1);
    CHECK(cudaDeviceSynchronize());
    printf("sums, by %d:", round % 2);
    for (Node *node = first; node; node = node->next) printf(" %d", node->sum);
    printf("\n");
    first->next->values[3] += 1000;  // between two devices
  }
  while (first) {
    Node *next = first->next;
    CHECK(cudaFree(first->values));
    CHECK(cudaFree(first));
    first = next;
  }
}

static void halves() {
  int *values;
  use(1);
  CHECK(cudaMallocManaged(&values, bytes));
  for (int i = 0; i < count; i++) values[i] = i % 7;
  for (int round = 0; round < 3; round++) {
    for (int device : {0, 1}) {
      use(device);
      add<<<count / 512, 256>>>(values + device * count / 2, count / 2, device + 1);
    }
    for (int device : {0, 1}) {
      use(device);
      CHECK(cudaDeviceSynchronize());
    }
    printf("both halves: %llu\n", total(values));
    values[count / 2 * (round % 2)] += 5;
  }
  // What one device has under way is waited for by whoever looks.
  use(0);
  slowly<<<1, 1>>>(values, count, 77);
  CHECK(cudaDeviceSynchronize());
  use(1);
  slowly<<<1, 1>>>(values, count / 2, 78);
  CHECK(cudaDeviceSynchronize());
  printf("slowly: %llu\n", total(values));

  unsigned long long *counter;
  CHECK(cudaMallocManaged(&counter, sizeof *counter));
  *counter = 0;
  for (int device : {0, 1}) {
    use(device);
    count_up<<<4, 64>>>(counter, 10);
  }
  for (int device : {0, 1}) {
    use(device);
    CHECK(cudaDeviceSynchronize());
  }
  printf("counted by both: %llu\n", *counter);
  CHECK(cudaFree(counter));
  CHECK(cudaFree(values));
}

// Named by the other device than the one that it was allocated for.
static void copies() {
  int *values, *plain;
  std::vector<int> host(count);
  use(0);
  CHECK(cudaMallocManaged(&values, bytes));
  use(1);
  CHECK(cudaMalloc(&plain, bytes));
  for (int round = 0; round < 2; round++) {
    use(round);
    for (int i = 0; i < count; i++) values[i] = i % 5 + round;
    cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, values));
    printf("type %d, device %d, same %d %d\n", attributes.type, attributes.device,
           attributes.devicePointer == values, attributes.hostPointer == values);
    cudaMemLocation place = {cudaMemLocationTypeDevice, 1 - round};
    CHECK(cudaMemAdvise(values, bytes, cudaMemAdviseSetPreferredLocation, place));
    CHECK(cudaMemPrefetchAsync(values, bytes, place, 0, cudaStreamPerThread));
    int last;
    CHECK(cudaMemRangeGetAttribute(&last, sizeof last, cudaMemRangeAttributeLastPrefetchLocation,
                                   values, bytes));
    printf("fetched by %d\n", last);
    add<<<count / 256, 256>>>(values, count, 10);
    CHECK(cudaMemcpy(plain, values, bytes, cudaMemcpyDefault));
    CHECK(cudaMemset(values, 0, bytes / 2));
    CHECK(cudaMemcpyAsync(values + count / 4, plain, bytes / 4, cudaMemcpyDefault,
                          cudaStreamPerThread));
    CHECK(cudaStreamSynchronize(cudaStreamPerThread));
    CHECK(cudaDeviceSynchronize());
    printf("copied: %llu\n", total(values));
  }
  CHECK(cudaFree(values));
  CHECK(cudaFree(plain));
}

// Allocated and freed while both devices are at work; what comes next has nothing of it.
static void turnover() {
  int wrong = 0;
  for (int round = 0; round < 12; round++) {
    int *values;
    use(round % 2);
    CHECK(cudaMallocManaged(&values, bytes * 2));
    for (int i = 0; i < count; i += 4096) wrong += values[i] != 0;
    use(1 - round % 2);
    add<<<count / 256, 256>>>(values, count, round + 1);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < count; i += 4096) wrong += values[i] != round + 1;
    CHECK(cudaFree(values));
  }
  printf("turnover: %d wrong\n", wrong);
}

static void graphs() {
  use(0);
  cudaMemAllocNodeParams allocation = {};
  allocation.poolProps.allocType = cudaMemAllocationTypePinned;
  allocation.poolProps.location = {cudaMemLocationTypeDevice, 0};
  allocation.bytesize = bytes;
  cudaMemAccessDesc access = {{cudaMemLocationTypeDevice, 1}, cudaMemAccessFlagsProtReadWrite};
  allocation.accessDescs = &access;
  allocation.accessDescCount = 1;
  cudaGraph_t graph;
  cudaGraphNode_t allocates, clears;
  CHECK(cudaGraphCreate(&graph, 0));
  CHECK(cudaGraphAddMemAllocNode(&allocates, graph, nullptr, 0, &allocation));
  int *values = static_cast<int *>(allocation.dptr);
  cudaMemsetParams fill = {values, 0, 1, 4, count, 1};
  CHECK(cudaGraphAddMemsetNode(&clears, graph, &allocates, 1, &fill));
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  for (int round = 0; round < 2; round++) {
    use(0);
    CHECK(cudaGraphLaunch(exec, 0));
    CHECK(cudaDeviceSynchronize());
    use(1);
    add<<<count / 256, 256>>>(values, count, round + 2);
    CHECK(cudaDeviceSynchronize());
    std::vector<int> host(count);
    CHECK(cudaMemcpy(host.data(), values, bytes, cudaMemcpyDefault));
    printf("of a graph: %llu\n", total(host.data()));
    use(0);
    CHECK(cudaFree(values));
  }
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
}

// Of both devices, by either, on streams of any.
static void arrays() {
  constexpr int width = 64, height = 48;
  cudaArray_t arrays[2];
  cudaChannelFormatDesc format = cudaCreateChannelDesc<int>();
  std::vector<int> host(width * height), back(width * height);
  for (int device : {0, 1}) {
    use(device);
    CHECK(cudaMallocArray(&arrays[device], &format, width, height));
  }
  for (int round = 0; round < 4; round++) {
    int from = round % 2, to = 1 - from;
    for (size_t i = 0; i < host.size(); i++) host[i] = static_cast<int>(i) * (round + 1);
    use(from);
    CHECK(cudaMemcpy2DToArray(arrays[from], 0, 0, host.data(), width * 4, width * 4, height,
                              cudaMemcpyHostToDevice));
    cudaMemcpy3DPeerParms copy = {};
    copy.srcArray = arrays[from];
    copy.srcDevice = from;
    copy.dstArray = arrays[to];
    copy.dstDevice = to;
    copy.extent = make_cudaExtent(width, height, 1);
    use(round / 2);
    if (round % 2) {
      CHECK(cudaMemcpy3DPeer(&copy));
    } else {
      CHECK(cudaMemcpy3DPeerAsync(&copy, cudaStreamPerThread));
      CHECK(cudaStreamSynchronize(cudaStreamPerThread));
    }
    CHECK(cudaMemcpy2DFromArray(back.data(), width * 4, arrays[to], 0, 0, width * 4, height,
                                cudaMemcpyDeviceToHost));
    printf("array %d to %d: %d\n", from, to, back == host);
  }
  for (auto array : arrays) CHECK(cudaFreeArray(array));
}

int main() {
  int devices;
  CHECK(cudaGetDeviceCount(&devices));
  if (devices < 2) {
    fprintf(stderr, "this takes two devices\n");
    return 2;
  }
  pointers();
  halves();
  copies();
  turnover();
  graphs();
  arrays();
  // One device starts anew; the other goes on with what it has.
  int *values;
  use(0);
  CHECK(cudaMallocManaged(&values, bytes));
  use(1);
  add<<<count / 256, 256>>>(values, count, 3);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaDeviceReset());
  printf("after a reset: %llu\n", total(values));
  add<<<count / 256, 256>>>(values, count, 4);
  CHECK(cudaDeviceSynchronize());
  printf("after a reset: %llu\n", total(values));
  use(0);
  CHECK(cudaDeviceReset());
  pointers();
  return 0;
}
