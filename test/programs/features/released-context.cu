// Streams and events of a primary context that was released for the last time: they are gone,
// whatever is current, and do not come back with the context.
// flags: -lcuda
#include <cuda.h>

#include "../check.h"

#define TELL(...)                           \
  do {                                      \
    const CUresult told = __VA_ARGS__;      \
    const char *name = "?";                 \
    cuGetErrorName(told, &name);            \
    printf("%s: %s\n", #__VA_ARGS__, name); \
  } while (0)
static CUstream stream;
static CUevent event;
static CUdeviceptr memory;

static void all() {
  TELL(cuStreamSynchronize(stream));
  TELL(cuStreamQuery(stream));
  TELL(cuStreamSynchronize(nullptr));
  TELL(cuEventRecord(event, stream));
  TELL(cuStreamWaitEvent(stream, event, 0));
  TELL(cuEventSynchronize(event));
  TELL(cuEventQuery(event));
  TELL(cuMemsetD32Async(memory, 1, 1, stream));
  unsigned flags;
  TELL(cuStreamGetFlags(stream, &flags));
  CUcontext of;
  TELL(cuStreamGetCtx(stream, &of));
  TELL(cuLaunchHostFunc(
      stream, [](void *) {}, nullptr));
  CUstreamCaptureStatus status;
  TELL(cuStreamIsCapturing(stream, &status));
}

int main() {
  CUcontext primary, made;
  TELL(cuInit(0));
  TELL(cuDevicePrimaryCtxRetain(&primary, 0));
  TELL(cuCtxSetCurrent(primary));
  TELL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  TELL(cuEventCreate(&event, 0));
  TELL(cuMemAlloc(&memory, 64));
  all();
  puts("-- released, current");
  TELL(cuDevicePrimaryCtxRelease(0));
  all();
  puts("-- none current");
  TELL(cuCtxSetCurrent(nullptr));
  all();
  puts("-- another current");
  TELL(cuCtxCreate(&made, nullptr, 0, 0));
  all();
  puts("-- retained again");
  TELL(cuDevicePrimaryCtxRetain(&primary, 0));
  all();
  TELL(cuCtxSetCurrent(primary));
  all();
  TELL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  TELL(cuEventCreate(&event, 0));
  TELL(cuMemAlloc(&memory, 64));
  TELL(cuCtxSetCurrent(made));
  puts("-- of the primary");
  all();
  puts("-- the other one destroyed");
  TELL(cuCtxDestroy(made));
  all();
  puts("-- released");
  TELL(cuDevicePrimaryCtxRelease(0));
  TELL(cuEventDestroy(event));
  TELL(cuStreamDestroy(stream));
  return 0;
}
