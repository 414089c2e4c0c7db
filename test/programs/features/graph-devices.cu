// Graphs of two devices: built by hand and captured, launched into streams of either, changed.
// Where there is one device only, it does the work of both.
#include <cstdio>
#include <cstring>
#include <thread>

#include "../check.h"

constexpr int count = 40000;
constexpr size_t bytes = count * sizeof(int);
constexpr int blocks = (count + 255) / 256;

__global__ void add(int *to, int with) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] += with;
}

__global__ void multiply(int *to, int with) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] *= with;
}

__global__ void sum(int *to, const int *from) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] += from[i];
}

// Takes so long that who does not wait for it comes too early.
__global__ void slowly(int *to, int with) {
  long long until = clock64() + 1000000;
  while (clock64() < until) {
  }
  for (int i = 0; i < count; i++) to[i] += with;
}

static int last;
static int *of[2], *pinned;
static cudaStream_t stream[2];
static int calls;

static void go(int device) { CHECK(cudaSetDevice(device ? last : 0)); }

static void show(const char *what) {
  int first[2], end[2];
  for (int d = 0; d < 2; d++) {
    go(d);
    CHECK(cudaDeviceSynchronize());
  }
  for (int d = 0; d < 2; d++) {
    go(d);
    CHECK(cudaMemcpy(&first[d], of[d], sizeof(int), cudaMemcpyDefault));
    CHECK(cudaMemcpy(&end[d], of[d] + count - 1, sizeof(int), cudaMemcpyDefault));
  }
  printf("%s: %d %d, %d %d; calls %d\n", what, first[0], first[1], end[0] - first[0],
         end[1] - first[1], calls);
}

static void clear() {
  for (int d = 0; d < 2; d++) {
    go(d);
    CHECK(cudaMemset(of[d], 0, bytes));
    CHECK(cudaDeviceSynchronize());
  }
}

static cudaGraphNode_t kernel_node(cudaGraph_t graph, cudaGraphNode_t before, int device,
                                   void (*kernel)(int *, int), int *to, int with) {
  void *values[] = {&to, &with};
  cudaKernelNodeParams params = {};
  params.func = (void *)kernel;
  params.gridDim = blocks;
  params.blockDim = 256;
  if (kernel == slowly) params.gridDim = params.blockDim = 1;
  params.kernelParams = values;
  cudaGraphNode_t node;
  go(device);
  CHECK(cudaGraphAddKernelNode(&node, graph, &before, before ? 1 : 0, &params));
  return node;
}

static void CUDART_CB called(void *data) {
  calls++;
  ((int *)data)[0] += 5;
}

static void launch(cudaGraphExec_t exec, int device) {
  go(device);
  CHECK(cudaGraphLaunch(exec, stream[device]));
}

// A chain to and fro, and a branch beside it.
static void by_hand() {
  cudaGraph_t graph, copy;
  cudaGraphNode_t first, there, second, back, third, fill, end;
  clear();
  CHECK(cudaGraphCreate(&graph, 0));
  first = kernel_node(graph, NULL, 0, slowly, of[0], 1);
  CHECK(cudaGraphAddMemcpyNode1D(&there, graph, &first, 1, of[1], of[0], bytes, cudaMemcpyDefault));
  second = kernel_node(graph, there, 1, slowly, of[1], 10);
  cudaGraphNode_t more = kernel_node(graph, second, 1, multiply, of[1], 2);
  CHECK(cudaGraphAddMemcpyNode1D(&back, graph, &more, 1, of[0], of[1], bytes, cudaMemcpyDefault));
  third = kernel_node(graph, back, 0, add, of[0], 3);
  go(1);
  int *beside;
  CHECK(cudaMalloc(&beside, bytes));
  cudaMemsetParams set = {};
  set.dst = beside;
  set.elementSize = 4;
  set.value = 100;
  set.width = count;
  set.height = 1;
  CHECK(cudaGraphAddMemsetNode(&fill, graph, NULL, 0, &set));
  cudaGraphNode_t both[] = {third, fill};
  CHECK(cudaGraphAddEmptyNode(&end, graph, both, 2));
  int *to = of[1];
  const int *from = beside;
  void *values[] = {&to, &from};
  cudaKernelNodeParams params = {};
  params.func = (void *)sum;
  params.gridDim = blocks;
  params.blockDim = 256;
  params.kernelParams = values;
  cudaGraphNode_t total;
  CHECK(cudaGraphAddKernelNode(&total, graph, &end, 1, &params));
  size_t nodes;
  CHECK(cudaGraphGetNodes(graph, NULL, &nodes));
  printf("%zu nodes\n", nodes);
  cudaGraphExec_t exec;
  go(0);
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  launch(exec, 0);
  show("once");
  for (int i = 0; i < 5; i++) launch(exec, i & 1);
  show("six times");

  // Changed: parameters of nodes of either, of a copy between them, and whole.
  clear();
  int with = 7;
  void *changed[] = {&of[0], &with};
  go(0);
  params.func = (void *)slowly;
  params.gridDim = params.blockDim = 1;
  params.kernelParams = changed;
  CHECK(cudaGraphExecKernelNodeSetParams(exec, first, &params));
  go(1);
  changed[0] = &of[1];
  params.func = (void *)multiply;
  params.gridDim = blocks;
  params.blockDim = 256;
  with = 4;
  CHECK(cudaGraphExecKernelNodeSetParams(exec, more, &params));
  set.value = 1000;
  CHECK(cudaGraphExecMemsetNodeSetParams(exec, fill, &set));
  CHECK(
      cudaGraphExecMemcpyNodeSetParams1D(exec, there, of[1], of[0], bytes / 2, cudaMemcpyDefault));
  launch(exec, 1);
  show("changed");
  CHECK(cudaGraphNodeSetEnabled(exec, there, 0));
  CHECK(cudaGraphNodeSetEnabled(exec, total, 0));
  launch(exec, 1);
  unsigned on[2] = {7, 7};
  CHECK(cudaGraphNodeGetEnabled(exec, there, &on[0]));
  CHECK(cudaGraphNodeGetEnabled(exec, third, &on[1]));
  printf("enabled: %u %u\n", on[0], on[1]);
  show("partly");
  CHECK(cudaGraphNodeSetEnabled(exec, there, 1));
  CHECK(cudaGraphNodeSetEnabled(exec, total, 1));
  cudaGraphExecUpdateResultInfo info;
  CHECK(cudaGraphExecUpdate(exec, graph, &info));
  clear();
  launch(exec, 0);
  show("as it was");
  // Default streams, which the copies between the devices wait for.
  for (int i = 0; i < 4; i++) {
    go(i & 1);
    CHECK(cudaGraphLaunch(exec, i < 2 ? cudaStreamLegacy : cudaStreamPerThread));
    CHECK(cudaStreamSynchronize(i < 2 ? cudaStreamLegacy : cudaStreamPerThread));
  }
  show("in default streams");

  // A clone, and a child among nodes of a graph.
  CHECK(cudaGraphClone(&copy, graph));
  cudaGraph_t around;
  cudaGraphNode_t inner, behind;
  CHECK(cudaGraphCreate(&around, 0));
  cudaGraphNode_t ahead = kernel_node(around, NULL, 1, add, of[1], 1);
  CHECK(cudaGraphAddChildGraphNode(&inner, around, &ahead, 1, copy));
  behind = kernel_node(around, inner, 0, multiply, of[0], 3);
  (void)behind;
  cudaGraphExec_t outer;
  CHECK(cudaGraphInstantiate(&outer, around, 0));
  launch(outer, 1);
  launch(outer, 0);
  show("a child");
  CHECK(cudaGraphExecChildGraphNodeSetParams(outer, inner, graph));
  launch(outer, 1);
  show("the same");
  CHECK(cudaGraphExecDestroy(outer));
  CHECK(cudaGraphDestroy(around));
  CHECK(cudaGraphDestroy(copy));
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  go(1);
  CHECK(cudaFree(beside));
}

// A graph of one device, in streams of the other.
static void elsewhere() {
  clear();
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  go(1);
  CHECK(cudaStreamBeginCapture(stream[1], cudaStreamCaptureModeRelaxed));
  slowly<<<1, 1, 0, stream[1]>>>(of[1], 1);
  CHECK(cudaMemcpyAsync(pinned, of[1], bytes, cudaMemcpyDeviceToHost, stream[1]));
  CHECK(cudaLaunchHostFunc(stream[1], called, pinned));
  CHECK(cudaMemcpyAsync(of[1], pinned, bytes, cudaMemcpyHostToDevice, stream[1]));
  CHECK(cudaStreamEndCapture(stream[1], &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 4; i++) {
    launch(exec, 0);
    // In the order of that stream: what it copies is what the graph has left.
    CHECK(cudaMemcpyAsync(of[0], of[1], bytes, cudaMemcpyDefault, stream[0]));
    if (i == 1) launch(exec, 1);
    CHECK(cudaStreamSynchronize(stream[0]));
    CHECK(cudaStreamSynchronize(stream[1]));
  }
  show("elsewhere");
  go(0);
  CHECK(cudaGraphLaunch(exec, 0));
  CHECK(cudaStreamSynchronize(0));
  show("in the legacy stream");
  printf("pinned: %d %d\n", pinned[0], pinned[1]);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
}

// Captured on streams of both, that wait for each other.
static void captured() {
  clear();
  cudaEvent_t fork[2], join, seen;
  for (int d = 0; d < 2; d++) {
    go(d);
    CHECK(cudaEventCreateWithFlags(&fork[d], cudaEventDisableTiming));
  }
  CHECK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
  CHECK(cudaEventCreateWithFlags(&seen, cudaEventDisableTiming));
  for (int i = 0; i < count; i++) pinned[i] = 1;
  go(0);
  int *beside;
  CHECK(cudaMalloc(&beside, bytes));
  CHECK(cudaMemset(beside, 0, bytes));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaStreamBeginCapture(stream[0], cudaStreamCaptureModeRelaxed));
  CHECK(cudaMemcpyAsync(of[0], pinned, bytes, cudaMemcpyHostToDevice, stream[0]));
  slowly<<<1, 1, 0, stream[0]>>>(of[0], 1);
  CHECK(cudaEventRecord(fork[0], stream[0]));
  go(1);
  CHECK(cudaStreamWaitEvent(stream[1], fork[0], 0));
  cudaStreamCaptureStatus status;
  CHECK(cudaStreamIsCapturing(stream[1], &status));
  printf("the other %s captured\n", status == cudaStreamCaptureStatusActive ? "is" : "is not");
  CHECK(cudaMemcpyPeerAsync(of[1], last, of[0], 0, bytes, stream[1]));
  slowly<<<1, 1, 0, stream[1]>>>(of[1], 20);
  CHECK(cudaMemcpyAsync(pinned, of[1], bytes, cudaMemcpyDeviceToHost, stream[1]));
  CHECK(cudaLaunchHostFunc(stream[1], called, pinned));
  CHECK(cudaEventRecordWithFlags(seen, stream[1], cudaEventRecordExternal));
  CHECK(cudaEventRecord(fork[1], stream[1]));
  go(0);
  add<<<blocks, 256, 0, stream[0]>>>(beside, 3);
  CHECK(cudaStreamWaitEvent(stream[0], fork[1], 0));
  sum<<<blocks, 256, 0, stream[0]>>>(of[0], beside);
  // What the function and the other device have left in the program's memory.
  CHECK(cudaMemcpyAsync(of[0] + count / 2, pinned, bytes / 2, cudaMemcpyHostToDevice, stream[0]));
  CHECK(cudaMemsetAsync(of[1], 0, sizeof(int), stream[0]));
  add<<<blocks, 256, 0, stream[0]>>>(of[0], 100);
  cudaGraph_t graph;
  CHECK(cudaStreamEndCapture(stream[0], &graph));
  size_t nodes, edges;
  CHECK(cudaGraphGetNodes(graph, NULL, &nodes));
  CHECK(cudaGraphGetEdges(graph, NULL, NULL, NULL, &edges));
  printf("%zu nodes, %zu edges\n", nodes, edges);
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 3; i++) {
    launch(exec, i & 1);
    CHECK(cudaEventSynchronize(seen));
    for (int d = 0; d < 2; d++) {
      go(d);
      CHECK(cudaStreamSynchronize(stream[d]));
    }
    int middle;
    CHECK(cudaMemcpy(&middle, of[0] + count / 2, sizeof middle, cudaMemcpyDefault));
    printf("pinned %d %d, in the middle %d\n", pinned[0], pinned[1], middle);
  }
  show("captured");

  // As a child of another capture.
  go(1);
  CHECK(cudaStreamBeginCapture(stream[1], cudaStreamCaptureModeRelaxed));
  CHECK(cudaGraphLaunch(exec, stream[1]));
  add<<<blocks, 256, 0, stream[1]>>>(of[1], 1000);
  cudaGraph_t outer;
  CHECK(cudaStreamEndCapture(stream[1], &outer));
  cudaGraphExec_t both;
  CHECK(cudaGraphInstantiate(&both, outer, 0));
  launch(both, 0);
  launch(both, 1);
  show("twice in another");
  CHECK(cudaGraphExecDestroy(both));
  CHECK(cudaGraphDestroy(outer));
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));

  // What does not come back is not joined.
  go(0);
  CHECK(cudaFree(beside));
  CHECK(cudaStreamBeginCapture(stream[0], cudaStreamCaptureModeRelaxed));
  add<<<blocks, 256, 0, stream[0]>>>(of[0], 1);
  CHECK(cudaEventRecord(fork[0], stream[0]));
  go(1);
  CHECK(cudaStreamWaitEvent(stream[1], fork[0], 0));
  add<<<blocks, 256, 0, stream[1]>>>(of[1], 1);
  SHOW(cudaStreamEndCapture(stream[0], &graph));
  cudaGetLastError();
  show("as before");
}

// Events of the other device, and memory that the graph allocates there.
static void events_and_memory() {
  clear();
  cudaEvent_t before, after;
  go(1);
  CHECK(cudaEventCreateWithFlags(&before, cudaEventDisableTiming));
  CHECK(cudaEventCreateWithFlags(&after, cudaEventDisableTiming));
  slowly<<<1, 1, 0, stream[1]>>>(of[1], 3);
  CHECK(cudaEventRecord(before, stream[1]));
  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t waits, copies, takes, gives, records, adds;
  CHECK(cudaGraphAddEventWaitNode(&waits, graph, NULL, 0, before));
  cudaMemAllocNodeParams memory = {};
  memory.poolProps.allocType = cudaMemAllocationTypePinned;
  memory.poolProps.location.type = cudaMemLocationTypeDevice;
  memory.poolProps.location.id = last;
  memory.bytesize = bytes;
  CHECK(cudaGraphAddMemAllocNode(&takes, graph, &waits, 1, &memory));
  int *taken = (int *)memory.dptr;
  CHECK(cudaGraphAddMemcpyNode1D(&copies, graph, &takes, 1, taken, of[1], bytes,
                                 cudaMemcpyDeviceToDevice));
  adds = kernel_node(graph, copies, 1, slowly, taken, 40);
  go(0);
  cudaGraphNode_t over;
  CHECK(cudaGraphAddMemcpyNode1D(&over, graph, &adds, 1, of[0], taken, bytes, cudaMemcpyDefault));
  CHECK(cudaGraphAddMemFreeNode(&gives, graph, &over, 1, taken));
  cudaGraphNode_t end = kernel_node(graph, gives, 0, add, of[0], 500);
  CHECK(cudaGraphAddEventRecordNode(&records, graph, &end, 1, after));
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 3; i++) {
    launch(exec, 0);
    CHECK(cudaEventSynchronize(after));
  }
  show("events and memory");
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
}

// Destroyed while it works.
static void given_up() {
  clear();
  for (int i = 0; i < 8; i++) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t one = kernel_node(graph, NULL, i & 1, slowly, of[i & 1], 1);
    kernel_node(graph, one, !(i & 1), slowly, of[!(i & 1)], 1);
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    launch(exec, 0);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
  }
  show("given up");
}

// Each thread has a graph of its own, over both devices.
static void threads() {
  int *own[2][2];
  for (int t = 0; t < 2; t++)
    for (int d = 0; d < 2; d++) {
      go(d);
      CHECK(cudaMalloc(&own[t][d], bytes));
      CHECK(cudaMemset(own[t][d], 0, bytes));
      CHECK(cudaDeviceSynchronize());
    }
  std::thread both[2];
  for (int t = 0; t < 2; t++)
    both[t] = std::thread([&own, t] {
      cudaGraph_t graph;
      cudaGraphExec_t exec;
      cudaGraphNode_t over;
      CHECK(cudaGraphCreate(&graph, 0));
      cudaGraphNode_t one = kernel_node(graph, NULL, t, slowly, own[t][t], 1);
      CHECK(cudaGraphAddMemcpyNode1D(&over, graph, &one, 1, own[t][!t], own[t][t], bytes,
                                     cudaMemcpyDefault));
      cudaGraphNode_t two = kernel_node(graph, over, !t, add, own[t][!t], 10);
      cudaGraphNode_t back;
      CHECK(cudaGraphAddMemcpyNode1D(&back, graph, &two, 1, own[t][t], own[t][!t], bytes,
                                     cudaMemcpyDefault));
      CHECK(cudaGraphInstantiate(&exec, graph, 0));
      cudaStream_t mine;
      CHECK(cudaStreamCreateWithFlags(&mine, cudaStreamNonBlocking));
      for (int i = 0; i < 20; i++) CHECK(cudaGraphLaunch(exec, mine));
      CHECK(cudaStreamSynchronize(mine));
      CHECK(cudaGraphExecDestroy(exec));
      CHECK(cudaGraphDestroy(graph));
      CHECK(cudaStreamDestroy(mine));
    });
  for (int t = 0; t < 2; t++) {
    both[t].join();
    int found[2];
    for (int d = 0; d < 2; d++)
      CHECK(cudaMemcpy(&found[d], own[t][d] + count - 1, sizeof(int), cudaMemcpyDefault));
    printf("thread %d: %d %d\n", t, found[0], found[1]);
  }
}

int main() {
  setenv("SOFTWARE_DEVICE_GPUS", "2", 0);
  int devices;
  CHECK(cudaGetDeviceCount(&devices));
  last = devices > 1 ? devices - 1 : 0;
  for (int d = 0; d < 2; d++) {
    go(d);
    CHECK(cudaMalloc(&of[d], bytes));
    CHECK(cudaStreamCreateWithFlags(&stream[d], cudaStreamNonBlocking));
  }
  CHECK(cudaMallocHost(&pinned, bytes));
  memset(pinned, 0, bytes);
  by_hand();
  elsewhere();
  captured();
  events_and_memory();
  given_up();
  threads();
  return 0;
}
