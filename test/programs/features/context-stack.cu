// The stack of contexts, their flags and settings, every version of the calls that make and end
// them, and the primary context's state and reset.
// flags: -lcuda -ldl -Xcompiler=-Wno-deprecated-declarations
#include "../check.h"
#include "../check_driver.h"
#include "../old_call.h"

namespace {

void state(CUdevice device) {
  unsigned flags = 99;
  int active = 99;
  SHOW_DRIVER(cuDevicePrimaryCtxGetState(device, &flags, &active));
  printf("flags %u, active %d\n", flags, active);
}

// Which of those known is current.
void current(const CUcontext *known, int count) {
  CUcontext context;
  DRIVER(cuCtxGetCurrent(&context));
  for (int i = 0; i < count; i++)
    if (known[i] == context) printf("current: %d\n", i);
}

}  // namespace

int main() {
  CUdevice device = 0, found = 7;
  CUcontext of[6] = {}, popped = nullptr;
  DRIVER(cuInit(0));
  SHOW_DRIVER(cuCtxGetDevice(&found));
  SHOW_DRIVER(cuCtxPopCurrent(&popped));
  SHOW_DRIVER(cuCtxPushCurrent(nullptr));

  printf("-- the primary context\n");
  state(device);
  SHOW_DRIVER(cuDevicePrimaryCtxSetFlags(device, CU_CTX_SCHED_BLOCKING_SYNC));
  SHOW_DRIVER(OLD_CALL(cuDevicePrimaryCtxSetFlags, CUdevice, unsigned)(device, CU_CTX_SCHED_SPIN));
  SHOW_DRIVER(cuDevicePrimaryCtxSetFlags(device, 0x100000));
  SHOW_DRIVER(cuDevicePrimaryCtxSetFlags(1000, 0));
  state(device);
  SHOW_DRIVER(cuDevicePrimaryCtxRetain(&of[1], device));
  state(device);
  SHOW_DRIVER(cuDevicePrimaryCtxGetState(1000, nullptr, nullptr));

  printf("-- made by every version\n");
  SHOW_DRIVER(OLD_CALL(cuCtxCreate, CUcontext *, unsigned, CUdevice)(&of[2], 0, device));
  SHOW_DRIVER(OLD_CALL(cuCtxCreate_v2, CUcontext *, unsigned, CUdevice)(
      &of[3], CU_CTX_SCHED_YIELD | CU_CTX_MAP_HOST, device));
  SHOW_DRIVER(OLD_CALL(cuCtxCreate_v3, CUcontext *, CUexecAffinityParam *, int, unsigned, CUdevice)(
      &of[4], nullptr, 0, CU_CTX_SCHED_AUTO, device));
  SHOW_DRIVER(cuCtxCreate(&of[5], nullptr, CU_CTX_SCHED_BLOCKING_SYNC, device));
  SHOW_DRIVER(cuCtxCreate(&popped, nullptr, 0x7000000, device));
  SHOW_DRIVER(cuCtxCreate(&popped, nullptr, CU_CTX_SCHED_SPIN | CU_CTX_SCHED_YIELD, device));
  SHOW_DRIVER(cuCtxCreate(&popped, nullptr, 0, 1000));
  SHOW_DRIVER(cuCtxCreate(nullptr, nullptr, 0, device));
  unsigned long long ids[6] = {};
  for (int i = 1; i < 6; i++) {
    unsigned version = 0;
    SHOW_DRIVER(cuCtxGetId(of[i], &ids[i]));
    for (int j = 1; j < i; j++)
      if (ids[i] == ids[j]) printf("%d has the number of %d\n", i, j);
    SHOW_DRIVER(cuCtxGetApiVersion(of[i], &version));
    printf("version %u\n", version);
  }
  SHOW_DRIVER(cuCtxGetId(of[2], nullptr));

  printf("-- the stack\n");
  current(of, 6);
  SHOW_DRIVER(cuCtxPushCurrent(of[1]));
  SHOW_DRIVER(OLD_CALL(cuCtxPushCurrent, CUcontext)(of[3]));
  current(of, 6);
  unsigned flags = 99;
  SHOW_DRIVER(cuCtxGetFlags(&flags));
  printf("flags %#x\n", flags);
  SHOW_DRIVER(cuCtxSetFlags(CU_CTX_SCHED_SPIN));
  SHOW_DRIVER(cuCtxGetFlags(&flags));
  printf("flags %#x\n", flags);
  SHOW_DRIVER(cuCtxSetFlags(0x100000));
  SHOW_DRIVER(cuCtxGetFlags(nullptr));
  SHOW_DRIVER(cuCtxPopCurrent(&popped));
  printf("popped the pushed: %d\n", popped == of[3]);
  SHOW_DRIVER(OLD_CALL(cuCtxPopCurrent, CUcontext *)(&popped));
  printf("popped the primary: %d\n", popped == of[1]);
  current(of, 6);
  // One that is below another in the stack ends.
  SHOW_DRIVER(cuCtxDestroy(of[4]));
  SHOW_DRIVER(cuCtxPopCurrent(nullptr));
  current(of, 6);
  SHOW_DRIVER(cuCtxGetDevice(&found));
  printf("device %d\n", found);
  SHOW_DRIVER(cuCtxSetCurrent(of[5]));
  SHOW_DRIVER(cuCtxGetDevice(nullptr));

  printf("-- settings\n");
  CUfunc_cache cache = static_cast<CUfunc_cache>(9);
  CUsharedconfig shared = static_cast<CUsharedconfig>(9);
  SHOW_DRIVER(cuCtxGetCacheConfig(&cache));
  printf("cache %d\n", cache);
  SHOW_DRIVER(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1));
  SHOW_DRIVER(cuCtxGetCacheConfig(&cache));
  printf("cache %d\n", cache);
  SHOW_DRIVER(cuCtxSetCacheConfig(static_cast<CUfunc_cache>(9)));
  SHOW_DRIVER(cuCtxGetSharedMemConfig(&shared));
  printf("banks %d\n", shared);
  SHOW_DRIVER(cuCtxSetSharedMemConfig(CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE));
  SHOW_DRIVER(cuCtxGetSharedMemConfig(&shared));
  SHOW_DRIVER(cuCtxSetSharedMemConfig(static_cast<CUsharedconfig>(9)));
  SHOW_DRIVER(cuCtxResetPersistingL2Cache());

  printf("-- streams know theirs\n");
  CUstream stream;
  CUevent event;
  CUcontext owner = nullptr;
  CUgreenCtx green = nullptr;
  SHOW_DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  SHOW_DRIVER(cuStreamGetCtx(stream, &owner));
  printf("its own: %d\n", owner == of[5]);
  SHOW_DRIVER(
      OLD_CALL(cuStreamGetCtx_v2, CUstream, CUcontext *, CUgreenCtx *)(stream, &owner, &green));
  printf("its own: %d, none that is green: %d\n", owner == of[5], green == nullptr);
  SHOW_DRIVER(cuStreamGetGreenCtx(stream, &green));
  printf("none: %d\n", green == nullptr);
  SHOW_DRIVER(cuStreamGetCtx(nullptr, &owner));
  printf("of the legacy stream: %d\n", owner == of[5]);
  SHOW_DRIVER(cuEventCreate(&event, CU_EVENT_DEFAULT));
  SHOW_DRIVER(cuEventRecord(event, stream));
  SHOW_DRIVER(cuEventSynchronize(event));
  float milliseconds = -1;
  SHOW_DRIVER(OLD_CALL(cuEventElapsedTime, float *, CUevent, CUevent)(&milliseconds, event, event));
  printf("from one to itself: %g\n", milliseconds);
  SHOW_DRIVER(OLD_CALL(cuEventDestroy, CUevent)(event));
  SHOW_DRIVER(OLD_CALL(cuEventDestroy, CUevent)(nullptr));
  SHOW_DRIVER(OLD_CALL(cuStreamDestroy, CUstream)(stream));
  SHOW_DRIVER(OLD_CALL(cuStreamDestroy, CUstream)(nullptr));

  printf("-- ends\n");
  SHOW_DRIVER(OLD_CALL(cuCtxDestroy, CUcontext)(of[5]));
  current(of, 6);
  SHOW_DRIVER(cuCtxDestroy(of[3]));
  SHOW_DRIVER(cuCtxDestroy(of[2]));
  SHOW_DRIVER(cuCtxDestroy(of[1]));
  current(of, 6);

  printf("-- the primary context begins anew\n");
  CUdeviceptr memory;
  SHOW_DRIVER(cuCtxSetCurrent(of[1]));
  SHOW_DRIVER(cuMemAlloc(&memory, 1 << 20));
  SHOW_DRIVER(cuDevicePrimaryCtxReset(device));
  state(device);
  SHOW_DRIVER(cuMemFree(memory));
  SHOW_DRIVER(cuDevicePrimaryCtxReset(1000));
  SHOW_DRIVER(cuDevicePrimaryCtxRetain(&popped, device));
  state(device);
  SHOW_DRIVER(cuCtxSetCurrent(popped));
  SHOW_DRIVER(cuMemAlloc(&memory, 1 << 20));
  SHOW_DRIVER(cuMemsetD8(memory, 1, 1 << 20));
  SHOW_DRIVER(cuMemFree(memory));
  SHOW_DRIVER(cuDevicePrimaryCtxRelease(device));
  SHOW_DRIVER(cuDevicePrimaryCtxRelease(device));
  state(device);
  return 0;
}
