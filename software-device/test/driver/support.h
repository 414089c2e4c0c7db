// What the tests of the driver share: checks that say which result came, gates that hold a stream
// until the test opens them, and some kernels.
#pragma once

#include <semaphore.h>
#include <setjmp.h>

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
extern "C" {
#include <cmocka.h>
}

#include "cuda_driver.h"

inline const char *result_name(CUresult result) {
  const char *name = nullptr;
  return cuGetErrorName(result, &name) == CUDA_SUCCESS ? name : "no CUresult";
}

#define EXPECT(expected, call)                                                              \
  do {                                                                                      \
    CUresult got_ = (call);                                                                 \
    if (got_ != (expected))                                                                 \
      fail_msg("%s gave %s, expected %s", #call, result_name(got_), result_name(expected)); \
  } while (0)
#define OK(call) EXPECT(CUDA_SUCCESS, call)

// Holds a stream: what is queued behind it runs when the gate is opened.
class Gate {
 public:
  Gate() { sem_init(&semaphore_, 0, 0); }
  ~Gate() { sem_destroy(&semaphore_); }
  void hold(CUstream stream) { OK(cuLaunchHostFunc(stream, wait, &semaphore_)); }
  void open() { sem_post(&semaphore_); }

 private:
  static void wait(void *semaphore) {
    while (sem_wait(static_cast<sem_t *>(semaphore)) != 0) {
    }
  }
  sem_t semaphore_;
};

// Device 0's primary context, current.
inline int use_primary(void **) {
  CUcontext context;
  if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0)) return -1;
  return cuCtxSetCurrent(context);
}

inline int release_primary(void **) {
  cuDevicePrimaryCtxRelease_v2(0);
  return cuCtxSetCurrent(nullptr);
}

// Runs each test in a context of its own, so that one that is poisoned harms no other.
inline int fresh_context(void **state) {
  CUcontext context;
  if (cuInit(0) || cuCtxCreate_v2(&context, 0, 0)) return -1;
  *state = context;
  return 0;
}

inline int destroy_context(void **state) {
  return cuCtxDestroy_v2(static_cast<CUcontext>(*state)) == CUDA_SUCCESS ? 0 : -1;
}

// add_one(u32 *data, u32 count), store(u32 *at, u32 value), nothing(), reads_past(u32 *data, u64
// far), unknown() with an instruction that no device has, and two variables.
extern const char kKernels[];

inline CUmodule load_kernels() {
  CUmodule module;
  OK(cuModuleLoadData(&module, kKernels));
  return module;
}

inline CUfunction kernel(CUmodule module, const char *name) {
  CUfunction function;
  OK(cuModuleGetFunction(&function, module, name));
  return function;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh_context, destroy_context)
