// Every call that makes, asks and changes graphs and their nodes, in today's version and in those
// before.
// flags: -lcuda -ldl
#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "../check.h"
#include "../check_driver.h"
#include "../old_call.h"

__global__ void add(int *to, int value) { *to += value; }
__global__ void twice(int *to) { *to *= 2; }

namespace {

struct Names {
  std::vector<CUgraphNode> all;
  int of(CUgraphNode node) const {
    return static_cast<int>(std::find(all.begin(), all.end(), node) - all.begin());
  }
  void tell(const char *what, const CUgraphNode *nodes, size_t count) const {
    std::vector<int> numbers;
    for (size_t i = 0; i < count; i++) numbers.push_back(of(nodes[i]));
    std::sort(numbers.begin(), numbers.end());
    printf("%s:", what);
    for (int number : numbers) printf(" %d", number);
    printf("\n");
  }
};

void edges(CUgraph graph, const Names &names) {
  CUgraphNode from[16], to[16];
  size_t count = 16;
  SHOW_DRIVER(cuGraphGetEdges(graph, from, to, nullptr, &count));
  std::vector<std::pair<int, int>> all;
  for (size_t i = 0; i < count; i++) all.emplace_back(names.of(from[i]), names.of(to[i]));
  std::sort(all.begin(), all.end());
  for (const auto &[a, b] : all) printf(" %d-%d", a, b);
  printf("\n");
}

int host_calls = 0;
void CUDA_CB count_call(void *data) { host_calls += *static_cast<int *>(data); }

}  // namespace

int main() {
  CHECK(cudaFree(nullptr));
  CUcontext context;
  DRIVER(cuCtxGetCurrent(&context));
  CUfunction add_function, twice_function;
  CHECK(cudaGetFuncBySymbol(&add_function, reinterpret_cast<void *>(add)));
  CHECK(cudaGetFuncBySymbol(&twice_function, reinterpret_cast<void *>(twice)));
  CUdeviceptr value;
  DRIVER(cuMemAlloc(&value, 4096));
  DRIVER(cuMemsetD32(value, 0, 1024));
  // The stream below does not wait for the one in which memory is set.
  DRIVER(cuCtxSynchronize());
  int *pinned;
  CHECK(cudaMallocHost(&pinned, 64));
  CUstream stream;
  DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  const auto result = [&] {
    int host = -1;
    DRIVER(cuStreamSynchronize(stream));
    DRIVER(cuMemcpyDtoH(&host, value, sizeof host));
    return host;
  };

  printf("-- nodes\n");
  CUgraph graph;
  DRIVER(cuGraphCreate(&graph, 0));
  SHOW_DRIVER(cuGraphCreate(&graph, 1));
  Names names;
  const auto named = [&](CUgraphNode node) {
    names.all.push_back(node);
    return node;
  };
  CUgraphNode fill, kernel, second, host, empty, node = nullptr;
  CUDA_MEMSET_NODE_PARAMS set = {};
  set.dst = value;
  set.elementSize = 4;
  set.value = 5;
  set.width = set.height = 1;
  DRIVER(cuGraphAddMemsetNode(&fill, graph, nullptr, 0, &set, context));
  named(fill);
  int three = 3;
  void *add_values[] = {&value, &three};
  CUDA_KERNEL_NODE_PARAMS launch = {};
  launch.func = add_function;
  launch.gridDimX = launch.gridDimY = launch.gridDimZ = 1;
  launch.blockDimX = launch.blockDimY = launch.blockDimZ = 1;
  launch.kernelParams = add_values;
  SHOW_DRIVER(cuGraphAddKernelNode(&kernel, graph, &fill, 1, &launch));
  named(kernel);
  void *twice_values[] = {&value};
  CUDA_KERNEL_NODE_PARAMS_v1 old = {};
  old.func = twice_function;
  old.gridDimX = old.gridDimY = old.gridDimZ = 1;
  old.blockDimX = old.blockDimY = old.blockDimZ = 1;
  old.kernelParams = twice_values;
  SHOW_DRIVER(OLD_CALL(cuGraphAddKernelNode, CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
                       const CUDA_KERNEL_NODE_PARAMS_v1 *)(&second, graph, &kernel, 1, &old));
  named(second);
  int one = 1;
  CUgraphNodeParams any = {};
  any.type = CU_GRAPH_NODE_TYPE_HOST;
  any.host = {count_call, &one};
  SHOW_DRIVER(cuGraphAddNode(&host, graph, &second, nullptr, 1, &any));
  named(host);
  SHOW_DRIVER(cuGraphAddEmptyNode(&empty, graph, nullptr, 0));
  named(empty);
  CUgraphNodeParams nothing = {};
  nothing.type = CU_GRAPH_NODE_TYPE_EMPTY;
  SHOW_DRIVER(OLD_CALL(cuGraphAddNode, CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
                       CUgraphNodeParams *)(&node, graph, &empty, 1, &nothing));
  named(node);
  nothing.type = static_cast<CUgraphNodeType>(99);
  SHOW_DRIVER(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &nothing));
  SHOW_DRIVER(cuGraphAddEmptyNode(&node, graph, nullptr, 1));
  SHOW_DRIVER(cuGraphAddEmptyNode(nullptr, graph, nullptr, 0));

  printf("-- edges\n");
  edges(graph, names);
  SHOW_DRIVER(cuGraphAddDependencies(graph, &host, &empty, nullptr, 1));
  SHOW_DRIVER(cuGraphAddDependencies(graph, &host, &empty, nullptr, 1));
  SHOW_DRIVER(cuGraphAddDependencies(graph, &host, &host, nullptr, 1));
  SHOW_DRIVER(OLD_CALL(cuGraphAddDependencies, CUgraph, const CUgraphNode *, const CUgraphNode *,
                       size_t)(graph, &fill, &empty, 1));
  edges(graph, names);
  CUgraphNode found[16];
  size_t count = 16;
  SHOW_DRIVER(cuGraphNodeGetDependencies(empty, found, nullptr, &count));
  names.tell("before the empty node", found, count);
  count = 16;
  SHOW_DRIVER(cuGraphNodeGetDependentNodes(fill, found, nullptr, &count));
  names.tell("behind the fill", found, count);
  count = 1;
  SHOW_DRIVER(OLD_CALL(cuGraphNodeGetDependencies, CUgraphNode, CUgraphNode *, size_t *)(
      empty, found, &count));
  printf("%zu\n", count);
  count = 16;
  SHOW_DRIVER(OLD_CALL(cuGraphNodeGetDependentNodes, CUgraphNode, CUgraphNode *, size_t *)(
      host, found, &count));
  names.tell("behind the host function", found, count);
  SHOW_DRIVER(cuGraphRemoveDependencies(graph, &fill, &empty, nullptr, 1));
  SHOW_DRIVER(cuGraphRemoveDependencies(graph, &fill, &empty, nullptr, 1));
  SHOW_DRIVER(OLD_CALL(cuGraphRemoveDependencies, CUgraph, const CUgraphNode *, const CUgraphNode *,
                       size_t)(graph, &fill, &host, 1));
  count = 0;
  SHOW_DRIVER(OLD_CALL(cuGraphGetEdges, CUgraph, CUgraphNode *, CUgraphNode *, size_t *)(
      graph, nullptr, nullptr, &count));
  printf("%zu edges\n", count);
  count = 16;
  SHOW_DRIVER(cuGraphGetRootNodes(graph, found, &count));
  names.tell("roots", found, count);

  printf("-- what nodes are\n");
  for (CUgraphNode each : names.all) {
    CUgraphNodeType type;
    DRIVER(cuGraphNodeGetType(each, &type));
    printf(" %d", type);
  }
  printf("\n");
  CUDA_MEMSET_NODE_PARAMS set_told = {};
  SHOW_DRIVER(cuGraphMemsetNodeGetParams(fill, &set_told));
  printf("value %u, width %zu, there: %d\n", set_told.value, set_told.width, set_told.dst == value);
  SHOW_DRIVER(cuGraphMemsetNodeGetParams(kernel, &set_told));
  CUDA_KERNEL_NODE_PARAMS told = {};
  DRIVER(cuGraphKernelNodeGetParams(kernel, &told));
  printf("its function: %d, adds %d\n", told.func == add_function,
         *static_cast<int *>(told.kernelParams[1]));
  CUDA_KERNEL_NODE_PARAMS_v1 old_told = {};
  SHOW_DRIVER(OLD_CALL(cuGraphKernelNodeGetParams, CUgraphNode, CUDA_KERNEL_NODE_PARAMS_v1 *)(
      second, &old_told));
  printf("its function: %d\n", old_told.func == twice_function);
  CUDA_HOST_NODE_PARAMS call_told = {};
  SHOW_DRIVER(cuGraphHostNodeGetParams(host, &call_told));
  printf("its function and data: %d\n", call_told.fn == count_call && call_told.userData == &one);
  CUlaunchAttributeValue attribute = {};
  attribute.priority = 0;
  SHOW_DRIVER(cuGraphKernelNodeSetAttribute(kernel, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &attribute));
  attribute.cooperative = 1;
  SHOW_DRIVER(cuGraphKernelNodeSetAttribute(kernel, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &attribute));
  SHOW_DRIVER(cuGraphKernelNodeCopyAttributes(second, kernel));
  attribute.cooperative = 0;
  SHOW_DRIVER(cuGraphKernelNodeGetAttribute(second, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &attribute));
  printf("cooperative: %d\n", attribute.cooperative);
  SHOW_DRIVER(cuGraphKernelNodeCopyAttributes(second, host));
  SHOW_DRIVER(cuGraphKernelNodeGetAttribute(host, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &attribute));

  printf("-- every way to instantiate\n");
  CUgraphExec execs[4] = {};
  SHOW_DRIVER(cuGraphInstantiate(&execs[0], graph, 0));
  SHOW_DRIVER(OLD_CALL(cuGraphInstantiate, CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t)(
      &execs[1], graph, nullptr, nullptr, 0));
  char log[64] = "";
  SHOW_DRIVER(OLD_CALL(cuGraphInstantiate_v2, CUgraphExec *, CUgraph, CUgraphNode *, char *,
                       size_t)(&execs[2], graph, &node, log, sizeof log));
  CUDA_GRAPH_INSTANTIATE_PARAMS with = {};
  with.flags = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
  with.hUploadStream = stream;
  SHOW_DRIVER(cuGraphInstantiateWithParams(&execs[3], graph, &with));
  printf("result %d\n", with.result_out);
  SHOW_DRIVER(cuGraphInstantiate(&execs[0], graph, 1u << 20));
  for (CUgraphExec exec : execs) {
    cuuint64_t flags = 99;
    SHOW_DRIVER(cuGraphExecGetFlags(exec, &flags));
    printf("flags %llu\n", static_cast<unsigned long long>(flags));
    SHOW_DRIVER(cuGraphUpload(exec, stream));
    SHOW_DRIVER(cuGraphLaunch(exec, stream));
    printf("(5 + 3) * 2 = %d\n", result());
  }
  printf("host functions ran: %d\n", host_calls);

  printf("-- changes of the graph\n");
  set.value = 7;
  SHOW_DRIVER(cuGraphMemsetNodeSetParams(fill, &set));
  SHOW_DRIVER(cuGraphMemsetNodeSetParams(host, &set));
  three = 4;
  SHOW_DRIVER(cuGraphKernelNodeSetParams(kernel, &launch));
  old.func = add_function;
  old.kernelParams = add_values;
  SHOW_DRIVER(OLD_CALL(cuGraphKernelNodeSetParams, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS_v1 *)(
      second, &old));
  int ten = 10;
  const CUDA_HOST_NODE_PARAMS other_call = {count_call, &ten};
  SHOW_DRIVER(cuGraphHostNodeSetParams(host, &other_call));
  SHOW_DRIVER(cuGraphLaunch(execs[0], stream));
  printf("as it was instantiated: %d\n", result());
  CUgraphExecUpdateResultInfo updated = {};
  SHOW_DRIVER(cuGraphExecUpdate(execs[0], graph, &updated));
  printf("result %d\n", updated.result);
  SHOW_DRIVER(cuGraphLaunch(execs[0], stream));
  printf("7 + 4 + 4 = %d\n", result());
  printf("host functions ran: %d\n", host_calls);
  CUgraphExecUpdateResult old_updated;
  SHOW_DRIVER(OLD_CALL(cuGraphExecUpdate, CUgraphExec, CUgraph, CUgraphNode *,
                       CUgraphExecUpdateResult *)(execs[1], graph, &node, &old_updated));
  printf("result %d\n", old_updated);
  SHOW_DRIVER(cuGraphLaunch(execs[1], stream));
  printf("7 + 4 + 4 = %d\n", result());

  printf("-- changes of what was instantiated\n");
  three = 30;
  SHOW_DRIVER(cuGraphExecKernelNodeSetParams(execs[1], kernel, &launch));
  old.kernelParams = add_values;
  SHOW_DRIVER(OLD_CALL(cuGraphExecKernelNodeSetParams, CUgraphExec, CUgraphNode,
                       const CUDA_KERNEL_NODE_PARAMS_v1 *)(execs[1], second, &old));
  SHOW_DRIVER(cuGraphLaunch(execs[1], stream));
  printf("7 + 30 + 30 = %d\n", result());
  SHOW_DRIVER(cuGraphExecKernelNodeSetParams(execs[1], fill, &launch));

  printf("-- clones\n");
  CUgraph clone;
  SHOW_DRIVER(cuGraphClone(&clone, graph));
  CUgraphNode cloned = nullptr;
  SHOW_DRIVER(cuGraphNodeFindInClone(&cloned, kernel, clone));
  DRIVER(cuGraphKernelNodeGetParams(cloned, &told));
  printf("adds %d\n", *static_cast<int *>(told.kernelParams[1]));
  SHOW_DRIVER(cuGraphNodeFindInClone(&node, kernel, graph));
  SHOW_DRIVER(cuGraphNodeFindInClone(&node, cloned, clone));
  SHOW_DRIVER(cuGraphDestroyNode(second));
  SHOW_DRIVER(cuGraphDestroyNode(second));
  count = 0;
  SHOW_DRIVER(cuGraphGetNodes(graph, nullptr, &count));
  printf("%zu nodes\n", count);
  SHOW_DRIVER(cuGraphGetNodes(clone, nullptr, &count));
  printf("%zu nodes of the clone\n", count);
  SHOW_DRIVER(cuGraphNodeFindInClone(&node, second, clone));
  SHOW_DRIVER(cuGraphExecUpdate(execs[0], graph, &updated));
  printf("result %d\n", updated.result);

  printf("-- events\n");
  CUevent first_event, second_event, told_event = nullptr;
  DRIVER(cuEventCreate(&first_event, CU_EVENT_DISABLE_TIMING));
  DRIVER(cuEventCreate(&second_event, CU_EVENT_DISABLE_TIMING));
  CUgraph with_events;
  CUgraphNode record, wait;
  DRIVER(cuGraphCreate(&with_events, 0));
  DRIVER(cuGraphAddEventRecordNode(&record, with_events, nullptr, 0, first_event));
  DRIVER(cuGraphAddEventWaitNode(&wait, with_events, &record, 1, first_event));
  SHOW_DRIVER(cuGraphEventRecordNodeGetEvent(record, &told_event));
  printf("the first: %d\n", told_event == first_event);
  SHOW_DRIVER(cuGraphEventRecordNodeSetEvent(record, second_event));
  SHOW_DRIVER(cuGraphEventRecordNodeGetEvent(record, &told_event));
  printf("the second: %d\n", told_event == second_event);
  SHOW_DRIVER(cuGraphEventRecordNodeGetEvent(wait, &told_event));
  CUgraphExec event_exec;
  DRIVER(cuGraphInstantiate(&event_exec, with_events, 0));
  SHOW_DRIVER(cuGraphExecEventRecordNodeSetEvent(event_exec, record, first_event));
  SHOW_DRIVER(cuGraphExecEventRecordNodeSetEvent(event_exec, wait, first_event));
  SHOW_DRIVER(cuGraphLaunch(event_exec, stream));
  SHOW_DRIVER(cuEventSynchronize(first_event));

  printf("-- values in memory\n");
  CUstreamBatchMemOpParams operations[2] = {};
  operations[0].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, value + 64, {}, 0, 0};
  operations[0].writeValue.value = 77;
  operations[1].waitValue = {CU_STREAM_MEM_OP_WAIT_VALUE_32, value + 64, {}, 0, 0};
  operations[1].waitValue.value = 77;
  CUDA_BATCH_MEM_OP_NODE_PARAMS batch = {context, 2, operations, 0};
  CUgraph of_values;
  CUgraphNode values;
  DRIVER(cuGraphCreate(&of_values, 0));
  SHOW_DRIVER(cuGraphAddBatchMemOpNode(&values, of_values, nullptr, 0, &batch));
  operations[0].writeValue.value = operations[1].waitValue.value = 78;
  SHOW_DRIVER(cuGraphBatchMemOpNodeSetParams(values, &batch));
  SHOW_DRIVER(cuGraphBatchMemOpNodeSetParams(fill, &batch));
  CUgraphExec values_exec;
  DRIVER(cuGraphInstantiate(&values_exec, of_values, 0));
  SHOW_DRIVER(cuGraphLaunch(values_exec, stream));
  DRIVER(cuStreamSynchronize(stream));
  int written = 0;
  DRIVER(cuMemcpyDtoH(&written, value + 64, 4));
  printf("written: %d\n", written);

  printf("-- memory\n");
  CUgraph of_memory;
  CUgraphNode allocate, release;
  DRIVER(cuGraphCreate(&of_memory, 0));
  CUDA_MEM_ALLOC_NODE_PARAMS wanted = {};
  wanted.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  wanted.bytesize = 5000;
  DRIVER(cuGraphAddMemAllocNode(&allocate, of_memory, nullptr, 0, &wanted));
  DRIVER(cuGraphAddMemFreeNode(&release, of_memory, &allocate, 1, wanted.dptr));
  CUDA_MEM_ALLOC_NODE_PARAMS wanted_told = {};
  SHOW_DRIVER(cuGraphMemAllocNodeGetParams(allocate, &wanted_told));
  printf("%zu bytes, there: %d\n", wanted_told.bytesize, wanted_told.dptr == wanted.dptr);
  CUdeviceptr freed = 0;
  SHOW_DRIVER(cuGraphMemFreeNodeGetParams(release, &freed));
  printf("there: %d\n", freed == wanted.dptr);
  SHOW_DRIVER(cuGraphMemFreeNodeGetParams(allocate, &freed));
  SHOW_DRIVER(cuGraphMemAllocNodeGetParams(release, &wanted_told));
  cuuint64_t none = 0, some = 5;
  SHOW_DRIVER(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &none));
  SHOW_DRIVER(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &some));
  SHOW_DRIVER(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &none));
  SHOW_DRIVER(cuDeviceSetGraphMemAttribute(1000, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &none));

  printf("-- user objects\n");
  CUuserObject object;
  static std::atomic<bool> gone{false};
  DRIVER(cuUserObjectCreate(
      &object, pinned, [](void *) { gone = true; }, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  SHOW_DRIVER(cuUserObjectRetain(object, 2));
  SHOW_DRIVER(cuUserObjectRetain(object, 0));
  SHOW_DRIVER(cuUserObjectRelease(object, 2));
  DRIVER(cuUserObjectRelease(object, 1));
  while (!gone) std::this_thread::yield();

  for (CUgraphExec exec : execs) SHOW_DRIVER(cuGraphExecDestroy(exec));
  DRIVER(cuGraphExecDestroy(event_exec));
  DRIVER(cuGraphExecDestroy(values_exec));
  for (CUgraph each : {graph, clone, with_events, of_values, of_memory})
    SHOW_DRIVER(cuGraphDestroy(each));
  DRIVER(cuEventDestroy(first_event));
  DRIVER(cuEventDestroy(second_event));
  DRIVER(cuStreamDestroy(stream));
  CHECK(cudaFreeHost(pinned));
  DRIVER(cuMemFree(value));
  return 0;
}
