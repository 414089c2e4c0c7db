// Order and asynchrony. Nothing here looks at a clock: gates hold streams, and the test looks at
// what may and what may not have happened.
#include <atomic>
#include <thread>

#include "support.h"

namespace {

struct Device {
  CUdeviceptr address;
  Device() {
    OK(cuMemAlloc_v2(&address, 4096));
    OK(cuMemsetD32_v2(address, 0, 1024));
    OK(cuCtxSynchronize());
  }
  ~Device() { cuMemFree_v2(address); }
  // Looks at the memory itself, in order with nothing.
  uint32_t peek() const {
    return __atomic_load_n(reinterpret_cast<const uint32_t *>(address), __ATOMIC_ACQUIRE);
  }
};

void work_waits_its_turn_and_the_call_does_not(void **) {
  Device device;
  CUstream stream;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  Gate gate;
  gate.hold(stream);
  OK(cuMemsetD32Async(device.address, 5, 1, stream));
  EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
  assert_int_equal(device.peek(), 0);
  gate.open();
  OK(cuStreamSynchronize(stream));
  assert_int_equal(device.peek(), 5);
  OK(cuStreamQuery(stream));
  OK(cuStreamDestroy_v2(stream));
}

void streams_run_beside_each_other(void **) {
  Device device;
  CUstream held, other;
  OK(cuStreamCreate(&held, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  Gate gate;
  gate.hold(held);
  OK(cuMemsetD32Async(device.address, 6, 1, other));
  OK(cuStreamSynchronize(other));
  assert_int_equal(device.peek(), 6);
  EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(held));
  gate.open();
  OK(cuCtxSynchronize());
  OK(cuStreamQuery(held));
}

void the_legacy_stream_waits_for_blocking_streams(void **) {
  Device device;
  CUstream blocking;
  OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
  Gate gate;
  gate.hold(blocking);
  OK(cuMemsetD32Async(device.address, 7, 1, nullptr));
  EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(CU_STREAM_LEGACY));
  assert_int_equal(device.peek(), 0);
  gate.open();
  OK(cuStreamSynchronize(nullptr));
  assert_int_equal(device.peek(), 7);
}

void blocking_streams_wait_for_the_legacy_stream(void **) {
  Device device;
  CUstream blocking, free_running;
  OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
  OK(cuStreamCreate(&free_running, CU_STREAM_NON_BLOCKING));
  Gate gate;
  gate.hold(nullptr);
  OK(cuMemsetD32Async(device.address, 8, 1, blocking));
  OK(cuMemsetD32Async(device.address, 9, 1, free_running));
  OK(cuStreamSynchronize(free_running));
  assert_int_equal(device.peek(), 9);
  EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(blocking));
  gate.open();
  OK(cuStreamSynchronize(blocking));
  assert_int_equal(device.peek(), 8);
}

void the_per_thread_stream_is_one_per_thread(void **state) {
  Device device;
  Gate gate;
  OK(cuLaunchHostFunc_ptsz(
      nullptr, [](void *) {}, nullptr));
  gate.hold(CU_STREAM_PER_THREAD);
  EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery_ptsz(nullptr));
  EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(CU_STREAM_PER_THREAD));
  std::thread([&] {
    OK(cuCtxSetCurrent(static_cast<CUcontext>(*state)));
    OK(cuMemsetD32Async_ptsz(device.address, 4, 1, nullptr));
    OK(cuStreamSynchronize_ptsz(nullptr));
  }).join();
  assert_int_equal(device.peek(), 4);
  gate.open();
  OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
}

void events_order_streams(void **) {
  Device device;
  CUstream first, second;
  CUevent event;
  OK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
  OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  OK(cuEventQuery(event));  // never recorded: nothing to wait for
  OK(cuEventSynchronize(event));
  OK(cuStreamWaitEvent(second, event, 0));
  OK(cuStreamQuery(second));
  Gate gate;
  gate.hold(first);
  OK(cuMemsetD32Async(device.address, 1, 1, first));
  OK(cuEventRecord(event, first));
  EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(event));
  OK(cuStreamWaitEvent(second, event, 0));
  OK(cuMemsetD32Async(device.address, 2, 1, second));
  EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(second));
  OK(cuEventDestroy_v2(event));  // what waits for it goes on waiting
  EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(event));
  assert_int_equal(device.peek(), 0);
  gate.open();
  OK(cuStreamSynchronize(second));
  assert_int_equal(device.peek(), 2);
}

void elapsed_time(void **) {
  CUevent start, end, plain;
  float milliseconds = -1;
  OK(cuEventCreate(&start, 0));
  OK(cuEventCreate(&end, 0));
  OK(cuEventCreate(&plain, CU_EVENT_DISABLE_TIMING));
  EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&milliseconds, start, end));
  OK(cuEventRecord(start, nullptr));
  Gate gate;
  gate.hold(nullptr);
  OK(cuEventRecord(end, nullptr));
  OK(cuEventRecord(plain, nullptr));
  EXPECT(CUDA_ERROR_NOT_READY, cuEventElapsedTime(&milliseconds, start, end));
  gate.open();
  OK(cuEventSynchronize(end));
  OK(cuEventElapsedTime(&milliseconds, start, end));
  assert_true(milliseconds >= 0);
  EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&milliseconds, start, plain));
}

void pageable_memory_may_be_reused_at_once(void **) {
  Device device;
  CUstream stream;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  Gate gate;
  gate.hold(stream);
  uint32_t value = 77;
  OK(cuMemcpyHtoDAsync_v2(device.address, &value, 4, stream));
  value = 78;  // the copy has its own by now
  gate.open();
  uint32_t back = 0;
  OK(cuMemcpyDtoHAsync_v2(&back, device.address, 4, stream));  // done when it returns
  assert_int_equal(back, 77);
}

void pinned_copies_are_asynchronous(void **) {
  Device device;
  CUstream stream;
  void *pinned;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuMemHostAlloc(&pinned, 8, 0));
  auto *values = static_cast<uint32_t *>(pinned);
  values[0] = 1;
  values[1] = 0;
  Gate gate;
  gate.hold(stream);
  OK(cuMemcpyHtoDAsync_v2(device.address, values, 4, stream));
  OK(cuMemcpyDtoHAsync_v2(values + 1, device.address, 4, stream));
  values[0] = 2;  // seen by the copy, which has not happened
  gate.open();
  OK(cuStreamSynchronize(stream));
  assert_int_equal(values[1], 2);
  OK(cuMemFreeHost(pinned));
}

std::atomic<int> calls;

void host_functions_run_in_order_and_may_not_call_us(void **) {
  CUstream stream;
  OK(cuStreamCreate(&stream, 0));
  calls = 0;
  for (intptr_t i = 0; i < 100; i++)
    OK(cuLaunchHostFunc(
        stream,
        [](void *expected) {
          int number = calls;
          if (number == static_cast<int>(reinterpret_cast<intptr_t>(expected))) calls = number + 1;
        },
        reinterpret_cast<void *>(i)));
  OK(cuStreamSynchronize(stream));
  assert_int_equal(calls, 100);
  static CUresult inside;
  OK(cuLaunchHostFunc(
      stream, [](void *) { inside = cuCtxSynchronize(); }, nullptr));
  OK(cuStreamSynchronize(stream));
  assert_int_equal(inside, CUDA_ERROR_NOT_PERMITTED);
}

void a_host_function_may_wait_for_another_streams(void **) {
  CUstream a, b;
  OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
  std::vector<Gate> gates(40);
  for (Gate &gate : gates) {
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    gate.hold(stream);
  }
  OK(cuLaunchHostFunc(
      b,
      [](void *all) {
        for (Gate &gate : *static_cast<std::vector<Gate> *>(all)) gate.open();
      },
      &gates));
  OK(cuCtxSynchronize());
}

// More functions that wait than there are threads for them: copies get on.
void host_functions_that_wait_stop_nothing_else(void **) {
  constexpr size_t kStreams = 300, kBytes = 8 << 20;
  std::vector<CUstream> streams(kStreams);
  std::vector<Gate> gates(kStreams);
  for (size_t i = 0; i < kStreams; i++) {
    OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    gates[i].hold(streams[i]);
  }
  CUstream other;
  OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  CUdeviceptr address;
  void *pinned;
  OK(cuMemAlloc_v2(&address, kBytes));
  OK(cuMemAllocHost_v2(&pinned, kBytes));
  memset(pinned, 0, kBytes);
  OK(cuMemsetD8Async(address, 7, kBytes, other));
  OK(cuMemcpyDtoHAsync_v2(pinned, address, kBytes, other));
  OK(cuStreamSynchronize(other));
  assert_int_equal(static_cast<uint8_t *>(pinned)[kBytes - 1], 7);
  for (CUstream stream : streams) EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
  for (Gate &gate : gates) gate.open();
  OK(cuCtxSynchronize());
  OK(cuMemFreeHost(pinned));
}

void destroyed_streams_finish_their_work(void **) {
  Device device;
  CUstream stream;
  OK(cuStreamCreate(&stream, 0));
  Gate gate;
  gate.hold(stream);
  OK(cuMemsetD32Async(device.address, 3, 1, stream));
  OK(cuStreamDestroy_v2(stream));
  EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(stream));
  gate.open();
  OK(cuCtxSynchronize());
  assert_int_equal(device.peek(), 3);
}

void handles_are_checked(void **) {
  CUstream made_up = reinterpret_cast<CUstream>(0xDEADBEEF0);
  EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(made_up));
  EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy_v2(made_up));
  EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(reinterpret_cast<CUevent>(made_up)));
  CUevent event;
  OK(cuEventCreate(&event, 0));
  // Of the wrong kind.
  EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery(reinterpret_cast<CUstream>(event)));
  int priority;
  CUstream stream;
  OK(cuStreamCreateWithPriority(&stream, 0, -100));
  OK(cuStreamGetPriority(stream, &priority));
  assert_int_equal(priority, -5);
  unsigned flags;
  OK(cuStreamGetFlags(stream, &flags));
  assert_int_equal(flags, 0);
  CUstreamCaptureStatus status;
  OK(cuStreamIsCapturing(stream, &status));
  assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
}

// Many threads at once on one context; the sanitizer builds watch.
void threads(void **state) {
  std::vector<std::thread> all;
  std::atomic<int> wrong{0};
  for (uint32_t number = 1; number <= 8; number++)
    all.emplace_back([&, number] {
      CUdeviceptr address;
      CUstream stream;
      if (cuCtxSetCurrent(static_cast<CUcontext>(*state)) || cuStreamCreate(&stream, number % 2)) {
        wrong++;
        return;
      }
      for (uint32_t i = 0; i < 50; i++) {
        uint32_t back = 0;
        if (cuMemAlloc_v2(&address, 1000 * number) ||
            cuMemsetD32Async(address, number * 1000 + i, 10, stream) ||
            cuMemcpyDtoHAsync_v2(&back, address + 36, 4, stream) || cuMemFree_v2(address) ||
            back != number * 1000 + i)
          wrong++;
      }
      if (cuStreamDestroy_v2(stream)) wrong++;
    });
  for (std::thread &thread : all) thread.join();
  assert_int_equal(wrong, 0);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      TEST(work_waits_its_turn_and_the_call_does_not),
      TEST(streams_run_beside_each_other),
      TEST(the_legacy_stream_waits_for_blocking_streams),
      TEST(blocking_streams_wait_for_the_legacy_stream),
      TEST(the_per_thread_stream_is_one_per_thread),
      TEST(events_order_streams),
      TEST(elapsed_time),
      TEST(pageable_memory_may_be_reused_at_once),
      TEST(pinned_copies_are_asynchronous),
      TEST(host_functions_run_in_order_and_may_not_call_us),
      TEST(a_host_function_may_wait_for_another_streams),
      TEST(host_functions_that_wait_stop_nothing_else),
      TEST(destroyed_streams_finish_their_work),
      TEST(handles_are_checked),
      TEST(threads),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
