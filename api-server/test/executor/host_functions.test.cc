// Functions of the program: streams call them in the guest and wait for them, and for nothing else.
#include <sys/socket.h>

#include "check.h"
#include "world.h"

using namespace outboard;

namespace {

constexpr uint64_t kGranule = WIRE_GRANULE;

void post(World &w, uint64_t stream, uint64_t function, uint32_t kind = WIRE_FUNCTION_ONCE) {
  wire_HostFunction q{};
  q.stream = stream;
  q.function = function;
  q.kind = kind;
  w.guest.put(WIRE_HostFunction, q);
}

void done(World &w, uint64_t call) {
  wire_HostFunctionDone q{};
  q.call = call;
  w.guest.put(WIRE_HostFunctionDone, q);
}

wire_call next_call(World &w) { return w.guest.next(WIRE_CALL).as<wire_call>(); }

wire_LateUpload late(uint64_t stream, uint64_t function, uint64_t to, uint64_t length) {
  wire_LateUpload q{};
  q.x = to;
  q.width = q.length = length;
  q.height = q.depth = 1;
  q.stream = stream;
  q.function = function;
  return q;
}

void bring(World &w, uint64_t call, uint64_t offset, const std::string &bytes) {
  wire_LatePayload q{};
  q.call = call;
  q.offset = offset;
  q.length = bytes.size();
  w.guest.put(WIRE_LatePayload, q, bytes);
}

uint64_t stream(World &w, uint32_t index) { return w.guest.stream(index, CU_STREAM_NON_BLOCKING); }

}  // namespace

TEST(a_stream_waits_for_its_function_and_others_do_not) {
  World w;
  const uint64_t at = World::base();
  w.guest.map(at, kGranule);
  const uint64_t held = stream(w, 1), other = stream(w, 2);
  w.guest.memset32(at, 1, 1, held);
  post(w, held, 0x500000007);
  w.guest.memset32(at, 2, 1, held);
  const uint64_t waiting = w.guest.ask_synchronize_stream(held);
  const wire_call call = next_call(w);
  CHECK_EQUAL(call.function, 0x500000007u);
  CHECK_EQUAL(call.status, 0);
  // What was before it is done, what is behind it is not, and the rest goes on.
  uint32_t word = 1;
  CHECK_EQUAL(w.guest.download(at, 4, other), packed(word));
  w.guest.memset32(at + 64, 9, 1, other);
  CHECK_EQUAL(w.guest.wait(w.guest.ask_synchronize_stream(other)).reply.result, CUDA_SUCCESS);
  for (const Frame &frame : w.guest.kept) CHECK(frame.op() != WIRE_REPLY);
  done(w, call.call);
  CHECK_EQUAL(w.guest.wait(waiting).reply.result, CUDA_SUCCESS);
  word = 2;
  CHECK_EQUAL(w.guest.download(at, 4, other), packed(word));
  CHECK_EQUAL(w.guest.synchronize().async, 0);
}

TEST(a_return_is_heard_while_memory_goes) {
  World w;
  const uint64_t at = World::base();
  w.guest.map(at, kGranule);
  w.guest.map(at + kGranule, kGranule);
  const uint64_t held = stream(w, 1);
  post(w, held, 7);
  const wire_call call = next_call(w);
  // What is unmapped can wait, as long as nothing new is wanted there: then the driver waits.
  w.guest.unmap(at, kGranule);
  w.guest.unmap(at + kGranule, kGranule);
  CHECK_EQUAL(w.guest.wait(w.guest.ask_synchronize_stream(stream(w, 2))).reply.result,
              CUDA_SUCCESS);
  w.guest.map(at, kGranule);
  // Behind more than the server reads at once.
  w.guest.map(at + 2 * kGranule, kGranule);
  w.guest.upload(at + 2 * kGranule, std::string(1 << 20, 'x'));
  done(w, call.call);
  CHECK_EQUAL(w.guest.synchronize().result, CUDA_SUCCESS);
  // And told twice it is no return any more.
  done(w, call.call);
  w.expect_violation("was not asked for");
}

TEST(bytes_come_when_it_is_their_turn) {
  World w;
  const uint64_t at = World::base();
  w.guest.map(at, kGranule);
  const uint64_t held = stream(w, 1);
  const std::string first(100'000, 'f'), second(WIRE_BULK_MAX, 's'), box(6 * 5, 'b');
  post(w, held, 1);
  w.guest.put(WIRE_LateUpload, late(held, 2, at, first.size() + second.size()));
  // Rows of 6 bytes, 16 apart.
  wire_LateUpload rows = late(held, 3, at, box.size());
  rows.y = 16;
  rows.z = 5;
  rows.width = 6;
  rows.height = 5;
  w.guest.put(WIRE_LateUpload, rows);
  const wire_call function = next_call(w);
  CHECK_EQUAL(function.function, 1u);
  CHECK_EQUAL(w.guest.wait(w.guest.ask_synchronize_stream(stream(w, 2))).reply.result,
              CUDA_SUCCESS);
  for (const Frame &frame : w.guest.kept) CHECK(frame.op() != WIRE_CALL);
  done(w, function.call);
  const wire_call line = next_call(w);
  CHECK_EQUAL(line.function, 2u);
  CHECK_EQUAL(line.status, CUDA_SUCCESS);
  bring(w, line.call, 0, first);
  bring(w, line.call, first.size(), second);
  done(w, line.call);
  const wire_call plane = next_call(w);
  CHECK_EQUAL(plane.function, 3u);
  bring(w, plane.call, 0, box);
  done(w, plane.call);
  CHECK_EQUAL(w.guest.wait(w.guest.ask_synchronize_stream(held)).reply.result, CUDA_SUCCESS);
  std::string wanted = first + second;
  for (size_t y = 0; y < 5; y++) wanted.replace(y * 16, 6, "bbbbbb");
  CHECK(w.guest.download(at, wanted.size(), held) == wanted);
  CHECK_EQUAL(w.guest.synchronize().async, 0);
}

TEST(bytes_are_heard_while_the_driver_waits) {
  World w;
  const uint64_t at = World::base();
  w.guest.map(at, kGranule);
  w.guest.map(at + kGranule, kGranule);
  const uint64_t held = stream(w, 1);
  const std::string bytes(WIRE_BULK_MAX, 'x');
  w.guest.put(WIRE_LateUpload, late(held, 2, at + kGranule, bytes.size()));
  const wire_call call = next_call(w);
  w.guest.unmap(at, kGranule);
  w.guest.map(at, kGranule);  // waits for the stream
  w.guest.upload(at, std::string(WIRE_BULK_MAX, 'y'));
  bring(w, call.call, 0, bytes);
  done(w, call.call);
  CHECK_EQUAL(w.guest.synchronize().result, CUDA_SUCCESS);
  CHECK(w.guest.download(at + kGranule, bytes.size(), held) == bytes);
  CHECK_EQUAL(w.guest.synchronize().async, 0);
}

// More than is read ahead, in many frames, and other commands between them.
TEST(bytes_that_were_heard_take_no_room) {
  session_limits.read_ahead_bytes = 2 << 20;
  World w;
  const uint64_t at = World::base();
  for (uint64_t i = 0; i < 8; i++) w.guest.map(at + i * kGranule, kGranule);
  const uint64_t held = stream(w, 1), other = stream(w, 2);
  std::string bytes(8 << 20, 'x');
  for (size_t i = 0; i < bytes.size(); i += 1000) bytes[i] = static_cast<char>(i / 1000);
  w.guest.put(WIRE_LateUpload, late(held, 2, at + kGranule, bytes.size()));
  const wire_call call = next_call(w);
  w.guest.unmap(at, kGranule);
  w.guest.map(at, kGranule);  // waits for the stream
  constexpr size_t kPart = WIRE_BULK_MAX - 24;
  for (size_t from = 0; from < bytes.size(); from += kPart) {
    bring(w, call.call, from, bytes.substr(from, kPart));
    w.guest.memset32(at, static_cast<uint32_t>(from), 1, other);
  }
  done(w, call.call);
  CHECK_EQUAL(w.guest.synchronize().result, CUDA_SUCCESS);
  CHECK(w.guest.download(at + kGranule, bytes.size(), held) == bytes);
  const auto last = static_cast<uint32_t>((bytes.size() - 1) / kPart * kPart);
  CHECK_EQUAL(w.guest.download(at, 4), packed(last));
  CHECK_EQUAL(w.guest.synchronize().async, 0);
}

TEST(a_copy_that_cannot_be_made_is_called_all_the_same) {
  World w;
  const uint64_t at = World::base();
  w.guest.map(at, kGranule);
  const uint64_t held = stream(w, 1);
  w.guest.put(WIRE_LateUpload, late(held, 1, at + kGranule, 8));
  wire_call call = next_call(w);
  CHECK_EQUAL(call.status, CUDA_ERROR_INVALID_VALUE);
  done(w, call.call);
  w.guest.put(WIRE_LateUpload, late(12345, 2, at, 8));
  call = next_call(w);
  CHECK_EQUAL(call.status, CUDA_ERROR_INVALID_HANDLE);
  done(w, call.call);
  w.end();
}

TEST(bytes_go_nowhere_else) {
  {
    World w;
    w.guest.map(World::base(), kGranule);
    w.guest.put(WIRE_LateUpload, late(stream(w, 1), 1, World::base(), 100));
    bring(w, next_call(w).call, 96, "12345");
    w.expect_violation("no room for them");
  }
  {
    World w;
    bring(w, 7, 0, "1");
    w.expect_violation("was not asked for");
  }
  {
    World w;
    w.guest.put(WIRE_LateUpload, late(stream(w, 1), 1, World::base(), WIRE_LATE_MAX + 1));
    w.expect_violation("longer than one may be");
  }
}

TEST(functions_of_a_stream_are_called_one_by_one) {
  World w;
  const uint64_t held = stream(w, 1);
  for (uint64_t i = 0; i < 50; i++) post(w, held, i, i % 2 ? WIRE_FUNCTION_CALLBACK : 0);
  for (uint64_t i = 0; i < 50; i++) {
    const wire_call call = next_call(w);
    CHECK_EQUAL(call.function, i);
    CHECK_EQUAL(w.guest.wait(w.guest.ask_synchronize_stream(0)).reply.result, CUDA_SUCCESS);
    for (const Frame &frame : w.guest.kept) CHECK(frame.op() != WIRE_CALL);
    done(w, call.call);
  }
  CHECK_EQUAL(w.guest.synchronize().result, CUDA_SUCCESS);
}

TEST(many_streams_call_at_once) {
  World w;
  std::vector<uint64_t> calls;
  for (uint32_t i = 0; i < 60; i++) post(w, stream(w, i), i);
  for (uint32_t i = 0; i < 60; i++) calls.push_back(next_call(w).call);
  for (size_t i = calls.size(); i-- > 0;) done(w, calls[i]);
  CHECK_EQUAL(w.guest.synchronize().result, CUDA_SUCCESS);
}

TEST(only_callbacks_and_steps_are_told_of_a_broken_context) {
  World w;
  w.load_kernels();
  const uint64_t held = stream(w, 1);
  w.gate(1, held);
  w.guest.launch(function_handle(World::kCrash), held, "");
  post(w, held, 1);
  post(w, held, 2, WIRE_FUNCTION_CALLBACK);
  post(w, held, 3, WIRE_FUNCTION_STEP);
  const uint64_t waiting = w.guest.ask_synchronize_stream(held);
  w.guest.wait(w.guest.ask_synchronize_stream(stream(w, 2)));  // all of it is taken up
  World::fake().open_gate(1);
  const wire_call call = next_call(w);
  CHECK_EQUAL(call.function, 2u);
  CHECK_EQUAL(call.status, CUDA_ERROR_ILLEGAL_ADDRESS);
  done(w, call.call);
  const wire_call step = next_call(w);
  CHECK_EQUAL(step.function, 3u);
  done(w, step.call);
  CHECK_EQUAL(w.guest.wait(waiting).reply.result, CUDA_ERROR_ILLEGAL_ADDRESS);
  w.end();
  World::fake().reset();
}

TEST(a_step_is_taken_also_where_no_stream_can_come_to_it) {
  World w;
  post(w, 12345, 7);
  post(w, 12345, 8, WIRE_FUNCTION_STEP);
  const wire_call call = next_call(w);
  CHECK_EQUAL(call.function, 8u);
  CHECK_EQUAL(call.status, CUDA_ERROR_INVALID_HANDLE);
  done(w, call.call);
  w.end();
}

TEST(what_a_graph_calls_is_called_again_and_again) {
  World w;
  const uint64_t held = stream(w, 1);
  CUDA_HOST_NODE_PARAMS node{};
  CHECK(w.session->host_functions().node(77, &node));
  for (int i = 0; i < 3; i++) {
    post(w, held, 77, WIRE_FUNCTION_KEPT);
    std::thread driver([&] { node.fn(node.userData); });
    for (int calls = 0; calls < 2; calls++) {
      const wire_call call = next_call(w);
      CHECK_EQUAL(call.function, 77u);
      done(w, call.call);
    }
    driver.join();
  }
  CHECK_EQUAL(w.guest.synchronize().result, CUDA_SUCCESS);
}

TEST(a_guest_that_dies_in_its_functions) {
  for (const bool half : {false, true}) {
    World w;
    const uint64_t at = World::base();
    w.guest.map(at, kGranule);
    for (uint32_t i = 0; i < 20; i++) {
      const uint64_t held = stream(w, i);
      post(w, held, i);
      post(w, held, i, WIRE_FUNCTION_CALLBACK);
      w.guest.memset32(at, i, 4, held);
      w.guest.ask_synchronize_stream(held);
    }
    w.guest.ask_synchronize();
    for (uint32_t i = 0; i < 20; i++) next_call(w);
    if (half) w.guest.half_close();
    const SessionEnd end = w.end();
    CHECK(end.reason == EndReason::kClosed);
    CHECK(end.reusable);
  }
}

TEST(a_session_is_stopped_while_a_function_is_called) {
  World w;
  post(w, 0, 1);
  next_call(w);
  w.session->stop("enough");
  CHECK(w.ended().reason == EndReason::kStopped);
}

TEST(a_session_that_is_stopped_answers_nothing_as_done_that_is_not) {
  for (int i = 0; i < 20; i++) {
    World w;
    post(w, 0, 1);
    const uint64_t waiting = w.guest.ask_synchronize_stream(0);
    next_call(w);
    w.session->stop("enough");
    CHECK(w.ended().reason == EndReason::kStopped);
    bool told = false;
    for (Frame frame = w.guest.next(); !frame.bytes.empty(); frame = w.guest.next()) {
      CHECK(frame.op() != WIRE_REPLY || frame.as<wire_reply>().request != waiting);
      if (frame.op() == WIRE_END) told = true;
    }
    CHECK(told);
  }
}

TEST(a_closed_gate_and_functions) {
  World w;
  QuotaWords &words = World::quota_page().words();
  w.guest.map(World::base(), kGranule);
  w.load_kernels();
  const uint64_t held = stream(w, 1), beside = stream(w, 2);
  w.guest.synchronize();
  words.limit.store(0);
  words.mode.store(kModeBlocks);
  World::quota_page().wake();
  // A function behind a launch that is held comes after it; one in another stream comes at once,
  // and costs nothing.
  w.guest.launch(function_handle(World::kNothing), held, "");
  post(w, held, 1);
  post(w, beside, 2);
  wire_call call = next_call(w);
  CHECK_EQUAL(call.function, 2u);
  done(w, call.call);
  CHECK_EQUAL(w.guest.wait(w.guest.ask_synchronize_stream(beside)).reply.result, CUDA_SUCCESS);
  for (const Frame &frame : w.guest.kept) CHECK(frame.op() != WIRE_CALL);
  words.limit.store(1);
  World::quota_page().wake();
  call = next_call(w);
  CHECK_EQUAL(call.function, 1u);
  // A launch behind a function is held behind it.
  w.guest.launch(function_handle(World::kNothing), held, "");
  const uint64_t waiting = w.guest.ask_synchronize_stream(held);
  done(w, call.call);
  words.limit.store(2);
  World::quota_page().wake();
  CHECK_EQUAL(w.guest.wait(waiting).reply.result, CUDA_SUCCESS);
  CHECK_EQUAL(words.charged.load(), 2u);
  words.limit.store(kNoLimit);
  words.mode.store(kModeOpen);
  World::quota_page().wake();
}

// The time that a function takes is not the device's.
TEST(functions_are_not_measured_with_kernels) {
  World w;
  w.load_kernels();
  const uint64_t held = stream(w, 1);
  const QuotaWords &words = World::quota_page().words();
  w.guest.launch(function_handle(World::kNothing), held, "");
  post(w, held, 1);
  w.guest.launch(function_handle(World::kNothing), held, "");
  const wire_call call = next_call(w);
  done(w, call.call);
  CHECK_EQUAL(w.guest.wait(w.guest.ask_synchronize_stream(held)).reply.result, CUDA_SUCCESS);
  while (words.in_flight_ns.load() != 0) std::this_thread::yield();
  const std::vector<KernelTime> times = w.session->gate().kernel_times(10);
  CHECK_EQUAL(times.size(), 1u);
  CHECK_EQUAL(times[0].launches, 2u);
  CHECK_EQUAL(words.launches.load(), 2u);
}

// A driver may call all functions on one thread: what the session holds for itself holds no thread.
TEST(a_download_that_goes_aside_takes_no_function) {
  World w;
  w.load_kernels();
  const unsigned before = World::fake().calls("cuLaunchHostFunc");
  const uint64_t at = World::base(), size = 70 << 20;
  w.guest.map(at, (size + kGranule - 1) / kGranule * kGranule);
  const uint64_t held = stream(w, 1);
  w.guest.memset32(at, 0x07070707, size / 4, held);
  w.gate(1, held);
  const uint64_t download = w.guest.ask_download(at, size, held);
  w.guest.memset32(at, 0x08080808, size / 4, held);
  CHECK_EQUAL(w.guest.wait(w.guest.ask_synchronize_stream(stream(w, 2))).reply.result,
              CUDA_SUCCESS);
  CHECK_EQUAL(World::fake().calls("cuLaunchHostFunc"), before);
  World::fake().open_gate(1);
  CHECK(w.guest.wait(download).data == std::string(size, 7));
  CHECK(w.guest.download(at, 4, held) == std::string(4, 8));
  CHECK_EQUAL(World::fake().calls("cuLaunchHostFunc"), before);
  CHECK_EQUAL(w.guest.synchronize().result, CUDA_SUCCESS);
}

// ---- misuse ------------------------------------------------------------------------------------

TEST(functions_of_unknown_streams_and_kinds_are_refused) {
  World w;
  post(w, wire_handle(WIRE_KIND_STREAM, 1, 9), 1);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_HANDLE);
  post(w, 0, 1, WIRE_FUNCTION_STEP + 1);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_VALUE);
  post(w, 0, 1, UINT32_MAX);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_VALUE);
}

TEST(returning_from_what_was_not_called_is_a_violation) {
  for (const uint64_t call : {uint64_t{0}, uint64_t{2}, UINT64_MAX}) {
    World w;
    post(w, 0, 1);
    CHECK_EQUAL(next_call(w).call, 1u);
    done(w, call);
    w.expect_violation("not asked for");
  }
}

TEST(returning_twice_is_a_violation) {
  World w;
  post(w, 0, 1);
  const wire_call call = next_call(w);
  done(w, call.call);
  done(w, call.call);
  w.expect_violation("not asked for");
}
