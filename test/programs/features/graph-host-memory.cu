// Graphs and the host's memory: copies at each launch, host functions between them, child graphs,
// conditions, allocations.
#include <cstdio>
#include <cstring>

#include "../check.h"

__global__ void add(int *at, int count, int value) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) at[i] += value;
}

__global__ void count_down(int *left, cudaGraphConditionalHandle handle) {
  int now = *left - 1;
  *left = now;
  cudaGraphSetConditional(handle, now > 0);
}

constexpr int kCount = 1000;
static int input[kCount], output[kCount], doubled[kCount], again[kCount];

struct Sum {
  const int *from;
  int *to;
  long sum;
};

// Reads what a copy has brought, and writes what another one takes.
static void CUDART_CB read_and_write(void *data) {
  auto *sum = static_cast<Sum *>(data);
  sum->sum = 0;
  for (int i = 0; i < kCount; i++) {
    sum->sum += sum->from[i];
    sum->to[i] = 2 * sum->from[i];
  }
}

static void copies_and_functions() {
  int *device;
  cudaStream_t stream;
  CHECK(cudaMalloc(&device, sizeof input));
  CHECK(cudaStreamCreate(&stream));
  Sum sum = {output, doubled, 0};
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK(cudaMemcpyAsync(device, input, sizeof input, cudaMemcpyHostToDevice, stream));
  add<<<4, 256, 0, stream>>>(device, kCount, 3);
  CHECK(cudaMemcpyAsync(output, device, sizeof output, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaLaunchHostFunc(stream, read_and_write, &sum));
  CHECK(cudaMemcpyAsync(device, doubled, sizeof doubled, cudaMemcpyHostToDevice, stream));
  add<<<4, 256, 0, stream>>>(device, kCount, 1);
  CHECK(cudaMemcpyAsync(again, device, sizeof again, cudaMemcpyDeviceToHost, stream));
  cudaGraph_t graph;
  CHECK(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  for (int round = 1; round <= 3; round++) {
    for (int i = 0; i < kCount; i++) input[i] = round * i;
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    int wrong = 0;
    for (int i = 0; i < kCount; i++)
      wrong += output[i] != round * i + 3 || again[i] != 2 * (round * i + 3) + 1;
    printf("round %d: sum %ld, wrong %d\n", round, sum.sum, wrong);
  }
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(device));
}

// Rows of 8 bytes of 16, `height` in each slice, four of them in all.
static void planes(size_t height) {
  char rows[4][16], back[4][16];
  void *device;
  size_t pitch;
  CHECK(cudaMallocPitch(&device, &pitch, 8, 4));
  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = make_cudaPitchedPtr(rows, sizeof rows[0], 8, height);
  copy.dstPtr = make_cudaPitchedPtr(device, pitch, 8, height);
  copy.extent = make_cudaExtent(8, height, 4 / height);
  copy.kind = cudaMemcpyHostToDevice;
  cudaGraphNode_t up, down;
  CHECK(cudaGraphAddMemcpyNode(&up, graph, nullptr, 0, &copy));
  copy.srcPtr = make_cudaPitchedPtr(device, pitch, 8, height);
  copy.dstPtr = make_cudaPitchedPtr(back, sizeof back[0], 8, height);
  copy.kind = cudaMemcpyDeviceToHost;
  CHECK(cudaGraphAddMemcpyNode(&down, graph, &up, 1, &copy));
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  for (int y = 0; y < 4; y++) memset(rows[y], 'a' + y, 16);
  memset(back, '.', sizeof back);
  CHECK(cudaGraphLaunch(exec, 0));
  CHECK(cudaDeviceSynchronize());
  for (auto &row : back) printf("%.16s\n", row);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaFree(device));
}

static void children() {
  int *device, result;
  CHECK(cudaMalloc(&device, sizeof(int)));
  CHECK(cudaMemset(device, 0, sizeof(int)));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  cudaGraph_t inner, outer;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  add<<<1, 1, 0, stream>>>(device, 1, 5);
  CHECK(cudaStreamEndCapture(stream, &inner));
  CHECK(cudaGraphCreate(&outer, 0));
  cudaGraphNode_t first, second;
  CHECK(cudaGraphAddChildGraphNode(&first, outer, nullptr, 0, inner));
  CHECK(cudaGraphAddChildGraphNode(&second, outer, &first, 1, inner));
  cudaGraphExec_t exec, captured;
  CHECK(cudaGraphInstantiate(&exec, outer, 0));
  CHECK(cudaGraphLaunch(exec, stream));
  // A launch that is captured is a child, too.
  cudaGraph_t around;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK(cudaGraphLaunch(exec, stream));
  add<<<1, 1, 0, stream>>>(device, 1, 100);
  CHECK(cudaStreamEndCapture(stream, &around));
  CHECK(cudaGraphInstantiate(&captured, around, 0));
  CHECK(cudaGraphLaunch(captured, stream));
  CHECK(cudaMemcpyAsync(&result, device, sizeof result, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  printf("children: %d\n", result);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphExecDestroy(captured));
  for (cudaGraph_t graph : {inner, outer, around}) CHECK(cudaGraphDestroy(graph));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(device));
}

static void conditions() {
  int *values, results[2];
  CHECK(cudaMalloc(&values, 2 * sizeof(int)));
  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  cudaGraphConditionalHandle handle;
  CHECK(cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault));
  cudaGraphNodeParams params = {};
  params.type = cudaGraphNodeTypeConditional;
  params.conditional.handle = handle;
  params.conditional.type = cudaGraphCondTypeWhile;
  params.conditional.size = 1;
  cudaGraphNode_t loop;
  CHECK(cudaGraphAddNode(&loop, graph, nullptr, nullptr, 0, &params));
  cudaGraph_t body = params.conditional.phGraph_out[0];
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaStreamBeginCaptureToGraph(stream, body, nullptr, nullptr, 0,
                                      cudaStreamCaptureModeGlobal));
  add<<<1, 1, 0, stream>>>(values + 1, 1, 1);
  count_down<<<1, 1, 0, stream>>>(values, handle);
  CHECK(cudaStreamEndCapture(stream, nullptr));
  cudaGraphExec_t exec, other;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK(cudaGraphInstantiate(&other, graph, 0));
  for (cudaGraphExec_t each : {exec, other, exec}) {
    int begin[2] = {7, 0};
    CHECK(cudaMemcpy(values, begin, sizeof begin, cudaMemcpyHostToDevice));
    CHECK(cudaGraphLaunch(each, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(results, values, sizeof results, cudaMemcpyDeviceToHost));
    printf("left %d after %d times\n", results[0], results[1]);
  }
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphExecDestroy(other));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(values));
}

static void allocations() {
  int *result, *scratch, *kept, value;
  cudaStream_t stream;
  CHECK(cudaMalloc(&result, sizeof(int)));
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK(cudaMallocAsync(&scratch, 4 << 20, stream));
  CHECK(cudaMemsetAsync(scratch, 0, 4 << 20, stream));
  add<<<1, 1, 0, stream>>>(scratch, 1, 21);
  CHECK(cudaMemcpyAsync(result, scratch, sizeof(int), cudaMemcpyDeviceToDevice, stream));
  CHECK(cudaFreeAsync(scratch, stream));
  CHECK(cudaMallocAsync(&kept, sizeof(int), stream));
  CHECK(cudaMemcpyAsync(kept, result, sizeof(int), cudaMemcpyDeviceToDevice, stream));
  cudaGraph_t graph;
  CHECK(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t exec, second;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  printf("a second one: %s\n", cudaGetErrorName(cudaGraphInstantiate(&second, graph, 0)));
  cudaGetLastError();
  size_t used;
  CHECK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &used));
  printf("used before a launch: %zu\n", used);
  CHECK(cudaGraphLaunch(exec, stream));
  printf("launched again: %s\n", cudaGetErrorName(cudaGraphLaunch(exec, stream)));
  cudaGetLastError();
  CHECK(cudaMemcpyAsync(&value, kept, sizeof value, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  printf("kept: %d\n", value);
  CHECK(cudaFreeAsync(kept, stream));
  CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaFree(kept));
  printf("freed twice: %s\n", cudaGetErrorName(cudaFree(kept)));
  cudaGetLastError();
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &used));
  printf("used: %zu\n", used);
  CHECK(cudaDeviceGraphMemTrim(0));
  CHECK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &used));
  printf("used when trimmed: %zu\n", used);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(result));
}

int main() {
  copies_and_functions();
  planes(4);
  planes(1);
  children();
  conditions();
  allocations();
  return 0;
}
