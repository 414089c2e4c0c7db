// Events in graphs: nodes that record and wait, external ones in a capture, and those that are
// destroyed while graphs have them.
#include "../check.h"

__global__ void add(int *value, int what) { *value += what; }
__global__ void multiply(int *value, int by) { *value *= by; }

// A graph has the events that its nodes name for itself: the program may destroy them.
static void destroyed(int *value) {
  cudaStream_t stream, other;
  cudaEvent_t recorded, waited, another;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  for (cudaEvent_t *event : {&recorded, &waited, &another}) CHECK(cudaEventCreate(event));
  CHECK(cudaMemsetAsync(value, 0, sizeof(int), other));
  CHECK(cudaEventRecord(waited, other));
  cudaGraph_t graph;
  cudaGraphNode_t waits, records;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK(cudaStreamWaitEvent(stream, waited, cudaEventWaitExternal));
  add<<<1, 1, 0, stream>>>(value, 3);
  CHECK(cudaEventRecordWithFlags(recorded, stream, cudaEventRecordExternal));
  CHECK(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t before, after;
  CHECK(cudaGraphInstantiate(&before, graph, 0));
  size_t count = 1;
  CHECK(cudaGraphGetRootNodes(graph, &waits, &count));
  CHECK(cudaEventDestroy(recorded));
  CHECK(cudaEventDestroy(waited));
  SHOW(cudaGraphAddEventRecordNode(&records, graph, nullptr, 0, recorded));
  SHOW(cudaEventQuery(recorded));
  cudaGetLastError();
  CHECK(cudaGraphInstantiate(&after, graph, 0));
  for (int round = 0; round < 3; round++) {
    CHECK(cudaGraphLaunch(before, stream));
    CHECK(cudaGraphLaunch(after, stream));
  }
  // Another one in its place, which is destroyed too.
  CHECK(cudaEventRecord(another, other));
  CHECK(cudaGraphExecEventWaitNodeSetEvent(before, waits, another));
  CHECK(cudaGraphEventWaitNodeSetEvent(waits, another));
  CHECK(cudaEventDestroy(another));
  CHECK(cudaGraphLaunch(before, stream));
  int host = 0;
  CHECK(cudaMemcpyAsync(&host, value, sizeof host, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  printf("7 * 3 = %d\n", host);
  CHECK(cudaGraphExecDestroy(before));
  CHECK(cudaGraphLaunch(after, stream));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaGraphExecDestroy(after));
  SHOW(cudaStreamSynchronize(stream));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaStreamDestroy(other));
}

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
  destroyed(value);
  return 0;
}
