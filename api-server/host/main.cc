// executor-host: the executor without Node, for tests, sanitizers and measurements. It listens on
// the loopback interface, prints "port N" and serves one session after another; others wait in the
// listening queue. Who asks only for the driver's version is told, and is no session. With --unix
// it listens on a socket of that path instead, and prints "port 0".
//
//   executor-host --library PATH [--ordinal N] [--port N | --unix PATH] [--memory BYTES]
//   [--sessions N]
//                 [--patience MILLISECONDS] [--window-base ADDRESS] [--window-size BYTES]
//                 [--token-fd N] [--measure 0|1] [--gate-copies 0|1] [--trace-dir DIR]
//
// When a session leaves the device unusable it starts itself afresh on the same port, as the
// monitor would replace an API server process.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>

#include "base/error.h"
#include "base/log.h"
#include "device/device.h"
#include "device/output.h"
#include "handshake.h"
#include "session/session.h"

using namespace outboard;

namespace {

struct Arguments {
  std::string library;
  int ordinal = 0;
  std::optional<uint64_t> window_base;
  std::optional<uint64_t> window_size;
  int port = 0;
  std::string unix_path;
  int listener = -1;  // inherited from an earlier self
  uint64_t memory = 0;
  long sessions = -1;
  long patience = 10000;
  std::optional<int> quota_page_fd;
  GateOptions gate;
  std::string trace_dir;  // each session's trace goes there
};

[[noreturn]] void usage(const std::string &problem) {
  fprintf(stderr,
          "executor-host: %s\nusage: executor-host --library PATH [--ordinal N] [--port N | --unix "
          "PATH] "
          "[--memory BYTES] [--sessions N] [--patience MILLISECONDS] [--window-base ADDRESS] "
          "[--window-size BYTES] [--token-fd N] [--measure 0|1] [--gate-copies 0|1] "
          "[--trace-dir DIR]\n",
          problem.c_str());
  exit(2);
}

Arguments parse(int argc, char **argv) {
  Arguments arguments;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 == argc) usage(name + " needs a value");
    const char *value = argv[i + 1];
    if (name == "--library") {
      arguments.library = value;
      continue;
    }
    if (name == "--unix") {
      arguments.unix_path = value;
      continue;
    }
    if (name == "--trace-dir") {
      arguments.trace_dir = value;
      continue;
    }
    char *end;
    const long long number = strtoll(value, &end, 0);
    if (*end || end == value) usage(name + " needs a number");
    if (name == "--ordinal") {
      arguments.ordinal = static_cast<int>(number);
    } else if (name == "--window-base") {
      arguments.window_base = static_cast<uint64_t>(number);
    } else if (name == "--window-size") {
      arguments.window_size = static_cast<uint64_t>(number);
    } else if (name == "--port") {
      arguments.port = static_cast<int>(number);
    } else if (name == "--listener") {
      arguments.listener = static_cast<int>(number);
    } else if (name == "--memory") {
      arguments.memory = static_cast<uint64_t>(number);
    } else if (name == "--sessions") {
      arguments.sessions = static_cast<long>(number);
    } else if (name == "--patience") {
      arguments.patience = static_cast<long>(number);
    } else if (name == "--token-fd") {
      arguments.quota_page_fd = static_cast<int>(number);
    } else if (name == "--measure") {
      arguments.gate.measured = number != 0;
    } else if (name == "--gate-copies") {
      arguments.gate.copies = arguments.gate.sets = number != 0;
    } else {
      usage("unknown option " + name);
    }
  }
  if (arguments.library.empty()) usage("--library is needed");
  return arguments;
}

int listen_on(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  const int one = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto *const name = reinterpret_cast<sockaddr *>(&address);
  socklen_t size = sizeof address;
  if (bind(fd, name, size) < 0 || listen(fd, 64) < 0 || getsockname(fd, name, &size) < 0) {
    throw Error("OB_LISTEN",
                std::string("cannot listen on the loopback interface: ") + strerror(errno));
  }
  printf("port %d\n", ntohs(address.sin_port));
  fflush(stdout);
  return fd;
}

int listen_on(const std::string &path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{AF_UNIX, {}};
  if (path.size() >= sizeof address.sun_path) throw Error("OB_LISTEN", path + " is too long");
  memcpy(address.sun_path, path.c_str(), path.size());
  if (bind(fd, reinterpret_cast<sockaddr *>(&address), sizeof address) < 0 || listen(fd, 64) < 0) {
    throw Error("OB_LISTEN", "cannot listen on " + path + ": " + strerror(errno));
  }
  printf("port 0\n");
  fflush(stdout);
  return fd;
}

// The window where the guest can have it.
void place_window(Device &device, const Hello &hello) {
  for (uint64_t base : hello.window_bases) {
    if (base == device.window_base()) return;
  }
  if (!hello.window_bases.empty()) {
    device.move_window(hello.window_bases.front(), device.window_size());
  }
}

// Serves one connection; whether the device may serve another. `asked`: it was only a question.
bool serve(const std::shared_ptr<Device> &device, int fd, uint64_t id, const Arguments &arguments,
           bool *asked) {
  std::string why;
  const std::optional<Hello> hello = read_hello(fd, &why);
  const uint64_t arrived = trace_now();
  if (!hello) {
    log_line(LogLevel::kWarn, id, "refused: " + why);
    send_refusal(fd, "OB_HELLO_MALFORMED", why);
    return true;
  }
  if (hello->query) {
    *asked = true;
    send_version(fd, device->snapshot().driver_version);
    close(fd);
    return true;
  }
  try {
    place_window(*device, *hello);
    const DeviceSnapshot snapshot = device->snapshot();
    // A part of what is free is kept back for pinned memory that kernels reach.
    const uint64_t pinned = snapshot.free_memory / 32 / snapshot.granularity * snapshot.granularity;
    uint64_t memory = arguments.memory ? arguments.memory : snapshot.free_memory - pinned;
    if (hello->memory && hello->memory < memory) memory = hello->memory;
    const uint64_t welcomed = trace_now();
    send_welcome(fd, {id, snapshot, memory, pinned});
    log_line(LogLevel::kInfo, id, "session of " + hello->program);
    std::promise<bool> over;
    SessionOptions options;
    options.fd = fd;
    options.id = id;
    options.memory_limit = memory;
    options.pinned_limit = pinned;
    options.gate = arguments.gate;
    if (!arguments.trace_dir.empty()) {
      options.trace.file = arguments.trace_dir + "/session-" + std::to_string(id) + ".trace";
      options.trace.marks = {{"hello", arrived, arrived}, {"welcome", welcomed, trace_now()}};
    }
    options.patience = std::chrono::milliseconds(arguments.patience);
    options.on_end = [&](const SessionEnd &end) { over.set_value(end.reusable); };
    const std::shared_ptr<Session> session = Session::start(device, std::move(options));
    close(fd);
    return over.get_future().get();
  } catch (const Error &error) {
    log_line(LogLevel::kError, id, error.what());
    send_refusal(fd, error.code, error.what());
    close(fd);
    return true;
  }
}

// A new self on the same listening socket.
void begin_afresh(char **argv, int listener, long sessions) {
  // What comes later counts.
  std::vector<std::string> added = {"--listener", std::to_string(listener), "--sessions",
                                    std::to_string(sessions)};
  std::vector<char *> arguments;
  for (char **a = argv; *a; a++) arguments.push_back(*a);
  for (std::string &a : added) arguments.push_back(a.data());
  arguments.push_back(nullptr);
  execv("/proc/self/exe", arguments.data());
  fprintf(stderr, "executor-host: cannot start itself again: %s\n", strerror(errno));
  _exit(1);
}

}  // namespace

int main(int argc, char **argv) {
  signal(SIGPIPE, SIG_IGN);
  const Arguments arguments = parse(argc, argv);
  try {
    DeviceOptions options;
    options.library = arguments.library;
    options.ordinal = arguments.ordinal;
    options.window_base = arguments.window_base;
    options.window_size = arguments.window_size;
    options.quota_page_fd = arguments.quota_page_fd;
    const std::shared_ptr<Device> device = Device::open(options);
    const int listener = arguments.listener >= 0        ? arguments.listener
                         : !arguments.unix_path.empty() ? listen_on(arguments.unix_path)
                                                        : listen_on(arguments.port);
    Output::install();
    long left = arguments.sessions;
    for (uint64_t id = 1; left != 0; id++) {
      const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) continue;
      bool asked = false;
      const bool reusable = serve(device, fd, id, arguments, &asked);
      if (asked) --id;
      if (left > 0 && !asked) --left;
      if (!reusable && left != 0) begin_afresh(argv, listener, left);
    }
  } catch (const Error &error) {
    fprintf(stderr, "executor-host: %s\n", error.what());
    return 1;
  }
}
