// Lazy loading (the trait `lazy-loading`): code is compiled and loaded when it is first used. With
// CUDA_MODULE_LOADING=EAGER it is not.
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "support.h"

namespace {

constexpr useconds_t kMoment = 100'000;
constexpr size_t kVariable = 8 << 20;

const char kModule[] = R"(
.version 7.0
.target sm_52
.address_size 64
.global .b8 large[8388608];
.visible .entry first() { ret; }
.visible .entry second() { ret; }
)";
const char kBad[] = ".version 7.0\n.target sm_52\n.address_size 64\n.nonsense";

bool eager() {
  const char *loading = getenv("CUDA_MODULE_LOADING");
  return loading && strcmp(loading, "EAGER") == 0;
}

bool trait(const char *name) { return !eager() && strstr(getenv("SOFTWARE_DEVICE_TRAITS"), name); }
bool locking() { return trait("locking"); }
bool waiting() { return locking() || trait("waiting"); }

size_t free_memory() {
  size_t free, total;
  OK(cuMemGetInfo_v2(&free, &total));
  return free;
}

CUlibrary load() {
  CUlibrary library;
  OK(cuLibraryLoadData(&library, kModule, nullptr, nullptr, 0, nullptr, nullptr, 0));
  return library;
}

void memory_goes_at_the_first_use(void **) {
  const size_t before = free_memory();
  CUlibrary library = load();
  assert_int_equal(before - free_memory() >= kVariable, eager());
  CUmodule module;
  OK(cuLibraryGetModule(&module, library));
  assert_true(before - free_memory() >= kVariable);
  OK(cuLibraryUnload(library));
  assert_int_equal(free_memory(), before);
}

void what_is_wrong_is_said_at_the_first_use(void **) {
  CUlibrary library;
  CUmodule module;
  char messages[200] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {messages, reinterpret_cast<void *>(sizeof messages)};
  const CUresult loaded =
      cuLibraryLoadData(&library, kBad, options, values, 2, nullptr, nullptr, 0);
  if (eager()) {
    assert_int_equal(loaded, CUDA_ERROR_INVALID_PTX);
    assert_non_null(strstr(messages, "nonsense"));
    return;
  }
  assert_int_equal(loaded, CUDA_SUCCESS);
  assert_string_equal(messages, "");
  EXPECT(CUDA_ERROR_INVALID_PTX, cuLibraryGetModule(&module, library));
  assert_non_null(strstr(messages, "nonsense"));
  // The buffer may be gone by now.
  messages[0] = 0;
  EXPECT(CUDA_ERROR_INVALID_PTX, cuLibraryGetModule(&module, library));
  assert_string_equal(messages, "");
  OK(cuLibraryUnload(library));
}

// Checks whether `call` waits for a stream that is held. One that should not is over before that
// stream is let go, however long it takes; one that should has a moment in which it would be over.
template <class Call>
void check_waits(bool expected, Call call) {
  CUcontext context;
  OK(cuCtxGetCurrent(&context));
  CUstream held;
  OK(cuStreamCreate(&held, CU_STREAM_NON_BLOCKING));
  Gate gate;
  gate.hold(held);
  std::atomic<bool> opened{false}, waited{false};
  std::thread other([&] {
    OK(cuCtxSetCurrent(context));
    call();
    waited = opened.load();
  });
  if (expected)
    usleep(kMoment);
  else
    other.join();
  opened = true;
  gate.open();
  if (expected) other.join();
  assert_int_equal(waited, expected);
  OK(cuStreamSynchronize(held));
  OK(cuStreamDestroy_v2(held));
}

void the_first_use_may_wait_for_the_context(void **) {
  CUlibrary library = load();
  CUmodule module;
  check_waits(waiting(), [&] { OK(cuLibraryGetModule(&module, library)); });
  check_waits(false, [&] { OK(cuLibraryGetModule(&module, library)); });
  CUfunction function;
  const auto check_get = [&](bool expected, const char *name) {
    check_waits(expected, [&] { OK(cuModuleGetFunction(&function, module, name)); });
  };
  check_get(waiting(), "first");
  check_get(false, "first");
  CUkernel kernel;
  OK(cuLibraryGetKernel(&kernel, library, "second"));
  const auto launch = [&] {
    OK(cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1, 1, 1, 0,
                      CU_STREAM_PER_THREAD, nullptr, nullptr));
  };
  check_waits(waiting(), launch);
  check_waits(false, launch);
  check_get(false, "second");
  OK(cuCtxSynchronize());
  OK(cuLibraryUnload(library));
}

// While another thread waits for a held stream in the first use of a library.
void nobody_may_start_work_meanwhile(void **) {
  CUlibrary library = load();
  CUcontext context;
  OK(cuCtxGetCurrent(&context));
  CUstream held, other;
  OK(cuStreamCreate(&held, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  CUdeviceptr memory;
  OK(cuMemAlloc_v2(&memory, 4));
  Gate gate;
  gate.hold(held);
  std::atomic<bool> opened{false};
  std::thread loads([&] {
    OK(cuCtxSetCurrent(context));
    CUmodule module;
    OK(cuLibraryGetModule(&module, library));
  });
  std::atomic<unsigned> started{0};
  std::thread works([&] {
    OK(cuCtxSetCurrent(context));
    while (!opened) {
      OK(cuMemsetD32Async(memory, 7, 1, other));
      OK(cuStreamSynchronize(other));
      started++;
    }
  });
  // It goes on for as long as anybody looks, or comes to stand.
  for (unsigned before = ~0u; locking() ? before != started : started < 100;) {
    before = started;
    usleep(locking() ? kMoment : 0);
  }
  opened = true;
  gate.open();
  loads.join();
  works.join();
  OK(cuStreamSynchronize(held));
  OK(cuMemFree_v2(memory));
  OK(cuStreamDestroy_v2(held));
  OK(cuStreamDestroy_v2(other));
  OK(cuLibraryUnload(library));
}

void the_mode_is_told(void **) {
  CUmoduleLoadingMode mode;
  OK(cuModuleGetLoadingMode(&mode));
  assert_int_equal(mode, eager() ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(memory_goes_at_the_first_use, use_primary, release_primary),
      cmocka_unit_test_setup_teardown(what_is_wrong_is_said_at_the_first_use, use_primary,
                                      release_primary),
      cmocka_unit_test_setup_teardown(the_first_use_may_wait_for_the_context, use_primary,
                                      release_primary),
      cmocka_unit_test_setup_teardown(nobody_may_start_work_meanwhile, use_primary,
                                      release_primary),
      cmocka_unit_test(the_mode_is_told),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
