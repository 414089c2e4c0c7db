// What the protocol bounds, whatever a session's limits are: at the end of each all is well, one
// more is refused as docs/limits.md says.
#include <fstream>

#include "check.h"
#include "world.h"

using namespace outboard;

namespace {

uint64_t link_handle(uint32_t index) { return wire_handle(WIRE_KIND_LINK, 1, index); }

template <class Command>
void put_link(World &w, uint16_t op, uint32_t index) {
  Command q{};
  q.link = link_handle(index);
  w.guest.put(op, q);
}

template <class Launch>
Launch launch(World &w) {
  w.load_kernels();
  Launch q{};
  q.function = function_handle(World::kNothing);
  q.grid_x = q.grid_y = q.grid_z = q.block_x = q.block_y = q.block_z = 1;
  return q;
}

uint64_t ask_open(World &w, uint32_t index, const std::string &options = {}) {
  const std::string image = Guest::image("kernel number" + std::to_string(index) + "\n");
  w.guest.send_image(image);
  wire_ModuleOpen q = w.guest.open_command(module_handle(index), image);
  q.options_size = static_cast<uint32_t>(options.size());
  return w.guest.ask(WIRE_ModuleOpen, q, options);
}

size_t expected_of(uint32_t modules) {
  World w;
  for (uint32_t i = 1; i <= modules; i++) w.guest.wait(ask_open(w, i));
  return w.end().modules.size();
}

}  // namespace

// Of each kind.
TEST(handle_index_max_is_kept) {
  World w;
  w.guest.stream(WIRE_HANDLE_INDEX_MAX - 1, CU_STREAM_NON_BLOCKING);
  w.guest.event(WIRE_HANDLE_INDEX_MAX - 1);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_SUCCESS);
  w.guest.event(WIRE_HANDLE_INDEX_MAX);
  w.expect_violation("handle");
}

TEST(frame_max_is_kept) {
  World w;
  auto q = launch<wire_Launch>(w);
  const auto sized = [&](size_t bytes) {
    q.parameters_size = static_cast<uint32_t>(bytes - sizeof q);
    w.guest.put(WIRE_Launch, q, std::string(q.parameters_size, '\0'));
  };
  sized(WIRE_FRAME_MAX);
  CHECK_EQUAL(w.guest.synchronize().result, CUDA_SUCCESS);
  sized(WIRE_FRAME_MAX + 8);
  w.expect_violation("larger");
}

TEST(bulk_max_is_kept) {
  World w;
  const uint64_t at = World::base();
  const std::string data = pattern(WIRE_BULK_MAX + 8);
  w.guest.map(at, 2 * uint64_t{WIRE_GRANULE});
  const auto upload = [&](size_t bytes) {
    wire_Upload q{};
    q.destination = at;
    q.length = bytes;
    w.guest.put(WIRE_Upload, q, data.substr(0, bytes));
  };
  upload(WIRE_BULK_MAX);
  CHECK(w.guest.download(at, WIRE_BULK_MAX) == data.substr(0, WIRE_BULK_MAX));
  upload(WIRE_BULK_MAX + 1);
  w.expect_violation("larger");
}

TEST(launch_attributes_are_kept) {
  World w;
  auto q = launch<wire_LaunchWith>(w);
  const auto with = [&](uint32_t attributes) {
    std::string all;
    for (uint32_t i = 0; i < attributes; i++) {
      all += packed(wire_launch_attribute{CU_LAUNCH_ATTRIBUTE_PRIORITY, 0, {0, 0, 0}});
    }
    q.attributes_size = static_cast<uint32_t>(all.size());
    w.guest.put(WIRE_LaunchWith, q, all);
  };
  with(WIRE_LAUNCH_ATTRIBUTES);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_SUCCESS);
  with(WIRE_LAUNCH_ATTRIBUTES + 1);
  w.expect_violation("too many");
}

TEST(values_max_is_kept) {
  World w;
  const uint64_t at = World::base();
  w.guest.map(at, WIRE_GRANULE);
  const auto values = [&](uint32_t count) {
    std::string all;
    for (uint32_t i = 0; i < count; i++) {
      all += packed(wire_value{CU_STREAM_MEM_OP_WRITE_VALUE_32, 0, at + 4 * uint64_t{i}, i});
    }
    wire_StreamValues q{};
    q.values_size = static_cast<uint32_t>(all.size());
    w.guest.put(WIRE_StreamValues, q, all);
    return w.guest.synchronize().async;
  };
  CHECK_EQUAL(values(WIRE_VALUES_MAX), CUDA_SUCCESS);
  CHECK_EQUAL(values(WIRE_VALUES_MAX + 1), CUDA_ERROR_INVALID_VALUE);
  CHECK_EQUAL(values(WIRE_VALUES_MAX), CUDA_SUCCESS);
}

TEST(jit_options_are_kept) {
  World w;
  std::string options;
  for (int i = 0; i < WIRE_JIT_OPTIONS; i++) {
    options += packed(wire_jit_option{CU_JIT_MAX_REGISTERS, 0, 32});
  }
  CHECK_EQUAL(w.guest.wait(ask_open(w, 1, options)).reply.result, CUDA_SUCCESS);
  ask_open(w, 2, options + packed(wire_jit_option{CU_JIT_MAX_REGISTERS, 0, 32}));
  w.expect_violation("too many");
}

TEST(links_max_is_kept) {
  World w;
  for (uint32_t i = 1; i <= WIRE_LINKS_MAX; i++) put_link<wire_LinkCreate>(w, WIRE_LinkCreate, i);
  put_link<wire_LinkDestroy>(w, WIRE_LinkDestroy, 2);
  put_link<wire_LinkCreate>(w, WIRE_LinkCreate, WIRE_LINKS_MAX + 1);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_SUCCESS);
  put_link<wire_LinkCreate>(w, WIRE_LinkCreate, WIRE_LINKS_MAX + 2);
  w.expect_violation("more links");
}

TEST(expected_max_is_kept) {
  CHECK_EQUAL(expected_of(WIRE_EXPECTED_MAX), size_t{WIRE_EXPECTED_MAX});
  CHECK_EQUAL(expected_of(WIRE_EXPECTED_MAX + 1), size_t{WIRE_EXPECTED_MAX});
}

// Whoever tells of a bound adds its test, or this does not build.
TEST(every_bound_is_tested_and_told) {
  const struct {
    const char *name;
    uint64_t most;
    TestFunction test;
  } bounds[] = {
#define BOUND(name, test) {#name, name, test}
      BOUND(WIRE_HANDLE_INDEX_MAX, handle_index_max_is_kept),
      BOUND(WIRE_FRAME_MAX, frame_max_is_kept),
      BOUND(WIRE_BULK_MAX, bulk_max_is_kept),
      BOUND(WIRE_LAUNCH_ATTRIBUTES, launch_attributes_are_kept),
      BOUND(WIRE_VALUES_MAX, values_max_is_kept),
      BOUND(WIRE_JIT_OPTIONS, jit_options_are_kept),
      BOUND(WIRE_LINKS_MAX, links_max_is_kept),
      BOUND(WIRE_EXPECTED_MAX, expected_max_is_kept),
#undef BOUND
  };
  std::ifstream file(LIMITS_TABLE);
  const std::string table{std::istreambuf_iterator<char>(file), {}};
  size_t told = 0;
  for (size_t at = 0; (at = table.find("\n| `WIRE_", at)) != table.npos; at++) told++;
  CHECK_EQUAL(told, std::size(bounds));
  for (const auto &bound : bounds) {
    const std::string row = "\n| `" + std::string(bound.name) + "` | " + std::to_string(bound.most);
    if (table.find(row + " ") == table.npos) fail(LIMITS_TABLE, 0, "no line" + row);
  }
}
