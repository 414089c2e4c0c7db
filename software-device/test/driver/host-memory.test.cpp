// Pinned, registered and managed host memory.
#include "support.h"

namespace {

void pinned_memory_is_reached_by_kernels(void **) {
  CUfunction store = kernel(load_kernels(), "store");
  void *pinned;
  OK(cuMemHostAlloc(&pinned, 100, CU_MEMHOSTALLOC_PORTABLE));
  auto *value = static_cast<uint32_t *>(pinned);
  CUdeviceptr address;
  OK(cuMemHostGetDevicePointer_v2(&address, pinned, 0));
  uint32_t number = 1234;
  void *parameters[] = {&address, &number};
  OK(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  OK(cuCtxSynchronize());
  assert_int_equal(*value, 1234);
  unsigned flags;
  OK(cuMemHostGetFlags(&flags, pinned));
  assert_true(flags & CU_MEMHOSTALLOC_PORTABLE);
  CUmemorytype type;
  OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
  assert_int_equal(type, CU_MEMORYTYPE_HOST);
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(value + 1));
  OK(cuMemFreeHost(pinned));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(pinned));
}

void registered_memory_is_reached_while_it_is(void **) {
  CUfunction store = kernel(load_kernels(), "store");
  std::vector<uint32_t> own(5000);
  void *start = own.data() + 3;
  OK(cuMemHostRegister_v2(start, 4000, 0));
  EXPECT(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister_v2(own.data(), 100, 0));
  EXPECT(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister_v2(own.data() + 100, 100, 0));
  CUdeviceptr address = reinterpret_cast<CUdeviceptr>(start);
  uint32_t number = 99;
  void *parameters[] = {&address, &number};
  OK(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  OK(cuCtxSynchronize());
  assert_int_equal(own[3], 99);
  EXPECT(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(own.data()));
  OK(cuMemHostUnregister(start));
  EXPECT(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(start));
  // Now it is nobody's, and a kernel that writes there fails.
  OK(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
}

void managed_memory_is_everybodys(void **) {
  CUfunction add_one = kernel(load_kernels(), "add_one");
  CUdeviceptr managed;
  OK(cuMemAllocManaged(&managed, 4000, CU_MEM_ATTACH_GLOBAL));
  auto *values = reinterpret_cast<uint32_t *>(managed);
  for (uint32_t i = 0; i < 1000; i++) values[i] = i;
  uint32_t count = 1000;
  void *parameters[] = {&managed, &count};
  OK(cuMemPrefetchAsync_v2(managed, 4000, {CU_MEM_LOCATION_TYPE_DEVICE, 0}, 0, nullptr));
  OK(cuLaunchKernel(add_one, 8, 1, 1, 128, 1, 1, 0, nullptr, parameters, nullptr));
  OK(cuCtxSynchronize());
  for (uint32_t i = 0; i < 1000; i++) assert_int_equal(values[i], i + 1);
  unsigned int is_managed = 0;
  OK(cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, managed + 8));
  assert_int_equal(is_managed, 1);
  OK(cuMemFree_v2(managed));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      TEST(pinned_memory_is_reached_by_kernels),
      TEST(registered_memory_is_reached_while_it_is),
      TEST(managed_memory_is_everybodys),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
