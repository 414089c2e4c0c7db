// Conditional nodes: if, if-else, while and switch, with values that kernels set.
#include "../check.h"

__global__ void decide(cudaGraphConditionalHandle handle, const int *value) {
  cudaGraphSetConditional(handle, static_cast<unsigned>(*value));
}

__global__ void count_down(cudaGraphConditionalHandle handle, int *left, int *rounds) {
  ++*rounds;
  cudaGraphSetConditional(handle, --*left > 0);
}

__global__ void store(int *to, int value) { *to = value; }

static cudaGraphNode_t kernel(cudaGraph_t graph, void *function, void **values,
                              const cudaGraphNode_t *before = nullptr) {
  cudaGraphNodeParams params{};
  params.type = cudaGraphNodeTypeKernel;
  params.kernel.func = function;
  params.kernel.gridDim = params.kernel.blockDim = dim3(1);
  params.kernel.kernelParams = values;
  cudaGraphNode_t node;
  CHECK(cudaGraphAddNode(&node, graph, before, nullptr, before ? 1 : 0, &params));
  return node;
}

static cudaGraph_t *condition(cudaGraph_t graph, cudaGraphConditionalHandle handle,
                              cudaGraphConditionalNodeType type, unsigned size,
                              const cudaGraphNode_t *before) {
  cudaGraphNodeParams params{};
  params.type = cudaGraphNodeTypeConditional;
  params.conditional.handle = handle;
  params.conditional.type = type;
  params.conditional.size = size;
  cudaGraphNode_t node;
  CHECK(cudaGraphAddNode(&node, graph, before, nullptr, before ? 1 : 0, &params));
  return params.conditional.phGraph_out;
}

int main() {
  int *value, *result, *rounds;
  for (int **each : {&value, &result, &rounds}) CHECK(cudaMallocManaged(each, sizeof(int)));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  auto run = [&](cudaGraphExec_t exec, int with) {
    *value = with;
    *result = -1;
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    return *result;
  };
  int right = 0;

  // if (value) result = 1; else result = 2
  cudaGraph_t graph;
  cudaGraphConditionalHandle handle;
  cudaGraphExec_t exec;
  CHECK(cudaGraphCreate(&graph, 0));
  CHECK(cudaGraphConditionalHandleCreate(&handle, graph));
  void *decide_values[] = {&handle, &value};
  cudaGraphNode_t first = kernel(graph, reinterpret_cast<void *>(decide), decide_values);
  cudaGraph_t *bodies = condition(graph, handle, cudaGraphCondTypeIf, 2, &first);
  for (int i = 0; i < 2; i++) {
    int number = i + 1;
    void *values[] = {&result, &number};
    kernel(bodies[i], reinterpret_cast<void *>(store), values);
  }
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  int yes = run(exec, 1), no = run(exec, 0);
  printf("if: %d, else: %d\n", yes, no);
  right += yes == 1 && no == 2;
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));

  // switch (value) { case 0..2: result = 10 * value }
  CHECK(cudaGraphCreate(&graph, 0));
  CHECK(cudaGraphConditionalHandleCreate(&handle, graph));
  first = kernel(graph, reinterpret_cast<void *>(decide), decide_values);
  bodies = condition(graph, handle, cudaGraphCondTypeSwitch, 3, &first);
  for (int i = 0; i < 3; i++) {
    int number = i * 10;
    void *values[] = {&result, &number};
    kernel(bodies[i], reinterpret_cast<void *>(store), values);
  }
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  int zero = run(exec, 0), two = run(exec, 2), nine = run(exec, 9);
  printf("switch: %d %d %d\n", zero, two, nine);
  right += zero == 0 && two == 20 && nine == -1;
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));

  // do rounds++; while (--value > 0), with the body captured
  CHECK(cudaGraphCreate(&graph, 0));
  CHECK(cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault));
  bodies = condition(graph, handle, cudaGraphCondTypeWhile, 1, nullptr);
  CHECK(cudaStreamBeginCaptureToGraph(stream, bodies[0], nullptr, nullptr, 0,
                                      cudaStreamCaptureModeGlobal));
  count_down<<<1, 1, 0, stream>>>(handle, value, rounds);
  CHECK(cudaStreamEndCapture(stream, nullptr));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  *rounds = 0;
  run(exec, 100);
  int hundred = *rounds;
  run(exec, 1);
  printf("while: %d rounds, then %d more\n", hundred, *rounds - hundred);
  right += hundred == 100 && *rounds == 101;
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  if (right != 3) fprintf(stderr, "%d of 3 are right\n", right);
  return right == 3 ? 0 : 1;
}
