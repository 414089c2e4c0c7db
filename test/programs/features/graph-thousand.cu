// A graph of a thousand nodes with random edges: each node sees that those before it are done.
#include <vector>

#include "../check.h"

constexpr int kNodes = 1000, kMostBefore = 4;

struct Before {
  int count;
  int node[kMostBefore];
};

// Its own mark is one more than the number of launches when it has run.
__global__ void visit(int *marks, int self, Before before, int *wrong) {
  int round = marks[self] + 1;
  for (int i = 0; i < before.count; i++)
    if (marks[before.node[i]] != round) atomicAdd(wrong, 1);
  marks[self] = round;
}

int main() {
  int *marks, *wrong;
  CHECK(cudaMallocManaged(&marks, kNodes * sizeof(int)));
  CHECK(cudaMallocManaged(&wrong, sizeof(int)));
  for (int i = 0; i < kNodes; i++) marks[i] = 0;
  *wrong = 0;
  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  std::vector<cudaGraphNode_t> nodes(kNodes);
  unsigned random = 1;
  size_t edges = 0;
  for (int self = 0; self < kNodes; self++) {
    Before before{};
    std::vector<cudaGraphNode_t> dependencies;
    for (int i = 0; i < kMostBefore && self > i; i++) {
      random = random * 1664525 + 1013904223;
      int other = static_cast<int>((random >> 8) % static_cast<unsigned>(self));
      bool known = false;
      for (int k = 0; k < before.count; k++) known = known || before.node[k] == other;
      if (known) continue;
      before.node[before.count++] = other;
      dependencies.push_back(nodes[other]);
    }
    edges += dependencies.size();
    void *values[] = {&marks, &self, &before, &wrong};
    cudaKernelNodeParams params{};
    params.func = reinterpret_cast<void *>(visit);
    params.gridDim = params.blockDim = dim3(1);
    params.kernelParams = values;
    CHECK(cudaGraphAddKernelNode(&nodes[self], graph, dependencies.data(), dependencies.size(),
                                 &params));
  }
  size_t counted;
  CHECK(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &counted));
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  for (int round = 0; round < 5; round++) CHECK(cudaGraphLaunch(exec, nullptr));
  CHECK(cudaDeviceSynchronize());
  int last = 0;
  for (int i = 0; i < kNodes; i++) last += marks[i] == 5;
  printf("%d nodes, edges as added: %d, %d visited five times, %d out of order\n", kNodes,
         counted == edges, last, *wrong);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  return *wrong == 0 && last == kNodes ? 0 : 1;
}
