// Connections that are cut, and that are kept over cuts, of sessions that move (docs/moving.md).
#include <dirent.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/local_socket.h"
#include "check.h"
#include "kept_bytes.h"
#include "move_target.h"
#include "wire/reconnection.h"
#include "world.h"

using namespace outboard;

namespace {

constexpr std::chrono::seconds kGrace{20};

WorldOptions kept_over_cuts() {
  WorldOptions options;
  options.grace = kGrace;
  return options;
}

// What is told of a guest that is cut off.
class AwayLog {
 public:
  WorldOptions options() {
    WorldOptions options = kept_over_cuts();
    options.on_away = [this](const std::optional<Away> &away) {
      std::lock_guard lock(mutex_);
      told_.push_back(away);
      changed_.notify_all();
    };
    return options;
  }
  // The first that was not asked for yet.
  std::optional<Away> next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return asked_ < told_.size(); });
    return told_[asked_++];
  }
  bool none() {
    std::lock_guard lock(mutex_);
    return asked_ == told_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::optional<Away>> told_;
  size_t asked_ = 0;
};

std::string receive(int fd, size_t size) {
  std::string bytes(size, 0);
  if (size == 0) return bytes;  // recv would wait for something
  CHECK_EQUAL(recv(fd, bytes.data(), size, MSG_WAITALL), ssize_t(size));
  return bytes;
}

// How a guest that has come back is answered.
void expect_resumed(int fd, uint64_t received) {
  const Reconnection::Answer wanted = resumed_answer(received);
  const std::string got = receive(fd, wanted.size());
  CHECK(std::equal(got.begin(), got.end(), reinterpret_cast<const char *>(wanted.data())));
}

void expect_closed(int fd) {
  char byte;
  CHECK_EQUAL(recv(fd, &byte, 1, 0), 0);
  close(fd);
}

wire_moved_stream stream_of(Target &target) {
  wire_moved_stream stream{};
  CHECK_EQUAL(target.states[WIRE_MOVE_STREAM].size(), 1u);
  const std::string &bytes = target.states[WIRE_MOVE_STREAM].front();
  CHECK_EQUAL(bytes.size(), sizeof stream);
  memcpy(&stream, bytes.data(), sizeof stream);
  return stream;
}

std::string kept_of(Target &target) {
  std::string all;
  for (const std::string &piece : target.states[WIRE_MOVE_KEPT]) {
    wire_moved_kept head;
    CHECK(piece.size() > sizeof head);
    memcpy(&head, piece.data(), sizeof head);
    CHECK_EQUAL(head.from, all.size());
    all += piece.substr(sizeof head);
  }
  return all;
}

std::vector<uint8_t> load_begins(Target &target) {
  CHECK(target.take_connection());
  const std::vector<uint8_t> load = target.next();
  wire_header head;
  memcpy(&head, load.data(), sizeof head);
  CHECK_EQUAL(head.op, WIRE_ModuleOpen);
  return load;
}

// Answers all, and the commit with the result.
void commits(Target &target, int32_t result = CUDA_SUCCESS) {
  const std::vector<uint8_t> commit = target.serve_until_commit();
  CHECK(!commit.empty());
  target.answer(commit, result);
}

}  // namespace

// ---- a session that stays ----------------------------------------------------------------------

TEST(it_is_told_who_is_away) {
  AwayLog told;
  World w(told.options());
  CHECK_EQUAL(w.guest.call(WIRE_Echo, wire_Echo{}).reply.result, CUDA_SUCCESS);
  CHECK(told.none());
  w.guest.close();
  for (uint32_t epoch = 1; epoch <= 2; epoch++) {
    const std::optional<Away> away = told.next();
    CHECK(away && away->left <= std::chrono::seconds(5));
    const int fresh = w.come_back(0, epoch);
    expect_resumed(fresh, sizeof(wire_Echo));
    CHECK(!told.next());
    close(fresh);
  }
  CHECK(told.next().has_value());
  w.session->goodbye();
  CHECK(w.ended().reason == EndReason::kClosed);
  CHECK(told.none());
}

TEST(silence_is_told_to_who_has_seen_the_end_before) {
  int fds[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
  Reconnection reconnection(fds[0], kGrace);
  std::promise<bool> told;
  reconnection.on_silence([&] { told.set_value(reconnection.silent()); });
  bool interrupted = false;
  std::thread reads([&] { CHECK(!reconnection.await(0, ETIMEDOUT, nullptr, &interrupted)); });
  CHECK(told.get_future().get());
  reconnection.give_up();
  reads.join();
  close(fds[0]);
  close(fds[1]);
}

// ---- a session that goes -----------------------------------------------------------------------

TEST(what_was_sent_goes_along) {
  World w(kept_over_cuts());
  w.guest.ask(WIRE_Echo, wire_Echo{});
  std::string got = receive(w.source_fd, sizeof(wire_Echo_reply));
  Target target(w);
  CHECK(target.take_connection());
  commits(target);
  CHECK(target.told.get_future().get().moved);
  const wire_moved_stream stream = stream_of(target);
  CHECK_EQUAL(stream.received, sizeof(wire_Echo));
  CHECK_EQUAL(stream.flags, 0u);
  CHECK_EQUAL(stream.epoch, 0u);
  CHECK_EQUAL(stream.away_ms, 0u);
  got += receive(w.source_fd, stream.sent - got.size());
  CHECK(kept_of(target) == got);
  CHECK(w.ended().reason == EndReason::kMoved);
}

TEST(the_connection_that_goes_along_is_the_last_one) {
  World w(kept_over_cuts());
  CHECK_EQUAL(w.guest.load(module_handle(1), Guest::image("kernel nothing\n")).reply.result,
              CUDA_SUCCESS);
  Target target(w);
  const std::vector<uint8_t> load = load_begins(target);
  const int fresh = w.come_back(0, 2);
  expect_resumed(fresh, w.session->counters()->bytes_in.load());
  wire_ModuleOpen_reply loaded{};
  loaded.state = WIRE_MODULE_LOADED;
  target.answer(load, CUDA_SUCCESS, loaded);
  commits(target);
  CHECK(target.told.get_future().get().moved);
  CHECK_EQUAL(stream_of(target).epoch, 2u);
  CHECK(w.ended().reason == EndReason::kMoved);
  const std::string asked = "a question";
  CHECK_EQUAL(send(fresh, asked.data(), asked.size(), 0), ssize_t(asked.size()));
  CHECK(receive(target.connection, asked.size()) == asked);
  close(fresh);
}

TEST(a_session_goes_while_its_guest_is_away) {
  World w(kept_over_cuts());
  CHECK_EQUAL(w.guest.call(WIRE_Echo, wire_Echo{}).reply.result, CUDA_SUCCESS);
  w.guest.close();
  Target target(w);
  CHECK(target.take_connection());
  commits(target);
  CHECK(target.told.get_future().get().moved);
  CHECK_EQUAL(stream_of(target).received, sizeof(wire_Echo));
  CHECK(w.ended().reason == EndReason::kMoved);
}

TEST(who_comes_back_while_it_goes_is_sent_away_or_taken) {
  for (const bool moves : {true, false}) {
    World w(kept_over_cuts());
    CHECK_EQUAL(w.guest.call(WIRE_Echo, wire_Echo{}).reply.result, CUDA_SUCCESS);
    Target target(w);
    CHECK(target.take_connection());
    const std::vector<uint8_t> commit = target.serve_until_commit();
    CHECK(!commit.empty());
    const int fresh = w.come_back(0, 1);
    target.answer(commit, moves ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQUAL(target.told.get_future().get().moved, moves);
    if (moves) {
      expect_closed(fresh);
      CHECK(w.ended().reason == EndReason::kMoved);
    } else {
      expect_resumed(fresh, sizeof(wire_Echo));
      close(fresh);
      w.session->goodbye();
      CHECK(w.end().reason == EndReason::kClosed);
    }
  }
}

TEST(in_the_middle_of_a_command_it_waits_for_its_guest) {
  WorldOptions options = kept_over_cuts();
  options.rest_patience = std::chrono::milliseconds(100);
  World w(options);
  w.guest.map(World::base(), WIRE_GRANULE);
  w.guest.synchronize();
  wire_Upload q{};
  q.header = {WIRE_Upload, 0, sizeof q + 4096};
  q.destination = World::base();
  q.length = 4096;
  w.guest.send(&q, sizeof q);
  w.guest.close();
  Target target(w);
  CHECK(target.take_connection());
  const Told told = target.serve_until_told();
  CHECK_EQUAL(told.why, "its guest is away, in the middle of a command: its connection was cut");
  w.session->goodbye();
  CHECK(w.ended().reason == EndReason::kClosed);
}

// ---- a session that comes ----------------------------------------------------------------------

namespace {

// What a session brings whose guest has been sent `sent` bytes.
struct Coming {
  explicit Coming(WorldOptions options = kept_over_cuts()) : w(arriving(std::move(options))) {
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    const char carrier = 0;
    CHECK(send_message(w.source_fd, &carrier, 1, fds[0]));
  }
  ~Coming() {
    close_fd(fds[0]);
    close_fd(fds[1]);
  }
  static WorldOptions arriving(WorldOptions options) {
    options.arrives = true;
    return options;
  }
  void state(uint32_t kind, const std::string &bytes, int descriptor = -1) {
    wire_MoveState q{};
    q.header.op = WIRE_MoveState;
    q.kind = kind;
    q.length = bytes.size();
    std::string frame(sizeof q, 0);
    frame += bytes;
    frame.resize((frame.size() + 7) & ~size_t{7});
    q.header.size = static_cast<uint32_t>(frame.size());
    memcpy(frame.data(), &q, sizeof q);
    // What was sent before may have ended the session.
    send_message(w.source_fd, frame.data(), frame.size(), descriptor);
  }
  void kept(uint64_t from, const std::string &bytes) {
    const wire_moved_kept head{from};
    state(WIRE_MOVE_KEPT, packed(head) + bytes);
  }
  void stream(const wire_moved_stream &stream) { state(WIRE_MOVE_STREAM, packed(stream), fds[0]); }
  // It is here then, and its guest has no other connection than fds[1].
  void commit() {
    CHECK_EQUAL(w.guest.call(WIRE_MoveCommit, wire_MoveCommit{}).reply.result, CUDA_SUCCESS);
    close_fd(std::exchange(fds[0], -1));
  }
  World w;
  int fds[2];
};

wire_moved_stream stream(uint64_t received, uint64_t sent, uint32_t epoch = 0) {
  wire_moved_stream stream{};
  stream.received = received;
  stream.sent = sent;
  stream.epoch = epoch;
  return stream;
}

}  // namespace

TEST(a_session_comes_with_its_stream) {
  Coming coming;
  World &w = coming.w;
  wire_Echo echo{};
  echo.request = {{WIRE_Echo, 0, sizeof echo}, 77};
  const std::string question = packed(echo), sent = pattern(3000);
  coming.kept(0, sent.substr(0, 1200));
  coming.kept(1200, sent.substr(1200));
  coming.state(WIRE_MOVE_UNREAD, question.substr(0, 5));
  coming.stream(stream(105, 3000, 4));
  coming.commit();
  CHECK_EQUAL(send(coming.fds[1], question.data() + 5, question.size() - 5, 0),
              ssize_t(question.size() - 5));
  const std::string reply = receive(coming.fds[1], sizeof(wire_Echo_reply));
  close_fd(std::exchange(coming.fds[1], -1));
  expect_closed(w.come_back(1000, 4));
  const int fresh = w.come_back(1000, 5);
  expect_resumed(fresh, 105 + question.size() - 5);
  CHECK(receive(fresh, 2000) == sent.substr(1000));
  CHECK(receive(fresh, reply.size()) == reply);
  const wire_header goodbye = {WIRE_Goodbye, 0, sizeof goodbye};
  CHECK_EQUAL(send(fresh, &goodbye, sizeof goodbye, 0), ssize_t(sizeof goodbye));
  close(fresh);
  CHECK(w.ended().reason == EndReason::kClosed);
}

// More was sent than is kept, and while it was copied even more.
TEST(of_a_long_stream_the_last_part_comes) {
  constexpr size_t kPart = (1 << 20) - sizeof(wire_moved_kept);
  constexpr uint64_t kSent = uint64_t{5} << 32;
  Coming coming;
  coming.kept(7, pattern(kPart));
  const std::string part = pattern(kPart, 2);
  for (uint64_t from = kSent - KEPT_BYTES; from < kSent;) {
    const size_t size = std::min<uint64_t>(kPart, kSent - from);
    coming.kept(from, part.substr(0, size));
    from += size;
  }
  coming.stream(stream(0, kSent));
  coming.commit();
  close_fd(std::exchange(coming.fds[1], -1));
  const int fresh = coming.w.come_back(kSent - KEPT_BYTES, 1);
  expect_resumed(fresh, 0);
  CHECK(receive(fresh, kPart) == part);
  coming.w.session->goodbye();
  close(fresh);
  CHECK(coming.w.ended().reason == EndReason::kClosed);
}

TEST(what_was_kept_only_is_sent_when_the_guest_is_back) {
  Coming coming;
  const std::string sent = pattern(3000);
  coming.kept(0, sent);
  wire_moved_stream cut = stream(0, 3000, 1);
  cut.flags = WIRE_STREAM_CUT;
  cut.cut_at = 2000;
  cut.away_ms = 1;
  coming.stream(cut);
  close_fd(std::exchange(coming.fds[1], -1));
  coming.commit();
  const int fresh = coming.w.come_back(2000, 2);
  expect_resumed(fresh, 0);
  CHECK(receive(fresh, 1000) == sent.substr(2000));
  coming.w.session->goodbye();
  close(fresh);
  CHECK(coming.w.ended().reason == EndReason::kClosed);
}

TEST(who_was_away_is_so_where_the_session_comes) {
  for (const bool silent : {true, false}) {
    AwayLog told;
    Coming coming(told.options());
    wire_moved_stream away = stream(0, 0, 1);
    away.flags = silent ? WIRE_STREAM_SILENT : 0;
    away.away_ms = 1000;
    coming.stream(away);
    close_fd(std::exchange(coming.fds[1], -1));
    coming.commit();
    const std::optional<Away> so = told.next();
    CHECK(so && so->passed >= std::chrono::seconds(1));
    const std::chrono::seconds whole = silent ? kGrace : std::chrono::seconds(5);
    CHECK(so->passed + so->left >= whole);
    CHECK(so->left <= whole - std::chrono::seconds(1));
    const int fresh = coming.w.come_back(0, 2);
    expect_resumed(fresh, 0);
    CHECK(!told.next());
    coming.w.session->goodbye();
    close(fresh);
    CHECK(coming.w.ended().reason == EndReason::kClosed);
  }
}

TEST(who_is_there_is_not_away_where_the_session_comes) {
  AwayLog told;
  Coming coming(told.options());
  wire_moved_stream was_away = stream(0, 0, 1);
  was_away.away_ms = 1000;
  coming.stream(was_away);
  coming.commit();
  wire_Echo echo{};
  echo.request = {{WIRE_Echo, 0, sizeof echo}, 77};
  CHECK_EQUAL(send(coming.fds[1], &echo, sizeof echo, 0), ssize_t(sizeof echo));
  receive(coming.fds[1], sizeof(wire_Echo_reply));
  CHECK(told.none());
  coming.w.session->goodbye();
  close_fd(std::exchange(coming.fds[1], -1));
  CHECK(coming.w.ended().reason == EndReason::kClosed);
}

TEST(a_guest_is_not_away_for_longer_because_its_session_moves) {
  Coming coming;
  wire_moved_stream away = stream(0, 0, 1);
  away.flags = WIRE_STREAM_SILENT;
  away.away_ms = UINT64_MAX;
  coming.stream(away);
  close_fd(std::exchange(coming.fds[1], -1));
  coming.commit();
  const SessionEnd end = coming.w.ended();
  CHECK(end.message.find("it has not come back in time") != end.message.npos);
}

TEST(streams_without_sense_are_violations) {
  const std::string some = pattern(100);
  wire_moved_stream beyond = stream(0, 100);
  beyond.flags = WIRE_STREAM_CUT;
  beyond.cut_at = 101;
  const std::function<void(Coming &)> wrong[] = {
      [](Coming &) {},
      [&](Coming &c) { c.kept(0, some); },
      [&](Coming &c) { c.stream(stream(0, 100)); },
      [&](Coming &c) { c.kept(0, some), c.stream(stream(0, 99)); },
      [&](Coming &c) { c.kept(0, some), c.stream(stream(0, 101)); },
      [&](Coming &c) { c.kept(1, some), c.stream(stream(0, 101)); },
      [&](Coming &c) { c.kept(0, some), c.kept(200, some), c.stream(stream(0, 300)); },
      [&](Coming &c) { c.kept(0, some), c.kept(99, some), c.stream(stream(0, 199)); },
      [&](Coming &c) { c.kept(UINT64_MAX - 10, some); },
      [&](Coming &c) { c.state(WIRE_MOVE_KEPT, some.substr(0, 8)); },
      [&](Coming &c) { c.kept(0, some), c.stream(beyond); },
      [&](Coming &c) { c.state(WIRE_MOVE_UNREAD, some), c.stream(stream(99, 0)); },
      [&](Coming &c) { c.state(WIRE_MOVE_TLS, some), c.stream(stream(0, 0)); },
      [&](Coming &c) { c.state(WIRE_MOVE_STREAM, packed(stream(0, 0))); },
      [&](Coming &c) { c.state(WIRE_MOVE_STREAM, some, c.fds[0]); },
      [&](Coming &c) { c.stream(stream(0, 0)), c.stream(stream(0, 0)); },
      [&](Coming &c) { c.stream(stream(0, 0)), c.kept(0, some); },
  };
  for (const auto &say : wrong) {
    Coming coming;
    say(coming);
    coming.w.guest.ask(WIRE_MoveCommit, wire_MoveCommit{});
    coming.w.expect_violation("");
  }
  // Where nothing is kept over cuts, none comes.
  for (const bool bytes : {false, true}) {
    Coming coming{WorldOptions()};
    if (bytes)
      coming.kept(0, some);
    else
      coming.stream(stream(0, 0));
    coming.w.expect_violation("makes no sense");
  }
}

namespace {

size_t descriptors() {
  DIR *folder = opendir("/proc/self/fd");
  CHECK(folder);
  size_t count = 0;
  while (readdir(folder)) count++;
  closedir(folder);
  return count;
}

}  // namespace

TEST(of_two_descriptors_none_stays_open) {
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  const size_t before = descriptors();
  const int two[2] = {ends[0], ends[1]};
  alignas(cmsghdr) char beside[CMSG_SPACE(sizeof two)] = {};
  char byte = 0;
  iovec part{&byte, 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = beside;
  message.msg_controllen = sizeof beside;
  cmsghdr *head = CMSG_FIRSTHDR(&message);
  *head = {CMSG_LEN(sizeof two), SOL_SOCKET, SCM_RIGHTS};
  memcpy(CMSG_DATA(head), two, sizeof two);
  CHECK_EQUAL(sendmsg(ends[0], &message, 0), 1);
  int came = -1;
  CHECK_EQUAL(receive_some(ends[1], &byte, 1, &came), 1);
  close_fd(came);
  CHECK_EQUAL(descriptors(), before);
  close(ends[0]);
  close(ends[1]);
}
