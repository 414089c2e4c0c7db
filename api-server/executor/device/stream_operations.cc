#include "device/stream_operations.h"

#include <atomic>
#include <chrono>
#include <future>
#include <system_error>
#include <thread>

#include "base/waiting.h"

namespace outboard {

namespace {

// More than any driver is known to take.
constexpr unsigned kMost = 2048;
// How often a stream is filled at most, until two times agree.
constexpr int kTimes = 5;
// How long a call that puts an operation on a stream does not take unless it waits.
constexpr std::chrono::milliseconds kWaits{20};

struct Filling {
  const Driver &driver;
  CUstream stream;
  CUevent event;
  std::promise<void> release{};
  std::atomic<unsigned> put{0};
  std::atomic<bool> over{false};

  void fill() {
    auto released = release.get_future();
    const CUresult held = driver.cuLaunchHostFunc(
        stream, [](void *data) { static_cast<std::future<void> *>(data)->wait(); }, &released);
    while (held == CUDA_SUCCESS && put.load() < kMost &&
           driver.cuEventRecord(event, stream) == CUDA_SUCCESS) {
      put.fetch_add(1);
    }
    over.store(true);
    driver.cuStreamSynchronize(stream);  // until then the function may look at `released`
  }
};

// How many were taken at once; kMost when nothing waited.
unsigned fill_once(const Driver &driver, const std::function<void()> &bind, CUstream stream,
                   CUevent event) {
  Filling filling{driver, stream, event};
  std::thread thread;
  try {
    thread = std::thread([&] {
      bind();
      filling.fill();
    });
  } catch (const std::system_error &) {
    return kMost;
  }
  unsigned seen = 0;
  auto since = std::chrono::steady_clock::now();
  while (!filling.over.load() && std::chrono::steady_clock::now() - since < kWaits) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (filling.put.load() == seen) continue;
    seen = filling.put.load();
    since = std::chrono::steady_clock::now();
  }
  const unsigned taken = filling.over.load() ? kMost : filling.put.load();
  filling.release.set_value();
  thread.join();
  return taken;
}

}  // namespace

unsigned measure_stream_operations(const Driver &driver, const std::function<void()> &bind) {
  CUstream stream = nullptr;
  CUevent event = nullptr;
  unsigned taken = kMost;
  if (driver.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0) == CUDA_SUCCESS &&
      driver.cuEventCreate(&event, kWaitEvent) == CUDA_SUCCESS) {
    // A thread that does not run for a while makes it fewer, never more: most of several times.
    unsigned least = kMost;
    taken = 0;
    for (int times = 0; times < kTimes && taken < kMost && taken != least; times++) {
      least = fill_once(driver, bind, stream, event);
      if (least > taken) std::swap(least, taken);
    }
  }
  if (event) driver.cuEventDestroy_v2(event);
  if (stream) driver.cuStreamDestroy_v2(stream);
  return taken < kMost ? taken : 0;
}

}  // namespace outboard
