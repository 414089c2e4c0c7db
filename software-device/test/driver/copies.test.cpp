// Copies in batches, and between devices.
#include "support.h"

namespace {

CUstream make_stream() {
  CUstream stream;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

CUdeviceptr at(const void *host) { return reinterpret_cast<CUdeviceptr>(host); }

void many_copies_in_one_call(void **) {
  CUstream stream = make_stream();
  CUdeviceptr device;
  OK(cuMemAlloc_v2(&device, 3 * 1024));
  std::vector<uint8_t> in(3 * 1024), out(3 * 1024);
  for (size_t i = 0; i < in.size(); i++) in[i] = static_cast<uint8_t>(i * 7);
  CUdeviceptr to[] = {device + 2048, device, device + 1024};
  CUdeviceptr from[] = {at(in.data() + 2048), at(in.data()), at(in.data() + 1024)};
  size_t sizes[] = {1024, 1024, 1024}, indices[] = {0, 2}, failed = 7;
  CUmemcpyAttributes attributes[2] = {};
  attributes[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  attributes[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
  attributes[1].flags = CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE;
  OK(cuMemcpyBatchAsync(to, from, sizes, 3, attributes, indices, 2, &failed, stream));
  assert_true(failed == SIZE_MAX);
  OK(cuStreamSynchronize(stream));
  OK(cuMemcpyDtoH_v2(out.data(), device, out.size()));
  assert_memory_equal(out.data(), in.data(), in.size());

  // The second copy leaves its allocation.
  sizes[1] = 4096;
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuMemcpyBatchAsync(to, from, sizes, 3, attributes, indices, 2, &failed, stream));
  assert_int_equal(failed, 1);
  sizes[1] = 1024;
  OK(cuMemcpyBatchAsync_v2(to, from, sizes, 3, attributes, indices, 1, stream));

  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuMemcpyBatchAsync(to, from, sizes, 3, attributes, indices, 2, &failed, nullptr));
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuMemcpyBatchAsync(to, from, sizes, 0, attributes, indices, 2, &failed, stream));
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuMemcpyBatchAsync(to, from, sizes, 3, attributes, indices, 0, &failed, stream));
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuMemcpyBatchAsync(to, from, sizes, 3, attributes, indices + 1, 1, &failed, stream));
  attributes[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID;
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuMemcpyBatchAsync(to, from, sizes, 3, attributes, indices, 1, &failed, stream));
  OK(cuStreamDestroy_v2(stream));
  OK(cuMemFree_v2(device));
}

void boxes_in_one_call(void **) {
  // 3 x 2 x 2 bytes out of rows of 8 and layers of 4 rows, packed on the device and back.
  CUstream stream = make_stream();
  CUdeviceptr device;
  OK(cuMemAlloc_v2(&device, 64));
  uint8_t in[64], out[64] = {};
  for (int i = 0; i < 64; i++) in[i] = static_cast<uint8_t>(i + 1);
  CUDA_MEMCPY3D_BATCH_OP list[2] = {};
  for (auto &one : list) {
    one.extent = {3, 2, 2};
    one.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    one.src.type = one.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  }
  list[0].src.op.ptr = {at(in), 8, 4, {}};
  list[0].dst.op.ptr = {device, 0, 0, {}};
  size_t failed = 0;
  OK(cuMemcpy3DBatchAsync(1, list, &failed, 0, stream));
  OK(cuStreamSynchronize(stream));
  uint8_t packed[12];
  OK(cuMemcpyDtoH_v2(packed, device, 12));
  const uint8_t expected[12] = {1, 2, 3, 9, 10, 11, 33, 34, 35, 41, 42, 43};
  assert_memory_equal(packed, expected, 12);
  list[1].src.op.ptr = {device, 0, 0, {}};
  list[1].dst.op.ptr = {at(out), 8, 4, {}};
  OK(cuMemcpy3DBatchAsync_v2(1, list + 1, 0, stream));
  OK(cuStreamSynchronize(stream));
  assert_true(out[0] == 1 && out[8] == 9 && out[32] == 33 && out[42] == 43 && out[3] == 0);

  list[1].extent.depth = 0;
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy3DBatchAsync(2, list, &failed, 0, stream));
  assert_int_equal(failed, 1);
  list[1].extent = {9, 2, 2};  // wider than a row
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy3DBatchAsync_v2(1, list + 1, 0, stream));
  list[1].extent = {SIZE_MAX, SIZE_MAX, SIZE_MAX};
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy3DBatchAsync_v2(1, list + 1, 0, stream));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy3DBatchAsync(2, list, &failed, 1, stream));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy3DBatchAsync(1, nullptr, &failed, 0, stream));
  OK(cuStreamDestroy_v2(stream));
  OK(cuMemFree_v2(device));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {TEST(many_copies_in_one_call), TEST(boxes_in_one_call)};
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
