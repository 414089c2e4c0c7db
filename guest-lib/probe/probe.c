// A first session from end to end, for `outboard doctor`: attaches, loads a module, runs its kernel
// and looks at what it has computed. Each step is a line of JSON with its time; the first that
// fails is the last, and the exit code is 1. The PTX is old enough for every GPU and driver in use.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cuda_driver.h"

#define COUNT 1024

static const char ptx[] =
    ".version 6.0\n"
    ".target sm_50\n"
    ".address_size 64\n"
    ".visible .entry probe(.param .u64 out, .param .u32 from)\n"
    "{\n"
    "  .reg .b32 %r<6>;\n"
    "  .reg .b64 %d<4>;\n"
    "  ld.param.u64 %d0, [out];\n"
    "  ld.param.u32 %r0, [from];\n"
    "  mov.u32 %r1, %ctaid.x;\n"
    "  mov.u32 %r2, %ntid.x;\n"
    "  mov.u32 %r3, %tid.x;\n"
    "  mad.lo.s32 %r4, %r1, %r2, %r3;\n"
    "  mad.lo.s32 %r5, %r4, %r4, %r0;\n"
    "  cvta.to.global.u64 %d1, %d0;\n"
    "  mul.wide.u32 %d2, %r4, 4;\n"
    "  add.s64 %d3, %d1, %d2;\n"
    "  st.global.u32 [%d3], %r5;\n"
    "  ret;\n"
    "}\n";

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double begun;

static void passed(const char *step, const char *more) {
  double at = now();
  printf("{\"step\":\"%s\",\"ok\":true,\"seconds\":%.6f%s}\n", step, at - begun, more);
  fflush(stdout);
  begun = now();
}

static int failed(const char *step, const char *why) {
  printf("{\"step\":\"%s\",\"ok\":false,\"seconds\":%.6f,\"why\":\"%s\"}\n", step, now() - begun,
         why);
  return 1;
}

static CUresult (*get_error_name)(CUresult, const char **);
static const char *name_of(CUresult result) {
  const char *name;
  return get_error_name(result, &name) ? "an unknown error" : name;
}

// Text of a driver within JSON.
static void quoted(const char *text, char *out, size_t size) {
  size_t used = 0;
  for (; *text && used + 2 < size; text++)
    if ((unsigned char)*text >= ' ' && *text != '"' && *text != '\\') out[used++] = *text;
  out[used] = 0;
}

static int has_computed(const unsigned *got, unsigned from) {
  for (unsigned i = 0; i < COUNT; i++)
    if (got[i] != i * i + from) return 0;
  return 1;
}

int main(void) {
  begun = now();
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) return failed("library", "libcuda.so.1 cannot be loaded");
#define TAKE(variable, name)                                             \
  __typeof__(&name) variable = (__typeof__(&name))dlsym(library, #name); \
  if (!variable) return failed("library", "libcuda.so.1 has no " #name)
  TAKE(error_name, cuGetErrorName);
  TAKE(init, cuInit);
  TAKE(device_get, cuDeviceGet);
  TAKE(device_name, cuDeviceGetName);
  TAKE(device_memory, cuDeviceTotalMem_v2);
  TAKE(retain, cuDevicePrimaryCtxRetain);
  TAKE(set_current, cuCtxSetCurrent);
  TAKE(load, cuModuleLoadData);
  TAKE(get_function, cuModuleGetFunction);
  TAKE(allocate, cuMemAlloc_v2);
  TAKE(launch, cuLaunchKernel);
  TAKE(download, cuMemcpyDtoH_v2);
  TAKE(release, cuMemFree_v2);
  get_error_name = error_name;
#define MUST(step, call)                              \
  do {                                                \
    CUresult result = (call);                         \
    if (result) return failed(step, name_of(result)); \
  } while (0)

  MUST("attach", init(0));
  CUdevice device;
  char name[256] = "", shown[256], more[400];
  size_t memory = 0;
  MUST("attach", device_get(&device, 0));
  MUST("attach", device_name(name, sizeof name, device));
  MUST("attach", device_memory(&memory, device));
  quoted(name, shown, sizeof shown);
  snprintf(more, sizeof more, ",\"device\":\"%s\",\"memory\":%zu", shown, memory);
  passed("attach", more);

  CUcontext context;
  CUmodule module;
  CUfunction function;
  MUST("module", retain(&context, device));
  MUST("module", set_current(context));
  MUST("module", load(&module, ptx));
  MUST("module", get_function(&function, module, "probe"));
  passed("module", "");

  CUdeviceptr out;
  unsigned from = (unsigned)(now() * 1e6);
  static unsigned got[COUNT];
  void *parameters[] = {&out, &from};
  MUST("kernel", allocate(&out, sizeof got));
  MUST("kernel", launch(function, COUNT / 256, 1, 1, 256, 1, 1, 0, NULL, parameters, NULL));
  MUST("kernel", download(got, out, sizeof got));
  if (!has_computed(got, from)) return failed("kernel", "what the kernel has computed is wrong");
  passed("kernel", "");

  // Warm: the way there and back, and a small kernel.
  from++;
  MUST("again", launch(function, COUNT / 256, 1, 1, 256, 1, 1, 0, NULL, parameters, NULL));
  MUST("again", download(got, out, sizeof got));
  if (!has_computed(got, from)) return failed("again", "what the kernel has computed is wrong");
  MUST("again", release(out));
  passed("again", "");
  return 0;
}
