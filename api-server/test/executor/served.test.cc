// Numbers that no header of ours has never reach the driver: the fake one would take them all.
#include "base/served_values.h"
#include "check.h"
#include "world.h"

using namespace outboard;

namespace {

// A posted command that must fail when it is given the second number, and not with the first.
template <class Command, class Set>
void check_posted(World &w, uint16_t op, Command q, Set set, uint32_t good, uint32_t bad,
                  const std::string &tail = {}) {
  set(q, good);
  w.guest.put(op, q, tail);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_SUCCESS);
  set(q, bad);
  w.guest.put(op, q, tail);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_VALUE);
}

template <class Command, class Set>
void check_asked(World &w, uint16_t op, Command q, Set set, uint32_t good, uint32_t bad,
                 const std::string &tail = {}) {
  set(q, good);
  CHECK_EQUAL(w.guest.call(op, q, tail).reply.result, CUDA_SUCCESS);
  set(q, bad);
  CHECK_EQUAL(w.guest.call(op, q, tail).reply.result, CUDA_ERROR_INVALID_VALUE);
}

}  // namespace

TEST(attributes_of_functions) {
  World w;
  w.load_kernels();
  wire_cuFuncGetAttribute get{};
  get.hfunc = function_handle(World::kAdd);
  const auto which = [](auto &q, uint32_t number) { q.attrib = static_cast<int32_t>(number); };
  check_asked(w, WIRE_cuFuncGetAttribute, get, which, 15, 16);
  check_asked(w, WIRE_cuFuncGetAttribute, get, which, 0, UINT32_MAX);
  wire_cuFuncSetAttribute set{};
  set.hfunc = get.hfunc;
  check_asked(w, WIRE_cuFuncSetAttribute, set, which, 8, 16);
  wire_cuFuncSetCacheConfig cache{};
  cache.hfunc = get.hfunc;
  check_posted(
      w, WIRE_cuFuncSetCacheConfig, cache,
      [](auto &q, uint32_t number) { q.config = static_cast<int32_t>(number); }, 3, 4);
  wire_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags occupancy{};
  occupancy.func = get.hfunc;
  const auto flags = [](auto &q, uint32_t number) { q.flags = number; };
  check_asked(w, WIRE_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, occupancy, flags, 1, 2);
  wire_Occupancies many{};
  many.function = get.hfunc;
  check_asked(w, WIRE_Occupancies, many, flags, 1, 2);
}

TEST(flags_of_streams_and_events) {
  World w;
  wire_cuEventCreate event{};
  uint32_t index = 20;
  check_posted(
      w, WIRE_cuEventCreate, event,
      [&](auto &q, uint32_t flags) {
        q.phEvent = wire_handle(WIRE_KIND_EVENT, 1, index++);
        q.Flags = flags;
      },
      7, 8);
  wire_cuStreamCreateWithPriority stream{};
  check_posted(
      w, WIRE_cuStreamCreateWithPriority, stream,
      [&](auto &q, uint32_t flags) {
        q.phStream = wire_handle(WIRE_KIND_STREAM, 1, index++);
        q.flags = flags;
      },
      1, 2);
  wire_cuStreamWaitEvent wait{};
  wait.hEvent = w.guest.event(1);
  check_posted(
      w, WIRE_cuStreamWaitEvent, wait, [](auto &q, uint32_t flags) { q.Flags = flags; }, 0, 2);
}

TEST(attributes_of_streams) {
  World w;
  const auto which = [](auto &q, uint32_t number) { q.attribute = number; };
  const CUstreamAttrValue zeros{};
  wire_StreamAttribute q{};
  q.value_size = sizeof zeros;
  for (uint32_t unknown : {uint32_t{CU_LAUNCH_ATTRIBUTE_COOPERATIVE},
                           uint32_t{CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY}, 40u, UINT32_MAX})
    check_posted(w, WIRE_StreamAttribute, q, which, CU_LAUNCH_ATTRIBUTE_PRIORITY, unknown,
                 packed(zeros));
  CUstreamAttrValue value{};
  value.memSyncDomain = static_cast<CUlaunchMemSyncDomain>(2);
  CHECK(!is_served_stream(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, value));
  value = {};
  value.accessPolicyWindow.missProp = static_cast<CUaccessProperty>(3);
  CHECK(!is_served_stream(CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, value));
}

TEST(attributes_of_launches) {
  World w;
  w.load_kernels();
  wire_LaunchWith q{};
  q.function = function_handle(World::kNothing);
  q.grid_x = q.grid_y = q.grid_z = q.block_x = q.block_y = q.block_z = 1;
  const auto launch = [&](uint32_t id, uint64_t value) {
    const std::string attributes = packed(wire_launch_attribute{id, 0, {value, 0, 0}});
    q.attributes_size = static_cast<uint32_t>(attributes.size());
    w.guest.put(WIRE_LaunchWith, q, attributes);
    return w.guest.synchronize().async;
  };
  CHECK_EQUAL(launch(CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, 4), CUDA_SUCCESS);
  CHECK_EQUAL(launch(CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, 5), CUDA_ERROR_INVALID_VALUE);
  CHECK_EQUAL(launch(CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, 0), CUDA_ERROR_INVALID_VALUE);
  CHECK_EQUAL(launch(CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, 3),
              CUDA_ERROR_INVALID_VALUE);
  CHECK_EQUAL(launch(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, 1), CUDA_SUCCESS);
  CHECK_EQUAL(launch(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, 2), CUDA_ERROR_INVALID_VALUE);
}

TEST(flags_of_memory) {
  World w;
  w.guest.map(World::base(), uint64_t{2} << 20);
  wire_ArrayCreate array{};
  array.width = 16;
  array.format = CU_AD_FORMAT_FLOAT;
  array.channels = 1;
  uint32_t index = 1;
  const auto set = [&](auto &q, uint32_t flags) {
    q.array = wire_handle(WIRE_KIND_ARRAY, 1, index++);
    q.flags = flags;
  };
  check_posted(w, WIRE_ArrayCreate, array, set, 2, 0x40);  // sparse
  check_posted(w, WIRE_ArrayCreate, array, set, 2, 0x80);  // deferred
  CHECK(is_served_access(0) && is_served_access(1) && is_served_access(3));
  CHECK(!is_served_access(2) && !is_served_access(4));
  wire_GraphCondition condition{};
  condition.graph = wire_handle(WIRE_KIND_GRAPH, 1, 1);
  check_asked(
      w, WIRE_GraphCondition, condition, [](auto &q, uint32_t flags) { q.flags = flags; }, 1, 2);
  wire_StreamValues values{};
  wire_value value{};
  value.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  value.address = World::base();
  values.values_size = sizeof value;
  for (uint32_t flags : {1u, 2u}) {
    value.flags = flags;
    w.guest.put(WIRE_StreamValues, values, packed(value));
    CHECK_EQUAL(w.guest.synchronize().async, flags == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
  }
}

TEST(settings_of_textures) {
  CUDA_TEXTURE_DESC texture{};
  CHECK(is_served(texture));
  texture.flags = 0x80;
  CHECK(!is_served(texture));
  texture.flags = 0x73;
  CHECK(is_served(texture));
  texture.addressMode[2] = static_cast<CUaddress_mode>(4);
  CHECK(!is_served(texture));
  texture.addressMode[2] = CU_TR_ADDRESS_MODE_BORDER;
  texture.mipmapFilterMode = static_cast<CUfilter_mode>(2);
  CHECK(!is_served(texture));
  CUDA_RESOURCE_VIEW_DESC view{};
  view.format = static_cast<CUresourceViewFormat>(35);
  CHECK(!is_served(view));
}
