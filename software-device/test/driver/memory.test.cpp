#include <algorithm>

#include "support.h"

namespace {

size_t free_now() {
  size_t free, total;
  OK(cuMemGetInfo_v2(&free, &total));
  assert_int_equal(total, 64 << 20);
  return free;
}

void the_limit_is_real(void **) {
  CUdeviceptr a, b, c;
  size_t all = free_now();
  assert_int_equal(all, 64 << 20);
  OK(cuMemAlloc_v2(&a, 40 << 20));
  EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&b, 30 << 20));
  OK(cuMemAlloc_v2(&b, 24 << 20));
  assert_int_equal(free_now(), 0);
  EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&c, 1));
  OK(cuMemFree_v2(a));
  OK(cuMemAlloc_v2(&c, 1));
  OK(cuMemFree_v2(b));
  OK(cuMemFree_v2(c));
  assert_int_equal(free_now(), all);
  EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&a, SIZE_MAX));
  EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&a, size_t{1} << 46));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAlloc_v2(&a, 0));
}

// Memory in pieces must still serve one large request, from several places.
void fragmented_memory_is_usable(void **) {
  std::vector<CUdeviceptr> blocks(16);
  for (CUdeviceptr &block : blocks) OK(cuMemAlloc_v2(&block, 4 << 20));
  for (size_t i = 0; i < blocks.size(); i += 2) OK(cuMemFree_v2(blocks[i]));
  CUdeviceptr large;
  OK(cuMemAlloc_v2(&large, 32 << 20));
  std::vector<uint32_t> values(8 << 20), back(8 << 20);
  for (size_t i = 0; i < values.size(); i++) values[i] = static_cast<uint32_t>(i * 2654435761u);
  OK(cuMemcpyHtoD_v2(large, values.data(), 32 << 20));
  OK(cuMemcpyDtoH_v2(back.data(), large, 32 << 20));
  assert_memory_equal(values.data(), back.data(), 32 << 20);
  OK(cuMemFree_v2(large));
  for (size_t i = 1; i < blocks.size(); i += 2) OK(cuMemFree_v2(blocks[i]));
}

void small_allocations_share_granules(void **) {
  std::vector<CUdeviceptr> blocks(5000);
  size_t all = free_now();
  for (size_t i = 0; i < blocks.size(); i++) {
    OK(cuMemAlloc_v2(&blocks[i], 1 + i % 700));
    assert_int_equal(blocks[i] % 512, 0);
    uint32_t mark = static_cast<uint32_t>(i);
    OK(cuMemsetD8_v2(blocks[i], static_cast<unsigned char>(mark), 1 + i % 700));
  }
  assert_true(free_now() >= all - (8 << 20));
  for (size_t i = 0; i < blocks.size(); i++) {
    unsigned char last;
    OK(cuMemcpyDtoH_v2(&last, blocks[i] + i % 700, 1));
    assert_int_equal(last, static_cast<unsigned char>(i));
  }
  for (size_t i = 0; i < blocks.size(); i++) OK(cuMemFree_v2(blocks[(i * 2657) % blocks.size()]));
  assert_int_equal(free_now(), all);
}

// What is freed from the last to the first gives each granule back once, or two later allocations
// have the same addresses.
void freed_backwards(void **) {
  constexpr size_t kSize = 500 << 10;
  const size_t before = free_now();
  std::vector<CUdeviceptr> all;
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < 24; i++) {
      CUdeviceptr at;
      OK(cuMemAlloc_v2(&at, kSize));
      OK(cuMemsetD8_v2(at, static_cast<unsigned char>(i), kSize));
      all.push_back(at);
    }
    std::sort(all.begin(), all.end());
    for (size_t i = 1; i < all.size(); i++) assert_true(all[i - 1] + kSize <= all[i]);
    while (!all.empty()) {
      OK(cuMemFree_v2(all.back()));
      all.pop_back();
    }
    assert_int_equal(free_now(), before);
  }
}

void wrong_addresses_are_refused(void **) {
  CUdeviceptr device;
  char host[64] = {};
  OK(cuMemAlloc_v2(&device, 4096));
  CUdeviceptr host_address = reinterpret_cast<CUdeviceptr>(host);
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(device, host, 4097));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(device + 4090, host, 7));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(0, host, 8));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(host_address, host, 8));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(host, host_address, 8));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(device, nullptr, 8));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD8_v2(host_address, 1, 8));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD8_v2(device + 4000, 1, 97));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD32_v2(device + 2, 1, 1));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoD_v2(device, device + 8192, 8));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(device + 512));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(host_address));
  OK(cuMemFree_v2(device));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(device));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(device, host, 8));
  OK(cuMemcpyHtoD_v2(device, host, 0));  // nothing to copy, nothing to check
  OK(cuMemFree_v2(0));
}

void ranges_and_attributes(void **) {
  CUdeviceptr device, base, pointer;
  size_t size;
  OK(cuMemAlloc_v2(&device, 10000));
  OK(cuMemGetAddressRange_v2(&base, &size, device + 9999));
  assert_true(base == device && size == 10000);
  EXPECT(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange_v2(&base, &size, device + 10000));
  CUmemorytype type;
  OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device + 5));
  assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
  OK(cuPointerGetAttribute(&pointer, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, device + 5));
  assert_true(pointer == device);
  CUcontext context, current;
  OK(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, device));
  OK(cuCtxGetCurrent(&current));
  assert_ptr_equal(context, current);
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuPointerGetAttribute(&pointer, CU_POINTER_ATTRIBUTE_HOST_POINTER, device));
  // The runtime asks about any pointer at all; what is not ours has answers too.
  int on_host = 0, ordinal = 7;
  unsigned kind = 7;
  CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_CONTEXT};
  void *answers[] = {&kind, &ordinal, &context};
  OK(cuPointerGetAttributes(3, which, answers, reinterpret_cast<CUdeviceptr>(&on_host)));
  assert_int_equal(kind, 0);
  assert_int_equal(ordinal, -2);
  assert_null(context);
  OK(cuMemFree_v2(device));
}

void patterns(void **) {
  CUdeviceptr device;
  OK(cuMemAlloc_v2(&device, 1024));
  std::vector<unsigned char> back(1024);
  OK(cuMemsetD8_v2(device, 0xAB, 1024));
  OK(cuMemsetD16_v2(device + 16, 0x1234, 4));
  OK(cuMemsetD32_v2(device + 32, 0xDEADBEEF, 2));
  OK(cuMemsetD2D8_v2(device + 512, 64, 0x11, 5, 3));
  OK(cuMemsetD2D32_v2(device + 768, 32, 0x01020304, 2, 2));
  OK(cuMemcpyDtoH_v2(back.data(), device, 1024));
  for (size_t i = 0; i < 1024; i++) {
    unsigned char expected = 0xAB;
    if (i >= 16 && i < 24) expected = i % 2 ? 0x12 : 0x34;
    if (i >= 32 && i < 40) expected = static_cast<unsigned char>(0xDEADBEEF >> (i % 4 * 8));
    if (i >= 512 && i < 512 + 3 * 64 && (i - 512) % 64 < 5) expected = 0x11;
    if (i >= 768 && i < 768 + 2 * 32 && (i - 768) % 32 < 8)
      expected = static_cast<unsigned char>(0x01020304 >> (i % 4 * 8));
    if (back[i] != expected) fail_msg("byte %zu is %02x, not %02x", i, back[i], expected);
  }
  OK(cuMemFree_v2(device));
}

// Zeroing whole granules gives their pages back; the bytes around them must stay.
void large_zeroing(void **) {
  constexpr size_t size = 12 << 20, from = 1000, length = (9 << 20) + 333;
  CUdeviceptr device;
  OK(cuMemAlloc_v2(&device, size));
  OK(cuMemsetD8_v2(device, 0x77, size));
  OK(cuMemsetD8_v2(device + from, 0, length));
  std::vector<unsigned char> back(size);
  OK(cuMemcpyDtoH_v2(back.data(), device, size));
  for (size_t i = 0; i < size; i++) {
    unsigned char expected = i >= from && i < from + length ? 0 : 0x77;
    if (back[i] != expected) fail_msg("byte %zu is %02x, not %02x", i, back[i], expected);
  }
  OK(cuMemFree_v2(device));
}

void boxes(void **) {
  CUdeviceptr device;
  size_t pitch;
  OK(cuMemAllocPitch_v2(&device, &pitch, 100, 10, 4));
  assert_true(pitch >= 100 && pitch % 512 == 0);
  unsigned char host[10][100], back[6][50];
  for (int y = 0; y < 10; y++)
    for (int x = 0; x < 100; x++) host[y][x] = static_cast<unsigned char>(y * 100 + x);
  CUDA_MEMCPY2D in = {};
  in.srcMemoryType = CU_MEMORYTYPE_HOST;
  in.srcHost = host;
  in.srcPitch = 100;
  in.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  in.dstDevice = device;
  in.dstPitch = pitch;
  in.WidthInBytes = 100;
  in.Height = 10;
  OK(cuMemcpy2D_v2(&in));
  CUDA_MEMCPY3D out = {};
  out.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
  out.srcDevice = device;
  out.srcPitch = pitch;
  out.srcHeight = 5;  // two slices of five rows
  out.srcXInBytes = 7;
  out.srcY = 1;
  out.dstMemoryType = CU_MEMORYTYPE_HOST;
  out.dstHost = back;
  out.dstPitch = 50;
  out.dstHeight = 3;
  out.WidthInBytes = 50;
  out.Height = 3;
  out.Depth = 2;
  OK(cuMemcpy3D_v2(&out));
  for (int z = 0; z < 2; z++)
    for (int y = 0; y < 3; y++) assert_memory_equal(back[z * 3 + y], &host[z * 5 + y + 1][7], 50);
  in.Height = 11;
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D_v2(&in));
  in.Height = 10;
  in.srcPitch = 99;
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D_v2(&in));
  in.srcPitch = 100;
  in.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D_v2(&in));
  OK(cuMemFree_v2(device));
}

void pools(void **) {
  CUstream stream;
  CUmemoryPool pool;
  CUdeviceptr a, b;
  cuuint64_t used;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuDeviceGetDefaultMemPool(&pool, 0));
  OK(cuMemAllocAsync(&a, 40 << 20, stream));
  OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
  assert_int_equal(used, 40 << 20);
  OK(cuMemsetD8Async(a, 5, 40 << 20, stream));
  Gate gate;
  gate.hold(stream);
  OK(cuMemFreeAsync(a, stream));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(a, stream));
  gate.open();
  OK(cuMemAllocAsync(&b, 50 << 20, stream));  // fits once the free has happened
  OK(cuMemFreeAsync(b, stream));
  OK(cuStreamSynchronize(stream));
  OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
  assert_int_equal(used, 0);
  OK(cuStreamDestroy_v2(stream));
}

// Where CUDA has pools and this device does not is told from where it has none.
void places_without_pools(void **) {
  struct {
    CUmemLocationType place;
    int id;
    CUresult result;
  } places[] = {
      {CU_MEM_LOCATION_TYPE_HOST, 0, CUDA_ERROR_NOT_SUPPORTED},
      {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0, CUDA_ERROR_NOT_SUPPORTED},
      {CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN, 0, CUDA_ERROR_NOT_SUPPORTED},
      {CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0, CUDA_ERROR_INVALID_VALUE},
      {CU_MEM_LOCATION_TYPE_INVISIBLE, -2, CUDA_ERROR_INVALID_VALUE},
      {CU_MEM_LOCATION_TYPE_NONE, 0, CUDA_ERROR_INVALID_VALUE},
      {static_cast<CUmemLocationType>(77), 0, CUDA_ERROR_INVALID_VALUE},
      {CU_MEM_LOCATION_TYPE_DEVICE, 99, CUDA_ERROR_INVALID_DEVICE},
  };
  CUmemoryPool pool, own;
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  OK(cuMemPoolCreate(&own, &properties));
  for (auto &[type, id, result] : places) {
    CUmemLocation place = {type, {id}};
    properties.location = place;
    EXPECT(result, cuMemPoolCreate(&pool, &properties));
    EXPECT(result, cuMemGetDefaultMemPool(&pool, &place, CU_MEM_ALLOCATION_TYPE_PINNED));
    EXPECT(result, cuMemGetMemPool(&pool, &place, CU_MEM_ALLOCATION_TYPE_PINNED));
    EXPECT(result, cuMemSetMemPool(&place, CU_MEM_ALLOCATION_TYPE_PINNED, own));
  }
  OK(cuMemPoolDestroy(own));
}

int setup(void **) {
  setenv("SOFTWARE_DEVICE_MEMORY", "64M", 1);
  return cuInit(0);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      TEST(the_limit_is_real),
      TEST(fragmented_memory_is_usable),
      TEST(small_allocations_share_granules),
      TEST(freed_backwards),
      TEST(wrong_addresses_are_refused),
      TEST(ranges_and_attributes),
      TEST(patterns),
      TEST(large_zeroing),
      TEST(boxes),
      TEST(pools),
      TEST(places_without_pools),
  };
  return cmocka_run_group_tests(tests, setup, nullptr);
}
