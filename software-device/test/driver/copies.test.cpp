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

// Default streams of two devices know nothing of each other, but for copies between them.
struct TwoDevices {
  CUcontext contexts[2];
  CUstream streams[2];  // blocking
  CUdeviceptr memory[2];

  TwoDevices() {
    for (int i = 0; i < 2; i++) {
      OK(cuCtxCreate_v2(&contexts[i], 0, i));
      OK(cuStreamCreate(&streams[i], CU_STREAM_DEFAULT));
      OK(cuMemAlloc_v2(&memory[i], kBytes));
      OK(cuMemsetD8_v2(memory[i], static_cast<unsigned char>(i + 1), kBytes));
      OK(cuCtxSynchronize());
    }
  }
  ~TwoDevices() {
    for (CUcontext context : contexts) OK(cuCtxDestroy_v2(context));
  }
  uint8_t byte(int device) const {
    uint8_t value[kBytes];
    OK(cuCtxSetCurrent(contexts[device]));
    OK(cuMemcpyDtoH_v2(value, memory[device], kBytes));
    for (uint8_t each : value) assert_int_equal(each, value[0]);
    return value[0];
  }
  static constexpr size_t kBytes = 100 << 10;  // more than is copied at once
};

// Each way to copy from device 1 to device 0 in the current context's legacy stream.
using Way = void (*)(const TwoDevices &);
const Way ways[] = {
    [](const TwoDevices &of) { OK(cuMemcpyAsync(of.memory[0], of.memory[1], of.kBytes, nullptr)); },
    [](const TwoDevices &of) { OK(cuMemcpyDtoD_v2(of.memory[0], of.memory[1], of.kBytes)); },
    [](const TwoDevices &of) {
      OK(cuMemcpyPeerAsync(of.memory[0], of.contexts[0], of.memory[1], of.contexts[1], of.kBytes,
                           nullptr));
    },
    [](const TwoDevices &of) {
      CUDA_MEMCPY2D_v2 rows = {};
      rows.srcMemoryType = rows.dstMemoryType = CU_MEMORYTYPE_DEVICE;
      rows.srcDevice = of.memory[1], rows.dstDevice = of.memory[0];
      rows.srcPitch = rows.dstPitch = rows.WidthInBytes = of.kBytes / 4;
      rows.Height = 4;
      OK(cuMemcpy2DAsync_v2(&rows, nullptr));
    },
};

void copies_come_after_the_work_of_both_devices(void **) {
  for (Way way : ways)
    for (int current : {0, 1}) {
      TwoDevices of;
      Gate gate;
      OK(cuCtxSetCurrent(of.contexts[1]));
      gate.hold(of.streams[1]);
      OK(cuMemsetD8Async(of.memory[1], 9, of.kBytes, of.streams[1]));
      OK(cuCtxSetCurrent(of.contexts[current]));
      way(of);  // returns although what it waits for cannot go on
      EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(CU_STREAM_LEGACY));
      gate.open();
      assert_int_equal(of.byte(0), 9);
    }
}

void work_of_both_devices_comes_after_copies(void **) {
  for (Way way : ways)
    for (int current : {0, 1}) {
      TwoDevices of;
      Gate gate;
      OK(cuCtxSetCurrent(of.contexts[current]));
      gate.hold(of.streams[current]);
      way(of);
      for (int i : {1, 0}) {
        OK(cuCtxSetCurrent(of.contexts[i]));
        OK(cuMemsetD8Async(of.memory[i] + 4, 9, of.kBytes - 4, of.streams[i]));
        EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(of.streams[i]));
      }
      gate.open();
      uint8_t start[8];
      OK(cuMemcpyDtoH_v2(start, of.memory[0], sizeof start));
      const uint8_t expected[8] = {2, 2, 2, 2, 9, 9, 9, 9};
      assert_memory_equal(start, expected, sizeof start);
    }
}

void copies_in_other_streams_wait_for_their_own_only(void **) {
  TwoDevices of;
  Gate gate;
  OK(cuCtxSetCurrent(of.contexts[1]));
  gate.hold(of.streams[1]);
  OK(cuMemsetD8Async(of.memory[1], 9, of.kBytes, of.streams[1]));
  OK(cuCtxSetCurrent(of.contexts[0]));
  OK(cuMemcpyAsync(of.memory[0], of.memory[1], of.kBytes, of.streams[0]));
  OK(cuStreamSynchronize(of.streams[0]));
  assert_int_equal(of.byte(0), 2);
  gate.open();
}

void a_copy_to_the_host_waits_for_whose_memory_it_is(void **) {
  TwoDevices of;
  Gate gate;
  uint8_t *pinned;
  OK(cuCtxSetCurrent(of.contexts[1]));
  gate.hold(of.streams[1]);
  OK(cuMemsetD8Async(of.memory[1], 9, of.kBytes, of.streams[1]));
  OK(cuCtxSetCurrent(of.contexts[0]));
  OK(cuMemAllocHost_v2(reinterpret_cast<void **>(&pinned), of.kBytes));
  OK(cuMemcpyDtoHAsync_v2(pinned, of.memory[1], of.kBytes, nullptr));
  gate.open();
  OK(cuStreamSynchronize(nullptr));
  assert_true(pinned[0] == 9 && pinned[of.kBytes - 1] == 9);
  OK(cuMemFreeHost(pinned));
}

}  // namespace

int main() {
  setenv("SOFTWARE_DEVICE_GPUS", "2", 1);
  const CMUnitTest tests[] = {
      TEST(many_copies_in_one_call),
      TEST(boxes_in_one_call),
      TEST(copies_come_after_the_work_of_both_devices),
      TEST(work_of_both_devices_comes_after_copies),
      TEST(copies_in_other_streams_wait_for_their_own_only),
      TEST(a_copy_to_the_host_waits_for_whose_memory_it_is),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
