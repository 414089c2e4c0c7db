// Turns on a device that several slots use: nobody's work starts in another one's, and nobody waits
// without an end. The other slots are this program.
#include "check.h"
#include "gate/turn.h"
#include "quota.h"

using namespace outboard;

namespace {

constexpr unsigned kOther = 3, kThird = 5;

TurnPage &turns() { return World::turn_page(); }

// A session with more quota tokens than it can use up.
struct TurnWorld : World {
  explicit TurnWorld(QuotaMode mode = kModeDeviceTime)
      : World((allow(mode, kNoLimit / 2), WorldOptions{})) {
    load_kernels();
    guest.synchronize();
  }
  ~TurnWorld() { allow(kModeOpen, kNoLimit); }

  void nothing(uint64_t stream = 0) { guest.launch(function_handle(kNothing), stream, ""); }
  // A wait in the stream for what nobody has written, and the write that ends it.
  void value(uint64_t stream, bool write) {
    const wire_value one{write ? CU_STREAM_MEM_OP_WRITE_VALUE_32 : CU_STREAM_MEM_OP_WAIT_VALUE_32,
                         CU_STREAM_WAIT_VALUE_EQ, base(), 5};
    wire_StreamValues q{};
    q.stream = stream;
    q.values_size = sizeof one;
    guest.put(WIRE_StreamValues, q, packed(one));
  }
};

// Another slot that always has work.
struct Neighbour {
  Neighbour() : thread([this] { work(); }) {}
  ~Neighbour() {
    over = true;
    thread.join();
  }
  void work() {
    while (!over) {
      while (!over && !turns().take_or_wait(kOther)) std::this_thread::yield();
      ++had;
      const int64_t since = now_ns();
      while (!over && (now_ns() - since < 1'000'000 || !turns().is_waited_for(kOther)))
        std::this_thread::yield();
      turns().pass_on(kOther);
    }
    turns().wait_no_more(kOther);
  }
  std::atomic<bool> over{false};
  std::atomic<int> had{0};
  std::thread thread;
};

}  // namespace

TEST(a_turn_is_one_slots_at_a_time) {
  const auto page = TurnPage::create();
  CHECK(page->take(0));
  CHECK(page->take(0));
  CHECK(!page->take(kOther));
  CHECK(!page->is_waited_for(0));
  CHECK(!page->take_or_wait(kThird));
  CHECK(!page->take_or_wait(kOther));
  CHECK(page->is_waited_for(0));
  // Whoever has waited longest is next.
  page->pass_on(0);
  CHECK(page->is_of(kThird));
  CHECK(page->take_or_wait(kThird));
  page->pass_on(kThird);
  CHECK(page->is_of(kOther));
  CHECK(page->take(kOther));
  page->pass_on(kOther);
  CHECK(page->take(0));
  // Who has none passes none on.
  page->pass_on(kOther);
  CHECK(page->is_of(0));
}

TEST(a_slot_that_is_gone_has_no_turn) {
  const auto page = TurnPage::create();
  CHECK(page->take(kOther));
  CHECK(!page->take_or_wait(0));
  CHECK(!page->take_or_wait(kThird));
  TurnPage::leave(page->words(), kThird);
  TurnPage::leave(page->words(), kOther);
  CHECK(page->is_of(0));
  page->pass_on(0);
  CHECK_EQUAL(page->words().owner.load(), 0u);
  TurnPage::leave(page->words(), TurnWords::kMostSlots);
}

// What the page says is the other processes' to write.
TEST(nobody_waits_for_ever) {
  const auto page = TurnPage::create();
  page->words().owner = 4'000'000'000;
  CHECK(!page->take_or_wait(0));
  until([&] { return page->take_or_wait(0); });
  CHECK(page->is_of(0));
  // One that has had it for long loses it only to one that has waited for long.
  page->words().since = 1;
  CHECK(!page->take_or_wait(kOther));
  CHECK(page->is_of(0));
}

TEST(a_turn_comes_while_one_waits) {
  const auto page = TurnPage::create();
  CHECK(page->take(kOther));
  std::atomic<int> came{0};
  {
    Turn turn(page, 0, [&] { ++came; });
    CHECK(!turn.take());
    CHECK(!turn.take_or_wait());
    page->pass_on(kOther);
    until([&] { return came > 0; });
    CHECK(turn.take());
    CHECK(!turn.is_waited_for());
    CHECK(!page->take_or_wait(kOther));
    CHECK(turn.is_waited_for());
  }
  // It has ended.
  CHECK(page->is_of(kOther));
}

TEST(work_waits_for_its_turn) {
  TurnWorld w;
  CHECK(turns().take(kOther));
  w.nothing();
  until([] { return turns().is_waited_for(kOther); });
  CHECK_EQUAL(words().held.load(), 1u);
  CHECK_EQUAL(words().device_ns.load(), 0u);
  turns().pass_on(kOther);
  CHECK_EQUAL(w.guest.synchronize().async, 0);
  // It is given back when all has ended.
  until([] { return turns().words().owner.load() == 0; });
  CHECK(!turns().is_waited_for(kOther));
}

TEST(a_turn_lasts_until_its_work_has_ended) {
  TurnWorld w;
  w.gate(4, 0);
  World::fake().await_gate(4);
  CHECK(turns().is_of(0));
  CHECK(!turns().take_or_wait(kOther));
  World::fake().open_gate(4);
  until([] { return turns().is_of(kOther); });
  CHECK_EQUAL(w.guest.synchronize().async, 0);
  turns().pass_on(kOther);
}

TEST(who_has_no_tokens_lets_others_go_first) {
  TurnWorld w;
  CHECK(turns().take(kOther));
  w.nothing();
  until([] { return turns().is_waited_for(kOther); });
  allow(kModeDeviceTime, 0);
  until([] { return !turns().is_waited_for(kOther); });
  allow(kModeDeviceTime, kNoLimit / 2);
  until([] { return turns().is_waited_for(kOther); });
  turns().pass_on(kOther);
  CHECK_EQUAL(w.guest.synchronize().async, 0);
}

TEST(without_shares_of_time_nobody_waits_for_a_turn) {
  for (const auto &[mode, limit] :
       {std::pair{kModeOpen, kNoLimit}, {kModeDeviceTime, kNoLimit}, {kModeBlocks, kNoLimit / 2}}) {
    TurnWorld w(mode);
    allow(mode, limit);
    const bool taken = turns().take(kOther);
    CHECK(taken);
    w.nothing();
    CHECK_EQUAL(w.guest.synchronize().async, 0);
    CHECK(!turns().is_waited_for(kOther));
    turns().pass_on(kOther);
  }
}

TEST(a_session_that_ends_gives_its_turn_back) {
  {
    TurnWorld w;
    w.nothing();
    CHECK_EQUAL(w.guest.synchronize().async, 0);
  }
  CHECK_EQUAL(turns().words().owner.load(), 0u);
}

// What waits in its stream for something else is no use of the device, and whoever keeps that for
// it pays.
TEST(what_cannot_begin_keeps_no_turn) {
  TurnWorld w;
  w.guest.map(World::base(), WIRE_GRANULE);
  const uint64_t stuck = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
  const uint64_t stream = w.guest.stream(2, CU_STREAM_NON_BLOCKING);
  w.value(stuck, false);
  w.nothing(stuck);
  w.guest.ask_synchronize_stream(stream);
  until([] { return turns().is_of(0); });
  const uint64_t charged = words().charged.load();
  CHECK(!turns().take_or_wait(kOther));
  until([] { return turns().is_of(kOther); });
  CHECK(words().charged.load() > charged);
  turns().pass_on(kOther);
  CHECK_EQUAL(turns().words().owner.load(), 0u);
  w.value(stream, true);
  CHECK_EQUAL(w.guest.synchronize().async, 0);
}

// The second one's end lets the first one begin, and there is no room for both.
TEST(work_that_waits_for_more_work_goes_on_beside_others) {
  TurnWorld w;
  w.guest.map(World::base(), WIRE_GRANULE);
  const uint64_t stuck = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
  const uint64_t stream = w.guest.stream(2, CU_STREAM_NON_BLOCKING);
  Neighbour neighbour;
  w.value(stuck, false);
  w.nothing(stuck);
  w.nothing(stream);
  w.value(stream, true);
  CHECK_EQUAL(w.guest.synchronize().async, 0);
  CHECK(neighbour.had > 0);
}
