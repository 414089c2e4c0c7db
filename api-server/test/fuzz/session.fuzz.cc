// Whatever a guest sends: the input is the stream of bytes behind the Welcome, served by a whole
// session on the fake driver. It must end, by itself once the input does, and leave nothing behind.
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <future>
#include <thread>

#include "fake_driver.h"
#include "log.h"
#include "session.h"
#include "world.h"

using namespace outboard;

namespace {

void require(bool condition, const char *what) {
  if (condition) return;
  fprintf(stderr, "session.fuzz: %s\n", what);
  abort();
}

}  // namespace

// A session's last thread may still be on its way out when an input is done, which looks like a
// leak. The tests look for leaks.
extern "C" const char *__asan_default_options() { return "detect_leaks=0"; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  log_threshold(LogLevel::kError);
  const std::shared_ptr<Device> device = World::device();
  const FakeControls &fake = World::fake();
  fake.reset();
  fake.tame();
  fake.set_memory(uint64_t{16} << 20);

  int fds[2];
  require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0, "no socket pair");
  std::promise<SessionEnd> over;
  SessionOptions options;
  options.fd = fds[1];
  options.memory_limit = uint64_t{8} << 20;
  options.patience = std::chrono::minutes(1);
  options.upload_cache = true;
  options.on_end = [&](const SessionEnd &end) { over.set_value(end); };
  auto session = Session::start(device, std::move(options));
  close(fds[1]);
  std::thread drain([&] {
    char sink[4096];
    while (recv(fds[0], sink, sizeof sink, 0) > 0) {
    }
  });
  while (size > 0) {
    const ssize_t sent = send(fds[0], data, size, MSG_NOSIGNAL);
    if (sent <= 0) break;
    data += sent;
    size -= static_cast<size_t>(sent);
  }
  shutdown(fds[0], SHUT_WR);
  const SessionEnd end = over.get_future().get();
  session.reset();
  drain.join();
  close(fds[0]);

  require(end.reusable, end.message.c_str());
  const FakeLive live = fake.live();
  require(live.streams == 1 && live.libraries == 0 && live.mappings == 0 && live.graphs == 0,
          "objects are left");
  require(live.events == live.pinned * Chunk::kStreams, "events are left");
  require(fake.dirty_releases() == 0, "memory was released with data in it");
  return 0;
}
