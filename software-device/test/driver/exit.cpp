// A program that ends in the middle of things, as programs do: with work queued, memory held,
// threads of ours running, and calls made from a destructor that runs after main.
#include <unistd.h>

#include <cstdio>

#include "cuda_driver.h"

static CUcontext context;
static bool held;

struct AfterMain {
  ~AfterMain() {
    if (held) return;  // a release would wait for it
    // What the runtime does at exit.
    if (cuCtxSetCurrent(context) != CUDA_SUCCESS) puts("cuCtxSetCurrent failed after main");
    if (cuDevicePrimaryCtxRelease_v2(0) != CUDA_SUCCESS) puts("release failed after main");
    puts("released");
  }
} after_main;

int main(int count, char **) {
  CUdeviceptr address;
  CUstream stream;
  if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
      cuMemAlloc_v2(&address, 64 << 20) || cuStreamCreate(&stream, 0))
    return 1;
  for (int i = 0; i < 8; i++)
    if (cuMemsetD8Async(address, static_cast<unsigned char>(i + 1), 64 << 20, stream)) return 1;
  if (count > 1) {
    held = true;
    const CUhostFn forever = [](void *) {
      for (;;) pause();
    };
    if (cuLaunchHostFunc(stream, forever, nullptr)) return 1;
  }
  return 0;
}
