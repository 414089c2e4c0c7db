#include "support.h"

namespace {

constexpr size_t kGranule = 2 << 20;

CUmemAllocationProp on_device(int device = 0) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  return properties;
}

CUmemGenericAllocationHandle create(size_t size) {
  CUmemGenericAllocationHandle handle;
  CUmemAllocationProp properties = on_device();
  OK(cuMemCreate(&handle, size, &properties, 0));
  return handle;
}

void allow(CUdeviceptr address, size_t size, CUmemAccess_flags flags) {
  CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, flags};
  OK(cuMemSetAccess(address, size, &access, 1));
}

uint32_t read(CUdeviceptr address) {
  uint32_t value = 0xFFFFFFFF;
  OK(cuMemcpyDtoH_v2(&value, address, 4));
  return value;
}

void a_fixed_address_is_honoured(void **) {
  constexpr CUdeviceptr wanted = 0x400000000000, size = uint64_t{64} << 30;
  CUdeviceptr address, other;
  OK(cuMemAddressReserve(&address, size, 0, wanted, 0));
  assert_true(address == wanted);
  OK(cuMemAddressReserve(&other, kGranule, 0, wanted, 0));  // taken: somewhere else then
  assert_true(other != wanted && other % kGranule == 0);
  CUmemGenericAllocationHandle handle = create(2 * kGranule);
  CUdeviceptr middle = address + (uint64_t{33} << 30);
  OK(cuMemMap(middle, 2 * kGranule, 0, handle, 0));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD32_v2(middle, 1, 1));  // no access yet
  allow(middle, 2 * kGranule, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  assert_int_equal(read(middle + 100), 0);
  OK(cuMemsetD32_v2(middle, 7, kGranule / 2));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD32_v2(middle, 7, kGranule / 2 + 1));

  CUfunction add_one = kernel(load_kernels(), "add_one");
  uint32_t count = 1000;
  void *parameters[] = {&middle, &count};
  OK(cuLaunchKernel(add_one, 8, 1, 1, 128, 1, 1, 0, nullptr, parameters, nullptr));
  assert_int_equal(read(middle + 999 * 4), 8);
  assert_int_equal(read(middle + 1000 * 4), 7);

  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(address, size));  // something is mapped
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(middle, kGranule));     // half a mapping
  OK(cuMemUnmap(middle, 2 * kGranule));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD32_v2(middle, 1, 1));
  OK(cuMemRelease(handle));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemRelease(handle));
  OK(cuMemAddressFree(address, size));
  OK(cuMemAddressFree(other, kGranule));
}

// The same memory at two addresses, then at another one: what is written stays with the memory.
void memory_moves_between_addresses(void **) {
  CUdeviceptr address;
  OK(cuMemAddressReserve(&address, 8 * kGranule, 0, 0, 0));
  CUmemGenericAllocationHandle handle = create(2 * kGranule);
  OK(cuMemMap(address, 2 * kGranule, 0, handle, 0));
  OK(cuMemMap(address + 4 * kGranule, kGranule, kGranule, handle, 0));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemMap(address + kGranule, kGranule, 0, handle, 0));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemMap(address + 7 * kGranule, 2 * kGranule, 0, handle, 0));
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuMemMap(address + 6 * kGranule, 2 * kGranule, kGranule, handle, 0));
  allow(address, 2 * kGranule, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  allow(address + 4 * kGranule, kGranule, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  OK(cuMemsetD32_v2(address + kGranule + 64, 0xC0FFEE, 1));
  assert_int_equal(read(address + 4 * kGranule + 64), 0xC0FFEE);
  OK(cuMemRelease(handle));  // the mappings keep it
  OK(cuMemUnmap(address, 2 * kGranule));
  assert_int_equal(read(address + 4 * kGranule + 64), 0xC0FFEE);
  CUmemGenericAllocationHandle again;
  OK(cuMemRetainAllocationHandle(&again, reinterpret_cast<void *>(address + 4 * kGranule + 5)));
  OK(cuMemMap(address, 2 * kGranule, 0, again, 0));
  allow(address, 2 * kGranule, CU_MEM_ACCESS_FLAGS_PROT_READ);
  assert_int_equal(read(address + kGranule + 64), 0xC0FFEE);
  OK(cuMemRelease(again));
  OK(cuMemUnmap(address, 2 * kGranule));
  OK(cuMemUnmap(address + 4 * kGranule, kGranule));
  OK(cuMemAddressFree(address, 8 * kGranule));
}

void memory_is_counted_and_comes_back_zero(void **) {
  size_t before, during, after, total;
  OK(cuMemGetInfo_v2(&before, &total));
  for (int round = 0; round < 2; round++) {
    CUmemGenericAllocationHandle handle = create(4 * kGranule);
    OK(cuMemGetInfo_v2(&during, &total));
    assert_int_equal(during, before - 4 * kGranule);
    CUdeviceptr address;
    OK(cuMemAddressReserve(&address, 4 * kGranule, 0, 0, 0));
    OK(cuMemMap(address, 4 * kGranule, 0, handle, 0));
    allow(address, 4 * kGranule, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    assert_int_equal(read(address + 12345 * 4), 0);
    OK(cuMemsetD8_v2(address, 0x5A, 4 * kGranule));
    OK(cuMemUnmap(address, 4 * kGranule));
    OK(cuMemRelease(handle));
    OK(cuMemAddressFree(address, 4 * kGranule));
    OK(cuMemGetInfo_v2(&after, &total));
    assert_int_equal(after, before);
  }
  CUmemGenericAllocationHandle handle;
  CUmemAllocationProp properties = on_device();
  EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate(&handle, total + kGranule, &properties, 0));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, 4096, &properties, 0));
  properties = on_device(5);
  EXPECT(CUDA_ERROR_INVALID_DEVICE, cuMemCreate(&handle, kGranule, &properties, 0));
  size_t granularity;
  // Where CUDA has pieces of memory and this device does not is told from where it has none.
  const struct {
    CUmemLocationType place;
    int handles;
    CUresult result;
  } places[] = {
      {CU_MEM_LOCATION_TYPE_HOST, 0, CUDA_ERROR_NOT_SUPPORTED},
      {CU_MEM_LOCATION_TYPE_HOST, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
       CUDA_ERROR_INVALID_VALUE},
      {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0, CUDA_ERROR_NOT_SUPPORTED},
      {CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN, 0, CUDA_ERROR_NOT_SUPPORTED},
      {CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0, CUDA_ERROR_INVALID_VALUE},
      {CU_MEM_LOCATION_TYPE_INVISIBLE, 0, CUDA_ERROR_INVALID_VALUE},
      {CU_MEM_LOCATION_TYPE_NONE, 0, CUDA_ERROR_INVALID_VALUE},
      {static_cast<CUmemLocationType>(77), 0, CUDA_ERROR_INVALID_VALUE},
  };
  for (const auto &[place, handles, result] : places) {
    properties = on_device();
    properties.location.type = place;
    properties.requestedHandleTypes = static_cast<CUmemAllocationHandleType>(handles);
    EXPECT(result, cuMemCreate(&handle, kGranule, &properties, 0));
    EXPECT(result, cuMemGetAllocationGranularity(&granularity, &properties,
                                                 CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  }
  properties = on_device();
  OK(cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  assert_int_equal(granularity, kGranule);
}

void kernels_obey_access(void **) {
  CUfunction store = kernel(load_kernels(), "store");
  CUdeviceptr address;
  OK(cuMemAddressReserve(&address, kGranule, 0, 0, 0));
  CUmemGenericAllocationHandle handle = create(kGranule);
  OK(cuMemMap(address, kGranule, 0, handle, 0));
  allow(address, kGranule, CU_MEM_ACCESS_FLAGS_PROT_READ);
  unsigned long long flags;
  CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  OK(cuMemGetAccess(&flags, &location, address));
  assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READ);
  uint32_t value = 1;
  void *parameters[] = {&address, &value};
  OK(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
  OK(cuMemUnmap(address, kGranule));
  OK(cuMemRelease(handle));
  OK(cuMemAddressFree(address, kGranule));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      TEST(a_fixed_address_is_honoured),
      TEST(memory_moves_between_addresses),
      TEST(memory_is_counted_and_comes_back_zero),
      TEST(kernels_obey_access),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
