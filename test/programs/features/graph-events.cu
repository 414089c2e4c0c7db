// Events in graphs: nodes that record and wait, and external ones in a capture.
#include "../check.h"

__global__ void add(int *value, int what) { *value += what; }
__global__ void multiply(int *value, int by) { *value *= by; }

int main() {
  int *value, host = 0;
  CHECK(cudaMalloc(&value, sizeof(int)));
  CHECK(cudaMemset(value, 0, sizeof(int)));
  cudaStream_t a, b;
  cudaEvent_t half, whole;
  CHECK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
  CHECK(cudaEventCreate(&half));
  CHECK(cudaEventCreate(&whole));
  CHECK(cudaDeviceSynchronize());

  // The graph adds and records; it goes on when the other stream has multiplied.
  cudaGraph_t graph;
  CHECK(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
  add<<<1, 1, 0, a>>>(value, 7);
  CHECK(cudaEventRecordWithFlags(half, a, cudaEventRecordExternal));
  CHECK(cudaStreamEndCapture(a, &graph));
  cudaGraph_t second;
  CHECK(cudaGraphCreate(&second, 0));
  cudaGraphNode_t waits, adds;
  CHECK(cudaGraphAddEventWaitNode(&waits, second, nullptr, 0, whole));
  int one = 1;
  void *values[] = {&value, &one};
  cudaKernelNodeParams params{};
  params.func = reinterpret_cast<void *>(add);
  params.gridDim = params.blockDim = dim3(1);
  params.kernelParams = values;
  CHECK(cudaGraphAddKernelNode(&adds, second, &waits, 1, &params));
  cudaEvent_t told;
  CHECK(cudaGraphEventWaitNodeGetEvent(waits, &told));
  printf("the event of the node: %d\n", told == whole);

  cudaGraphExec_t exec, second_exec;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK(cudaGraphInstantiate(&second_exec, second, 0));
  for (int round = 0; round < 50; round++) {
    CHECK(cudaGraphLaunch(exec, a));
    CHECK(cudaStreamWaitEvent(b, half));
    multiply<<<1, 1, 0, b>>>(value, 2);
    CHECK(cudaEventRecord(whole, b));
    CHECK(cudaGraphLaunch(second_exec, a));
    CHECK(cudaMemcpyAsync(&host, value, sizeof(int), cudaMemcpyDeviceToHost, a));
    CHECK(cudaStreamSynchronize(a));
    if (host != 15) {
      fprintf(stderr, "round %d: %d, not (0 + 7) * 2 + 1\n", round, host);
      return 1;
    }
    CHECK(cudaMemsetAsync(value, 0, sizeof(int), a));
  }
  printf("(0 + 7) * 2 + 1 = %d\n", host);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphExecDestroy(second_exec));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaGraphDestroy(second));
  return 0;
}
