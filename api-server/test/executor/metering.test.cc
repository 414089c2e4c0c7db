// That no order of commands hides a kernel from the meter: whatever a guest puts around it, what
// runs is charged, and ended when it may run no longer.
#include "check.h"
#include "quota.h"

using namespace outboard;

namespace {

constexpr uint64_t kGranule = WIRE_GRANULE;

WorldOptions limited(std::chrono::milliseconds most) {
  WorldOptions options;
  options.stop_patience = std::chrono::milliseconds(50);
  options.most_kernel = most;
  return options;
}

struct MeteredWorld : World {
  explicit MeteredWorld(WorldOptions options = {}) : World(options) {
    guest.map(base(), kGranule);
    load_kernels();
    guest.synchronize();
  }

  uint64_t stream(uint32_t index) { return guest.stream(index, CU_STREAM_NON_BLOCKING); }

  // It waits for what nobody writes.
  void block(uint64_t stream) {
    const wire_value never{CU_STREAM_MEM_OP_WAIT_VALUE_32, CU_STREAM_WAIT_VALUE_EQ, base(), 1};
    wire_StreamValues q{};
    q.stream = stream;
    q.values_size = sizeof never;
    guest.put(WIRE_StreamValues, q, packed(never));
  }

  void nothing(uint64_t stream) { guest.launch(function_handle(kNothing), stream, ""); }

  // Many in one piece, so that the leader sees nothing between them.
  void gates(uint32_t number, uint64_t stream, int count) {
    struct {
      wire_Launch launch{};
      uint64_t number;
    } each;
    static_assert(sizeof each == 72);
    each.launch.header = {WIRE_Launch, 0, sizeof each};
    each.launch.function = function_handle(kGate);
    each.launch.stream = stream;
    each.launch.parameters_size = 4;
    wire_Launch &q = each.launch;
    q.grid_x = q.grid_y = q.grid_z = q.block_x = q.block_y = q.block_z = 1;
    each.number = number;
    std::string all;
    for (int i = 0; i < count; i++) all += packed(each);
    guest.send(all.data(), all.size());
  }

  // From now on it is known, and that it is short: what is launched is measured together.
  void know_gate() {
    World::fake().open_gate(0);
    wire_Launch q{};
    q.function = function_handle(kGate);
    q.parameters_size = 4;
    q.grid_x = 1000;
    q.grid_y = q.grid_z = q.block_x = q.block_y = q.block_z = 1;
    for (int i = 0; i < 2; i++) {
      guest.put(WIRE_Launch, q, packed(uint32_t{0}));
      CHECK_EQUAL(guest.synchronize().async, 0);
      until([] { return words().in_flight_ns.load() == 0; });
    }
  }

  void is_ended(const std::string &kernel) {
    const Frame frame = guest.next(WIRE_END);
    CHECK_EQUAL(frame.tail<wire_end>(frame.as<wire_end>().length), "it takes too long: " + kernel);
    CHECK(ended().reason == EndReason::kLimit);
  }
};

// Events are stamped by a clock that goes on in steps of a quarter of an hour, and only when the
// test says so: what the wall adds meanwhile is little beside one.
struct ClockedWorld : MeteredWorld {
  static constexpr double kStepMs = 1 << 20;
  static constexpr uint64_t kStepNs = uint64_t{1'000'000} << 20;

  ClockedWorld() { at(0); }
  ~ClockedWorld() { World::fake().set_clock(-1); }

  void at(double steps) { World::fake().set_clock(steps * kStepMs); }

  // A kernel that runs until it is ended, in a group of its own.
  void begin(uint32_t number, uint64_t stream) {
    const uint64_t before = words().in_flight_ns.load();
    gate(number, stream);
    World::fake().await_gate(number);
    wire_cuStreamQuery q{};
    q.hStream = stream;
    guest.call(WIRE_cuStreamQuery, q);
    in_flight[number] = words().in_flight_ns.load() - before;
  }
  // ... and is measured.
  void end(uint32_t number) {
    const uint64_t after = words().in_flight_ns.load() - in_flight[number];
    World::fake().open_gate(number);
    until([&] { return words().in_flight_ns.load() == after; });
  }
  void has_cost(double steps) {
    const auto ns = static_cast<uint64_t>(steps * kStepNs);
    CHECK_EQUAL(words().device_ns.load(), ns);
    CHECK_EQUAL(words().charged.load(), ns);
    uint64_t sum = 0;
    for (const KernelTime &time : session->gate().kernel_times(10)) sum += time.ns;
    CHECK_EQUAL(sum, ns);
  }

  std::map<uint32_t, uint64_t> in_flight;
};

}  // namespace

TEST(launches_that_wait_hide_no_kernel) {
  MeteredWorld w(limited(std::chrono::milliseconds(30)));
  for (uint32_t i = 0; i < 200; i++) {
    const uint64_t blocked = w.stream(10 + i);
    w.block(blocked);
    for (int k = 0; k < 3; k++) w.nothing(blocked);
  }
  w.gate(4, w.stream(1));
  w.is_ended("gate");
}

// A new stream can have the place of one that is gone, whose work still waits.
TEST(a_stream_that_is_gone_hides_no_kernel) {
  MeteredWorld w(limited(std::chrono::milliseconds(30)));
  for (uint32_t i = 0; i < 3; i++) {
    const uint64_t blocked = w.stream(10 + i);
    w.block(blocked);
    w.nothing(blocked);
    wire_cuStreamDestroy_v2 q{};
    q.hStream = blocked;
    w.guest.put(WIRE_cuStreamDestroy_v2, q);
  }
  w.gate(4, w.stream(1));
  w.is_ended("gate");
}

// The driver takes no more commands, as one does whose queue is full, and the session's leader
// waits in it: what comes after the kernel tells nobody that it is the last one.
TEST(a_leader_that_the_driver_keeps_hides_no_kernel) {
  for (const char *function : {"cuEventRecord", "cuLaunchKernel"}) {
    const bool records = function[2] == 'E';
    MeteredWorld w;
    const uint64_t stream = w.stream(1), event = w.guest.event(1);
    w.know_gate();
    const uint64_t before = words().device_ns.load();
    // Behind the start of what is measured, or behind the kernel.
    World::fake().hold(function, 5, 1);
    w.gate(3, stream);
    if (records) {
      w.guest.record(event, stream);
    } else {
      w.gate(5, stream);
    }
    until([&] { return words().device_ns.load() >= before + 20'000'000; });
    until([&] { return words().charged.load() >= 20'000'000; });
    World::fake().open_gate(3);
    World::fake().open_gate(5);
    CHECK_EQUAL(w.guest.synchronize().result, CUDA_SUCCESS);
    until([] { return words().in_flight_ns.load() == 0; });
    // Nothing is counted twice, and nothing is given back that was spent.
    uint64_t ns = 0;
    for (const KernelTime &time : w.session->gate().kernel_times(10)) ns += time.ns;
    CHECK_EQUAL(words().device_ns.load(), ns);
    CHECK_EQUAL(words().charged.load(), ns);
    CHECK(w.end().reason == EndReason::kClosed);
    World::fake().reset();
  }
}

TEST(a_leader_that_the_driver_keeps_ends_when_its_kernel_takes_too_long) {
  MeteredWorld w(limited(std::chrono::milliseconds(30)));
  const uint64_t stream = w.stream(1), event = w.guest.event(1);
  w.guest.synchronize();
  World::fake().hold("cuEventRecord", 5, 1);
  w.gate(4, stream);
  w.guest.record(event, stream);
  w.is_ended("gate");
}

// What of a frame comes in a second piece is no reason to wait with the launches before it.
TEST(a_frame_that_never_comes_whole_keeps_no_launch_open) {
  MeteredWorld w;
  World::fake().open_gate(0);
  wire_Upload upload{};
  upload.destination = World::base();
  upload.length = 512 << 10;
  upload.header = {WIRE_Upload, 0, static_cast<uint32_t>(sizeof upload + upload.length)};
  // Behind a large payload, the server takes up 4 KiB at first.
  std::string all = packed(upload) + std::string(upload.length, 0);
  wire_Launch launch{};
  launch.header = {WIRE_Launch, 0, sizeof launch};
  launch.function = function_handle(World::kNothing);
  launch.grid_x = launch.grid_y = launch.grid_z = 1;
  launch.block_x = launch.block_y = launch.block_z = 1;
  launch.stream = w.stream(1);
  for (int i = 0; i < 4; i++) all += packed(launch);
  launch.header.size = launch.parameters_size = 32 << 10;
  all += packed(launch) + std::string(8 << 10, 0);
  w.guest.send(all.data(), all.size());
  const auto launches = [&] {
    uint64_t sum = 0;
    for (const KernelTime &time : w.session->gate().kernel_times(10)) sum += time.launches;
    return sum;
  };
  until([&] { return launches() == 4; });
  CHECK(w.end().reason == EndReason::kClosed);
}

// Which of those that are measured together it is that runs nobody can tell.
TEST(kernels_together_may_run_for_less_than_twice_as_long) {
  CHECK_EQUAL(Meter::most_for(0, 800), 800u);
  CHECK_EQUAL(Meter::most_for(1, 800), 800u);
  CHECK_EQUAL(Meter::most_for(2, 800), 900u);
  CHECK_EQUAL(Meter::most_for(Meter::kMostTogether, 800), 1500u);
  CHECK_EQUAL(Meter::most_for(1000, 800), 1500u);
  MeteredWorld w(limited(std::chrono::milliseconds(200)));
  w.know_gate();
  w.gates(4, w.stream(1), 8);
  w.is_ended("gate");
}

// The fake device says of everything that it took 1.5 ms: much of 30 ms, and little of 3 s.
TEST(kernels_that_have_taken_long_are_measured_by_themselves) {
  for (const bool is_long : {false, true}) {
    MeteredWorld w(limited(std::chrono::milliseconds(is_long ? 30 : 3000)));
    w.know_gate();
    const uint64_t stream = w.stream(1);
    w.guest.synchronize();
    const unsigned before = World::fake().calls("cuEventRecord");
    w.gates(0, stream, 8);
    w.guest.synchronize();
    CHECK_EQUAL(World::fake().calls("cuEventRecord") - before, is_long ? 16u : 2u);
    CHECK(w.end().reason == EndReason::kClosed);
  }
}

TEST(what_cannot_be_measured_costs_what_was_predicted) {
  for (const char *function : {"cuEventCreate", "cuEventRecord"}) {
    MeteredWorld w;
    const uint64_t before = words().charged.load();
    World::fake().fail(function, CUDA_ERROR_OUT_OF_MEMORY, 0);
    w.nothing(w.stream(1));
    CHECK_EQUAL(w.guest.synchronize().async, 0);
    until([] { return words().in_flight_ns.load() == 0; });
    CHECK_EQUAL(words().charged.load() - before, KernelCost::kUnknownNs);
  }
}

// What ends sooner takes nothing of what runs on.
TEST(a_long_kernel_beside_short_ones_costs_all_its_time) {
  ClockedWorld w;
  const uint64_t a = w.stream(1), b = w.stream(2);
  w.begin(1, a);
  for (uint32_t i = 0; i < 8; i++) {
    w.at(i + 0.5);
    w.begin(10 + i, b);
    w.at(i + 0.75);
    w.end(10 + i);
  }
  w.at(8);
  w.end(1);
  w.has_cost(8);
}

TEST(kernels_that_overlap_cost_the_time_that_any_of_them_runs) {
  for (uint32_t seed = 1; seed <= 8; seed++) {
    ClockedWorld w;
    const uint64_t streams[] = {w.stream(1), w.stream(2), w.stream(3)};
    uint32_t runs[3] = {}, last = 0, random = seed, steps = 0, busy = 0;
    const auto change = [&](uint32_t i) {
      if (runs[i]) {
        w.end(std::exchange(runs[i], 0));
      } else {
        w.begin(runs[i] = ++last, streams[i]);
      }
      if (runs[0] || runs[1] || runs[2]) ++busy;
      w.at(++steps / 4.0);
    };
    for (int k = 0; k < 30; k++) {
      random = random * 1664525 + 1013904223;
      change((random >> 24) % 3);
    }
    for (uint32_t i = 0; i < 3; i++) {
      if (runs[i]) change(i);
    }
    w.has_cost(busy / 4.0);
    World::fake().reset();
  }
}

TEST(what_was_charged_while_it_ran_is_not_charged_again) {
  ClockedWorld w;
  const uint64_t a = w.stream(1), b = w.stream(2), c = w.stream(3);
  w.begin(1, a);
  w.begin(2, b);
  const auto runs_on = [] {
    const uint64_t before = words().device_ns.load();
    until([&] { return words().device_ns.load() >= before + 20'000'000; });
  };
  runs_on();
  w.at(1);
  w.end(1);
  CHECK_EQUAL(words().device_ns.load() / ClockedWorld::kStepNs, 1u);
  runs_on();
  w.begin(3, c);
  w.at(2);
  w.end(3);
  runs_on();
  w.at(3);
  w.end(2);
  w.has_cost(3);
}
