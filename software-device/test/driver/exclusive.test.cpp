// Exclusive-process mode (the trait `exclusive-process`): a device is one process's at a time; and
// prohibited mode, where it is nobody's.
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "support.h"

namespace {

// What another process, which begins anew, gets for a context.
template <class Ask>
CUresult elsewhere(Ask ask) {
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) _exit(cuInit(0) ? 99 : ask());
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  return static_cast<CUresult>(WEXITSTATUS(status));
}

CUresult retain() {
  CUcontext context;
  return cuDevicePrimaryCtxRetain(&context, 0);
}
CUresult create() {
  CUcontext context;
  return cuCtxCreate_v2(&context, 0, 0);
}

// Has the device in a process of its own, from its making on until it is let go.
class Holder {
 public:
  explicit Holder(CUresult (*take)()) {
    int ready[2], go[2];
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(go), 0);
    child_ = fork();
    assert_true(child_ >= 0);
    char byte = 0;
    if (child_ == 0) {
      close(go[1]);
      if (cuInit(0) || take() || write(ready[1], &byte, 1) != 1) _exit(1);
      _exit(read(go[0], &byte, 1) != 0);
    }
    close(go[0]);
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    go_ = go[1];
  }
  ~Holder() {
    close(go_);
    int status;
    waitpid(child_, &status, 0);
  }

 private:
  pid_t child_;
  int go_;
};

void a_second_process_gets_no_context(void **) {
  for (CUresult (*take)() : {retain, create}) {
    const Holder holder(take);
    EXPECT(CUDA_ERROR_DEVICE_UNAVAILABLE, elsewhere(retain));
    EXPECT(CUDA_ERROR_DEVICE_UNAVAILABLE, elsewhere(create));
    // It may look at the device.
    OK(elsewhere([] {
      int mode;
      const CUresult result = cuDeviceGetAttribute(&mode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, 0);
      return result || mode == CU_COMPUTEMODE_EXCLUSIVE_PROCESS ? result : CUDA_ERROR_UNKNOWN;
    }));
  }
  // It ended without a word.
  OK(elsewhere(retain));
}

void the_last_context_lets_go(void **) {
  const auto one_of_two = [] {
    CUcontext made;
    if (const CUresult bad = retain()) return bad;
    if (const CUresult bad = cuCtxCreate_v2(&made, 0, 0)) return bad;
    return cuDevicePrimaryCtxRelease_v2(0);
  };
  {
    const Holder holder(one_of_two);
    EXPECT(CUDA_ERROR_DEVICE_UNAVAILABLE, elsewhere(retain));
  }
  const Holder holder([] {
    CUcontext made;
    if (const CUresult bad = retain()) return bad;
    if (const CUresult bad = cuCtxCreate_v2(&made, 0, 0)) return bad;
    if (const CUresult bad = cuCtxDestroy_v2(made)) return bad;
    return cuDevicePrimaryCtxReset_v2(0);
  });
  OK(elsewhere(retain));
  OK(elsewhere(create));
}

void nobody_gets_a_context(void **) {
  int mode;
  OK(cuInit(0));
  OK(cuDeviceGetAttribute(&mode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, 0));
  assert_int_equal(mode, CU_COMPUTEMODE_PROHIBITED);
  EXPECT(CUDA_ERROR_UNKNOWN, retain());
  EXPECT(CUDA_ERROR_UNKNOWN, create());
}

}  // namespace

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "prohibited") == 0) {
    const CMUnitTest prohibited[] = {cmocka_unit_test(nobody_gets_a_context)};
    return cmocka_run_group_tests(prohibited, nullptr, nullptr);
  }
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_second_process_gets_no_context),
      cmocka_unit_test(the_last_context_lets_go),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
