// A graph captured from three streams that fork and join with events, and launched again and again.
#include "../check.h"

constexpr int kCount = 1 << 12;

__global__ void scale(float *data, float by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < kCount) data[i] *= by;
}

__global__ void add(float *to, const float *a, const float *b) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < kCount) to[i] = a[i] + b[i];
}

int main() {
  float *in, *a, *b, *c, *out;
  CHECK(cudaMallocHost(&in, kCount * sizeof(float)));
  CHECK(cudaMallocHost(&out, kCount * sizeof(float)));
  for (float **each : {&a, &b, &c}) CHECK(cudaMalloc(each, kCount * sizeof(float)));
  cudaStream_t main, left, right;
  cudaEvent_t forked, left_done, right_done;
  for (cudaStream_t *each : {&main, &left, &right}) CHECK(cudaStreamCreate(each));
  for (cudaEvent_t *each : {&forked, &left_done, &right_done})
    CHECK(cudaEventCreateWithFlags(each, cudaEventDisableTiming));

  CHECK(cudaStreamBeginCapture(main, cudaStreamCaptureModeGlobal));
  CHECK(cudaMemcpyAsync(a, in, kCount * sizeof(float), cudaMemcpyHostToDevice, main));
  CHECK(cudaEventRecord(forked, main));
  CHECK(cudaStreamWaitEvent(left, forked));
  CHECK(cudaStreamWaitEvent(right, forked));
  CHECK(cudaMemcpyAsync(b, a, kCount * sizeof(float), cudaMemcpyDeviceToDevice, left));
  scale<<<kCount / 256, 256, 0, left>>>(b, 2);
  CHECK(cudaEventRecord(left_done, left));
  CHECK(cudaMemcpyAsync(c, a, kCount * sizeof(float), cudaMemcpyDeviceToDevice, right));
  scale<<<kCount / 256, 256, 0, right>>>(c, 3);
  CHECK(cudaEventRecord(right_done, right));
  CHECK(cudaStreamWaitEvent(main, left_done));
  CHECK(cudaStreamWaitEvent(main, right_done));
  add<<<kCount / 256, 256, 0, main>>>(a, b, c);
  CHECK(cudaMemcpyAsync(out, a, kCount * sizeof(float), cudaMemcpyDeviceToHost, main));
  cudaGraph_t graph;
  CHECK(cudaStreamEndCapture(main, &graph));

  size_t nodes, edges;
  CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
  CHECK(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
  printf("%zu nodes, %zu edges\n", nodes, edges);
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  for (int round = 1; round <= 3; round++) {
    for (int i = 0; i < kCount; i++) in[i] = static_cast<float>(i % 100 * round);
    CHECK(cudaGraphLaunch(exec, main));
    CHECK(cudaStreamSynchronize(main));
    for (int i = 0; i < kCount; i++)
      if (out[i] != 5.0f * static_cast<float>(i % 100 * round)) {
        fprintf(stderr, "round %d: element %d is %f\n", round, i, out[i]);
        return 1;
      }
    printf("round %d: right\n", round);
  }
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  return 0;
}
