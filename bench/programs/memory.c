// bench-memory: what the driver library adds to the memory of a program, in MiB: once it is
// attached and idles, and while it is busy. The library is loaded when the program's own memory is
// there and touched, so that all that comes after is the library's, the libraries that it needs
// included.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "cuda_driver.h"
#include "figure.h"
#include "kernel.h"

#define MIB ((size_t)1 << 20)
#define COPY (64 * MIB)
#define LAUNCHES 20000
#define ROUNDS 4

#define CALLS(call)               \
  call(cuInit);                   \
  call(cuDeviceGet);              \
  call(cuDevicePrimaryCtxRetain); \
  call(cuCtxSetCurrent);          \
  call(cuModuleLoadData);         \
  call(cuModuleGetFunction);      \
  call(cuMemAlloc_v2);            \
  call(cuMemHostAlloc);           \
  call(cuLaunchKernel);           \
  call(cuMemcpyHtoD_v2);          \
  call(cuMemcpyDtoH_v2);          \
  call(cuMemcpyHtoDAsync_v2);     \
  call(cuMemcpyDtoHAsync_v2);     \
  call(cuCtxSynchronize)

#define POINTER(name) __typeof__(&name) name##_p
struct driver {
  CALLS(POINTER);
};

#define CHECK(call)                                        \
  do {                                                     \
    CUresult check_result = (call);                        \
    if (check_result) FAIL("%s: %d", #call, check_result); \
  } while (0)

static struct driver load(void) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) FAIL("%s", dlerror());
  struct driver driver;
#define FIND(name)                                    \
  *(void **)&driver.name##_p = dlsym(library, #name); \
  if (!driver.name##_p) FAIL("the library has no " #name)
  CALLS(FIND);
  return driver;
}

// ---- what the system counts
// -----------------------------------------------------------------------

struct memory {
  double resident, proportional, dirty, peak;
};

// The lines "NAME: NUMBER kB" of a file, without allocating.
static double kibibytes(const char *path, const char *name) {
  static char text[8192];
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
  if (size < 0) FAIL("%s cannot be read", path);
  close(fd);
  text[size] = 0;
  const char *line = strstr(text, name);
  if (!line) FAIL("%s has no line %s", path, name);
  return atof(line + strlen(name));
}

static struct memory memory_now(void) {
  static const char rollup[] = "/proc/self/smaps_rollup";
  return (struct memory){.resident = kibibytes(rollup, "\nRss:") / 1024,
                         .proportional = kibibytes(rollup, "\nPss:") / 1024,
                         .dirty = kibibytes(rollup, "\nPrivate_Dirty:") / 1024,
                         .peak = kibibytes("/proc/self/status", "\nVmHWM:") / 1024};
}

// The highest amount from here on is asked for next.
static void forget_peak(void) {
  int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (fd < 0 || write(fd, "5", 1) != 1) FAIL("/proc/self/clear_refs cannot be written");
  close(fd);
}

static void *own_memory(void) {
  unsigned *words = malloc(COPY), state = 0x5eed;
  if (!words) FAIL("no memory");
  for (size_t i = 0; i < COPY / sizeof *words; i++)
    words[i] = state = state * 1664525u + 1013904223u;
  return words;
}

int main(void) {
  void *data = own_memory(), *back = own_memory();
  forget_peak();
  memory_now();
  struct memory own = memory_now();

  // ---- attached, with a kernel loaded and launched once
  struct driver cu = load();
  CUdevice device;
  CUcontext context;
  CUmodule module;
  CUfunction kernel;
  CUdeviceptr memory;
  CHECK(cu.cuInit_p(0));
  CHECK(cu.cuDeviceGet_p(&device, 0));
  CHECK(cu.cuDevicePrimaryCtxRetain_p(&context, device));
  CHECK(cu.cuCtxSetCurrent_p(context));
  CHECK(cu.cuModuleLoadData_p(&module, kernel_ptx));
  CHECK(cu.cuModuleGetFunction_p(&kernel, module, kernel_name));
  CHECK(cu.cuMemAlloc_v2_p(&memory, COPY));
  unsigned b = 7;
  float c = 1.5f;
  void *parameters[] = {&memory, &b, &c};
  CHECK(cu.cuLaunchKernel_p(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL));
  CHECK(cu.cuCtxSynchronize_p());
  struct memory idle = memory_now();

  // ---- busy, with the program's own memory and then with pinned memory, which is the program's
  // too
  forget_peak();
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < LAUNCHES; i++)
      CHECK(cu.cuLaunchKernel_p(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL));
    CHECK(cu.cuMemcpyHtoD_v2_p(memory, data, COPY));
    CHECK(cu.cuMemcpyDtoH_v2_p(back, memory, COPY));
  }
  if (memcmp(data, back, COPY)) FAIL("other bytes came back than were sent");
  double pageable = memory_now().peak;
  void *pinned;
  CHECK(cu.cuMemHostAlloc_p(&pinned, COPY, 0));
  memset(pinned, 1, COPY);
  forget_peak();
  for (int round = 0; round < ROUNDS; round++) {
    CHECK(cu.cuMemcpyHtoDAsync_v2_p(memory, pinned, COPY, NULL));
    CHECK(cu.cuMemcpyDtoHAsync_v2_p(pinned, memory, COPY, NULL));
    CHECK(cu.cuCtxSynchronize_p());
  }
  struct memory busy = memory_now();
  busy.peak -= (double)COPY / MIB;
  busy.dirty -= (double)COPY / MIB;

  figure("memory-idle", "cuda", idle.resident - own.resident);
  figure("memory-idle-pss", "cuda", idle.proportional - own.proportional);
  figure("memory-idle-dirty", "cuda", idle.dirty - own.dirty);
  figure("memory-busy", "cuda", (busy.peak > pageable ? busy.peak : pageable) - own.resident);
  figure("memory-busy-dirty", "cuda", busy.dirty - own.dirty);
  return 0;
}
