// Executable graphs that change: parameters of one node, nodes switched off, a whole graph at once.
#include "../check.h"

__global__ void axpb(int *data, int a, int b) { data[threadIdx.x] = data[threadIdx.x] * a + b; }
__global__ void negate(int *data) { data[threadIdx.x] = -data[threadIdx.x]; }

static cudaGraph_t capture(cudaStream_t stream, int *data, int a, int b, bool twice = false) {
  cudaGraph_t graph;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK(cudaMemsetAsync(data, 0, 32 * sizeof(int), stream));
  axpb<<<1, 32, 0, stream>>>(data, 1, 5);
  axpb<<<1, 32, 0, stream>>>(data, a, b);
  if (twice) negate<<<1, 32, 0, stream>>>(data);
  CHECK(cudaStreamEndCapture(stream, &graph));
  return graph;
}

static int run(cudaGraphExec_t exec, cudaStream_t stream, const int *data) {
  int host[32];
  CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaMemcpyAsync(host, data, sizeof host, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  for (int i = 1; i < 32; i++)
    if (host[i] != host[0]) {
      fprintf(stderr, "the elements differ\n");
      exit(1);
    }
  return host[0];
}

int main() {
  int *data;
  cudaStream_t stream;
  CHECK(cudaMalloc(&data, 32 * sizeof(int)));
  CHECK(cudaStreamCreate(&stream));
  cudaGraph_t graph = capture(stream, data, 2, 1);
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  printf("5 * 2 + 1 = %d\n", run(exec, stream, data));

  // The whole of it, from another capture.
  cudaGraph_t next = capture(stream, data, 3, 4);
  cudaGraphExecUpdateResultInfo info;
  CHECK(cudaGraphExecUpdate(exec, next, &info));
  printf("5 * 3 + 4 = %d\n", run(exec, stream, data));
  cudaGraph_t more = capture(stream, data, 3, 4, true);
  SHOW(cudaGraphExecUpdate(exec, more, &info));
  printf("topology changed: %d\n", info.result == cudaGraphExecUpdateErrorTopologyChanged);
  cudaGetLastError();

  // One kernel: other values, then another function.
  cudaGraphNode_t nodes[3];
  size_t count = 3;
  CHECK(cudaGraphGetNodes(graph, nodes, &count));
  int a = 10, b = 7;
  void *values[] = {&data, &a, &b};
  cudaKernelNodeParams params{};
  params.func = reinterpret_cast<void *>(axpb);
  params.gridDim = dim3(1);
  params.blockDim = dim3(32);
  params.kernelParams = values;
  CHECK(cudaGraphExecKernelNodeSetParams(exec, nodes[2], &params));
  printf("5 * 10 + 7 = %d\n", run(exec, stream, data));
  params.func = reinterpret_cast<void *>(negate);
  CHECK(cudaGraphExecKernelNodeSetParams(exec, nodes[2], &params));
  printf("-5 = %d\n", run(exec, stream, data));

  // Another value for the set; without the first kernel.
  cudaMemsetParams set{};
  set.dst = data;
  set.value = 1;
  set.elementSize = 4;
  set.width = 32;
  set.height = 1;
  CHECK(cudaGraphExecMemsetNodeSetParams(exec, nodes[0], &set));
  CHECK(cudaGraphNodeSetEnabled(exec, nodes[1], 0));
  printf("-1 = %d\n", run(exec, stream, data));
  CHECK(cudaGraphNodeSetEnabled(exec, nodes[1], 1));
  int last = run(exec, stream, data);
  printf("-6 = %d\n", last);
  for (cudaGraph_t each : {graph, next, more}) CHECK(cudaGraphDestroy(each));
  CHECK(cudaGraphExecDestroy(exec));
  return last == -6 ? 0 : 1;
}
