// What may change in an executable graph beside the parameters of kernels: attributes, functions,
// events, values in memory, embedded graphs, copies whose memory overlaps that of others; and nodes
// that are switched off stay off.
// flags: -lcuda -gencode arch=compute_90,code=compute_90
#include <cstring>

#include "../check.h"
#include "../check_driver.h"

__global__ void ask_cluster(int *size) {
  unsigned blocks;
  asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(blocks));
  if (threadIdx.x == 0 && blockIdx.x == 0) *size = static_cast<int>(blocks);
}
__global__ void add(int *at, int value) { *at += value; }

static cudaStream_t stream;
static int *words;  // on the device
static int host[4];

static void begin() { CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed)); }
static cudaGraph_t end() {
  cudaGraph_t graph;
  CHECK(cudaStreamEndCapture(stream, &graph));
  return graph;
}
static const int *run(cudaGraphExec_t exec) {
  CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaMemcpyAsync(host, words, sizeof host, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  return host;
}
static void nodes_of(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t count) {
  CHECK(cudaGraphGetNodes(graph, nodes, &count));
}
static void update(cudaGraphExec_t exec, cudaGraph_t graph) {
  cudaGraphExecUpdateResultInfo info;
  SHOW(cudaGraphExecUpdate(exec, graph, &info));
  printf("%d\n", info.result);
  cudaGetLastError();
}

static cudaGraph_t with_cluster(int size) {
  begin();
  cudaLaunchConfig_t config = {};
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = static_cast<unsigned>(size);
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  config.gridDim = dim3(8);
  config.blockDim = dim3(32);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  CHECK(cudaLaunchKernelEx(&config, ask_cluster, words));
  add<<<1, 1, 0, stream>>>(words + 1, 1);
  add<<<1, 1, 0, stream>>>(words + 2, 1);
  return end();
}

static void attributes() {
  CHECK(cudaMemset(words, 0, sizeof host));
  CHECK(cudaDeviceSynchronize());
  cudaGraph_t graph = with_cluster(2), next = with_cluster(4);
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  cudaGraphNode_t nodes[3], next_nodes[3];
  nodes_of(graph, nodes, 3);
  nodes_of(next, next_nodes, 3);
  CHECK(cudaGraphNodeSetEnabled(exec, nodes[1], 0));
  const int *found = run(exec);
  printf("clusters of %d; %d %d\n", found[0], found[1], found[2]);
  update(exec, next);
  found = run(exec);
  printf("clusters of %d; %d %d\n", found[0], found[1], found[2]);
  // Of a node in the graph, which is executable again afterwards.
  cudaLaunchAttributeValue value = {};
  value.clusterDim.x = 8;
  value.clusterDim.y = value.clusterDim.z = 1;
  CHECK(
      cudaGraphKernelNodeSetAttribute(next_nodes[0], cudaLaunchAttributeClusterDimension, &value));
  value = {};
  value.priority = -1;
  CHECK(cudaGraphKernelNodeSetAttribute(next_nodes[1], cudaLaunchAttributePriority, &value));
  found = run(exec);
  printf("clusters of %d; %d %d\n", found[0], found[1], found[2]);
  update(exec, next);
  found = run(exec);
  printf("clusters of %d; %d %d\n", found[0], found[1], found[2]);
  CHECK(cudaGraphNodeSetEnabled(exec, nodes[1], 1));
  CHECK(cudaGraphNodeSetEnabled(exec, nodes[2], 0));
  found = run(exec);
  printf("clusters of %d; %d %d\n", found[0], found[1], found[2]);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaGraphDestroy(next));
}

static int calls;
static void CUDART_CB count(void *by) { calls += *static_cast<int *>(by); }

static void functions_and_values() {
  cudaGraph_t graph;
  int one = 1, ten = 10;
  begin();
  CHECK(cudaLaunchHostFunc(stream, count, &one));
  const CUdeviceptr at = reinterpret_cast<CUdeviceptr>(words);
  DRIVER(cuStreamWriteValue32(stream, at, 41, 0));
  graph = end();
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  cudaGraphNode_t nodes[2];
  nodes_of(graph, nodes, 2);
  printf("called %d, written %d\n", calls, run(exec)[0]);
  cudaHostNodeParams function = {count, &ten};
  CHECK(cudaGraphExecHostNodeSetParams(exec, nodes[0], &function));
  CUDA_BATCH_MEM_OP_NODE_PARAMS batch = {};
  DRIVER(cuGraphBatchMemOpNodeGetParams(nodes[1], &batch));
  CUstreamBatchMemOpParams entries[2] = {batch.paramArray[0], batch.paramArray[0]};
  entries[0].writeValue.value = 42;
  entries[1].writeValue.address = at + 4;
  entries[1].writeValue.value = 43;
  batch.paramArray = entries;
  batch.count = 2;
  SHOW_DRIVER(cuGraphExecBatchMemOpNodeSetParams(exec, nodes[1], &batch));
  const int *found = run(exec);
  printf("called %d, written %d %d\n", calls, found[0], found[1]);
  // The same by the call for all types of nodes.
  CUgraphNodeParams params = {};
  params.type = CU_GRAPH_NODE_TYPE_HOST;
  params.host.fn = count;
  params.host.userData = &one;
  SHOW_DRIVER(cuGraphExecNodeSetParams(exec, nodes[0], &params));
  SHOW_DRIVER(cuGraphExecNodeSetParams(exec, nodes[1], &params));
  SHOW_DRIVER(cuGraphNodeSetParams(nodes[0], &params));
  run(exec);
  printf("called %d\n", calls);
  unsigned enabled = 7;
  SHOW(cudaGraphNodeSetEnabled(exec, nodes[0], 0));
  SHOW(cudaGraphNodeGetEnabled(exec, nodes[1], &enabled));
  cudaGetLastError();
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
}

static void embedded() {
  CHECK(cudaMemset(words, 0, sizeof host));
  CHECK(cudaDeviceSynchronize());
  begin();
  add<<<1, 1, 0, stream>>>(words, 1);
  add<<<1, 1, 0, stream>>>(words + 1, 10);
  cudaGraph_t first = end();
  begin();
  add<<<1, 1, 0, stream>>>(words, 100);
  add<<<1, 1, 0, stream>>>(words + 2, 1000);
  cudaGraph_t second = end();
  begin();
  add<<<1, 1, 0, stream>>>(words, 1);
  cudaGraph_t shorter = end();
  cudaGraph_t outer;
  CHECK(cudaGraphCreate(&outer, 0));
  cudaGraphNode_t child;
  CHECK(cudaGraphAddChildGraphNode(&child, outer, nullptr, 0, first));
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, outer, 0));
  const int *found = run(exec);
  printf("embedded: %d %d %d\n", found[0], found[1], found[2]);
  SHOW(cudaGraphExecChildGraphNodeSetParams(exec, child, second));
  found = run(exec);
  printf("another: %d %d %d\n", found[0], found[1], found[2]);
  SHOW(cudaGraphExecChildGraphNodeSetParams(exec, child, shorter));
  cudaGetLastError();
  found = run(exec);
  printf("still: %d %d %d\n", found[0], found[1], found[2]);
  CHECK(cudaGraphExecDestroy(exec));
  for (cudaGraph_t each : {first, second, shorter, outer}) CHECK(cudaGraphDestroy(each));
}

// A copy takes what another brings, from then on; and no more.
static void overlapping() {
  static int in, middle, out;
  begin();
  CHECK(cudaMemcpyAsync(words, &in, sizeof in, cudaMemcpyHostToDevice, stream));
  add<<<1, 1, 0, stream>>>(words, 1);
  CHECK(cudaMemcpyAsync(&middle, words, sizeof in, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaMemcpyAsync(words + 1, &in, sizeof in, cudaMemcpyHostToDevice, stream));
  add<<<1, 1, 0, stream>>>(words + 1, 10);
  CHECK(cudaMemcpyAsync(&out, words + 1, sizeof in, cudaMemcpyDeviceToHost, stream));
  cudaGraph_t graph = end();
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  cudaGraphNode_t nodes[6];
  nodes_of(graph, nodes, 6);
  in = 5;
  run(exec);
  printf("%d %d\n", middle, out);
  CHECK(cudaGraphExecMemcpyNodeSetParams1D(exec, nodes[3], words + 1, &middle, sizeof in,
                                           cudaMemcpyHostToDevice));
  in = 50;
  run(exec);
  printf("%d %d\n", middle, out);
  CHECK(cudaGraphNodeSetEnabled(exec, nodes[2], 0));
  middle = 7;
  run(exec);
  printf("%d %d\n", middle, out);
  CHECK(cudaGraphExecMemcpyNodeSetParams1D(exec, nodes[3], words + 1, &in, sizeof in,
                                           cudaMemcpyHostToDevice));
  CHECK(cudaGraphNodeSetEnabled(exec, nodes[2], 1));
  in = 500;
  run(exec);
  printf("%d %d\n", middle, out);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
}

int main() {
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaMalloc(&words, sizeof host));
  attributes();
  functions_and_values();
  embedded();
  overlapping();
  return 0;
}
