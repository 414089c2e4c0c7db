// Calls of libraries that sessions make, with a library whose work the tests do.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "base/log.h"
#include "check.h"
#include "cublas_calls.h"
#include "device/output.h"
#include "fake_cublas.h"
#include "world.h"

using namespace outboard;

namespace {

constexpr uint64_t kGranule = WIRE_GRANULE;

const FakeCublas &cublas() {
  void *library = dlopen(FAKE_LIBRARIES "/libcublas.so.13", RTLD_NOW | RTLD_LOCAL);
  if (!library) fail(__FILE__, __LINE__, dlerror());
  return *static_cast<const FakeCublas *>(dlsym(library, "fake_cublas"));
}

// A session of a device that has the library.
struct LibraryWorld : World {
  static WorldOptions prepared(WorldOptions options) {
    World::libraries = FAKE_LIBRARIES;
    return options;
  }
  explicit LibraryWorld(WorldOptions options = {}) : World(prepared(std::move(options))) {}

  static uint64_t handle(uint32_t index) { return wire_handle(WIRE_KIND_LIBRARY, 1, index); }
  // A call's status.
  int ask(uint64_t handle, uint32_t function, uint64_t stream = 0,
          const std::vector<uint64_t> &words = {}) {
    return status(guest.wait(begin(handle, function, stream, words)));
  }
  uint64_t begin(uint64_t handle, uint32_t function, uint64_t stream = 0,
                 const std::vector<uint64_t> &words = {}) {
    return guest.ask(WIRE_LibraryAsk, filled<wire_LibraryAsk>(handle, function, stream, words),
                     bytes(words));
  }
  void post(uint64_t handle, uint32_t function, uint64_t stream = 0,
            const std::vector<uint64_t> &words = {}) {
    guest.put(WIRE_LibraryCall, filled<wire_LibraryCall>(handle, function, stream, words),
              bytes(words));
  }
  static int status(const Answer &answer) {
    CHECK_EQUAL(answer.reply.result, CUDA_SUCCESS);
    return answer.frame.as<wire_LibraryAsk_reply>().status;
  }
  int create(uint64_t handle) { return ask(handle, CUBLAS_cublasCreate_v2); }
  // That of cublasSscal_v2.
  static std::vector<uint64_t> numbers(int n) {
    const float two = 2;
    uint64_t scalar = 0;
    memcpy(&scalar, &two, sizeof two);
    return {static_cast<uint64_t>(static_cast<int64_t>(n)), 0, base(), 1, scalar};
  }

 private:
  static std::string bytes(const std::vector<uint64_t> &words) {
    return {reinterpret_cast<const char *>(words.data()), words.size() * 8};
  }
  template <class Command>
  static Command filled(uint64_t handle, uint32_t function, uint64_t stream,
                        const std::vector<uint64_t> &words) {
    Command command{};
    command.function = function;
    command.handle = handle;
    command.stream = stream;
    command.mode = LIBRARY_MODE_HOST;
    command.arguments_size = static_cast<uint32_t>(words.size() * 8);
    return command;
  }
};

void hold(World &w, uint64_t stream) {
  wire_HostFunction q{};
  q.stream = stream;
  q.function = 7;
  q.kind = WIRE_FUNCTION_ONCE;
  w.guest.put(WIRE_HostFunction, q);
}

void let_go(World &w, const wire_call &call) {
  wire_HostFunctionDone q{};
  q.call = call.call;
  w.guest.put(WIRE_HostFunctionDone, q);
}

wire_call next_call(World &w) { return w.guest.next(WIRE_CALL).as<wire_call>(); }

// What the server's log has of that.
std::string logged(const std::function<void()> &what) {
  const int file = memfd_create("log", MFD_CLOEXEC), before = dup(STDERR_FILENO);
  dup2(file, STDERR_FILENO);
  log_threshold(LogLevel::kWarn);
  what();
  log_threshold(LogLevel::kError);
  dup2(before, STDERR_FILENO);
  std::string text(static_cast<size_t>(lseek(file, 0, SEEK_END)), 0);
  CHECK_EQUAL(pread(file, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  close(before);
  close(file);
  return text;
}

// Work of a library that waits for its stream first, as it may.
int wait_and_add(CUstream stream, int n) {
  const Driver &driver = World::device()->driver();
  if (driver.cuStreamSynchronize(stream)) return 14;
  return *reinterpret_cast<uint32_t *>(World::base()) == static_cast<uint32_t>(n) ? 0 : 13;
}

}  // namespace

TEST(a_number_that_is_another_one_as_an_int_is_a_violation) {
  LibraryWorld w;
  CHECK_EQUAL(w.create(w.handle(1)), 0);
  std::vector<uint64_t> words = w.numbers(1024);
  words[0] |= uint64_t{1} << 63;
  w.post(w.handle(1), CUBLAS_cublasSscal_v2, 0, words);
  CHECK(w.ended().reason == EndReason::kViolation);
}

TEST(what_this_machines_library_does_not_have_is_not_supported) {
  LibraryWorld w;
  w.guest.map(World::base(), kGranule);
  CHECK_EQUAL(w.create(w.handle(1)), 0);
  // Of the functions of its table the fake library has one.
  CHECK_EQUAL(w.ask(w.handle(1), CUBLAS_cublasDscal_v2, 0, w.numbers(8)), 15);
  w.post(w.handle(1), CUBLAS_cublasDscal_v2, 0, w.numbers(8));
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_NOT_SUPPORTED);
  cublas().set_work([](CUstream, int) { return 0; });
  CHECK_EQUAL(w.ask(w.handle(1), CUBLAS_cublasSscal_v2, 0, w.numbers(8)), 0);
}

TEST(a_posted_call_may_wait_for_a_function_of_the_guest) {
  LibraryWorld w;
  w.guest.map(World::base(), kGranule);
  const uint64_t held = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
  CHECK_EQUAL(w.create(w.handle(1)), 0);
  cublas().set_work(wait_and_add);
  // What is posted before it is there when its turn comes, what is posted after it is not.
  hold(w, held);
  w.guest.memset32(World::base(), 5, 1, held);
  w.post(w.handle(1), CUBLAS_cublasSscal_v2, held, LibraryWorld::numbers(5));
  w.guest.memset32(World::base(), 6, 1, held);
  let_go(w, next_call(w));
  const wire_reply reply = w.guest.synchronize();
  CHECK_EQUAL(reply.result, CUDA_SUCCESS);
  CHECK_EQUAL(reply.async, CUDA_SUCCESS);
  CHECK_EQUAL(w.guest.download(World::base(), 4), packed(uint32_t{6}));
}

TEST(what_waits_for_a_call_that_is_asked_does_not_keep_the_guest_from_being_heard) {
  LibraryWorld w;
  w.load_kernels();
  w.guest.map(World::base(), kGranule);
  const uint64_t held = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
  const uint64_t other = w.guest.stream(2, CU_STREAM_NON_BLOCKING);
  CHECK_EQUAL(w.create(w.handle(1)), 0);
  hold(w, held);
  const wire_call call = next_call(w);
  // A launch that the driver has wait until the library is done, as where that loads code.
  World::fake().hold("cuLaunchKernel", 3, 0);
  cublas().set_work([](CUstream stream, int) {
    const int status = World::device()->driver().cuStreamSynchronize(stream) ? 14 : 0;
    World::fake().open_gate(3);
    return status;
  });
  const uint64_t asked =
      w.begin(w.handle(1), CUBLAS_cublasSscal_v2, held, LibraryWorld::numbers(5));
  w.guest.launch(function_handle(World::kNothing), other, "");
  let_go(w, call);
  CHECK_EQUAL(w.status(w.guest.wait(asked)), 0);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_SUCCESS);
}

TEST(a_handle_in_use_is_nobody_elses) {
  LibraryWorld w;
  w.guest.map(World::base(), kGranule);
  CHECK_EQUAL(w.create(w.handle(1)), 0);
  static Session *session;
  session = w.session.get();
  cublas().set_work([](CUstream, int) {
    while (!session->is_ending()) std::this_thread::yield();
    return 0;
  });
  w.begin(w.handle(1), CUBLAS_cublasSscal_v2, 0, LibraryWorld::numbers(0));
  w.post(w.handle(1), CUBLAS_cublasSscal_v2, 0, LibraryWorld::numbers(0));
  w.expect_violation("used by two calls at once");
}

TEST(of_calls_that_are_refused_no_more_are_told_than_anyone_reads) {
  LibraryWorld w;
  CHECK_EQUAL(w.create(w.handle(1)), 0);
  const std::string told = logged([&] {
    for (int i = 0; i < 300; i++)
      CHECK_EQUAL(w.ask(w.handle(1), CUBLAS_cublasSscal_v2, 0, LibraryWorld::numbers(8)), 7);
  });
  CHECK_EQUAL(std::count(told.begin(), told.end(), '\n'), 100);
  CHECK(told.find("Later ones of this session are not written here") != told.npos);
}

TEST(handles_end_with_their_session) {
  {
    LibraryWorld w;
    for (uint32_t i = 0; i < 5; i++) CHECK_EQUAL(w.create(w.handle(i)), 0);
    w.post(w.handle(2), CUBLAS_cublasDestroy_v2);
    CHECK_EQUAL(w.guest.synchronize().async, CUDA_SUCCESS);
  }
  // One is ready for the next session.
  CHECK_EQUAL(cublas().live(), 1);
}

TEST(none_is_ready_where_that_is_not_wanted) {
  World::warm_handles = false;
  {
    LibraryWorld w;
    CHECK_EQUAL(cublas().live(), 0);
    CHECK_EQUAL(w.create(w.handle(0)), 0);
    CHECK_EQUAL(cublas().live(), 1);
  }
  CHECK_EQUAL(cublas().live(), 0);
}

TEST(what_a_library_complains_of_is_not_for_the_guest) {
  Output &output = Output::install();
  const auto printed = [&] {
    char text[4096];
    return std::string(text, output.read(text, sizeof text));
  };
  LibraryWorld w;
  w.guest.map(World::base(), kGranule);
  CHECK_EQUAL(w.create(w.handle(1)), 0);
  printf("a line of a kernel\nand one that has begun");
  for (int i = 0; i < 300; i++)
    CHECK_EQUAL(w.ask(w.handle(1), CUBLAS_cublasSscal_v2, 0, LibraryWorld::numbers(-1)), 7);
  printf(" and ends\n");
  CHECK_EQUAL(printed(), "a line of a kernel\nand one that has begun and ends\n");
  // What kernels print is theirs, whatever it is.
  printf(" ** On entry to SSCAL\n");
  CHECK_EQUAL(printed(), " ** On entry to SSCAL\n");
}
