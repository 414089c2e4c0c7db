// Streams that wait for values in memory, and write them.
#include <atomic>

#include "support.h"

namespace {

CUstream make_stream() {
  CUstream stream;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

// Host memory that streams and this thread share.
uint32_t *pinned(size_t words) {
  void *memory;
  OK(cuMemHostAlloc(&memory, words * 4, CU_MEMHOSTALLOC_DEVICEMAP));
  memset(memory, 0, words * 4);
  return static_cast<uint32_t *>(memory);
}

CUdeviceptr at(const void *host) { return reinterpret_cast<CUdeviceptr>(host); }

void put(uint32_t *where, uint32_t value) { __atomic_store_n(where, value, __ATOMIC_SEQ_CST); }

void a_stream_waits_for_the_host(void **) {
  uint32_t *words = pinned(4);
  CUstream stream = make_stream();
  OK(cuStreamWaitValue32_v2(stream, at(words), 5, CU_STREAM_WAIT_VALUE_EQ));
  OK(cuStreamWriteValue32_v2(stream, at(words + 1), 77, 0));
  EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
  assert_int_equal(words[1], 0);
  put(words, 4);
  EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
  put(words, 5);
  OK(cuStreamSynchronize(stream));
  assert_int_equal(words[1], 77);
  OK(cuStreamDestroy_v2(stream));
  OK(cuMemFreeHost(words));
}

void a_stream_waits_for_another(void **) {
  uint32_t *words = pinned(4);
  CUstream first = make_stream(), second = make_stream();
  CUdeviceptr flag;
  OK(cuMemAlloc_v2(&flag, 8));
  OK(cuMemsetD32_v2(flag, 0, 2));
  OK(cuCtxSynchronize());
  Gate gate;
  gate.hold(first);
  OK(cuStreamWriteValue64_v2(first, flag, uint64_t{1} << 40, 0));
  OK(cuStreamWaitValue64_v2(second, flag, uint64_t{1} << 40, CU_STREAM_WAIT_VALUE_GEQ));
  OK(cuStreamWriteValue32_v2(second, at(words), 1, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
  assert_int_equal(words[0], 0);
  gate.open();
  OK(cuStreamSynchronize(second));
  assert_int_equal(words[0], 1);
  OK(cuStreamDestroy_v2(first));
  OK(cuStreamDestroy_v2(second));
  OK(cuMemFree_v2(flag));
  OK(cuMemFreeHost(words));
}

// Each condition at a value that fits and at one that does not.
void conditions_are_what_they_say(void **) {
  struct {
    unsigned flags;
    uint32_t wanted, fits, fails;
  } cases[] = {
      {CU_STREAM_WAIT_VALUE_GEQ, 10, 10, 9},
      {CU_STREAM_WAIT_VALUE_GEQ, 0xFFFFFFF0u, 4, 0xFFFFFFEFu},  // wrapped around
      {CU_STREAM_WAIT_VALUE_EQ, 10, 10, 11},
      {CU_STREAM_WAIT_VALUE_AND, 6, 2, 9},
      {CU_STREAM_WAIT_VALUE_NOR, 0x0000FFFFu, 0x7FFF0000u, 0xFFFF0000u},
  };
  uint32_t *words = pinned(2);
  CUstream stream = make_stream();
  for (auto &one : cases) {
    put(words, one.fails);
    OK(cuStreamWaitValue32_v2(stream, at(words), one.wanted, one.flags));
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    put(words, one.fits);
    OK(cuStreamSynchronize(stream));
    OK(cuStreamWaitValue32(stream, at(words), one.wanted, one.flags));
    OK(cuStreamSynchronize(stream));
  }
  OK(cuStreamDestroy_v2(stream));
  OK(cuMemFreeHost(words));
}

void batches_go_one_after_the_other(void **) {
  uint32_t *words = pinned(8);
  CUstream stream = make_stream();
  CUstreamBatchMemOpParams entries[4] = {};
  entries[0].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, at(words), {1}, 0, 0};
  entries[1].waitValue = {
      CU_STREAM_MEM_OP_WAIT_VALUE_32, at(words + 1), {3}, CU_STREAM_WAIT_VALUE_EQ, 0};
  entries[2].memoryBarrier = {CU_STREAM_MEM_OP_BARRIER, CU_STREAM_MEMORY_BARRIER_TYPE_SYS};
  entries[3].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
  entries[3].writeValue.address = at(words + 2);
  entries[3].writeValue.value64 = 0x100000002;
  OK(cuStreamBatchMemOp_v2(stream, 4, entries, 0));
  while (__atomic_load_n(words, __ATOMIC_SEQ_CST) != 1) {
  }
  assert_int_equal(words[2], 0);
  put(words + 1, 3);
  OK(cuStreamSynchronize(stream));
  assert_int_equal(words[2], 2);
  assert_int_equal(words[3], 1);

  EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp_v2(stream, 0, entries, 0));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp_v2(stream, 257, entries, 0));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp_v2(stream, 1, nullptr, 0));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp_v2(stream, 1, entries, 1));
  entries[0].operation = static_cast<CUstreamBatchMemOpType>(99);
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp_v2(stream, 1, entries, 0));
  entries[0].operation = CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES;
  EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuStreamBatchMemOp_v2(stream, 1, entries, 0));
  OK(cuStreamDestroy_v2(stream));
  OK(cuMemFreeHost(words));
}

void bad_arguments_are_refused(void **) {
  uint32_t *words = pinned(4);
  uint32_t own = 0;
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue32_v2(nullptr, 0, 0, 0));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue32_v2(nullptr, at(words) + 2, 0, 0));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue64_v2(nullptr, at(words + 1), 0, 0));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue32_v2(nullptr, at(words), 0, 4));
  EXPECT(CUDA_ERROR_NOT_SUPPORTED,
         cuStreamWaitValue32_v2(nullptr, at(words), 0, CU_STREAM_WAIT_VALUE_FLUSH));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue32_v2(nullptr, at(words), 0, 2));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue32_v2(nullptr, at(&own), 1, 0));
  EXPECT(CUDA_ERROR_INVALID_HANDLE,
         cuStreamWriteValue32_v2(reinterpret_cast<CUstream>(0x1234560), at(words), 1, 0));
  OK(cuMemFreeHost(words));
}

// The memory goes while the stream waits for it: an error, and the process lives.
void memory_that_is_freed_meanwhile_is_a_fault(void **) {
  CUdeviceptr flag;
  CUstream stream = make_stream(), other = make_stream();
  OK(cuMemAllocAsync(&flag, 4 << 20, other));
  OK(cuMemsetD32Async(flag, 0, 1, other));
  OK(cuStreamSynchronize(other));
  OK(cuStreamWaitValue32_v2(stream, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
  OK(cuMemFreeAsync(flag, other));
  EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      TEST(a_stream_waits_for_the_host),  TEST(a_stream_waits_for_another),
      TEST(conditions_are_what_they_say), TEST(batches_go_one_after_the_other),
      TEST(bad_arguments_are_refused),    TEST(memory_that_is_freed_meanwhile_is_a_fault),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
