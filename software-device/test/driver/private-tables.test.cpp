// What NVIDIA's libraries ask a driver for beside its documented calls. Without these answers
// cuBLAS finds no kernels and cuRAND, cuFFT and cuSOLVER do not start.
#include "support.h"

namespace {

void *slot(const char *hex, size_t index) {
  CUuuid id;
  for (size_t i = 0; i < sizeof id.bytes; i++) {
    char byte[3] = {hex[2 * i], hex[2 * i + 1], 0};
    id.bytes[i] = static_cast<char>(strtoul(byte, nullptr, 16));
  }
  const void *table = nullptr;
  OK(cuGetExportTable(&table, &id));
  void *const *slots = static_cast<void *const *>(table);
  assert_true(reinterpret_cast<uintptr_t>(slots[0]) > index * sizeof(void *));
  return slots[index];
}

template <class Function>
Function *call(const char *hex, size_t index) {
  return reinterpret_cast<Function *>(slot(hex, index));
}

const char *const kThread = "42d85a8123f6cb478298f6e78a3aecdc";
const char *const kContext = "21318c60971432488ca641ff7324c8f2";
const char *const kModule = "6e163fbeb958444d835ce182aff1991e";

void contexts_have_numbers(void **) {
  CUcontext current, found = nullptr;
  OK(cuCtxGetCurrent(&current));
  OK(call<CUresult(CUcontext *)>(kThread, 2)(&found));
  assert_ptr_equal(found, current);
  unsigned long long number = 0, id = 1;
  auto *number_of = call<CUresult(CUcontext, unsigned long long *)>(kContext, 4);
  OK(number_of(current, &number));
  OK(cuCtxGetId(current, &id));
  assert_int_equal(number, id);
  EXPECT(CUDA_ERROR_INVALID_VALUE, number_of(current, nullptr));
}

void streams_have_numbers(void **) {
  auto *inner_of = call<CUresult(CUcontext, CUstream, CUstream *, int)>(kContext, 51);
  auto *number_of = call<CUresult(CUcontext, CUstream, unsigned long long *)>(kContext, 39);
  CUstream stream, inner = nullptr;
  unsigned long long number = 0, legacy = 0, per_thread = 0, id = 1;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(inner_of(nullptr, stream, &inner, 0));
  OK(number_of(nullptr, inner, &number));
  OK(cuStreamGetId(stream, &id));
  assert_int_equal(number, id);
  OK(inner_of(nullptr, nullptr, &inner, 0));
  OK(number_of(nullptr, inner, &legacy));
  OK(inner_of(nullptr, nullptr, &inner, 1));
  OK(number_of(nullptr, inner, &per_thread));
  assert_true(legacy != per_thread && legacy != number && per_thread != number);
  OK(cuStreamDestroy_v2(stream));
  EXPECT(CUDA_ERROR_INVALID_HANDLE, inner_of(nullptr, stream, &inner, 0));
  EXPECT(CUDA_ERROR_INVALID_HANDLE, number_of(nullptr, stream, &number));
  EXPECT(CUDA_ERROR_INVALID_VALUE, inner_of(nullptr, nullptr, nullptr, 0));
  EXPECT(CUDA_ERROR_INVALID_VALUE, number_of(nullptr, nullptr, nullptr));
}

void count_named(void *opaque, CUfunction function) {
  const char *name = nullptr;
  if (cuFuncGetName(&name, function) == CUDA_SUCCESS && *name) ++*static_cast<unsigned *>(opaque);
}

void the_functions_of_a_module_are_visited(void **) {
  auto *each =
      call<unsigned(CUcontext, CUmodule, void (*)(void *, CUfunction), void *)>(kModule, 7);
  CUmodule module = load_kernels();
  unsigned expected = 0, named = 0;
  OK(cuModuleGetFunctionCount(&expected, module));
  assert_true(expected > 1);
  assert_int_equal(each(nullptr, module, count_named, &named), expected);
  assert_int_equal(named, expected);
  OK(cuModuleUnload(module));
  assert_int_equal(each(nullptr, module, count_named, &named), 0);
  assert_int_equal(named, expected);
}

void nothing_is_green_or_shared_with_graphics(void **) {
  CUgreenCtx green = reinterpret_cast<CUgreenCtx>(&green);
  OK(cuStreamGetGreenCtx(nullptr, &green));
  assert_null(green);
  CUcontext current, context = nullptr;
  green = reinterpret_cast<CUgreenCtx>(&green);
  OK(cuCtxGetCurrent(&current));
  OK(cuStreamGetCtx_v2(nullptr, &context, &green));
  assert_ptr_equal(context, current);
  assert_null(green);
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamGetGreenCtx(nullptr, nullptr));
  size_t value = 1;
  OK(cuCtxGetLimit(&value, CU_LIMIT_CIG_ENABLED));
  assert_int_equal(value, 0);
  EXPECT(CUDA_ERROR_UNSUPPORTED_LIMIT, cuCtxSetLimit(CU_LIMIT_CIG_ENABLED, 1));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(contexts_have_numbers),
      cmocka_unit_test(streams_have_numbers),
      cmocka_unit_test(the_functions_of_a_module_are_visited),
      cmocka_unit_test(nothing_is_green_or_shared_with_graphics),
  };
  return cmocka_run_group_tests(tests, use_primary, release_primary);
}
