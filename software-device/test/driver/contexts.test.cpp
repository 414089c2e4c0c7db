#include <thread>

#include "support.h"

namespace {

void the_stack_is_per_thread(void **) {
  CUcontext a, b, current;
  OK(cuCtxGetCurrent(&current));
  assert_null(current);
  OK(cuCtxCreate_v2(&a, 0, 0));
  OK(cuCtxCreate_v2(&b, CU_CTX_SCHED_YIELD, 0));
  OK(cuCtxGetCurrent(&current));
  assert_ptr_equal(current, b);
  std::thread([&] {
    CUcontext other = b;
    OK(cuCtxGetCurrent(&other));
    assert_null(other);
    CUdeviceptr address;
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc_v2(&address, 16));
  }).join();
  unsigned flags;
  OK(cuCtxGetFlags(&flags));
  assert_int_equal(flags, CU_CTX_SCHED_YIELD);
  for (int i = 0; i < 40; i++) OK(cuCtxPushCurrent_v2(i % 2 ? a : b));
  for (int i = 39; i >= 0; i--) {
    OK(cuCtxPopCurrent_v2(&current));
    assert_ptr_equal(current, i % 2 ? a : b);
  }
  OK(cuCtxDestroy_v2(b));
  OK(cuCtxGetCurrent(&current));
  assert_ptr_equal(current, a);
  EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy_v2(b));
  EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxPushCurrent_v2(b));
  EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxSetCurrent(reinterpret_cast<CUcontext>(0x1234)));
  OK(cuCtxDestroy_v2(a));
  EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxPopCurrent_v2(&current));
}

void destroying_frees_what_it_owns(void **) {
  CUcontext context, other;
  size_t before, after, total;
  OK(cuCtxCreate_v2(&other, 0, 0));
  OK(cuMemGetInfo_v2(&before, &total));
  OK(cuCtxCreate_v2(&context, 0, 0));
  CUdeviceptr address;
  CUstream stream;
  CUevent event;
  OK(cuMemAlloc_v2(&address, 64 << 20));
  OK(cuStreamCreate(&stream, 0));
  OK(cuEventCreate(&event, 0));
  CUmodule module = load_kernels();
  CUfunction function = kernel(module, "nothing");
  OK(cuMemGetInfo_v2(&after, &total));
  assert_true(after <= before - (64 << 20));
  OK(cuCtxDestroy_v2(context));
  OK(cuMemGetInfo_v2(&after, &total));
  assert_int_equal(after, before);
  EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery(stream));
  EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(event));
  EXPECT(CUDA_ERROR_INVALID_HANDLE, cuModuleGetFunction(&function, module, "nothing"));
  EXPECT(CUDA_ERROR_INVALID_HANDLE,
         cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  OK(cuCtxDestroy_v2(other));
}

// The life of a primary context as the runtime sees it.
void primary_context(void **) {
  const void *table_address;
  CUuuid id;
  const unsigned char bytes[16] = {0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a,
                                   0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9};
  memcpy(id.bytes, bytes, 16);
  OK(cuGetExportTable(&table_address, &id));
  auto *slots = static_cast<void *const *>(table_address);
  auto get = reinterpret_cast<CUresult (*)(CUcontext *, CUdevice)>(slots[2]);
  CUcontext early, context;
  OK(get(&early, 0));
  unsigned flags;
  int active;
  OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
  assert_int_equal(active, 0);
  OK(cuCtxSetCurrent(early));
  CUdeviceptr address;
  EXPECT(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemAlloc_v2(&address, 16));
  unsigned version;
  EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxGetApiVersion(early, &version));
  OK(cuDevicePrimaryCtxRetain(&context, 0));
  assert_ptr_equal(context, early);
  OK(cuDevicePrimaryCtxRetain(&context, 0));
  OK(cuCtxGetApiVersion(early, &version));
  OK(cuMemAlloc_v2(&address, 16));
  OK(cuDevicePrimaryCtxRelease_v2(0));
  OK(cuMemFree_v2(address));
  OK(cuDevicePrimaryCtxReset_v2(0));
  EXPECT(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemAlloc_v2(&address, 16));
  OK(cuDevicePrimaryCtxRetain(&context, 0));
  assert_ptr_equal(context, early);
  OK(cuMemAlloc_v2(&address, 16));
  OK(cuDevicePrimaryCtxRelease_v2(0));
  OK(cuDevicePrimaryCtxRelease_v2(0));
  EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease_v2(0));
  OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
  assert_int_equal(active, 0);
  OK(cuCtxSetCurrent(nullptr));
}

void limits_and_settings(void **) {
  CUcontext context;
  OK(cuCtxCreate_v2(&context, 0, 0));
  size_t value;
  OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 32 << 20));
  OK(cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE));
  assert_int_equal(value, 32 << 20);
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuCtxGetLimit(&value, static_cast<CUlimit>(1000)));
  int least, greatest;
  OK(cuCtxGetStreamPriorityRange(&least, &greatest));
  assert_true(greatest < least);
  CUdevice device = 9;
  OK(cuCtxGetDevice(&device));
  assert_int_equal(device, 0);
  unsigned long long id, other_id;
  CUcontext other;
  OK(cuCtxGetId(context, &id));
  OK(cuCtxCreate_v2(&other, 0, 0));
  OK(cuCtxGetId(other, &other_id));
  assert_true(id != other_id);
  OK(cuCtxDestroy_v2(other));
  OK(cuCtxDestroy_v2(context));
}

int setup(void **) { return cuInit(0); }

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(the_stack_is_per_thread),
      cmocka_unit_test(destroying_frees_what_it_owns),
      cmocka_unit_test(primary_context),
      cmocka_unit_test(limits_and_settings),
  };
  return cmocka_run_group_tests(tests, setup, nullptr);
}
