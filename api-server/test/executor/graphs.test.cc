// Graphs: nodes as they travel, what they may name, and what is left of them.
#include "base/session_limits.h"
#include "check.h"
#include "wire_graph.h"
#include "world.h"

using namespace outboard;

namespace {

constexpr uint64_t kGranule = WIRE_GRANULE;
const uint64_t kExec = wire_handle(WIRE_KIND_GRAPH_EXEC, 1, 1);
const uint64_t kBase = wire_handle(WIRE_KIND_GRAPH, 1, 1);

std::string record(uint32_t type, const std::string &tail, uint32_t graph = 0,
                   const std::vector<uint32_t> &before = {}) {
  wire_graph_node head{};
  head.type = type;
  head.graph = graph;
  head.edges = static_cast<uint32_t>(before.size());
  std::string edges;
  for (uint32_t from : before) edges += packed(wire_graph_edge{from, 0, 0, 0, 0});
  std::string all = edges + tail;
  all.resize((all.size() + 7) & ~size_t{7});
  head.size = static_cast<uint32_t>(sizeof head + all.size());
  return packed(head) + all;
}

std::string set_node(uint64_t address, uint32_t value, uint64_t count, uint32_t graph = 0,
                     const std::vector<uint32_t> &before = {}) {
  wire_graph_fill fill{};
  fill.address = address;
  fill.width = count;
  fill.height = 1;
  fill.value = value;
  fill.unit = 4;
  return record(CU_GRAPH_NODE_TYPE_MEMSET, packed(fill), graph, before);
}

std::string kernel_node(uint64_t function, const std::string &parameters, uint32_t blocks = 1) {
  wire_graph_kernel kernel{};
  kernel.function = function;
  for (int i = 0; i < 3; i++) kernel.grid[i] = kernel.block[i] = 1;
  kernel.grid[0] = blocks;
  kernel.parameter_bytes = static_cast<uint32_t>(parameters.size());
  return record(CU_GRAPH_NODE_TYPE_KERNEL, packed(kernel) + parameters);
}

std::string empty_node(const std::vector<uint32_t> &before = {}) {
  return record(CU_GRAPH_NODE_TYPE_EMPTY, "", 0, before);
}

void build(World &w, const std::string &records, uint64_t exec = kExec, uint32_t last = 1,
           uint64_t base = 0) {
  wire_GraphBuild q{};
  q.exec = exec;
  q.base = base;
  q.last = last;
  q.length = records.size();
  w.guest.put(WIRE_GraphBuild, q, records);
}

void launch(World &w, uint64_t exec = kExec, uint64_t stream = 0) {
  wire_GraphLaunch q{};
  q.exec = exec;
  q.stream = stream;
  w.guest.put(WIRE_GraphLaunch, q);
}

void change(World &w, const std::string &records) {
  wire_GraphSet q{};
  q.exec = kExec;
  q.length = records.size();
  w.guest.put(WIRE_GraphSet, q, records);
}

// Of 4 rows of 8 bytes.
void create_array(World &w, uint64_t handle) {
  wire_ArrayCreate q{};
  q.array = handle;
  q.width = 8;
  q.height = 4;
  q.format = CU_AD_FORMAT_UNSIGNED_INT8;
  q.channels = 1;
  w.guest.put(WIRE_ArrayCreate, q);
}

void destroy_array(World &w, uint64_t handle) {
  wire_ArrayDestroy q{};
  q.array = handle;
  w.guest.put(WIRE_ArrayDestroy, q);
}

void expect_violation(const std::string &records, const std::string &words) {
  World w;
  w.guest.map(World::base(), kGranule);
  build(w, records);
  w.expect_violation(words);
}

// What a graph of these nodes brings; then it cannot be launched.
void expect_error(const std::string &records, CUresult result) {
  World w;
  w.load_kernels();
  w.guest.map(World::base(), kGranule);
  build(w, records);
  CHECK_EQUAL(w.guest.synchronize().async, result);
  launch(w);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_HANDLE);
  CHECK_EQUAL(World::fake().calls("cuGraphLaunch"), 0u);
  CHECK(w.end().reusable);
}

}  // namespace

TEST(a_graph_is_built_in_pieces_and_launched) {
  World w;
  const uint64_t at = World::base();
  w.guest.map(at, kGranule);
  build(w, set_node(at, 0x61616161, 2), kExec, 0);
  build(w, set_node(at + 4, 0x62626262, 1, 0, {0}), kExec, 1);
  launch(w);
  CHECK_EQUAL(w.guest.download(at, 8), "aaaabbbb");
  change(w, [&] {
    std::string other = set_node(at, 0x63636363, 1);
    return other;  // node 0
  }());
  launch(w);
  launch(w, kExec, w.guest.stream(1));
  w.guest.synchronize();
  CHECK_EQUAL(w.guest.download(at, 8), "ccccbbbb");
  wire_GraphEnable enable{};
  enable.exec = kExec;
  enable.node = 1;
  w.guest.put(WIRE_GraphEnable, enable);
  w.guest.memset32(at, 0x64646464, 2);
  launch(w);
  CHECK_EQUAL(w.guest.download(at, 8), "ccccdddd");
  CHECK_EQUAL(w.guest.synchronize().async, 0);
  CHECK_EQUAL(w.session->counters()->launches.load(), 4u);
}

TEST(child_graphs_and_conditions_bring_graphs) {
  World w;
  const uint64_t at = World::base();
  w.guest.map(at, kGranule);
  wire_GraphCondition ask{};
  ask.graph = kBase;
  const Answer made = w.guest.call(WIRE_GraphCondition, ask);
  CHECK_EQUAL(made.reply.result, CUDA_SUCCESS);
  wire_graph_condition condition{};
  condition.handle = made.frame.as<wire_GraphCondition_reply>().handle;
  condition.kind = CU_GRAPH_COND_TYPE_IF;
  condition.bodies = 2;
  build(w,
        record(CU_GRAPH_NODE_TYPE_GRAPH, "") + set_node(at, 0x61616161, 1, 1) +
            record(CU_GRAPH_NODE_TYPE_CONDITIONAL, packed(condition), 0, {0}) +
            set_node(at, 0x62626262, 1, 2) + set_node(at, 0x62626262, 1, 3),
        kExec, 1, kBase);
  launch(w);
  CHECK_EQUAL(w.guest.download(at, 4), "aaaa");
  // Another one of the same nodes, which does not need them again.
  const uint64_t other = wire_handle(WIRE_KIND_GRAPH_EXEC, 1, 2);
  build(w, "", other, 1, kBase);
  w.guest.memset32(at, 0, 1);
  launch(w, other);
  CHECK_EQUAL(w.guest.download(at, 4), "aaaa");
  wire_GraphForget forget{};
  forget.graph = kBase;
  w.guest.put(WIRE_GraphForget, forget);
  launch(w, other);
  CHECK_EQUAL(w.guest.synchronize().async, 0);
  build(w, "", wire_handle(WIRE_KIND_GRAPH_EXEC, 1, 3), 1, kBase);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_HANDLE);
}

TEST(malformed_nodes_end_the_session) {
  const uint64_t at = World::base();
  const auto sized = [](std::string text, uint32_t size) {
    memcpy(text.data(), &size, sizeof size);
    return text;
  };
  const std::string good = set_node(at, 1, 1);
  expect_violation(std::string(8, '\0'), "size");
  expect_violation(sized(good, 0), "size");
  expect_violation(sized(good, 12), "size");
  expect_violation(sized(good, static_cast<uint32_t>(good.size()) + 8), "size");
  expect_violation(sized(good, UINT32_MAX & ~7u), "size");
  expect_violation(sized(good, static_cast<uint32_t>(good.size()) - 8), "shorter");
  expect_violation(sized(good + std::string(8, '\0'), static_cast<uint32_t>(good.size()) + 8),
                   "too long");
  expect_violation(record(CU_GRAPH_NODE_TYPE_MEMCPY, packed(wire_graph_copy{}) + packed(at)),
                   "shorter");
  expect_violation(record(CU_GRAPH_NODE_TYPE_MEMCPY,
                          packed(wire_graph_copy{}) + packed(wire_graph_arrays{}) + packed(at)),
                   "too long");
  expect_violation(record(99, ""), "unknown type");
  expect_violation(record(CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL, ""), "unknown type");
  expect_violation(record(CU_GRAPH_NODE_TYPE_EMPTY, "", 1), "of a graph that there is not");
  expect_violation(empty_node({0}), "an edge leads");
  expect_violation(empty_node() + empty_node({1}), "an edge leads");
  // Between graphs there are no edges.
  expect_violation(
      record(CU_GRAPH_NODE_TYPE_GRAPH, "") + record(CU_GRAPH_NODE_TYPE_EMPTY, "", 1, {0}),
      "an edge leads");
  std::string edges = empty_node();
  const uint32_t many = UINT32_MAX;
  memcpy(edges.data() + offsetof(wire_graph_node, edges), &many, sizeof many);
  expect_violation(edges, "shorter");
  wire_graph_kernel kernel{};
  kernel.parameter_bytes = UINT32_MAX;
  expect_violation(record(CU_GRAPH_NODE_TYPE_KERNEL, packed(kernel)), "shorter");
  wire_graph_values values{257, 0};
  expect_violation(record(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, packed(values)), "too many");
  values.count = 2;
  expect_violation(record(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, packed(values)), "shorter");
  values.count = 1;
  wire_graph_value value{};
  value.operation = 77;
  expect_violation(record(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, packed(values) + packed(value)),
                   "unknown kind");
  wire_graph_condition condition{};
  expect_violation(record(CU_GRAPH_NODE_TYPE_CONDITIONAL, packed(condition)), "bodies");
  condition.bodies = 4097;
  expect_violation(record(CU_GRAPH_NODE_TYPE_CONDITIONAL, packed(condition)), "bodies");
}

TEST(nodes_reach_only_what_is_the_sessions) {
  const uint64_t at = World::base();
  expect_error(set_node(at + kGranule, 1, 1), CUDA_ERROR_INVALID_VALUE);
  expect_error(set_node(at, 1, kGranule / 4 + 1), CUDA_ERROR_INVALID_VALUE);
  expect_error(set_node(at, 1, UINT64_MAX), CUDA_ERROR_INVALID_VALUE);
  expect_error(set_node(reinterpret_cast<uint64_t>(&at), 1, 1), CUDA_ERROR_INVALID_VALUE);
  const auto copy = [&](uint64_t to, uint64_t from, uint64_t width, uint64_t pitch, uint64_t rows,
                        uint64_t height, uint64_t depth) {
    return record(CU_GRAPH_NODE_TYPE_MEMCPY, packed(wire_graph_copy{to, pitch, rows, from, pitch,
                                                                    rows, width, height, depth}));
  };
  expect_error(copy(at, at + kGranule, 8, 8, 1, 1, 1), CUDA_ERROR_INVALID_VALUE);
  expect_error(copy(at + kGranule, at, 8, 8, 1, 1, 1), CUDA_ERROR_INVALID_VALUE);
  expect_error(copy(at, at, 8, kGranule, 1, 2, 1), CUDA_ERROR_INVALID_VALUE);
  expect_error(copy(at, at, 8, 16, kGranule, 1, 2), CUDA_ERROR_INVALID_VALUE);
  expect_error(copy(at, at, 8, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX),
               CUDA_ERROR_INVALID_VALUE);
  wire_graph_value value{};
  value.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
  value.address = at + kGranule - 4;
  expect_error(
      record(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, packed(wire_graph_values{1, 0}) + packed(value)),
      CUDA_ERROR_INVALID_VALUE);
  expect_error(record(CU_GRAPH_NODE_TYPE_EVENT_RECORD, packed(wire_graph_event{12345})),
               CUDA_ERROR_INVALID_HANDLE);
  expect_error(kernel_node(12345, ""), CUDA_ERROR_INVALID_HANDLE);
  expect_error(kernel_node(function_handle(World::kAdd), packed(at)), CUDA_ERROR_INVALID_VALUE);
}

TEST(new_parameters_are_checked_alike) {
  const uint64_t at = World::base();
  const auto violates = [&](const std::string &records, const std::string &words) {
    World w;
    w.guest.map(at, kGranule);
    build(w, set_node(at, 1, 1));
    change(w, records);
    w.expect_violation(words);
  };
  violates(set_node(at, 1, 1, 1), "a node that there is not");
  violates(empty_node(), "a node that there is not");
  violates(set_node(at, 1, 1, 0, {0}), "a node that there is not");
  violates(std::string(16, '\0'), "size");
  World w;
  w.guest.map(at, kGranule);
  build(w, set_node(at, 0x61616161, 1));
  change(w, set_node(at + kGranule, 1, 1));
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_VALUE);
  launch(w);
  CHECK_EQUAL(w.guest.download(at, 4), "aaaa");
  wire_GraphEnable enable{};
  enable.exec = kExec;
  enable.node = 1;
  w.guest.put(WIRE_GraphEnable, enable);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_VALUE);
}

TEST(handles_of_graphs_are_checked) {
  const auto violates = [](uint64_t exec) {
    World w;
    build(w, empty_node(), exec);
    w.expect_violation("cannot be minted");
  };
  violates(0);
  violates(wire_handle(WIRE_KIND_STREAM, 1, 1));
  violates(wire_handle(WIRE_KIND_GRAPH_EXEC, 1, WIRE_HANDLE_INDEX_MAX));
  {
    World w;
    build(w, empty_node());
    build(w, empty_node());
    w.expect_violation("complete");
  }
  {
    World w;
    wire_GraphCondition ask{};
    ask.graph = wire_handle(WIRE_KIND_STREAM, 1, 1);
    w.guest.ask(WIRE_GraphCondition, ask);
    w.expect_violation("cannot be minted");
  }
  World w;
  launch(w);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_HANDLE);
  change(w, empty_node());
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_HANDLE);
  build(w, empty_node(), kExec, 0);
  launch(w);  // not complete
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_HANDLE);
  wire_GraphDestroy destroy{};
  destroy.exec = kExec;
  w.guest.put(WIRE_GraphDestroy, destroy);
  w.guest.put(WIRE_GraphDestroy, destroy);
  launch(w);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_HANDLE);
}

TEST(a_graph_does_not_outlive_its_kernels) {
  World w;
  w.load_kernels();
  build(w, kernel_node(function_handle(World::kNothing), ""));
  launch(w);
  CHECK_EQUAL(w.guest.synchronize().async, 0);
  wire_ModuleUnload unload{};
  unload.module = module_handle(0);
  w.guest.put(WIRE_ModuleUnload, unload);
  launch(w);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_HANDLE);
  CHECK_EQUAL(World::fake().calls("cuGraphLaunch"), 1u);
}

TEST(nodes_copy_arrays_while_they_are_there) {
  World w;
  const uint64_t at = World::base(), array = wire_handle(WIRE_KIND_ARRAY, 1, 1);
  const auto copy = [&](wire_graph_copy box, wire_graph_arrays arrays, uint32_t node = 0,
                        const std::vector<uint32_t> &before = {}) {
    return record(CU_GRAPH_NODE_TYPE_MEMCPY, packed(box) + packed(arrays), node, before);
  };
  w.guest.map(at, kGranule);
  create_array(w, array);
  w.guest.upload(at, "abcdefgh");
  // Two rows of three bytes to byte 2, row 1; from there on one row further back.
  const std::string in = copy({2, 1, 0, at, 4, 2, 3, 2, 1}, {array, 0});
  const std::string out = copy({at + 64, 3, 2, 2, 1, 0, 3, 2, 1}, {0, array}, 0, {0});
  build(w, in + out);
  launch(w);
  CHECK_EQUAL(w.guest.download(at + 64, 6), "abcefg");
  auto refused = [&, exec = kExec](const std::string &records, CUresult result) mutable {
    build(w, records, ++exec);
    CHECK_EQUAL(w.guest.synchronize().async, result);
  };
  refused(copy({6, 1, 0, at, 4, 2, 3, 2, 1}, {array, 0}), CUDA_ERROR_INVALID_VALUE);
  refused(copy({2, 3, 0, at, 4, 2, 3, 2, 1}, {array, 0}), CUDA_ERROR_INVALID_VALUE);
  refused(copy({UINT64_MAX, 1, 0, at, 4, 2, 3, 2, 1}, {array, 0}), CUDA_ERROR_INVALID_VALUE);
  refused(copy({2, 1, 0, at + kGranule, 4, 2, 3, 2, 1}, {array, 0}), CUDA_ERROR_INVALID_VALUE);
  refused(copy({2, 1, 0, at, 4, 2, 3, 2, 1}, {array + 1, 0}), CUDA_ERROR_INVALID_VALUE);
  // Changed to another array, the first may go.
  const uint64_t other = wire_handle(WIRE_KIND_ARRAY, 1, 2);
  create_array(w, other);
  change(w, copy({2, 1, 0, at, 4, 2, 3, 2, 1}, {other, 0}, 0));
  change(w, copy({at + 64, 3, 2, 2, 1, 0, 3, 2, 1}, {0, other}, 1));
  destroy_array(w, array);
  launch(w);
  CHECK_EQUAL(w.guest.synchronize().async, 0);
  CHECK_EQUAL(World::fake().calls("cuGraphLaunch"), 2u);
  destroy_array(w, other);
  launch(w);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_HANDLE);
  CHECK_EQUAL(World::fake().calls("cuGraphLaunch"), 2u);
  CHECK(w.end().reusable);
}

TEST(the_nodes_of_a_session_are_limited) {
  World w;
  const std::string thousand = [] {
    std::string all;
    for (int i = 0; i < 10000; i++) all += empty_node();
    return all;
  }();
  uint64_t sent = 0;
  for (uint32_t i = 1; sent <= session_limits.graph_nodes; i++, sent += 10000) {
    build(w, thousand, wire_handle(WIRE_KIND_GRAPH_EXEC, 1, i));
  }
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_OUT_OF_MEMORY);
  wire_GraphDestroy destroy{};
  destroy.exec = wire_handle(WIRE_KIND_GRAPH_EXEC, 1, 1);
  w.guest.put(WIRE_GraphDestroy, destroy);
  build(w, empty_node(), wire_handle(WIRE_KIND_GRAPH_EXEC, 1, 5000));
  CHECK_EQUAL(w.guest.synchronize().async, 0);
}

// Graphs of the same nodes, which are sent once.
TEST(graphs_of_the_same_nodes_are_limited) {
  World w;
  constexpr uint64_t kNodes = 1 << 14;
  wire_GraphCondition condition{};
  condition.graph = wire_handle(WIRE_KIND_GRAPH, 1, 1);
  CHECK_EQUAL(w.guest.call(WIRE_GraphCondition, condition).reply.result, CUDA_SUCCESS);
  const auto make = [&](uint32_t index, const std::string &nodes) {
    wire_GraphBuild q{};
    q.exec = wire_handle(WIRE_KIND_GRAPH_EXEC, 1, index);
    q.base = condition.graph;
    q.length = nodes.size();
    q.last = 1;
    w.guest.put(WIRE_GraphBuild, q, nodes);
    return w.guest.synchronize().async;
  };
  std::string nodes;
  for (uint64_t i = 0; i < kNodes; i++) nodes += empty_node();
  CHECK_EQUAL(make(0, nodes), 0);
  const uint64_t more = (session_limits.graph_nodes - 1 - kNodes) / (1 + kNodes);
  for (uint32_t i = 1; i <= more; i++) CHECK_EQUAL(make(i, ""), 0);
  CHECK_EQUAL(make(2000, ""), CUDA_ERROR_OUT_OF_MEMORY);
  wire_GraphDestroy destroy{};
  destroy.exec = wire_handle(WIRE_KIND_GRAPH_EXEC, 1, 1);
  w.guest.put(WIRE_GraphDestroy, destroy);
  CHECK_EQUAL(make(2001, ""), 0);
}

TEST(a_refusing_driver_leaves_nothing) {
  const uint64_t at = World::base();
  for (const char *function : {"cuGraphCreate", "cuGraphAddNode_v2", "cuGraphInstantiateWithFlags",
                               "cuGraphChildGraphNodeGetGraph"}) {
    World w;
    w.guest.map(at, kGranule);
    World::fake().fail(function, CUDA_ERROR_OUT_OF_MEMORY, 0);
    build(w, record(CU_GRAPH_NODE_TYPE_GRAPH, "") + set_node(at, 1, 1, 1));
    CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_OUT_OF_MEMORY);
    launch(w);
    CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_HANDLE);
  }
}

TEST(launches_of_graphs_pass_the_gate) {
  World w;
  w.load_kernels();
  build(w, kernel_node(function_handle(World::kNothing), "") +
               kernel_node(function_handle(World::kNothing), ""));
  launch(w);
  w.guest.synchronize();
  CHECK_EQUAL(World::quota_page().words().launches.load(), 1u);
  CHECK_EQUAL(World::quota_page().words().blocks.load(), 2u);
}

TEST(launches_of_a_changed_graph_count_the_blocks_that_it_has_now) {
  World w;
  w.load_kernels();
  const uint64_t nothing = function_handle(World::kNothing);
  uint64_t counted = 0;
  const auto blocks = [&] {
    launch(w);
    CHECK_EQUAL(w.guest.synchronize().async, 0);
    const uint64_t before = counted;
    counted = World::quota_page().words().blocks.load();
    return counted - before;
  };
  build(w, kernel_node(nothing, "", 3) + kernel_node(nothing, "", 5));
  CHECK_EQUAL(blocks(), 8u);
  change(w, kernel_node(nothing, "", 1000));
  CHECK_EQUAL(blocks(), 1005u);
  change(w, kernel_node(nothing, "", 2));
  CHECK_EQUAL(blocks(), 7u);
  // What the driver refuses changes nothing.
  World::fake().fail("cuGraphExecNodeSetParams", CUDA_ERROR_INVALID_VALUE, 0);
  change(w, kernel_node(nothing, "", 9));
  launch(w);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_VALUE);
  CHECK_EQUAL(World::quota_page().words().blocks.load() - counted, 7u);
}

TEST(an_array_that_has_another_ones_handle_is_another) {
  World w;
  const uint64_t at = World::base();
  const auto handle = [](uint32_t generation) {
    return wire_handle(WIRE_KIND_ARRAY, generation, 1);
  };
  w.guest.map(at, kGranule);
  create_array(w, handle(1));
  build(w, record(CU_GRAPH_NODE_TYPE_MEMCPY, packed(wire_graph_copy{2, 1, 0, at, 4, 2, 3, 2, 1}) +
                                                 packed(wire_graph_arrays{handle(1), 0})));
  launch(w);
  CHECK_EQUAL(w.guest.synchronize().async, 0);
  // Only the last number of an index cannot be minted again.
  destroy_array(w, handle(1));
  create_array(w, handle(2));
  destroy_array(w, handle(2));
  create_array(w, handle(1));
  launch(w);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_HANDLE);
  CHECK_EQUAL(World::fake().calls("cuGraphLaunch"), 1u);
}

TEST(a_graph_whose_module_is_gone_is_not_changed) {
  World w;
  w.load_kernels();
  build(w, kernel_node(function_handle(World::kNothing), "") +
               kernel_node(function_handle(World::kNothing), ""));
  CHECK_EQUAL(w.guest.synchronize().async, 0);
  wire_ModuleUnload unload{};
  unload.module = module_handle(0);
  w.guest.put(WIRE_ModuleUnload, unload);
  change(w, kernel_node(function_handle(World::kNothing), ""));
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_HANDLE);
  wire_GraphEnable enable{};
  enable.exec = kExec;
  w.guest.put(WIRE_GraphEnable, enable);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_HANDLE);
  CHECK_EQUAL(World::fake().calls("cuGraphExecNodeSetParams"), 0u);
  CHECK_EQUAL(World::fake().calls("cuGraphNodeSetEnabled"), 0u);
}

TEST(a_condition_has_a_handle_that_was_made_for_its_graph) {
  World w;
  wire_graph_condition condition{};
  condition.handle = 0x4141414141414141;
  condition.kind = CU_GRAPH_COND_TYPE_IF;
  condition.bodies = 1;
  build(w, record(CU_GRAPH_NODE_TYPE_CONDITIONAL, packed(condition)));
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_VALUE);
  CHECK_EQUAL(World::fake().calls("cuGraphAddNode_v2"), 0u);
}
