// Whole sessions: what a guest sends and gets, and what is left when it is gone.
#include "check.h"
#include "world.h"

using namespace outboard;

namespace {
constexpr uint64_t kGranule = WIRE_GRANULE;
}

TEST(a_whole_session) {
  World w;
  const uint64_t at = World::base();
  w.guest.map(at, kGranule);
  std::string numbers;
  for (uint32_t i = 0; i < 1000; i++) numbers += packed(i);
  w.guest.upload(at + 4096, numbers);
  w.load_kernels();
  w.guest.launch(function_handle(World::kAdd), 0,
                 packed(at + 4096) + packed(uint64_t{1000}) + packed(uint32_t{5}));
  const std::string result = w.guest.download(at + 4096, numbers.size());
  for (uint32_t i = 0; i < 1000; i++) {
    uint32_t value;
    memcpy(&value, &result[i * 4], 4);
    CHECK_EQUAL(value, i + 5);
  }
  const Counters &counters = *w.session->counters();
  CHECK_EQUAL(counters.launches.load(), 1u);
  CHECK_EQUAL(counters.uploads.load(), 1u);
  CHECK_EQUAL(counters.downloads.load(), 1u);
  CHECK_EQUAL(counters.modules.load(), 1u);
  CHECK_EQUAL(counters.memory_mapped.load(), kGranule);
  CHECK_EQUAL(counters.faults.load(), 0u);
  const SessionEnd end = w.end();
  CHECK(end.reason == EndReason::kClosed);
  CHECK(end.reusable);
}

TEST(memory_of_an_earlier_session_is_gone) {
  const uint64_t at = World::base();
  {
    World w;
    w.guest.map(at, 2 * kGranule);
    w.guest.upload(at, pattern(2 * kGranule));
    // Also what is taken back while the session goes on, and mapped again at once.
    w.guest.unmap(at, 2 * kGranule);
    w.guest.map(at, kGranule);
    CHECK_EQUAL(w.guest.download(at, kGranule), std::string(kGranule, '\0'));
    w.guest.upload(at, pattern(kGranule));
  }
  World w;
  w.guest.map(at, 4 * kGranule);
  CHECK_EQUAL(w.guest.download(at, 4 * kGranule), std::string(4 * kGranule, '\0'));
}

TEST(frames_that_came_with_the_hello_are_served) {
  wire_cuCtxSynchronize q{};
  q.request.header = {WIRE_cuCtxSynchronize, 0, sizeof q};
  q.request.request = 1;
  WorldOptions options;
  options.leftover = packed(q) + packed(q).substr(0, 10);
  World w(options);
  CHECK_EQUAL(w.guest.wait(1).reply.result, CUDA_SUCCESS);
  w.guest.send(packed(q).data() + 10, sizeof q - 10);
  CHECK_EQUAL(w.guest.wait(1).reply.result, CUDA_SUCCESS);
}

TEST(uploads_of_all_sizes_arrive_whole) {
  World w;
  const uint64_t at = World::base();
  w.guest.map(at, 64 * kGranule);
  const uint64_t streams[] = {0,
                              w.guest.stream(1),
                              w.guest.stream(2, CU_STREAM_NON_BLOCKING),
                              w.guest.stream(3),
                              w.guest.stream(4),
                              w.guest.stream(5)};
  uint64_t to = at;
  std::string all;
  uint32_t n = 0;
  for (size_t size : {1u, 7u, 8u, 9u, 4095u, 16384u, 16385u, 200000u, 262143u, 262144u, 1048569u,
                      1048576u, 3u, 500000u, 600000u, 5u, 3000001u}) {
    const std::string data = pattern(size, ++n);
    w.guest.upload(to, data, streams[n % 6]);
    to += size;
    all += data;
  }
  CHECK_EQUAL(w.guest.synchronize().result, CUDA_SUCCESS);
  CHECK(w.guest.download(at, all.size()) == all);
  // Many small ones in one go, which do not fit the receive buffer together.
  std::string small;
  for (uint32_t i = 0; i < 2000; i++) {
    const std::string data = pattern(777, i);
    w.guest.upload(at + small.size(), data, streams[i % 6]);
    small += data;
  }
  CHECK_EQUAL(w.guest.synchronize().async, 0);
  CHECK(w.guest.download(at, small.size()) == small);
}

TEST(uploads_wait_when_more_are_under_way_than_may_be) {
  World w;
  const uint64_t at = World::base();
  const uint64_t stream = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
  w.guest.map(at, 100 * kGranule);
  w.load_kernels();
  w.gate(1, stream);
  const std::string data = pattern(150 << 20);
  std::thread sender([&] { w.guest.upload(at, data, stream); });
  World::fake().await_gate(1);
  // The server takes up as much as it has room for, then the socket fills; open the gate then.
  while (w.session->counters()->uploads.load() < 64) std::this_thread::yield();
  World::fake().open_gate(1);
  sender.join();
  CHECK(w.guest.download(at, data.size(), stream) == data);
}

TEST(copies_on_the_device) {
  World w;
  const uint64_t at = World::base();
  w.guest.map(at, kGranule);
  w.guest.upload(at, "abcdefghijklmnop");
  wire_cuMemcpyDtoDAsync_v2 copy{};
  copy.dstDevice = at + 100;
  copy.srcDevice = at + 2;
  copy.ByteCount = 4;
  w.guest.put(WIRE_cuMemcpyDtoDAsync_v2, copy);
  CHECK_EQUAL(w.guest.download(at + 100, 4), "cdef");
  wire_Copy2D rows{};
  rows.destination = at + 200;
  rows.destination_pitch = 2;
  rows.source = at;
  rows.source_pitch = 4;
  rows.width = 2;
  rows.height = 4;
  w.guest.put(WIRE_Copy2D, rows);
  CHECK_EQUAL(w.guest.download(at + 200, 8), "abefijmn");
  w.guest.memset32(at + 300, 0x41414141, 2);
  CHECK_EQUAL(w.guest.download(at + 300, 9), std::string("AAAAAAAA\0", 9));
  // Ranges are checked with their pitches, and do not wrap.
  rows.height = kGranule;
  w.guest.put(WIRE_Copy2D, rows);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_VALUE);
  rows.height = uint64_t{1} << 62;
  rows.source_pitch = 8;
  w.guest.put(WIRE_Copy2D, rows);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_VALUE);
}

TEST(an_allocation_may_lie_on_several_mappings) {
  World w;
  const uint64_t at = World::base();
  w.guest.map(at, kGranule);
  w.guest.map(at + kGranule, 2 * kGranule);
  w.guest.map(at + 4 * kGranule, kGranule);
  const std::string data = pattern(3 * kGranule - 100);
  w.guest.upload(at + 50, data);
  CHECK(w.guest.download(at + 50, data.size()) == data);
  // There is a hole behind.
  const Answer beyond = w.guest.wait(w.guest.ask_download(at + 50, 3 * kGranule));
  CHECK_EQUAL(beyond.reply.result, CUDA_ERROR_INVALID_VALUE);
  CHECK_EQUAL(beyond.data, "");
}

TEST(what_kernels_print_comes_before_the_answer) {
  Output::install();
  World w;
  const uint64_t at = World::base();
  w.guest.map(at, kGranule);
  w.load_kernels();
  w.guest.upload(at, std::string("hello from a kernel\n\0", 21));
  w.guest.launch(function_handle(World::kPrint), 0, packed(at));
  w.guest.launch(function_handle(World::kPrint), 0, packed(at));
  const uint64_t request = w.guest.ask_synchronize();
  std::string printed;
  for (;;) {
    const Frame frame = w.guest.next();
    if (frame.op() == WIRE_OUTPUT) {
      printed += frame.tail<wire_output>(frame.as<wire_output>().length);
    } else if (frame.op() == WIRE_REPLY && frame.as<wire_reply>().request == request) {
      break;
    }
  }
  CHECK_EQUAL(printed, "hello from a kernel\nhello from a kernel\n");
  // A download synchronises as well.
  w.guest.launch(function_handle(World::kPrint), 0, packed(at));
  w.guest.download(at, 4);
  const Frame frame = w.guest.next(WIRE_OUTPUT);
  CHECK_EQUAL(frame.tail<wire_output>(frame.as<wire_output>().length), "hello from a kernel\n");
}

TEST(assertions_are_for_standard_error_and_nothing_else_is) {
  Output::install();
  const std::string line =
      "a.cu:7: void f(): block: [0,0,0], thread: [1,0,0] Assertion `x` failed.\n";
  World w;
  w.load_kernels();
  w.guest.launch(function_handle(World::kNothing), 0, "");
  w.guest.synchronize();
  fprintf(stderr, "something else of this process\n");
  fprintf(stderr, "%s", line.c_str());
  const uint64_t request = w.guest.ask_synchronize();
  const Frame frame = w.guest.next(WIRE_ERRORS);
  CHECK_EQUAL(frame.tail<wire_output>(frame.as<wire_output>().length), line);
  w.guest.wait(request);
  w.guest.synchronize();
  for (const Frame &kept : w.guest.kept) CHECK(kept.op() != WIRE_ERRORS);
}

TEST(text_nobody_fetched_does_not_reach_the_next_session) {
  Output::install();
  const uint64_t at = World::base();
  {
    World w;
    w.guest.map(at, kGranule);
    w.load_kernels();
    w.guest.upload(at, std::string("secret\0", 7));
    w.guest.launch(function_handle(World::kPrint), 0, packed(at));
    w.guest.next(WIRE_IDLE);
  }
  World w;
  w.load_kernels();
  w.guest.launch(function_handle(World::kNothing), 0, "");
  w.guest.synchronize();
  for (const Frame &frame : w.guest.kept) CHECK(frame.op() != WIRE_OUTPUT);
}

TEST(idle_is_said_once_and_not_behind_answers) {
  World w;
  w.guest.map(World::base(), kGranule);
  CHECK_EQUAL(w.guest.next().op(), WIRE_IDLE);
  w.guest.synchronize();
  w.guest.synchronize();
  CHECK_EQUAL(w.guest.kept.size(), 0u);
  w.guest.memset32(World::base(), 1, 4);
  CHECK_EQUAL(w.guest.next().op(), WIRE_IDLE);
}

TEST(limits_a_session_sets_end_with_it) {
  const auto stack = [] { return World::device()->snapshot().limits.at(0); };
  {
    World w;
    wire_LimitSet q{};
    q.limit = 0;
    q.value = 65536;
    CHECK_EQUAL(w.guest.call(WIRE_LimitSet, q).reply.result, CUDA_SUCCESS);
  }
  size_t now = 0;
  World::device()->driver().cuCtxGetLimit(&now, static_cast<CUlimit>(0));
  CHECK_EQUAL(now, stack());
}

TEST(a_reset_takes_everything_away) {
  World w;
  const uint64_t at = World::base();
  w.guest.map(at, kGranule);
  w.guest.upload(at, "data");
  w.load_kernels();
  const uint64_t stream = w.guest.stream(1);
  const uint64_t event = w.guest.event(1);
  w.guest.record(event, stream);
  CHECK_EQUAL(w.guest.call(WIRE_ContextReset, wire_ContextReset{}).reply.result, CUDA_SUCCESS);
  const FakeLive live = World::fake().live();
  CHECK_EQUAL(live.streams, 1u);
  CHECK_EQUAL(live.mappings, 0u);
  CHECK_EQUAL(live.libraries, 0u);
  CHECK_EQUAL(w.guest.wait(w.guest.ask_download(at, 4)).reply.result, CUDA_ERROR_INVALID_VALUE);
  w.guest.launch(function_handle(World::kNothing), 0, "");
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_HANDLE);
  w.guest.map(at, kGranule);
  CHECK_EQUAL(w.guest.download(at, 4), std::string(4, '\0'));
}

TEST(times_between_events_come_from_the_call_that_a_driver_for_12_4_has) {
  World::fake().set_version(12040);
  World w;
  wire_cuEventElapsedTime_v2 elapsed{};
  elapsed.hStart = w.guest.event(1);
  elapsed.hEnd = w.guest.event(2);
  const Answer time = w.guest.call(WIRE_cuEventElapsedTime_v2, elapsed);
  CHECK_EQUAL(time.reply.result, CUDA_SUCCESS);
  CHECK_EQUAL(time.frame.as<wire_cuEventElapsedTime_v2_reply>().pMilliseconds, 1.5f);
  CHECK_EQUAL(World::fake().calls("cuEventElapsedTime"), 1u);
}

TEST(results_of_calls_come_back) {
  World w;
  w.load_kernels();
  wire_cuFuncGetAttribute attribute{};
  attribute.attrib = 4;
  attribute.hfunc = function_handle(World::kAdd);
  const Answer answer = w.guest.call(WIRE_cuFuncGetAttribute, attribute);
  CHECK_EQUAL(answer.reply.result, CUDA_SUCCESS);
  CHECK_EQUAL(answer.frame.as<wire_cuFuncGetAttribute_reply>().pi, 104);
  wire_cuEventElapsedTime_v2 elapsed{};
  elapsed.hStart = w.guest.event(1);
  elapsed.hEnd = w.guest.event(2);
  const Answer time = w.guest.call(WIRE_cuEventElapsedTime_v2, elapsed);
  CHECK_EQUAL(time.frame.as<wire_cuEventElapsedTime_v2_reply>().pMilliseconds, 1.5f);
  World::fake().fail("cuFuncGetAttribute", CUDA_ERROR_INVALID_VALUE, 0);
  CHECK_EQUAL(w.guest.call(WIRE_cuFuncGetAttribute, attribute).reply.result,
              CUDA_ERROR_INVALID_VALUE);
}
