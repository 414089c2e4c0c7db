// Graphs that allocate and free memory: nodes, captured allocations, memory that outlives a launch.
#include "../check.h"

__global__ void fill(int *data, int count, int value) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] = value + i;
}

__global__ void check(const int *data, int count, int value, int *wrong) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count && data[i] != value + i) atomicAdd(wrong, 1);
}

int main() {
  constexpr int kCount = 1 << 20;
  int *wrong, *temporary;
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK(cudaMallocManaged(&wrong, sizeof(int)));
  *wrong = 0;
  CHECK(cudaStreamCreate(&stream));
  // Captured: what is allocated lives within the graph.
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK(cudaMallocAsync(&temporary, kCount * sizeof(int), stream));
  fill<<<kCount / 256, 256, 0, stream>>>(temporary, kCount, 3);
  check<<<kCount / 256, 256, 0, stream>>>(temporary, kCount, 3, wrong);
  CHECK(cudaFreeAsync(temporary, stream));
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 3; i++) CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaStreamSynchronize(stream));
  printf("captured: %d wrong\n", *wrong);
  cudaGraph_t clone;
  SHOW(cudaGraphClone(&clone, graph));
  cudaGetLastError();
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));

  // A node: what it allocates stays until somebody frees it.
  cudaGraphNode_t allocates, fills, frees;
  cudaMemAllocNodeParams allocation{};
  allocation.poolProps.allocType = cudaMemAllocationTypePinned;
  allocation.poolProps.location.type = cudaMemLocationTypeDevice;
  allocation.bytesize = kCount * sizeof(int);
  CHECK(cudaGraphCreate(&graph, 0));
  CHECK(cudaGraphAddMemAllocNode(&allocates, graph, nullptr, 0, &allocation));
  int count = kCount, value = 8;
  void *values[] = {&allocation.dptr, &count, &value};
  cudaKernelNodeParams params{};
  params.func = reinterpret_cast<void *>(fill);
  params.gridDim = dim3(kCount / 256);
  params.blockDim = dim3(256);
  params.kernelParams = values;
  CHECK(cudaGraphAddKernelNode(&fills, graph, &allocates, 1, &params));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  auto *left = static_cast<int *>(allocation.dptr);
  for (int way = 0; way < 3; way++) {
    CHECK(cudaGraphLaunch(exec, stream));
    check<<<kCount / 256, 256, 0, stream>>>(left, kCount, 8, wrong);
    CHECK(cudaStreamSynchronize(stream));
    SHOW(cudaGraphLaunch(exec, stream));  // not while it is allocated
    cudaGetLastError();
    if (way == 0) CHECK(cudaFreeAsync(left, stream));
    if (way == 1) CHECK(cudaFree(left));
    if (way == 2) {
      cudaGraph_t freeing;
      cudaGraphExec_t freeing_exec;
      CHECK(cudaGraphCreate(&freeing, 0));
      CHECK(cudaGraphAddMemFreeNode(&frees, freeing, nullptr, 0, left));
      CHECK(cudaGraphInstantiate(&freeing_exec, freeing, 0));
      CHECK(cudaGraphLaunch(freeing_exec, stream));
      CHECK(cudaStreamSynchronize(stream));
      CHECK(cudaGraphExecDestroy(freeing_exec));
      CHECK(cudaGraphDestroy(freeing));
    }
  }
  printf("left to others: %d wrong\n", *wrong);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch));
  for (int i = 0; i < 3; i++) CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaFreeAsync(left, stream));
  CHECK(cudaStreamSynchronize(stream));
  size_t used, after;
  CHECK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &used));
  CHECK(cudaDeviceGraphMemTrim(0));
  CHECK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &after));
  printf("memory before it is trimmed: %d, after: %zu\n", used >= kCount * sizeof(int), after);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  return *wrong ? 1 : 0;
}
