// Arrays, copies of boxes, textures and references: what they do, and what a guest may not.
#include <unistd.h>

#include "base/session_limits.h"
#include "check.h"
#include "world.h"

using namespace outboard;

namespace {

uint64_t array_handle(uint32_t index, uint32_t generation = 1) {
  return wire_handle(WIRE_KIND_ARRAY, generation, index);
}

void create(World &w, uint64_t array, uint64_t width, uint64_t height, uint64_t depth,
            uint32_t levels = 0, uint32_t flags = 0) {
  wire_ArrayCreate q{};
  q.array = array;
  q.width = width;
  q.height = height;
  q.depth = depth;
  q.format = CU_AD_FORMAT_UNSIGNED_INT8;
  q.channels = 4;
  q.flags = flags;
  q.levels = levels;
  w.guest.put(WIRE_ArrayCreate, q);
}

void destroy(World &w, uint64_t array) {
  wire_ArrayDestroy q{};
  q.array = array;
  w.guest.put(WIRE_ArrayDestroy, q);
}

struct At {
  uint64_t array, x, y, z;
};

void upload(World &w, At at, uint64_t width, uint64_t height, uint64_t depth,
            const std::string &data, uint64_t stream = 0) {
  wire_BoxUpload q{};
  q.array = at.array;
  q.x = at.x;
  q.y = at.y;
  q.z = at.z;
  q.width = width;
  q.height = height;
  q.depth = depth;
  q.stream = stream;
  q.length = data.size();
  w.guest.put(WIRE_BoxUpload, q, data);
}

Answer download(World &w, At at, uint64_t width, uint64_t height, uint64_t depth,
                uint64_t stream = 0) {
  wire_BoxDownload q{};
  q.array = at.array;
  q.x = at.x;
  q.y = at.y;
  q.z = at.z;
  q.width = width;
  q.height = height;
  q.depth = depth;
  q.stream = stream;
  return w.guest.call(WIRE_BoxDownload, q);
}

void copy(World &w, At to, At from, uint64_t width, uint64_t height, uint64_t depth) {
  wire_BoxCopy q{};
  q.to_array = to.array;
  q.to_x = to.x;
  q.to_y = to.y;
  q.to_z = to.z;
  q.from_array = from.array;
  q.from_x = from.x;
  q.from_y = from.y;
  q.from_z = from.z;
  q.width = width;
  q.height = height;
  q.depth = depth;
  w.guest.put(WIRE_BoxCopy, q);
}

wire_TextureCreate of_array(uint64_t array) {
  wire_TextureCreate q{};
  q.kind = CU_RESOURCE_TYPE_ARRAY;
  q.array = array;
  q.texture_size = sizeof(CUDA_TEXTURE_DESC);
  return q;
}

const std::string kSettings(sizeof(CUDA_TEXTURE_DESC), '\0');

uint64_t object_of(const Answer &answer) {
  return answer.frame.as<wire_TextureCreate_reply>().object;
}

}  // namespace

TEST(boxes_go_there_and_back) {
  World w;
  const uint64_t at = World::base(), one = array_handle(1), two = array_handle(2);
  w.guest.map(at, WIRE_GRANULE);
  create(w, one, 16, 8, 4);
  create(w, two, 32, 16, 8);
  const std::string data = pattern(24 * 3 * 2);
  upload(w, {one, 8, 2, 1}, 24, 3, 2, data);
  copy(w, {two, 4, 5, 6}, {one, 8, 2, 1}, 24, 3, 2);
  copy(w, {0, at + 100, 50, 10}, {two, 4, 5, 6}, 24, 3, 2);
  CHECK(download(w, {0, at + 100, 50, 10}, 24, 3, 2).data == data);
  CHECK(download(w, {two, 4, 5, 6}, 24, 3, 2).data == data);
  CHECK_EQUAL(w.guest.synchronize().async, 0);
}

// More than a chunk, in parts that are slices, rows and pieces of rows.
TEST(large_boxes_are_downloaded_in_parts) {
  World w;
  const uint64_t at = World::base();
  w.guest.map(at, 16 * WIRE_GRANULE);
  const struct {
    uint64_t pitch, rows, width, height, depth;
  } shapes[] = {{1000, 300, 999, 299, 13}, {9000, 700, 8000, 650, 2}, {3 << 20, 2, 5 << 19, 2, 2}};
  for (const auto &s : shapes) {
    std::string expected;
    for (uint64_t z = 0; z < s.depth; z++) {
      for (uint64_t y = 0; y < s.height; y++) {
        const std::string row = pattern(s.width, static_cast<uint32_t>(1 + z * 1000 + y));
        expected += row;
        for (uint64_t x = 0; x < s.width; x += 1 << 20) {
          const uint64_t part = std::min<uint64_t>(s.width - x, 1 << 20);
          w.guest.upload(at + (z * s.rows + y) * s.pitch + x, row.substr(x, part));
        }
      }
    }
    CHECK(download(w, {0, at, s.pitch, s.rows}, s.width, s.height, s.depth).data == expected);
  }
}

TEST(planes_of_memory) {
  World w;
  const uint64_t at = World::base();
  w.guest.map(at, WIRE_GRANULE);
  w.guest.upload(at, "abcdefghij");
  wire_Copy2D q{};
  q.destination = at + 100;
  q.destination_pitch = 3;
  q.source = at;
  q.source_pitch = 5;
  q.width = 2;
  q.height = 2;
  w.guest.put(WIRE_Copy2D, q);
  CHECK(w.guest.download(at + 100, 5) == std::string("ab\0fg", 5));
}

TEST(boxes_stay_in_what_is_the_sessions) {
  World w;
  const uint64_t at = World::base(), array = array_handle(1), mipmapped = array_handle(2);
  w.guest.map(at, WIRE_GRANULE);
  create(w, array, 16, 8, 4);
  create(w, mipmapped, 16, 8, 4, 3);
  const auto refused = [&](At place, uint64_t width, uint64_t height, uint64_t depth) {
    CHECK_EQUAL(download(w, place, width, height, depth).reply.result, CUDA_ERROR_INVALID_VALUE);
    copy(w, place, {array, 0, 0, 0}, width, height, depth);
    CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_VALUE);
    copy(w, {array, 0, 0, 0}, place, width, height, depth);
    CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_VALUE);
  };
  refused({array, 0, 0, 0}, 68, 1, 1);
  refused({array, 4, 0, 0}, 64, 1, 1);
  refused({array, 0, 8, 0}, 4, 1, 1);
  refused({array, 0, 0, 3}, 4, 1, 2);
  refused({array, UINT64_MAX - 3, 0, 0}, 8, 1, 1);
  refused({array, 0, UINT64_MAX, 0}, 4, 2, 1);
  refused({array, 2, 0, 0}, 4, 1, 1);  // elements are cut
  refused({array, 0, 0, 0}, 6, 1, 1);
  refused({mipmapped, 0, 0, 0}, 4, 1, 1);
  refused({array_handle(9), 0, 0, 0}, 4, 1, 1);
  refused({array_handle(1, 2), 0, 0, 0}, 4, 1, 1);
  refused({wire_handle(WIRE_KIND_EVENT, 1, 1), 0, 0, 0}, 4, 1, 1);
  refused({0, at + WIRE_GRANULE - 4, 4, 1}, 8, 1, 1);
  refused({0, at, WIRE_GRANULE / 2, 1}, 8, 3, 1);
  refused({0, at, UINT64_MAX / 2, 3}, 8, 1, 2);
  refused({0, at, 1 << 20, UINT64_MAX / (1 << 20) + 2}, 8, 1, 2);
  refused({0, at, 8, 1}, 8, UINT64_MAX, 1);
  refused({0, 0, 8, 1}, 8, 1, 1);
  refused({0, at - WIRE_GRANULE, 8, 1}, 8, 1, 1);
  CHECK_EQUAL(download(w, {array, 0, 0, 0}, 4, 1, 1).reply.result, CUDA_SUCCESS);
}

TEST(payloads_are_what_their_boxes_take) {
  World w;
  create(w, array_handle(1), 16, 8, 4);
  upload(w, {array_handle(1), 0, 0, 0}, 8, 2, 1, std::string(8, 'x'));
  w.expect_violation("not what its box takes");
}

TEST(payloads_that_overflow) {
  World w;
  create(w, array_handle(1), 16, 8, 4);
  upload(w, {array_handle(1), 0, 0, 0}, uint64_t{1} << 62, 4, 1, "");
  w.expect_violation("not what its box takes");
}

TEST(arrays_count_as_memory) {
  WorldOptions options;
  options.memory = 4 * WIRE_GRANULE;
  World w(options);
  const uint64_t mebibyte = uint64_t{1} << 20;
  create(w, array_handle(1), 1024, 1024, 0);  // 4 MiB
  CHECK_EQUAL(w.guest.synchronize().async, 0);
  CHECK_EQUAL(w.session->counters()->memory_mapped.load(), 4 * mebibyte);
  create(w, array_handle(2), 1024, 1025, 0);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_OUT_OF_MEMORY);
  w.guest.map(World::base(), 2 * WIRE_GRANULE);
  CHECK_EQUAL(w.guest.synchronize().async, 0);
  create(w, array_handle(2), 1, 1, 0);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_OUT_OF_MEMORY);
  // What was given up counts again, and is overwritten first.
  upload(w, {array_handle(1), 0, 7, 0}, 4096, 1, 1, std::string(4096, 'x'));
  destroy(w, array_handle(1));
  create(w, array_handle(2), 1024, 1024, 0);
  CHECK_EQUAL(w.guest.synchronize().async, 0);
  CHECK_EQUAL(World::fake().calls("cuArrayDestroy"), 1u);
  CHECK(w.end().reusable);
  CHECK_EQUAL(World::fake().dirty_releases(), 0u);
}

// A guest should wait for it; one that does not leaves nothing in the memory all the same.
TEST(an_array_stays_until_work_that_was_begun_has_ended) {
  World w;
  const uint64_t held = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
  create(w, array_handle(1), 1024, 4, 0);
  wire_HostFunction post{};
  post.stream = held;
  post.function = 1;
  w.guest.put(WIRE_HostFunction, post);
  const uint64_t call = w.guest.next(WIRE_CALL).as<wire_call>().call;
  upload(w, {array_handle(1), 0, 3, 0}, 4096, 1, 1, std::string(4096, 'x'), held);
  destroy(w, array_handle(1));
  CHECK_EQUAL(w.guest.call(WIRE_Echo, wire_Echo{}).reply.result, CUDA_SUCCESS);
  usleep(50000);
  CHECK_EQUAL(World::fake().calls("cuArrayDestroy"), 0u);
  wire_HostFunctionDone done{};
  done.call = call;
  w.guest.put(WIRE_HostFunctionDone, done);
  CHECK(w.end().reusable);
  CHECK_EQUAL(World::fake().calls("cuArrayDestroy"), 1u);
  CHECK_EQUAL(World::fake().dirty_releases(), 0u);
}

TEST(impossible_arrays) {
  World w;
  const auto refused = [&](uint64_t width, uint64_t height, uint64_t depth, uint32_t levels) {
    create(w, array_handle(3), width, height, depth, levels);
    const int result = w.guest.synchronize().async;
    CHECK(result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_OUT_OF_MEMORY);
  };
  refused(UINT64_MAX, 1, 1, 0);
  refused(1 << 21, 1 << 21, 1 << 21, 0);
  refused(1 << 20, 1 << 20, UINT64_MAX, 0);
  refused(16, 16, 16, UINT32_MAX);
  wire_ArrayCreate q{};
  q.array = array_handle(3);
  q.width = 16;
  q.format = 12345;
  q.channels = 4;
  w.guest.put(WIRE_ArrayCreate, q);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_VALUE);
  q.format = CU_AD_FORMAT_FLOAT;
  q.channels = UINT32_MAX;
  w.guest.put(WIRE_ArrayCreate, q);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_VALUE);
  CHECK_EQUAL(World::fake().calls("cuArray3DCreate_v2"), 0u);
}

TEST(a_handle_of_an_array_is_minted_once) {
  World w;
  create(w, array_handle(1), 4, 4, 0);
  create(w, array_handle(1), 4, 4, 0);
  w.expect_violation("cannot be minted");
}

TEST(levels_end_with_their_array) {
  World w;
  const uint64_t whole = array_handle(1), level = array_handle(2);
  create(w, whole, 16, 8, 4, 3);
  wire_ArrayLevel q{};
  q.array = level;
  q.mipmapped = whole;
  q.level = 1;
  w.guest.put(WIRE_ArrayLevel, q);
  const std::string data = pattern(32 * 4 * 2);
  upload(w, {level, 0, 0, 0}, 32, 4, 2, data);
  CHECK(download(w, {level, 0, 0, 0}, 32, 4, 2).data == data);
  CHECK_EQUAL(download(w, {level, 0, 0, 0}, 36, 4, 2).reply.result, CUDA_ERROR_INVALID_VALUE);
  destroy(w, level);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_HANDLE);
  q.array = array_handle(3);
  q.level = 3;
  w.guest.put(WIRE_ArrayLevel, q);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_HANDLE);
  q.mipmapped = level;
  w.guest.put(WIRE_ArrayLevel, q);
  w.expect_violation("more levels than it has");
}

TEST(levels_are_forgotten_with_their_array) {
  World w;
  wire_ArrayLevel q{};
  create(w, array_handle(1), 16, 8, 4, 3);
  q.array = array_handle(2);
  q.mipmapped = array_handle(1);
  w.guest.put(WIRE_ArrayLevel, q);
  upload(w, {array_handle(2), 0, 0, 0}, 4, 1, 1, "text");
  destroy(w, array_handle(1));
  CHECK_EQUAL(download(w, {array_handle(2), 0, 0, 0}, 4, 1, 1).reply.result,
              CUDA_ERROR_INVALID_VALUE);
  CHECK_EQUAL(w.guest.synchronize().async, 0);
  CHECK(w.end().reusable);
  CHECK_EQUAL(World::fake().dirty_releases(), 0u);
}

TEST(what_is_left_at_the_end_is_overwritten) {
  World w;
  create(w, array_handle(1), 600000, 0, 0);
  create(w, array_handle(2), 100, 100, 100);
  create(w, array_handle(3), 64, 64, 0, 7);
  upload(w, {array_handle(1), 2000000, 0, 0}, 4, 1, 1, "text");
  upload(w, {array_handle(2), 396, 99, 99}, 4, 1, 1, "text");
  CHECK_EQUAL(object_of(w.guest.call(WIRE_TextureCreate, of_array(array_handle(1)), kSettings)),
              1000u);
  CHECK(w.end().reusable);
  CHECK_EQUAL(World::fake().dirty_releases(), 0u);
  CHECK_EQUAL(World::fake().calls("cuArrayDestroy"), 2u);
  CHECK_EQUAL(World::fake().calls("cuMipmappedArrayDestroy"), 1u);
  CHECK_EQUAL(World::fake().calls("cuTexObjectDestroy"), 1u);
}

TEST(textures_are_of_the_session) {
  World w;
  const uint64_t at = World::base();
  w.guest.map(at, WIRE_GRANULE);
  create(w, array_handle(1), 16, 8, 0);
  const auto result = [&](const wire_TextureCreate &q) {
    return w.guest.call(WIRE_TextureCreate, q, kSettings).reply.result;
  };
  CHECK_EQUAL(result(of_array(array_handle(1))), CUDA_SUCCESS);
  CHECK_EQUAL(result(of_array(array_handle(2))), CUDA_ERROR_INVALID_VALUE);
  wire_TextureCreate q = of_array(array_handle(1));
  q.kind = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  CHECK_EQUAL(result(q), CUDA_ERROR_INVALID_VALUE);
  q.kind = 77;
  CHECK_EQUAL(result(q), CUDA_ERROR_INVALID_VALUE);
  q.kind = CU_RESOURCE_TYPE_LINEAR;
  q.format = CU_AD_FORMAT_FLOAT;
  q.channels = 1;
  q.address = at;
  q.width = WIRE_GRANULE;
  CHECK_EQUAL(result(q), CUDA_SUCCESS);
  // Drivers take a description of more than there is; its beginning is the session's.
  q.width++;
  CHECK_EQUAL(result(q), CUDA_SUCCESS);
  q.address = at + WIRE_GRANULE;
  CHECK_EQUAL(result(q), CUDA_ERROR_INVALID_VALUE);
  q.address = at - 512;
  CHECK_EQUAL(result(q), CUDA_ERROR_INVALID_VALUE);
  q.address = at;
  q.kind = CU_RESOURCE_TYPE_PITCH2D;
  q.width = 64;
  q.height = WIRE_GRANULE / 512;
  q.pitch = 512;
  CHECK_EQUAL(result(q), CUDA_SUCCESS);
  q.pitch = 1024;
  CHECK_EQUAL(result(q), CUDA_ERROR_INVALID_VALUE);
  q.pitch = UINT64_MAX;
  CHECK_EQUAL(result(q), CUDA_ERROR_INVALID_VALUE);
  q.height = 1;
  q.width = UINT64_MAX / 2;
  CHECK_EQUAL(result(q), CUDA_ERROR_INVALID_VALUE);
  // A number that the session was not given.
  wire_TextureDestroy d{};
  d.object = 999;
  w.guest.put(WIRE_TextureDestroy, d);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_VALUE);
  d.object = 1000;
  w.guest.put(WIRE_TextureDestroy, d);
  CHECK_EQUAL(w.guest.synchronize().async, 0);
  w.guest.put(WIRE_TextureDestroy, d);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_VALUE);
}

TEST(descriptions_of_another_size) {
  World w;
  wire_TextureCreate q = of_array(array_handle(1));
  q.texture_size = 8;
  w.guest.ask(WIRE_TextureCreate, q, std::string(8, '\0'));
  w.expect_violation("another size");
}

TEST(references_are_of_modules) {
  World w;
  w.guest.load(module_handle(1), Guest::image("kernel nothing\n"));
  create(w, array_handle(1), 16, 8, 0);
  const uint64_t texture = wire_handle(WIRE_KIND_REFERENCE, 1, 1);
  const uint64_t surface = wire_handle(WIRE_KIND_REFERENCE, 1, 2);
  wire_ReferenceGet get{};
  const auto found = [&](uint64_t handle, uint32_t is_surface, const std::string &name) {
    get.module = module_handle(1);
    get.reference = handle;
    get.surface = is_surface;
    get.name_size = static_cast<uint32_t>(name.size());
    return w.guest.call(WIRE_ReferenceGet, get, name).reply.result;
  };
  CHECK_EQUAL(found(texture, 0, "surface"), CUDA_ERROR_NOT_FOUND);
  CHECK_EQUAL(found(texture, 0, "texture"), CUDA_SUCCESS);
  CHECK_EQUAL(found(surface, 1, "surface"), CUDA_SUCCESS);
  wire_TextureReferenceSet set{};
  set.reference = texture;
  set.bound = 1;
  set.kind = CU_RESOURCE_TYPE_ARRAY;
  set.own_format = CU_AD_FORMAT_FLOAT;
  set.own_channels = 1;
  set.array = array_handle(1);
  set.texture_size = sizeof(CUDA_TEXTURE_DESC);
  const auto set_result = [&] {
    w.guest.put(WIRE_TextureReferenceSet, set, kSettings);
    return w.guest.synchronize().async;
  };
  CHECK_EQUAL(set_result(), 0);
  CHECK_EQUAL(World::fake().calls("cuTexRefSetArray"), 1u);
  set.array = array_handle(2);
  CHECK_EQUAL(set_result(), CUDA_ERROR_INVALID_VALUE);
  set.array = array_handle(1);
  set.reference = surface;
  CHECK_EQUAL(set_result(), CUDA_ERROR_INVALID_HANDLE);
  wire_SurfaceReferenceSet bind{};
  bind.reference = surface;
  bind.array = array_handle(1);
  w.guest.put(WIRE_SurfaceReferenceSet, bind);
  CHECK_EQUAL(w.guest.synchronize().async, 0);
  bind.reference = texture;
  w.guest.put(WIRE_SurfaceReferenceSet, bind);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_HANDLE);
  // They end with their module.
  wire_ModuleUnload unload{};
  unload.module = module_handle(1);
  w.guest.put(WIRE_ModuleUnload, unload);
  set.reference = texture;
  CHECK_EQUAL(set_result(), CUDA_ERROR_INVALID_HANDLE);
  CHECK_EQUAL(found(wire_handle(WIRE_KIND_REFERENCE, 1, 3), 0, "texture"),
              CUDA_ERROR_INVALID_HANDLE);
}
