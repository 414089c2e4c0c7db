// Linking PTX: names between texts, what is defined twice or nowhere, and what comes out.
#include <elf.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

#include "support.h"

namespace {

#define HEADER ".version 7.0\n.target sm_70\n.address_size 64\n"

// Each text has a `hidden` of its own.
constexpr char kCaller[] = HEADER R"(
.extern .func (.param .b32 result) add_hidden(.param .b32 value);
.extern .global .align 4 .u32 shared_word;
.global .align 4 .u32 hidden = 1000;
.weak .func (.param .b32 result) scale(.param .b32 value)
{
  .reg .b32 %r<3>;
  ld.param.u32 %r1, [value];
  mul.lo.u32 %r2, %r1, 2;   // 'hidden' in a comment { and a brace
  st.param.b32 [result], %r2;
  ret;
}
.visible .entry run(.param .u64 out)
{
  .reg .b32 %r<8>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  cvta.to.global.u64 %rd1, %rd1;
  { .param .b32 p0; .param .b32 r0;
    mov.u32 %r1, 7;
    st.param.b32 [p0], %r1;
    call (r0), add_hidden, (p0);
    ld.param.b32 %r2, [r0]; }
  { .param .b32 p0; .param .b32 r0;
    st.param.b32 [p0], %r2;
    call (r0), scale, (p0);
    ld.param.b32 %r3, [r0]; }
  ld.global.u32 %r4, [hidden];
  ld.global.u32 %r5, [shared_word];
  add.u32 %r6, %r3, %r4;
  add.u32 %r6, %r6, %r5;
  st.global.u32 [%rd1], %r6;
  ret;
}
)";

constexpr char kCallee[] = HEADER R"(
.global .align 4 .u32 hidden = 20;
.visible .global .align 4 .u32 shared_word = 5;
.visible .func (.param .b32 result) scale(.param .b32 value)
{
  .reg .b32 %r<3>;
  ld.param.u32 %r1, [value];
  mul.lo.u32 %r2, %r1, 3;
  st.param.b32 [result], %r2;
  ret;
}
.visible .func (.param .b32 result) add_hidden(.param .b32 value)
{
  .reg .b32 %r<4>;
  ld.param.u32 %r1, [value];
  ld.global.u32 %r2, [hidden];
  add.u32 %r3, %r1, %r2;
  st.param.b32 [result], %r3;
  ret;
}
)";

struct Log {
  char text[512] = {};
  CUjit_option options[2] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[2] = {text, reinterpret_cast<void *>(sizeof text)};
};

CUlinkState begin(Log *log) {
  CUlinkState link;
  OK(cuLinkCreate_v2(2, log->options, log->values, &link));
  return link;
}

CUresult add(CUlinkState link, const char *text, const char *name) {
  return cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, const_cast<char *>(text), strlen(text) + 1, name,
                          0, nullptr, nullptr);
}

uint32_t run(const void *image) {
  CUmodule module;
  OK(cuModuleLoadData(&module, image));
  CUdeviceptr out;
  OK(cuMemAlloc_v2(&out, 4));
  void *parameters[] = {&out};
  OK(cuLaunchKernel(kernel(module, "run"), 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  uint32_t value = 0;
  OK(cuMemcpyDtoH_v2(&value, out, 4));
  OK(cuMemFree_v2(out));
  OK(cuModuleUnload(module));
  return value;
}

// In both orders: the strong `scale` wins, and each text sees its own `hidden`.
void texts_become_one_program(void **) {
  for (bool turned : {false, true}) {
    Log log;
    CUlinkState link = begin(&log);
    OK(add(link, turned ? kCallee : kCaller, "first"));
    OK(add(link, turned ? kCaller : kCallee, "second"));
    void *cubin;
    size_t size;
    OK(cuLinkComplete(link, &cubin, &size));
    assert_memory_equal(cubin, ELFMAG, SELFMAG);
    assert_true(size > sizeof kCaller);
    assert_int_equal(run(cubin), (7 + 20) * 3 + 1000 + 5);

    // What came out can be linked again.
    std::vector<uint8_t> copy(static_cast<uint8_t *>(cubin), static_cast<uint8_t *>(cubin) + size);
    OK(cuLinkDestroy(link));
    OK(cuLinkCreate_v2(0, nullptr, nullptr, &link));
    OK(cuLinkAddData_v2(link, CU_JIT_INPUT_CUBIN, copy.data(), copy.size(), "again", 0, nullptr,
                        nullptr));
    OK(cuLinkComplete(link, &cubin, &size));
    assert_int_equal(run(cubin), 1086);
    OK(cuLinkDestroy(link));
  }
}

void files_are_inputs_too(void **) {
  char path[] = "/tmp/softdev-link-XXXXXX";
  int file = mkstemp(path);
  assert_true(file >= 0);
  FILE *out = fdopen(file, "w");
  fputs(kCallee, out);
  fclose(out);
  Log log;
  CUlinkState link = begin(&log);
  OK(add(link, kCaller, "caller"));
  OK(cuLinkAddFile_v2(link, CU_JIT_INPUT_PTX, path, 0, nullptr, nullptr));
  EXPECT(CUDA_ERROR_FILE_NOT_FOUND,
         cuLinkAddFile_v2(link, CU_JIT_INPUT_PTX, "/nowhere", 0, nullptr, nullptr));
  void *cubin;
  OK(cuLinkComplete(link, &cubin, nullptr));
  assert_int_equal(run(cubin), 1086);
  OK(cuLinkDestroy(link));
  remove(path);
}

void what_is_missing_is_named(void **) {
  Log log;
  CUlinkState link = begin(&log);
  OK(add(link, kCaller, "caller"));
  void *cubin;
  EXPECT(CUDA_ERROR_NO_BINARY_FOR_GPU, cuLinkComplete(link, &cubin, nullptr));
  assert_non_null(strstr(log.text, "Undefined reference to 'add_hidden'"));
  assert_non_null(strstr(log.text, "Undefined reference to 'shared_word'"));
  assert_int_equal(reinterpret_cast<size_t>(log.values[1]), strlen(log.text));
  OK(cuLinkDestroy(link));
}

void what_is_there_twice_is_named(void **) {
  Log log;
  CUlinkState link = begin(&log);
  OK(add(link, kCallee, "one"));
  OK(add(link, kCallee, "two"));
  void *cubin;
  EXPECT(CUDA_ERROR_INVALID_PTX, cuLinkComplete(link, &cubin, nullptr));
  assert_non_null(strstr(log.text, "is defined in one and in two"));
  OK(cuLinkDestroy(link));
}

void bad_inputs_are_refused(void **) {
  Log log;
  CUlinkState link = begin(&log);
  EXPECT(CUDA_ERROR_INVALID_PTX, add(link, "this is no PTX", "prose"));
  assert_non_null(strstr(log.text, "prose"));
  EXPECT(CUDA_ERROR_INVALID_PTX, add(link, HEADER ".visible .func broken() { {", "open"));
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, nullptr, 4, "none", 0, nullptr, nullptr));
  char empty = 0;
  for (CUjitInputType type : {CU_JIT_INPUT_PTX, CU_JIT_INPUT_CUBIN, CU_JIT_INPUT_LIBRARY})
    EXPECT(CUDA_ERROR_INVALID_IMAGE,
           cuLinkAddData_v2(link, type, &empty, 0, "empty", 0, nullptr, nullptr));
  char path[] = "/tmp/software-device-XXXXXX";
  close(mkstemp(path));
  EXPECT(CUDA_ERROR_INVALID_IMAGE,
         cuLinkAddFile_v2(link, CU_JIT_INPUT_PTX, path, 0, nullptr, nullptr));
  unlink(path);
  EXPECT(CUDA_ERROR_FILE_NOT_FOUND,
         cuLinkAddFile_v2(link, CU_JIT_INPUT_PTX, path, 0, nullptr, nullptr));
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, &empty, 1, "empty", 1, nullptr, nullptr));
  char junk[] = "\177ELF and then nothing of the kind, which is not enough for a header at all.";
  EXPECT(CUDA_ERROR_INVALID_IMAGE, cuLinkAddData_v2(link, CU_JIT_INPUT_OBJECT, junk, sizeof junk,
                                                    "junk", 0, nullptr, nullptr));
  EXPECT(CUDA_ERROR_NOT_SUPPORTED,
         cuLinkAddData_v2(link, CU_JIT_INPUT_NVVM, junk, sizeof junk, "junk", 0, nullptr, nullptr));
  void *cubin;
  EXPECT(CUDA_ERROR_INVALID_PTX, cuLinkComplete(link, &cubin, nullptr));  // nothing was added
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuLinkComplete(link, nullptr, nullptr));
  OK(cuLinkDestroy(link));
  EXPECT(CUDA_ERROR_INVALID_HANDLE, cuLinkDestroy(link));
  EXPECT(CUDA_ERROR_INVALID_HANDLE, add(link, kCallee, "late"));
  EXPECT(CUDA_ERROR_INVALID_HANDLE, cuLinkComplete(link, &cubin, nullptr));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuLinkCreate_v2(1, nullptr, nullptr, &link));
}

// Each block writes a word, and behind the barrier each thread adds all up; rounds of that. Where a
// thread finds out that its size, rank or an error is not what it should be, it writes 0.
constexpr char kGrid[] = HEADER R"(
.extern .func (.param .b64 r) cudaCGGetIntrinsicHandle(.param .b32 scope);
.extern .func (.param .b32 r) cudaCGSynchronize(.param .b64 handle, .param .b32 flags);
.extern .func (.param .b32 r) cudaCGSynchronizeGrid(.param .b64 handle, .param .b32 flags);
.extern .func (.param .b32 r) cudaCGGetSize(.param .b64 n, .param .b64 grids, .param .b64 handle);
.extern .func (.param .b32 r) cudaCGGetRank(.param .b64 n, .param .b64 grid, .param .b64 handle);
.visible .entry run(.param .u64 words, .param .u64 out)
{
  .local .align 4 .b8 told[16];
  .reg .pred %p<4>;
  .reg .b32 %r<16>;
  .reg .b64 %rd<12>;
  ld.param.u64 %rd1, [words];
  ld.param.u64 %rd2, [out];
  cvta.local.u64 %rd6, told;
  add.u64 %rd7, %rd6, 4;
  mov.u32 %r1, 1;
  call (%rd3), cudaCGGetIntrinsicHandle, (%r1);
  mov.u32 %r1, 2;  // no scope that there is
  call (%rd4), cudaCGGetIntrinsicHandle, (%r1);
  setp.ne.u64 %p3, %rd4, 0;
  mov.u32 %r1, 0;
  call (%r2), cudaCGSynchronize, (%rd4, %r1);
  setp.ne.or.u32 %p3, %r2, 1, %p3;
  call (%r2), cudaCGGetSize, (%rd6, %rd7, %rd3);
  setp.ne.or.u32 %p3, %r2, 0, %p3;
  ld.local.u32 %r3, [told];
  setp.ne.or.u32 %p3, %r3, 384, %p3;
  ld.local.u32 %r3, [told+4];
  setp.ne.or.u32 %p3, %r3, 1, %p3;
  add.u64 %rd6, %rd6, 8;
  add.u64 %rd7, %rd7, 8;
  call (%r2), cudaCGGetRank, (%rd6, %rd7, %rd3);
  setp.ne.or.u32 %p3, %r2, 0, %p3;
  ld.local.u32 %r14, [told+8];
  ld.local.u32 %r3, [told+12];
  setp.ne.or.u32 %p3, %r3, 0, %p3;
  div.u32 %r4, %r14, 64;  // the block
  mov.u32 %r5, 0;
  mov.u32 %r6, 0;
round:
  mul.wide.u32 %rd8, %r4, 4;
  add.u64 %rd8, %rd1, %rd8;
  mad.lo.u32 %r7, %r6, 10, %r4;
  st.global.u32 [%rd8], %r7;
  call (%r2), cudaCGSynchronize, (%rd3, %r1);
  setp.ne.or.u32 %p3, %r2, 0, %p3;
  mov.u32 %r8, 0;
sum:
  mul.wide.u32 %rd8, %r8, 4;
  add.u64 %rd8, %rd1, %rd8;
  ld.volatile.global.u32 %r9, [%rd8];
  add.u32 %r5, %r5, %r9;
  add.u32 %r8, %r8, 1;
  setp.lt.u32 %p1, %r8, 6;
  @%p1 bra sum;
  call (%r2), cudaCGSynchronizeGrid, (%rd3, %r1);
  setp.ne.or.u32 %p3, %r2, 0, %p3;
  add.u32 %r6, %r6, 1;
  setp.lt.u32 %p1, %r6, 3;
  @%p1 bra round;
  selp.u32 %r5, 0, %r5, %p3;
  mul.wide.u32 %rd8, %r14, 4;
  add.u64 %rd8, %rd2, %rd8;
  st.global.u32 [%rd8], %r5;
  ret;
}
)";

void expect_grid(const void *image) {
  enum { kBlocks = 6, kThreads = kBlocks * 64, kSum = 3 * (0 + 1 + 2 + 3 + 4 + 5) + 60 * (1 + 2) };
  CUmodule module;
  OK(cuModuleLoadData(&module, image));
  CUdeviceptr words, out;
  OK(cuMemAlloc_v2(&words, kBlocks * 4));
  OK(cuMemAlloc_v2(&out, kThreads * 4));
  void *parameters[] = {&words, &out};
  OK(cuLaunchCooperativeKernel(kernel(module, "run"), 3, 1, 2, 8, 4, 2, 0, nullptr, parameters));
  std::vector<uint32_t> sums(kThreads);
  OK(cuMemcpyDtoH_v2(sums.data(), out, kThreads * 4));
  for (uint32_t sum : sums) assert_int_equal(sum, kSum);
  OK(cuMemFree_v2(out));
  OK(cuMemFree_v2(words));
  OK(cuModuleUnload(module));
}

// As Numba has them, whose kernels are linked with libcudadevrt: that has machine code alone.
void grids_wait_for_themselves(void **) {
  Log log;
  CUlinkState link = begin(&log);
  OK(add(link, kGrid, "grid"));
  OK(add(link, kCallee, "another"));
  void *cubin;
  size_t size;
  OK(cuLinkComplete(link, &cubin, &size));
  expect_grid(cubin);

  std::vector<uint8_t> copy(static_cast<uint8_t *>(cubin), static_cast<uint8_t *>(cubin) + size);
  OK(cuLinkDestroy(link));
  OK(cuLinkCreate_v2(0, nullptr, nullptr, &link));
  OK(cuLinkAddData_v2(link, CU_JIT_INPUT_CUBIN, copy.data(), copy.size(), "again", 0, nullptr,
                      nullptr));
  OK(cuLinkComplete(link, &cubin, nullptr));
  expect_grid(cubin);
  OK(cuLinkDestroy(link));

  // A program of one piece, as nvcc -rdc=true makes it.
  expect_grid(kGrid);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      TEST(texts_become_one_program), TEST(files_are_inputs_too),
      TEST(what_is_missing_is_named), TEST(what_is_there_twice_is_named),
      TEST(bad_inputs_are_refused),   TEST(grids_wait_for_themselves),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
