// executor-host as a process of its own: the attach dialogue, sessions one after another, and the
// real software device behind it.
#include <arpa/inet.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "check.h"
#include "gate/quota_page.h"
#include "guest.h"

extern char **environ;

namespace {

constexpr uint64_t kGranule = WIRE_GRANULE;

class Host {
 public:
  explicit Host(const char *library, std::vector<std::string> more = {}) {
    int out[2];
    CHECK(pipe(out) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, out[0]);
    std::string path = EXECUTOR_HOST, option = "--library", value = library;
    std::vector<char *> arguments = {path.data(), option.data(), value.data()};
    for (std::string &argument : more) arguments.push_back(argument.data());
    arguments.push_back(nullptr);
    CHECK(posix_spawn(&pid_, EXECUTOR_HOST, &actions, nullptr, arguments.data(), environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    FILE *lines = fdopen(out[0], "r");
    CHECK(fscanf(lines, "port %d", &port_) == 1);
    fclose(lines);
  }
  ~Host() {
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
  }

  int connect() const {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port_));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(::connect(fd, reinterpret_cast<sockaddr *>(&address), sizeof address) == 0);
    return fd;
  }

 private:
  pid_t pid_;
  int port_;
};

std::string preface(uint32_t protocol, const std::string &message) {
  return WIRE_PREFACE_MAGIC + packed(protocol) + packed(static_cast<uint32_t>(message.size())) +
         message;
}

// What the server answers, without its preface; empty when it just hangs up.
std::string answer(int fd) {
  char bytes[WIRE_PREFACE_BYTES];
  if (recv(fd, bytes, sizeof bytes, MSG_WAITALL) < static_cast<ssize_t>(sizeof bytes)) return {};
  CHECK(memcmp(bytes, WIRE_PREFACE_MAGIC, 8) == 0);
  uint32_t length;
  memcpy(&length, bytes + 12, sizeof length);
  CHECK(length <= WIRE_CONTROL_MAX);
  std::string text(length, '\0');
  CHECK(recv(fd, text.data(), length, MSG_WAITALL) == static_cast<ssize_t>(length));
  return text;
}

std::string dialogue(const Host &host, const std::string &said) {
  const int fd = host.connect();
  CHECK(send(fd, said.data(), said.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(said.size()));
  const std::string text = answer(fd);
  close(fd);
  return text;
}

// A number in a message of protobuf.
std::string varint(uint64_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7) bytes += static_cast<char>(number | 0x80);
  return bytes + static_cast<char>(number);
}

// A guest that has been welcomed; its Hello names a program and a window's base.
Guest attach(const Host &host) {
  const std::string base = varint(WIRE_WINDOW_BASE);
  const std::string hello = "\x0a\x04test\x52" + varint(base.size()) + base;
  const int fd = host.connect();
  const std::string said = preface(WIRE_PROTOCOL, hello);
  CHECK(send(fd, said.data(), said.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(said.size()));
  const std::string text = answer(fd);
  CHECK(text.size() > 100);
  CHECK_EQUAL(text[0], '\x12');  // the Welcome's field
  return Guest(fd);
}

void run_a_session(const Host &host) {
  Guest guest = attach(host);
  guest.map(WIRE_WINDOW_BASE, 2 * kGranule);
  const std::string data = pattern(3000000);
  guest.upload(WIRE_WINDOW_BASE + 3, data);
  CHECK(guest.download(WIRE_WINDOW_BASE + 3, data.size()) == data);
  const uint64_t stream = guest.stream(1);
  guest.memset32(WIRE_WINDOW_BASE, 0x30303030, 2, stream);
  CHECK_EQUAL(guest.download(WIRE_WINDOW_BASE, 8, stream), "00000000");
}

constexpr char kPtx[] = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry add(.param .u64 at, .param .u32 value)
{
  .reg .u64 %a<4>;
  .reg .u32 %r<8>;
  ld.param.u64 %a1, [at];
  ld.param.u32 %r1, [value];
  mov.u32 %r2, %ctaid.x;
  mul.wide.u32 %a2, %r2, 4;
  add.u64 %a3, %a1, %a2;
  ld.global.u32 %r3, [%a3];
  add.u32 %r4, %r3, %r1;
  st.global.u32 [%a3], %r4;
  ret;
}
)";

}  // namespace

TEST(sessions_follow_one_another) {
  const Host host(FAKE_DRIVER);
  for (int i = 0; i < 3; i++) run_a_session(host);
}

TEST(a_hello_that_is_none_is_refused) {
  const Host host(FAKE_DRIVER);
  CHECK(dialogue(host, "GET / HTTP/1.1\r\n\r\n").find("does not speak") != std::string::npos);
  CHECK(dialogue(host, preface(99, "")).find("speaks protocol 99") != std::string::npos);
  CHECK(dialogue(host, preface(WIRE_PROTOCOL, "\x0a\x7f")).find("malformed") != std::string::npos);
  run_a_session(host);
}

TEST(a_broken_device_is_opened_afresh) {
  const Host host(FAKE_DRIVER);
  {
    Guest guest = attach(host);
    guest.load(module_handle(1), Guest::image("kernel crash\n"));
    guest.function(module_handle(1), function_handle(1), "crash");
    guest.launch(function_handle(1), 0, "");
    CHECK_EQUAL(guest.synchronize().result, CUDA_ERROR_ILLEGAL_ADDRESS);
  }
  run_a_session(host);
}

// The same on the software device, with a kernel of its own.
TEST(the_software_device_serves) {
  if (access(SOFTWARE_DEVICE, R_OK) != 0) {
    fprintf(stderr, "skipped: %s is not built\n", SOFTWARE_DEVICE);
    _Exit(77);
  }
  const Host host(SOFTWARE_DEVICE);
  run_a_session(host);
  Guest guest = attach(host);
  const Answer answer = guest.load(module_handle(1), Guest::image(kPtx));
  CHECK_EQUAL(answer.reply.result, CUDA_SUCCESS);
  const auto &reply = answer.frame.as<wire_ModuleLoad_reply>();
  CHECK_EQUAL(reply.listed, 1u);
  struct {
    wire_kernel kernel;
    wire_parameter parameters[2];
    char name[8];
  } listed = {{3, 2, 12, 0}, {{0, 8}, {8, 4}}, "add"};
  CHECK(answer.frame.tail<wire_ModuleLoad_reply>(reply.list_size) == packed(listed));
  guest.function(module_handle(1), function_handle(1), "add");
  guest.map(WIRE_WINDOW_BASE, kGranule);
  guest.memset32(WIRE_WINDOW_BASE, 100, 64);
  wire_Launch q{};
  q.function = function_handle(1);
  q.grid_x = 64;
  q.grid_y = q.grid_z = q.block_x = q.block_y = q.block_z = 1;
  q.parameters_size = 12;
  guest.put(WIRE_Launch, q, packed(uint64_t{WIRE_WINDOW_BASE}) + packed(uint32_t{11}));
  const std::string result = guest.download(WIRE_WINDOW_BASE, 256);
  for (size_t i = 0; i < 64; i++) {
    uint32_t value;
    memcpy(&value, &result[i * 4], 4);
    CHECK_EQUAL(value, 111u);
  }
  // And an image of which it can make nothing.
  CHECK(guest.load(module_handle(2), Guest::image("nonsense\n")).reply.result != CUDA_SUCCESS);
}

namespace {

void launch_adds(Guest &guest, uint64_t stream, uint32_t blocks) {
  wire_Launch q{};
  q.function = function_handle(1);
  q.stream = stream;
  q.grid_x = blocks;
  q.grid_y = q.grid_z = q.block_x = q.block_y = q.block_z = 1;
  q.parameters_size = 12;
  guest.put(WIRE_Launch, q, packed(uint64_t{WIRE_WINDOW_BASE}) + packed(uint32_t{1}));
}

uint32_t first_word(Guest &guest, uint64_t stream) {
  const std::string bytes = guest.download(WIRE_WINDOW_BASE, 4, stream);
  uint32_t value;
  memcpy(&value, bytes.data(), 4);
  return value;
}

}  // namespace

// Tokens through a page that both processes have, work that the device counts itself, and a next
// session that finds nothing of this one.
TEST(the_software_device_keeps_to_its_tokens) {
  if (access(SOFTWARE_DEVICE, R_OK) != 0) {
    fprintf(stderr, "skipped: %s is not built\n", SOFTWARE_DEVICE);
    _Exit(77);
  }
  const auto page = outboard::QuotaPage::create();
  const int inherited = dup(page->fd());  // without FD_CLOEXEC
  outboard::QuotaWords &words = page->words();
  const auto allow = [&](uint64_t limit) {
    words.limit.store(limit);
    words.mode.store(outboard::kModeBlocks);
    page->wake();
  };
  const auto until = [](auto condition) {
    while (!condition()) sched_yield();
  };
  allow(0);
  const Host host(SOFTWARE_DEVICE, {"--token-fd", std::to_string(inherited)});
  close(inherited);
  {
    Guest guest = attach(host);
    CHECK_EQUAL(guest.load(module_handle(1), Guest::image(kPtx)).reply.result, CUDA_SUCCESS);
    guest.function(module_handle(1), function_handle(1), "add");
    guest.map(WIRE_WINDOW_BASE, 4 * kGranule);
    const uint64_t streams[] = {0, guest.stream(1, CU_STREAM_NON_BLOCKING)};
    const uint64_t beside = guest.stream(2, CU_STREAM_NON_BLOCKING);
    constexpr uint32_t kLaunches = 10, kBlocks = 8;
    for (uint32_t i = 0; i < kLaunches; i++) launch_adds(guest, streams[0], kBlocks);
    for (uint32_t done : {0u, 1u, 2u, 5u, 9u}) {
      // One block more than before lets one launch more begin, whole.
      allow(done == 0 ? 0 : (done - 1) * kBlocks + 1);
      until([&] { return words.charged.load() == done * kBlocks; });
      until([&] { return first_word(guest, beside) == done; });
      CHECK_EQUAL(words.held.load(), kLaunches - done);
      wire_cuStreamQuery query{};
      query.hStream = streams[0];
      CHECK_EQUAL(guest.call(WIRE_cuStreamQuery, query).reply.result, CUDA_ERROR_NOT_READY);
    }
    allow(outboard::kNoLimit);
    launch_adds(guest, streams[1], kBlocks);
    guest.synchronize();
    CHECK_EQUAL(first_word(guest, beside), kLaunches + 1);
    until([&] { return words.in_flight_ns.load() == 0; });
    CHECK(words.device_ns.load() > 0);
    CHECK_EQUAL(words.launches.load(), kLaunches + 1);
    guest.memset32(WIRE_WINDOW_BASE, 0x5ec2e75e, kGranule);
    // It leaves with work that waits, and gets tokens for that afterwards.
    allow(0);
    for (uint32_t i = 0; i < kLaunches; i++) launch_adds(guest, streams[i % 2], kBlocks);
  }
  allow(outboard::kNoLimit);
  Guest guest = attach(host);
  guest.map(WIRE_WINDOW_BASE, 4 * kGranule);
  CHECK(guest.download(WIRE_WINDOW_BASE, 4 * kGranule) == std::string(4 * kGranule, '\0'));
  CHECK_EQUAL(words.session.load(), 2u);
  CHECK_EQUAL(words.launches.load(), 0u);
}
