// What is kept for a move, and what hinders one (docs/moving.md).
#include "check.h"
#include "session/recipes.h"
#include "world.h"

using namespace outboard;

namespace {

constexpr uint64_t kGranule = WIRE_GRANULE;

wire_cuStreamCreateWithPriority create_stream(uint64_t handle, int32_t priority) {
  wire_cuStreamCreateWithPriority q{};
  q.header = {WIRE_cuStreamCreateWithPriority, 0, sizeof q};
  q.phStream = handle;
  q.priority = priority;
  return q;
}

wire_FunctionSet set_function(uint64_t function, uint32_t attribute, int32_t value) {
  wire_FunctionSet q{};
  q.header = {WIRE_FunctionSet, 0, sizeof q};
  q.function = function;
  q.attribute = attribute;
  q.value = value;
  return q;
}

template <class T>
bool same(std::span<const uint8_t> frame, const T &q) {
  return frame.size() == sizeof q && memcmp(frame.data(), &q, sizeof q) == 0;
}

Recipes endless() {
  return Recipes([] { fail(__FILE__, __LINE__, "no room"); });
}

// What hinders once all that was sent is taken up.
uint64_t hindrances(World &w) {
  w.guest.synchronize();
  return w.session->counters()->hindrances.load();
}

wire_ArrayCreate create_array(uint64_t width) {
  wire_ArrayCreate q{};
  q.array = wire_handle(WIRE_KIND_ARRAY, 1, 1);
  q.width = width;
  q.format = CU_AD_FORMAT_UNSIGNED_INT8;
  q.channels = 4;
  return q;
}

}  // namespace

TEST(the_frame_that_made_an_object_is_kept) {
  Recipes recipes = endless();
  const uint64_t one = wire_handle(WIRE_KIND_STREAM, 1, 3),
                 two = wire_handle(WIRE_KIND_EVENT, 1, 3);
  const auto first = create_stream(one, -1), second = create_stream(two, 0);
  recipes.made(one, &first.header);
  recipes.made(two, &second.header);
  CHECK(same(recipes.of(one), first));
  CHECK(same(recipes.of(two), second));
  CHECK(recipes.of(wire_handle(WIRE_KIND_STREAM, 2, 3)).empty());
  CHECK(recipes.of(wire_handle(WIRE_KIND_STREAM, 1, 4)).empty());
  recipes.ended(one);
  CHECK(recipes.of(one).empty());
  CHECK(same(recipes.of(two), second));
  CHECK(recipes.whole());
}

TEST(an_index_that_is_used_again_takes_no_more) {
  Recipes recipes = endless();
  size_t bytes = 0;
  for (uint32_t generation = 1; generation < 1000; generation++) {
    const uint64_t handle = wire_handle(WIRE_KIND_STREAM, generation, 7);
    const auto q = create_stream(handle, static_cast<int32_t>(generation));
    recipes.made(handle, &q.header);
    CHECK(same(recipes.of(handle), q));
    CHECK(recipes.of(wire_handle(WIRE_KIND_STREAM, generation - 1, 7)).empty());
    recipes.ended(handle);
    if (generation == 1) bytes = recipes.bytes();
  }
  CHECK_EQUAL(recipes.bytes(), bytes);
}

TEST(handles_that_nobody_can_have_are_passed_over) {
  Recipes recipes = endless();
  const auto q = create_stream(0, 0);
  for (uint64_t handle : {wire_handle(WIRE_KIND_COUNT, 1, 1), UINT64_MAX,
                          wire_handle(WIRE_KIND_STREAM, 1, WIRE_HANDLE_INDEX_MAX)}) {
    recipes.made(handle, &q.header);
    CHECK(recipes.of(handle).empty());
    recipes.ended(handle);
  }
  CHECK_EQUAL(recipes.bytes(), 0u);
}

TEST(of_changes_the_last_one_holds) {
  Recipes recipes = endless();
  const auto change = [&](uint64_t function, uint32_t attribute, int32_t value) {
    const auto q = set_function(function, attribute, value);
    recipes.changed({q.header.op, function, attribute}, &q.header);
  };
  change(1, 8, 10);
  change(1, 9, 20);
  change(2, 8, 30);
  const size_t bytes = recipes.bytes();
  change(1, 8, 40);
  CHECK_EQUAL(recipes.bytes(), bytes);
  std::vector<int32_t> values;
  recipes.each_change([&](std::span<const uint8_t> frame) {
    wire_FunctionSet q;
    CHECK_EQUAL(frame.size(), sizeof q);
    memcpy(&q, frame.data(), sizeof q);
    values.push_back(q.value);
  });
  CHECK(values == (std::vector<int32_t>{20, 30, 40}));
}

TEST(a_session_keeps_what_made_its_objects) {
  World w;
  const uint64_t stream = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
  w.load_kernels();
  CHECK_EQUAL(hindrances(w), 0u);
  Recipes &recipes = w.session->recipes();
  wire_cuStreamCreateWithPriority made;
  CHECK_EQUAL(recipes.of(stream).size(), sizeof made);
  memcpy(&made, recipes.of(stream).data(), sizeof made);
  CHECK_EQUAL(made.phStream, stream);
  CHECK_EQUAL(static_cast<unsigned>(made.flags), unsigned{CU_STREAM_NON_BLOCKING});
  CHECK(!recipes.of(function_handle(World::kAdd)).empty());
  // Work makes nothing.
  const size_t bytes = recipes.bytes();
  w.guest.map(World::base(), kGranule);
  for (int i = 0; i < 100; i++) {
    w.guest.launch(function_handle(World::kNothing), stream, "");
    w.guest.memset32(World::base(), 1, 4, stream);
  }
  w.guest.synchronize();
  CHECK_EQUAL(recipes.bytes(), bytes);
  w.guest.call(WIRE_ContextReset, wire_ContextReset{});
  CHECK(recipes.of(stream).empty());
}

TEST(what_hinders_a_move_is_told_as_long_as_it_is_there) {
  World w;
  CHECK_EQUAL(hindrances(w), 0u);
  w.guest.put(WIRE_ArrayCreate, create_array(16));
  CHECK_EQUAL(hindrances(w), bit_of(Hindrance::kArrays));
  wire_ArrayDestroy end{};
  end.array = wire_handle(WIRE_KIND_ARRAY, 1, 1);
  w.guest.put(WIRE_ArrayDestroy, end);
  CHECK_EQUAL(hindrances(w), 0u);
}

TEST(what_could_not_be_made_hinders_nothing) {
  World w;
  wire_ArrayCreate q = create_array(uint64_t{1} << 40);
  q.array = wire_handle(WIRE_KIND_ARRAY, 1, 2);
  w.guest.put(WIRE_ArrayCreate, q);
  CHECK(w.guest.synchronize().async != CUDA_SUCCESS);
  CHECK_EQUAL(hindrances(w), 0u);
}

TEST(mapped_host_memory_hinders_until_it_is_unmapped) {
  WorldOptions options;
  options.pinned = 64 << 20;
  World w(options);
  w.guest.map_pinned(World::base(), kGranule);
  CHECK_EQUAL(hindrances(w), bit_of(Hindrance::kMappedHostMemory));
  w.guest.unmap(World::base(), kGranule);
  CHECK_EQUAL(hindrances(w), 0u);
}

TEST(a_reset_leaves_only_what_outlives_it) {
  World w;
  w.guest.put(WIRE_ArrayCreate, create_array(16));
  wire_MemoryCreate piece{};
  piece.memory = wire_handle(WIRE_KIND_MEMORY, 1, 1);
  piece.size = kGranule;
  w.guest.put(WIRE_MemoryCreate, piece);
  CHECK_EQUAL(hindrances(w), bit_of(Hindrance::kArrays) | bit_of(Hindrance::kMemoryPieces));
  w.guest.call(WIRE_ContextReset, wire_ContextReset{});
  CHECK_EQUAL(hindrances(w), bit_of(Hindrance::kMemoryPieces));
  wire_MemoryRelease release{};
  release.memory = piece.memory;
  w.guest.put(WIRE_MemoryRelease, release);
  CHECK_EQUAL(hindrances(w), 0u);
}

TEST(a_program_with_several_gpus_cannot_be_moved) {
  WorldOptions options;
  options.group = 3;
  World w(options);
  CHECK_EQUAL(hindrances(w), bit_of(Hindrance::kSeveralGpus));
}
