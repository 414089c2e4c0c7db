// When graphs read and write the program's memory: when a node's turn comes, not when the graph is
// launched. Functions, copies and waits that come before a copy decide what it takes, and what a
// function leaves stays. Copies between two places of the program's memory are nodes like others.
// flags: -lcuda
#include <cstring>
#include <vector>

#include "../check.h"
#include "../check_driver.h"

constexpr int kCount = 600;
using Block = int[kCount];
static Block a, b, c, d;
static int *device, *other_device;
static cudaStream_t stream, second;

__global__ void add(int *at, int value) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < kCount) at[i] += value;
}

static void CUDART_CB add_seven(void *data) {
  for (int i = 0; i < kCount; i++) static_cast<int *>(data)[i] += 7;
}
static void CUDART_CB copy_to_b(void *data) { memcpy(b, data, sizeof b); }

static void fill(int *block, int seed) {
  for (int i = 0; i < kCount; i++) block[i] = seed + i;
}

// All elements are base + i, and which base.
static int base(const int *block) {
  for (int i = 1; i < kCount; i++)
    if (block[i] != block[0] + i) return -i;
  return block[0];
}

static void begin() { CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed)); }
static cudaGraphExec_t end(cudaGraph_t *graph) {
  cudaGraphExec_t exec;
  CHECK(cudaStreamEndCapture(stream, graph));
  CHECK(cudaGraphInstantiate(&exec, *graph, 0));
  return exec;
}
static void up(int *to, const int *from) {
  CHECK(cudaMemcpyAsync(to, from, sizeof(Block), cudaMemcpyHostToDevice, stream));
}
static void down(int *to, const int *from) {
  CHECK(cudaMemcpyAsync(to, from, sizeof(Block), cudaMemcpyDeviceToHost, stream));
}
static void across(int *to, const int *from) {
  CHECK(cudaMemcpyAsync(to, from, sizeof(Block), cudaMemcpyHostToHost, stream));
}
static void kernel(int value) { add<<<3, 256, 0, stream>>>(device, value); }
static void run(cudaGraphExec_t exec) {
  CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaStreamSynchronize(stream));
}
static void destroy(cudaGraphExec_t exec, cudaGraph_t graph) {
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
}

// What a function changes stays, and the next copy takes it.
static void changed_in_place() {
  cudaGraph_t graph;
  begin();
  up(device, a);
  kernel(100);
  down(a, device);
  CHECK(cudaLaunchHostFunc(stream, add_seven, a));
  up(device, a);
  kernel(1000);
  down(b, device);
  CHECK(cudaLaunchHostFunc(stream, add_seven, b));
  cudaGraphExec_t exec = end(&graph);
  fill(a, 0);
  for (int round = 0; round < 3; round++) {
    run(exec);
    printf("in place: %d %d\n", base(a), base(b));
  }
  // Launches behind one another: each begins with what the one before has left.
  fill(a, 0);
  for (int round = 0; round < 3; round++) CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaStreamSynchronize(stream));
  printf("three at once: %d %d\n", base(a), base(b));
  destroy(exec, graph);
}

// Through the program's memory from one copy to the next, with nothing between them.
static void from_copy_to_copy() {
  cudaGraph_t graph;
  begin();
  up(device, a);
  kernel(5);
  down(b, device);
  up(other_device, b);
  kernel(1);
  CHECK(cudaMemcpyAsync(device, other_device, sizeof(Block), cudaMemcpyDeviceToDevice, stream));
  kernel(20);
  down(c, device);
  cudaGraphExec_t exec = end(&graph);
  for (int round = 0; round < 2; round++) {
    fill(a, 100 * round);
    memset(b, 0, sizeof b);
    run(exec);
    printf("from copy to copy: %d %d\n", base(b), base(c));
  }
  destroy(exec, graph);
  // One graph's copy to the next one's, which is another graph.
  cudaGraph_t first_graph, second_graph;
  begin();
  up(device, a);
  kernel(3);
  down(b, device);
  cudaGraphExec_t first = end(&first_graph);
  begin();
  up(device, b);
  kernel(4);
  down(a, device);
  cudaGraphExec_t next = end(&second_graph);
  fill(a, 0);
  for (int round = 0; round < 4; round++) {
    CHECK(cudaGraphLaunch(first, stream));
    CHECK(cudaGraphLaunch(next, stream));
  }
  CHECK(cudaStreamSynchronize(stream));
  printf("from graph to graph: %d %d\n", base(a), base(b));
  destroy(first, first_graph);
  destroy(next, second_graph);
}

static void on_the_host() {
  cudaGraph_t graph;
  begin();
  across(b, a);
  up(device, b);
  kernel(2);
  down(c, device);
  across(d, c);
  CHECK(cudaLaunchHostFunc(stream, add_seven, d));
  across(c, d);
  cudaGraphExec_t exec = end(&graph);
  fill(a, 50);
  run(exec);
  printf("on the host: %d %d %d %d\n", base(a), base(b), base(c), base(d));
  cudaGraphNode_t nodes[7];
  size_t count = 7;
  CHECK(cudaGraphGetNodes(graph, nodes, &count));
  // Another source, then switched off.
  Block other;
  fill(other, 4000);
  CHECK(
      cudaGraphExecMemcpyNodeSetParams1D(exec, nodes[0], b, other, sizeof b, cudaMemcpyHostToHost));
  run(exec);
  printf("another source: %d %d %d\n", base(b), base(c), base(d));
  CHECK(cudaGraphNodeSetEnabled(exec, nodes[0], 0));
  unsigned enabled = 1;
  CHECK(cudaGraphNodeGetEnabled(exec, nodes[0], &enabled));
  fill(b, 600);
  run(exec);
  printf("switched off (%u): %d %d %d\n", enabled, base(b), base(c), base(d));
  destroy(exec, graph);
  // Planes, by hand.
  CHECK(cudaGraphCreate(&graph, 0));
  char from[4][16], to[3][10];
  for (int y = 0; y < 4; y++) memset(from[y], 'a' + y, sizeof from[y]);
  memset(to, '.', sizeof to);
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = make_cudaPitchedPtr(from, sizeof from[0], 16, 4);
  copy.srcPos = make_cudaPos(2, 1, 0);
  copy.dstPtr = make_cudaPitchedPtr(to, sizeof to[0], 10, 3);
  copy.extent = make_cudaExtent(7, 3, 1);
  copy.kind = cudaMemcpyHostToHost;
  cudaGraphNode_t node;
  CHECK(cudaGraphAddMemcpyNode(&node, graph, nullptr, 0, &copy));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  run(exec);
  for (auto &row : to) printf("%.10s\n", row);
  destroy(exec, graph);
}

// Work ahead of the graph that decides what its copies take.
static void decided_before() {
  cudaGraph_t graph;
  begin();
  up(device, a);
  kernel(1);
  down(c, device);
  cudaGraphExec_t exec = end(&graph);
  fill(a, 10);
  CHECK(cudaLaunchHostFunc(stream, add_seven, a));
  run(exec);
  printf("a function before: %d\n", base(c));
  // In another stream, which this one waits for.
  cudaEvent_t event;
  CHECK(cudaEventCreate(&event));
  CHECK(cudaLaunchHostFunc(second, add_seven, a));
  CHECK(cudaEventRecord(event, second));
  CHECK(cudaStreamWaitEvent(stream, event, 0));
  run(exec);
  printf("a function elsewhere: %d\n", base(c));
  // A copy to pinned memory which the graph takes.
  int *pinned;
  CHECK(cudaMallocHost(&pinned, sizeof(Block)));
  cudaGraph_t other_graph;
  begin();
  up(device, pinned);
  kernel(1);
  down(c, device);
  cudaGraphExec_t takes_pinned = end(&other_graph);
  fill(b, 300);
  CHECK(cudaMemcpy(other_device, b, sizeof b, cudaMemcpyHostToDevice));
  CHECK(cudaDeviceSynchronize());
  memset(pinned, 0, sizeof(Block));
  down(pinned, other_device);
  run(takes_pinned);
  printf("a copy before: %d\n", base(c));
  // A flag that the program raises after the launch.
  uint32_t *flag;
  CHECK(cudaMalloc(&flag, sizeof *flag));
  CHECK(cudaMemset(flag, 0, sizeof *flag));
  CHECK(cudaDeviceSynchronize());
  const CUdeviceptr at = reinterpret_cast<CUdeviceptr>(flag);
  DRIVER(cuStreamWaitValue32(stream, at, 1, CU_STREAM_WAIT_VALUE_EQ));
  CHECK(cudaGraphLaunch(exec, stream));
  fill(a, 777);
  DRIVER(cuStreamWriteValue32(second, at, 1, 0));
  CHECK(cudaStreamSynchronize(stream));
  printf("a flag before: %d\n", base(c));
  CHECK(cudaFreeHost(pinned));
  CHECK(cudaFree(flag));
  CHECK(cudaEventDestroy(event));
  destroy(exec, graph);
  destroy(takes_pinned, other_graph);
}

// The same in the graph: it waits, and the program goes on meanwhile.
static void decided_within() {
  uint32_t *flag;
  CHECK(cudaMalloc(&flag, sizeof *flag));
  CHECK(cudaMemset(flag, 0, sizeof *flag));
  CHECK(cudaDeviceSynchronize());
  const CUdeviceptr at = reinterpret_cast<CUdeviceptr>(flag);
  cudaEvent_t event;
  CHECK(cudaEventCreate(&event));
  cudaGraph_t graph;
  begin();
  DRIVER(cuStreamWaitValue32(stream, at, 1, CU_STREAM_WAIT_VALUE_EQ));
  up(device, a);
  kernel(2);
  down(c, device);
  cudaGraphExec_t exec = end(&graph);
  fill(a, 1);
  for (int round = 1; round <= 2; round++) {
    CHECK(cudaGraphLaunch(exec, stream));
    fill(a, 2000 * round);
    DRIVER(cuStreamWriteValue32(second, at, 1, 0));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemset(flag, 0, sizeof *flag));
    CHECK(cudaDeviceSynchronize());
    printf("a flag within: %d\n", base(c));
  }
  // Only the copy's source changes, and where the copy goes.
  cudaGraphNode_t nodes[4];
  size_t count = 4;
  CHECK(cudaGraphGetNodes(graph, nodes, &count));
  CHECK(cudaGraphExecMemcpyNodeSetParams1D(exec, nodes[1], device, b, sizeof b,
                                           cudaMemcpyHostToDevice));
  CHECK(cudaGraphLaunch(exec, stream));
  fill(b, 31);
  DRIVER(cuStreamWriteValue32(second, at, 1, 0));
  CHECK(cudaStreamSynchronize(stream));
  printf("another source: %d\n", base(c));
  destroy(exec, graph);
  begin();
  CHECK(cudaStreamWaitEvent(stream, event, cudaEventWaitExternal));
  up(device, a);
  kernel(3);
  down(c, device);
  exec = end(&graph);
  CHECK(cudaLaunchHostFunc(second, add_seven, a));
  CHECK(cudaEventRecord(event, second));
  run(exec);
  printf("an event within: %d\n", base(c));
  destroy(exec, graph);
  CHECK(cudaEventDestroy(event));
  CHECK(cudaFree(flag));
}

// A function in one graph, copies in graphs embedded in it and around it.
static void embedded() {
  cudaGraph_t inner, outer;
  begin();
  up(device, b);
  kernel(9);
  down(c, device);
  CHECK(cudaStreamEndCapture(stream, &inner));
  CHECK(cudaGraphCreate(&outer, 0));
  cudaGraphNode_t first, child, last;
  cudaHostNodeParams function = {copy_to_b, a};
  CHECK(cudaGraphAddHostNode(&first, outer, nullptr, 0, &function));
  CHECK(cudaGraphAddChildGraphNode(&child, outer, &first, 1, inner));
  function = {add_seven, c};
  CHECK(cudaGraphAddHostNode(&last, outer, &child, 1, &function));
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, outer, 0));
  for (int round = 1; round <= 2; round++) {
    fill(a, 500 * round);
    run(exec);
    printf("embedded: %d %d\n", base(b), base(c));
  }
  function = {add_seven, d};
  fill(d, 0);
  CHECK(cudaGraphExecHostNodeSetParams(exec, last, &function));
  run(exec);
  printf("another function: %d %d\n", base(c), base(d));
  destroy(exec, outer);
  CHECK(cudaGraphDestroy(inner));
}

// A graph may go while a launch of it is under way; and many come and go.
static void short_lived() {
  fill(a, 1);
  for (int round = 0; round < 200; round++) {
    cudaGraph_t graph;
    begin();
    CHECK(cudaLaunchHostFunc(stream, add_seven, a));
    up(device, a);
    kernel(1);
    down(a, device);
    cudaGraphExec_t exec = end(&graph);
    CHECK(cudaGraphLaunch(exec, stream));
    destroy(exec, graph);
  }
  CHECK(cudaStreamSynchronize(stream));
  printf("short lived: %d\n", base(a));
}

int main() {
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  CHECK(cudaMalloc(&device, sizeof(Block)));
  CHECK(cudaMalloc(&other_device, sizeof(Block)));
  changed_in_place();
  from_copy_to_copy();
  on_the_host();
  decided_before();
  decided_within();
  embedded();
  short_lived();
  return 0;
}
