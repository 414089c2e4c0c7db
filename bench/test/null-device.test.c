// The null device as the executor uses it: kernels with their parameters, memory at addresses that
// the caller picks, copies that copy.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
// Needs those above.
#include <cmocka.h>

#include "cuda_driver.h"

static const char ptx[] =
    ".version 8.0\n.target sm_75\n.address_size 64\n"
    "// .visible .entry in_a_comment(.param .u64 p)\n"
    "/* .entry in_another() */\n"
    ".visible .entry plain(\n"
    "  .param .u8 plain_param_0,\n"
    "  .param .u64 plain_param_1,  // aligned to 8\n"
    "  .param .f32 plain_param_2\n"
    ") { ret; }\n"
    ".func helper(.param .u32 x) { ret; }\n"
    ".weak .entry shaped(.param .align 16 .b8 s[20], .param .u16 after,\n"
    "  .param .u64 .ptr .global .align 4 pointer) .maxntid 128, 1, 1 { ret; }\n"
    ".entry bare { ret; }\n"
    ".entry empty() { ret; }\n";

static CUlibrary load(const char *text) {
  CUlibrary library;
  assert_int_equal(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0), CUDA_SUCCESS);
  return library;
}

static void check_parameters(CUlibrary library, const char *name, size_t count,
                             const size_t (*expected)[2]) {
  CUkernel kernel;
  size_t offset, size;
  assert_int_equal(cuLibraryGetKernel(&kernel, library, name), CUDA_SUCCESS);
  for (size_t i = 0; i < count; i++) {
    assert_int_equal(cuKernelGetParamInfo(kernel, i, &offset, &size), CUDA_SUCCESS);
    assert_int_equal(offset, expected[i][0]);
    assert_int_equal(size, expected[i][1]);
  }
  assert_int_equal(cuKernelGetParamInfo(kernel, count, &offset, &size), CUDA_ERROR_INVALID_VALUE);
}

static void kernels_and_their_parameters(void **state) {
  (void)state;
  CUlibrary library = load(ptx);
  unsigned count;
  assert_int_equal(cuLibraryGetKernelCount(&count, library), CUDA_SUCCESS);
  assert_int_equal(count, 4);
  CUkernel kernels[4];
  const char *name;
  assert_int_equal(cuLibraryEnumerateKernels(kernels, 4, library), CUDA_SUCCESS);
  assert_int_equal(cuKernelGetName(&name, kernels[1]), CUDA_SUCCESS);
  assert_string_equal(name, "shaped");
  check_parameters(library, "plain", 3, (const size_t[][2]){{0, 1}, {8, 8}, {16, 4}});
  check_parameters(library, "shaped", 3, (const size_t[][2]){{0, 20}, {20, 2}, {24, 8}});
  check_parameters(library, "bare", 0, NULL);
  check_parameters(library, "empty", 0, NULL);
  CUkernel none;
  assert_int_equal(cuLibraryGetKernel(&none, library, "helper"), CUDA_ERROR_NOT_FOUND);
  assert_int_equal(cuLibraryUnload(library), CUDA_SUCCESS);
}

static void images_that_are_none(void **state) {
  (void)state;
  CUlibrary library;
  const char *broken = ".version 8.0\n.entry cut(.param .u64 a,";
  assert_int_equal(cuLibraryLoadData(&library, broken, NULL, NULL, 0, NULL, NULL, 0),
                   CUDA_ERROR_INVALID_PTX);
  static const uint64_t zeros[8];
  assert_int_equal(cuLibraryLoadData(&library, zeros, NULL, NULL, 0, NULL, NULL, 0),
                   CUDA_ERROR_INVALID_IMAGE);
}

#define GRANULE ((size_t)2 << 20)

static void memory_where_the_caller_wants_it(void **state) {
  (void)state;
  const CUdeviceptr wanted = 0x410000000000ull;
  CUdeviceptr window, other;
  assert_int_equal(cuMemAddressReserve(&window, 64 * GRANULE, GRANULE, wanted, 0), CUDA_SUCCESS);
  assert_true(window == wanted);
  assert_int_equal(cuMemAddressReserve(&other, GRANULE, GRANULE, wanted, 0), CUDA_SUCCESS);
  assert_true(other != wanted && other % GRANULE == 0);

  CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                              .location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}}};
  CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUmemGenericAllocationHandle memory;
  size_t before, mapped, after, total;
  CUdeviceptr at = window + 3 * GRANULE;
  cuMemGetInfo_v2(&before, &total);
  for (int round = 0; round < 2; round++) {
    assert_int_equal(cuMemCreate(&memory, 2 * GRANULE, &prop, 0), CUDA_SUCCESS);
    assert_int_equal(cuMemMap(at, 2 * GRANULE, 0, memory, 0), CUDA_SUCCESS);
    assert_int_equal(cuMemMap(window, 2 * GRANULE, 0, memory, 0), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(cuMemSetAccess(at, 2 * GRANULE, &access, 1), CUDA_SUCCESS);
    cuMemGetInfo_v2(&mapped, &total);
    assert_true(mapped == before - 2 * GRANULE);

    unsigned sent[3] = {1, 2, 3}, got[3];
    assert_int_equal(cuMemcpyDtoH_v2(got, at, sizeof got), CUDA_SUCCESS);
    assert_memory_equal(got, ((unsigned[3]){0, 0, 0}), sizeof got);  // new memory is zeroed
    assert_int_equal(cuMemcpyHtoDAsync_v2(at, sent, sizeof sent, NULL), CUDA_SUCCESS);
    assert_int_equal(cuMemsetD32Async(at + 4, 9, 1, NULL), CUDA_SUCCESS);
    assert_int_equal(cuMemcpyDtoDAsync_v2(at + GRANULE, at, sizeof sent, NULL), CUDA_SUCCESS);
    assert_int_equal(cuMemcpyDtoH_v2(got, at + GRANULE, sizeof got), CUDA_SUCCESS);
    assert_memory_equal(got, ((unsigned[3]){1, 9, 3}), sizeof got);

    assert_int_equal(cuMemUnmap(at, 2 * GRANULE), CUDA_SUCCESS);
    assert_int_equal(cuMemRelease(memory), CUDA_SUCCESS);
  }
  cuMemGetInfo_v2(&after, &total);
  assert_true(after == before);
  assert_int_equal(cuMemAddressFree(window, 64 * GRANULE), CUDA_SUCCESS);
  assert_int_equal(cuMemAddressFree(other, GRANULE), CUDA_SUCCESS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kernels_and_their_parameters),
      cmocka_unit_test(images_that_are_none),
      cmocka_unit_test(memory_where_the_caller_wants_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
