// Memory that guest and server share: what lies in its slots, whose they are when, and what a guest
// may not.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/sealed_memory.h"
#include "check.h"
#include "world.h"

using namespace outboard;

namespace {

// A session whose guest has the region.
struct SameMachine : World {
  explicit SameMachine(WorldOptions options = {}) : World(std::move(options)) {
    const Answer answer = guest.call(WIRE_RegionOpen, wire_RegionOpen{});
    CHECK_EQUAL(answer.reply.result, CUDA_SUCCESS);
    told = answer.frame.as<wire_RegionOpen_reply>();
    CHECK(guest.descriptor >= 0);
    size = told.slot * (told.uploads + told.downloads);
    bytes = static_cast<char *>(
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, guest.descriptor, 0));
    CHECK(bytes != MAP_FAILED);
    guest.map(base(), 32 << 20);
  }
  ~SameMachine() { munmap(bytes, size); }

  char *upload_slot(uint32_t slot) { return bytes + slot * told.slot; }
  char *download_slot(uint32_t slot) { return bytes + (told.uploads + slot) * told.slot; }

  void upload(uint32_t slot, uint64_t to, const std::string &data, uint64_t stream = 0) {
    memcpy(upload_slot(slot), data.data(), data.size());
    wire_RegionUpload q{};
    q.destination = to;
    q.stream = stream;
    q.length = data.size();
    q.slot = slot;
    guest.put(WIRE_RegionUpload, q);
  }
  uint64_t busy() {
    const Answer answer = guest.call(WIRE_RegionSettle, wire_RegionSettle{});
    CHECK_EQUAL(answer.reply.result, CUDA_SUCCESS);
    return answer.frame.as<wire_RegionSettle_reply>().busy;
  }
  uint64_t ask_download(uint64_t from, uint64_t length, uint64_t stream = 0) {
    wire_RegionDownload q{};
    q.source = from;
    q.length = length;
    q.stream = stream;
    return guest.ask(WIRE_RegionDownload, q);
  }
  void taken(uint64_t slots) {
    wire_RegionTaken q{};
    q.slots = slots;
    guest.put(WIRE_RegionTaken, q);
  }
  // Takes what comes of a download, in order, up to its answer; slots are given back after so many.
  std::string collect(uint64_t request, unsigned at_once, unsigned *sent = nullptr) {
    std::string data;
    uint64_t mine = 0;
    for (;;) {
      const Frame frame = guest.next();
      CHECK(!frame.bytes.empty());
      if (frame.op() == WIRE_PLACED) {
        const auto &placed = frame.as<wire_placed>();
        CHECK_EQUAL(placed.request, request);
        CHECK_EQUAL(placed.offset, data.size());
        CHECK(placed.slot < told.downloads && placed.length <= told.slot);
        CHECK((mine >> placed.slot & 1) == 0);
        data.append(download_slot(placed.slot), placed.length);
        mine |= uint64_t{1} << placed.slot;
        if (static_cast<unsigned>(__builtin_popcountll(mine)) < at_once) continue;
        taken(mine);
        mine = 0;
      } else if (frame.op() == WIRE_DATA) {
        if (sent) ++*sent;
        data += frame.tail<wire_data>(frame.as<wire_data>().length);
      } else if (frame.op() == WIRE_REPLY) {
        CHECK_EQUAL(frame.as<wire_reply>().request, request);
        CHECK_EQUAL(frame.as<wire_reply>().result, CUDA_SUCCESS);
        taken(mine);
        return data;
      }
    }
  }

  wire_RegionOpen_reply told;
  uint64_t size;
  char *bytes;
};

}  // namespace

TEST(it_can_neither_shrink_nor_grow) {
  SameMachine w;
  CHECK_EQUAL(static_cast<uint64_t>(lseek(w.guest.descriptor, 0, SEEK_END)), w.size);
  CHECK(ftruncate(w.guest.descriptor, 4096) < 0);
  CHECK(ftruncate(w.guest.descriptor, static_cast<off_t>(2 * w.size)) < 0);
  CHECK(fcntl(w.guest.descriptor, F_ADD_SEALS, F_SEAL_WRITE) < 0);
  // What its pages held before is nobody's business.
  for (uint64_t at = 0; at < w.size; at++) CHECK(w.bytes[at] == 0);
}

// What a session that moves here brings with it.
TEST(memory_of_others_is_sealed_of_its_size_and_of_small_pages) {
  constexpr uint64_t kSize = 4 << 20;
  const auto memory = [](unsigned flags, int seals) {
    const int fd = memfd_create("others", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
    if (fd >= 0) CHECK(ftruncate(fd, kSize) == 0 && fcntl(fd, F_ADD_SEALS, seals) == 0);
    return fd;
  };
  const int sealed = memory(0, F_SEAL_SHRINK), open = memory(0, F_SEAL_GROW);
  CHECK(is_sealed_memory(sealed, kSize));
  CHECK(!is_sealed_memory(sealed, kSize / 2));
  CHECK(!is_sealed_memory(open, kSize));
  CHECK(!is_sealed_memory(-1, kSize));
  int pipes[2];
  CHECK(pipe2(pipes, O_CLOEXEC) == 0);
  CHECK(!is_sealed_memory(pipes[0], 0));
  // A kernel may know none.
  const int huge = memory(MFD_HUGETLB, F_SEAL_SHRINK);
  CHECK(!is_sealed_memory(huge, kSize));
  for (int fd : {sealed, open, huge, pipes[0], pipes[1]}) close(fd);
}

TEST(uploads_lie_in_slots) {
  SameMachine w;
  const std::string data = pattern(w.told.slot), odd = pattern(1001, 7);
  for (uint32_t slot = 0; slot < w.told.uploads; slot++) {
    w.upload(slot, World::base() + slot * w.told.slot, data);
  }
  w.upload(0, World::base() + 4096 + 3, odd);
  CHECK_EQUAL(w.busy(), 0u);
  CHECK(w.guest.download(World::base() + w.told.slot, w.told.slot) == data);
  CHECK(w.guest.download(World::base() + 4099, odd.size()) == odd);
}

// A slot is told to be busy as long as its copy has not been made, and nobody waits for long.
TEST(a_slot_is_busy_while_its_stream_is_held) {
  SameMachine w;
  w.load_kernels();
  const uint64_t held = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
  const uint64_t other = w.guest.stream(2, CU_STREAM_NON_BLOCKING);
  w.gate(1, held);
  w.upload(3, World::base(), "held", held);
  w.upload(5, World::base() + 64, "free", other);
  CHECK_EQUAL(w.busy(), uint64_t{1} << 3);
  World::fake().open_gate(1);
  CHECK_EQUAL(w.guest.synchronize().result, CUDA_SUCCESS);
  CHECK_EQUAL(w.busy(), 0u);
  CHECK(w.guest.download(World::base(), 4) == "held");
}

TEST(downloads_lie_in_slots) {
  SameMachine w;
  const std::string data = pattern((3 * w.told.downloads + 1) * w.told.slot + 1234);
  for (size_t at = 0; at < data.size(); at += 1 << 20) {
    w.guest.upload(World::base() + at, data.substr(at, 1 << 20));
  }
  for (const unsigned at_once : {1u, 3u, w.told.downloads}) {
    for (const size_t size : {size_t{100'000}, size_t{1} << 20, data.size() - 1}) {
      unsigned sent = 0;
      const uint64_t request = w.ask_download(World::base() + 1, size);
      CHECK(w.collect(request, at_once, &sent) == data.substr(1, size));
      // Who is slow to give slots back gets some of it by the socket.
      if (size <= w.told.downloads * w.told.slot) CHECK_EQUAL(sent, 0u);
    }
  }
}

// Who does not give slots back gets the rest by the socket.
TEST(what_finds_no_slot_is_sent) {
  SameMachine w;
  const std::string data = pattern(3 * w.told.downloads * w.told.slot);
  for (size_t at = 0; at < data.size(); at += 1 << 20) {
    w.guest.upload(World::base() + at, data.substr(at, 1 << 20));
  }
  unsigned sent = 0;
  CHECK(w.collect(w.ask_download(World::base(), data.size()), ~0u, &sent) == data);
  CHECK(sent > 0);
  // Slots that were given back meanwhile are used again.
  sent = 0;
  CHECK(w.collect(w.ask_download(World::base(), 1 << 20), 1, &sent) == data.substr(0, 1 << 20));
  CHECK_EQUAL(sent, 0u);
}

// What follows a download in its stream does not change it, however long it takes.
TEST(a_download_is_as_of_its_turn) {
  SameMachine w;
  const size_t size = 3 * w.told.downloads * w.told.slot;
  w.guest.memset32(World::base(), 1, size / 4);
  const uint64_t request = w.ask_download(World::base(), size);
  w.guest.memset32(World::base(), 2, size / 4);
  std::string ones;
  for (size_t i = 0; i < size / 4; i++) ones += packed(uint32_t{1});
  CHECK(w.collect(request, 2) == ones);
  CHECK_EQUAL(w.guest.synchronize().result, CUDA_SUCCESS);
}

TEST(a_guest_that_goes_leaves_nothing) {
  for (int way = 0; way < 3; way++) {
    SameMachine w;
    w.load_kernels();
    const uint64_t held = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
    if (way == 1) w.gate(1, held);
    w.upload(1, World::base(), "x", held);
    w.ask_download(World::base(), 16 << 20, held);
    if (way == 2) w.guest.synchronize();
    w.guest.close();
    if (way == 1) World::fake().open_gate(1);
    CHECK(w.ended().reusable);
  }
}

TEST(offsets_out_of_the_region_end_the_session) {
  const auto refused = [](auto act, const std::string &words) {
    SameMachine w;
    act(w);
    w.expect_violation(words);
  };
  for (const uint32_t slot : {Region::kUploads, Region::kUploads + Region::kDownloads, ~0u}) {
    refused(
        [&](SameMachine &w) {
          wire_RegionUpload q{};
          q.destination = World::base();
          q.length = 1;
          q.slot = slot;
          w.guest.put(WIRE_RegionUpload, q);
        },
        "not a slot");
  }
  for (const uint64_t length : {uint64_t{Region::kSlot + 1}, UINT64_MAX}) {
    refused(
        [&](SameMachine &w) {
          wire_RegionUpload q{};
          q.destination = World::base();
          q.length = length;
          w.guest.put(WIRE_RegionUpload, q);
        },
        "not a slot");
  }
  // Slots that it has not been given, or has given back.
  for (const uint64_t slots : {uint64_t{1}, uint64_t{1} << Region::kDownloads, UINT64_MAX}) {
    refused([&](SameMachine &w) { w.taken(slots); }, "not the guest's");
  }
  refused(
      [&](SameMachine &w) {
        w.collect(w.ask_download(World::base(), 100'000), 1);
        w.taken(1);
      },
      "not the guest's");
  refused([&](SameMachine &w) { w.guest.ask(WIRE_RegionOpen, wire_RegionOpen{}); }, "second time");
}

TEST(without_a_region_there_is_nothing_in_it) {
  const auto refused = [](auto act, const std::string &words) {
    World w;
    act(w.guest);
    w.expect_violation(words);
  };
  refused([](Guest &g) { g.put(WIRE_RegionUpload, wire_RegionUpload{}); }, "without a region");
  refused([](Guest &g) { g.ask(WIRE_RegionSettle, wire_RegionSettle{}); }, "without a region");
  refused([](Guest &g) { g.ask(WIRE_RegionDownload, wire_RegionDownload{}); }, "without a region");
  refused([](Guest &g) { g.put(WIRE_RegionTaken, wire_RegionTaken{}); }, "not the guest's");
}

TEST(memory_of_nobody_is_refused_as_ever) {
  SameMachine w;
  w.upload(0, World::base() + (uint64_t{1} << 30), "x");
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_VALUE);
  const Answer answer = w.guest.wait(w.ask_download(World::base() + (uint64_t{1} << 30), 200'000));
  CHECK_EQUAL(answer.reply.result, CUDA_ERROR_INVALID_VALUE);
}

// A driver that cannot pin it, or has no event left, gets copies as by any other socket.
TEST(where_the_driver_refuses_there_is_none) {
  for (const char *function : {"cuMemHostRegister_v2", "cuEventCreate"}) {
    World w;
    World::fake().fail(function, CUDA_ERROR_NOT_SUPPORTED, 0);
    CHECK_EQUAL(w.guest.call(WIRE_RegionOpen, wire_RegionOpen{}).reply.result,
                CUDA_ERROR_NOT_SUPPORTED);
    CHECK_EQUAL(w.guest.descriptor, -1);
    // It may be otherwise the next time.
    CHECK_EQUAL(w.guest.call(WIRE_RegionOpen, wire_RegionOpen{}).reply.result, CUDA_SUCCESS);
  }
}
