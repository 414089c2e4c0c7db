// What a session may have of each kind (session_limits.h): at the end of each all is well, one more
// is refused as docs/limits.md says, what was there is as it was, and what goes makes room. Limits
// are made small for that; that docs/limits.md tells the real ones is the last test's matter.
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "base/session_limits.h"
#include "check.h"
#include "device/output.h"
#include "wire/receiver.h"
#include "wire_graph.h"
#include "world.h"

using namespace outboard;

namespace {

constexpr uint64_t kGranule = WIRE_GRANULE;
constexpr uint32_t kFew = 4;

// `make` makes the one of a number and says what came of it, `end` ends it.
template <class Make, class End>
void reach(Make make, End end, CUresult beyond = CUDA_ERROR_OUT_OF_MEMORY) {
  for (uint32_t i = 1; i <= kFew; i++) CHECK_EQUAL(make(i), CUDA_SUCCESS);
  CHECK_EQUAL(make(kFew + 1), beyond);
  CHECK_EQUAL(make(kFew + 2), beyond);
  end(2);
  CHECK_EQUAL(make(kFew + 3), CUDA_SUCCESS);
  CHECK_EQUAL(make(kFew + 4), beyond);
}

// What came of what was posted.
CUresult posted(World &w) { return static_cast<CUresult>(w.guest.synchronize().async); }
CUresult result_of(const Answer &answer) { return static_cast<CUresult>(answer.reply.result); }

uint64_t stream_handle(uint32_t i) { return wire_handle(WIRE_KIND_STREAM, 1, i); }
uint64_t event_handle(uint32_t i) { return wire_handle(WIRE_KIND_EVENT, 1, i); }
uint64_t memory_handle(uint32_t i) { return wire_handle(WIRE_KIND_MEMORY, 1, i); }
uint64_t array_handle(uint32_t i) { return wire_handle(WIRE_KIND_ARRAY, 1, i); }
uint64_t exec_handle(uint32_t i) { return wire_handle(WIRE_KIND_GRAPH_EXEC, 1, i); }
uint64_t link_handle(uint32_t i) { return wire_handle(WIRE_KIND_LINK, 1, i); }

uint64_t stream(World &w, uint32_t i) { return w.guest.stream(i, CU_STREAM_NON_BLOCKING); }

void create_array(World &w, uint32_t i) {
  wire_ArrayCreate q{};
  q.array = array_handle(i);
  q.width = 16;
  q.format = CU_AD_FORMAT_UNSIGNED_INT8;
  q.channels = 4;
  w.guest.put(WIRE_ArrayCreate, q);
}

void destroy_array(World &w, uint32_t i) {
  wire_ArrayDestroy q{};
  q.array = array_handle(i);
  w.guest.put(WIRE_ArrayDestroy, q);
}

CUresult create_memory(World &w, uint32_t i, bool shareable = false) {
  wire_MemoryCreate q{};
  q.memory = memory_handle(i);
  q.size = kGranule;
  q.shareable = shareable;
  w.guest.put(WIRE_MemoryCreate, q);
  return posted(w);
}

void release_memory(World &w, uint32_t i) {
  wire_MemoryRelease q{};
  q.memory = memory_handle(i);
  w.guest.put(WIRE_MemoryRelease, q);
}

CUresult export_event(World &w, uint32_t i) {
  w.guest.event(i);
  wire_EventExport q{};
  q.event = event_handle(i);
  return result_of(w.guest.call(WIRE_EventExport, q));
}

void destroy_event(World &w, uint32_t i) {
  wire_cuEventDestroy_v2 q{};
  q.hEvent = event_handle(i);
  w.guest.put(WIRE_cuEventDestroy_v2, q);
}

// Part of an image that never comes whole.
void begin_image(World &w, uint64_t number, uint64_t total, uint64_t offset = 0) {
  wire_ModulePiece q{};
  q.hash0 = number;
  q.total = total;
  q.offset = offset;
  q.length = 8;
  w.guest.put(WIRE_ModulePiece, q, std::string(8, 'x'));
}

// Nodes that do nothing, each after so many others.
std::string empty_nodes(uint32_t count, uint32_t edges = 0) {
  std::string all;
  for (uint32_t i = 0; i < count; i++) {
    wire_graph_node head{};
    head.type = CU_GRAPH_NODE_TYPE_EMPTY;
    head.edges = i == 0 ? 0 : edges;
    head.size = static_cast<uint32_t>(sizeof head + head.edges * sizeof(wire_graph_edge));
    all += packed(head);
    for (uint32_t e = 0; e < head.edges; e++) all += packed(wire_graph_edge{0, 0, 0, 0, 0});
  }
  return all;
}

CUresult build(World &w, uint32_t i, const std::string &nodes, uint64_t base = 0) {
  wire_GraphBuild q{};
  q.exec = exec_handle(i);
  q.base = base;
  q.length = nodes.size();
  q.last = 1;
  w.guest.put(WIRE_GraphBuild, q, nodes);
  return posted(w);
}

void destroy_graph(World &w, uint32_t i) {
  wire_GraphDestroy q{};
  q.exec = exec_handle(i);
  w.guest.put(WIRE_GraphDestroy, q);
}

// More than there is pinned memory for: the rest goes by a stream aside.
constexpr uint64_t kLarge = 80 << 20;

}  // namespace

TEST(streams_are_limited) {
  session_limits.streams = kFew;
  World w;
  reach([&](uint32_t i) { return stream(w, i), posted(w); },
        [&](uint32_t i) {
          wire_cuStreamDestroy_v2 q{};
          q.hStream = stream_handle(i);
          w.guest.put(WIRE_cuStreamDestroy_v2, q);
        });
  CHECK_EQUAL(result_of(w.guest.wait(w.guest.ask_synchronize_stream(stream_handle(1)))),
              CUDA_SUCCESS);
}

TEST(side_streams_are_limited) {
  session_limits.side_streams = 1;
  WorldOptions options;
  options.memory = 2 * kLarge;
  World w(options);
  const uint64_t at = World::base();
  w.load_kernels();
  w.guest.map(at, kLarge);
  w.guest.memset32(at, 0x61616161, kLarge / 4);
  const uint64_t first = stream(w, 1), second = stream(w, 2);
  w.gate(1, first);
  w.gate(1, second);
  const uint64_t waits = w.guest.ask_download(at, kLarge, first);
  CHECK_EQUAL(result_of(w.guest.wait(w.guest.ask_download(at, kLarge, second))),
              CUDA_ERROR_OUT_OF_MEMORY);
  World::fake().open_gate(1);
  CHECK(w.guest.wait(waits).data == std::string(kLarge, 'a'));
  CHECK(w.guest.download(at, kLarge, second) == std::string(kLarge, 'a'));
}

TEST(downloads_are_limited) {
  session_limits.downloads = kFew;
  World w;
  const uint64_t at = World::base();
  w.load_kernels();
  w.guest.map(at, kGranule);
  w.guest.upload(at, "abcd");
  const uint64_t held = stream(w, 1);
  w.gate(1, held);
  std::vector<uint64_t> waiting;
  for (uint32_t i = 0; i < kFew; i++) waiting.push_back(w.guest.ask_download(at, 4, held));
  for (int i = 0; i < 2; i++) {
    CHECK_EQUAL(result_of(w.guest.wait(w.guest.ask_download(at, 4, held))),
                CUDA_ERROR_OUT_OF_MEMORY);
  }
  World::fake().open_gate(1);
  for (uint64_t each : waiting) CHECK_EQUAL(w.guest.wait(each).data, "abcd");
  CHECK_EQUAL(w.guest.download(at, 4, held), "abcd");
}

TEST(events_are_limited) {
  session_limits.events = kFew;
  World w;
  reach([&](uint32_t i) { return w.guest.event(i), posted(w); },
        [&](uint32_t i) { destroy_event(w, i); });
}

TEST(queries_are_limited) {
  session_limits.queries = kFew;
  World w;
  w.load_kernels();
  const uint64_t held = stream(w, 1);
  w.gate(1, held);
  wire_cuStreamQuery q{};
  q.hStream = held;
  const auto ask = [&] { return result_of(w.guest.call(WIRE_cuStreamQuery, q)); };
  for (uint32_t i = 0; i < kFew; i++) CHECK_EQUAL(ask(), CUDA_ERROR_NOT_READY);
  World::fake().open_gate(1);
  for (uint32_t i = 0; i < kFew; i++) w.guest.next(WIRE_DONE);
  CHECK_EQUAL(ask(), CUDA_SUCCESS);
  w.gate(2, held);
  for (uint32_t i = 0; i <= kFew; i++) CHECK_EQUAL(ask(), CUDA_ERROR_NOT_READY);
  while (w.session->counters()->violations.load() == 0) std::this_thread::yield();
  World::fake().open_gate(2);
  w.expect_violation("more queries");
}

TEST(stream_marks_are_limited) {
  session_limits.stream_marks = kFew;
  World w;
  w.load_kernels();
  const uint64_t held = stream(w, 1);
  w.gate(1, held);
  wire_StreamMark q{};
  q.stream = held;
  const auto mark = [&] { w.guest.put(WIRE_StreamMark, q); };
  for (uint32_t i = 0; i < kFew; i++) mark();
  World::fake().open_gate(1);
  for (uint32_t i = 0; i < kFew; i++) w.guest.next(WIRE_PASSED);
  while (w.session->stream_marks().count() != 0) std::this_thread::yield();
  mark();
  w.guest.next(WIRE_PASSED);
  while (w.session->stream_marks().count() != 0) std::this_thread::yield();
  w.gate(2, held);
  for (uint32_t i = 0; i <= kFew; i++) mark();
  while (w.session->counters()->violations.load() == 0) std::this_thread::yield();
  World::fake().open_gate(2);
  w.expect_violation("more marks");
}

// The oldest are forgotten, which have mostly been met; the guest is gone, and nobody else meets
// the others.
TEST(awaited_values_are_limited) {
  session_limits.awaited_values = kFew;
  World w;
  const uint64_t at = World::base();
  w.guest.map(at, kGranule);
  const auto put = [&](uint64_t stream, uint32_t operation, uint32_t place) {
    const wire_value value{operation, CU_STREAM_WAIT_VALUE_EQ, at + 4 * place, 7};
    wire_StreamValues q{};
    q.stream = stream;
    q.values_size = sizeof value;
    w.guest.put(WIRE_StreamValues, q, packed(value));
  };
  w.guest.memset32(at, 7, 1);
  put(stream(w, 100), CU_STREAM_MEM_OP_WAIT_VALUE_32, 0);
  for (uint32_t i = 1; i <= kFew; i++) put(stream(w, i), CU_STREAM_MEM_OP_WAIT_VALUE_32, i);
  CHECK_EQUAL(result_of(w.guest.wait(w.guest.ask_synchronize_stream(stream_handle(100)))),
              CUDA_SUCCESS);
  CHECK(w.end().reusable);
}

TEST(host_functions_are_limited) {
  session_limits.host_functions = kFew;
  World w;
  CUDA_HOST_NODE_PARAMS node{};
  for (uint32_t i = 0; i < kFew; i++) CHECK(w.session->host_functions().node(i, &node));
  CHECK(!w.session->host_functions().node(9, &node));
  wire_HostFunction q{};
  w.guest.put(WIRE_HostFunction, q);
  CHECK_EQUAL(posted(w), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST(a_guest_may_ask_whether_there_is_memory) {
  WorldOptions options;
  options.memory = 8 * WIRE_GRANULE;
  World w(options);
  const auto room = [&](uint64_t size) {
    wire_MemoryRoom q{};
    q.size = size;
    return result_of(w.guest.call(WIRE_MemoryRoom, q));
  };
  CHECK_EQUAL(room(8 * WIRE_GRANULE), CUDA_SUCCESS);
  CHECK_EQUAL(room(8 * WIRE_GRANULE + 1), CUDA_ERROR_OUT_OF_MEMORY);
  w.guest.map(World::base(), 6 * WIRE_GRANULE);
  CHECK_EQUAL(room(2 * WIRE_GRANULE), CUDA_SUCCESS);
  CHECK_EQUAL(room(3 * WIRE_GRANULE), CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_EQUAL(room(UINT64_MAX), CUDA_ERROR_OUT_OF_MEMORY);
  // What is still being overwritten counts until it is there again, and is waited for.
  w.guest.unmap(World::base(), 6 * WIRE_GRANULE);
  CHECK_EQUAL(room(8 * WIRE_GRANULE), CUDA_SUCCESS);
  World::fake().fail("cuMemGetInfo_v2", CUDA_ERROR_UNKNOWN, 0);
  CHECK_EQUAL(room(WIRE_GRANULE), CUDA_ERROR_UNKNOWN);
}

TEST(modules_are_limited) {
  session_limits.modules = kFew;
  World w;
  const std::string image = Guest::image("kernel one\n");
  const auto unload = [&](uint32_t i) {
    wire_ModuleUnload q{};
    q.module = module_handle(i);
    w.guest.put(WIRE_ModuleUnload, q);
  };
  reach([&](uint32_t i) { return result_of(w.guest.load(module_handle(i), image)); }, unload);
}

// What the driver has not unloaded yet, as the guest's function holds it up, is still there.
TEST(modules_that_are_on_their_way_out_count) {
  session_limits.modules = kFew;
  World w;
  const std::string image = Guest::image("kernel one\n");
  const auto load = [&](uint32_t i) { return result_of(w.guest.load(module_handle(i), image)); };
  for (uint32_t i = 1; i <= kFew; i++) CHECK_EQUAL(load(i), CUDA_SUCCESS);
  const uint64_t memory = w.session->counters()->module_memory.load();
  wire_HostFunction function{};
  function.stream = stream(w, 1);
  w.guest.put(WIRE_HostFunction, function);
  wire_HostFunctionDone done{};
  done.call = w.guest.next(WIRE_CALL).as<wire_call>().call;
  World::fake().hold("cuLibraryUnload", 77, 0);
  wire_ModuleUnload q{};
  q.module = module_handle(1);
  w.guest.put(WIRE_ModuleUnload, q);
  CHECK_EQUAL(load(kFew + 1), CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_EQUAL(w.session->counters()->module_memory.load(), memory);
  World::fake().open_gate(77);
  w.guest.put(WIRE_HostFunctionDone, done);
  while (load(kFew + 1) != CUDA_SUCCESS) std::this_thread::yield();
}

// Drivers do not copy the images of what they have loaded.
TEST(images_of_modules_are_limited) {
  const std::string image = Guest::image("kernel one\n");
  WorldOptions options;
  options.images = kFew * image.size();
  World w(options);
  const auto load = [&](uint32_t i) { return result_of(w.guest.load(module_handle(i), image)); };
  reach(load, [&](uint32_t i) {
    wire_ModuleUnload q{};
    q.module = module_handle(i);
    w.guest.put(WIRE_ModuleUnload, q);
  });
  CHECK_EQUAL(result_of(w.guest.call(WIRE_ContextReset, wire_ContextReset{})), CUDA_SUCCESS);
  for (uint32_t i = 21; i <= 20 + kFew; i++) CHECK_EQUAL(load(i), CUDA_SUCCESS);
  CHECK_EQUAL(load(30), CUDA_ERROR_OUT_OF_MEMORY);
}

// ... and of those that wait until others are loaded.
TEST(images_that_wait_to_be_loaded_are_limited) {
  const std::string image = Guest::image("kernel one\n");
  WorldOptions options;
  options.images = 2 * image.size();
  World w(options);
  World::fake().hold("cuLibraryLoadData", 5, 0);
  uint64_t requests[3];
  for (uint32_t i = 0; i < 3; i++) {
    w.guest.send_image(image);
    requests[i] = w.guest.ask(WIRE_ModuleLoad, w.guest.load_command(module_handle(i + 1), image));
  }
  CHECK_EQUAL(result_of(w.guest.wait(requests[2])), CUDA_ERROR_OUT_OF_MEMORY);
  World::fake().open_gate(5);
  CHECK_EQUAL(result_of(w.guest.wait(requests[0])), CUDA_SUCCESS);
  CHECK_EQUAL(result_of(w.guest.wait(requests[1])), CUDA_SUCCESS);
}

TEST(coming_images_are_limited) {
  session_limits.coming_images = kFew;
  World w;
  for (uint32_t i = 1; i < kFew; i++) begin_image(w, i, 100);
  CHECK_EQUAL(result_of(w.guest.load(module_handle(1), Guest::image("kernel one\n"))),
              CUDA_SUCCESS);
  begin_image(w, kFew, 100);
  CHECK_EQUAL(posted(w), CUDA_SUCCESS);
  begin_image(w, kFew + 1, 100);
  w.expect_violation("more images");
}

TEST(coming_bytes_are_limited) {
  session_limits.coming_bytes = 1000;
  World w;
  begin_image(w, 1, 500);
  begin_image(w, 2, 500);
  CHECK_EQUAL(posted(w), CUDA_SUCCESS);
  begin_image(w, 3, 8);
  w.expect_violation("larger than allowed");
}

// The guest asks before it sends a large one, and so hears of it by the load.
TEST(an_image_that_could_not_come_is_refused_when_it_is_asked_for) {
  session_limits.coming_bytes = 1000;
  World w;
  const std::string image = Guest::image(std::string(1000, ' '));
  const Answer loaded =
      w.guest.call(WIRE_ModuleLoad, w.guest.load_command(module_handle(1), image));
  CHECK_EQUAL(result_of(loaded), CUDA_ERROR_OUT_OF_MEMORY);
  const Answer opened =
      w.guest.call(WIRE_ModuleOpen, w.guest.open_command(module_handle(1), image));
  const auto &reply = opened.frame.as<wire_ModuleOpen_reply>();
  CHECK_EQUAL(reply.state, WIRE_MODULE_REFUSED);
  CHECK_EQUAL(reply.refused, CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_EQUAL(result_of(w.guest.load(module_handle(1), Guest::image("kernel one\n"))),
              CUDA_SUCCESS);
}

TEST(coming_fragments_are_limited) {
  session_limits.coming_fragments = kFew;
  World w;
  for (uint32_t i = 0; i < kFew; i++) begin_image(w, 1, 1000, 100 * i);
  begin_image(w, 1, 1000, 8);  // beside one that is there
  CHECK_EQUAL(posted(w), CUDA_SUCCESS);
  begin_image(w, 1, 1000, 100 * kFew);
  w.expect_violation("more fragments");
}

TEST(link_bytes_are_limited) {
  const std::string image = Guest::image("kernel k\n", WIRE_IMAGE_INPUT);
  session_limits.link_bytes = 2 * image.size();
  World w;
  const auto create = [&](uint32_t i) {
    wire_LinkCreate q{};
    q.link = link_handle(i);
    w.guest.put(WIRE_LinkCreate, q);
  };
  const auto add = [&](uint32_t i) {
    const wire_ModuleLoad named = w.guest.load_command(0, image);
    wire_LinkAdd q{};
    q.link = link_handle(i);
    q.hash0 = named.hash0, q.hash1 = named.hash1, q.hash2 = named.hash2, q.hash3 = named.hash3;
    q.total = named.total;
    q.type = CU_JIT_INPUT_PTX;
    w.guest.send_image(image);
    return result_of(w.guest.call(WIRE_LinkAdd, q));
  };
  create(1);
  create(2);
  CHECK_EQUAL(add(1), CUDA_SUCCESS);
  CHECK_EQUAL(add(2), CUDA_SUCCESS);
  CHECK_EQUAL(add(1), CUDA_ERROR_OUT_OF_MEMORY);
  wire_LinkDestroy q{};
  q.link = link_handle(1);
  w.guest.put(WIRE_LinkDestroy, q);
  // Once its last step has ended, too.
  while (add(2) != CUDA_SUCCESS) std::this_thread::yield();
  CHECK_EQUAL(add(2), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST(graph_nodes_are_limited) {
  session_limits.graph_nodes = 10 * kFew;
  World w;
  // A graph counts as one.
  reach([&](uint32_t i) { return build(w, i, empty_nodes(9)); },
        [&](uint32_t i) { destroy_graph(w, i); });
}

TEST(handles_of_conditions_count_as_nodes) {
  session_limits.graph_nodes = 10;
  World w;
  wire_GraphCondition q{};
  q.graph = wire_handle(WIRE_KIND_GRAPH, 1, 1);
  const auto make = [&] { return result_of(w.guest.call(WIRE_GraphCondition, q)); };
  for (int i = 0; i < 9; i++) CHECK_EQUAL(make(), CUDA_SUCCESS);
  CHECK_EQUAL(make(), CUDA_ERROR_OUT_OF_MEMORY);
  wire_GraphForget forget{};
  forget.graph = q.graph;
  w.guest.put(WIRE_GraphForget, forget);
  q.graph = wire_handle(WIRE_KIND_GRAPH, 1, 2);
  CHECK_EQUAL(make(), CUDA_SUCCESS);
}

// A driver keeps a node's edges and parameters, too.
TEST(long_nodes_count_more_than_once) {
  session_limits.graph_nodes = 1000;
  World w;
  CHECK_EQUAL(build(w, 1, empty_nodes(100, 8)), CUDA_SUCCESS);
  CHECK_EQUAL(build(w, 2, empty_nodes(100, 800)), CUDA_ERROR_OUT_OF_MEMORY);
  destroy_graph(w, 2);
  CHECK_EQUAL(build(w, 3, empty_nodes(100, 8)), CUDA_SUCCESS);
}

// Nor does it help to make them long when the graph is there.
TEST(nodes_that_become_long_count_more_than_before) {
  session_limits.graph_nodes = 100;
  World w;
  w.guest.map(World::base(), kGranule);
  const auto node = [](uint32_t count) {
    const wire_graph_value value{CU_STREAM_MEM_OP_WRITE_VALUE_32, 0, World::base(), 7};
    wire_graph_node head{};
    head.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    wire_graph_values values{};
    values.count = count;
    std::string all = packed(values);
    for (uint32_t i = 0; i < count; i++) all += packed(value);
    head.size = static_cast<uint32_t>(sizeof head + all.size());
    return packed(head) + all;
  };
  const auto change = [&](uint32_t i, uint32_t count) {
    const std::string record = node(count);
    wire_GraphSet q{};
    q.exec = exec_handle(i);
    q.length = record.size();
    w.guest.put(WIRE_GraphSet, q, record);
    return posted(w);
  };
  std::string many;
  for (int i = 0; i < 40; i++) many += node(1);
  CHECK_EQUAL(build(w, 1, many), CUDA_SUCCESS);
  CHECK_EQUAL(build(w, 2, many), CUDA_SUCCESS);
  CHECK_EQUAL(change(1, 200), CUDA_SUCCESS);
  CHECK_EQUAL(change(1, 1), CUDA_SUCCESS);
  CHECK_EQUAL(change(1, 200), CUDA_SUCCESS);
  CHECK_EQUAL(change(2, 200), CUDA_ERROR_OUT_OF_MEMORY);
  destroy_graph(w, 1);
  CHECK_EQUAL(change(2, 200), CUDA_SUCCESS);
}

TEST(arrays_are_limited) {
  session_limits.arrays = kFew;
  World w;
  reach([&](uint32_t i) { return create_array(w, i), posted(w); },
        [&](uint32_t i) {
          World::fake().hold("cuArrayDestroy", 77, 0);
          destroy_array(w, i);
          // It counts until it is the device's again.
          create_array(w, 100);
          CHECK_EQUAL(posted(w), CUDA_ERROR_OUT_OF_MEMORY);
          World::fake().open_gate(77);
          while (w.session->arrays().count() == kFew) std::this_thread::yield();
        });
}

TEST(textures_are_limited) {
  session_limits.textures = kFew;
  World w;
  create_array(w, 1);
  std::vector<uint64_t> objects{0};
  reach(
      [&](uint32_t) {
        wire_SurfaceCreate q{};
        q.array = array_handle(1);
        const Answer answer = w.guest.call(WIRE_SurfaceCreate, q);
        objects.push_back(answer.frame.as<wire_SurfaceCreate_reply>().object);
        return result_of(answer);
      },
      [&](uint32_t i) {
        wire_TextureDestroy q{};
        q.object = objects[i];
        w.guest.put(WIRE_TextureDestroy, q);
      });
}

TEST(physicals_are_limited) {
  session_limits.physicals = kFew;
  World w;
  reach([&](uint32_t i) { return create_memory(w, i); }, [&](uint32_t i) { release_memory(w, i); });
}

TEST(placed_are_limited) {
  session_limits.placed = kFew;
  World w;
  const uint64_t at = World::base();
  CHECK_EQUAL(create_memory(w, 1), CUDA_SUCCESS);
  reach(
      [&](uint32_t i) {
        wire_MemoryPlace q{};
        q.address = at + i * kGranule;
        q.size = kGranule;
        q.memory = memory_handle(1);
        w.guest.put(WIRE_MemoryPlace, q);
        return posted(w);
      },
      [&](uint32_t i) {
        wire_MemoryDisplace q{};
        q.address = at + i * kGranule;
        q.size = kGranule;
        CHECK_EQUAL(result_of(w.guest.call(WIRE_MemoryDisplace, q)), CUDA_SUCCESS);
      });
}

TEST(shareable_are_limited) {
  session_limits.shareable = kFew;
  World w;
  reach([&](uint32_t i) { return create_memory(w, i, true); },
        [&](uint32_t i) { release_memory(w, i); });
  CHECK_EQUAL(create_memory(w, 100, false), CUDA_SUCCESS);
}

// What is mapped becomes shareable when it is exported: a file stands behind it from then on.
TEST(exported_mappings_count_as_shareable) {
  session_limits.shareable = kFew;
  World w;
  const auto place = [](uint32_t i) { return World::base() + i * kGranule; };
  reach(
      [&](uint32_t i) {
        w.guest.map(place(i), kGranule);
        w.guest.upload(place(i), "kept");
        wire_MemoryExport q{};
        q.address = place(i);
        q.size = q.length = kGranule;
        const CUresult result = result_of(w.guest.call(WIRE_MemoryExport, q));
        CHECK_EQUAL(w.guest.download(place(i), 4), "kept");
        // A second time it is no other piece of memory.
        if (result == CUDA_SUCCESS) {
          CHECK_EQUAL(result_of(w.guest.call(WIRE_MemoryExport, q)), CUDA_SUCCESS);
        }
        return result;
      },
      [&](uint32_t i) { w.guest.unmap(place(i), kGranule); });
}

// Beyond it memory is there, but peers cannot have it.
TEST(lendable_are_limited) {
  session_limits.lendable = kFew;
  WorldOptions options;
  options.tenant = "a";
  options.group = 9;
  World w(options);
  const auto place = [](uint32_t i) { return World::base() + i * kGranule; };
  reach(
      [&](uint32_t i) {
        w.guest.map(place(i), kGranule);
        CHECK_EQUAL(posted(w), CUDA_SUCCESS);
        wire_PeerLend q{};
        q.address = place(i);
        q.size = kGranule;
        q.loan = i;
        w.guest.put(WIRE_PeerLend, q);
        return posted(w);
      },
      [&](uint32_t i) { w.guest.unmap(place(i), kGranule); });
}

TEST(offers_are_limited) {
  session_limits.offers = kFew;
  World w;
  reach([&](uint32_t i) { return export_event(w, i); }, [&](uint32_t i) { destroy_event(w, i); },
        CUDA_ERROR_OPERATING_SYSTEM);
  CHECK_EQUAL(result_of(w.guest.call(WIRE_ContextReset, wire_ContextReset{})), CUDA_SUCCESS);
  for (uint32_t i = 21; i <= 20 + kFew; i++) CHECK_EQUAL(export_event(w, i), CUDA_SUCCESS);
}

TEST(kernel_names_are_limited) {
  session_limits.kernel_names = kFew;
  KernelTimes times;
  for (uint32_t i = 0; i < kFew; i++) {
    CHECK_EQUAL(times.find(std::to_string(i))->name(), std::to_string(i));
  }
  CHECK_EQUAL(times.find("x")->name(), "(others)");
  CHECK_EQUAL(times.find("y")->name(), "(others)");
  CHECK_EQUAL(times.find("0")->name(), "0");
}

TEST(kernel_name_bytes_are_limited) {
  session_limits.kernel_name_bytes = 100;
  KernelTimes times;
  const std::string name(50, 'k');
  CHECK_EQUAL(times.find(name + name)->name(), name + name);
  CHECK_EQUAL(times.find("x")->name(), "(others)");
  CHECK_EQUAL(times.find(name + name)->name(), name + name);
}

TEST(printed_bytes_are_limited) {
  session_limits.printed_bytes = 100;
  Output &output = Output::install();
  output.skip();
  const auto all = [&] {
    char text[1000];
    return std::string(text, output.read(text, sizeof text));
  };
  const std::string most(100, 'x');
  fwrite(most.data(), 1, 100, stdout);
  CHECK_EQUAL(all(), most);
  // One more, and the oldest is lost.
  fwrite(most.data(), 1, 100, stdout);
  fwrite("y", 1, 1, stdout);
  CHECK_EQUAL(all(), most.substr(1) + "y");
  printf("nobody's");
  output.skip();
  CHECK_EQUAL(all(), "");
}

TEST(assertion_bytes_are_limited) {
  Output &output = Output::install();
  const std::string line = "a.cu:1: f: block: [0,0,0], thread: [0,0,0] Assertion `false` failed.\n";
  session_limits.assertion_bytes = 2 * line.size();
  for (int i = 0; i < 2; i++) fputs(line.c_str(), stderr);
  fputs(("b" + line).c_str(), stderr);
  CHECK_EQUAL(output.take_assertions(), line + line);
  fputs(line.c_str(), stderr);
  CHECK_EQUAL(output.take_assertions(), line);
}

// Beyond it uploads wait for the device.
TEST(upload_chunks_are_limited) {
  // More than the device keeps for all sessions.
  session_limits.upload_chunks = 66;
  World w;
  const uint64_t at = World::base();
  const std::string data = pattern(80 << 20);
  w.load_kernels();
  w.guest.map(at, data.size());
  const uint64_t held = stream(w, 1);
  w.gate(1, held);
  CHECK_EQUAL(result_of(w.guest.call(WIRE_Acknowledge, wire_Acknowledge{})), CUDA_SUCCESS);
  const unsigned waits = World::fake().calls("cuEventSynchronize");
  const unsigned before = World::fake().live().pinned;
  unsigned there = 0;
  std::thread opens([&] {
    while (World::fake().calls("cuEventSynchronize") == waits) std::this_thread::yield();
    there = World::fake().live().pinned;
    World::fake().open_gate(1);
  });
  w.guest.upload(at, data, held);
  CHECK(w.guest.download(at, data.size(), held) == data);
  opens.join();
  CHECK_EQUAL(there - before, 66u - 8);
}

// Beyond it the session is as before, but for that it cannot be moved.
TEST(recipe_bytes_are_limited) {
  session_limits.recipe_bytes = 4096;
  World w;
  const Counter &hindrances = w.session->counters()->hindrances;
  uint32_t made = 0;
  while (hindrances.load() == 0 && made < 200) {
    stream(w, ++made);
    CHECK_EQUAL(posted(w), CUDA_SUCCESS);
  }
  CHECK_EQUAL(hindrances.load(), bit_of(Hindrance::kManyObjects));
  CHECK(made > 10 && made < 100);
  stream(w, ++made);
  CHECK_EQUAL(posted(w), CUDA_SUCCESS);
  w.guest.call(WIRE_ContextReset, wire_ContextReset{});
  CHECK_EQUAL(hindrances.load(), 0u);
}

// Beyond these the session is as before, but for that it cannot be moved.
TEST(loads_are_limited) {
  session_limits.loads = 4;
  World w;
  const Counter &hindrances = w.session->counters()->hindrances;
  for (uint32_t i = 1; i <= 4; i++)
    w.guest.load(module_handle(i), Guest::image("kernel k" + std::to_string(i) + "\n"));
  CHECK_EQUAL(hindrances.load(), 0u);
  CHECK_EQUAL(w.guest.load(module_handle(5), Guest::image("kernel k5\n")).reply.result,
              CUDA_SUCCESS);
  CHECK_EQUAL(hindrances.load(), bit_of(Hindrance::kManyObjects));
  w.guest.call(WIRE_ContextReset, wire_ContextReset{});
  CHECK_EQUAL(hindrances.load(), 0u);
}

TEST(unloaded_bytes_are_limited) {
  session_limits.unloaded_bytes = 4096;
  World w;
  const Counter &hindrances = w.session->counters()->hindrances;
  const auto unload = [&](uint32_t index) {
    wire_ModuleUnload q{};
    q.module = module_handle(index);
    w.guest.put(WIRE_ModuleUnload, q);
    w.guest.synchronize();
  };
  // What is loaded and unloaded at once leaves nothing to remember.
  for (uint32_t i = 1; i <= 20; i++) {
    w.guest.load(module_handle(i), Guest::image("kernel a" + std::string(1000, 'x') + "\n"));
    unload(i);
  }
  CHECK_EQUAL(hindrances.load(), 0u);
  uint32_t unloaded = 0;
  for (uint32_t i = 21; hindrances.load() == 0 && i <= 40; i++) {
    w.guest.load(module_handle(i), Guest::image("kernel b" + std::string(1000, 'x') + "\n"));
    if (i == 21) continue;
    unload(i - 1);
    ++unloaded;
  }
  CHECK_EQUAL(hindrances.load(), bit_of(Hindrance::kManyObjects));
  CHECK(unloaded > 1 && unloaded < 10);
}

// Beyond it the guest makes the copies: it is called, and told so.
TEST(late_bytes_are_limited) {
  session_limits.late_bytes = 2 * (64 << 10);
  World w;
  const uint64_t at = World::base();
  w.guest.map(at, kGranule);
  const auto put = [&](uint64_t held, uint64_t function) {
    wire_LateUpload q{};
    q.x = at;
    q.width = q.length = 1000;
    q.height = q.depth = 1;
    q.stream = held;
    q.function = function;
    w.guest.put(WIRE_LateUpload, q);
  };
  const auto called = [&] { return w.guest.next(WIRE_CALL).as<wire_call>(); };
  const auto late = [&](uint64_t held, uint64_t function) {
    put(held, function);
    return called();
  };
  const auto done = [&](uint64_t call) {
    wire_HostFunctionDone q{};
    q.call = call;
    w.guest.put(WIRE_HostFunctionDone, q);
  };
  const wire_call first = late(stream(w, 1), 1), second = late(stream(w, 2), 2);
  CHECK_EQUAL(first.status, CUDA_SUCCESS);
  CHECK_EQUAL(second.status, CUDA_SUCCESS);
  const wire_call third = late(stream(w, 3), 3);
  CHECK_EQUAL(third.status, CUDA_ERROR_OUT_OF_MEMORY);
  done(third.call);
  // Those of a stream come one after the other, to the same place.
  put(stream_handle(1), 5);
  put(stream_handle(1), 6);
  done(first.call);
  for (const uint64_t function : {5, 6}) {
    const wire_call next = called();
    CHECK_EQUAL(next.function, function);
    CHECK_EQUAL(next.status, CUDA_SUCCESS);
    done(next.call);
  }
  CHECK_EQUAL(w.guest.wait(w.guest.ask_synchronize_stream(stream_handle(1))).reply.result,
              CUDA_SUCCESS);
  const wire_call fourth = late(stream_handle(3), 4);
  CHECK_EQUAL(fourth.status, CUDA_SUCCESS);
  done(fourth.call);
  done(second.call);
  CHECK_EQUAL(posted(w), CUDA_SUCCESS);
}

// Beyond it what comes waits in the network.
TEST(read_ahead_bytes_are_limited) {
  session_limits.read_ahead_bytes = 1 << 20;
  int fds[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
  const auto counters = Counters::map();
  outboard::Reconnection reconnection(fds[0], std::chrono::milliseconds(0));
  Receiver receiver(fds[0], {}, *counters, reconnection);
  constexpr uint64_t kWords = 1 << 20;
  std::thread sender([&] {
    Guest guest(fds[1]);
    for (uint64_t i = 0; i < kWords; i++) guest.send(&i, sizeof i);
  });
  while (receiver.read_ahead()) std::this_thread::yield();
  // What is there beside is the receiver's own buffer, and its last look.
  CHECK(counters->bytes_in.load() >= 1 << 20);
  CHECK(counters->bytes_in.load() <= (1 << 20) + (512 << 10));
  for (uint64_t i = 0; i < kWords; i++) {
    uint64_t word;
    CHECK(receiver.fill(sizeof word));
    memcpy(&word, receiver.data(), sizeof word);
    receiver.consume(sizeof word);
    CHECK_EQUAL(word, i);
  }
  sender.join();
  ::close(fds[0]);
}

// Whoever adds a limit adds its test, or this does not build; and its line in the table.
TEST(every_limit_is_tested_and_told) {
  const struct {
    const char *name;
    uint64_t most;
    TestFunction test;
  } limits[] = {
#define LIMIT(name, most) {#name, most, name##_are_limited},
      OUTBOARD_SESSION_LIMITS(LIMIT)
#undef LIMIT
  };
  std::ifstream file(LIMITS_TABLE);
  const std::string table{std::istreambuf_iterator<char>(file), {}};
  for (const auto &limit : limits) {
    const std::string row = "| `" + std::string(limit.name) + "` | " + std::to_string(limit.most);
    if (table.find(row + " ") == table.npos) fail(LIMITS_TABLE, 0, "no line " + row);
  }
}
