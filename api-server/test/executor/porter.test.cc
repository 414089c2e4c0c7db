// The kernel that carries pages past the driver, on the software device.
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "base/driver.h"
#include "check.h"
#include "copies/page_porter.h"
#include "gate/quota_page.h"
#include "guest.h"
#include "session/session.h"

using namespace outboard;

namespace {

void skip_without_device() {
  if (access(SOFTWARE_DEVICE, F_OK) == 0) return;
  printf("skipped: there is no %s\n", SOFTWARE_DEVICE);
  _Exit(77);
}

struct Machine {
  explicit Machine(const char *traits = "") : driver(open(traits)) {
    CHECK_EQUAL(driver.cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    CHECK_EQUAL(driver.cuCtxSetCurrent(context), CUDA_SUCCESS);
    porter = PagePorter::open(driver);
    CHECK(porter != nullptr);
    porter->begin();
    CHECK_EQUAL(driver.cuMemAlloc_v2(&memory, kBytes), CUDA_SUCCESS);
  }
  ~Machine() {
    porter->release_all();
    CHECK_EQUAL(driver.cuCtxSynchronize(), CUDA_SUCCESS);
    CHECK_EQUAL(porter->rest(), CUDA_SUCCESS);
    porter.reset();
    driver.cuMemFree_v2(memory);
    driver.cuDevicePrimaryCtxRelease_v2(0);
  }

  static Driver open(const char *traits) {
    skip_without_device();
    setenv("SOFTWARE_DEVICE_TRAITS", traits, 1);
    return Driver::open(SOFTWARE_DEVICE);
  }
  uint64_t area(unsigned which, uint64_t at = 0) {
    return reinterpret_cast<uint64_t>(porter->area(which) + at);
  }
  bool carry(uint64_t from, uint64_t to, uint64_t size) {
    const PagePorter::Order order{from, to, size};
    return porter->carry({&order, 1});
  }
  // As who reads in the leader's place, after a while.
  void let_go() { porter->let_go(porter->let_go(0)); }
  void fill(unsigned which, uint64_t size, uint8_t seed) {
    for (uint64_t i = 0; i < size; i++)
      porter->area(which)[i] = static_cast<uint8_t>(seed + i * 7 + i / 251);
  }

  static constexpr uint64_t kBytes = 2 << 20;
  const Driver driver;
  CUcontext context = nullptr;
  CUdeviceptr memory = 0;
  std::unique_ptr<PagePorter> porter;
};

// Code whose first use waits for all work, while nobody may start any.
void load_code(const Machine &m) {
  static const char text[] =
      ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry nothing() { ret; }\n";
  m.driver.cuCtxSetCurrent(m.context);
  CUlibrary library;
  CUkernel kernel;
  CUfunction function;
  CHECK_EQUAL(m.driver.cuLibraryLoadData(&library, text, nullptr, nullptr, 0, nullptr, nullptr, 0),
              CUDA_SUCCESS);
  CHECK_EQUAL(m.driver.cuLibraryGetKernel(&kernel, library, "nothing"), CUDA_SUCCESS);
  CHECK_EQUAL(m.driver.cuKernelGetFunction(&function, kernel), CUDA_SUCCESS);
  int registers = 0;
  m.driver.cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function);
}

}  // namespace

TEST(bytes_go_both_ways) {
  Machine m;
  CHECK(m.porter->stand_by(0));
  m.fill(0, PagePorter::kArea, 3);
  CHECK(m.carry(m.area(0), m.memory + 64, PagePorter::kArea));
  CHECK(m.carry(m.memory + 64, m.area(1), PagePorter::kArea));
  CHECK(memcmp(m.porter->area(0), m.porter->area(1), PagePorter::kArea) == 0);
  // Of any size and alignment, and nothing beside them.
  std::vector<PagePorter::Order> there, back;
  m.fill(0, PagePorter::kArea, 9);
  std::vector<uint8_t> wanted(m.porter->area(1), m.porter->area(1) + PagePorter::kArea);
  uint64_t at = 0;
  for (uint64_t i = 0; i < PagePorter::kMostOrders; i++) {
    const uint64_t size = 1 + i * i % 1500, to = at + i % 5;
    there.push_back({m.area(0, at), m.memory + 64 + to, size});
    memcpy(wanted.data() + to, m.porter->area(0) + at, size);
    at += size + 8;
  }
  CHECK(m.porter->carry(there));
  CHECK(m.carry(m.memory + 64, m.area(1), PagePorter::kArea));
  CHECK(memcmp(wanted.data(), m.porter->area(1), PagePorter::kArea) == 0);
  m.porter->release_one();
}

TEST(nobody_carries_who_does_not_stand_by) {
  Machine m;
  m.fill(0, 64, 1);
  CHECK(!m.carry(m.area(0), m.memory, 64));
  CHECK(m.porter->stand_by(0));
  CHECK(m.carry(m.area(0), m.memory, 64));
  m.porter->release_one();
  CHECK_EQUAL(m.driver.cuCtxSynchronize(), CUDA_SUCCESS);  // until it has gone, it may carry
  m.fill(0, 64, 2);
  CHECK(!m.carry(m.area(0), m.memory, 64));
  // What could not be carried is not carried later.
  CHECK(m.porter->stand_by(0));
  CHECK(m.carry(m.memory, m.area(1), 64));
  m.fill(0, 64, 1);
  CHECK(memcmp(m.porter->area(0), m.porter->area(1), 64) == 0);
  m.porter->release_one();
}

TEST(each_return_lets_one_go) {
  Machine m;
  for (int i = 0; i < 3; i++) CHECK(m.porter->stand_by(0));
  for (uint8_t i = 0; i < 3; i++) {
    m.fill(0, 4096, i);
    CHECK(m.carry(m.area(0), m.memory, 4096));
    CHECK(m.carry(m.memory, m.area(1), 4096));
    CHECK(memcmp(m.porter->area(0), m.porter->area(1), 4096) == 0);
    m.porter->release_one();
  }
  CHECK_EQUAL(m.driver.cuCtxSynchronize(), CUDA_SUCCESS);
  CHECK(!m.carry(m.area(0), m.memory, 4096));
}

TEST(a_stream_takes_so_many) {
  Machine m;
  for (int i = 0; i < 4; i++) CHECK(m.porter->stand_by(8));
  CHECK(!m.porter->stand_by(8));
  m.porter->release_one();
  while (!m.porter->stand_by(8)) std::this_thread::yield();
  m.porter->release_all();
  // From then on nobody waits.
  CHECK_EQUAL(m.driver.cuCtxSynchronize(), CUDA_SUCCESS);
  CHECK(m.porter->stand_by(8));
  CHECK_EQUAL(m.driver.cuCtxSynchronize(), CUDA_SUCCESS);
}

// A stream is held, a load waits for it, and nobody may start anything.
TEST(bytes_are_carried_while_code_is_loaded) {
  Machine m("lazy-loading=locking");
  CUstream held;
  CHECK_EQUAL(m.driver.cuStreamCreateWithPriority(&held, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
  static std::atomic<bool> returned;
  returned = false;
  CHECK(m.porter->stand_by(0));
  CHECK_EQUAL(m.driver.cuLaunchHostFunc(
                  held, [](void *) { returned.wait(false); }, nullptr),
              CUDA_SUCCESS);
  // An event is work, too: who cannot record one knows that the load has begun.
  std::atomic<int> recorded{0};
  std::atomic<bool> enough{false};
  std::thread records([&] {
    m.driver.cuCtxSetCurrent(m.context);
    CUevent event;
    CUstream stream;
    CHECK_EQUAL(m.driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    CHECK_EQUAL(m.driver.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0),
                CUDA_SUCCESS);
    while (!enough) {
      m.driver.cuEventRecord(event, stream);
      ++recorded;
    }
    m.driver.cuEventDestroy_v2(event);
    m.driver.cuStreamDestroy_v2(stream);
  });
  while (recorded == 0) std::this_thread::yield();
  std::atomic<bool> loaded{false};
  std::thread load([&] { load_code(m), loaded = true; });
  for (int seen = -1, same = 0; same < 20;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    same = recorded == seen ? same + 1 : 0;
    seen = recorded;
  }
  m.fill(0, 100'000, 5);
  CHECK(m.carry(m.area(0), m.memory, 100'000));
  CHECK(m.carry(m.memory, m.area(1), 100'000));
  CHECK(memcmp(m.porter->area(0), m.porter->area(1), 100'000) == 0);
  CHECK(!loaded);
  m.porter->release_one();
  returned = true;
  returned.notify_all();
  load.join();
  enough = true;
  records.join();
  CHECK(loaded);
  m.driver.cuStreamDestroy_v2(held);
}

// The load waits for a porter whose function the leader cannot put into its stream before it ends.
TEST(a_load_does_not_wait_for_whom_it_keeps) {
  Machine m("lazy-loading=locking");
  CUstream held;
  CHECK_EQUAL(m.driver.cuStreamCreateWithPriority(&held, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
  // One whose function is there, and returns while the load waits.
  CHECK(m.porter->stand_by(0));
  m.porter->settled(0, true);
  CHECK(m.porter->stand_by(0));
  std::atomic<bool> loaded{false};
  std::thread load([&] { load_code(m), loaded = true; });
  m.let_go();
  m.fill(0, 64, 1);
  CHECK(m.carry(m.area(0), m.memory, 64));
  CHECK(!loaded);
  m.porter->release_one();
  m.let_go();
  load.join();
  static std::atomic<bool> returned;
  returned = false;
  CHECK_EQUAL(m.driver.cuLaunchHostFunc(
                  held, [](void *) { returned.wait(false); }, nullptr),
              CUDA_SUCCESS);
  // It has one that stands by again, and no more than one.
  m.porter->settled(0, true);
  m.fill(0, 64, 2);
  CHECK(m.carry(m.area(0), m.memory, 64));
  m.porter->release_one();
  returned = true;
  returned.notify_all();
  CHECK_EQUAL(m.driver.cuCtxSynchronize(), CUDA_SUCCESS);
  CHECK(!m.carry(m.area(0), m.memory, 64));
  m.driver.cuStreamDestroy_v2(held);
}

// Also where it has returned before that, or is never called.
TEST(one_that_was_let_go_is_made_up_for) {
  Machine m;
  const auto none_is_left = [&] {
    CHECK_EQUAL(m.driver.cuCtxSynchronize(), CUDA_SUCCESS);
    CHECK(!m.carry(m.area(0), m.memory, 64));
  };
  for (const bool is_there : {true, false}) {
    CHECK(m.porter->stand_by(0));
    m.let_go();
    CHECK_EQUAL(m.driver.cuCtxSynchronize(), CUDA_SUCCESS);
    if (is_there) m.porter->release_one();
    m.porter->settled(0, is_there);
    none_is_left();
  }
  // And the next one is as any.
  CHECK(m.porter->stand_by(0));
  m.porter->settled(0, true);
  CHECK(m.carry(m.area(0), m.memory, 64));
  m.porter->release_one();
  none_is_left();
}

namespace {

// A session of a tenant, one after another on one device.
struct Tenant {
  explicit Tenant(const std::shared_ptr<Device> &device) : Tenant(device, pair()) {}
  ~Tenant() {
    session.reset();
    guest.close();
    CHECK(over.get_future().get().reusable);
  }

  // Holds a stream by a function, which it begins to call.
  uint64_t hold() {
    wire_HostFunction q{};
    q.stream = guest.stream(1, CU_STREAM_NON_BLOCKING);
    q.function = 7;
    q.kind = WIRE_FUNCTION_ONCE;
    guest.put(WIRE_HostFunction, q);
    return guest.next(WIRE_CALL).as<wire_call>().call;
  }
  void returns(uint64_t call) {
    wire_HostFunctionDone q{};
    q.call = call;
    guest.put(WIRE_HostFunctionDone, q);
  }
  void echo() { CHECK_EQUAL(guest.call(WIRE_Echo, wire_Echo{}).reply.result, CUDA_SUCCESS); }
  void upload(uint64_t to, const std::string &payload) {
    wire_PagesUpload q{};
    q.address = to;
    q.length = payload.size();
    guest.put(WIRE_PagesUpload, q, payload);
  }

  std::promise<SessionEnd> over;
  Guest guest;
  std::shared_ptr<Session> session;

 private:
  static std::pair<int, int> pair() {
    int fds[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    return {fds[0], fds[1]};
  }
  Tenant(const std::shared_ptr<Device> &device, std::pair<int, int> fds) : guest(fds.first) {
    SessionOptions options;
    options.fd = fds.second;
    options.memory_limit = uint64_t{1} << 30;
    options.patience = std::chrono::seconds(60);
    options.on_end = [this](const SessionEnd &end) { over.set_value(end); };
    session = Session::start(device, std::move(options));
    close(fds.second);
  }
};

}  // namespace

// Kernels of the next session reach all pinned memory.
TEST(nothing_carried_is_left_for_the_next_session) {
  skip_without_device();
  DeviceOptions options;
  options.library = SOFTWARE_DEVICE;
  const std::shared_ptr<Device> device = Device::open(options);
  PagePorter *const porter = device->page_porter();
  CHECK(porter != nullptr);
  const uint64_t at = device->window_base();
  const std::string secret(5000, 's'), zeros(secret.size(), 0);
  const auto left = [&](unsigned which) {
    return std::string(reinterpret_cast<char *>(porter->area(which)), secret.size());
  };
  // With `attended`, a function is pending that a porter stands by for; else nobody carries, and
  // pages come to where they would be carried from all the same.
  for (const bool attended : {true, false}) {
    {
      Tenant tenant(device);
      tenant.guest.map(at, WIRE_GRANULE);
      tenant.guest.synchronize();
      if (!attended) porter->release_all();
      const auto keeps = std::make_unique<Session::Keeps>(*tenant.session);
      const uint64_t call = tenant.hold();
      tenant.upload(at, secret);
      CHECK_EQUAL(tenant.guest.download(at, secret.size()), secret);
      CHECK_EQUAL(left(0), secret);
      tenant.returns(call);
      CHECK_EQUAL(tenant.guest.synchronize().async, 0);
    }
    CHECK_EQUAL(left(0), zeros);
    CHECK_EQUAL(left(1), zeros);
  }
  // And it carries for the next one.
  Tenant next(device);
  device->bind();
  next.guest.map(at, WIRE_GRANULE);
  CHECK_EQUAL(next.guest.synchronize().async, 0);
  CHECK(porter->stand_by(0));
  memset(porter->area(), 'n', 64);
  const PagePorter::Order order{reinterpret_cast<uint64_t>(porter->area()), at, 64};
  CHECK(porter->carry({&order, 1}));
  porter->release_one();
  CHECK_EQUAL(next.guest.download(at, 64), std::string(64, 'n'));
}

// A function that does not return keeps a porter on the device, beside what others run there.
TEST(the_time_that_a_porter_is_there_is_charged) {
  skip_without_device();
  const std::shared_ptr<QuotaPage> page = QuotaPage::create();
  DeviceOptions options;
  options.library = SOFTWARE_DEVICE;
  options.quota_page_fd = page->fd();
  const std::shared_ptr<Device> device = Device::open(options);
  CHECK(device->page_porter() != nullptr);
  const uint64_t at = device->window_base();
  Tenant tenant(device);
  tenant.guest.map(at, WIRE_GRANULE);
  tenant.guest.synchronize();
  auto keeps = std::make_unique<Session::Keeps>(*tenant.session);
  const uint64_t call = tenant.hold();
  tenant.upload(at, std::string(5000, 'p'));
  tenant.echo();
  const uint64_t before = page->words().charged;
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < 500; i++) tenant.echo();
  const auto ended = std::chrono::steady_clock::now();
  tenant.returns(call);
  tenant.echo();
  const auto least = static_cast<uint64_t>(std::chrono::nanoseconds(ended - began).count());
  CHECK(page->words().charged - before >= least);
  CHECK(page->words().device_ns >= least);
}
