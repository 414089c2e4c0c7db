// Graphs in graphs: a child node, one embedded by launching it while capturing, and clones.
#include "../check.h"

__global__ void append(int *log, int *length, int what) { log[atomicAdd(length, 1)] = what; }

static cudaGraph_t capture(cudaStream_t stream, int *log, int *length, int first, int count) {
  cudaGraph_t graph;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  for (int i = 0; i < count; i++) append<<<1, 1, 0, stream>>>(log, length, first + i);
  CHECK(cudaStreamEndCapture(stream, &graph));
  return graph;
}

int main() {
  int *log, *length;
  CHECK(cudaMallocManaged(&log, 100 * sizeof(int)));
  CHECK(cudaMallocManaged(&length, sizeof(int)));
  *length = 0;
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  cudaGraph_t inner = capture(stream, log, length, 10, 3), outer, captured;
  cudaGraphNode_t first, second;
  CHECK(cudaGraphCreate(&outer, 0));
  CHECK(cudaGraphAddChildGraphNode(&first, outer, nullptr, 0, inner));
  CHECK(cudaGraphAddChildGraphNode(&second, outer, &first, 1, inner));

  // The second copy gets a node more.
  cudaGraph_t embedded;
  CHECK(cudaGraphChildGraphNodeGetGraph(second, &embedded));
  cudaGraphNode_t nodes[3], last;
  size_t count = 3;
  CHECK(cudaGraphGetNodes(embedded, nodes, &count));
  int what = 99;
  void *values[] = {&log, &length, &what};
  cudaKernelNodeParams params{};
  params.func = reinterpret_cast<void *>(append);
  params.gridDim = params.blockDim = dim3(1);
  params.kernelParams = values;
  CHECK(cudaGraphAddKernelNode(&last, embedded, &nodes[2], 1, &params));

  cudaGraphExec_t outer_exec, captured_exec;
  CHECK(cudaGraphInstantiate(&outer_exec, outer, 0));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  append<<<1, 1, 0, stream>>>(log, length, 1);
  CHECK(cudaGraphLaunch(outer_exec, stream));
  append<<<1, 1, 0, stream>>>(log, length, 2);
  CHECK(cudaStreamEndCapture(stream, &captured));
  cudaGraph_t clone;
  CHECK(cudaGraphClone(&clone, captured));
  CHECK(cudaGraphDestroy(captured));
  CHECK(cudaGraphDestroy(outer));
  CHECK(cudaGraphDestroy(inner));
  CHECK(cudaGraphExecDestroy(outer_exec));
  CHECK(cudaGraphInstantiate(&captured_exec, clone, 0));
  CHECK(cudaGraphLaunch(captured_exec, stream));
  CHECK(cudaStreamSynchronize(stream));
  for (int i = 0; i < *length; i++) printf("%d ", log[i]);
  printf("\n");
  const int expected[] = {1, 10, 11, 12, 10, 11, 12, 99, 2};
  if (*length != 9) {
    fprintf(stderr, "%d nodes have run, not 9\n", *length);
    return 1;
  }
  for (int i = 0; i < 9; i++)
    if (log[i] != expected[i]) {
      fprintf(stderr, "node %d was to be %d\n", i, expected[i]);
      return 1;
    }
  CHECK(cudaGraphExecDestroy(captured_exec));
  CHECK(cudaGraphDestroy(clone));
  return 0;
}
