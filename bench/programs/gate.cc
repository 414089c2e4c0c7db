// What the gate costs: a pass when it is open, measuring what is launched, and the time from quota
// tokens to the start of what is held.
//
//   bench-gate LIBRARY      a driver library; the software device's, or NVIDIA's
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/error.h"
#include "device/device.h"
#include "gate/gate.h"

namespace outboard {

// Passes as dispatch does.
struct GateBench {
  static Gate::Pass pass(Gate &gate, CUstream stream, KernelCost &kernel) {
    return Starts<Work::kKernel>(gate).launch(stream, kernel, 1);
  }
};

}  // namespace outboard

using namespace outboard;

namespace {

constexpr char kPtx[] = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u32 turns)
{
  .reg .u32 %r<4>;
  .reg .pred %p<2>;
  ld.param.u32 %r1, [turns];
  mov.u32 %r2, 0;
LOOP:
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p1, %r2, %r1;
  @%p1 bra LOOP;
  ret;
}
)";

double now(clockid_t clock = CLOCK_MONOTONIC) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void check(const Driver &driver, CUresult result, const char *what) {
  if (result == CUDA_SUCCESS) return;
  fprintf(stderr, "bench-gate: %s: %s\n", what, driver.describe(result).c_str());
  exit(1);
}

class Bench {
 public:
  explicit Bench(const std::shared_ptr<Device> &device)
      : device_(device), driver_(device->driver()), words_(device->quota_page()->words()) {
    check(driver_, driver_.cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0),
          "cuStreamCreateWithPriority");
    CUlibrary library;
    CUkernel kernel;
    check(driver_,
          driver_.cuLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0),
          "cuLibraryLoadData");
    check(driver_, driver_.cuLibraryGetKernel(&kernel, library, "spin"), "cuLibraryGetKernel");
    check(driver_, driver_.cuKernelGetFunction(&function_, kernel), "cuKernelGetFunction");
  }

  void passes() {
    for (bool measure : {false, true}) {
      const auto gate = open(measure);
      KernelCost &kernel = *gate->cost_of("spin");
      launch(*gate, kernel, 1);  // now something is known
      settle(*gate);
      std::vector<double> each;
      for (int repetition = 0; repetition < 51; repetition++) {
        constexpr int kPasses = 10000;
        const double start = now();
        for (int i = 0; i < kPasses; i++) {
          GateBench::pass(*gate, stream_, kernel).started(CUDA_SUCCESS);
        }
        each.push_back((now() - start) / kPasses);
        settle(*gate);
      }
      printf("pass, open, measuring %s: %.1f ns\n", measure ? "on" : "off", median(each));
    }
  }

  // Pairs of the same launches: wall time, and processor time of all threads, which a machine that
  // has other things to do makes no longer.
  void measuring(uint32_t turns, int launches) {
    std::vector<double> walls, processors, lengths;
    for (int repetition = 0; repetition < 31; repetition++) {
      double took[2], used[2];
      for (int k = 0; k < 2; k++) {
        const bool measure = (k ^ repetition) & 1;  // each goes first every other time
        const auto gate = open(measure);
        KernelCost &kernel = *gate->cost_of("spin");
        for (int i = 0; i < 4; i++) launch(*gate, kernel, turns);
        settle(*gate);
        const double start = now(), before = now(CLOCK_PROCESS_CPUTIME_ID);
        for (int i = 0; i < launches; i++) launch(*gate, kernel, turns);
        gate->close_current_group();
        driver_.cuStreamSynchronize(stream_);
        took[measure] = now() - start;
        settle(*gate);
        used[measure] = now(CLOCK_PROCESS_CPUTIME_ID) - before;
      }
      walls.push_back(took[1] / took[0]);
      processors.push_back(used[1] / used[0]);
      lengths.push_back(took[0] / launches);
    }
    printf("%d launches of %.1f us, measured: %+.2f %% wall, %+.2f %% processor\n", launches,
           median(lengths) / 1e3, (median(walls) - 1) * 100, (median(processors) - 1) * 100);
  }

  void wake() {
    const auto gate = open(true);
    KernelCost &kernel = *gate->cost_of("spin");
    words_.mode.store(kModeBlocks);
    std::vector<double> waits;
    for (uint64_t i = 0; i < 500; i++) {
      words_.limit.store(i);
      launch(*gate, kernel, 1);
      while (words_.gate_waits.load() != i + 1) {
      }
      const timespec pause{.tv_sec = 0, .tv_nsec = 500'000};
      nanosleep(&pause, nullptr);  // it sleeps deeply
      const double start = now();
      words_.limit.store(i + 1);
      device_->quota_page()->wake();
      while (words_.held.load() != 0) {
      }
      waits.push_back(now() - start);
      settle(*gate);
    }
    words_.mode.store(kModeOpen);
    const double middle = median(waits);
    std::sort(waits.begin(), waits.end());
    printf("from quota tokens to the start of what is held: %.1f us (99 %%: %.1f us)\n",
           middle / 1e3, waits[waits.size() * 99 / 100] / 1e3);
  }

 private:
  std::unique_ptr<Gate> open(bool measure) {
    words_.limit.store(kNoLimit);
    return std::make_unique<Gate>(driver_, device_->context(), device_->quota_page(),
                                  device_->hold_words(), nullptr, 0, 1,
                                  GateOptions{.measured = measure}, [this] { device_->bind(); });
  }
  void launch(Gate &gate, KernelCost &kernel, uint32_t turns) {
    void *parameters[] = {&turns};
    Gate::Pass pass = GateBench::pass(gate, stream_, kernel);
    check(driver_,
          pass.started(
              pass->cuLaunchKernel(function_, 1, 1, 1, 32, 1, 1, 0, stream_, parameters, nullptr)),
          "cuLaunchKernel");
  }
  void settle(Gate &gate) {
    gate.close_current_group();
    driver_.cuStreamSynchronize(stream_);
    gate.settle();
  }

  const std::shared_ptr<Device> device_;
  const Driver &driver_;
  QuotaWords &words_;
  CUstream stream_ = nullptr;
  CUfunction function_ = nullptr;
};

}  // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: bench-gate LIBRARY\n");
    return 2;
  }
  try {
    DeviceOptions options;
    options.library = argv[1];
    Bench bench(Device::open(options));
    bench.passes();
    bench.measuring(1, 5000);
    bench.measuring(200, 3000);
    bench.measuring(2000, 1000);
    bench.wake();
  } catch (const Error &error) {
    fprintf(stderr, "bench-gate: %s\n", error.what());
    return 1;
  }
}
