// Capture of streams into graphs: what becomes a node, what the modes forbid, how captures fail.
#include <atomic>
#include <thread>

#include "support.h"

namespace {

constexpr auto kGlobal = CU_STREAM_CAPTURE_MODE_GLOBAL;
constexpr auto kLocal = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
constexpr auto kRelaxed = CU_STREAM_CAPTURE_MODE_RELAXED;

struct Buffer {
  CUdeviceptr address;
  Buffer() {
    OK(cuMemAlloc_v2(&address, 4096));
    OK(cuMemsetD8_v2(address, 0, 4096));
    OK(cuCtxSynchronize());
  }
  ~Buffer() { cuMemFree_v2(address); }
  uint32_t at(size_t index) const {
    return __atomic_load_n(reinterpret_cast<const uint32_t *>(address) + index, __ATOMIC_ACQUIRE);
  }
};

CUstream new_stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
  CUstream stream;
  OK(cuStreamCreate(&stream, flags));
  return stream;
}

CUevent new_event() {
  CUevent event;
  OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  return event;
}

CUstreamCaptureStatus status_of(CUstream stream) {
  CUstreamCaptureStatus status;
  OK(cuStreamIsCapturing(stream, &status));
  return status;
}

size_t count_nodes(CUgraph graph) {
  size_t count = 0;
  OK(cuGraphGetNodes(graph, nullptr, &count));
  return count;
}

std::vector<CUgraphNodeType> types_of(CUgraph graph) {
  size_t count = count_nodes(graph);
  std::vector<CUgraphNode> nodes(count);
  OK(cuGraphGetNodes(graph, nodes.data(), &count));
  std::vector<CUgraphNodeType> types(count);
  for (size_t i = 0; i < count; i++) OK(cuGraphNodeGetType(nodes[i], &types[i]));
  return types;
}

void run(CUgraph graph) {
  CUgraphExec exec;
  OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  OK(cuGraphLaunch(exec, nullptr));
  OK(cuCtxSynchronize());
  OK(cuGraphExecDestroy(exec));
}

// Ends a capture that has failed.
void expect_failed(CUresult expected, CUstream stream) {
  CUgraph graph = reinterpret_cast<CUgraph>(1);
  EXPECT(expected, cuStreamEndCapture(stream, &graph));
  assert_null(graph);
  assert_int_equal(status_of(stream), CU_STREAM_CAPTURE_STATUS_NONE);
}

void all_kinds_of_work_become_nodes(void **) {
  CUmodule module = load_kernels();
  Buffer buffer;
  CUstream stream = new_stream();
  uint32_t from[2] = {5, 6}, back[2] = {};
  static int calls;
  calls = 0;
  OK(cuStreamBeginCapture_v2(stream, kGlobal));
  assert_int_equal(status_of(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  OK(cuMemsetD32Async(buffer.address, 1, 4, stream));
  OK(cuMemcpyHtoDAsync_v2(buffer.address, from, sizeof from, stream));
  CUfunction store = kernel(module, "store");
  CUdeviceptr at = buffer.address + 4;
  uint32_t value = 7;
  void *parameters[] = {&at, &value};
  OK(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr));
  value = 8;  // the node has its own
  at += 4;
  CUlaunchAttribute attribute{CU_LAUNCH_ATTRIBUTE_COOPERATIVE, {}, {}};
  attribute.value.cooperative = 1;
  CUlaunchConfig config{1, 1, 1, 1, 1, 1, 0, stream, &attribute, 1};
  OK(cuLaunchKernelEx(&config, store, parameters, nullptr));
  OK(cuLaunchHostFunc(
      stream, [](void *) { calls++; }, nullptr));
  OK(cuMemcpyDtoHAsync_v2(back, buffer.address + 4, sizeof back, stream));
  CUgraph graph;
  OK(cuStreamEndCapture(stream, &graph));
  assert_int_equal(status_of(stream), CU_STREAM_CAPTURE_STATUS_NONE);
  const CUgraphNodeType expected[] = {CU_GRAPH_NODE_TYPE_MEMSET, CU_GRAPH_NODE_TYPE_MEMCPY,
                                      CU_GRAPH_NODE_TYPE_KERNEL, CU_GRAPH_NODE_TYPE_KERNEL,
                                      CU_GRAPH_NODE_TYPE_HOST,   CU_GRAPH_NODE_TYPE_MEMCPY};
  std::vector<CUgraphNodeType> types = types_of(graph);
  assert_int_equal(types.size(), 6);
  for (size_t i = 0; i < 6; i++) assert_int_equal(types[i], expected[i]);
  size_t edges;
  OK(cuGraphGetEdges(graph, nullptr, nullptr, &edges));
  assert_int_equal(edges, 5);
  OK(cuStreamSynchronize(stream));
  assert_int_equal(calls, 0);  // nothing has run
  assert_int_equal(buffer.at(0), 0);
  // What a captured copy looks like when asked.
  CUgraphNode nodes[2];
  size_t count = 2;
  OK(cuGraphGetNodes(graph, nodes, &count));
  CUDA_MEMCPY3D copy;
  OK(cuGraphMemcpyNodeGetParams(nodes[1], &copy));
  assert_int_equal(copy.srcMemoryType, CU_MEMORYTYPE_HOST);
  assert_ptr_equal(copy.srcHost, from);
  assert_int_equal(copy.dstDevice, buffer.address);
  assert_int_equal(copy.WidthInBytes, sizeof from);
  from[0] = 50;  // read when the graph runs
  run(graph);
  assert_int_equal(calls, 1);
  assert_int_equal(buffer.at(0), 50);
  assert_int_equal(back[0], 7);
  assert_int_equal(back[1], 8);
  OK(cuGraphDestroy(graph));
}

void forked_streams_join(void **) {
  Buffer buffer;
  CUstream main = new_stream(), side = new_stream(), third = new_stream();
  CUevent fork = new_event(), join = new_event();
  OK(cuStreamBeginCapture_v2(main, kGlobal));
  OK(cuMemsetD32Async(buffer.address, 1, 1, main));
  OK(cuEventRecord(fork, main));
  OK(cuStreamWaitEvent(side, fork, 0));
  OK(cuStreamWaitEvent(third, fork, 0));
  assert_int_equal(status_of(side), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  OK(cuMemsetD32Async(buffer.address + 4, 2, 1, side));
  OK(cuMemsetD32Async(buffer.address + 8, 3, 1, main));
  OK(cuEventRecord(join, side));
  OK(cuStreamWaitEvent(main, join, 0));
  OK(cuMemsetD32Async(buffer.address + 12, 4, 1, main));
  CUgraph graph;
  EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, cuStreamEndCapture(side, &graph));
  expect_failed(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, main);

  OK(cuStreamBeginCapture_v2(main, kGlobal));
  OK(cuMemsetD32Async(buffer.address, 1, 1, main));
  OK(cuEventRecord(fork, main));
  OK(cuStreamWaitEvent(side, fork, 0));
  OK(cuMemsetD32Async(buffer.address + 4, 2, 1, side));
  OK(cuMemsetD32Async(buffer.address + 8, 3, 1, main));
  OK(cuEventRecord(join, side));
  OK(cuStreamWaitEvent(main, join, 0));
  OK(cuMemsetD32Async(buffer.address + 12, 4, 1, main));
  OK(cuStreamEndCapture(main, &graph));
  assert_int_equal(status_of(side), CU_STREAM_CAPTURE_STATUS_NONE);
  CUgraphNode nodes[4], before[2];
  size_t count = 4;
  OK(cuGraphGetNodes(graph, nodes, &count));
  assert_int_equal(count, 4);
  count = 2;
  OK(cuGraphNodeGetDependencies(nodes[3], before, &count));
  assert_int_equal(count, 2);
  OK(cuGraphNodeGetDependentNodes(nodes[0], before, &count));
  assert_int_equal(count, 2);
  run(graph);
  for (uint32_t i = 0; i < 4; i++) assert_int_equal(buffer.at(i), i + 1);
  // Events that were recorded in a capture are of no use outside.
  EXPECT(CUDA_ERROR_CAPTURED_EVENT, cuEventQuery(fork));
  EXPECT(CUDA_ERROR_CAPTURED_EVENT, cuEventSynchronize(join));
  EXPECT(CUDA_ERROR_CAPTURED_EVENT, cuStreamWaitEvent(side, fork, 0));
  OK(cuEventRecord(fork, side));
  OK(cuEventSynchronize(fork));
  OK(cuGraphDestroy(graph));
}

void streams_that_do_not_join(void **) {
  Buffer buffer;
  CUstream main = new_stream(), side = new_stream();
  CUevent fork = new_event();
  OK(cuStreamBeginCapture_v2(main, kGlobal));
  OK(cuEventRecord(fork, main));
  OK(cuStreamWaitEvent(side, fork, 0));
  OK(cuMemsetD32Async(buffer.address, 1, 1, side));
  expect_failed(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, main);
  assert_int_equal(status_of(side), CU_STREAM_CAPTURE_STATUS_NONE);
  OK(cuMemsetD32Async(buffer.address, 2, 1, side));
  OK(cuStreamSynchronize(side));
  assert_int_equal(buffer.at(0), 2);
}

void waiting_for_what_is_outside(void **) {
  CUstream main = new_stream(), other = new_stream(), outside = new_stream();
  CUevent event = new_event();
  OK(cuEventRecord(event, outside));
  OK(cuStreamBeginCapture_v2(main, kGlobal));
  EXPECT(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent(main, event, 0));
  assert_int_equal(status_of(main), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuEventRecord(event, main));
  EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuLaunchHostFunc(
                                                    main, [](void *) {}, nullptr));
  expect_failed(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, main);
  // Two captures cannot become one.
  OK(cuStreamBeginCapture_v2(main, kGlobal));
  OK(cuStreamBeginCapture_v2(other, kGlobal));
  OK(cuEventRecord(event, main));
  EXPECT(CUDA_ERROR_STREAM_CAPTURE_MERGE, cuStreamWaitEvent(other, event, 0));
  expect_failed(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, main);
  expect_failed(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, other);
  // The legacy stream cannot join.
  OK(cuStreamBeginCapture_v2(main, kGlobal));
  OK(cuEventRecord(event, main));
  EXPECT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuStreamWaitEvent(nullptr, event, 0));
  expect_failed(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, main);
}

void external_events_become_nodes(void **) {
  CUstream main = new_stream(), outside = new_stream();
  CUevent before = new_event(), after = new_event();
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuEventRecordWithFlags(before, main, CU_EVENT_RECORD_EXTERNAL));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamWaitEvent(main, before, CU_EVENT_WAIT_EXTERNAL));
  OK(cuStreamBeginCapture_v2(main, kGlobal));
  OK(cuStreamWaitEvent(main, before, CU_EVENT_WAIT_EXTERNAL));
  OK(cuEventRecordWithFlags(after, main, CU_EVENT_RECORD_EXTERNAL));
  CUgraph graph;
  OK(cuStreamEndCapture(main, &graph));
  std::vector<CUgraphNodeType> types = types_of(graph);
  assert_int_equal(types.size(), 2);
  assert_int_equal(types[0], CU_GRAPH_NODE_TYPE_WAIT_EVENT);
  assert_int_equal(types[1], CU_GRAPH_NODE_TYPE_EVENT_RECORD);
  CUgraphExec exec;
  OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  Gate gate;
  gate.hold(outside);
  OK(cuEventRecord(before, outside));
  OK(cuGraphLaunch(exec, main));
  EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(after));
  gate.open();
  OK(cuEventSynchronize(after));
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
}

void nothing_waits_for_a_captured_stream(void **) {
  CUstream stream = new_stream();
  OK(cuStreamBeginCapture_v2(stream, kRelaxed));
  EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(stream));
  expect_failed(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, stream);
  OK(cuStreamBeginCapture_v2(stream, kRelaxed));
  EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamQuery(stream));
  expect_failed(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, stream);
  OK(cuStreamBeginCapture_v2(stream, kRelaxed));
  EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuCtxSynchronize());
  expect_failed(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, stream);
  CUevent event = new_event();
  OK(cuStreamBeginCapture_v2(stream, kRelaxed));
  OK(cuEventRecord(event, stream));
  EXPECT(CUDA_ERROR_CAPTURED_EVENT, cuEventQuery(event));
  expect_failed(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, stream);
  OK(cuStreamBeginCapture_v2(stream, kRelaxed));
  EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
         cuStreamAddCallback(
             stream, [](CUstream, CUresult, void *) {}, nullptr, 0));
  expect_failed(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, stream);
}

void the_legacy_stream_and_blocking_streams(void **) {
  Buffer buffer;
  CUstream blocking = new_stream(CU_STREAM_DEFAULT), free_running = new_stream();
  EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamBeginCapture_v2(nullptr, kGlobal));
  OK(cuStreamBeginCapture_v2(blocking, kRelaxed));
  CUstreamCaptureStatus status;
  EXPECT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuStreamIsCapturing(nullptr, &status));
  assert_int_equal(status_of(blocking), CU_STREAM_CAPTURE_STATUS_ACTIVE);  // looking does no harm
  EXPECT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuMemsetD32Async(buffer.address, 1, 1, nullptr));
  expect_failed(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, blocking);
  OK(cuStreamBeginCapture_v2(blocking, kRelaxed));
  EXPECT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuMemsetD32_v2(buffer.address, 1, 1));
  expect_failed(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, blocking);
  // A stream that does not block is no concern of the legacy stream.
  OK(cuStreamBeginCapture_v2(free_running, kGlobal));
  OK(cuMemsetD32Async(buffer.address, 9, 1, nullptr));
  CUgraph graph;
  OK(cuStreamEndCapture(free_running, &graph));
  OK(cuStreamSynchronize(nullptr));
  assert_int_equal(buffer.at(0), 9);
  assert_int_equal(count_nodes(graph), 0);
  OK(cuGraphDestroy(graph));
}

CUresult on_another_thread(CUcontext context, CUresult (*call)()) {
  CUresult result = CUDA_SUCCESS;
  std::thread([&] {
    result = cuCtxSetCurrent(context);
    if (result == CUDA_SUCCESS) result = call();
  }).join();
  return result;
}

CUresult allocate() {
  CUdeviceptr address;
  CUresult result = cuMemAlloc_v2(&address, 1000);
  return result ? result : cuMemFree_v2(address);
}

CUresult allocate_relaxed() {
  CUstreamCaptureMode mode = kRelaxed;
  if (CUresult bad = cuThreadExchangeStreamCaptureMode(&mode)) return bad;
  if (mode != kGlobal) return CUDA_ERROR_UNKNOWN;
  CUresult result = allocate();
  if (CUresult bad = cuThreadExchangeStreamCaptureMode(&mode)) return bad;
  return mode == kRelaxed ? result : CUDA_ERROR_UNKNOWN;
}

void the_modes_forbid_unsafe_calls(void **state) {
  auto context = static_cast<CUcontext>(*state);
  CUstream stream = new_stream();
  CUgraph graph;
  // Global: to this thread, and to others.
  OK(cuStreamBeginCapture_v2(stream, kGlobal));
  EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, allocate());
  expect_failed(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, stream);
  OK(cuStreamBeginCapture_v2(stream, kGlobal));
  EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, on_another_thread(context, allocate));
  expect_failed(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, stream);
  OK(cuStreamBeginCapture_v2(stream, kGlobal));
  void *pinned;
  EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemHostAlloc(&pinned, 100, 0));
  expect_failed(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, stream);
  // ... unless they say that they know what they do.
  OK(cuStreamBeginCapture_v2(stream, kGlobal));
  OK(allocate_relaxed());
  OK(on_another_thread(context, allocate_relaxed));
  OK(cuStreamEndCapture(stream, &graph));
  OK(cuGraphDestroy(graph));
  // Local: to this thread only.
  OK(cuStreamBeginCapture_v2(stream, kLocal));
  OK(on_another_thread(context, allocate));
  EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, allocate());
  expect_failed(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, stream);
  // Relaxed: to nobody.
  OK(cuStreamBeginCapture_v2(stream, kRelaxed));
  OK(allocate());
  OK(on_another_thread(context, allocate));
  OK(cuStreamEndCapture(stream, &graph));
  OK(cuGraphDestroy(graph));
  CUstreamCaptureMode odd = static_cast<CUstreamCaptureMode>(7);
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuThreadExchangeStreamCaptureMode(&odd));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamBeginCapture_v2(stream, odd));
}

CUstream shared_stream;
CUresult end_shared() {
  CUgraph graph;
  CUresult result = cuStreamEndCapture(shared_stream, &graph);
  return result ? result : cuGraphDestroy(graph);
}

void the_thread_that_begins_ends(void **state) {
  auto context = static_cast<CUcontext>(*state);
  CUgraph graph;
  shared_stream = new_stream();
  EXPECT(CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCapture(shared_stream, &graph));
  OK(cuStreamBeginCapture_v2(shared_stream, kLocal));
  EXPECT(CUDA_ERROR_ILLEGAL_STATE, cuStreamBeginCapture_v2(shared_stream, kLocal));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamEndCapture(shared_stream, nullptr));
  EXPECT(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, on_another_thread(context, end_shared));
  OK(end_shared());
  OK(cuStreamBeginCapture_v2(shared_stream, kRelaxed));
  OK(on_another_thread(context, end_shared));
}

void captures_can_be_asked_and_changed(void **) {
  Buffer buffer;
  CUstream stream = new_stream();
  CUstreamCaptureStatus status;
  cuuint64_t id = 0, first_id = 0;
  CUgraph graph, ended;
  const CUgraphNode *tips;
  const CUgraphEdgeData *data;
  size_t count = 77;
  OK(cuStreamGetCaptureInfo_v3(stream, &status, &id, &graph, &tips, &data, &count));
  assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
  OK(cuStreamBeginCapture_v2(stream, kGlobal));
  OK(cuMemsetD32Async(buffer.address, 1, 1, stream));
  OK(cuStreamGetCaptureInfo(stream, &status, &first_id));
  OK(cuStreamGetCaptureInfo_v2(stream, &status, &id, &graph, &tips, &count));
  assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  assert_true(id == first_id && id != 0);
  assert_int_equal(count, 1);
  // A node of our own, put where the capture goes on.
  CUgraphNode first = tips[0], mine, both[2];
  OK(cuGraphAddEmptyNode(&mine, graph, &first, 1));
  OK(cuStreamUpdateCaptureDependencies(stream, &mine, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
  OK(cuStreamUpdateCaptureDependencies(stream, &first, 1, CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
  OK(cuStreamGetCaptureInfo_v3(stream, &status, &id, &graph, &tips, &data, &count));
  assert_int_equal(count, 2);
  assert_ptr_equal(tips[0], mine);
  assert_int_equal(data[0].type, 0);
  OK(cuMemsetD32Async(buffer.address + 4, 2, 1, stream));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamUpdateCaptureDependencies(stream, &mine, 1, 5));
  OK(cuStreamGetCaptureInfo_v2(stream, &status, &id, &graph, &tips, &count));
  CUgraphNode last = tips[0];
  OK(cuStreamEndCapture(stream, &ended));
  assert_ptr_equal(ended, graph);
  count = 2;
  OK(cuGraphNodeGetDependencies(last, both, &count));
  assert_int_equal(count, 2);
  EXPECT(CUDA_ERROR_ILLEGAL_STATE, cuStreamUpdateCaptureDependencies(stream, &mine, 1, 0));
  OK(cuGraphDestroy(graph));
  OK(cuStreamBeginCapture_v2(stream, kGlobal));
  OK(cuStreamGetCaptureInfo(stream, &status, &id));
  assert_true(id != first_id);
  OK(cuStreamEndCapture(stream, &graph));
  OK(cuGraphDestroy(graph));
}

void programmatic_launches_become_such_edges(void **) {
  CUmodule module = load_kernels();
  CUstream stream = new_stream();
  CUfunction nothing = kernel(module, "nothing");
  CUlaunchAttribute attribute{CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, {}, {}};
  attribute.value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig config{1, 1, 1, 1, 1, 1, 0, stream, &attribute, 1};
  OK(cuStreamBeginCapture_v2(stream, kGlobal));
  OK(cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
  OK(cuLaunchKernelEx(&config, nothing, nullptr, nullptr));
  CUgraph graph;
  OK(cuStreamEndCapture(stream, &graph));
  CUgraphNode from, to;
  CUgraphEdgeData data;
  size_t count = 1;
  OK(cuGraphGetEdges_v2(graph, &from, &to, &data, &count));
  assert_int_equal(data.type, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);
  run(graph);
  OK(cuGraphDestroy(graph));
}

void into_a_graph_that_exists(void **) {
  Buffer buffer;
  CUstream stream = new_stream();
  CUgraph graph, ended;
  CUgraphNode root;
  OK(cuGraphCreate(&graph, 0));
  CUDA_MEMSET_NODE_PARAMS fill{buffer.address, 0, 1, 4, 2, 1};
  OK(cuGraphAddMemsetNode(&root, graph, nullptr, 0, &fill, nullptr));
  OK(cuStreamBeginCaptureToGraph(stream, graph, &root, nullptr, 1, kGlobal));
  OK(cuMemsetD32Async(buffer.address + 4, 2, 1, stream));
  OK(cuStreamEndCapture(stream, &ended));
  assert_ptr_equal(ended, graph);
  OK(cuStreamBeginCaptureToGraph(stream, graph, nullptr, nullptr, 0, kGlobal));
  OK(cuStreamEndCapture(stream, nullptr));  // its graph is known
  size_t edges;
  OK(cuGraphGetEdges(graph, nullptr, nullptr, &edges));
  assert_int_equal(edges, 1);
  run(graph);
  assert_int_equal(buffer.at(0), 1);
  assert_int_equal(buffer.at(1), 2);
  // It outlives a capture that fails, and a capture outlives it.
  OK(cuStreamBeginCaptureToGraph(stream, graph, nullptr, nullptr, 0, kGlobal));
  EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(stream));
  expect_failed(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, stream);
  assert_int_equal(count_nodes(graph), 2);
  OK(cuStreamBeginCaptureToGraph(stream, graph, &root, nullptr, 1, kGlobal));
  OK(cuGraphDestroy(graph));
  EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuMemsetD32Async(buffer.address, 2, 1, stream));
  expect_failed(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, stream);
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuStreamBeginCaptureToGraph(stream, graph, nullptr, nullptr, 0, kGlobal));
}

void graphs_launched_while_capturing_are_embedded(void **) {
  Buffer buffer;
  CUstream stream = new_stream();
  CUgraph inner, outer;
  CUgraphExec exec;
  OK(cuStreamBeginCapture_v2(stream, kGlobal));
  OK(cuMemsetD32Async(buffer.address, 3, 1, stream));
  OK(cuStreamEndCapture(stream, &inner));
  OK(cuGraphInstantiateWithFlags(&exec, inner, 0));
  OK(cuStreamBeginCapture_v2(stream, kGlobal));
  OK(cuGraphLaunch(exec, stream));
  OK(cuMemcpyDtoDAsync_v2(buffer.address + 4, buffer.address, 4, stream));
  OK(cuStreamEndCapture(stream, &outer));
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(inner));
  std::vector<CUgraphNodeType> types = types_of(outer);
  assert_int_equal(types.size(), 2);
  assert_int_equal(types[0], CU_GRAPH_NODE_TYPE_GRAPH);
  run(outer);
  assert_int_equal(buffer.at(1), 3);
  OK(cuGraphDestroy(outer));
}

void streams_that_go_away(void **) {
  CUstream stream = new_stream(), side = new_stream(), next = new_stream();
  CUevent event = new_event(), back = new_event();
  OK(cuStreamBeginCapture_v2(stream, kGlobal));
  OK(cuEventRecord(event, stream));
  OK(cuStreamWaitEvent(side, event, 0));
  OK(cuStreamDestroy_v2(stream));
  assert_int_equal(status_of(side), CU_STREAM_CAPTURE_STATUS_NONE);
  OK(allocate());  // no capture is left that would forbid it
  // One that has joined, and come back, may go.
  OK(cuStreamBeginCapture_v2(next, kGlobal));
  OK(cuEventRecord(event, next));
  OK(cuStreamWaitEvent(side, event, 0));
  OK(cuLaunchHostFunc(
      side, [](void *) {}, nullptr));
  OK(cuEventRecord(back, side));
  OK(cuStreamWaitEvent(next, back, 0));
  OK(cuStreamDestroy_v2(side));
  CUgraph graph;
  OK(cuStreamEndCapture(next, &graph));
  assert_int_equal(count_nodes(graph), 1);
  OK(cuGraphDestroy(graph));
  // A context that goes takes its captures along.
  CUcontext context;
  OK(cuCtxCreate_v2(&context, 0, 0));
  CUstream inside = new_stream();
  OK(cuStreamBeginCapture_v2(inside, kGlobal));
  OK(cuCtxDestroy_v2(context));
  OK(allocate());
}

void per_thread_streams_can_be_captured(void **) {
  Buffer buffer;
  CUgraph graph;
  OK(cuStreamBeginCapture_v2_ptsz(nullptr, kLocal));
  OK(cuMemsetD32Async_ptsz(buffer.address, 4, 1, nullptr));
  OK(cuStreamEndCapture_ptsz(nullptr, &graph));
  assert_int_equal(count_nodes(graph), 1);
  run(graph);
  assert_int_equal(buffer.at(0), 4);
  OK(cuGraphDestroy(graph));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      TEST(all_kinds_of_work_become_nodes),
      TEST(forked_streams_join),
      TEST(streams_that_do_not_join),
      TEST(waiting_for_what_is_outside),
      TEST(external_events_become_nodes),
      TEST(nothing_waits_for_a_captured_stream),
      TEST(the_legacy_stream_and_blocking_streams),
      TEST(the_modes_forbid_unsafe_calls),
      TEST(the_thread_that_begins_ends),
      TEST(captures_can_be_asked_and_changed),
      TEST(programmatic_launches_become_such_edges),
      TEST(into_a_graph_that_exists),
      TEST(graphs_launched_while_capturing_are_embedded),
      TEST(streams_that_go_away),
      TEST(per_thread_streams_can_be_captured),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
