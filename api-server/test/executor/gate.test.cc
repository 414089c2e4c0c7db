// The gate: what it lets through, what it holds, and that nothing else is held with it. Blocks are
// the tokens mostly, because they can be counted.
#include "check.h"
#include "quota.h"

using namespace outboard;

namespace {

constexpr uint64_t kGranule = WIRE_GRANULE;

struct GateWorld : World {
  explicit GateWorld(QuotaMode mode, uint64_t limit, WorldOptions options = {})
      : World((allow(mode, limit), options)) {
    guest.map(base(), kGranule);
    load_kernels();
    beside = guest.stream(100, CU_STREAM_NON_BLOCKING);
    guest.synchronize();
  }
  ~GateWorld() { allow(kModeOpen, kNoLimit); }

  void add(uint64_t stream, uint64_t offset = 0) {
    guest.launch(function_handle(kAdd), stream,
                 packed(base() + offset) + packed(uint64_t{1}) + packed(uint32_t{1}));
  }
  // What is in memory, in order with nothing that is held.
  uint32_t peek(uint64_t offset = 0) {
    const std::string bytes = guest.download(base() + offset, 4, beside);
    uint32_t value;
    memcpy(&value, bytes.data(), 4);
    return value;
  }
  int query(uint64_t stream) {
    wire_cuStreamQuery q{};
    q.hStream = stream;
    return guest.call(WIRE_cuStreamQuery, q).reply.result;
  }
  void finish(uint64_t stream) {
    CHECK_EQUAL(guest.wait(guest.ask_synchronize_stream(stream)).reply.result, CUDA_SUCCESS);
  }

  uint64_t beside;
};

}  // namespace

TEST(an_open_gate_lets_everything_pass_and_measures_it) {
  {
    GateWorld w(kModeOpen, 0);
    CHECK_EQUAL(words().session.load(), 7u);
    const unsigned before = World::fake().calls("cuStreamBatchMemOp_v2");
    const uint64_t stream = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < 100; i++) w.add(stream);
    w.guest.launch(function_handle(World::kNothing), stream, "");
    w.finish(stream);
    CHECK_EQUAL(w.peek(), 100u);
    CHECK_EQUAL(words().launches.load(), 101u);
    CHECK_EQUAL(words().blocks.load(), 101u);
    until([] { return words().in_flight_ns.load() == 0; });
    const std::vector<KernelTime> times = w.session->gate().kernel_times(10);
    CHECK_EQUAL(times.size(), 2u);
    uint64_t ns = 0;
    for (const KernelTime &time : times) {
      CHECK_EQUAL(time.launches, time.name == "add" ? 100u : 1u);
      CHECK_EQUAL(time.blocks, time.launches);
      ns += time.ns;
    }
    CHECK_EQUAL(w.session->gate().kernel_times(1).size(), 1u);
    CHECK(ns > 0);
    CHECK_EQUAL(words().device_ns.load(), ns);
    CHECK_EQUAL(World::fake().calls("cuStreamBatchMemOp_v2"), before);
  }
  CHECK_EQUAL(words().session.load(), 0u);
  CHECK_EQUAL(words().counted.load(), 7u);
  CHECK_EQUAL(words().launches.load(), 101u);  // to be read until the next session begins
  CHECK_EQUAL(words().charged.load(), words().device_ns.load());
  CHECK_EQUAL(words().gate_waits.load(), 0u);
  CHECK_EQUAL(words().gate_wait_ns.load(), 0u);
  CHECK_EQUAL(words().held.load(), 0u);
  {
    GateWorld w(kModeOpen, 0);
    CHECK_EQUAL(words().launches.load(), 0u);
    CHECK_EQUAL(words().charged.load(), 0u);
    CHECK_EQUAL(words().device_ns.load(), 0u);
  }
}

// A kernel that has not ended costs what it has taken so far.
TEST(what_runs_is_charged_while_it_runs) {
  GateWorld w(kModeDeviceTime, kNoLimit);
  const uint64_t stream = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
  const uint64_t before = words().device_ns.load();
  w.gate(3, stream);
  const uint64_t predicted = KernelCost::kUnknownNs;
  until([&] { return words().device_ns.load() >= before + 20 * predicted; });
  until([&] { return words().charged.load() >= 20 * predicted; });
  CHECK(words().in_flight_ns.load() > 0);
  bool listed = false;
  for (const KernelTime &time : w.session->gate().kernel_times(10)) {
    if (time.name != "gate") continue;
    listed = true;
    CHECK_EQUAL(time.launches, 1u);
    CHECK(time.ns >= 20 * predicted);
  }
  CHECK(listed);
  World::fake().open_gate(3);
  w.finish(stream);
  until([] { return words().in_flight_ns.load() == 0; });
  // Nothing is counted twice, and nothing is given back that was spent.
  const std::vector<KernelTime> times = w.session->gate().kernel_times(10);
  uint64_t ns = 0;
  for (const KernelTime &time : times) {
    ns += time.ns;
    CHECK_EQUAL(time.launches, 1u);
  }
  CHECK_EQUAL(words().device_ns.load(), ns);
  CHECK_EQUAL(words().charged.load(), ns);
}

TEST(a_kernel_that_takes_too_long_ends_the_session) {
  WorldOptions options;
  options.stop_patience = std::chrono::milliseconds(50);
  // Long enough for a thread that gets no processor in the middle of a short one.
  options.most_kernel = std::chrono::milliseconds(1000);
  GateWorld w(kModeOpen, 0, options);
  for (int i = 0; i < 100; i++) w.add(w.beside);  // none of them does
  w.finish(w.beside);
  const uint64_t stream = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
  w.gate(4, stream);
  const Frame frame = w.guest.next(WIRE_END);
  CHECK_EQUAL(frame.tail<wire_end>(frame.as<wire_end>().length), "it takes too long: gate");
  const SessionEnd end = w.ended();
  CHECK(end.reason == EndReason::kLimit);
  CHECK(!end.reusable);
}

// The driver's queue is full when the group's end is to be recorded.
TEST(a_kernel_is_measured_while_the_end_of_its_group_waits) {
  WorldOptions options;
  options.stop_patience = std::chrono::milliseconds(50);
  options.most_kernel = std::chrono::milliseconds(30);
  GateWorld w(kModeDeviceTime, kNoLimit, options);
  const uint64_t stream = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
  w.guest.synchronize();
  World::fake().hold("cuEventRecord", 7, 1);
  w.gate(4, stream);
  w.guest.ask_synchronize_stream(w.beside);
  until([&] { return w.session->is_ending(); });
  World::fake().open_gate(7);
  CHECK(w.ended().reason == EndReason::kLimit);
}

// Waiting is not running: behind another kernel, or for the host.
TEST(a_kernel_that_waits_for_its_turn_does_not_run) {
  WorldOptions options;
  options.most_kernel = std::chrono::milliseconds(1000);
  GateWorld w(kModeBlocks, 0, options);
  const uint64_t stream = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
  w.add(stream);
  until([] { return words().gate_waits.load() == 1; });
  std::this_thread::sleep_for(options.most_kernel * 5 / 4);
  allow(kModeBlocks, kNoLimit);
  w.finish(stream);
  CHECK_EQUAL(w.peek(), 1u);
}

TEST(without_a_limit_nothing_is_held_in_any_mode) {
  for (QuotaMode mode : {kModeDeviceTime, kModeBlocks, kModeHostTime}) {
    GateWorld w(mode, kNoLimit);
    for (int i = 0; i < 50; i++) w.add(0);
    w.guest.synchronize();
    CHECK_EQUAL(w.peek(), 50u);
    CHECK_EQUAL(words().gate_waits.load(), 0u);
  }
}

TEST(a_closed_gate_holds_launches_and_nothing_else) {
  GateWorld w(kModeBlocks, 0);
  const uint64_t stream = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
  const uint64_t event = w.guest.event(1);
  w.add(stream);
  w.guest.record(event, stream);
  // Somebody waits for it in every way.
  const uint64_t in_stream = w.guest.ask_synchronize_stream(stream);
  const uint64_t on_event = w.guest.ask_synchronize_event(event);
  const uint64_t on_all = w.guest.ask_synchronize();
  const uint64_t data = w.guest.ask_download(World::base(), 4, stream);
  CHECK_EQUAL(w.query(stream), CUDA_ERROR_NOT_READY);
  until([] { return words().gate_waits.load() == 1; });
  CHECK_EQUAL(words().held.load(), 1u);
  CHECK_EQUAL(words().charged.load(), 0u);
  // Everything else is served.
  w.guest.upload(World::base() + 64, "abcd", w.beside);
  CHECK_EQUAL(w.guest.download(World::base() + 64, 4, w.beside), "abcd");
  w.guest.memset32(World::base() + 64, 5, 1, w.beside);
  CHECK_EQUAL(w.peek(64), 5u);
  w.guest.map(World::base() + 4 * kGranule, kGranule);
  CHECK_EQUAL(w.guest.load(module_handle(5), Guest::image("kernel other\n")).reply.result,
              CUDA_SUCCESS);
  w.finish(w.beside);
  CHECK_EQUAL(w.query(stream), CUDA_ERROR_NOT_READY);
  CHECK_EQUAL(w.peek(), 0u);
  allow(kModeBlocks, 1);
  for (uint64_t request : {in_stream, on_event, on_all}) {
    CHECK_EQUAL(w.guest.wait(request).reply.result, CUDA_SUCCESS);
  }
  CHECK_EQUAL(w.guest.wait(data).data, packed(uint32_t{1}));
  CHECK_EQUAL(words().held.load(), 0u);
  CHECK_EQUAL(words().charged.load(), 1u);
  CHECK(words().gate_wait_ns.load() > 0);
}

TEST(the_limit_is_exact) {
  GateWorld w(kModeBlocks, 3);
  const uint64_t streams[] = {w.guest.stream(1, CU_STREAM_NON_BLOCKING), 0,
                              w.guest.stream(2, CU_STREAM_NON_BLOCKING)};
  constexpr uint64_t kLaunches = 12;
  for (uint64_t i = 0; i < kLaunches; i++) w.add(streams[i % 3]);
  for (uint64_t limit : {uint64_t{3}, uint64_t{4}, uint64_t{5}, uint64_t{9}}) {
    allow(kModeBlocks, limit);
    until([&] { return words().charged.load() == limit; });
    until([&] { return w.peek() == limit; });
    CHECK_EQUAL(words().held.load(), kLaunches - limit);
    CHECK_EQUAL(words().launches.load(), kLaunches);
  }
  // Lowered below what is charged already: that is debt.
  allow(kModeBlocks, 2);
  w.add(0);
  CHECK_EQUAL(w.peek(), 9u);
  allow(kModeBlocks, kNoLimit);
  w.guest.synchronize();
  CHECK_EQUAL(w.peek(), kLaunches + 1);
}

// One launch may go beyond the limit, as large as it is; what follows waits until that is paid.
TEST(debt_is_paid_back) {
  GateWorld w(kModeBlocks, 1);
  wire_Launch q{};
  q.function = function_handle(World::kNothing);
  q.grid_x = 100, q.grid_y = 10;
  q.grid_z = q.block_x = q.block_y = q.block_z = 1;
  w.guest.put(WIRE_Launch, q);
  w.add(0);
  until([] { return words().gate_waits.load() == 1; });
  CHECK_EQUAL(words().charged.load(), 1000u);
  allow(kModeBlocks, 1000);
  CHECK_EQUAL(w.query(0), CUDA_ERROR_NOT_READY);
  allow(kModeBlocks, 1001);
  w.guest.synchronize();
  CHECK_EQUAL(words().charged.load(), 1001u);
}

TEST(what_is_held_starts_in_order_of_launch) {
  GateWorld w(kModeBlocks, 0);
  const uint64_t streams[] = {w.guest.stream(1, CU_STREAM_NON_BLOCKING),
                              w.guest.stream(2, CU_STREAM_NON_BLOCKING)};
  for (uint64_t i = 0; i < 8; i++) w.add(streams[i % 2], 4 * i);
  for (uint64_t i = 0; i < 8; i++) {
    // The next one of each stream is there and waits.
    until([&] { return words().gate_waits.load() == std::min<uint64_t>(i + 2, 8); });
    for (uint64_t k = 0; k < 8; k++) CHECK_EQUAL(w.peek(4 * k), k < i ? 1u : 0u);
    allow(kModeBlocks, i + 1);
    until([&] { return w.peek(4 * i) == 1; });
  }
  w.guest.synchronize();
}

TEST(device_time_is_charged_as_predicted_and_corrected) {
  // The fake device says of everything that it took 1.5 ms.
  constexpr uint64_t kCost = 1'500'000;
  GateWorld w(kModeDeviceTime, 1);
  for (int i = 0; i < 5; i++) w.add(0);
  until([&] { return words().charged.load() == kCost && words().gate_waits.load() == 1; });
  CHECK_EQUAL(w.peek(), 1u);
  CHECK_EQUAL(words().held.load(), 4u);
  allow(kModeDeviceTime, kCost + 1);
  until([&] { return w.peek() == 2 && words().in_flight_ns.load() == 0; });
  until([&] { return words().gate_waits.load() == 2; });
  CHECK_EQUAL(w.peek(), 2u);
  allow(kModeDeviceTime, kNoLimit - 1);
  w.guest.synchronize();
  CHECK_EQUAL(w.peek(), 5u);
  until([] { return words().in_flight_ns.load() == 0; });
  CHECK_EQUAL(words().held.load(), 0u);
  CHECK_EQUAL(words().charged.load(), words().device_ns.load());
}

TEST(little_runs_ahead_while_there_is_a_limit) {
  GateWorld w(kModeDeviceTime, kNoLimit - 1);
  const uint64_t slow = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
  const uint64_t fast = w.guest.stream(2, CU_STREAM_NON_BLOCKING);
  w.gate(1, slow);
  World::fake().await_gate(1);
  // Nothing is known of either kernel, so the second one waits, but not for tokens; and not for
  // ever, for the first one may wait for it.
  w.add(fast);
  CHECK_EQUAL(words().in_flight_ns.load(), KernelCost::kUnknownNs);
  w.finish(fast);
  CHECK_EQUAL(w.peek(), 1u);
  CHECK_EQUAL(words().gate_waits.load(), 0u);
  World::fake().open_gate(1);
  w.finish(slow);
}

TEST(host_time_is_used_up_while_a_token_is_held) {
  GateWorld w(kModeHostTime, 1'000'000'000'000);
  w.add(0);
  w.guest.synchronize();
  w.add(0);
  w.guest.synchronize();
  const uint64_t charged = words().charged.load();
  CHECK(charged > 0);
  allow(kModeHostTime, charged);
  w.add(0);
  until([] { return words().gate_waits.load() == 1; });
  CHECK_EQUAL(words().charged.load(), charged);  // waiting costs nothing
  CHECK_EQUAL(w.query(0), CUDA_ERROR_NOT_READY);
  allow(kModeHostTime, charged + 1'000'000'000'000);
  w.guest.synchronize();
  CHECK_EQUAL(w.peek(), 3u);
}

TEST(another_mode_begins_at_nothing) {
  GateWorld w(kModeBlocks, 10);
  for (int i = 0; i < 3; i++) w.add(0);
  w.guest.synchronize();
  CHECK_EQUAL(words().charged.load(), 3u);
  CHECK_EQUAL(words().unit.load(), uint64_t{kModeBlocks});
  until([] { return words().in_flight_ns.load() == 0; });
  allow(kModeDeviceTime, 1);
  w.add(0);
  w.guest.synchronize();
  until([] { return words().in_flight_ns.load() == 0; });
  CHECK_EQUAL(words().unit.load(), uint64_t{kModeDeviceTime});
  CHECK_EQUAL(words().charged.load(), 1'500'000u);
  // Held in one mode, released by another.
  w.add(0);
  CHECK_EQUAL(w.query(0), CUDA_ERROR_NOT_READY);
  allow(kModeOpen, 0);
  w.guest.synchronize();
  CHECK_EQUAL(w.peek(), 5u);
}

TEST(a_launch_that_fails_costs_nothing) {
  GateWorld w(kModeBlocks, 5);
  wire_Launch q{};
  q.function = function_handle(World::kNothing);
  q.grid_y = q.grid_z = q.block_x = q.block_y = q.block_z = 1;
  w.guest.put(WIRE_Launch, q);  // of no blocks
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_VALUE);
  World::fake().fail("cuLaunchKernel", CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 0);
  w.add(0);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  CHECK_EQUAL(words().launches.load(), 0u);
  CHECK_EQUAL(words().blocks.load(), 0u);
  CHECK_EQUAL(words().charged.load(), 0u);
  // Nor does one that is held, and no hold stays behind.
  allow(kModeBlocks, 0);
  World::fake().fail("cuLaunchKernel", CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 0);
  w.add(0);
  until([] {
    return words().launches.load() == 0 && words().gate_waits.load() == 1 &&
           words().held.load() == 0;
  });
  // The driver takes no hold, nor events: the work goes its way.
  World::fake().fail("cuStreamBatchMemOp_v2", CUDA_ERROR_OUT_OF_MEMORY, 0);
  World::fake().fail("cuEventRecord", CUDA_ERROR_OUT_OF_MEMORY, 0);
  w.add(w.beside);
  w.finish(w.beside);
  CHECK_EQUAL(w.peek(), 1u);
  allow(kModeBlocks, 3);
  w.guest.synchronize();
  until([] { return words().in_flight_ns.load() == 0; });
  CHECK_EQUAL(words().charged.load(), 1u);
}

// Where nobody needs to know what launches cost, the driver has nothing between them: one may begin
// before the one before it has ended, if the program wants that.
TEST(what_is_not_measured_gets_no_events) {
  WorldOptions options;
  options.gate.measured = false;
  GateWorld w(kModeDeviceTime, kNoLimit, options);
  const uint64_t stream = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
  const unsigned before = World::fake().calls("cuEventRecord");
  for (int i = 0; i < 100; i++) {
    w.add(stream);
    if (i % 10 == 0) w.peek();
  }
  w.finish(stream);
  World::fake().fail("cuLaunchKernel", CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 0);
  w.add(stream);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  CHECK_EQUAL(World::fake().calls("cuEventRecord"), before);
  CHECK_EQUAL(w.peek(), 100u);
  CHECK_EQUAL(words().launches.load(), 100u);
  CHECK_EQUAL(words().blocks.load(), 100u);
  CHECK_EQUAL(words().device_ns.load(), 0u);
  const std::vector<KernelTime> times = w.session->gate().kernel_times(10);
  CHECK_EQUAL(times.size(), 1u);
  CHECK_EQUAL(times[0].launches, 100u);
  CHECK_EQUAL(times[0].blocks, 100u);
  CHECK_EQUAL(times[0].unmeasured, 100u);
}

// A limit needs to know, and has its way from the next launch on.
TEST(a_limit_has_launches_measured) {
  WorldOptions options;
  options.gate.measured = false;
  GateWorld w(kModeBlocks, kNoLimit, options);
  const uint64_t stream = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
  w.add(stream);
  w.finish(stream);
  allow(kModeBlocks, 3);
  for (int i = 0; i < 5; i++) w.add(stream);
  until([] { return words().gate_waits.load() == 1; });
  CHECK_EQUAL(w.peek(), 4u);
  CHECK_EQUAL(words().charged.load(), 3u);
  allow(kModeBlocks, kNoLimit);
  w.add(stream);
  w.finish(stream);
  CHECK_EQUAL(w.peek(), 7u);
  until([] { return words().in_flight_ns.load() == 0; });
  CHECK(words().device_ns.load() > 0);
  const std::vector<KernelTime> times = w.session->gate().kernel_times(10);
  CHECK_EQUAL(times.size(), 1u);
  CHECK_EQUAL(times[0].launches, 7u);
  CHECK_EQUAL(times[0].unmeasured, 2u);
}

TEST(copies_and_fills_are_held_by_option) {
  WorldOptions options;
  options.gate.copies = options.gate.sets = true;
  GateWorld w(kModeBlocks, 0, options);
  const uint64_t a = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
  const uint64_t b = w.guest.stream(2, CU_STREAM_NON_BLOCKING);
  w.guest.upload(World::base(), "abcdefgh", a);
  w.guest.memset32(World::base() + 64, 0x41414141, 2, b);
  const uint64_t uploaded = w.guest.ask_download(World::base(), 8, a);
  const uint64_t filled = w.guest.ask_download(World::base() + 64, 8, b);
  CHECK_EQUAL(w.query(a), CUDA_ERROR_NOT_READY);
  CHECK_EQUAL(w.query(b), CUDA_ERROR_NOT_READY);
  CHECK_EQUAL(words().held.load(), 4u);
  CHECK_EQUAL(words().launches.load(), 0u);
  allow(kModeBlocks, 4);
  CHECK_EQUAL(w.guest.wait(uploaded).data, "abcdefgh");
  CHECK_EQUAL(w.guest.wait(filled).data, "AAAAAAAA");
  CHECK_EQUAL(words().charged.load(), 4u);
  w.guest.synchronize();
  until([] { return words().in_flight_ns.load() == 0; });
  for (const KernelTime &time : w.session->gate().kernel_times(10)) {
    CHECK(time.name == "[copy]" || time.name == "[set]");
  }
}

// Kernels reach the words, if they find them, as they reach all pinned memory.
TEST(a_kernel_that_lets_its_stream_go_on_ends_the_session) {
  GateWorld w(kModeBlocks, 0);
  const uint64_t stream = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
  w.add(stream);
  until([] { return words().gate_waits.load() == 1; });
  CHECK_EQUAL(w.peek(), 0u);
  HoldWords &slots = World::device()->hold_words();
  std::atomic_ref(slots.at(0).released).store(1u << 30);
  w.expect_violation("a kernel has written words by which the session is held");
  // The next session has none of it.
  CHECK_EQUAL(slots.at(0).released, 0u);
  CHECK_EQUAL(slots.at(0).reached, 0u);
}

TEST(a_session_that_ends_waits_for_tokens_like_everything) {
  for (int how = 0; how < 3; how++) {
    GateWorld w(kModeBlocks, how == 2 ? 1 : 0);
    for (uint32_t i = 0; i < 20; i++) w.add(i % 3 ? w.guest.stream(10 + i) : 0);
    w.guest.ask_synchronize();
    const uint64_t held = how == 2 ? 19 : 20;
    until([&] { return words().held.load() == held && words().gate_waits.load() > 0; });
    if (how == 0) w.guest.close();
    if (how == 1) w.session->stop("enough");
    if (how == 2) {
      wire_header nonsense{9999, 0, 8};
      w.guest.send(&nonsense, sizeof nonsense);
    }
    until([&] { return w.session->is_ending(); });
    allow(kModeBlocks, 20 - held + 5);
    until([&] { return words().held.load() == held - 5; });
    allow(kModeBlocks, kNoLimit);
    const SessionEnd end = w.ended();
    CHECK(end.reusable);
    CHECK_EQUAL(words().held.load(), 0u);
    CHECK_EQUAL(words().session.load(), 0u);
    CHECK_EQUAL(words().in_flight_ns.load(), 0u);
  }
}

TEST(what_gets_no_tokens_at_the_end_goes_with_the_process) {
  WorldOptions options;
  options.stop_patience = std::chrono::milliseconds(50);
  GateWorld w(kModeBlocks, 0, options);
  const unsigned before = World::fake().calls("add");
  for (int i = 0; i < 20; i++) w.add(0);
  w.guest.ask_synchronize();
  until([] { return words().held.load() == 20; });
  w.session->stop("enough");
  CHECK(!w.ended().reusable);
  CHECK_EQUAL(words().held.load(), 20u);
  CHECK_EQUAL(words().charged.load(), 0u);
  CHECK_EQUAL(World::fake().calls("add"), before);
  // The next test has the same page.
  allow(kModeOpen, kNoLimit);
  until([] { return words().held.load() == 0 && words().in_flight_ns.load() == 0; });
}

// A guess that was too high gives nothing to start with before whoever gives tokens has seen it.
TEST(what_is_given_back_starts_nothing) {
  GateWorld w(kModeDeviceTime, kNoLimit / 2);
  const uint64_t stream = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
  const auto run = [&](uint32_t blocks) {
    wire_Launch q{};
    q.function = function_handle(World::kNothing);
    q.stream = stream;
    q.grid_x = blocks;
    q.grid_y = q.grid_z = q.block_x = q.block_y = q.block_z = 1;
    w.guest.put(WIRE_Launch, q);
  };
  const auto rest = [&] {
    w.finish(stream);
    until([] { return words().in_flight_ns.load() == 0; });
  };
  // It takes as long with any number of blocks, which nobody can know.
  run(1);
  rest();
  run(100);
  rest();
  const uint64_t charged = words().charged.load(), back = words().given_back.load();
  CHECK(back > charged);
  allow(kModeDeviceTime, charged + 1);
  run(1);
  until([] { return words().gate_waits.load() == 1; });
  CHECK_EQUAL(words().held.load(), 1u);
  allow(kModeDeviceTime, charged + back + 1);
  rest();
  CHECK_EQUAL(words().held.load(), 0u);
}

TEST(a_reset_waits_for_tokens_like_everything) {
  GateWorld w(kModeBlocks, 0);
  w.add(0);
  const uint64_t reset = w.guest.ask(WIRE_ContextReset, wire_ContextReset{});
  until([] { return words().gate_waits.load() == 1; });
  allow(kModeBlocks, 1);
  CHECK_EQUAL(w.guest.wait(reset).reply.result, CUDA_SUCCESS);
  // And the session goes on.
  w.guest.map(World::base(), kGranule);
  w.guest.upload(World::base(), "fine");
  CHECK_EQUAL(w.guest.download(World::base(), 4), "fine");
}

// After a fault no host function is called any more: what is held is dropped by the driver.
TEST(a_fault_in_front_of_what_is_held) {
  GateWorld w(kModeBlocks, 1);
  w.gate(1, 0);
  w.guest.launch(function_handle(World::kCrash), 0, "");
  for (int i = 0; i < 10; i++) w.add(0);
  allow(kModeBlocks, 2);
  World::fake().open_gate(1);
  CHECK_EQUAL(w.guest.synchronize().result, CUDA_ERROR_ILLEGAL_ADDRESS);
  const SessionEnd end = w.end();
  CHECK(end.reason == EndReason::kDevice);
  CHECK(!end.reusable);
}

TEST(a_page_that_is_none_is_refused) {
  std::string refused;
  try {
    QuotaPage::open(-1);
  } catch (const std::exception &error) {
    refused = error.what();
  }
  CHECK(refused.find("no quota page") != std::string::npos);
  CHECK_EQUAL(QuotaPage::open(World::quota_page().fd())->words().limit.load(), kNoLimit);
}

// What a kernel is predicted to take a program can have chosen.
TEST(few_launches_run_ahead_however_short_they_were) {
  GateWorld w(kModeDeviceTime, kNoLimit - 1);
  const uint64_t stream = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
  double clock = 10;
  World::fake().set_clock(clock);
  for (uint32_t i = 1000; i < 1040; i++) {
    w.gate(i, stream);
    World::fake().await_gate(i);
    World::fake().set_clock(clock += 0.002);
    World::fake().open_gate(i);
    w.finish(stream);
  }
  until([] { return words().in_flight_ns.load() == 0; });
  const uint64_t spent = words().charged.load() + words().given_back.load();
  allow(kModeDeviceTime, spent);
  constexpr uint32_t kStreams = 40, kEach = 10;
  for (uint32_t i = 0; i < kStreams; i++) {
    const uint64_t own = w.guest.stream(200 + i, CU_STREAM_NON_BLOCKING);
    for (uint32_t k = 0; k < kEach; k++) w.gate(5000 + i, own);
  }
  w.peek();
  CHECK_EQUAL(words().held.load(), uint64_t{kStreams * kEach});
  allow(kModeDeviceTime, spent + 2'000'000);
  until([] { return words().held.load() < kStreams * kEach; });
  // What else would start has started when that which runs was looked at some times.
  const unsigned from = World::fake().calls("cuEventQuery");
  until([&] { return World::fake().calls("cuEventQuery") >= from + 200; });
  // 64 under way, and the group that begins as one below that.
  CHECK(words().held.load() >= kStreams * kEach - 64 - 32);
  allow(kModeOpen, kNoLimit);
  for (uint32_t i = 0; i < kStreams; i++) World::fake().open_gate(5000 + i);
  for (uint32_t i = 0; i < kStreams; i++) w.finish(w.guest.stream(300 + i, 0));
}
