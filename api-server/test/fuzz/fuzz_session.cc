#include "fuzz_session.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/local_socket.h"
#include "base/log.h"
#include "copies/region.h"
#include "fake_driver.h"
#include "frame_walk.h"
#include "wire/reconnection.h"
#include "world.h"

using namespace outboard;

const char *const kExpectedText = "kernel expected 8\nglobal told 64\n";

namespace {

using Words = std::array<uint64_t, 8>;

struct Names {
  Words memory, event, peer;
};

constexpr char kTenant[] = "a";
constexpr uint64_t kGroup = 9;

void require(bool condition, const char *what) {
  if (condition) return;
  fprintf(stderr, "session.fuzz: %s\n", what);
  abort();
}

template <class Reply>
Words words_of(const Answer &answer) {
  require(answer.reply.result == CUDA_SUCCESS, "the other session refused");
  Words words;
  memcpy(words.data(), &answer.frame.as<Reply>().name0, sizeof words);
  return words;
}

// In a process of its own, as another GPU's session of the program is; it lives as long as this
// one.
class OtherProcess {
 public:
  OtherProcess() {
    int there[2], back[2];
    require(pipe(there) == 0 && pipe(back) == 0, "no pipe");
    if (fork() == 0) {
      close(there[0]);
      close(back[1]);
      serve(there[1], back[0]);
    }
    close(there[1]);
    close(back[0]);
    require(read(there[0], &names, sizeof names) == sizeof names, "the other process has ended");
    close(there[0]);
    alive_ = back[1];
  }

  Names names;

 private:
  [[noreturn]] static void serve(int say, int hear) {
    {
      WorldOptions options;
      options.tenant = kTenant;
      options.group = kGroup;
      World w(std::move(options));
      const uint64_t base = World::base();
      w.guest.map(base, WIRE_GRANULE);
      wire_MemoryExport memory{};
      memory.address = base;
      memory.size = memory.length = WIRE_GRANULE;
      const uint64_t event = wire_handle(WIRE_KIND_EVENT, 1, 1);
      wire_cuEventCreate create{};
      create.phEvent = event;
      create.Flags = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;
      w.guest.put(WIRE_cuEventCreate, create);
      wire_EventExport exported{};
      exported.event = event;
      Names names;
      names.memory = words_of<wire_MemoryExport_reply>(w.guest.call(WIRE_MemoryExport, memory));
      names.event = words_of<wire_EventExport_reply>(w.guest.call(WIRE_EventExport, exported));
      names.peer = words_of<wire_PeerOffer_reply>(w.guest.call(WIRE_PeerOffer, wire_PeerOffer{}));
      uint64_t at = base + kLentGranule * WIRE_GRANULE;
      for (uint64_t loan = 1; loan <= kLoans; loan++) {
        wire_PeerLend lend{};
        lend.address = at;
        lend.size = loan * WIRE_GRANULE;
        lend.loan = loan;
        w.guest.map(lend.address, lend.size);
        w.guest.put(WIRE_PeerLend, lend);
        at += lend.size;
      }
      w.guest.synchronize();
      require(write(say, &names, sizeof names) == sizeof names, "nobody wants the names");
      char end;
      while (read(hear, &end, 1) > 0) {
      }
    }
    _exit(0);
  }

  int alive_;
};

// Where an input names the other process, puts in what that said.
void put_names(std::vector<uint8_t> &input, const Names &names) {
  walk_frames(input.data(), input.size(), [&](const wire_header &header, size_t at) {
    size_t place = 0;
    if (header.op == WIRE_MemoryImport) place = offsetof(wire_MemoryImport, name0);
    if (header.op == WIRE_ShareCheck) place = offsetof(wire_ShareCheck, name0);
    if (header.op == WIRE_EventImport) place = offsetof(wire_EventImport, name0);
    if (header.op == WIRE_PeerJoin) place = offsetof(wire_PeerJoin, name0);
    if (!place || header.size < place + sizeof(Words)) return true;
    uint64_t first;
    memcpy(&first, input.data() + at + place, sizeof first);
    const Words *words = first == kStandInMemory  ? &names.memory
                         : first == kStandInEvent ? &names.event
                         : first == kStandInPeer  ? &names.peer
                                                  : nullptr;
    if (words) memcpy(input.data() + at + place, words->data(), sizeof *words);
    return true;
  });
}

// What the session says, as far as a guest would wait for it: calls of its functions, and that an
// expected module is there.
class Replies {
 public:
  explicit Replies(std::chrono::milliseconds patience) : patience_(patience) {}
  void read(int fd) {
    std::string bytes(4096, '\0');
    size_t filled = 0, skip = 0;
    ssize_t got;
    while ((got = recv(fd, bytes.data() + filled, bytes.size() - filled, 0)) > 0) {
      filled += static_cast<size_t>(got);
      size_t at = 0;
      while (true) {
        const size_t skipped = std::min(skip, filled - at);
        at += skipped;
        skip -= skipped;
        wire_header header;
        if (filled - at < sizeof header) break;
        memcpy(&header, bytes.data() + at, sizeof header);
        if (header.op == WIRE_CALL) {
          wire_call call;
          if (filled - at < sizeof call) break;
          memcpy(&call, bytes.data() + at, sizeof call);
          note([&] { last_call_ = call.call; });
        }
        if (header.op == WIRE_REPLY) {
          wire_reply reply;
          if (filled - at < sizeof reply) break;
          memcpy(&reply, bytes.data() + at, sizeof reply);
          if (reply.request >= WIRE_EXPECTED) note([&] { told_ = true; });
        }
        skip = header.size;
      }
      memmove(bytes.data(), bytes.data() + at, filled - at);
      filled -= at;
    }
    note([&] { over_ = true; });
  }
  // Until the guest has been asked for what the frame is about, or has waited long enough for what
  // may never come.
  void await(const wire_HostFunctionDone &done) {
    await([&] { return last_call_ >= done.call; });
  }
  void await(const wire_ModuleTake &) {
    await([&] { return told_; });
  }

 private:
  template <class Note>
  void note(Note what) {
    const std::lock_guard<std::mutex> lock(mutex_);
    what();
    changed_.notify_all();
  }
  template <class There>
  void await(There there) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, patience_, [&] { return over_ || there(); });
  }
  const std::chrono::milliseconds patience_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t last_call_ = 0;
  bool told_ = false, over_ = false;
};

// Whether it is what a session brings that is kept over cuts.
bool is_kept(const wire_MoveState &state) {
  return state.kind == WIRE_MOVE_KEPT || state.kind == WIRE_MOVE_STREAM;
}

template <class Frame>
Frame frame_at(const std::vector<uint8_t> &input, const wire_header &header, size_t at) {
  Frame frame{};
  memcpy(&frame, input.data() + at, std::min<size_t>(sizeof frame, header.size));
  return frame;
}

// The stream that a session brings which moves here: it is taken once.
std::optional<wire_moved_stream> stream_of(const std::vector<uint8_t> &input) {
  std::optional<wire_moved_stream> stream;
  walk_frames(input.data(), input.size(), [&](const wire_header &header, size_t at) {
    constexpr size_t kHead = sizeof(wire_MoveState);
    if (header.op != WIRE_MoveState || header.size < kHead + sizeof *stream ||
        frame_at<wire_MoveState>(input, header, at).kind != WIRE_MOVE_STREAM)
      return true;
    stream.emplace();
    memcpy(&*stream, input.data() + at + kHead, sizeof *stream);
    return false;
  });
  return stream;
}

// The guest of a session that has moved here comes back after a cut, reads all that it lacks, and
// says goodbye.
void come_back(Session &session, const wire_moved_stream &stream) {
  int fds[2];
  require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0, "no socket pair");
  // It has what was not kept only.
  if (!session.resume(fds[1], stream.cut_at, stream.epoch + 1)) close(fds[1]);
  const Reconnection::Answer wanted = resumed_answer(stream.received);
  Reconnection::Answer answer;
  if (recv(fds[0], answer.data(), answer.size(), MSG_WAITALL) == ssize_t(answer.size())) {
    require(answer == wanted, "the guest is told another number of bytes");
    uint8_t bytes[4096];
    uint64_t lacks = stream.sent - stream.cut_at;
    while (lacks > 0) {
      const ssize_t got = recv(fds[0], bytes, std::min<uint64_t>(lacks, sizeof bytes), 0);
      require(got > 0, "the guest is not sent what it lacks");
      lacks -= static_cast<uint64_t>(got);
    }
  }
  session.goodbye();
  close(fds[0]);
}

// Memory as a server shares with a guest.
int region() {
  const int fd = memfd_create("region", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  constexpr size_t kSize = (Region::kUploads + Region::kDownloads) * Region::kSlot;
  require(fd >= 0 && ftruncate(fd, kSize) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0,
          "no memory to share");
  return fd;
}

// What answers the session is sent when that has asked. With the stream of one that moves here its
// guest's connection goes along.
void send_input(const std::vector<uint8_t> &input, int fd, Replies &replies, int connection) {
  size_t sent = 0;
  const auto send_to = [&](size_t end) {
    while (sent < end) {
      const ssize_t got = send(fd, input.data() + sent, end - sent, MSG_NOSIGNAL);
      if (got <= 0) return false;
      sent += static_cast<size_t>(got);
    }
    return true;
  };
  bool open = true;
  walk_frames(input.data(), input.size(), [&](const wire_header &header, size_t at) {
    const auto await = [&](auto frame) {
      if (header.size != sizeof frame) return true;
      memcpy(&frame, input.data() + at, sizeof frame);
      if (!send_to(at)) return false;
      replies.await(frame);
      return true;
    };
    if (header.op == WIRE_MoveState) {
      const uint32_t kind = frame_at<wire_MoveState>(input, header, at).kind;
      const int along = kind == WIRE_MOVE_STREAM   ? connection
                        : kind == WIRE_MOVE_REGION ? region()
                                                   : -1;
      if (along >= 0) {
        open = send_to(at) && send_message(fd, input.data() + at, header.size, along);
        sent = at + header.size;
      }
      if (kind == WIRE_MOVE_REGION) close_fd(along);
    }
    if (header.op == WIRE_HostFunctionDone) open = await(wire_HostFunctionDone{});
    if (header.op == WIRE_ModuleTake) open = await(wire_ModuleTake{});
    return open;
  });
  if (open) send_to(input.size());
}

// A session that loads it leaves it in the device's store.
ExpectedModule expected_module() {
  // For the same tenant: others do not hear that it is there.
  WorldOptions options;
  options.tenant = kTenant;
  World w(std::move(options));
  const std::string image = Guest::image(kExpectedText);
  require(w.guest.load(module_handle(1), image).reply.result == CUDA_SUCCESS,
          "the expected module cannot be loaded");
  const wire_ModuleLoad load = w.guest.load_command(module_handle(1), image);
  return {{load.hash0, load.hash1, load.hash2, load.hash3}, image.size()};
}

}  // namespace

SessionEnd serve_input(const uint8_t *data, size_t size, std::chrono::milliseconds patience) {
  static OtherProcess other;  // before there are threads
  const std::shared_ptr<Device> device = World::device();
  static const ExpectedModule expected = expected_module();
  log_threshold(LogLevel::kError);
  const FakeControls &fake = World::fake();
  fake.reset();
  fake.tame();
  fake.set_memory(uint64_t{128} << 20);

  std::vector<uint8_t> input(data, data + size);
  put_names(input, other.names);

  int fds[2];
  require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0, "no socket pair");
  std::promise<SessionEnd> over;
  std::promise<bool> here;  // whether a session that moves here has arrived
  std::once_flag told;
  SessionOptions options;
  options.fd = fds[1];
  options.memory_limit = uint64_t{64} << 20;
  options.patience = std::chrono::minutes(1);
  options.upload_cache = true;
  options.tenant = kTenant;
  options.group = kGroup;
  options.expected = {expected};
  options.on_arrived = [&] { std::call_once(told, [&] { here.set_value(true); }); };
  options.on_end = [&](const SessionEnd &end) {
    std::call_once(told, [&] { here.set_value(false); });
    over.set_value(end);
  };
  // Commands that only a session sends that moves here from another process.
  walk_frames(input.data(), input.size(), [&](const wire_header &header, size_t at) {
    if (header.op == WIRE_MoveState && is_kept(frame_at<wire_MoveState>(input, header, at)))
      options.grace = std::chrono::minutes(1);
    options.arrives = options.arrives || header.op == WIRE_ModuleExpect ||
                      header.op == WIRE_MoveState || header.op == WIRE_MoveCommit;
    return true;
  });
  int guest[2] = {-1, -1};
  if (options.arrives) {
    options.expected.clear();  // as whoever moves one says nothing of any
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, guest) == 0, "no socket pair");
    const char carrier = 0;
    require(send_message(fds[0], &carrier, sizeof carrier, guest[1]), "no descriptor is sent");
  }
  const bool kept = options.grace.count() != 0;
  auto session = Session::start(device, std::move(options));
  close(fds[1]);
  Replies replies(patience);
  std::thread drain([&] { replies.read(fds[0]); });
  send_input(input, fds[0], replies, guest[1]);
  shutdown(fds[0], SHUT_WR);
  close_fd(guest[1]);
  if (const auto stream = stream_of(input); kept && here.get_future().get() && stream)
    come_back(*session, *stream);
  close_fd(guest[0]);
  SessionEnd end = over.get_future().get();
  session.reset();
  drain.join();
  close(fds[0]);

  require(end.reusable, end.message.c_str());
  const FakeLive live = fake.live();
  const unsigned zeros = device->scrubber().has_zeros() ? 1 : 0;
  require(live.streams == 1 && live.libraries == 0 && live.mappings == zeros && live.graphs == 0,
          "objects are left");
  // All but the words that streams wait at are chunks.
  require(live.events == (live.pinned - 2) * Chunk::kStreams, "events are left");
  require(fake.dirty_releases() == 0, "memory was released with data in it");
  return end;
}
