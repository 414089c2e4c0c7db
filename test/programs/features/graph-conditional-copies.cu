// Copies and fills under conditions, between the device and pinned memory: done as often as their
// turn comes, and not at all when it does not.
#include <cstring>

#include <cuda.h>

#include "../check.h"

constexpr int count = 5000;
constexpr size_t bytes = count * sizeof(int);

__global__ void decide(cudaGraphConditionalHandle handle, const int *value) {
  cudaGraphSetConditional(handle, static_cast<unsigned>(*value));
}

__global__ void count_down(cudaGraphConditionalHandle handle, int *left) {
  cudaGraphSetConditional(handle, --*left > 0);
}

__global__ void add(int *to, int with) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] += with;
}

static int *value, *data, *in, *out, *other;
static cudaStream_t stream;

static cudaGraph_t conditional(cudaGraph_t graph, cudaGraphConditionalHandle handle,
                               cudaGraphConditionalNodeType type, const cudaGraphNode_t *before) {
  cudaGraphNodeParams params{};
  params.type = cudaGraphNodeTypeConditional;
  params.conditional.handle = handle;
  params.conditional.type = type;
  params.conditional.size = 1;
  cudaGraphNode_t node;
  CHECK(cudaGraphAddNode(&node, graph, before, nullptr, before ? 1 : 0, &params));
  return params.conditional.phGraph_out[0];
}

static void begin_body(cudaGraph_t body) {
  CHECK(cudaStreamBeginCaptureToGraph(stream, body, nullptr, nullptr, 0,
                                      cudaStreamCaptureModeRelaxed));
}

static void set(int *memory, int first) {
  for (int i = 0; i < count; i++) memory[i] = first + i;
}

static long long total(const int *memory) {
  long long sum = 0;
  for (int i = 0; i < count; i++) sum += memory[i];
  return sum;
}

static void show(const char *what) {
  printf("%s: %d %lld, %d %lld, %d %lld\n", what, in[0], total(in), out[0], total(out), other[0],
         total(other));
}

// A graph whose body is done if the value is not 0.
static cudaGraph_t if_graph(cudaGraph_t *body) {
  cudaGraph_t graph;
  cudaGraphConditionalHandle handle;
  CHECK(cudaGraphCreate(&graph, 0));
  CHECK(cudaGraphConditionalHandleCreate(&handle, graph));
  void *values[] = {&handle, &value};
  cudaGraphNodeParams params{};
  params.type = cudaGraphNodeTypeKernel;
  params.kernel.func = reinterpret_cast<void *>(decide);
  params.kernel.gridDim = params.kernel.blockDim = dim3(1);
  params.kernel.kernelParams = values;
  cudaGraphNode_t node;
  CHECK(cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &params));
  *body = conditional(graph, handle, cudaGraphCondTypeIf, &node);
  return graph;
}

static void launch(cudaGraphExec_t exec, int with) {
  CHECK(cudaMemcpyAsync(value, &with, sizeof with, cudaMemcpyHostToDevice, stream));
  CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaStreamSynchronize(stream));
}

static void once_or_not() {
  cudaGraph_t body, graph = if_graph(&body);
  begin_body(body);
  CHECK(cudaMemcpyAsync(data, in, bytes, cudaMemcpyHostToDevice, stream));
  add<<<(count + 127) / 128, 128, 0, stream>>>(data, 1000);
  CHECK(cudaMemcpyAsync(out, data, bytes, cudaMemcpyDeviceToHost, stream));
  // From host to host, and of what has just come.
  CHECK(cudaMemcpyAsync(other, out, bytes, cudaMemcpyDefault, stream));
  CHECK(cudaMemsetAsync(data, 0, 400, stream));
  CHECK(cudaMemcpyAsync(other + 100, data, 400, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaMemcpy2DAsync(in, 40, data, 20, 12, 10, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamEndCapture(stream, nullptr));
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  for (int round = 0; round < 4; round++) {
    set(in, round);
    if (round < 2) {
      set(out, -5);
      set(other, -7);
    }
    launch(exec, round & 1);
    printf("round %d, ", round);
    show(round & 1 ? "done" : "not done");
  }
  // Other memory, and a copy that is not done at all.
  cudaGraphNode_t nodes[8];
  size_t found = 8;
  CHECK(cudaGraphGetNodes(body, nodes, &found));
  printf("%zu nodes\n", found);
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaGraphExecDestroy(exec));
}

// As often as a kernel says: each round takes what the one before has left in pinned memory.
static void again_and_again() {
  cudaGraph_t graph;
  cudaGraphConditionalHandle handle;
  CHECK(cudaGraphCreate(&graph, 0));
  CHECK(cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault));
  cudaGraph_t body = conditional(graph, handle, cudaGraphCondTypeWhile, nullptr);
  begin_body(body);
  CHECK(cudaMemcpyAsync(data, out, bytes, cudaMemcpyHostToDevice, stream));
  add<<<(count + 127) / 128, 128, 0, stream>>>(data, 3);
  CHECK(cudaMemcpyAsync(out, data, bytes, cudaMemcpyDeviceToHost, stream));
  count_down<<<1, 1, 0, stream>>>(handle, value);
  CHECK(cudaStreamEndCapture(stream, nullptr));
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  set(out, 0);
  for (int rounds : {1, 20, 5}) {
    launch(exec, rounds);
    printf("%d rounds, ", rounds);
    show("so far");
    out[0]++;
  }
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
}

// What is neither the device's nor pinned, and arrays, have no place in a body.
static void refused() {
  int *plain = static_cast<int *>(malloc(bytes));
  cudaArray_t array;
  cudaChannelFormatDesc format = cudaCreateChannelDesc<int>();
  CHECK(cudaMallocArray(&array, &format, 100, 10));
  for (int i = 0; i < 3; i++) {
    cudaGraph_t body, graph = if_graph(&body);
    begin_body(body);
    if (i == 0) CHECK(cudaMemcpyAsync(data, plain, bytes, cudaMemcpyHostToDevice, stream));
    if (i == 1) CHECK(cudaMemcpyAsync(plain, data, bytes, cudaMemcpyDeviceToHost, stream));
    if (i == 2)
      CHECK(cudaMemcpy2DToArrayAsync(array, 0, 0, data, 400, 400, 10, cudaMemcpyDeviceToDevice,
                                     stream));
    CHECK(cudaStreamEndCapture(stream, nullptr));
    cudaGraphExec_t exec;
    SHOW(cudaGraphInstantiate(&exec, graph, 0));
    cudaGetLastError();
    cudaGraphInstantiateParams params = {};
    SHOW(cudaGraphInstantiateWithParams(&exec, graph, &params));
    cudaGetLastError();
    printf("because of %d, of a node: %d\n", params.result_out, params.errNode_out != nullptr);
    CHECK(cudaGraphDestroy(graph));
  }
  CHECK(cudaFreeArray(array));
  free(plain);
}

int main() {
  CHECK(cudaMalloc(&value, sizeof(int)));
  CHECK(cudaMalloc(&data, bytes));
  for (int **each : {&in, &out, &other}) {
    CHECK(cudaMallocHost(each, bytes));
    set(*each, 0);
  }
  CHECK(cudaStreamCreate(&stream));
  once_or_not();
  again_and_again();
  refused();
  return 0;
}
