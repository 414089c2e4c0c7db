// Graphs: what becomes a node, what captures forbid, and what travels.
#include <stdatomic.h>
#include <string.h>

#include "base/stats.h"
#include "check.h"
#include "guest_calls.h"
#include "session.h"

#define MIB (1ull << 20)

static const struct server_hook no_hook;

#define GOOD(call) assert_int_equal((call), CUDA_SUCCESS)
#define COSTS(commands_wanted, call)                                                     \
  do {                                                                                   \
    uint64_t commands = atomic_load(&guest_stats->commands);                             \
    uint64_t trips = atomic_load(&guest_stats->round_trips);                             \
    GOOD(call);                                                                          \
    assert_int_equal(atomic_load(&guest_stats->commands) - commands, (commands_wanted)); \
    assert_int_equal(atomic_load(&guest_stats->round_trips), trips);                     \
  } while (0)

static CUdeviceptr memory;
static CUstream begin(CUstreamCaptureMode mode) {
  CUstream stream;
  session_start(64 * MIB, no_hook);
  GOOD(cuMemAlloc_v2(&memory, 4096));
  GOOD(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  GOOD(cuStreamBeginCapture_v2(stream, mode));
  return stream;
}

static void captures_send_nothing(void **state) {
  (void)state;
  CUstream stream = begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
  static char bytes[64];
  COSTS(0, cuMemsetD8Async(memory, 1, 64, stream));
  COSTS(0, cuMemcpyDtoDAsync_v2(memory + 64, memory, 64, stream));
  COSTS(0, cuMemcpyHtoDAsync_v2(memory, bytes, 64, stream));
  COSTS(0, cuMemcpyDtoHAsync_v2(bytes, memory, 64, stream));
  CUgraph graph;
  COSTS(0, cuStreamEndCapture(stream, &graph));
  CUgraphNode nodes[5];
  size_t count = 5, edges = 0;
  COSTS(0, cuGraphGetNodes(graph, nodes, &count));
  COSTS(0, cuGraphGetEdges(graph, NULL, NULL, &edges));
  assert_int_equal(count, 4);
  assert_int_equal(edges, 3);
  CUDA_MEMSET_NODE_PARAMS fill;
  COSTS(0, cuGraphMemsetNodeGetParams(nodes[0], &fill));
  assert_int_equal(fill.dst, memory);
  assert_int_equal(fill.width, 64);
  CUDA_MEMCPY3D copy;
  COSTS(0, cuGraphMemcpyNodeGetParams(nodes[2], &copy));
  assert_ptr_equal(copy.srcHost, bytes);
  COSTS(0, cuGraphDestroy(graph));
}

static void a_launch_is_one_command(void **state) {
  (void)state;
  CUstream stream = begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
  for (int i = 0; i < 100; i++) GOOD(cuMemsetD8Async(memory + (unsigned)i, 1, 1, stream));
  CUgraph graph;
  GOOD(cuStreamEndCapture(stream, &graph));
  CUgraphExec exec;
  COSTS(1, cuGraphInstantiateWithFlags(&exec, graph, 0));
  COSTS(1, cuGraphLaunch(exec, stream));
  COSTS(1, cuGraphLaunch(exec, stream));
  CUgraphExecUpdateResultInfo info;
  COSTS(0, cuGraphExecUpdate_v2(exec, graph, &info));  // nothing has changed
  CUgraphNode nodes[100];
  size_t count = 100;
  GOOD(cuGraphGetNodes(graph, nodes, &count));
  CUDA_MEMSET_NODE_PARAMS fill;
  GOOD(cuGraphMemsetNodeGetParams(nodes[7], &fill));
  fill.value = 9;
  GOOD(cuGraphMemsetNodeSetParams(nodes[7], &fill));
  COSTS(1, cuGraphExecUpdate_v2(exec, graph, &info));
  COSTS(1, cuGraphNodeSetEnabled(exec, nodes[7], 0));
  COSTS(0, cuGraphNodeSetEnabled(exec, nodes[7], 0));
  COSTS(1, cuGraphExecDestroy(exec));
  assert_int_equal(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_VALUE);
}

static void streams_fork_and_join(void **state) {
  (void)state;
  CUstream stream = begin(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), other;
  CUevent fork, join;
  GOOD(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  GOOD(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
  GOOD(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
  GOOD(cuMemsetD8Async(memory, 1, 1, stream));
  COSTS(0, cuEventRecord(fork, stream));
  COSTS(0, cuStreamWaitEvent(other, fork, 0));
  CUstreamCaptureStatus status;
  GOOD(cuStreamIsCapturing(other, &status));
  assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  GOOD(cuMemsetD8Async(memory + 1, 1, 1, other));
  GOOD(cuMemsetD8Async(memory + 2, 1, 1, stream));
  assert_int_equal(cuEventQuery(fork), CUDA_ERROR_CAPTURED_EVENT);
  CUgraph graph;
  assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  // Again, and joined.
  GOOD(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  GOOD(cuMemsetD8Async(memory, 1, 1, stream));
  GOOD(cuEventRecord(fork, stream));
  GOOD(cuStreamWaitEvent(other, fork, 0));
  GOOD(cuMemsetD8Async(memory + 1, 1, 1, other));
  GOOD(cuEventRecord(join, other));
  GOOD(cuStreamWaitEvent(stream, join, 0));
  GOOD(cuStreamEndCapture(stream, &graph));
  size_t roots = 0, edges = 0;
  GOOD(cuGraphGetRootNodes(graph, NULL, &roots));
  GOOD(cuGraphGetEdges(graph, NULL, NULL, &edges));
  assert_int_equal(roots, 1);
  assert_int_equal(edges, 1);
  assert_int_equal(cuStreamWaitEvent(other, fork, 0), CUDA_ERROR_CAPTURED_EVENT);
  GOOD(cuEventRecord(fork, other));  // an event like any other again
  GOOD(cuStreamWaitEvent(stream, fork, 0));
}

static void captures_forbid_what_waits(void **state) {
  (void)state;
  CUstream stream = begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
  CUdeviceptr more;
  assert_int_equal(cuMemAlloc_v2(&more, 64), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUgraph graph;
  assert_int_equal(cuMemsetD8Async(memory, 1, 1, stream), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  GOOD(cuMemAlloc_v2(&more, 64));
  GOOD(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  GOOD(cuMemFree_v2(more));
  assert_int_equal(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  assert_int_equal(cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_RELAXED),
                   CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

static void cycles_and_foreign_nodes_are_refused(void **state) {
  (void)state;
  session_start(64 * MIB, no_hook);
  CUgraph graph, other;
  CUgraphNode a, b, c;
  GOOD(cuGraphCreate(&graph, 0));
  GOOD(cuGraphCreate(&other, 0));
  GOOD(cuGraphAddEmptyNode(&a, graph, NULL, 0));
  GOOD(cuGraphAddEmptyNode(&b, graph, &a, 1));
  GOOD(cuGraphAddDependencies(graph, &b, &a, 1));
  CUgraphExec exec;
  COSTS(0, cuGraphGetNodes(graph, NULL, &(size_t){0}));
  assert_int_equal(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuGraphAddDependencies(graph, &b, &a, 1), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuGraphAddDependencies(graph, &a, &a, 1), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuGraphAddEmptyNode(&c, other, &a, 1), CUDA_ERROR_INVALID_VALUE);
  GOOD(cuGraphDestroyNode(b));
  assert_int_equal(cuGraphDestroyNode(b), CUDA_ERROR_INVALID_VALUE);
  GOOD(cuGraphInstantiateWithFlags(&exec, graph, 0));
  GOOD(cuGraphDestroy(graph));
  assert_int_equal(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuGraphAddEmptyNode(&c, graph, NULL, 0), CUDA_ERROR_INVALID_VALUE);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(captures_send_nothing),
      cmocka_unit_test(a_launch_is_one_command),
      cmocka_unit_test(streams_fork_and_join),
      cmocka_unit_test(captures_forbid_what_waits),
      cmocka_unit_test(cycles_and_foreign_nodes_are_refused),
  };
  RUN_ONE_TEST(tests, argc, argv);
}
