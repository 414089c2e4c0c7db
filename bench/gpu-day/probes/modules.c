// When code is loaded and its errors come, and which limits can be set.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe.h"

const char probe_ptx[] =
    ".version 7.0\n"
    ".target sm_70\n"
    ".address_size 64\n"
    ".visible .entry nothing()\n"
    "{\n"
    "  ret;\n"
    "}\n"
    ".visible .entry counts(.param .u32 turns)\n"
    "{\n"
    "  .reg .u32 %r<4>;\n"
    "  .reg .pred %p<2>;\n"
    "  ld.param.u32 %r1, [turns];\n"
    "  mov.u32 %r2, 0;\n"
    "  mov.u32 %r3, %tid.x;\n"
    "LOOP:\n"
    "  mad.lo.u32 %r3, %r3, 1664525, 1013904223;\n"
    "  add.u32 %r2, %r2, 1;\n"
    "  setp.lt.u32 %p1, %r2, %r1;\n"
    "  @%p1 bra LOOP;\n"
    "  setp.eq.u32 %p1, %r3, 1;\n"
    "  @%p1 trap;\n"
    "  ret;\n"
    "}\n"
    ".visible .entry deep(.param .u32 turns)\n"
    "{\n"
    "  .local .align 4 .b8 stack[32768];\n"
    "  .reg .u32 %r<6>;\n"
    "  .reg .u64 %rd<4>;\n"
    "  .reg .pred %p<2>;\n"
    "  ld.param.u32 %r1, [turns];\n"
    "  mov.u64 %rd1, stack;\n"
    "  and.b32 %r2, %r1, 8191;\n"
    "  mul.wide.u32 %rd2, %r2, 4;\n"
    "  add.u64 %rd3, %rd1, %rd2;\n"
    "  st.local.u32 [%rd3], %r1;\n"
    "  ld.local.u32 %r3, [stack+4];\n"
    "  setp.eq.u32 %p1, %r3, 77777;\n"
    "  @%p1 trap;\n"
    "  ret;\n"
    "}\n"
    ".visible .entry three(.param .u8 a, .param .u64 b, .param .f32 c)\n"
    "{\n"
    "  ret;\n"
    "}\n";

// `vprintf` is the device's own function of that name.
static const char printing_ptx[] =
    ".version 7.0\n"
    ".target sm_70\n"
    ".address_size 64\n"
    ".extern .func (.param .b32 result) vprintf(.param .b64 format, .param .b64 values);\n"
    ".global .align 1 .b8 text[2] = {10, 0};\n"
    ".visible .entry prints()\n"
    "{\n"
    "  .reg .u64 %rd<3>;\n"
    "  mov.u64 %rd1, text;\n"
    "  cvta.global.u64 %rd2, %rd1;\n"
    "  {\n"
    "    .param .b64 format;\n"
    "    st.param.b64 [format], %rd2;\n"
    "    .param .b64 values;\n"
    "    st.param.b64 [values], 0;\n"
    "    .param .b32 result;\n"
    "    call.uni (result), vprintf, (format, values);\n"
    "  }\n"
    "  ret;\n"
    "}\n";

CUfunction probe_function(const char *name) {
  static CUmodule module;
  if (!module) CHECK(cuModuleLoadData(&module, probe_ptx));
  CUfunction function;
  CHECK(cuModuleGetFunction(&function, module, name));
  return function;
}

void launch(CUfunction function, CUstream stream, unsigned turns) {
  void *parameters[] = {&turns};
  CHECK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL));
}

unsigned turns_for_us(CUfunction counts, double us) {
  launch(counts, NULL, 1);
  CHECK(cuCtxSynchronize());
  for (unsigned turns = 1 << 12;; turns *= 2) {
    double took = 1e18;
    // What the machine does meanwhile makes it longer, never shorter.
    for (int run = 0; run < 3; run++) {
      const double begun = now_us();
      launch(counts, NULL, turns);
      CHECK(cuCtxSynchronize());
      if (now_us() - begun < took) took = now_us() - begun;
    }
    if (took < 20e3 && turns < 1u << 30) continue;
    const double wanted = turns * us / took;
    return wanted < 1 ? 1 : wanted > 4e9 ? 4000000000u : (unsigned)wanted;
  }
}

// A text that is PTX up to its last kernel, and one of many kernels, which takes a while to
// compile.
static char *many_kernels(int kernels) {
  const size_t room = 256 + (size_t)kernels * 512;
  char *text = malloc(room), *end = text;
  if (!text) fail("memory", "no memory for PTX");
  end += snprintf(end, room, ".version 7.0\n.target sm_70\n.address_size 64\n");
  for (int k = 0; k < kernels; k++) {
    end += snprintf(end, room - (size_t)(end - text),
                    ".visible .entry k%d(.param .u64 a)\n{\n  .reg .u64 %%a;\n  .reg .u32 %%r;\n"
                    "  ld.param.u64 %%a, [a];\n  ld.global.u32 %%r, [%%a];\n"
                    "  mad.lo.u32 %%r, %%r, %d, %d;\n  st.global.u32 [%%a], %%r;\n  ret;\n}\n",
                    k, k + 3, k + (int)(now_us() / 1e3) % 1000);
  }
  return text;
}

static const char wrong_ptx[] =
    ".version 7.0\n"
    ".target sm_70\n"
    ".address_size 64\n"
    ".visible .entry wrong()\n"
    "{\n"
    "  add.u32 %nowhere, 1, 2;\n"
    "  ret;\n"
    "}\n";

void probe_modules(char **rest) {
  (void)rest;
  probe_context();
  CUmodule module;
  say_result("wrong PTX, cuModuleLoadData", driver.cuModuleLoadData(&module, wrong_ptx));
  CUlibrary library;
  CUresult result = driver.cuLibraryLoadData(&library, wrong_ptx, NULL, NULL, 0, NULL, NULL, 0);
  say_result("wrong PTX, cuLibraryLoadData", result);
  if (!result) {
    CUkernel kernel;
    CUfunction function;
    result = driver.cuLibraryGetKernel(&kernel, library, "wrong");
    say_result("wrong PTX, cuLibraryGetKernel", result);
    if (!result) {
      result = driver.cuKernelGetFunction(&function, kernel);
      say_result("wrong PTX, cuKernelGetFunction", result);
      if (!result) result = driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
      say_result("wrong PTX, until its launch", result);
    }
  }
  // Contents that no cache of compiled code has seen.
  char *const text = many_kernels(400);
  size_t before = 0, after = 0, total;
  CHECK(cuMemGetInfo_v2(&before, &total));
  double begun = now_us();
  CHECK(cuModuleLoadData(&module, text));
  say_number("load of 400 kernels, ms", (now_us() - begun) / 1e3);
  CHECK(cuMemGetInfo_v2(&after, &total));
  say_number("memory at the load, KiB", ((double)before - (double)after) / 1024);
  CUfunction function;
  begun = now_us();
  CHECK(cuModuleGetFunction(&function, module, "k399"));
  say_number("its first function, ms", (now_us() - begun) / 1e3);
  CUdeviceptr memory;
  CHECK(cuMemAlloc_v2(&memory, 4));
  void *parameters[] = {&memory};
  CHECK(cuMemGetInfo_v2(&before, &total));
  begun = now_us();
  CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
  say_number("its first launch, ms", (now_us() - begun) / 1e3);
  CHECK(cuCtxSynchronize());
  CHECK(cuMemGetInfo_v2(&after, &total));
  say_number("memory at the launch, KiB", ((double)before - (double)after) / 1024);
  free(text);
  if (!driver.cuFuncGetParamInfo) {
    say_text("parameters of three(u8, u64, f32)", "cuFuncGetParamInfo is missing");
    return;
  }
  const CUfunction three = probe_function("three");
  char layout[128] = "";
  for (size_t i = 0;; i++) {
    size_t offset, size;
    if (driver.cuFuncGetParamInfo(three, i, &offset, &size)) break;
    char one[32];
    snprintf(one, sizeof one, "%s%zu+%zu", i ? " " : "", offset, size);
    strncat(layout, one, sizeof layout - strlen(layout) - 1);
  }
  say_text("parameters of three(u8, u64, f32)", layout);
}

static void set_limits(const char *when) {
  static const struct {
    const char *name;
    CUlimit limit;
  } limits[] = {{"stack", CU_LIMIT_STACK_SIZE},
                {"printf", CU_LIMIT_PRINTF_FIFO_SIZE},
                {"heap", CU_LIMIT_MALLOC_HEAP_SIZE}};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    size_t value = 0;
    char name[64];
    CUresult result = driver.cuCtxGetLimit(&value, limits[i].limit);
    if (!result) result = driver.cuCtxSetLimit(limits[i].limit, value);
    snprintf(name, sizeof name, "%s to what it is, %s", limits[i].name, when);
    say_result(name, result);
    if (!result) result = driver.cuCtxSetLimit(limits[i].limit, 2 * value);
    snprintf(name, sizeof name, "%s to twice that, %s", limits[i].name, when);
    say_result(name, result);
  }
}

void probe_limits(char **rest) {
  (void)rest;
  probe_context();
  set_limits("before");
  CUmodule module;
  CUfunction prints;
  CUresult result = driver.cuModuleLoadData(&module, printing_ptx);
  if (!result) result = driver.cuModuleGetFunction(&prints, module, "prints");
  if (result) fail("driver", "a kernel that prints: %s", probe_result_name(result));
  CHECK(cuLaunchKernel(prints, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
  CHECK(cuCtxSynchronize());
  set_limits("after a kernel that prints");
}
