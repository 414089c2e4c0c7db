// Time slices (the trait `time-slices`): kernels of processes that share a device run in turn.
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "entry/work.h"
#include "support.h"

namespace {

constexpr float kSliceMs = 2;

// Each writes its own number into the cell, again and again, until it has found another one's
// there so many times: as often as another process has had a slice in between.
constexpr char kSwitches[] = R"(
.version 8.0
.target sm_70
.address_size 64
.visible .entry switches(.param .u64 cell, .param .u32 me, .param .u32 most)
{
  .reg .u64 %at;
  .reg .u32 %me, %most, %old, %seen;
  .reg .pred %same, %go;
  ld.param.u64 %at, [cell];
  ld.param.u32 %me, [me];
  ld.param.u32 %most, [most];
  mov.u32 %seen, 0;
again:
  atom.exch.sys.b32 %old, [%at], %me;
  setp.eq.u32 %same, %old, %me;
  @!%same add.u32 %seen, %seen, 1;
  setp.lt.u32 %go, %seen, %most;
  @%go bra again;
  ret;
}
)";

uint32_t *cell() {
  static void *const memory =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(memory != MAP_FAILED);
  return static_cast<uint32_t *>(memory);
}

// Launches the kernel in this process, which uses the device from now on.
void launch(uint32_t me, uint32_t most) {
  assert_int_equal(use_primary(nullptr), 0);
  CUdeviceptr at;
  OK(cuMemHostRegister_v2(cell(), 4096, CU_MEMHOSTREGISTER_DEVICEMAP));
  OK(cuMemHostGetDevicePointer_v2(&at, cell(), 0));
  CUmodule module;
  CUfunction function;
  OK(cuModuleLoadData(&module, kSwitches));
  OK(cuModuleGetFunction(&function, module, "switches"));
  void *parameters[] = {&at, &me, &most};
  CUevent start, end;
  OK(cuEventCreate(&start, 0));
  OK(cuEventCreate(&end, 0));
  OK(cuEventRecord(start, nullptr));
  OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  OK(cuEventRecord(end, nullptr));
  OK(cuCtxSynchronize());
  float ms;
  OK(cuEventElapsedTime(&ms, start, end));
  // Every other one's slice is in it; but the first may have been over before.
  if (ms < static_cast<float>(most - 1) * kSliceMs) fail_msg("%u slices took %g ms", most, ms);
  OK(cuMemHostUnregister(cell()));
}

// A process whose kernel has no end.
class Endless {
 public:
  explicit Endless(uint32_t me) : child_(fork()) {
    assert_true(child_ >= 0);
    if (child_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    launch(me, UINT32_MAX);
    _exit(1);
  }
  ~Endless() { die(); }
  void die() {
    if (child_ == 0) return;
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    child_ = 0;
  }

 private:
  pid_t child_;
};

// In a process of its own: one that has used the device cannot fork.
void in_another(void (*run)()) {
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    run();
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

void kernels_of_two_processes_run_in_turn(void **) {
  const Endless other(1);
  in_another([] { launch(2, 12); });
}

void and_those_of_three(void **) {
  const Endless one(1), two(2);
  in_another([] { launch(3, 6); });
}

void a_process_that_dies_gives_its_slice_back(void **) {
  Endless dies(1);
  in_another([] { launch(2, 3); });
  dies.die();
  *cell() = 0;
  in_another([] { launch(2, 1); });
}

void work_is_not_counted(void **) {
  in_another([] {
    uint64_t ns;
    uint32_t workers;
    assert_int_equal(use_primary(nullptr), 0);
    EXPECT(CUDA_ERROR_NOT_SUPPORTED, softwareDeviceWorkNs(nullptr, &ns, &workers));
  });
}

}  // namespace

int main() {
  cell();
  const CMUnitTest tests[] = {
      cmocka_unit_test(kernels_of_two_processes_run_in_turn),
      cmocka_unit_test(and_those_of_three),
      cmocka_unit_test(a_process_that_dies_gives_its_slice_back),
      cmocka_unit_test(work_is_not_counted),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
