// What the sessions of a program lend each other: to whom, for how long, and what it counts.
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "memory/peers.h"
#include "world.h"

using namespace outboard;

namespace {

constexpr uint64_t kGranule = WIRE_GRANULE;
const Program kProgram{"a", 9};

WorldOptions lending(uint64_t granules) {
  WorldOptions options;
  options.tenant = kProgram.tenant;
  options.group = kProgram.group;
  options.memory = granules * kGranule;
  return options;
}

ShareName offer(World &w) {
  const Answer answer = w.guest.call(WIRE_PeerOffer, wire_PeerOffer{});
  CHECK_EQUAL(answer.reply.result, CUDA_SUCCESS);
  ShareName name;
  memcpy(name.words.data(), &answer.frame.as<wire_PeerOffer_reply>().name0, sizeof name.words);
  return name;
}

void lend(World &w, uint64_t address, uint64_t size, uint64_t loan) {
  wire_PeerLend q{};
  q.address = address;
  q.size = size;
  q.loan = loan;
  w.guest.put(WIRE_PeerLend, q);
}

// The result of the posted work so far.
CUresult settle(World &w) {
  const Answer answer = w.guest.call(WIRE_Acknowledge, wire_Acknowledge{});
  return static_cast<CUresult>(answer.reply.async);
}

// The other session of the program: a process that does what `steps` say.
class Peer {
 public:
  template <class Steps>
  explicit Peer(Steps steps) {
    CHECK(pipe(to_) == 0 && pipe(from_) == 0);
    child_ = fork();
    if (child_ != 0) return;
    const bool good = steps(*this);
    _exit(good ? 0 : 1);
  }
  ~Peer() {
    int status = 1;
    CHECK(waitpid(child_, &status, 0) == child_);
    CHECK_EQUAL(status, 0);
  }
  // On this side.
  void give(const ShareName &name) { CHECK(write(to_[1], &name, sizeof name) == sizeof name); }
  void go() { CHECK(write(to_[1], "x", 1) == 1); }
  void await() {
    char step;
    CHECK(read(from_[0], &step, 1) == 1);
  }
  // On the other.
  ShareName take() {
    ShareName name;
    CHECK(read(to_[0], &name, sizeof name) == sizeof name);
    return name;
  }
  void wait() {
    char step;
    CHECK(read(to_[0], &step, 1) == 1);
  }
  void say() { CHECK(write(from_[1], "x", 1) == 1); }

 private:
  pid_t child_;
  int to_[2], from_[2];
};

std::unique_ptr<PeerLink> join(const ShareName &name, const Program &program = kProgram) {
  return PeerLink::join(name, program, [] { return false; });
}

bool borrow(PeerLink &link, uint64_t loan, uint64_t size) {
  uint64_t offset = 1, length = 0;
  int fd = -1;
  if (link.borrow(loan, &offset, &length, &fd) != Borrowed::kThere) return false;
  CHECK(fd >= 0 && offset == 0 && length == size);
  close(fd);
  return true;
}

// Borrows the first piece and gives it back when it is told to go; a second time, it ends.
bool borrow_and_give_back(Peer &self, uint64_t size) {
  const auto link = join(self.take());
  CHECK(link && borrow(*link, 1, size));
  self.say();
  self.wait();
  link->give_back(1);
  self.wait();
  return true;
}

void end_with_borrowed(bool back) {
  Peer peer([&](Peer &self) {
    const auto link = join(self.take());
    CHECK(link && borrow(*link, 1, kGranule));
    self.say();
    // The end of the other session is the end of what it says.
    CHECK(!borrow(*link, 2, kGranule));
    if (!back) self.wait();
    return true;
  });
  WorldOptions options = lending(4);
  options.patience = std::chrono::milliseconds(back ? 60000 : 300);
  World w(std::move(options));
  w.guest.map(World::base(), kGranule);
  lend(w, World::base(), kGranule, 1);
  peer.give(offer(w));
  peer.await();
  const SessionEnd end = w.end();
  CHECK_EQUAL(end.reusable, back);
  CHECK_EQUAL(World::fake().dirty_releases(), 0u);
  if (!back) peer.go();
}

}  // namespace

TEST(only_sessions_of_the_program_are_lent_to) {
  Peer peer([](Peer &self) {
    const ShareName name = self.take();
    CHECK(!join(name, {"b", 9}));
    CHECK(!join(name, {"", 9}));
    CHECK(!join(name, {std::string(1000, 'a'), 9}));
    CHECK(!join(name, {"a", 8}));
    for (size_t i = 0; i < 7; i++) {
      ShareName other = name;
      other.words[i] ^= uint64_t{1} << 40;
      CHECK(!join(other));
    }
    CHECK(!join(ShareName{}));
    const auto link = join(name);
    CHECK(link);
    CHECK(borrow(*link, 1, kGranule));
    CHECK(!borrow(*link, 1, kGranule));  // it has it
    self.say();
    self.wait();
    // Unmapped, and lent no more; a number that nothing is behind.
    uint64_t offset, size;
    int fd;
    CHECK(link->borrow(2, &offset, &size, &fd) == Borrowed::kGone);
    CHECK(link->borrow(3, &offset, &size, &fd) == Borrowed::kGone);
    CHECK_EQUAL(fd, -1);
    // Lent later.
    self.say();
    CHECK(borrow(*link, 4, 2 * kGranule));
    self.say();
    return true;
  });
  {
    World w(lending(64));
    const uint64_t at = World::base();
    w.guest.map(at, kGranule);
    w.guest.map(at + kGranule, kGranule);
    lend(w, at, kGranule, 1);
    lend(w, at + kGranule, kGranule, 2);
    peer.give(offer(w));
    peer.await();
    w.guest.unmap(at + kGranule, kGranule);
    CHECK_EQUAL(settle(w), CUDA_SUCCESS);
    lend(w, at + kGranule, kGranule, 3);
    CHECK_EQUAL(settle(w), CUDA_ERROR_OUT_OF_MEMORY);
    peer.go();
    peer.await();
    w.guest.map(at + 2 * kGranule, 2 * kGranule);
    lend(w, at + 2 * kGranule, 2 * kGranule, 4);
    CHECK_EQUAL(settle(w), CUDA_SUCCESS);
    peer.await();
  }
}

TEST(sixteen_connections_borrow_at_a_time) {
  Peer peer([](Peer &self) {
    const ShareName name = self.take();
    std::vector<std::unique_ptr<PeerLink>> links;
    for (int i = 0; i < 16; i++) CHECK(links.emplace_back(join(name)));
    CHECK(!join(name));
    CHECK(borrow(*links.back(), 1, kGranule));
    // When it has left is the other's to see.
    links.erase(links.begin());
    while (!links.emplace_back(join(name))) links.pop_back();
    CHECK(!join(name));
    self.say();
    return true;
  });
  World w(lending(4));
  w.guest.map(World::base(), kGranule);
  lend(w, World::base(), kGranule, 1);
  peer.give(offer(w));
  peer.await();
}

TEST(what_is_borrowed_counts_until_it_is_given_back) {
  Peer peer([](Peer &self) { return borrow_and_give_back(self, 3 * kGranule); });
  {
    World w(lending(4));
    const uint64_t at = World::base();
    w.guest.map(at, 3 * kGranule);
    w.guest.upload(at, "secret");
    lend(w, at, 3 * kGranule, 1);
    peer.give(offer(w));
    peer.await();
    w.guest.unmap(at, 3 * kGranule);
    // As much as there is left beside what the other has.
    w.guest.map(at + 3 * kGranule, kGranule);
    CHECK_EQUAL(settle(w), CUDA_SUCCESS);
    w.guest.unmap(at + 3 * kGranule, kGranule);
    // At the same addresses, and as much again: both wait for what the other has.
    w.guest.map(at, 4 * kGranule);
    usleep(100000);
    CHECK_EQUAL(World::fake().dirty_releases(), 0u);
    peer.go();
    CHECK_EQUAL(settle(w), CUDA_SUCCESS);
    CHECK_EQUAL(w.guest.download(at, 6), std::string(6, '\0'));
    peer.go();
  }
  CHECK_EQUAL(World::fake().dirty_releases(), 0u);
}

TEST(what_comes_back_and_cannot_be_overwritten_is_nobody_elses) {
  Peer peer([](Peer &self) { return borrow_and_give_back(self, kGranule); });
  World w(lending(4));
  const uint64_t at = World::base();
  w.guest.map(at, kGranule);
  w.guest.upload(at, "secret");
  lend(w, at, kGranule, 1);
  peer.give(offer(w));
  peer.await();
  w.guest.unmap(at, kGranule);
  CHECK_EQUAL(settle(w), CUDA_SUCCESS);
  World::fake().fail("cuMemsetD8Async", CUDA_ERROR_UNKNOWN, 0);
  peer.go();
  w.guest.map(at, kGranule);
  CHECK(settle(w) != CUDA_SUCCESS);
  CHECK(!w.end().reusable);
  CHECK_EQUAL(World::fake().dirty_releases(), 0u);
  peer.go();
}

TEST(a_session_that_ends_waits_for_what_is_borrowed) { end_with_borrowed(true); }
// Its process has to go: nobody else may get what another still has.
TEST(what_is_not_given_back_is_nobody_elses) { end_with_borrowed(false); }

// What was never lent is waited for no longer than there is a guest.
TEST(who_hangs_up_waits_for_no_peer) {
  Peer peer([](Peer &self) {
    WorldOptions options = lending(4);
    options.patience = std::chrono::seconds(30);
    World w(std::move(options));
    wire_PeerJoin enter{};
    const ShareName name = self.take();
    memcpy(&enter.name0, name.words.data(), sizeof name.words);
    CHECK_EQUAL(w.guest.call(WIRE_PeerJoin, enter).reply.result, CUDA_SUCCESS);
    wire_PeerMap map{};
    map.address = World::base();
    map.size = kGranule;
    map.loan = 1;
    w.guest.put(WIRE_PeerMap, map);
    const bool reusable = w.end().reusable;
    self.say();
    return reusable;
  });
  World w(lending(4));
  peer.give(offer(w));
  peer.await();
}

TEST(pieces_are_lent_by_their_mappings) {
  Peer peer([](Peer &self) {
    const auto link = join(self.take());
    uint64_t offset = 0, length = 0;
    int fd = -1;
    CHECK(link && link->borrow(1, &offset, &length, &fd) == Borrowed::kThere);
    CHECK(offset == kGranule && length == 2 * kGranule);
    close(fd);
    self.say();
    self.wait();
    link->give_back(1);
    return true;
  });
  World w(lending(4));
  const uint64_t at = World::base(), handle = wire_handle(WIRE_KIND_MEMORY, 1, 1);
  wire_MemoryCreate create{};
  create.memory = handle;
  create.size = 4 * kGranule;
  w.guest.put(WIRE_MemoryCreate, create);
  wire_MemoryPlace place{};
  place.address = at;
  place.size = 2 * kGranule;
  place.offset = kGranule;
  place.memory = handle;
  w.guest.put(WIRE_MemoryPlace, place);
  lend(w, at, 2 * kGranule, 1);
  peer.give(offer(w));
  peer.await();
  wire_MemoryDisplace displace{};
  displace.address = at;
  displace.size = 2 * kGranule;
  CHECK_EQUAL(w.guest.call(WIRE_MemoryDisplace, displace).reply.result, CUDA_SUCCESS);
  wire_MemoryRelease release{};
  release.memory = handle;
  w.guest.put(WIRE_MemoryRelease, release);
  // All there is, once the other has given it back.
  w.guest.map(at, 4 * kGranule);
  peer.go();
  CHECK_EQUAL(settle(w), CUDA_SUCCESS);
}

TEST(numbers_that_make_no_sense) {
  {
    World w;
    lend(w, World::base(), kGranule, 1);
    w.expect_violation("nobody to borrow");
  }
  {
    World w(lending(4));
    w.guest.map(World::base(), kGranule);
    lend(w, World::base(), kGranule, 5);
    lend(w, World::base(), kGranule, 5);
    w.expect_violation("number of a loan");
  }
  {
    World w(lending(4));
    wire_PeerMap q{};
    q.address = World::base();
    q.size = kGranule;
    q.peer = 1u << 31;
    w.guest.put(WIRE_PeerMap, q);
    w.expect_violation("not joined");
  }
  {
    World w(lending(4));
    wire_PeerJoin q{};
    q.peer = 8;
    w.guest.ask(WIRE_PeerJoin, q);
    w.expect_violation("too high");
  }
  // Alone, there is nobody to offer anything to.
  {
    World w;
    CHECK_EQUAL(w.guest.call(WIRE_PeerOffer, wire_PeerOffer{}).reply.result,
                CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  }
  // A session's own name, and none.
  World w(lending(4));
  const ShareName own = offer(w);
  wire_PeerJoin q{};
  for (const ShareName &name : {own, ShareName{}}) {
    memcpy(&q.name0, name.words.data(), sizeof name.words);
    CHECK_EQUAL(w.guest.call(WIRE_PeerJoin, q).reply.result, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  }
  // Nothing is there to be given back.
  wire_PeerUnmap unmap{};
  unmap.address = World::base();
  unmap.size = kGranule;
  w.guest.put(WIRE_PeerUnmap, unmap);
  CHECK_EQUAL(settle(w), CUDA_SUCCESS);
}
