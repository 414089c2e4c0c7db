#include "world.h"

#include <dlfcn.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"

using namespace outboard;

namespace {

int *socket_pair() {
  static thread_local int fds[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
  return fds;
}

}  // namespace

const FakeControls &World::fake() {
  static const FakeControls *const controls = [] {
    void *library = dlopen(FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL);
    if (!library) fail(__FILE__, __LINE__, dlerror());
    return static_cast<const FakeControls *>(dlsym(library, "fake_controls"));
  }();
  return *controls;
}

std::shared_ptr<Device> World::device() {
  // Never closed: threads that a test leaves behind may use it.
  static auto *const device = [] {
    fake().reset();
    DeviceOptions options;
    options.library = FAKE_DRIVER;
    options.quota_page_fd = quota_page().fd();
    options.turn_page_fd = turn_page().fd();
    options.upload_folder = upload_folder;
    options.upload_bytes = upload_bytes;
    options.libraries = libraries;
    options.warm_handles = warm_handles;
#ifdef __SANITIZE_THREAD__
    // The only addresses that this sanitizer leaves to programs and nobody uses.
    options.window_base = uint64_t{1} << 36;
    options.window_size = uint64_t{1} << 36;
#endif
    return new std::shared_ptr<Device>(Device::open(options));
  }();
  return *device;
}

QuotaPage &World::quota_page() {
  static auto *const page = new std::shared_ptr<QuotaPage>(QuotaPage::create());
  return **page;
}

TurnPage &World::turn_page() {
  static auto *const page = new std::shared_ptr<TurnPage>(TurnPage::create());
  return **page;
}

uint64_t World::base() { return device()->window_base(); }

World::World(WorldOptions options) : World(std::move(options), socket_pair()) {}

World::World(WorldOptions options, int fds[2])
    : source_fd(fds[0]), guest(fds[0]), end_(over_.get_future()) {
  SessionOptions session_options;
  session_options.fd = fds[1];
  session_options.id = 7;
  session_options.memory_limit = options.memory;
  session_options.pinned_limit = options.pinned;
  session_options.module_limit = options.modules;
  session_options.image_limit = options.images;
  session_options.tenant = options.tenant;
  session_options.group = options.group;
  session_options.upload_cache = options.upload_cache;
  session_options.expected = options.expected;
  session_options.learnt = options.learnt;
  session_options.arrives = options.arrives;
  session_options.patience = options.patience;
  session_options.stop_patience = options.stop_patience;
  session_options.rest_patience = options.rest_patience;
  session_options.most_kernel = options.most_kernel;
  session_options.grace = options.grace;
  session_options.on_away = options.on_away;
  session_options.kernel_sentence = "it takes too long";
  session_options.gate = options.gate;
  session_options.trace = options.trace;
  session_options.leftover.assign(options.leftover.begin(), options.leftover.end());
  session_options.on_end = [this](const SessionEnd &end) { over_.set_value(end); };
  session = Session::start(device(), std::move(session_options));
  ::close(fds[1]);
}

bool guest_went(const SessionEnd &end) {
  return end.message == "the guest closed the connection" ||
         end.message.starts_with("the guest's connection was reset");
}

World::~World() {
  if (!done_) {
    const SessionEnd end = this->end();
    CHECK(guest_went(end));
    CHECK(end.reusable);
  }
}

int World::come_back(uint64_t received, uint32_t epoch) {
  const int *fds = socket_pair();
  const int here = fds[0], there = fds[1];
  if (!session->resume(there, received, epoch)) ::close(there);
  return here;
}

SessionEnd World::end() {
  guest.close();
  return ended();
}

SessionEnd World::ended() {
  done_ = true;
  const SessionEnd end = end_.get();
  if (end.reusable) {
    // Nothing of the session is left but what the device keeps for the next one.
    const FakeLive live = fake().live();
    CHECK_EQUAL(live.streams, 1u);
    CHECK_EQUAL(live.libraries, 0u);
    // The zeros that arrays are overwritten with, where there have been any.
    CHECK_EQUAL(live.mappings, device()->scrubber().has_zeros() ? 1u : 0u);
    CHECK_EQUAL(live.graphs, 0u);
    // All but the words that streams wait at, for downloads and for the gate, are chunks.
    CHECK_EQUAL(live.events, (live.pinned - 2) * Chunk::kStreams);
    CHECK_EQUAL(fake().dirty_releases(), 0u);
  }
  return end;
}

void World::expect_violation(const std::string &words) {
  const Frame frame = guest.next(WIRE_END);
  CHECK(!frame.bytes.empty());
  const std::string sentence = frame.tail<wire_end>(frame.as<wire_end>().length);
  if (sentence.find(words) == std::string::npos) fail(__FILE__, __LINE__, sentence);
  guest.kept.clear();
  CHECK(guest.next().bytes.empty());
  const SessionEnd end = this->end();
  CHECK(end.reason == EndReason::kViolation);
  CHECK(end.reusable);
  CHECK_EQUAL(session->counters()->violations.load(), 1u);
}

void World::load_kernels() {
  const std::string image = Guest::image(
      "kernel nothing\nkernel gate 4\nkernel add 8 8 4\nkernel print 8\nkernel crash\n");
  const Answer answer = guest.load(module_handle(0), image);
  CHECK_EQUAL(answer.reply.result, CUDA_SUCCESS);
  const char *const names[] = {"nothing", "gate", "add", "print", "crash"};
  for (uint32_t i = 0; i < 5; i++) {
    guest.function(module_handle(0), function_handle(i), names[i], i);
  }
}

void World::gate(uint32_t number, uint64_t stream) {
  guest.launch(function_handle(kGate), stream, packed(number));
}
