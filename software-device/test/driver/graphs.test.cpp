// Graphs built node by node: structure, instantiation, launches, changes. Gates hold streams where
// order is the matter; nothing looks at a clock.
#include <atomic>
#include <thread>

#include "support.h"

namespace {

struct Buffer {
  CUdeviceptr address;
  explicit Buffer(size_t bytes = 4096) {
    OK(cuMemAlloc_v2(&address, bytes));
    OK(cuMemsetD8_v2(address, 0, bytes));
    OK(cuCtxSynchronize());
  }
  ~Buffer() { cuMemFree_v2(address); }
  uint32_t at(size_t index) const {
    return __atomic_load_n(reinterpret_cast<const uint32_t *>(address) + index, __ATOMIC_ACQUIRE);
  }
};

CUstream new_stream() {
  CUstream stream;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

CUgraph new_graph() {
  CUgraph graph;
  OK(cuGraphCreate(&graph, 0));
  return graph;
}

CUgraphExec instantiate(CUgraph graph) {
  CUgraphExec exec;
  OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  return exec;
}

using Before = std::vector<CUgraphNode>;

CUgraphNode empty(CUgraph graph, const Before &before = {}) {
  CUgraphNode node;
  OK(cuGraphAddEmptyNode(&node, graph, before.data(), before.size()));
  return node;
}

CUDA_KERNEL_NODE_PARAMS store_params(CUfunction function, void **values) {
  CUDA_KERNEL_NODE_PARAMS params{};
  params.func = function;
  params.gridDimX = params.gridDimY = params.gridDimZ = 1;
  params.blockDimX = params.blockDimY = params.blockDimZ = 1;
  params.kernelParams = values;
  return params;
}

// store(at, value) of the kernels.
CUgraphNode store(CUgraph graph, CUfunction function, CUdeviceptr at, uint32_t value,
                  const Before &before = {}) {
  void *values[] = {&at, &value};
  CUDA_KERNEL_NODE_PARAMS params = store_params(function, values);
  CUgraphNode node;
  OK(cuGraphAddKernelNode_v2(&node, graph, before.data(), before.size(), &params));
  return node;
}

CUgraphNode set(CUgraph graph, CUdeviceptr at, uint32_t value, size_t count,
                const Before &before = {}) {
  CUDA_MEMSET_NODE_PARAMS params{at, 0, value, 4, count, 1};
  CUgraphNode node;
  OK(cuGraphAddMemsetNode(&node, graph, before.data(), before.size(), &params, nullptr));
  return node;
}

CUDA_MEMCPY3D to_host(void *to, CUdeviceptr from, size_t bytes) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = to;
  copy.WidthInBytes = bytes;
  copy.Height = copy.Depth = 1;
  return copy;
}

CUgraphNode host(CUgraph graph, CUhostFn function, void *data, const Before &before = {}) {
  CUDA_HOST_NODE_PARAMS params{function, data};
  CUgraphNode node;
  OK(cuGraphAddHostNode(&node, graph, before.data(), before.size(), &params));
  return node;
}

size_t count_nodes(CUgraph graph) {
  size_t count = 0;
  OK(cuGraphGetNodes(graph, nullptr, &count));
  return count;
}

size_t count_edges(CUgraph graph) {
  size_t count = 0;
  OK(cuGraphGetEdges(graph, nullptr, nullptr, &count));
  return count;
}

void nodes_run_in_the_order_they_declare(void **) {
  CUmodule module = load_kernels();
  Buffer buffer;
  uint32_t back[4] = {};
  CUgraph graph = new_graph();
  CUgraphNode first = set(graph, buffer.address, 7, 4);
  CUgraphNode second = store(graph, kernel(module, "store"), buffer.address + 4, 8, {first});
  CUfunction add_one = kernel(module, "add_one");
  uint32_t four = 4;
  void *values[] = {&buffer.address, &four};
  CUDA_KERNEL_NODE_PARAMS params = store_params(add_one, values);
  params.blockDimX = 32;
  CUgraphNode third;
  OK(cuGraphAddKernelNode_v2(&third, graph, &second, 1, &params));
  CUDA_MEMCPY3D copy = to_host(back, buffer.address, sizeof back);
  CUgraphNode fourth;
  OK(cuGraphAddMemcpyNode(&fourth, graph, &third, 1, &copy, nullptr));
  CUgraphExec exec = instantiate(graph);
  OK(cuGraphDestroy(graph));  // the executable one needs it no more
  CUstream stream = new_stream();
  for (int round = 0; round < 3; round++) {
    memset(back, 0, sizeof back);
    OK(cuGraphUpload(exec, stream));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    assert_int_equal(back[0], 8);
    assert_int_equal(back[1], 9);
    assert_int_equal(back[3], 8);
  }
  OK(cuGraphExecDestroy(exec));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(exec, stream));
  OK(cuModuleUnload(module));
}

void a_launch_has_its_place_in_the_stream(void **) {
  Buffer buffer;
  CUgraph graph = new_graph();
  set(graph, buffer.address, 5, 1);
  CUgraphExec exec = instantiate(graph);
  CUstream stream = new_stream(), other = new_stream();
  Gate gate;
  gate.hold(stream);
  OK(cuGraphLaunch(exec, stream));
  OK(cuMemsetD32Async(buffer.address + 4, 6, 1, stream));
  EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
  assert_int_equal(buffer.at(0), 0);
  // The same one waits for itself, in whatever stream it is launched.
  OK(cuGraphLaunch(exec, other));
  EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(other));
  gate.open();
  OK(cuStreamSynchronize(other));
  OK(cuStreamSynchronize(stream));
  assert_int_equal(buffer.at(0), 5);
  assert_int_equal(buffer.at(1), 6);
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
}

void branches_run_beside_each_other(void **) {
  // Each branch waits for what the other one does: they must both be running.
  static std::atomic<int> arrived;
  arrived = 0;
  auto meet = [](void *) {
    arrived++;
    while (arrived < 2) std::this_thread::yield();
  };
  CUgraph graph = new_graph();
  CUgraphNode root = empty(graph);
  host(graph, meet, nullptr, {root});
  host(graph, meet, nullptr, {root});
  CUgraphExec exec = instantiate(graph);
  OK(cuGraphLaunch(exec, nullptr));
  OK(cuCtxSynchronize());
  assert_int_equal(arrived, 2);
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
}

void edges_can_be_asked_added_and_removed(void **) {
  CUgraph graph = new_graph(), other = new_graph();
  CUgraphNode a = empty(graph), b = empty(graph), c = empty(graph, {a, b}), stranger = empty(other);
  CUgraphNode nodes[5];
  size_t count = 5;
  OK(cuGraphGetNodes(graph, nodes, &count));
  assert_int_equal(count, 3);
  assert_ptr_equal(nodes[0], a);
  assert_ptr_equal(nodes[2], c);
  assert_null(nodes[4]);
  count = 1;  // no more than there is room for
  OK(cuGraphGetRootNodes(graph, nodes, &count));
  assert_int_equal(count, 1);
  assert_ptr_equal(nodes[0], a);
  OK(cuGraphGetRootNodes(graph, nullptr, &count));
  assert_int_equal(count, 2);
  CUgraphNode from[2], to[2];
  count = 2;
  OK(cuGraphGetEdges(graph, from, to, &count));
  assert_int_equal(count, 2);
  assert_ptr_equal(from[1], b);
  assert_ptr_equal(to[1], c);
  OK(cuGraphNodeGetDependencies(c, nodes, &count));
  assert_int_equal(count, 2);
  OK(cuGraphNodeGetDependentNodes(a, nodes, &count));
  assert_int_equal(count, 1);
  assert_ptr_equal(nodes[0], c);

  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies(graph, &a, &c, 1));  // there already
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies(graph, &a, &a, 1));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies(graph, &a, &stranger, 1));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies(graph, nullptr, &c, 1));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphRemoveDependencies(graph, &a, &b, 1));
  OK(cuGraphAddDependencies(graph, nullptr, nullptr, 0));
  // All or nothing.
  CUgraphNode starts[] = {a, a}, ends[] = {b, c};
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies(graph, starts, ends, 2));
  assert_int_equal(count_edges(graph), 2);
  OK(cuGraphAddDependencies(graph, &a, &b, 1));
  assert_int_equal(count_edges(graph), 3);
  OK(cuGraphRemoveDependencies(graph, &a, &c, 1));
  OK(cuGraphDestroyNode(b));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphDestroyNode(b));
  assert_int_equal(count_edges(graph), 0);
  assert_int_equal(count_nodes(graph), 2);
  CUgraphNodeType type;
  OK(cuGraphNodeGetType(c, &type));
  assert_int_equal(type, CU_GRAPH_NODE_TYPE_EMPTY);
  CUgraphNode node;
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddEmptyNode(&node, graph, &stranger, 1));
  CUgraphNode twice[] = {a, a};
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddEmptyNode(&node, graph, twice, 2));
  assert_int_equal(count_nodes(graph), 2);
  OK(cuGraphDestroy(graph));
  OK(cuGraphDestroy(other));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(graph));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphNodeGetType(c, &type));
}

void cycles_are_refused(void **) {
  CUgraph graph = new_graph();
  CUgraphNode a = empty(graph), b = empty(graph, {a}), c = empty(graph, {b});
  OK(cuGraphAddDependencies(graph, &c, &a, 1));
  CUgraphExec exec;
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithFlags(&exec, graph, 0));
  CUDA_GRAPH_INSTANTIATE_PARAMS params{};
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithParams(&exec, graph, &params));
  assert_int_equal(params.result_out, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
  OK(cuGraphDestroy(graph));
}

void ports_and_types_of_edges(void **) {
  CUmodule module = load_kernels();
  Buffer buffer;
  CUfunction function = kernel(module, "store");
  CUgraph graph = new_graph();
  CUgraphNode a = store(graph, function, buffer.address, 1),
              b = store(graph, function, buffer.address + 4, 2), c = empty(graph);
  CUgraphEdgeData programmatic{1, 0, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC, {}}, odd{9, 0, 0, {}};
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies_v2(graph, &a, &c, &programmatic, 1));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies_v2(graph, &a, &b, &odd, 1));
  OK(cuGraphAddDependencies_v2(graph, &a, &b, &programmatic, 1));
  CUgraphNode from, to;
  CUgraphEdgeData data;
  size_t count = 1;
  EXPECT(CUDA_ERROR_LOSSY_QUERY, cuGraphGetEdges(graph, &from, &to, &count));
  EXPECT(CUDA_ERROR_LOSSY_QUERY, cuGraphNodeGetDependencies(b, &from, &count));
  OK(cuGraphGetEdges_v2(graph, &from, &to, &data, &count));
  assert_int_equal(data.type, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);
  OK(cuGraphNodeGetDependencies_v2(b, &from, &data, &count));
  assert_int_equal(data.from_port, 1);
  CUgraphExec exec = instantiate(graph);
  OK(cuGraphLaunch(exec, nullptr));
  OK(cuCtxSynchronize());
  assert_int_equal(buffer.at(1), 2);
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphRemoveDependencies(graph, &a, &b, 1));
  OK(cuGraphRemoveDependencies_v2(graph, &a, &b, &programmatic, 1));
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
}

void clones_are_separate(void **) {
  Buffer buffer;
  CUgraph graph = new_graph(), clone;
  CUgraphNode a = set(graph, buffer.address, 1, 1), b = empty(graph, {a}), found;
  OK(cuGraphClone(&clone, graph));
  OK(cuGraphNodeFindInClone(&found, b, clone));
  CUgraphNode before;
  size_t count = 1;
  OK(cuGraphNodeGetDependencies(found, &before, &count));
  CUgraphNode a_clone;
  OK(cuGraphNodeFindInClone(&a_clone, a, clone));
  assert_ptr_equal(before, a_clone);
  OK(cuGraphDestroyNode(found));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphNodeFindInClone(&found, b, clone));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphNodeFindInClone(&found, b, graph));
  assert_int_equal(count_nodes(graph), 2);
  CUDA_MEMSET_NODE_PARAMS params{buffer.address, 0, 9, 4, 1, 1};
  OK(cuGraphMemsetNodeSetParams(a_clone, &params));
  OK(cuGraphMemsetNodeGetParams(a, &params));
  assert_int_equal(params.value, 1);
  OK(cuGraphDestroy(graph));
  CUgraphExec exec = instantiate(clone);
  OK(cuGraphLaunch(exec, nullptr));
  OK(cuCtxSynchronize());
  assert_int_equal(buffer.at(0), 9);
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(clone));
}

void graphs_in_graphs(void **) {
  Buffer buffer;
  CUgraph inner = new_graph(), outer = new_graph(), embedded;
  CUgraphNode one = set(inner, buffer.address, 1, 1);
  set(inner, buffer.address + 4, 2, 1, {one});
  set(inner, buffer.address + 8, 3, 1);
  CUgraphNode before = set(outer, buffer.address, 50, 8), child;
  OK(cuGraphAddChildGraphNode(&child, outer, &before, 1, inner));
  // It is a copy: what happens to the graph it was made from does not matter.
  OK(cuGraphDestroy(inner));
  OK(cuGraphChildGraphNodeGetGraph(child, &embedded));
  assert_int_equal(count_nodes(embedded), 3);
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(embedded));
  CUgraphNode roots[2];
  size_t count = 2;
  OK(cuGraphGetRootNodes(embedded, roots, &count));
  set(embedded, buffer.address + 12, 4, 1, {roots[0]});
  set(outer, buffer.address + 16, 5, 1, {child});
  CUgraphExec exec = instantiate(outer);
  OK(cuGraphLaunch(exec, nullptr));
  OK(cuCtxSynchronize());
  for (uint32_t i = 0; i < 5; i++) assert_int_equal(buffer.at(i), i + 1);
  assert_int_equal(buffer.at(5), 50);
  // A node of the embedded graph can be changed in the executable one.
  CUDA_MEMSET_NODE_PARAMS params{buffer.address, 0, 71, 4, 1, 1};
  OK(cuGraphExecMemsetNodeSetParams(exec, roots[0], &params, nullptr));
  OK(cuGraphLaunch(exec, nullptr));
  OK(cuCtxSynchronize());
  assert_int_equal(buffer.at(0), 71);
  // An empty one, and one in itself.
  CUgraph nothing = new_graph();
  OK(cuGraphAddChildGraphNode(&child, outer, nullptr, 0, nothing));
  OK(cuGraphAddChildGraphNode(&child, nothing, nullptr, 0, nothing));
  CUresult result = CUDA_SUCCESS;
  for (int i = 0; i < 10 && result == CUDA_SUCCESS; i++) {
    CUgraph deeper = new_graph();
    for (CUgraph at = deeper; result == CUDA_SUCCESS && i < 100; i++) {
      result = cuGraphAddChildGraphNode(&child, at, nullptr, 0, nothing);
      if (result == CUDA_SUCCESS) OK(cuGraphChildGraphNodeGetGraph(child, &at));
    }
  }
  assert_int_equal(result, CUDA_ERROR_NOT_SUPPORTED);  // too deep
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(outer));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphGetNodes(embedded, nullptr, &count));
}

void parameters_can_be_asked_and_set(void **) {
  CUmodule module = load_kernels();
  Buffer buffer;
  CUfunction function = kernel(module, "store");
  CUgraph graph = new_graph();
  CUgraphNode node = store(graph, function, buffer.address, 11);
  CUDA_KERNEL_NODE_PARAMS params;
  OK(cuGraphKernelNodeGetParams_v2(node, &params));
  assert_ptr_equal(params.func, function);
  assert_int_equal(params.gridDimX, 1);
  assert_int_equal(*static_cast<uint32_t *>(params.kernelParams[1]), 11);
  uint32_t value = 12;
  params.kernelParams[1] = &value;
  OK(cuGraphKernelNodeSetParams_v2(node, &params));
  OK(cuGraphKernelNodeGetParams_v2(node, &params));
  assert_int_equal(*static_cast<uint32_t *>(params.kernelParams[1]), 12);
  params.blockDimX = 4096;
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphKernelNodeSetParams_v2(node, &params));
  params.func = nullptr;
  EXPECT(CUDA_ERROR_INVALID_HANDLE, cuGraphKernelNodeSetParams_v2(node, &params));
  CUDA_MEMSET_NODE_PARAMS set_params;
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphMemsetNodeGetParams(node, &set_params));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphKernelNodeGetParams_v2(node, nullptr));

  CUgraphNode fill = set(graph, buffer.address + 4, 3, 2, {node});
  OK(cuGraphMemsetNodeGetParams(fill, &set_params));
  assert_int_equal(set_params.width, 2);
  set_params.elementSize = 3;
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphMemsetNodeSetParams(fill, &set_params));
  uint32_t back = 0;
  CUDA_MEMCPY3D copy = to_host(&back, buffer.address, 4), told;
  CUgraphNode copy_node;
  OK(cuGraphAddMemcpyNode(&copy_node, graph, &node, 1, &copy, nullptr));
  OK(cuGraphMemcpyNodeGetParams(copy_node, &told));
  assert_memory_equal(&copy, &told, sizeof copy);
  copy.srcDevice = 0;
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphMemcpyNodeSetParams(copy_node, &copy));
  int calls = 0;
  CUgraphNode host_node = host(
      graph, [](void *number) { ++*static_cast<int *>(number); }, &calls);
  CUDA_HOST_NODE_PARAMS host_params;
  OK(cuGraphHostNodeGetParams(host_node, &host_params));
  assert_ptr_equal(host_params.userData, &calls);
  host_params.fn = nullptr;
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphHostNodeSetParams(host_node, &host_params));
  CUgraphExec exec = instantiate(graph);
  OK(cuGraphLaunch(exec, nullptr));
  OK(cuCtxSynchronize());
  assert_int_equal(back, 12);
  assert_int_equal(calls, 1);
  assert_int_equal(buffer.at(2), 3);
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
}

void attributes_of_kernel_nodes(void **) {
  CUmodule module = load_kernels();
  Buffer buffer;
  CUgraph graph = new_graph();
  CUgraphNode a = store(graph, kernel(module, "store"), buffer.address, 1),
              b = store(graph, kernel(module, "store"), buffer.address, 2), e = empty(graph);
  CUkernelNodeAttrValue value{};
  OK(cuGraphKernelNodeGetAttribute(a, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
  assert_int_equal(value.priority, 0);
  value.priority = -3;
  OK(cuGraphKernelNodeSetAttribute(a, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
  value.cooperative = 1;
  OK(cuGraphKernelNodeSetAttribute(a, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value));
  OK(cuGraphKernelNodeCopyAttributes(b, a));
  memset(&value, 0, sizeof value);
  OK(cuGraphKernelNodeGetAttribute(b, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
  assert_int_equal(value.priority, -3);
  OK(cuGraphKernelNodeGetAttribute(b, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value));
  assert_int_equal(value.cooperative, 1);
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuGraphKernelNodeGetAttribute(b, static_cast<CUlaunchAttributeID>(99), &value));
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuGraphKernelNodeGetAttribute(e, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
  OK(cuGraphDestroy(graph));
}

void the_call_for_all_types(void **) {
  CUmodule module = load_kernels();
  Buffer buffer;
  CUgraph graph = new_graph();
  CUgraphNode node, next;
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_KERNEL;
  uint32_t value = 21;
  void *values[] = {&buffer.address, &value};
  params.kernel.func = kernel(module, "store");
  params.kernel.gridDimX = params.kernel.gridDimY = params.kernel.gridDimZ = 1;
  params.kernel.blockDimX = params.kernel.blockDimY = params.kernel.blockDimZ = 1;
  params.kernel.kernelParams = values;
  OK(cuGraphAddNode_v2(&node, graph, nullptr, nullptr, 0, &params));
  value = 22;
  OK(cuGraphNodeSetParams(node, &params));
  params.reserved2 = 1;
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddNode_v2(&next, graph, nullptr, nullptr, 0, &params));
  CUgraphNodeParams fill{};
  fill.type = CU_GRAPH_NODE_TYPE_MEMSET;
  fill.memset = {buffer.address + 4, 0, 5, 4, 1, 1, nullptr};
  OK(cuGraphAddNode(&next, graph, &node, 1, &fill));
  CUgraphNodeParams semaphores{};
  semaphores.type = CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL;
  EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuGraphAddNode(&node, graph, nullptr, 0, &semaphores));
  CUgraphNodeParams odd{};
  odd.type = static_cast<CUgraphNodeType>(77);
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddNode(&node, graph, nullptr, 0, &odd));
  CUgraph other = new_graph();
  CUgraphNode moved;
  set(other, buffer.address + 8, 6, 1);
  CUgraphNodeParams child{};
  child.type = CU_GRAPH_NODE_TYPE_GRAPH;
  child.graph = {other, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE};
  OK(cuGraphAddNode(&moved, graph, &next, 1, &child));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(other));  // the node's now
  CUgraphExec exec = instantiate(graph);
  OK(cuGraphLaunch(exec, nullptr));
  OK(cuCtxSynchronize());
  assert_int_equal(buffer.at(0), 22);
  assert_int_equal(buffer.at(1), 5);
  assert_int_equal(buffer.at(2), 6);
  fill.memset.value = 8;
  OK(cuGraphExecNodeSetParams(exec, next, &fill));
  OK(cuGraphLaunch(exec, nullptr));
  OK(cuCtxSynchronize());
  assert_int_equal(buffer.at(1), 8);
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
}

void instantiation_checks_its_flags(void **) {
  CUgraph graph = new_graph();
  CUgraphExec exec;
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithFlags(&exec, graph, 1 << 20));
  EXPECT(CUDA_ERROR_NOT_SUPPORTED,
         cuGraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithFlags(nullptr, graph, 0));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithFlags(&exec, nullptr, 0));
  char text[10] = "abc";
  CUgraphNode culprit = reinterpret_cast<CUgraphNode>(1);
  OK(cuGraphInstantiate_v2(&exec, graph, &culprit, text, sizeof text));
  assert_null(culprit);
  assert_int_equal(text[0], 0);
  OK(cuGraphLaunch(exec, nullptr));  // of nothing
  OK(cuGraphExecDestroy(exec));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphExecDestroy(exec));
  CUDA_GRAPH_INSTANTIATE_PARAMS params{};
  params.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  params.hUploadStream = reinterpret_cast<CUstream>(0xABCDEF0);
  EXPECT(CUDA_ERROR_INVALID_HANDLE, cuGraphInstantiateWithParams(&exec, graph, &params));
  params.hUploadStream = new_stream();
  OK(cuGraphInstantiateWithParams(&exec, graph, &params));
  assert_int_equal(params.result_out, CUDA_GRAPH_INSTANTIATE_SUCCESS);
  cuuint64_t flags;
  OK(cuGraphExecGetFlags(exec, &flags));
  assert_int_equal(flags, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
}

void executable_graphs_take_new_parameters(void **) {
  CUmodule module = load_kernels();
  Buffer buffer;
  CUfunction function = kernel(module, "store");
  CUgraph graph = new_graph();
  CUgraphNode a = store(graph, function, buffer.address, 1),
              b = set(graph, buffer.address + 4, 2, 1), c = empty(graph, {a, b});
  CUgraphExec exec = instantiate(graph);
  uint32_t value = 31;
  void *values[] = {&buffer.address, &value};
  CUDA_KERNEL_NODE_PARAMS params = store_params(function, values);
  OK(cuGraphExecKernelNodeSetParams_v2(exec, a, &params));
  CUDA_MEMSET_NODE_PARAMS fill{buffer.address + 4, 0, 32, 4, 1, 1};
  OK(cuGraphExecMemsetNodeSetParams(exec, b, &fill, nullptr));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphExecMemsetNodeSetParams(exec, a, &fill, nullptr));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphExecMemsetNodeSetParams(exec, c, &fill, nullptr));
  fill.height = 2;
  fill.pitch = 16;
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphExecMemsetNodeSetParams(exec, b, &fill, nullptr));
  OK(cuGraphLaunch(exec, nullptr));
  OK(cuCtxSynchronize());
  assert_int_equal(buffer.at(0), 31);
  assert_int_equal(buffer.at(1), 32);
  // The graph itself has what it had.
  CUDA_MEMSET_NODE_PARAMS told;
  OK(cuGraphMemsetNodeGetParams(b, &told));
  assert_int_equal(told.value, 2);
  // Parts of it can be switched off.
  unsigned enabled;
  OK(cuGraphNodeGetEnabled(exec, a, &enabled));
  assert_int_equal(enabled, 1);
  OK(cuGraphNodeSetEnabled(exec, a, 0));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphNodeSetEnabled(exec, c, 0));
  OK(cuMemsetD32_v2(buffer.address, 0, 2));
  OK(cuGraphLaunch(exec, nullptr));
  OK(cuCtxSynchronize());
  assert_int_equal(buffer.at(0), 0);
  assert_int_equal(buffer.at(1), 32);
  OK(cuGraphNodeSetEnabled(exec, a, 1));
  OK(cuGraphNodeGetEnabled(exec, a, &enabled));
  assert_int_equal(enabled, 1);
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
}

// What an executable graph is updated from.
CUgraph sample(CUdeviceptr address, uint32_t value, bool another_edge = false) {
  CUgraph graph = new_graph();
  CUgraphNode a = set(graph, address, value, 1), b = set(graph, address + 4, value + 1, 1);
  CUgraphNode c = set(graph, address + 8, value + 2, 1, {a, b});
  if (another_edge) OK(cuGraphAddDependencies(graph, &a, &b, 1));
  (void)c;
  return graph;
}

void updates_after_another_graph(void **) {
  Buffer buffer;
  CUgraph graph = sample(buffer.address, 10);
  CUgraphExec exec = instantiate(graph);
  CUgraph next = sample(buffer.address, 20);
  CUgraphExecUpdateResultInfo info;
  OK(cuGraphExecUpdate_v2(exec, next, &info));
  assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
  OK(cuGraphLaunch(exec, nullptr));
  OK(cuCtxSynchronize());
  for (uint32_t i = 0; i < 3; i++) assert_int_equal(buffer.at(i), 20 + i);

  CUgraph more = sample(buffer.address, 30);
  empty(more);
  EXPECT(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate_v2(exec, more, &info));
  assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  assert_null(info.errorNode);
  CUgraph edge = sample(buffer.address, 30, true);
  EXPECT(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate_v2(exec, edge, &info));
  assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  assert_non_null(info.errorNode);
  CUgraph typed = new_graph();
  CUgraphNode a = set(typed, buffer.address, 1, 1), b = empty(typed);
  set(typed, buffer.address + 8, 1, 1, {a, b});
  CUgraphNode culprit;
  CUgraphExecUpdateResult why;
  EXPECT(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate(exec, typed, &culprit, &why));
  assert_int_equal(why, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
  assert_ptr_equal(culprit, b);
  CUgraph wide = sample(buffer.address, 40);
  CUgraphNode nodes[3];
  size_t count = 3;
  OK(cuGraphGetNodes(wide, nodes, &count));
  CUDA_MEMSET_NODE_PARAMS rows{buffer.address, 64, 1, 4, 1, 2};
  OK(cuGraphMemsetNodeSetParams(nodes[1], &rows));
  EXPECT(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate_v2(exec, wide, &info));
  assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
  assert_ptr_equal(info.errorNode, nodes[1]);
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphExecUpdate_v2(exec, nullptr, &info));
  // It is as it was.
  OK(cuMemsetD32_v2(buffer.address, 0, 3));
  OK(cuGraphLaunch(exec, nullptr));
  OK(cuCtxSynchronize());
  for (uint32_t i = 0; i < 3; i++) assert_int_equal(buffer.at(i), 20 + i);
  for (CUgraph each : {graph, next, more, edge, typed, wide}) OK(cuGraphDestroy(each));
  OK(cuGraphExecDestroy(exec));
}

void events_in_graphs(void **) {
  Buffer buffer;
  CUevent done, go;
  OK(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
  OK(cuEventCreate(&go, CU_EVENT_DISABLE_TIMING));
  CUgraph graph = new_graph();
  CUgraphNode waits, fills, records;
  OK(cuGraphAddEventWaitNode(&waits, graph, nullptr, 0, go));
  fills = set(graph, buffer.address, 3, 1, {waits});
  OK(cuGraphAddEventRecordNode(&records, graph, &fills, 1, done));
  CUevent told;
  OK(cuGraphEventRecordNodeGetEvent(records, &told));
  assert_ptr_equal(told, done);
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphEventRecordNodeGetEvent(waits, &told));
  CUgraphExec exec = instantiate(graph);
  CUstream held = new_stream(), stream = new_stream(), third = new_stream();
  Gate gate;
  gate.hold(held);
  OK(cuEventRecord(go, held));
  OK(cuGraphLaunch(exec, stream));
  EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(done));
  OK(cuStreamWaitEvent(third, done, 0));
  OK(cuMemsetD32Async(buffer.address + 4, 4, 1, third));
  assert_int_equal(buffer.at(0), 0);
  gate.open();
  OK(cuStreamSynchronize(third));
  assert_int_equal(buffer.at(0), 3);
  OK(cuEventQuery(done));
  // Another event in the executable graph.
  CUevent other;
  OK(cuEventCreate(&other, 0));
  OK(cuGraphExecEventRecordNodeSetEvent(exec, records, other));
  OK(cuGraphExecEventWaitNodeSetEvent(exec, waits, other));  // never recorded: no wait
  OK(cuGraphLaunch(exec, stream));
  OK(cuEventSynchronize(other));
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
}

void faults_in_graphs_poison_the_context(void **) {
  CUmodule module = load_kernels();
  CUgraph graph = new_graph();
  CUgraphNode node = store(graph, kernel(module, "store"), 0x10, 1);
  Buffer buffer;
  set(graph, buffer.address, 1, 1, {node});
  CUgraphExec exec = instantiate(graph);
  OK(cuGraphLaunch(exec, nullptr));
  EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(nullptr));
  EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuGraphLaunch(exec, nullptr));
  assert_int_equal(buffer.at(0), 0);
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
}

void copies_to_freed_memory_are_no_crash(void **) {
  CUdeviceptr address;
  OK(cuMemAlloc_v2(&address, 64 << 20));
  CUgraph graph = new_graph();
  set(graph, address, 1, 1024);
  CUgraphExec exec = instantiate(graph);
  OK(cuGraphLaunch(exec, nullptr));
  OK(cuMemFree_v2(address));
  OK(cuGraphLaunch(exec, nullptr));
  EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(nullptr));
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
}

std::atomic<int> destroyed;
void count_destroyed(void *amount) { destroyed += *static_cast<int *>(amount); }
void wait_destroyed(int expected) {
  while (destroyed != expected) std::this_thread::yield();
}

void user_objects_live_as_long_as_they_are_held(void **) {
  static int one = 1, ten = 10;
  destroyed = 0;
  CUuserObject object;
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuUserObjectCreate(&object, &one, count_destroyed, 1, 0));
  OK(cuUserObjectCreate(&object, &one, count_destroyed, 2, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  OK(cuUserObjectRetain(object, 1));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuUserObjectRelease(object, 4));
  OK(cuUserObjectRelease(object, 2));
  assert_int_equal(destroyed, 0);
  OK(cuUserObjectRelease(object, 1));
  wait_destroyed(1);
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuUserObjectRelease(object, 1));

  // The graph's reference goes over to what is made of it, and stays while it runs.
  CUgraph graph = new_graph();
  OK(cuUserObjectCreate(&object, &ten, count_destroyed, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  OK(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  CUgraphExec exec = instantiate(graph);
  OK(cuGraphDestroy(graph));
  CUstream stream = new_stream();
  Gate gate;
  gate.hold(stream);
  OK(cuGraphLaunch(exec, stream));
  OK(cuGraphExecDestroy(exec));
  assert_int_equal(destroyed, 1);
  gate.open();
  wait_destroyed(11);

  graph = new_graph();
  OK(cuUserObjectCreate(&object, &one, count_destroyed, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  OK(cuGraphRetainUserObject(graph, object, 2, 0));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphReleaseUserObject(graph, object, 3));
  OK(cuGraphReleaseUserObject(graph, object, 1));
  OK(cuUserObjectRelease(object, 1));
  OK(cuGraphDestroy(graph));
  wait_destroyed(12);
}

void a_thousand_nodes(void **) {
  CUmodule module = load_kernels();
  Buffer buffer(1000 * 4);
  CUfunction function = kernel(module, "store");
  CUgraph graph = new_graph();
  CUgraphNode last = empty(graph);
  for (uint32_t i = 0; i < 1000; i++) {
    CUgraphNode node = store(graph, function, buffer.address + 4 * i, i, {last});
    if (i % 10 == 9) last = node;
  }
  CUgraphExec exec = instantiate(graph);
  for (int round = 0; round < 5; round++) OK(cuGraphLaunch(exec, nullptr));
  OK(cuCtxSynchronize());
  for (uint32_t i = 0; i < 1000; i++) assert_int_equal(buffer.at(i), i);
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
}

void threads(void **state) {
  std::vector<std::thread> all;
  std::atomic<int> wrong{0};
  Buffer buffer;
  CUgraph shared = new_graph();
  set(shared, buffer.address, 1, 64);
  CUgraphExec exec = instantiate(shared);
  for (int number = 0; number < 6; number++)
    all.emplace_back([&, number] {
      CUstream stream;
      if (cuCtxSetCurrent(static_cast<CUcontext>(*state)) || cuStreamCreate(&stream, number % 2)) {
        wrong++;
        return;
      }
      for (int i = 0; i < 30; i++) {
        CUgraph mine;
        CUgraphNode node, next;
        CUgraphExec made;
        if (cuGraphClone(&mine, shared) || cuGraphAddEmptyNode(&node, mine, nullptr, 0) ||
            cuGraphAddEmptyNode(&next, shared, nullptr, 0) || cuGraphDestroyNode(next) ||
            cuGraphInstantiateWithFlags(&made, mine, 0) || cuGraphLaunch(made, stream) ||
            cuGraphLaunch(exec, stream) || cuGraphExecDestroy(made) || cuGraphDestroy(mine))
          wrong++;
      }
      if (cuStreamSynchronize(stream)) wrong++;
    });
  for (std::thread &thread : all) thread.join();
  assert_int_equal(wrong, 0);
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(shared));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      TEST(nodes_run_in_the_order_they_declare),
      TEST(a_launch_has_its_place_in_the_stream),
      TEST(branches_run_beside_each_other),
      TEST(edges_can_be_asked_added_and_removed),
      TEST(cycles_are_refused),
      TEST(ports_and_types_of_edges),
      TEST(clones_are_separate),
      TEST(graphs_in_graphs),
      TEST(parameters_can_be_asked_and_set),
      TEST(attributes_of_kernel_nodes),
      TEST(the_call_for_all_types),
      TEST(instantiation_checks_its_flags),
      TEST(executable_graphs_take_new_parameters),
      TEST(updates_after_another_graph),
      TEST(events_in_graphs),
      TEST(faults_in_graphs_poison_the_context),
      TEST(copies_to_freed_memory_are_no_crash),
      TEST(user_objects_live_as_long_as_they_are_held),
      TEST(a_thousand_nodes),
      TEST(threads),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
