// Graphs that allocate and free, and what runs under conditions.
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "support.h"

namespace {

constexpr size_t kMany = 64 << 20;

CUgraph new_graph() {
  CUgraph graph;
  OK(cuGraphCreate(&graph, 0));
  return graph;
}

CUstream new_stream() {
  CUstream stream;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

CUgraphExec instantiate(CUgraph graph, unsigned long long flags = 0) {
  CUgraphExec exec;
  OK(cuGraphInstantiateWithFlags(&exec, graph, flags));
  return exec;
}

void launch(CUgraphExec exec) {
  OK(cuGraphLaunch(exec, nullptr));
  OK(cuCtxSynchronize());
}

using Before = std::vector<CUgraphNode>;

CUDA_MEM_ALLOC_NODE_PARAMS allocation(size_t bytes) {
  CUDA_MEM_ALLOC_NODE_PARAMS params{};
  params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  params.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  params.bytesize = bytes;
  return params;
}

CUgraphNode allocate(CUgraph graph, size_t bytes, CUdeviceptr *address, const Before &before = {}) {
  CUDA_MEM_ALLOC_NODE_PARAMS params = allocation(bytes);
  CUgraphNode node;
  OK(cuGraphAddMemAllocNode(&node, graph, before.data(), before.size(), &params));
  *address = params.dptr;
  return node;
}

CUgraphNode release(CUgraph graph, CUdeviceptr address, const Before &before = {}) {
  CUgraphNode node;
  OK(cuGraphAddMemFreeNode(&node, graph, before.data(), before.size(), address));
  return node;
}

CUgraphNode set(CUgraph graph, CUdeviceptr at, uint32_t value, const Before &before = {}) {
  CUDA_MEMSET_NODE_PARAMS params{at, 0, value, 4, 4, 1};
  CUgraphNode node;
  OK(cuGraphAddMemsetNode(&node, graph, before.data(), before.size(), &params, nullptr));
  return node;
}

CUgraphNode read(CUgraph graph, CUdeviceptr from, uint32_t *to, const Before &before = {}) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = to;
  copy.WidthInBytes = 4;
  copy.Height = copy.Depth = 1;
  CUgraphNode node;
  OK(cuGraphAddMemcpyNode(&node, graph, before.data(), before.size(), &copy, nullptr));
  return node;
}

cuuint64_t used() {
  cuuint64_t bytes;
  OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &bytes));
  return bytes;
}

void memory_comes_with_a_launch(void **) {
  uint32_t back = 0;
  CUgraph graph = new_graph();
  CUdeviceptr address;
  OK(cuDeviceGraphMemTrim(0));
  cuuint64_t before = used();
  CUgraphNode a = allocate(graph, kMany, &address);
  assert_true(address != 0);
  CUgraphNode b = set(graph, address + kMany - 16, 7, {a});
  CUgraphNode c = read(graph, address + kMany - 4, &back, {b});
  release(graph, address, {c});
  CUDA_MEM_ALLOC_NODE_PARAMS told;
  OK(cuGraphMemAllocNodeGetParams(a, &told));
  assert_true(told.dptr == address && told.bytesize == kMany);
  assert_int_equal(used(), before);
  // No memory is behind the address yet.
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD8_v2(address, 0, 10));
  CUgraphExec exec = instantiate(graph);
  for (int round = 0; round < 3; round++) {
    back = 0;
    launch(exec);
    assert_int_equal(back, 7);
    assert_int_equal(used(), before + kMany);
  }
  OK(cuDeviceGraphMemTrim(0));
  assert_int_equal(used(), before);
  launch(exec);
  assert_int_equal(back, 7);
  cuuint64_t high, zero = 0;
  OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &high));
  assert_true(high >= before + kMany);
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &high));
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &zero));
  OK(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &zero));
  EXPECT(CUDA_ERROR_INVALID_DEVICE, cuDeviceGraphMemTrim(99));
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
  assert_int_equal(used(), before);
}

void graphs_that_allocate_are_bound(void **) {
  CUgraph graph = new_graph(), other = new_graph(), clone;
  CUdeviceptr address;
  CUgraphNode node, a = allocate(graph, 1000, &address);
  CUgraphNode f = release(graph, address, {a});
  CUgraphExec exec = instantiate(graph), second;
  EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuGraphInstantiateWithFlags(&second, graph, 0));
  EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuGraphClone(&clone, graph));
  EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuGraphAddChildGraphNode(&node, other, nullptr, 0, graph));
  EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuGraphDestroyNode(a));
  EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuGraphRemoveDependencies(graph, &a, &f, 1));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddMemFreeNode(&node, graph, nullptr, 0, address));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddMemFreeNode(&node, graph, nullptr, 0, 12345));
  CUDA_MEM_ALLOC_NODE_PARAMS params = allocation(0);
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &params));
  params = allocation(100);
  params.poolProps.location.id = 99;
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &params));
  params = allocation(100);
  params.accessDescCount = 1;
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &params));
  params = allocation(SIZE_MAX - 5);
  EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &params));
  OK(cuGraphExecDestroy(exec));
  exec = instantiate(graph);  // there is none any more
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
  OK(cuGraphDestroy(other));
}

void memory_that_a_launch_leaves(void **) {
  CUgraph graph = new_graph(), freeing = new_graph();
  CUdeviceptr address;
  CUgraphNode a = allocate(graph, kMany, &address);
  set(graph, address, 3, {a});
  CUgraphExec exec = instantiate(graph);
  launch(exec);
  uint32_t back = 0;
  OK(cuMemcpyDtoH_v2(&back, address, 4));
  assert_int_equal(back, 3);
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(exec, nullptr));  // it is still there
  // Freed in the order of a stream ...
  OK(cuMemFreeAsync(address, nullptr));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(address, nullptr));
  launch(exec);
  // ... as any memory ...
  OK(cuMemFree_v2(address));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(address));
  launch(exec);
  // ... and by another graph.
  release(freeing, address);
  CUgraphExec free_exec = instantiate(freeing);
  launch(free_exec);
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(free_exec, nullptr));
  launch(exec);
  // It outlives its graph.
  OK(cuGraphExecDestroy(free_exec));
  OK(cuGraphDestroy(freeing));
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
  OK(cuMemcpyDtoH_v2(&back, address, 4));
  assert_int_equal(back, 3);
  OK(cuMemFreeAsync(address, nullptr));
  OK(cuCtxSynchronize());
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(&back, address, 4));
}

void freed_before_each_launch(void **) {
  CUgraph graph = new_graph();
  CUdeviceptr address;
  allocate(graph, kMany, &address);
  CUgraphExec exec = instantiate(graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
  for (int i = 0; i < 3; i++) launch(exec);
  OK(cuMemFree_v2(address));
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
}

void what_is_freed_is_taken_again(void **) {
  CUgraph graph = new_graph();
  CUdeviceptr first, again, beside;
  CUgraphNode a = allocate(graph, kMany, &first), f = release(graph, first, {a});
  CUgraphNode b = allocate(graph, kMany, &again, {f});
  allocate(graph, kMany, &beside);
  assert_true(first == again);   // behind the free
  assert_true(first != beside);  // not behind it
  release(graph, again, {b});
  OK(cuGraphDestroy(graph));
  // More than the device has, one after the other.
  size_t free_bytes, total;
  OK(cuMemGetInfo_v2(&free_bytes, &total));
  size_t half = total / 2;
  CUgraph one = new_graph(), other = new_graph(), third = new_graph();
  CUdeviceptr x, y, z;
  a = allocate(one, half, &x);
  release(one, x, {a});
  a = allocate(other, half, &y);
  release(other, y, {a});
  a = allocate(third, half, &z);
  release(third, z, {a});
  CUgraphExec execs[] = {instantiate(one), instantiate(other), instantiate(third)};
  for (CUgraphExec exec : execs) launch(exec);
  for (CUgraphExec exec : execs) OK(cuGraphExecDestroy(exec));
  for (CUgraph each : {one, other, third}) OK(cuGraphDestroy(each));
  // More at once: out of memory, and nothing is the worse for it.
  CUgraph large = new_graph();
  CUgraphNode p = allocate(large, half, &x), q = allocate(large, half, &y, {p}),
              r = allocate(large, half, &z, {q});
  release(large, x, {r});
  release(large, y, {r});
  release(large, z, {r});
  CUgraphExec exec = instantiate(large);
  EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuGraphLaunch(exec, nullptr));
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(large));
}

void captured_allocations(void **) {
  CUstream stream = new_stream();
  CUgraph graph;
  CUdeviceptr address, plain;
  uint32_t back = 0;
  OK(cuMemAlloc_v2(&plain, 100));
  OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(cuMemAllocAsync(&address, kMany, stream));
  OK(cuMemsetD32Async(address, 17, 100, stream));
  OK(cuMemcpyDtoHAsync_v2(&back, address + 396, 4, stream));
  OK(cuMemFreeAsync(address, stream));
  OK(cuStreamEndCapture(stream, &graph));
  size_t count = 4;
  CUgraphNode nodes[4];
  CUgraphNodeType type;
  OK(cuGraphGetNodes(graph, nodes, &count));
  assert_int_equal(count, 4);
  OK(cuGraphNodeGetType(nodes[0], &type));
  assert_int_equal(type, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
  CUdeviceptr freed;
  OK(cuGraphMemFreeNodeGetParams(nodes[3], &freed));
  assert_true(freed == address);
  CUgraphExec exec = instantiate(graph);
  launch(exec);
  assert_int_equal(back, 17);
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
  // Only a graph's memory is freed in a graph.
  OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(plain, stream));
  EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
  OK(cuMemFree_v2(plain));
}

// Conditions -------------------------------------------------------------------------------------

// Sets a condition to (*counter += step) < limit, through the function that the runtime declares.
const char kDeciders[] = R"(
.version 8.0
.target sm_80
.address_size 64
.extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);
.visible .entry decide(.param .u64 counter, .param .u64 handle, .param .u32 limit)
{
  .reg .pred %p<2>;
  .reg .b32 %r<5>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [counter];
  ld.param.u64 %rd2, [handle];
  ld.param.u32 %r1, [limit];
  cvta.to.global.u64 %rd1, %rd1;
  ld.global.u32 %r2, [%rd1];
  add.u32 %r2, %r2, 1;
  st.global.u32 [%rd1], %r2;
  setp.lt.u32 %p1, %r2, %r1;
  selp.u32 %r3, 1, 0, %p1;
  {
  .param .b64 param0;
  st.param.b64 [param0+0], %rd2;
  .param .b32 param1;
  st.param.b32 [param1+0], %r3;
  call.uni cudaGraphSetConditional, (param0, param1);
  }
  ret;
}
)";

CUgraph body_of(CUgraph graph, CUgraphConditionalHandle handle, CUgraphConditionalNodeType type,
                unsigned size, const Before &before, CUgraphNode *node, CUgraph *bodies = nullptr) {
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  params.conditional.handle = handle;
  params.conditional.type = type;
  params.conditional.size = size;
  OK(cuGraphAddNode_v2(node, graph, before.data(), nullptr, before.size(), &params));
  for (unsigned i = 0; bodies && i < size; i++) bodies[i] = params.conditional.phGraph_out[i];
  return params.conditional.phGraph_out[0];
}

CUgraphNode decide(CUgraph graph, CUfunction function, CUdeviceptr counter,
                   CUgraphConditionalHandle handle, uint32_t limit, const Before &before = {}) {
  void *values[] = {&counter, &handle, &limit};
  CUDA_KERNEL_NODE_PARAMS params{};
  params.func = function;
  params.gridDimX = params.gridDimY = params.gridDimZ = 1;
  params.blockDimX = params.blockDimY = params.blockDimZ = 1;
  params.kernelParams = values;
  CUgraphNode node;
  OK(cuGraphAddKernelNode_v2(&node, graph, before.data(), before.size(), &params));
  return node;
}

struct Counters {
  CUdeviceptr address;
  Counters() {
    OK(cuMemAlloc_v2(&address, 64));
    OK(cuMemsetD8_v2(address, 0, 64));
    OK(cuCtxSynchronize());
  }
  ~Counters() { cuMemFree_v2(address); }
  uint32_t at(size_t i) const {
    uint32_t value;
    OK(cuMemcpyDtoH_v2(&value, address + 4 * i, 4));
    return value;
  }
};

void while_a_condition_holds(void **) {
  CUmodule module;
  OK(cuModuleLoadData(&module, kDeciders));
  CUfunction function;
  OK(cuModuleGetFunction(&function, module, "decide"));
  Counters counters;
  CUgraph graph = new_graph();
  CUgraphConditionalHandle handle;
  OK(cuGraphConditionalHandleCreate(&handle, graph, nullptr, 1, 1));
  CUgraphExec exec;
  CUDA_GRAPH_INSTANTIATE_PARAMS how{};
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithParams(&exec, graph, &how));
  assert_int_equal(how.result_out, CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED);
  CUgraphNode node, after;
  CUgraph body = body_of(graph, handle, CU_GRAPH_COND_TYPE_WHILE, 1, {}, &node);
  decide(body, function, counters.address, handle, 1000);
  after = set(graph, counters.address + 16, 9, {node});
  exec = instantiate(graph);
  launch(exec);
  assert_int_equal(counters.at(0), 1000);
  assert_int_equal(counters.at(4), 9);
  launch(exec);  // begins with 1 again: once through
  assert_int_equal(counters.at(0), 1001);
  (void)after;
  // One handle, one node.
  CUgraphNodeParams twice{};
  twice.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  twice.conditional = {handle, CU_GRAPH_COND_TYPE_IF, 1, nullptr, nullptr};
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddNode(&node, graph, nullptr, 0, &twice));
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
}

void either_one_or_the_other(void **) {
  CUmodule module;
  OK(cuModuleLoadData(&module, kDeciders));
  CUfunction function;
  OK(cuModuleGetFunction(&function, module, "decide"));
  Counters counters;
  CUgraph graph = new_graph(), bodies[2];
  CUgraphConditionalHandle handle, choice;
  OK(cuGraphConditionalHandleCreate(&handle, graph, nullptr, 0, 0));
  CUgraphNode node, first = decide(graph, function, counters.address, handle, 2);
  body_of(graph, handle, CU_GRAPH_COND_TYPE_IF, 2, {first}, &node, bodies);
  set(bodies[0], counters.address + 16, 5);
  set(bodies[1], counters.address + 16, 6);
  // A switch in the body.
  OK(cuGraphConditionalHandleCreate(&choice, graph, nullptr, 2, 1));
  CUgraph cases[3];
  body_of(bodies[1], choice, CU_GRAPH_COND_TYPE_SWITCH, 3, {}, &node, cases);
  set(cases[0], counters.address + 32, 1);
  set(cases[2], counters.address + 32, 3);
  CUgraphExec exec = instantiate(graph);
  launch(exec);
  assert_int_equal(counters.at(4), 5);
  assert_int_equal(counters.at(8), 0);
  launch(exec);
  assert_int_equal(counters.at(4), 6);
  assert_int_equal(counters.at(8), 3);
  OK(cuGraphExecDestroy(exec));
  // Not everything runs under a condition.
  CUgraphNode host;
  CUDA_HOST_NODE_PARAMS call{[](void *) {}, nullptr};
  OK(cuGraphAddHostNode(&host, cases[1], nullptr, 0, &call));
  CUDA_GRAPH_INSTANTIATE_PARAMS how{};
  EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuGraphInstantiateWithParams(&exec, graph, &how));
  assert_int_equal(how.result_out, CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED);
  assert_ptr_equal(how.hErrNode_out, host);
  OK(cuGraphDestroy(graph));
}

void loops_need_no_stack(void **) {
  // A body without a kernel ends before its start returns; a host thread ends the loop.
  CUgraph graph = new_graph();
  CUgraphConditionalHandle handle;
  OK(cuGraphConditionalHandleCreate(&handle, graph, nullptr, 1, 0));
  CUgraphNode node;
  CUgraph body = body_of(graph, handle, CU_GRAPH_COND_TYPE_WHILE, 1, {}, &node);
  Counters counters;
  CUdeviceptr at = counters.address;
  CUgraphNode one = set(body, at, 1);
  set(body, at + 16, 2, {one});
  CUgraphExec exec = instantiate(graph);
  CUstream stream = new_stream(), other = new_stream();
  Gate gate;
  gate.hold(stream);
  OK(cuGraphLaunch(exec, stream));
  gate.open();
  while (__atomic_load_n(reinterpret_cast<uint32_t *>(at) + 4, __ATOMIC_ACQUIRE) != 2) {
  }
  for (int i = 0; i < 10000; i++) std::this_thread::yield();  // it goes round and round
  OK(cuMemsetD32Async(handle, 0, 1, other));
  OK(cuStreamSynchronize(stream));
  OK(cuStreamSynchronize(other));
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
}

// Others -----------------------------------------------------------------------------------------

void values_in_graphs(void **) {
  Counters counters;
  CUstreamBatchMemOpParams entries[2]{};
  entries[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  entries[0].writeValue.address = counters.address;
  entries[0].writeValue.value = 44;
  entries[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  entries[1].waitValue.address = counters.address + 4;
  entries[1].waitValue.value = 5;
  entries[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  CUDA_BATCH_MEM_OP_NODE_PARAMS params{nullptr, 2, entries, 0}, told;
  CUgraph graph = new_graph();
  CUgraphNode node;
  OK(cuGraphAddBatchMemOpNode(&node, graph, nullptr, 0, &params));
  set(graph, counters.address + 16, 6, {node});
  OK(cuGraphBatchMemOpNodeGetParams(node, &told));
  assert_int_equal(told.count, 2);
  assert_memory_equal(told.paramArray, entries, sizeof entries);
  CUgraphExec exec = instantiate(graph);
  CUstream stream = new_stream();
  OK(cuGraphLaunch(exec, stream));
  EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
  __atomic_store_n(reinterpret_cast<uint32_t *>(counters.address) + 1, 5, __ATOMIC_RELEASE);
  OK(cuStreamSynchronize(stream));
  assert_int_equal(counters.at(0), 44);
  assert_int_equal(counters.at(4), 6);
  entries[0].writeValue.value = 45;
  OK(cuGraphExecBatchMemOpNodeSetParams(exec, node, &params));
  launch(exec);
  assert_int_equal(counters.at(0), 45);
  // Captured ones.
  OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(cuStreamWriteValue32_v2(stream, counters.address + 8, 46, 0));
  CUgraph captured;
  OK(cuStreamEndCapture(stream, &captured));
  CUgraphNode only;
  size_t count = 1;
  OK(cuGraphGetNodes(captured, &only, &count));
  OK(cuGraphBatchMemOpNodeGetParams(only, &told));
  assert_int_equal(told.paramArray[0].writeValue.value, 46);
  OK(cuGraphExecDestroy(exec));
  exec = instantiate(captured);
  launch(exec);
  assert_int_equal(counters.at(2), 46);
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(captured));
  OK(cuGraphDestroy(graph));
}

void printed(void **) {
  CUmodule module = load_kernels();
  CUgraph inner = new_graph(), graph = new_graph();
  Counters counters;
  set(inner, counters.address, 1);
  CUgraphNode child, kernel_node, first = set(graph, counters.address, 2);
  OK(cuGraphAddChildGraphNode(&child, graph, &first, 1, inner));
  CUDA_KERNEL_NODE_PARAMS params{};
  params.func = kernel(module, "nothing");
  params.gridDimX = params.gridDimY = params.gridDimZ = 3;
  params.blockDimX = params.blockDimY = params.blockDimZ = 1;
  OK(cuGraphAddKernelNode_v2(&kernel_node, graph, &child, 1, &params));
  char path[] = "/tmp/softdev-graph-XXXXXX";
  assert_true(mkstemp(path) >= 0);
  for (unsigned flags : {0u, unsigned{CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE}}) {
    OK(cuGraphDebugDotPrint(graph, path, flags));
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    std::string all = text.str();
    assert_int_equal(all.rfind("digraph", 0), 0);
    assert_true(all.find("\"graph_0_node_0\" -> \"graph_0_node_1\"") != std::string::npos);
    assert_true(all.find("subgraph cluster_1") != std::string::npos);
    assert_true(all.find("nothing") != std::string::npos);
    assert_int_equal(std::count(all.begin(), all.end(), '{'),
                     std::count(all.begin(), all.end(), '}'));
    assert_int_equal(all.find("3 x 3 x 3") != std::string::npos, flags != 0);
  }
  unlink(path);
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphDebugDotPrint(graph, nullptr, 0));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphDebugDotPrint(graph, path, 1u << 20));
  EXPECT(CUDA_ERROR_OPERATING_SYSTEM, cuGraphDebugDotPrint(graph, "/nowhere/at/all", 0));
  OK(cuGraphDestroy(graph));
  OK(cuGraphDestroy(inner));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      TEST(memory_comes_with_a_launch),
      TEST(graphs_that_allocate_are_bound),
      TEST(memory_that_a_launch_leaves),
      TEST(freed_before_each_launch),
      TEST(what_is_freed_is_taken_again),
      TEST(captured_allocations),
      TEST(while_a_condition_holds),
      TEST(either_one_or_the_other),
      TEST(loops_need_no_stack),
      TEST(values_in_graphs),
      TEST(printed),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
