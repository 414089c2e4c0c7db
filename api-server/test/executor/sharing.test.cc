// What sessions share: only under a share name, for the same tenant on the same device, as long as
// it is offered; and what is left of it.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "memory/offers.h"
#include "world.h"

using namespace outboard;

namespace {

constexpr uint64_t kGranule = WIRE_GRANULE;

uint64_t memory(uint32_t index) { return wire_handle(WIRE_KIND_MEMORY, 1, index); }

Sharer sharer(const std::string &tenant, char device = 1) {
  Sharer s{5, tenant, {}};
  s.device.bytes[0] = device;
  return s;
}

using Words = std::array<uint64_t, 8>;

Answer export_mapping(World &w, uint64_t address, uint64_t size, uint64_t offset, uint64_t length) {
  wire_MemoryExport q{};
  q.address = address;
  q.size = size;
  q.offset = offset;
  q.length = length;
  return w.guest.call(WIRE_MemoryExport, q);
}

Words words_of(const Answer &answer) {
  CHECK_EQUAL(answer.reply.result, CUDA_SUCCESS);
  Words words;
  memcpy(words.data(), &answer.frame.as<wire_MemoryExport_reply>().name0, sizeof words);
  return words;
}

Answer import(World &w, uint64_t handle, const Words &words, bool own) {
  wire_MemoryImport q{};
  q.memory = handle;
  q.own = own;
  memcpy(&q.name0, words.data(), sizeof words);
  return w.guest.call(WIRE_MemoryImport, q);
}

void place(World &w, uint64_t address, uint64_t size, uint64_t handle) {
  wire_MemoryPlace q{};
  q.address = address;
  q.size = size;
  q.memory = handle;
  w.guest.put(WIRE_MemoryPlace, q);
  wire_MemoryAccess a{};
  a.address = address;
  a.size = size;
  a.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  w.guest.put(WIRE_MemoryAccess, a);
}

}  // namespace

// Another process offers; this one asks.
TEST(only_who_should_gets_it) {
  int there[2], back[2];
  CHECK(pipe(there) == 0 && pipe(back) == 0);
  const pid_t child = fork();
  if (child == 0) {
    Shared shared;
    shared.kind = Shared::kMemory;
    shared.size = 4096;
    shared.length = 99;
    const int fd = memfd_create("shared", MFD_CLOEXEC);
    if (write(fd, "shared", 6) != 6) _exit(1);
    const std::optional<ShareName> name = Offers::own().offer(sharer("a"), 7, shared, fd);
    if (!name || write(there[1], &*name, sizeof *name) != sizeof *name) _exit(2);
    char step;
    if (read(back[0], &step, 1) != 1) _exit(3);
    Offers::own().withdraw(5, 7);
    if (write(there[1], &step, 1) != 1) _exit(4);
    if (read(back[0], &step, 1) != 1) _exit(5);
    _exit(0);
  }
  ShareName name;
  CHECK(read(there[0], &name, sizeof name) == sizeof name);
  Offers &own = Offers::own();
  CHECK(!own.is_own(name));
  Shared shared;
  int fd = -1;
  CHECK(own.fetch(name, sharer("a"), &shared, &fd));
  CHECK(shared.size == 4096 && shared.length == 99 && fd >= 0);
  char text[6];
  CHECK(pread(fd, text, 6, 0) == 6 && memcmp(text, "shared", 6) == 0);
  close(fd);
  CHECK(own.is_offered(name, sharer("a")));
  for (const char *tenant : {"", "b", "aa"}) {
    CHECK(!own.fetch(name, sharer(tenant), &shared, &fd));
    CHECK_EQUAL(fd, -1);
  }
  CHECK(!own.fetch(name, sharer(std::string(1000, 'a')), &shared, &fd));
  CHECK(!own.fetch(name, sharer("a", 2), &shared, &fd));
  for (size_t i = 0; i < 8; i++) {
    ShareName other = name;
    other.words[i] ^= uint64_t{1} << 40;
    CHECK(!own.fetch(other, sharer("a"), &shared, &fd));
  }
  CHECK(!own.fetch(ShareName{}, sharer("a"), &shared, &fd));
  CHECK(write(back[1], "x", 1) == 1);
  CHECK(read(there[0], text, 1) == 1);
  CHECK(!own.is_offered(name, sharer("a")));
  CHECK(write(back[1], "x", 1) == 1);
  int status = 1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK_EQUAL(status, 0);
  CHECK(!own.fetch(name, sharer("a"), &shared, &fd));  // nobody is there
}

TEST(mapped_memory_becomes_shareable) {
  World w;
  const uint64_t at = World::base();
  w.guest.map(at, 2 * kGranule);
  w.guest.upload(at + 100, "before");
  const Words words = words_of(export_mapping(w, at, 2 * kGranule, 100, 6));
  CHECK_EQUAL(w.guest.download(at + 100, 6), "before");
  // The same again, and another part of it.
  CHECK(words_of(export_mapping(w, at, 2 * kGranule, 100, 6)) == words);
  CHECK(words_of(export_mapping(w, at, 2 * kGranule, 200, 6)) != words);
  CHECK_EQUAL(import(w, memory(1), words, false).reply.result, CUDA_ERROR_INVALID_CONTEXT);
  const Answer answer = import(w, memory(1), words, true);
  CHECK_EQUAL(answer.reply.result, CUDA_SUCCESS);
  const auto &told = answer.frame.as<wire_MemoryImport_reply>();
  CHECK(told.size == 2 * kGranule && told.offset == 100 && told.length == 6);
  place(w, at + 10 * kGranule, 2 * kGranule, memory(1));
  w.guest.upload(at + 10 * kGranule + 100, "beyond");
  CHECK_EQUAL(w.guest.download(at + 100, 6), "beyond");
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_SUCCESS);
  // Both count.
  CHECK_EQUAL(w.session->counters()->memory_mapped.load(), 4 * kGranule);
  // Given up, it is not to be had any more.
  w.guest.unmap(at, 2 * kGranule);
  CHECK_EQUAL(import(w, memory(2), words, true).reply.result, CUDA_ERROR_INVALID_HANDLE);
}

// A part that is freed loses its name; what lies beside it in the same mapping does not, and stays
// its owner's, who overwrites it later.
TEST(a_share_ends_with_what_it_named) {
  World w;
  const uint64_t at = World::base();
  w.guest.map(at, kGranule);
  const Words first = words_of(export_mapping(w, at, kGranule, 0, 512));
  const Words beside = words_of(export_mapping(w, at, kGranule, 512, 512));
  const auto stands = [&](const Words &words) {
    wire_ShareCheck q{};
    memcpy(&q.name0, words.data(), sizeof words);
    return w.guest.call(WIRE_ShareCheck, q).reply.result == CUDA_SUCCESS;
  };
  const auto end = [&](uint64_t address, uint64_t offset, uint64_t length) {
    wire_ShareEnd q{};
    q.address = address;
    q.offset = offset;
    q.length = length;
    w.guest.put(WIRE_ShareEnd, q);
  };
  CHECK_EQUAL(import(w, memory(1), first, true).reply.result, CUDA_SUCCESS);
  CHECK(stands(first) && stands(beside) && !stands(Words{}));
  // None of these is what a name stands for.
  end(at + kGranule, 0, 512);
  end(at, 0, 511);
  end(at, 1024, 512);
  end(UINT64_MAX, UINT64_MAX, UINT64_MAX);
  CHECK(stands(first) && stands(beside));
  end(at, 0, 512);
  CHECK(!stands(first) && stands(beside));
  CHECK_EQUAL(import(w, memory(2), first, true).reply.result, CUDA_ERROR_INVALID_HANDLE);
  // What comes there next has a name of its own.
  const Words anew = words_of(export_mapping(w, at, kGranule, 0, 512));
  CHECK(anew != first && stands(anew) && !stands(first));
  end(at, 0, 512);
  end(at, 512, 512);
  // Who lets go of memory without a name leaves it as it is while its owner has it.
  w.guest.upload(at + 100, "stays");
  wire_MemoryRelease release{};
  release.memory = memory(1);
  w.guest.put(WIRE_MemoryRelease, release);
  w.guest.synchronize();
  CHECK_EQUAL(w.guest.download(at + 100, 5), "stays");
}

// Who has it from somebody who had it from its owner leaves it as it is, too, when both let go.
TEST(what_is_passed_on_stays_its_owners) {
  World w;
  const uint64_t at = World::base();
  w.guest.map(at, kGranule);
  const Words owners = words_of(export_mapping(w, at, kGranule, 0, kGranule));
  CHECK_EQUAL(import(w, memory(1), owners, true).reply.result, CUDA_SUCCESS);
  wire_MemoryExport q{};
  q.memory = memory(1);
  q.length = kGranule;
  const Words passed_on = words_of(w.guest.call(WIRE_MemoryExport, q));
  CHECK(passed_on != owners);
  CHECK_EQUAL(import(w, memory(2), passed_on, true).reply.result, CUDA_SUCCESS);
  w.guest.upload(at + 100, "stays");
  for (const uint32_t index : {1, 2}) {
    wire_MemoryRelease release{};
    release.memory = memory(index);
    w.guest.put(WIRE_MemoryRelease, release);
    w.guest.synchronize();
    CHECK_EQUAL(w.guest.download(at + 100, 5), "stays");
  }
  // Nor is it to be had by that name any more.
  CHECK_EQUAL(import(w, memory(3), passed_on, true).reply.result, CUDA_ERROR_INVALID_HANDLE);
}

// Before its session has noticed that the guest has left.
TEST(who_has_left_offers_nothing) {
  int pair[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
  Sharer left = sharer("a");
  left.connection = pair[0];
  Shared shared;
  shared.kind = Shared::kMemory;
  shared.size = shared.length = 4096;
  Offers &own = Offers::own();
  const int fd = memfd_create("shared", MFD_CLOEXEC);
  const std::optional<ShareName> name = own.offer(left, 8, shared, fd);
  CHECK(name && own.is_offered(*name, sharer("a")));
  close(pair[1]);
  CHECK(!own.is_offered(*name, sharer("a")));
  own.withdraw_all(left.session);
  close(pair[0]);
}

TEST(what_cannot_be_shared) {
  WorldOptions options;
  options.memory = 4 * kGranule;
  World w(options);
  const uint64_t at = World::base();
  w.guest.map(at, kGranule);
  w.guest.map(at + kGranule, 2 * kGranule);
  const auto refused = [&](uint64_t address, uint64_t size, uint64_t offset, uint64_t length) {
    CHECK_EQUAL(export_mapping(w, address, size, offset, length).reply.result,
                CUDA_ERROR_INVALID_VALUE);
  };
  refused(at, 2 * kGranule, 0, 1);
  refused(at + 4096, kGranule, 0, 1);
  refused(at + 50 * kGranule, kGranule, 0, 1);
  refused(at, kGranule, kGranule + 1, 0);
  refused(at, kGranule, 1, kGranule);
  refused(at, kGranule, UINT64_MAX, 2);
  wire_MemoryExport q{};
  q.memory = memory(9);
  CHECK_EQUAL(w.guest.call(WIRE_MemoryExport, q).reply.result, CUDA_ERROR_INVALID_VALUE);
  wire_MemoryCreate c{};
  c.memory = memory(1);
  c.size = kGranule;
  w.guest.put(WIRE_MemoryCreate, c);
  q.memory = memory(1);  // made without a thought of sharing
  CHECK_EQUAL(w.guest.call(WIRE_MemoryExport, q).reply.result, CUDA_ERROR_INVALID_VALUE);
  CHECK_EQUAL(import(w, memory(2), {}, true).reply.result, CUDA_ERROR_INVALID_HANDLE);
  // What is imported counts: there is no room for this.
  const Words words = words_of(export_mapping(w, at + kGranule, 2 * kGranule, 0, 1));
  CHECK_EQUAL(import(w, memory(2), words, true).reply.result, CUDA_ERROR_OUT_OF_MEMORY);
}

TEST(a_handle_that_lives_is_a_violation) {
  World w;
  wire_MemoryCreate c{};
  c.memory = memory(1);
  c.size = kGranule;
  w.guest.put(WIRE_MemoryCreate, c);
  wire_MemoryImport q{};
  q.memory = memory(1);
  q.request.request = 1000;
  w.guest.put(WIRE_MemoryImport, q);
  w.expect_violation("minted");
}

TEST(events) {
  World w;
  const uint64_t event = w.guest.event(1);
  wire_EventExport q{};
  q.event = event;
  const Answer answer = w.guest.call(WIRE_EventExport, q);
  const Words words = words_of(answer);
  wire_EventImport i{};
  i.event = wire_handle(WIRE_KIND_EVENT, 1, 2);
  memcpy(&i.name0, words.data(), sizeof words);
  CHECK_EQUAL(w.guest.call(WIRE_EventImport, i).reply.result, CUDA_ERROR_INVALID_CONTEXT);
  i.name3 ^= 1;
  i.name1 ^= 1;
  CHECK_EQUAL(w.guest.call(WIRE_EventImport, i).reply.result, CUDA_ERROR_INVALID_HANDLE);
  // A name of an event is none of memory.
  CHECK_EQUAL(import(w, memory(1), words, true).reply.result, CUDA_ERROR_INVALID_HANDLE);
  q.event = wire_handle(WIRE_KIND_EVENT, 3, 1);
  CHECK_EQUAL(w.guest.call(WIRE_EventExport, q).reply.result, CUDA_ERROR_INVALID_HANDLE);
  CHECK_EQUAL(w.guest.call(WIRE_Acknowledge, wire_Acknowledge{}).reply.result, CUDA_SUCCESS);
  i.event = event;
  i.request.request = 1000;
  w.guest.put(WIRE_EventImport, i);
  w.expect_violation("minted");
}
