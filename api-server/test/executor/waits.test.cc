// Waiting: it keeps nobody else waiting, and what must come first does.
#include "check.h"
#include "world.h"

using namespace outboard;

namespace {

constexpr uint64_t kGranule = WIRE_GRANULE;

wire_cuStreamQuery stream_query(uint64_t stream) {
  wire_cuStreamQuery q{};
  q.hStream = stream;
  return q;
}

wire_cuEventQuery event_query(uint64_t event) {
  wire_cuEventQuery q{};
  q.hEvent = event;
  return q;
}

// Answers in the order in which they came, as request numbers; other frames are skipped.
std::vector<uint64_t> next_answers(Guest &guest, size_t count) {
  std::vector<uint64_t> requests;
  while (requests.size() < count) {
    const Frame frame = guest.next();
    CHECK(!frame.bytes.empty());
    if (frame.op() == WIRE_REPLY) requests.push_back(frame.as<wire_reply>().request);
  }
  return requests;
}

}  // namespace

TEST(a_wait_does_not_keep_others_waiting) {
  World w;
  const uint64_t at = World::base();
  w.guest.map(at, kGranule);
  w.load_kernels();
  const uint64_t slow = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
  const uint64_t fast = w.guest.stream(2, CU_STREAM_NON_BLOCKING);
  w.gate(1, slow);
  const uint64_t waiting = w.guest.ask_synchronize_stream(slow);
  // All of this is served while the first request waits.
  w.guest.upload(at, "abcd", fast);
  CHECK_EQUAL(w.guest.download(at, 4, fast), "abcd");
  CHECK_EQUAL(w.guest.wait(w.guest.ask_synchronize_stream(fast)).reply.result, CUDA_SUCCESS);
  const uint64_t also = w.guest.ask_synchronize();
  CHECK_EQUAL(w.guest.download(at, 2, fast), "ab");
  for (const Frame &frame : w.guest.kept) CHECK(frame.op() != WIRE_REPLY);
  World::fake().open_gate(1);
  CHECK_EQUAL(w.guest.wait(waiting).reply.result, CUDA_SUCCESS);
  CHECK_EQUAL(w.guest.wait(also).reply.result, CUDA_SUCCESS);
}

TEST(many_waits_at_a_time) {
  World w;
  w.load_kernels();
  constexpr uint32_t kStreams = 60;
  std::vector<uint64_t> waiting;
  for (uint32_t i = 0; i < kStreams; i++) {
    const uint64_t stream = w.guest.stream(i, CU_STREAM_NON_BLOCKING);
    w.gate(i, stream);
    waiting.push_back(w.guest.ask_synchronize_stream(stream));
  }
  // In the opposite order.
  for (uint32_t i = kStreams; i-- > 0;) {
    World::fake().await_gate(i);
    World::fake().open_gate(i);
    CHECK_EQUAL(w.guest.wait(waiting[i]).reply.result, CUDA_SUCCESS);
  }
  CHECK_EQUAL(w.guest.synchronize().async, 0);
}

TEST(more_waits_than_threads_are_served_in_the_end) {
  World w;
  w.load_kernels();
  const uint64_t stream = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
  w.gate(1, stream);
  std::vector<uint64_t> waiting;
  for (int i = 0; i < 400; i++) waiting.push_back(w.guest.ask_synchronize_stream(stream));
  World::fake().await_gate(1);
  World::fake().open_gate(1);
  for (uint64_t request : waiting) CHECK_EQUAL(w.guest.wait(request).reply.result, CUDA_SUCCESS);
}

TEST(a_wait_for_nothing_hands_nothing_over) {
  World w;
  w.load_kernels();
  const uint64_t stream = w.guest.stream(1);
  w.guest.launch(function_handle(World::kNothing), stream, "");
  // Asked whether there is anything to wait for first, and only then called: printing needs that.
  const unsigned before = World::fake().calls("cuStreamSynchronize");
  w.guest.wait(w.guest.ask_synchronize_stream(stream));
  CHECK_EQUAL(World::fake().calls("cuStreamSynchronize"), before + 1);
  const uint64_t event = w.guest.event(1);
  w.guest.record(event, stream);
  CHECK_EQUAL(w.guest.wait(w.guest.ask_synchronize_event(event)).reply.result, CUDA_SUCCESS);
}

TEST(marks_are_told_when_their_stream_has_passed_them) {
  World w;
  w.load_kernels();
  const uint64_t one = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
  const uint64_t other = w.guest.stream(2, CU_STREAM_NON_BLOCKING);
  const auto mark = [&](uint64_t stream, uint64_t place) {
    wire_StreamMark q{};
    q.stream = stream;
    q.place = place;
    w.guest.put(WIRE_StreamMark, q);
  };
  const auto expect = [&](uint64_t stream, uint64_t place) {
    const Frame passed = w.guest.next(WIRE_PASSED);
    CHECK_EQUAL(passed.as<wire_passed>().stream, stream);
    CHECK_EQUAL(passed.as<wire_passed>().place, place);
  };
  mark(one, 10);
  expect(one, 10);
  // One stream does not keep the news of another.
  w.gate(1, one);
  mark(one, 20);
  mark(other, 30);
  expect(other, 30);
  w.gate(2, one);
  mark(one, 40);
  World::fake().open_gate(1);
  expect(one, 20);
  World::fake().open_gate(2);
  expect(one, 40);
  mark(0x2000000000009, 50);
  CHECK_EQUAL(w.guest.next(WIRE_FAULT).as<wire_fault>().result, CUDA_ERROR_INVALID_HANDLE);
  // What is not passed when the context is reset is told before the reset is answered.
  w.gate(3, one);
  mark(one, 60);
  World::fake().open_gate(3);
  const uint64_t reset = w.guest.ask(WIRE_ContextReset, wire_ContextReset{});
  expect(one, 60);
  w.guest.wait(reset);
}

TEST(a_query_that_is_not_ready_is_answered_later_by_a_push) {
  World w;
  w.load_kernels();
  const uint64_t stream = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
  const uint64_t event = w.guest.event(1);
  w.gate(1, stream);
  w.guest.record(event, stream);
  w.gate(2, stream);
  const uint64_t first = w.guest.ask(WIRE_cuEventQuery, event_query(event));
  CHECK_EQUAL(w.guest.wait(first).reply.result, CUDA_ERROR_NOT_READY);
  const uint64_t second = w.guest.ask(WIRE_cuStreamQuery, stream_query(stream));
  CHECK_EQUAL(w.guest.wait(second).reply.result, CUDA_ERROR_NOT_READY);
  World::fake().open_gate(1);
  Frame done = w.guest.next(WIRE_DONE);
  CHECK_EQUAL(done.as<wire_done>().handle, event);
  CHECK_EQUAL(done.as<wire_done>().request, first);
  CHECK_EQUAL(w.guest.call(WIRE_cuEventQuery, event_query(event)).reply.result, CUDA_SUCCESS);
  // The later of two queries is not kept waiting by the earlier one.
  World::fake().open_gate(2);
  done = w.guest.next(WIRE_DONE);
  CHECK_EQUAL(done.as<wire_done>().handle, stream);
  CHECK_EQUAL(done.as<wire_done>().request, second);
  CHECK_EQUAL(w.guest.call(WIRE_cuStreamQuery, stream_query(stream)).reply.result, CUDA_SUCCESS);
}

TEST(what_is_waited_for_may_be_destroyed) {
  World w;
  w.load_kernels();
  const uint64_t stream = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
  const uint64_t event = w.guest.event(1);
  w.gate(1, stream);
  w.guest.record(event, stream);
  const uint64_t on_stream = w.guest.ask_synchronize_stream(stream);
  const uint64_t on_event = w.guest.ask_synchronize_event(event);
  wire_cuStreamDestroy_v2 destroy_stream{};
  destroy_stream.hStream = stream;
  w.guest.put(WIRE_cuStreamDestroy_v2, destroy_stream);
  wire_cuEventDestroy_v2 destroy_event{};
  destroy_event.hEvent = event;
  w.guest.put(WIRE_cuEventDestroy_v2, destroy_event);
  // The handles are gone at once.
  CHECK_EQUAL(w.guest.wait(w.guest.ask_synchronize_stream(stream)).reply.result,
              CUDA_ERROR_INVALID_HANDLE);
  CHECK_EQUAL(w.guest.wait(w.guest.ask_synchronize_event(event)).reply.result,
              CUDA_ERROR_INVALID_HANDLE);
  World::fake().open_gate(1);
  CHECK_EQUAL(w.guest.wait(on_stream).reply.result, CUDA_SUCCESS);
  CHECK_EQUAL(w.guest.wait(on_event).reply.result, CUDA_SUCCESS);
}

TEST(synchronising_covers_work_of_a_destroyed_stream) {
  World w;
  w.load_kernels();
  const uint64_t stream = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
  w.gate(1, stream);
  wire_cuStreamDestroy_v2 destroy{};
  destroy.hStream = stream;
  w.guest.put(WIRE_cuStreamDestroy_v2, destroy);
  const uint64_t waiting = w.guest.ask_synchronize();
  // Served meanwhile: so the synchronisation does wait, and aside.
  CHECK_EQUAL(w.guest.wait(w.guest.ask_synchronize_stream(0)).reply.result, CUDA_SUCCESS);
  for (const Frame &frame : w.guest.kept) CHECK(frame.op() != WIRE_REPLY);
  World::fake().open_gate(1);
  CHECK_EQUAL(w.guest.wait(waiting).reply.result, CUDA_SUCCESS);
}

// ---- downloads ---------------------------------------------------------------------------------

TEST(a_deferred_download_is_answered_before_what_covers_it) {
  World w;
  const uint64_t at = World::base();
  w.guest.map(at, 4 * kGranule);
  w.load_kernels();
  const uint64_t stream = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
  const uint64_t other = w.guest.stream(2, CU_STREAM_NON_BLOCKING);
  const std::string data = pattern(5 << 20);
  w.guest.upload(at, data, stream);
  w.gate(1, stream);
  const uint64_t large = w.guest.ask_download(at, data.size(), stream);
  const uint64_t small = w.guest.ask_download(at + 7, 100, stream);
  // Overwrites what is downloaded, behind it in the stream.
  w.guest.memset32(at, 0, 5 << 18, stream);
  const uint64_t event = w.guest.event(1);
  w.guest.record(event, stream);
  w.guest.wait_event(other, event);
  const uint64_t by_other = w.guest.ask_synchronize_stream(other);
  const uint64_t by_event = w.guest.ask_synchronize_event(event);
  const uint64_t by_stream = w.guest.ask_synchronize_stream(stream);
  const uint64_t by_context = w.guest.ask_synchronize();
  World::fake().await_gate(1);
  World::fake().open_gate(1);
  // The two downloads of one stream end in order, too.
  std::string received, received_small;
  std::vector<uint64_t> answers;
  while (answers.size() < 6) {
    const Frame frame = w.guest.next();
    if (frame.op() == WIRE_REPLY) answers.push_back(frame.as<wire_reply>().request);
    if (frame.op() != WIRE_DATA) continue;
    const auto &piece = frame.as<wire_data>();
    std::string &to = piece.request == large ? received : received_small;
    CHECK_EQUAL(piece.offset, to.size());
    to += frame.tail<wire_data>(piece.length);
  }
  CHECK_EQUAL(answers[0], large);
  CHECK_EQUAL(answers[1], small);
  CHECK(received == data);
  CHECK(received_small == data.substr(7, 100));
  for (uint64_t request : {by_other, by_event, by_stream, by_context}) {
    CHECK(std::find(answers.begin(), answers.end(), request) != answers.end());
  }
}

TEST(a_download_not_covered_does_not_hold_a_synchronisation_up) {
  World w;
  const uint64_t at = World::base();
  w.guest.map(at, kGranule);
  w.load_kernels();
  const uint64_t slow = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
  const uint64_t fast = w.guest.stream(2, CU_STREAM_NON_BLOCKING);
  w.gate(1, slow);
  const uint64_t download = w.guest.ask_download(at, 8, slow);
  CHECK_EQUAL(w.guest.wait(w.guest.ask_synchronize_stream(fast)).reply.result, CUDA_SUCCESS);
  CHECK_EQUAL(w.guest.call(WIRE_cuStreamQuery, stream_query(fast)).reply.result, CUDA_SUCCESS);
  World::fake().open_gate(1);
  CHECK_EQUAL(w.guest.wait(download).data, std::string(8, '\0'));
}

// More than there is pinned memory for: the rest of the copies are queued while it is being sent.
TEST(nothing_gets_between_the_copies_of_a_large_download) {
  World w;
  const uint64_t at = World::base();
  constexpr uint64_t kSize = 100 << 20;
  w.guest.map(at, 60 * kGranule);
  w.load_kernels();
  const uint64_t stream = w.guest.stream(1);
  const uint64_t free = w.guest.stream(2, CU_STREAM_NON_BLOCKING);
  const std::string data = pattern(kSize);
  w.guest.upload(at, data, stream);
  w.gate(1, stream);
  const uint64_t first = w.guest.ask_download(at, kSize, stream);
  const uint64_t second = w.guest.ask_download(at, kSize, 0);  // ordered behind it
  const uint64_t covering = w.guest.ask_synchronize_stream(stream);
  // A stream that is not ordered with it goes on.
  w.guest.memset32(at + 55 * kGranule, 7, 1, free);
  CHECK_EQUAL(w.guest.download(at + 55 * kGranule, 4, free), std::string("\7\0\0\0", 4));
  w.guest.memset32(at, 0xffffffff, kSize / 4, stream);
  const uint64_t last = w.guest.ask_synchronize();
  World::fake().open_gate(1);
  const Answer answer = w.guest.wait(first);
  CHECK_EQUAL(answer.reply.result, CUDA_SUCCESS);
  CHECK(answer.data == data);
  CHECK(w.guest.wait(second).data == data);
  for (uint64_t request : {covering, last}) {
    CHECK_EQUAL(w.guest.wait(request).reply.result, CUDA_SUCCESS);
  }
  CHECK_EQUAL(w.guest.download(at, 4), "\xff\xff\xff\xff");
}

// A load may wait for all work, and let nobody start any meanwhile: no stream is held then.
TEST(a_large_download_holds_nothing_while_code_is_loaded) {
  World w;
  const uint64_t at = World::base();
  constexpr uint64_t kSize = 100 << 20;
  w.guest.map(at, 60 * kGranule);
  const uint64_t stream = w.guest.stream(1);
  const std::string data = pattern(kSize), image = Guest::image("kernel one\n");
  w.guest.upload(at, data, stream);
  w.guest.send_image(image);
  World::fake().hold("cuLibraryLoadData", 5, 0);
  const unsigned before = World::fake().calls("cuLibraryLoadData");
  const uint64_t load = w.guest.ask(
      WIRE_ModuleLoad, w.guest.load_command(wire_handle(WIRE_KIND_MODULE, 1, 1), image));
  while (World::fake().calls("cuLibraryLoadData") == before) std::this_thread::yield();
  const uint64_t asked = w.guest.ask_download(at, kSize, stream);
  w.guest.memset32(at, 0xffffffff, kSize / 4, stream);
  const Answer answer = w.guest.wait(asked);
  CHECK_EQUAL(answer.reply.result, CUDA_SUCCESS);
  CHECK(answer.data == data);
  CHECK(!World::device()->detour_holds().any());
  CHECK_EQUAL(w.guest.download(at, 4, stream), "\xff\xff\xff\xff");
  World::fake().open_gate(5);
  CHECK_EQUAL(w.guest.wait(load).reply.result, CUDA_SUCCESS);
  // And the next one does again.
  CHECK_EQUAL(w.guest.download(at, kSize, stream).size(), kSize);
}

// The other way round a load waits until it has been sent.
TEST(a_load_waits_for_a_download_that_holds_its_stream) {
  World w;
  const uint64_t at = World::base();
  constexpr uint64_t kSize = 100 << 20;
  w.guest.map(at, 60 * kGranule);
  w.load_kernels();
  const uint64_t stream = w.guest.stream(1);
  const std::string image = Guest::image("kernel one\n");
  w.guest.send_image(image);
  w.gate(1, stream);
  const uint64_t asked = w.guest.ask_download(at, kSize, stream);
  const uint64_t load = w.guest.ask(
      WIRE_ModuleLoad, w.guest.load_command(wire_handle(WIRE_KIND_MODULE, 1, 9), image));
  CHECK_EQUAL(w.guest.wait(w.guest.ask(WIRE_Echo, wire_Echo{})).reply.result, CUDA_SUCCESS);
  for (const Frame &frame : w.guest.kept) CHECK(frame.op() != WIRE_REPLY);
  World::fake().open_gate(1);
  CHECK_EQUAL(w.guest.wait(asked).reply.result, CUDA_SUCCESS);
  CHECK_EQUAL(w.guest.wait(load).reply.result, CUDA_SUCCESS);
}

TEST(a_query_that_succeeds_covers_downloads) {
  World w;
  const uint64_t at = World::base();
  w.guest.map(at, 16 * kGranule);
  w.load_kernels();
  const uint64_t stream = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
  // More than a socket holds, so that it is still being sent when the query is served; and not so
  // much that the stream is held until the rest can be copied.
  const uint64_t download = w.guest.ask_download(at, 2 << 20, stream);
  const uint64_t query = w.guest.ask(WIRE_cuStreamQuery, stream_query(stream));
  const std::vector<uint64_t> answers = next_answers(w.guest, 2);
  CHECK_EQUAL(answers[0], download);
  CHECK_EQUAL(answers[1], query);
}

TEST(a_download_that_fails_on_the_way_says_so) {
  World w;
  const uint64_t at = World::base();
  w.guest.map(at, 4 * kGranule);
  w.guest.synchronize();
  World::fake().fail("cuMemcpyDtoHAsync_v2", CUDA_ERROR_INVALID_VALUE, 0);
  CHECK_EQUAL(w.guest.wait(w.guest.ask_download(at, 100)).reply.result, CUDA_ERROR_INVALID_VALUE);
  World::fake().fail("cuMemcpyDtoHAsync_v2", CUDA_ERROR_INVALID_VALUE, 2);
  CHECK_EQUAL(w.guest.wait(w.guest.ask_download(at, 4 * kGranule)).reply.result,
              CUDA_ERROR_INVALID_VALUE);
  World::fake().fail("cuEventRecord", CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 1);
  CHECK_EQUAL(w.guest.wait(w.guest.ask_download(at, 4 * kGranule)).reply.result,
              CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  CHECK_EQUAL(w.guest.download(at, 4 * kGranule).size(), 4 * kGranule);
}

// A function of the program, which waits for a command that is sent behind all this.
TEST(the_leader_waits_for_nothing_that_a_later_command_ends) {
  World w;
  const uint64_t at = World::base();
  constexpr uint64_t kSize = 100 << 20;
  w.guest.map(at, 60 * kGranule);
  const uint64_t stream = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
  const uint64_t other = w.guest.stream(2, CU_STREAM_NON_BLOCKING);
  wire_HostFunction post{};
  post.stream = stream;
  w.guest.put(WIRE_HostFunction, post);
  const uint64_t call = w.guest.next(WIRE_CALL).as<wire_call>().call;
  const std::string data = pattern(kSize);
  w.guest.upload(at, data, stream);
  const uint64_t large = w.guest.ask_download(at, kSize, stream);
  std::vector<uint64_t> small;
  for (uint64_t i = 0; i < 1000; i++) small.push_back(w.guest.ask_download(at + i, 1, stream));
  w.guest.memset32(at, 5, 1, stream);
  const uint64_t query = w.guest.ask(WIRE_cuStreamQuery, stream_query(stream));
  CHECK_EQUAL(w.guest.wait(query).reply.result, CUDA_ERROR_NOT_READY);
  const uint64_t event = w.guest.event(1);
  w.guest.record(event, stream);
  const uint64_t covering = w.guest.ask_synchronize_stream(stream);
  w.guest.memset32(at + 55 * kGranule, 7, 1, other);
  CHECK_EQUAL(w.guest.download(at + 55 * kGranule, 4, other), std::string("\7\0\0\0", 4));
  wire_HostFunctionDone done{};
  done.call = call;
  w.guest.put(WIRE_HostFunctionDone, done);
  CHECK(w.guest.wait(large).data == data);
  for (uint64_t i = 0; i < small.size(); i++) {
    CHECK_EQUAL(w.guest.wait(small[i]).data, data.substr(i, 1));
  }
  CHECK_EQUAL(w.guest.wait(covering).reply.result, CUDA_SUCCESS);
  CHECK_EQUAL(w.guest.next(WIRE_DONE).as<wire_done>().request, query);
  CHECK_EQUAL(w.guest.download(at, 4, other), packed(uint32_t{5}));
  w.end();
  CHECK_EQUAL(World::fake().live().streams, 1u);
}
