// Links step by step, as compilers of other languages make them: files, per-input options, names,
// what each step says of a wrong input, what comes out, and what may follow. flags: -lcuda
#include <cuda.h>
#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../check.h"

#define HEADER ".version 7.0\n.target sm_70\n.address_size 64\n"

static const char caller[] = HEADER R"(
.extern .func (.param .b32 result) twice(.param .b32 value);
.visible .entry run(.param .u64 out)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r1, %tid.x;
  { .param .b32 p; .param .b32 q;
    st.param.b32 [p], %r1;
    call (q), twice, (p);
    ld.param.b32 %r2, [q]; }
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd3, %rd2, %rd3;
  st.global.u32 [%rd3], %r2;
  ret;
}
)";

static const char callee[] = HEADER R"(
.visible .func (.param .b32 result) twice(.param .b32 value)
{
  .reg .b32 %r<3>;
  ld.param.u32 %r1, [value];
  shl.b32 %r2, %r1, 1;
  st.param.b32 [result], %r2;
  ret;
}
)";

static char errors[2048], info[2048];
static float milliseconds;

// As Numba begins a link.
static CUlinkState begin(void **values) {
  static CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER,  CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                                   CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                                   CU_JIT_LOG_VERBOSE,      CU_JIT_WALL_TIME};
  const auto number = [](size_t n) { return reinterpret_cast<void *>(n); };
  void *fresh[] = {info, number(sizeof info), errors, number(sizeof errors), number(1), nullptr};
  memcpy(values, fresh, sizeof fresh);
  CUlinkState link = nullptr;
  printf("begun: %d\n", cuLinkCreate(6, options, values, &link));
  return link;
}

static CUresult add(CUlinkState link, const char *text, const char *name, bool options = false) {
  CUjit_option option = CU_JIT_MAX_REGISTERS;
  void *value = reinterpret_cast<void *>(size_t{32});
  return cuLinkAddData(link, CU_JIT_INPUT_PTX, const_cast<char *>(text), strlen(text) + 1, name,
                       options, options ? &option : nullptr, options ? &value : nullptr);
}

static void say(const char *step, CUresult result, void *const *values) {
  const char *name = nullptr;
  cuGetErrorName(result, &name);
  printf("%s: %s\n", step, name);
  if (result != CUDA_SUCCESS)
    printf("%zu bytes of errors, %zu of information:\n%s", reinterpret_cast<size_t>(values[3]),
           reinterpret_cast<size_t>(values[1]), errors);
}

static void run(const char *what, const void *image) {
  CUmodule module;
  CUfunction function;
  unsigned *device, host[32];
  CHECK(cudaMalloc(&device, sizeof host));
  void *parameters[] = {&device};
  CUresult result = cuModuleLoadData(&module, image);
  if (!result) result = cuModuleGetFunction(&function, module, "run");
  if (!result)
    result = cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr);
  CHECK(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
  unsigned right = 0;
  for (unsigned i = 0; i < 32; i++) right += host[i] == 2 * i;
  printf("%s: %d, %u of 32 right\n", what, result, right);
  cuModuleUnload(module);
  CHECK(cudaFree(device));
}

int main() {
  void *values[6];
  CUlinkState link;
  printf("without cuInit: %d\n", cuLinkCreate(0, nullptr, nullptr, &link));
  CHECK(cudaFree(nullptr));

  char path[] = "/tmp/outboard-link-XXXXXX";
  int fd = mkstemp(path);
  if (fd < 0 || write(fd, callee, sizeof callee - 1) != sizeof callee - 1) return 1;
  close(fd);

  link = begin(values);
  say("text with options", add(link, caller, "caller", true), values);
  say("a file", cuLinkAddFile(link, CU_JIT_INPUT_PTX, path, 0, nullptr, nullptr), values);
  void *cubin = nullptr, *again = nullptr;
  size_t size = 0;
  say("completed", cuLinkComplete(link, &cubin, &size), values);
  if (!cubin) {
    fprintf(stderr, "nothing was linked\n");
    return 1;
  }
  memcpy(&milliseconds, &values[5], sizeof milliseconds);
  printf("errors \"%s\", time taken %d, an ELF %d, of some size %d\n", errors, milliseconds >= 0,
         memcmp(cubin, "\177ELF", 4) == 0, size > 64);
  say("completed again", cuLinkComplete(link, &again, nullptr), values);
  printf("the same image: %d\n", again == cubin);
  say("added too late", add(link, callee, "late"), values);
  std::vector<char> kept(static_cast<char *>(cubin), static_cast<char *>(cubin) + size);
  run("loaded", cubin);
  printf("destroyed: %d\n", cuLinkDestroy(link));
  printf("and again: %d\n", cuLinkDestroy(link));
  run("loaded from a copy", kept.data());

  // What came out goes in.
  link = begin(values);
  say("a cubin",
      cuLinkAddData(link, CU_JIT_INPUT_CUBIN, kept.data(), kept.size(), "kept", 0, nullptr,
                    nullptr),
      values);
  say("completed", cuLinkComplete(link, &cubin, &size), values);
  run("linked twice", cubin);
  cuLinkDestroy(link);

  // What is wrong is told by the step that is wrong, and the link goes on.
  link = begin(values);
  say("nothing yet", cuLinkComplete(link, &cubin, &size), values);
  say("no data", cuLinkAddData(link, CU_JIT_INPUT_PTX, nullptr, 5, "none", 0, nullptr, nullptr),
      values);
  say("no such type",
      cuLinkAddData(link, static_cast<CUjitInputType>(99), path, 5, "none", 0, nullptr, nullptr),
      values);
  say("no such file", cuLinkAddFile(link, CU_JIT_INPUT_PTX, "/nowhere", 0, nullptr, nullptr),
      values);
  say("broken text", add(link, HEADER ".visible .func broken() { {", "broken"), values);
  char junk[] = "\177ELF and then nothing of the kind, which is not enough for a header at all.";
  say("junk",
      cuLinkAddData(link, CU_JIT_INPUT_OBJECT, junk, sizeof junk, "junk", 0, nullptr, nullptr),
      values);
  say("no name", add(link, caller, nullptr), values);
  say("undefined", cuLinkComplete(link, &cubin, &size), values);
  say("what was missing", add(link, callee, "callee"), values);
  say("completed after all", cuLinkComplete(link, &cubin, &size), values);
  run("mended", cubin);

  // A link has nothing of the device: it outlives a reset.
  CHECK(cudaDeviceReset());
  CHECK(cudaFree(nullptr));
  say("after a reset", cuLinkComplete(link, &cubin, &size), values);
  run("loaded after a reset", cubin);
  cuLinkDestroy(link);
  say("of what has ended", cuLinkComplete(link, &cubin, &size), values);
  say("no place", cuLinkCreate(0, nullptr, nullptr, nullptr), values);
  unlink(path);
  return 0;
}
