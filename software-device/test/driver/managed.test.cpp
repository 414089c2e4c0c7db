// Managed memory, and what is advised for it.
#include "support.h"

namespace {

constexpr size_t kPage = 4096, kSize = 8 * kPage;
constexpr CUmemLocation kDevice0 = {CU_MEM_LOCATION_TYPE_DEVICE, 0};

CUdeviceptr managed() {
  CUdeviceptr address;
  OK(cuMemAllocManaged(&address, kSize, CU_MEM_ATTACH_GLOBAL));
  return address;
}

int ask(CUmem_range_attribute attribute, CUdeviceptr address, size_t size) {
  int value = -99;
  OK(cuMemRangeGetAttribute(&value, sizeof value, attribute, address, size));
  return value;
}

void host_and_kernels_share_it(void **) {
  CUdeviceptr address = managed();
  auto *words = reinterpret_cast<uint32_t *>(address);
  for (uint32_t i = 0; i < 100; i++) words[i] = i;
  uint32_t count = 100;
  void *parameters[] = {&address, &count};
  OK(cuLaunchKernel(kernel(load_kernels(), "add_one"), 1, 1, 1, 128, 1, 1, 0, nullptr, parameters,
                    nullptr));
  OK(cuCtxSynchronize());
  for (uint32_t i = 0; i < 100; i++) assert_int_equal(words[i], i + 1);
  OK(cuMemFree_v2(address));
}

void advice_is_kept_by_page(void **) {
  CUdeviceptr address = managed();
  assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, address, kSize), 0);
  assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, address, kSize), -2);
  assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, address, kSize), -2);

  // From the middle of page 1 to the middle of page 2: both pages.
  OK(cuMemAdvise(address + kPage + 100, kPage, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
  assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, address + kPage, 2 * kPage), 1);
  assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, address, 2 * kPage), 0);
  assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, address + 2 * kPage, 2 * kPage), 0);
  OK(cuMemAdvise(address, kSize, CU_MEM_ADVISE_UNSET_READ_MOSTLY, 0));
  assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, address + kPage, 1), 0);

  OK(cuMemAdvise_v2(address, kSize, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, kDevice0));
  assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, address, kSize), 0);
  assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, address, kSize),
                   CU_MEM_LOCATION_TYPE_DEVICE);
  OK(cuMemAdvise(address, kPage, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, -1));
  assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, address, kPage), -1);
  assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, address, kSize), -2);

  OK(cuMemAdvise(address, kSize, CU_MEM_ADVISE_SET_ACCESSED_BY, 0));
  OK(cuMemAdvise(address, kPage, CU_MEM_ADVISE_SET_ACCESSED_BY, -1));
  int by[3];
  OK(cuMemRangeGetAttribute(by, sizeof by, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, address, kPage));
  assert_true(by[0] == 0 && by[1] == -1 && by[2] == -2);
  OK(cuMemRangeGetAttribute(by, sizeof by, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, address, kSize));
  assert_true(by[0] == 0 && by[1] == -2);

  OK(cuMemPrefetchAsync(address, kPage, 0, nullptr));
  OK(cuMemPrefetchAsync_v2(address + kPage, kPage, {CU_MEM_LOCATION_TYPE_HOST, 0}, 0, nullptr));
  assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, address, kPage), 0);
  assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, address + kPage, kPage), -1);
  assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, address, kSize), -2);
  OK(cuMemFree_v2(address));
}

void several_at_once(void **) {
  CUdeviceptr first = managed(), second = managed();
  CUdeviceptr both[] = {first, second};
  size_t sizes[] = {kPage, kSize}, indices[] = {0, 1};
  CUmemLocation places[] = {kDevice0, {CU_MEM_LOCATION_TYPE_HOST, 0}};
  OK(cuMemPrefetchBatchAsync(both, sizes, 2, places, indices, 2, 0, nullptr));
  assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, first, kPage), 0);
  assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, second, kSize), -1);
  OK(cuMemDiscardBatchAsync(both, sizes, 2, 0, nullptr));
  OK(cuMemDiscardAndPrefetchBatchAsync(both, sizes, 2, places, indices, 1, 0, nullptr));
  assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, second, kSize), 0);
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuMemPrefetchBatchAsync(both, sizes, 2, places, indices + 1, 1, 0, nullptr));
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuMemPrefetchBatchAsync(both, sizes, 0, places, indices, 1, 0, nullptr));
  sizes[1] = kSize + 1;
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemDiscardBatchAsync(both, sizes, 2, 0, nullptr));

  int values[2];
  void *data[] = {&values[0], &values[1]};
  size_t data_sizes[] = {4, 4};
  CUmem_range_attribute attributes[] = {CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
                                        CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION};
  OK(cuMemRangeGetAttributes(data, data_sizes, attributes, 2, first, kPage));
  assert_true(values[0] == 0 && values[1] == 0);
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuMemRangeGetAttributes(data, data_sizes, attributes, 0, first, kPage));
  OK(cuMemFree_v2(first));
  OK(cuMemFree_v2(second));
}

void what_is_not_managed_is_refused(void **) {
  CUdeviceptr address = managed(), plain;
  OK(cuMemAlloc_v2(&plain, kSize));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAdvise(plain, kSize, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAdvise(address, 0, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuMemAdvise(address, kSize + 1, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAdvise(address, kSize, static_cast<CUmem_advise>(7), 0));
  EXPECT(CUDA_ERROR_INVALID_DEVICE,
         cuMemAdvise(address, kSize, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 9));
  EXPECT(CUDA_ERROR_INVALID_DEVICE, cuMemPrefetchAsync(address, kSize, 9, nullptr));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPrefetchAsync(plain, kSize, 0, nullptr));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPrefetchAsync_v2(address, kSize, kDevice0, 1, nullptr));
  int value;
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuMemRangeGetAttribute(&value, 3, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, address, kSize));
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, plain, kSize));
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuMemRangeGetAttribute(&value, 4, static_cast<CUmem_range_attribute>(50), address, 1));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(&plain, kSize, 0));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(&plain, kSize, CU_MEM_ATTACH_SINGLE));
  OK(cuMemFree_v2(plain));
  OK(cuMemFree_v2(address));
}

void attaching_knows_its_rules(void **) {
  CUdeviceptr address = managed();
  CUstream stream;
  OK(cuStreamCreate(&stream, 0));
  OK(cuStreamAttachMemAsync(stream, address, 0, CU_MEM_ATTACH_SINGLE));
  OK(cuStreamAttachMemAsync(stream, address, kSize, CU_MEM_ATTACH_HOST));
  OK(cuStreamAttachMemAsync(nullptr, address, 0, CU_MEM_ATTACH_GLOBAL));
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuStreamAttachMemAsync(nullptr, address, 0, CU_MEM_ATTACH_SINGLE));
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuStreamAttachMemAsync(stream, address, kPage, CU_MEM_ATTACH_HOST));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamAttachMemAsync(stream, address, 0, 3));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamAttachMemAsync(stream, 4096, 0, CU_MEM_ATTACH_HOST));
  OK(cuStreamDestroy_v2(stream));
  OK(cuMemFree_v2(address));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      TEST(host_and_kernels_share_it),      TEST(advice_is_kept_by_page),    TEST(several_at_once),
      TEST(what_is_not_managed_is_refused), TEST(attaching_knows_its_rules),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
