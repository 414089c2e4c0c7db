// What calls tell of nodes stays where it is until the node ends, whatever the node becomes
// meanwhile; and lists are asked for with arrays of any size.
// flags: -lcuda -ldl
#include "../check.h"
#include "../check_driver.h"
#include "../old_call.h"

__global__ void add(int *to, int value) { *to += value; }
__global__ void twice(int *to) { *to *= 2; }
struct Wide {
  int values[200];
};
__global__ void wide(int *to, Wide from, int which) { *to = from.values[which]; }

namespace {

CUstream stream;
int failures = 0;

void must(bool right, const char *what) {
  if (right) return;
  printf("WRONG: %s\n", what);
  failures++;
}

int result_of(CUgraph graph, CUdeviceptr value) {
  CUgraphExec exec;
  int host = 5;
  DRIVER(cuMemcpyHtoD(value, &host, sizeof host));
  DRIVER(cuGraphInstantiate(&exec, graph, 0));
  DRIVER(cuGraphLaunch(exec, stream));
  DRIVER(cuStreamSynchronize(stream));
  DRIVER(cuGraphExecDestroy(exec));
  DRIVER(cuMemcpyDtoH(&host, value, sizeof host));
  return host;
}

CUDA_KERNEL_NODE_PARAMS launch_of(CUfunction function, void **values) {
  CUDA_KERNEL_NODE_PARAMS launch = {};
  launch.func = function;
  launch.gridDimX = launch.gridDimY = launch.gridDimZ = 1;
  launch.blockDimX = launch.blockDimY = launch.blockDimZ = 1;
  launch.kernelParams = values;
  return launch;
}

void kernels(CUdeviceptr value) {
  CUfunction add_function, twice_function, wide_function;
  CHECK(cudaGetFuncBySymbol(&add_function, reinterpret_cast<void *>(add)));
  CHECK(cudaGetFuncBySymbol(&twice_function, reinterpret_cast<void *>(twice)));
  CHECK(cudaGetFuncBySymbol(&wide_function, reinterpret_cast<void *>(wide)));
  int three = 3;
  void *add_values[] = {&value, &three};
  void *twice_values[] = {&value};
  Wide many = {};
  int which = 150;
  many.values[which] = 77;
  void *wide_values[] = {&value, &many, &which};
  CUgraph graph;
  CUgraphNode node;
  DRIVER(cuGraphCreate(&graph, 0));
  const CUDA_KERNEL_NODE_PARAMS adds = launch_of(add_function, add_values);
  DRIVER(cuGraphAddKernelNode(&node, graph, nullptr, 0, &adds));

  CUDA_KERNEL_NODE_PARAMS told = {};
  DRIVER(cuGraphKernelNodeGetParams(node, &told));
  printf("adds %d\n", *static_cast<int *>(told.kernelParams[1]));
  // What was told is given back, again and again.
  for (int i = 0; i < 3; i++) {
    told.blockDimX = static_cast<unsigned>(i + 1);
    SHOW_DRIVER(cuGraphKernelNodeSetParams(node, &told));
    must(*static_cast<int *>(told.kernelParams[1]) == 3, "it still adds 3");
  }
  told.blockDimX = 1;
  SHOW_DRIVER(cuGraphKernelNodeSetParams(node, &told));
  must(result_of(graph, value) == 8, "5 + 3");
  CUlaunchAttributeValue attribute = {};
  attribute.cooperative = 1;
  SHOW_DRIVER(cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &attribute));
  SHOW_DRIVER(cuGraphKernelNodeSetParams(node, &told));
  must(result_of(graph, value) == 8, "5 + 3");

  // Functions with fewer and with many more bytes of parameters, and what was told before them.
  const CUDA_KERNEL_NODE_PARAMS doubles = launch_of(twice_function, twice_values);
  const CUDA_KERNEL_NODE_PARAMS picks = launch_of(wide_function, wide_values);
  CUDA_KERNEL_NODE_PARAMS told_wide = {};
  int wrong = 0;
  for (int i = 0; i < 1000; i++) {
    three = i;
    DRIVER(cuGraphKernelNodeSetParams(node, i % 3 == 0 ? &doubles : i % 3 == 1 ? &picks : &adds));
    DRIVER(cuGraphKernelNodeGetParams(node, &told_wide));
    if (i % 3 == 1) wrong += static_cast<Wide *>(told_wide.kernelParams[1])->values[which] != 77;
    if (i % 3 == 2) wrong += *static_cast<int *>(told_wide.kernelParams[1]) != i;
  }
  DRIVER(cuGraphKernelNodeSetParams(node, &picks));
  DRIVER(cuGraphKernelNodeGetParams(node, &told_wide));
  DRIVER(cuGraphKernelNodeSetParams(node, &doubles));
  must(!wrong, "what is told is what was set");
  must(static_cast<Wide *>(told_wide.kernelParams[1])->values[which] == 77, "what was told before");
  SHOW_DRIVER(cuGraphKernelNodeSetParams(node, &told_wide));
  must(result_of(graph, value) == 77, "what was told before can be set");
  DRIVER(cuGraphDestroy(graph));
}

void values(CUcontext context, CUdeviceptr value) {
  CUstreamBatchMemOpParams operations[3] = {};
  for (CUstreamBatchMemOpParams &operation : operations) {
    operation.writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, value, {}, 0, 0};
    operation.writeValue.value = 78;
  }
  CUDA_BATCH_MEM_OP_NODE_PARAMS batch = {context, 2, operations, 0}, told = {};
  CUgraph graph;
  CUgraphNode node;
  DRIVER(cuGraphCreate(&graph, 0));
  DRIVER(cuGraphAddBatchMemOpNode(&node, graph, nullptr, 0, &batch));
  DRIVER(cuGraphBatchMemOpNodeGetParams(node, &told));
  for (unsigned count = 1; count <= 3; count++) {
    batch.count = count;
    DRIVER(cuGraphBatchMemOpNodeSetParams(node, &batch));
    must(told.count == 2 && told.paramArray[1].writeValue.value == 78, "the operations told");
    SHOW_DRIVER(cuGraphBatchMemOpNodeSetParams(node, &told));
  }
  must(result_of(graph, value) == 78, "what operations write");
  DRIVER(cuGraphDestroy(graph));
}

void memory() {
  CUgraph graph;
  CUgraphNode allocate, release;
  DRIVER(cuGraphCreate(&graph, 0));
  CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, {0}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUDA_MEM_ALLOC_NODE_PARAMS wanted = {}, told = {};
  wanted.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  wanted.bytesize = 5000;
  wanted.accessDescs = &access;
  wanted.accessDescCount = 1;
  DRIVER(cuGraphAddMemAllocNode(&allocate, graph, nullptr, 0, &wanted));
  DRIVER(cuGraphAddMemFreeNode(&release, graph, &allocate, 1, wanted.dptr));
  DRIVER(cuGraphMemAllocNodeGetParams(allocate, &told));
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  CUgraphExec exec;
  DRIVER(cuGraphInstantiate(&exec, graph, 0));
  DRIVER(cuGraphExecDestroy(exec));
  must(told.accessDescCount == 1 && told.accessDescs[0].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
       "the accesses told");
  DRIVER(cuGraphDestroy(graph));
}

// Of `ask(array, &count)`: without an array, with one of no room, and with ones too small and too
// large.
template <class Ask>
void lists(const char *what, Ask ask) {
  CUgraphNode untouched = reinterpret_cast<CUgraphNode>(0x1234);
  for (int i = 0; i < 4; i++) {
    const bool with_array = i > 0;
    const size_t room = i < 2 ? 0 : i == 2 ? 1 : 5;
    CUgraphNode found[5] = {untouched, untouched, untouched, untouched, untouched};
    size_t count = room;
    const CUresult result = ask(with_array ? found : nullptr, &count);
    int touched = 0, empty = 0;
    for (CUgraphNode each : found) {
      touched += each != untouched;
      empty += !each;
    }
    printf("%s, %s with room for %zu: %d, count %zu, written %d, of these NULL %d\n", what,
           with_array ? "an array" : "no array", room, result, count, touched, empty);
    must(result == (with_array && !room ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS),
         "an array needs room");
    must(touched == static_cast<int>(room), "arrays are written to their ends, and no further");
    must(room || !with_array || !count, "the count of an array without room stays 0");
  }
  CUgraphNode found[5];
  must(ask(found, nullptr) == CUDA_ERROR_INVALID_VALUE, "a count is needed");
}

void arrays() {
  CUgraph graph;
  CUgraphNode nodes[4];
  DRIVER(cuGraphCreate(&graph, 0));
  for (int i = 0; i < 4; i++)
    DRIVER(cuGraphAddEmptyNode(&nodes[i], graph, nodes, i < 2 ? 0 : static_cast<size_t>(i)));
  lists("nodes", [&](CUgraphNode *to, size_t *count) { return cuGraphGetNodes(graph, to, count); });
  lists("roots",
        [&](CUgraphNode *to, size_t *count) { return cuGraphGetRootNodes(graph, to, count); });
  CUgraphEdgeData data[5];
  for (bool with_data : {false, true}) {
    const auto also = [&](CUgraphNode *to) { return with_data && to ? data : nullptr; };
    lists("edges", [&](CUgraphNode *to, size_t *count) {
      CUgraphNode ends[5];
      return cuGraphGetEdges(graph, to, to ? ends : nullptr, also(to), count);
    });
    lists("before", [&](CUgraphNode *to, size_t *count) {
      return cuGraphNodeGetDependencies(nodes[3], to, also(to), count);
    });
    lists("behind", [&](CUgraphNode *to, size_t *count) {
      return cuGraphNodeGetDependentNodes(nodes[0], to, also(to), count);
    });
  }
  lists("edges, the old way", [&](CUgraphNode *to, size_t *count) {
    CUgraphNode ends[5];
    return OLD_CALL(cuGraphGetEdges, CUgraph, CUgraphNode *, CUgraphNode *, size_t *)(
        graph, to, to ? ends : nullptr, count);
  });
  lists("before, the old way", [&](CUgraphNode *to, size_t *count) {
    return OLD_CALL(cuGraphNodeGetDependencies, CUgraphNode, CUgraphNode *, size_t *)(nodes[3], to,
                                                                                      count);
  });
  lists("behind, the old way", [&](CUgraphNode *to, size_t *count) {
    return OLD_CALL(cuGraphNodeGetDependentNodes, CUgraphNode, CUgraphNode *, size_t *)(nodes[0],
                                                                                        to, count);
  });
  // Where there is nothing to tell, as well.
  lists("before the first", [&](CUgraphNode *to, size_t *count) {
    return cuGraphNodeGetDependencies(nodes[0], to, nullptr, count);
  });
  CUgraphNode one_end[5];
  size_t count = 5;
  printf("only one end of edges: %d\n", cuGraphGetEdges(graph, one_end, nullptr, nullptr, &count));
  DRIVER(cuGraphDestroy(graph));
}

}  // namespace

int main() {
  CHECK(cudaFree(nullptr));
  CUcontext context;
  DRIVER(cuCtxGetCurrent(&context));
  DRIVER(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
  CUdeviceptr value;
  DRIVER(cuMemAlloc(&value, 4096));
  kernels(value);
  values(context, value);
  memory();
  arrays();
  DRIVER(cuMemFree(value));
  DRIVER(cuStreamDestroy(stream));
  return failures;
}
