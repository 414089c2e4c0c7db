// How sessions end, and that the next one finds everything clean.
#include <sys/socket.h>

#include "base/error.h"
#include "check.h"
#include "world.h"

using namespace outboard;

namespace {

constexpr uint64_t kGranule = WIRE_GRANULE;

// Another session on the same device works.
void check_next_session() {
  World w;
  w.guest.map(World::base(), kGranule);
  w.guest.upload(World::base(), "fine");
  CHECK_EQUAL(w.guest.download(World::base(), 4), "fine");
}

}  // namespace

TEST(a_guest_that_leaves_without_a_word) {
  {
    World w;
    const SessionEnd end = w.end();
    CHECK(end.reason == EndReason::kClosed);
    CHECK(end.reusable);
  }
  check_next_session();
}

TEST(a_guest_that_dies_in_the_middle_of_a_frame) {
  {
    World w;
    wire_MemoryMap q{};
    q.header = {WIRE_MemoryMap, 0, sizeof q};
    w.guest.send(&q, 20);
    const SessionEnd end = w.end();
    CHECK(end.reason == EndReason::kClosed);
    CHECK_EQUAL(end.message, "the connection ended in the middle of a MemoryMap");
    CHECK(end.reusable);
  }
  {
    World w;
    w.guest.send("abc", 3);
    CHECK_EQUAL(w.end().message, "the connection ended in the middle of a frame");
  }
  check_next_session();
}

TEST(a_guest_that_dies_in_the_middle_of_an_upload) {
  for (size_t sent : {sizeof(wire_Upload), sizeof(wire_Upload) + 1000, size_t{700000}}) {
    World w;
    w.guest.map(World::base(), kGranule);
    wire_Upload q{};
    q.header = {WIRE_Upload, 0, sizeof q + WIRE_BULK_MAX};
    q.destination = World::base();
    q.length = WIRE_BULK_MAX;
    const std::string bytes = packed(q) + pattern(WIRE_BULK_MAX);
    w.guest.send(bytes.data(), sent);
    const SessionEnd end = w.end();
    CHECK(end.reason == EndReason::kClosed);
    CHECK(end.message.find("middle") != std::string::npos);
    CHECK(end.reusable);
  }
  check_next_session();
}

TEST(a_guest_that_dies_while_a_download_is_sent) {
  {
    World w;
    w.guest.map(World::base(), 64 * kGranule);
    w.guest.ask_download(World::base(), 128 << 20);
    w.guest.ask_download(World::base(), 128 << 20);
    CHECK_EQUAL(w.guest.next(WIRE_DATA).op(), WIRE_DATA);
    const SessionEnd end = w.end();
    CHECK(end.reusable);
  }
  check_next_session();
}

TEST(a_guest_that_dies_while_its_threads_wait) {
  {
    World w;
    w.load_kernels();
    const uint64_t stream = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
    const uint64_t event = w.guest.event(1);
    w.gate(1, stream);
    w.guest.record(event, stream);
    w.guest.ask_synchronize_stream(stream);
    w.guest.ask_synchronize();
    wire_cuEventQuery query{};
    query.hEvent = event;
    CHECK_EQUAL(w.guest.call(WIRE_cuEventQuery, query).reply.result, CUDA_ERROR_NOT_READY);
    w.guest.ask_download(World::base(), 0, stream);
    w.guest.close();
    World::fake().open_gate(1);
    const SessionEnd end = w.ended();
    CHECK(end.reason == EndReason::kClosed);
    CHECK(end.reusable);
  }
  check_next_session();
}

TEST(work_that_never_ends_makes_the_device_unusable_not_the_server) {
  {
    WorldOptions options;
    options.patience = std::chrono::milliseconds(50);
    World w(options);
    w.load_kernels();
    const uint64_t stream = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
    w.gate(1, stream);
    w.guest.ask_synchronize_stream(stream);
    const SessionEnd end = w.end();
    CHECK(end.reason == EndReason::kDevice);
    CHECK(!end.reusable);
    CHECK(end.message.find("did not end within") != std::string::npos);
  }
  std::string refused;
  try {
    Session::start(World::device(), {});
  } catch (const Error &error) {
    refused = error.what();
  }
  CHECK(refused.find("beyond repair") != std::string::npos);
}

// Nobody waits as long for it as for a guest that has left by itself.
TEST(a_session_is_stopped_although_its_work_never_ends) {
  WorldOptions options;
  options.stop_patience = std::chrono::milliseconds(50);
  World w(options);
  w.load_kernels();
  const uint64_t stream = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
  w.gate(1, stream);
  w.guest.ask_synchronize_stream(stream);
  World::fake().await_gate(1);
  w.session->stop("enough");
  CHECK_EQUAL(w.guest.next(WIRE_END).as<wire_end>().result, CUDA_ERROR_DEVICE_UNAVAILABLE);
  const SessionEnd end = w.ended();
  CHECK(end.reason == EndReason::kStopped);
  CHECK(!end.reusable);
  CHECK(end.message.find("did not end within") != std::string::npos);
}

// The leader hangs in the driver, and the guest is told all the same.
TEST(a_leader_that_hangs_does_not_keep_the_guest_waiting) {
  WorldOptions options;
  options.stop_patience = std::chrono::milliseconds(50);
  World w(options);
  w.load_kernels();
  w.gate(1, 0);
  w.guest.ask(WIRE_ContextReset, wire_ContextReset{});
  World::fake().await_gate(1);
  w.session->stop("enough");
  const Frame frame = w.guest.next(WIRE_END);
  CHECK_EQUAL(frame.tail<wire_end>(frame.as<wire_end>().length), "enough");
  CHECK(!w.ended().reusable);
}

// The leader itself hangs in the driver: the reaper still notices.
TEST(a_leader_that_hangs_does_not_hide_the_end) {
  WorldOptions options;
  options.patience = std::chrono::milliseconds(50);
  World w(options);
  w.load_kernels();
  w.gate(1, 0);
  w.guest.ask(WIRE_ContextReset, wire_ContextReset{});
  World::fake().await_gate(1);
  const SessionEnd end = w.end();
  CHECK(end.reason == EndReason::kDevice);
  CHECK(!end.reusable);
}

TEST(a_crash_is_reported_and_ends_the_device_not_the_session) {
  World w;
  w.guest.map(World::base(), kGranule);
  w.load_kernels();
  w.guest.launch(function_handle(World::kCrash), 0, "");
  CHECK_EQUAL(w.guest.synchronize().result, CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK_EQUAL(w.guest.synchronize().result, CUDA_ERROR_ILLEGAL_ADDRESS);
  w.guest.launch(function_handle(World::kNothing), 0, "");
  CHECK_EQUAL(w.guest.next(WIRE_FAULT).as<wire_fault>().result, CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK_EQUAL(w.guest.wait(w.guest.ask_download(World::base(), 8)).reply.result,
              CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK_EQUAL(w.guest.wait(w.guest.ask_download(World::base(), kGranule)).reply.result,
              CUDA_ERROR_ILLEGAL_ADDRESS);
  const SessionEnd end = w.end();
  CHECK(end.reason == EndReason::kDevice);
  CHECK(!end.reusable);
}

TEST(memory_that_cannot_be_scrubbed_makes_the_device_unusable) {
  World w;
  w.guest.map(World::base(), kGranule);
  w.guest.upload(World::base(), "secret");
  w.guest.synchronize();
  World::fake().fail("cuMemsetD8Async", CUDA_ERROR_UNKNOWN, 0);
  const SessionEnd end = w.end();
  CHECK(end.reason == EndReason::kDevice);
  CHECK(!end.reusable);
  CHECK_EQUAL(World::fake().dirty_releases(), 0u);  // it goes with the process
}

TEST(memory_that_cannot_be_scrubbed_is_nobody_elses) {
  World w;
  w.guest.map(World::base(), 2 * kGranule);
  w.guest.upload(World::base(), "secret");
  w.guest.synchronize();
  World::fake().fail("cuMemsetD8Async", CUDA_ERROR_UNKNOWN, 0);
  w.guest.unmap(World::base(), 2 * kGranule);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_UNKNOWN);
  w.guest.map(World::base() + 4 * kGranule, kGranule);
  w.guest.unmap(World::base() + 4 * kGranule, kGranule);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_SUCCESS);
  const SessionEnd end = w.end();
  CHECK(end.reason == EndReason::kDevice);
  CHECK(!end.reusable);
  CHECK_EQUAL(World::fake().dirty_releases(), 0u);
}

// As after kernels that print, or that use the heap. It is nobody's fault.
TEST(limits_that_cannot_be_put_back_need_a_new_process) {
  World w;
  w.guest.synchronize();
  World::fake().fail("cuCtxSetLimit", CUDA_ERROR_INVALID_VALUE, 0);
  const SessionEnd end = w.end();
  CHECK(end.reason == EndReason::kClosed);
  CHECK(guest_went(end));
  CHECK(!end.reusable);
}

TEST(a_connection_that_was_reset_is_not_said_to_be_closed) {
  {
    World w;
    w.guest.half_close();
    CHECK_EQUAL(w.ended().message, "the guest closed the connection");
  }
  World w;
  w.guest.ask_synchronize();
  w.guest.await_unread();
  const SessionEnd end = w.end();
  CHECK(end.reason == EndReason::kClosed);
  CHECK(end.message.starts_with("the guest's connection was reset: "));
  CHECK(end.reusable);
}

// It ends with answers unread, as any program may.
TEST(who_has_said_goodbye_has_closed_the_connection) {
  World w;
  w.guest.put(WIRE_Goodbye, wire_Goodbye{});
  w.guest.ask_synchronize();
  w.guest.await_unread();
  CHECK_EQUAL(w.end().message, "the guest closed the connection");
}

TEST(a_session_that_is_stopped_says_why) {
  {
    World w;
    w.load_kernels();
    const uint64_t stream = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
    w.gate(1, stream);
    w.guest.ask_synchronize_stream(stream);
    World::fake().await_gate(1);
    w.session->stop("this machine is being serviced");
    const Frame frame = w.guest.next(WIRE_END);
    CHECK_EQUAL(frame.tail<wire_end>(frame.as<wire_end>().length),
                "this machine is being serviced");
    CHECK_EQUAL(frame.as<wire_end>().result, CUDA_ERROR_DEVICE_UNAVAILABLE);
    World::fake().open_gate(1);
    const SessionEnd end = w.ended();
    CHECK(end.reason == EndReason::kStopped);
    CHECK(end.reusable);
  }
  check_next_session();
}

TEST(a_session_is_stopped_although_its_guest_takes_nothing) {
  World w;
  w.guest.map(World::base(), 64 * kGranule);
  w.guest.ask_download(World::base(), 128 << 20);
  while (w.session->counters()->downloads.load() == 0) std::this_thread::yield();
  w.session->stop("enough");
  const SessionEnd end = w.ended();
  CHECK(end.reason == EndReason::kStopped);
  CHECK(end.reusable);
}

// What went through pinned memory is gone with its session.
TEST(pinned_memory_is_overwritten_between_sessions) {
  {
    World w;
    w.guest.map(World::base(), 2 * kGranule);
    const std::string secret = pattern(3 << 20);
    w.guest.upload(World::base(), secret.substr(0, 700000));
    w.guest.upload(World::base() + 700000, secret.substr(700000, 900000));
    for (size_t length : {size_t{100}, size_t{1600000}}) {
      CHECK(w.guest.download(World::base(), length) == secret.substr(0, length));
    }
  }
  for (Staging *staging :
       {&World::device()->upload_chunks(), &World::device()->download_chunks()}) {
    std::vector<Chunk *> chunks;
    const unsigned ready = World::fake().live().pinned / 2;
    for (unsigned i = 0; i < std::min(ready, 8u); i++) chunks.push_back(staging->try_take());
    for (const Chunk *chunk : chunks) {
      CHECK(chunk != nullptr);
      for (size_t i = 0; i < Chunk::kRoom; i++) CHECK_EQUAL(chunk->data[i], 0);
    }
    for (Chunk *chunk : chunks) staging->give(chunk);
  }
}

// The device's memory, as a guest sees it that looks everywhere.
TEST(memory_comes_empty_whatever_was_in_it) {
  {
    World w;
    w.guest.map(World::base(), 4 * kGranule);
    w.guest.memset32(World::base(), 0x5ec2e75e, 4 * kGranule / 4);
    w.guest.synchronize();
  }
  World w;
  w.guest.map(World::base() + kGranule, 4 * kGranule);
  const std::string seen = w.guest.download(World::base() + kGranule, 4 * kGranule);
  CHECK(seen == std::string(4 * kGranule, '\0'));
  // Nor again, within the session.
  w.guest.memset32(World::base() + kGranule, 0x5ec2e75e, kGranule);
  w.guest.unmap(World::base() + kGranule, 4 * kGranule);
  w.guest.map(World::base() + kGranule, 4 * kGranule);
  CHECK(w.guest.download(World::base() + kGranule, 4 * kGranule) == seen);
}

TEST(one_session_at_a_time) {
  World w;
  w.guest.synchronize();
  int fds[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
  SessionOptions options;
  options.fd = fds[0];
  std::string refused;
  try {
    Session::start(World::device(), std::move(options));
  } catch (const Error &error) {
    refused = error.what();
  }
  CHECK(refused.find("already serves") != std::string::npos);
  CHECK_EQUAL(w.guest.synchronize().result, CUDA_SUCCESS);
}
