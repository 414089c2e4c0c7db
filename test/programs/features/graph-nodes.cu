// A graph built node by node: set, copies, kernels, a host function, and edges added and removed.
#include "../check.h"

__global__ void square(int *data, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] = data[i] * data[i];
}

__global__ void sum(const int *data, int count, long long *result) {
  long long mine = 0;
  for (int i = threadIdx.x; i < count; i += blockDim.x) mine += data[i];
  atomicAdd(reinterpret_cast<unsigned long long *>(result), static_cast<unsigned long long>(mine));
}

struct Told {
  const long long *result;
  int calls;
};

int main() {
  constexpr int kCount = 1000;
  int *host = new int[kCount], *device;
  long long *result, *device_result;
  for (int i = 0; i < kCount; i++) host[i] = i;
  CHECK(cudaMalloc(&device, kCount * sizeof(int)));
  CHECK(cudaMalloc(&device_result, sizeof(long long)));
  CHECK(cudaMallocHost(&result, sizeof(long long)));

  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t clear, copy_in, squares, sums, copy_out, call;
  cudaMemsetParams clear_params{};
  clear_params.dst = device_result;
  clear_params.elementSize = 4;
  clear_params.width = 2;
  clear_params.height = 1;
  CHECK(cudaGraphAddMemsetNode(&clear, graph, nullptr, 0, &clear_params));
  CHECK(cudaGraphAddMemcpyNode1D(&copy_in, graph, nullptr, 0, device, host, kCount * sizeof(int),
                                 cudaMemcpyHostToDevice));
  int count = kCount;
  void *square_values[] = {&device, &count};
  cudaKernelNodeParams kernel{};
  kernel.func = reinterpret_cast<void *>(square);
  kernel.gridDim = dim3(8);
  kernel.blockDim = dim3(128);
  kernel.kernelParams = square_values;
  CHECK(cudaGraphAddKernelNode(&squares, graph, &copy_in, 1, &kernel));
  void *sum_values[] = {&device, &count, &device_result};
  kernel.func = reinterpret_cast<void *>(sum);
  kernel.gridDim = dim3(1);
  kernel.kernelParams = sum_values;
  cudaGraphNode_t before_sum[] = {clear, squares};
  CHECK(cudaGraphAddKernelNode(&sums, graph, before_sum, 2, &kernel));
  CHECK(cudaGraphAddMemcpyNode1D(&copy_out, graph, &sums, 1, result, device_result,
                                 sizeof(long long), cudaMemcpyDeviceToHost));
  Told told{result, 0};
  cudaHostNodeParams call_params{};
  call_params.fn = [](void *data) { static_cast<Told *>(data)->calls++; };
  call_params.userData = &told;
  // First behind the wrong node, then behind the right one.
  CHECK(cudaGraphAddHostNode(&call, graph, &clear, 1, &call_params));
  CHECK(cudaGraphAddDependencies(graph, &copy_out, &call, nullptr, 1));
  CHECK(cudaGraphRemoveDependencies(graph, &clear, &call, nullptr, 1));
  SHOW(cudaGraphAddDependencies(graph, &copy_out, &call, nullptr, 1));

  size_t roots, nodes, edges;
  CHECK(cudaGraphGetRootNodes(graph, nullptr, &roots));
  CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
  CHECK(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
  printf("%zu roots, %zu nodes, %zu edges\n", roots, nodes, edges);
  cudaGraphNodeType type;
  CHECK(cudaGraphNodeGetType(sums, &type));
  cudaKernelNodeParams asked{};
  CHECK(cudaGraphKernelNodeGetParams(sums, &asked));
  printf("a kernel node: %d, of this kernel: %d, with %u threads\n",
         type == cudaGraphNodeTypeKernel, asked.func == reinterpret_cast<void *>(sum),
         asked.blockDim.x);

  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  long long expected = 0;
  for (long long i = 0; i < kCount; i++) expected += i * i;
  for (int round = 1; round <= 3; round++) {
    *result = 0;
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    if (*result != expected || told.calls != round) {
      fprintf(stderr, "round %d: %lld, %d calls\n", round, *result, told.calls);
      return 1;
    }
  }
  printf("sum of squares: %lld, three times\n", *result);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));

  // A launch that was captured is a node like one that was made.
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  sum<<<3, 64, 0, stream>>>(device, kCount, device_result);
  CHECK(cudaStreamEndCapture(stream, &graph));
  size_t captured = 1;
  cudaGraphNode_t node;
  CHECK(cudaGraphGetNodes(graph, &node, &captured));
  asked = {};
  SHOW(cudaGraphKernelNodeGetParams(node, &asked));
  printf("of this kernel: %d, with %u blocks\n", asked.func == reinterpret_cast<void *>(sum),
         asked.gridDim.x);
  CHECK(cudaGraphDestroy(graph));
  delete[] host;
  return 0;
}
