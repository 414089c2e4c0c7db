// Objects that graphs keep alive, and that are destroyed when the last graph lets go.
#include <atomic>
#include <thread>

#include "../check.h"

struct Resource {
  std::atomic<int> *destroyed;
  int *memory;
};

static void destroy(void *object) {
  auto *resource = static_cast<Resource *>(object);
  resource->destroyed->fetch_add(1);
  delete resource;
}

__global__ void increment(int *value) { ++*value; }

int main() {
  std::atomic<int> destroyed{0};
  int *value;
  CHECK(cudaMallocManaged(&value, sizeof(int)));
  *value = 0;
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  cudaGraph_t graph;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  increment<<<1, 1, 0, stream>>>(value);
  CHECK(cudaStreamEndCapture(stream, &graph));
  cudaUserObject_t object;
  CHECK(cudaUserObjectCreate(&object, new Resource{&destroyed, value}, destroy, 1,
                             cudaUserObjectNoDestructorSync));
  CHECK(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK(cudaGraphDestroy(graph));
  printf("with the executable graph alive: %d destroyed\n", destroyed.load());
  CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaStreamSynchronize(stream));
  while (destroyed != 1) std::this_thread::yield();
  printf("without: %d destroyed, the graph has run %d time\n", destroyed.load(), *value);

  CHECK(cudaGraphCreate(&graph, 0));
  CHECK(cudaUserObjectCreate(&object, new Resource{&destroyed, nullptr}, destroy, 2,
                             cudaUserObjectNoDestructorSync));
  CHECK(cudaGraphRetainUserObject(graph, object, 1, 0));
  CHECK(cudaUserObjectRelease(object, 2));
  CHECK(cudaGraphReleaseUserObject(graph, object, 1));
  while (destroyed != 2) std::this_thread::yield();
  printf("released by hand: %d destroyed\n", destroyed.load());
  CHECK(cudaGraphDestroy(graph));
  return *value == 1 ? 0 : 1;
}
