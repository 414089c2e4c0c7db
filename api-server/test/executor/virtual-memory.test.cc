// Memory that the guest manages itself: what it may map where, limits, and what is left of it.
#include "check.h"
#include "move_target.h"
#include "world.h"

using namespace outboard;

namespace {

constexpr uint64_t kGranule = WIRE_GRANULE;

uint64_t memory(uint32_t index, uint32_t generation = 1) {
  return wire_handle(WIRE_KIND_MEMORY, generation, index);
}

void create(World &w, uint64_t handle, uint64_t size, uint32_t device = 0) {
  wire_MemoryCreate q{};
  q.memory = handle;
  q.size = size;
  q.device = device;
  w.guest.put(WIRE_MemoryCreate, q);
}

void release(World &w, uint64_t handle) {
  wire_MemoryRelease q{};
  q.memory = handle;
  w.guest.put(WIRE_MemoryRelease, q);
}

void place(World &w, uint64_t address, uint64_t size, uint64_t offset, uint64_t handle) {
  wire_MemoryPlace q{};
  q.address = address;
  q.size = size;
  q.offset = offset;
  q.memory = handle;
  w.guest.put(WIRE_MemoryPlace, q);
}

void access(World &w, uint64_t address, uint64_t size,
            CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
  wire_MemoryAccess q{};
  q.address = address;
  q.size = size;
  q.flags = flags;
  w.guest.put(WIRE_MemoryAccess, q);
}

CUresult displace(World &w, uint64_t address, uint64_t size) {
  wire_MemoryDisplace q{};
  q.address = address;
  q.size = size;
  return static_cast<CUresult>(w.guest.call(WIRE_MemoryDisplace, q).reply.result);
}

CUresult error(World &w) { return static_cast<CUresult>(w.guest.synchronize().async); }

}  // namespace

TEST(memory_at_two_addresses) {
  World w;
  const uint64_t at = World::base();
  create(w, memory(1), 2 * kGranule);
  place(w, at, 2 * kGranule, 0, memory(1));
  place(w, at + 10 * kGranule, kGranule, kGranule, memory(1));
  access(w, at, 2 * kGranule);
  access(w, at + 10 * kGranule, kGranule);
  w.guest.upload(at + kGranule, "hello");
  CHECK_EQUAL(w.guest.download(at + 10 * kGranule, 5), "hello");
  CHECK_EQUAL(error(w), CUDA_SUCCESS);
  CHECK_EQUAL(w.session->counters()->memory_mapped.load(), 2 * kGranule);
  CHECK_EQUAL(displace(w, at, 2 * kGranule), CUDA_SUCCESS);
  w.guest.upload(at + kGranule, "x");
  CHECK_EQUAL(error(w), CUDA_ERROR_INVALID_VALUE);
  CHECK_EQUAL(w.guest.download(at + 10 * kGranule, 5), "hello");
  CHECK_EQUAL(displace(w, at + 10 * kGranule, kGranule), CUDA_SUCCESS);
  release(w, memory(1));
  CHECK_EQUAL(error(w), CUDA_SUCCESS);
  CHECK_EQUAL(w.session->counters()->memory_mapped.load(), 0u);
}

// What a session leaves behind is overwritten and given back (World::ended looks).
TEST(what_is_left_is_scrubbed) {
  World w;
  const uint64_t at = World::base();
  for (uint32_t i = 1; i <= 4; i++) {
    create(w, memory(i), kGranule);
    place(w, at + i * kGranule, kGranule, 0, memory(i));
    access(w, at + i * kGranule, kGranule);
    w.guest.upload(at + i * kGranule, "secret");
  }
  CHECK_EQUAL(displace(w, at + kGranule, kGranule), CUDA_SUCCESS);
  CHECK_EQUAL(displace(w, at + 2 * kGranule, kGranule), CUDA_SUCCESS);
  release(w, memory(1));
  CHECK_EQUAL(error(w), CUDA_SUCCESS);
}

TEST(a_reset_leaves_it) {
  World w;
  const uint64_t at = World::base();
  create(w, memory(1), kGranule);
  place(w, at, kGranule, 0, memory(1));
  access(w, at, kGranule);
  w.guest.map(at + kGranule, kGranule);
  w.guest.upload(at, "kept");
  w.guest.upload(at + kGranule, "gone");
  CHECK_EQUAL(w.guest.call(WIRE_ContextReset, wire_ContextReset{}).reply.result, CUDA_SUCCESS);
  CHECK_EQUAL(w.guest.download(at, 4), "kept");
  CHECK_EQUAL(w.session->counters()->memory_mapped.load(), kGranule);
  w.guest.upload(at + kGranule, "x");
  CHECK_EQUAL(error(w), CUDA_ERROR_INVALID_VALUE);
}

TEST(only_in_the_window_and_where_nothing_is) {
  const uint64_t at = World::base();
  const uint64_t size = World::device()->window_size();
  const auto violates = [&](uint64_t address, uint64_t length, uint64_t offset,
                            const std::string &words) {
    World w;
    w.guest.map(at + 10 * kGranule, 4 * kGranule);
    create(w, memory(1), 4 * kGranule);
    place(w, at + 20 * kGranule, kGranule, 0, memory(1));
    place(w, address, length, offset, memory(1));
    w.expect_violation(words);
  };
  violates(at + 4096, kGranule, 0, "granules");
  violates(at, 4096, 0, "granules");
  violates(at, 0, 0, "granules");
  violates(at - kGranule, kGranule, 0, "window");
  violates(at + size, kGranule, 0, "window");
  violates(at + size - kGranule, 2 * kGranule, 0, "window");
  violates(at, uint64_t{0} - kGranule, 0, "window");
  violates(at + 9 * kGranule, 2 * kGranule, 0, "overlap");
  violates(at + 20 * kGranule, kGranule, 0, "overlap");
  violates(at, kGranule, 4096, "beyond");
  violates(at, kGranule, 4 * kGranule, "beyond");
  violates(at, 2 * kGranule, 3 * kGranule, "beyond");
  violates(at, kGranule, uint64_t{0} - kGranule, "beyond");
  const auto maps_over = [&](uint64_t address) {
    World w;
    create(w, memory(1), kGranule);
    place(w, at + 20 * kGranule, kGranule, 0, memory(1));
    w.guest.map(address, 2 * kGranule);
    w.expect_violation("overlap");
  };
  maps_over(at + 19 * kGranule);
  maps_over(at + 20 * kGranule);
}

TEST(handles_that_are_none) {
  const auto violates = [](uint64_t handle, uint64_t size, uint32_t device,
                           const std::string &words) {
    World w;
    create(w, memory(1), kGranule);
    create(w, handle, size, device);
    w.expect_violation(words);
  };
  violates(memory(1), kGranule, 0, "minted");
  violates(memory(1, 2), kGranule, 0, "minted");
  violates(memory(WIRE_HANDLE_INDEX_MAX), kGranule, 0, "minted");
  violates(wire_handle(WIRE_KIND_STREAM, 1, 2), kGranule, 0, "minted");
  violates(0, kGranule, 0, "minted");
  violates(memory(2), 4096, 0, "granules");
  violates(memory(2), 0, 0, "granules");
  violates(memory(2), kGranule, 1, "device");

  World w;
  const uint64_t at = World::base();
  place(w, at, kGranule, 0, memory(7));
  CHECK_EQUAL(error(w), CUDA_ERROR_INVALID_VALUE);
  release(w, memory(7));
  CHECK_EQUAL(error(w), CUDA_ERROR_INVALID_HANDLE);
  create(w, memory(7), kGranule);
  place(w, at, kGranule, 0, memory(7, 2));
  CHECK_EQUAL(error(w), CUDA_ERROR_INVALID_VALUE);
  place(w, at, kGranule, 0, memory(7));
  release(w, memory(7));  // it is mapped
  CHECK_EQUAL(error(w), CUDA_ERROR_INVALID_HANDLE);
  access(w, at, kGranule);
  w.guest.upload(at, "still there");
  CHECK_EQUAL(error(w), CUDA_SUCCESS);
}

TEST(only_whole_mappings_go) {
  World w;
  const uint64_t at = World::base();
  create(w, memory(1), 4 * kGranule);
  place(w, at, 2 * kGranule, 0, memory(1));
  place(w, at + 2 * kGranule, kGranule, 0, memory(1));
  place(w, at + 4 * kGranule, kGranule, 0, memory(1));
  w.guest.map(at + 3 * kGranule, kGranule);
  const uint64_t wrong[][2] = {{at, kGranule},
                               {at + kGranule, kGranule},
                               {at, 4 * kGranule},
                               {at + 3 * kGranule, kGranule},  // MemoryMap's
                               {at + 5 * kGranule, kGranule},
                               {at + 4 * kGranule, 2 * kGranule},
                               {at, 0},
                               {at, uint64_t{0} - kGranule},
                               {at + 1, kGranule}};
  for (const auto &[address, size] : wrong) {
    CHECK_EQUAL(displace(w, address, size), CUDA_ERROR_INVALID_VALUE);
    access(w, address, size, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    if (size == kGranule && address == at) {
      error(w);  // part of a mapping may change
    } else if (address != at + kGranule) {
      CHECK_EQUAL(error(w), CUDA_ERROR_INVALID_VALUE);
    } else {
      error(w);
    }
  }
  w.guest.upload(at + 3 * kGranule, "open");
  CHECK_EQUAL(error(w), CUDA_SUCCESS);
  CHECK_EQUAL(displace(w, at, 3 * kGranule), CUDA_SUCCESS);
  w.guest.unmap(at + 3 * kGranule, kGranule);
  CHECK_EQUAL(error(w), CUDA_SUCCESS);
}

TEST(placed_memory_is_not_unmapped_as_if_it_were_not) {
  World w;
  create(w, memory(1), kGranule);
  place(w, World::base(), kGranule, 0, memory(1));
  w.guest.unmap(World::base(), kGranule);
  w.expect_violation("was not mapped");
}

TEST(the_limit_counts_it) {
  WorldOptions options;
  options.memory = 4 * kGranule;
  World w(options);
  const uint64_t at = World::base();
  create(w, memory(1), 3 * kGranule);
  create(w, memory(2), 2 * kGranule);
  CHECK_EQUAL(error(w), CUDA_ERROR_OUT_OF_MEMORY);
  w.guest.map(at, 2 * kGranule);
  CHECK_EQUAL(error(w), CUDA_ERROR_OUT_OF_MEMORY);
  create(w, memory(3), UINT64_MAX - kGranule + 1);
  CHECK_EQUAL(error(w), CUDA_ERROR_OUT_OF_MEMORY);
  w.guest.map(at, kGranule);
  CHECK_EQUAL(error(w), CUDA_SUCCESS);
  release(w, memory(1));
  create(w, memory(2), 3 * kGranule);
  CHECK_EQUAL(error(w), CUDA_SUCCESS);
}

// Taking mappings away waits for the device, and nobody else waits.
TEST(a_wait_holds_nobody) {
  World w;
  w.load_kernels();
  const uint64_t at = World::base();
  const uint64_t stream = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
  create(w, memory(1), kGranule);
  place(w, at, kGranule, 0, memory(1));
  w.gate(3, stream);
  wire_MemoryDisplace q{};
  q.address = at;
  q.size = kGranule;
  const uint64_t request = w.guest.ask(WIRE_MemoryDisplace, q);
  w.guest.map(at + kGranule, kGranule);
  w.guest.upload(at + kGranule, "go on");
  CHECK_EQUAL(w.guest.download(at + kGranule, 5), "go on");
  World::fake().open_gate(3);
  CHECK_EQUAL(w.guest.wait(request).reply.result, CUDA_SUCCESS);
}

// Who has it ended before could have more than the limit, once for each command that waits.
TEST(a_piece_counts_as_long_as_the_device_has_it_mapped) {
  WorldOptions options;
  options.memory = 4 * kGranule;
  World w(options);
  w.load_kernels();
  const auto failed = [&] {
    return static_cast<CUresult>(w.guest.call(WIRE_Echo, wire_Echo{}).reply.async);
  };
  const uint64_t at = World::base();
  create(w, memory(1), 3 * kGranule);
  place(w, at, 2 * kGranule, 0, memory(1));
  w.gate(3, w.guest.stream(1, CU_STREAM_NON_BLOCKING));
  wire_MemoryDisplace q{};
  q.address = at;
  q.size = 2 * kGranule;
  const uint64_t request = w.guest.ask(WIRE_MemoryDisplace, q);
  release(w, memory(1));
  CHECK_EQUAL(failed(), CUDA_ERROR_INVALID_HANDLE);
  create(w, memory(2), 2 * kGranule);
  CHECK_EQUAL(failed(), CUDA_ERROR_OUT_OF_MEMORY);
  World::fake().open_gate(3);
  CHECK_EQUAL(w.guest.wait(request).reply.result, CUDA_SUCCESS);
  release(w, memory(1));
  create(w, memory(2), 4 * kGranule);
  CHECK_EQUAL(failed(), CUDA_SUCCESS);
}

TEST(memory_that_cannot_be_overwritten_ends_the_process) {
  World w;
  create(w, memory(1), kGranule);
  CHECK_EQUAL(error(w), CUDA_SUCCESS);
  World::fake().fail("cuMemAddressReserve", CUDA_ERROR_OUT_OF_MEMORY, 0);
  release(w, memory(1));
  CHECK_EQUAL(error(w), CUDA_ERROR_OUT_OF_MEMORY);
  const SessionEnd end = w.end();
  CHECK(!end.reusable);
}

// A piece that is mapped whole goes where it is mapped; one that nothing maps, and one that may be
// read nowhere, through an address where nothing is.
TEST(pieces_move_with_what_maps_them) {
  World w;
  const uint64_t at = World::base();
  w.guest.map(at, kGranule);
  for (uint32_t index : {1, 2, 3}) create(w, memory(index), 2 * kGranule);
  place(w, at + 2 * kGranule, 2 * kGranule, 0, memory(1));
  access(w, at + 2 * kGranule, 2 * kGranule);
  place(w, at + 6 * kGranule, kGranule, kGranule, memory(1));
  for (uint32_t index : {2, 3}) {
    place(w, at + 8 * kGranule, 2 * kGranule, 0, memory(index));
    access(w, at + 8 * kGranule, 2 * kGranule);
    w.guest.memset32(at + 8 * kGranule, index, 16);
    CHECK_EQUAL(displace(w, at + 8 * kGranule, 2 * kGranule), CUDA_SUCCESS);
  }
  w.guest.memset32(at + 2 * kGranule, 1, 16);
  place(w, at + 8 * kGranule, 2 * kGranule, 0, memory(3));
  CHECK_EQUAL(error(w), CUDA_SUCCESS);

  Target target(w);
  target.shares = true;
  CHECK(target.take_connection());
  const std::vector<uint8_t> commit = target.serve_until_commit();
  CHECK(!commit.empty());
  CHECK_EQUAL(std::ranges::count(target.commands, WIRE_MemoryCreate), 3);
  CHECK_EQUAL(std::ranges::count(target.commands, WIRE_MemoryPlace), 5);
  CHECK_EQUAL(std::ranges::count(target.commands, WIRE_MemoryDisplace), 2);
  std::map<uint64_t, unsigned> first;
  for (const auto &[address, piece] : target.uploaded) first[address] = unsigned(piece[0]);
  // Both that go through another address have the same one, the second piece of the two last.
  CHECK_EQUAL(first[at + 2 * kGranule], 1u);
  CHECK_EQUAL(first[at + 4 * kGranule], 3u);
  CHECK_EQUAL(target.open[at + 2 * kGranule], unsigned{CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
  CHECK_EQUAL(target.open[at + 6 * kGranule], unsigned{CU_MEM_ACCESS_FLAGS_PROT_NONE});
  CHECK_EQUAL(target.open[at + 8 * kGranule], unsigned{CU_MEM_ACCESS_FLAGS_PROT_NONE});
  target.answer(commit);
  CHECK(target.told.get_future().get().moved);
  w.ended();
  munmap(target.region, Target::kSlots * Target::kSlot);
}
