// What is set and asked for: attributes of streams and launches, limits, atomics; and two devices
// that let each other in.
#include <thread>

#include "support.h"

namespace {

void attributes_of_streams(void **) {
  CUstream first, second;
  OK(cuStreamCreateWithPriority(&first, 0, -2));
  OK(cuStreamCreate(&second, 0));
  CUstreamAttrValue value = {};
  OK(cuStreamGetAttribute(first, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
  assert_int_equal(value.priority, -2);
  OK(cuStreamGetAttribute(first, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
  assert_int_equal(value.syncPolicy, CU_SYNC_POLICY_AUTO);
  value.syncPolicy = CU_SYNC_POLICY_SPIN;
  OK(cuStreamSetAttribute(first, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
  memset(&value, 0, sizeof value);
  value.accessPolicyWindow.hitRatio = 0.5f;
  value.accessPolicyWindow.num_bytes = 4096;
  OK(cuStreamSetAttribute(first, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, &value));
  OK(cuStreamCopyAttributes(second, first));
  memset(&value, 0, sizeof value);
  OK(cuStreamGetAttribute(second, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, &value));
  assert_true(value.accessPolicyWindow.num_bytes == 4096);
  OK(cuStreamGetAttribute(second, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
  assert_int_equal(value.syncPolicy, CU_SYNC_POLICY_SPIN);
  memset(&value, 0, sizeof value);
  value.accessPolicyWindow.hitRatio = 1.5f;
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuStreamSetAttribute(first, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, &value));
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuStreamGetAttribute(first, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value));
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuStreamGetAttribute(first, CU_LAUNCH_ATTRIBUTE_PRIORITY, nullptr));
  EXPECT(CUDA_ERROR_INVALID_HANDLE,
         cuStreamCopyAttributes(reinterpret_cast<CUstream>(0x5550), first));
  OK(cuStreamDestroy_v2(first));
  OK(cuStreamDestroy_v2(second));
}

void events_of_launches(void **) {
  CUfunction nothing = kernel(load_kernels(), "nothing");
  CUstream stream;
  CUevent event, timed;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  OK(cuEventCreate(&timed, 0));
  CUlaunchAttribute attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
  attribute.value.launchCompletionEvent.event = event;
  CUlaunchConfig config = {};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  Gate gate;
  gate.hold(stream);
  OK(cuLaunchKernelEx(&config, nothing, nullptr, nullptr));
  EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(event));
  gate.open();
  OK(cuEventSynchronize(event));
  attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT;
  attribute.value.programmaticEvent.event = timed;
  EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuLaunchKernelEx(&config, nothing, nullptr, nullptr));
  attribute.value.programmaticEvent.event = nullptr;
  EXPECT(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernelEx(&config, nothing, nullptr, nullptr));
  OK(cuEventDestroy_v2(event));
  OK(cuEventDestroy_v2(timed));
  OK(cuStreamDestroy_v2(stream));
}

void the_persisting_part_of_the_cache(void **) {
  int most;
  size_t value;
  OK(cuDeviceGetAttribute(&most, CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE, 0));
  assert_true(most > 0);
  OK(cuCtxGetLimit(&value, CU_LIMIT_PERSISTING_L2_CACHE_SIZE));
  assert_int_equal(value, 0);
  OK(cuCtxSetLimit(CU_LIMIT_PERSISTING_L2_CACHE_SIZE, SIZE_MAX));
  OK(cuCtxGetLimit(&value, CU_LIMIT_PERSISTING_L2_CACHE_SIZE));
  assert_int_equal(value, most);
  OK(cuCtxResetPersistingL2Cache());
}

void atomics_are_everywhere(void **) {
  CUatomicOperation operations[] = {CU_ATOMIC_OPERATION_INTEGER_ADD, CU_ATOMIC_OPERATION_CAS};
  unsigned answers[2] = {};
  OK(cuDeviceGetHostAtomicCapabilities(answers, operations, 2, 0));
  assert_true(answers[0] & CU_ATOMIC_CAPABILITY_SCALAR_64);
  assert_false(answers[1] & CU_ATOMIC_CAPABILITY_REDUCTION);
  OK(cuDeviceGetP2PAtomicCapabilities(answers, operations, 2, 0, 1));
  EXPECT(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetP2PAtomicCapabilities(answers, operations, 2, 0, 0));
  operations[0] = static_cast<CUatomicOperation>(99);
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuDeviceGetHostAtomicCapabilities(answers, operations, 2, 0));
}

// A kernel of device 1 in the pool of device 0.
void pools_let_devices_in(void **) {
  CUmemoryPool pool;
  OK(cuDeviceGetDefaultMemPool(&pool, 0));
  CUmemLocation second = {CU_MEM_LOCATION_TYPE_DEVICE, 1}, first = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemAccess_flags flags;
  OK(cuMemPoolGetAccess(&flags, pool, &second));
  assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  CUdeviceptr word;
  OK(cuMemAllocAsync(&word, 4, nullptr));
  OK(cuMemsetD32Async(word, 1, 1, nullptr));
  OK(cuCtxSynchronize());
  auto store = [&](uint32_t value) {
    CUcontext other;
    OK(cuCtxCreate_v2(&other, 0, 1));
    void *parameters[] = {&word, &value};
    OK(cuLaunchKernel(kernel(load_kernels(), "store"), 1, 1, 1, 1, 1, 1, 0, nullptr, parameters,
                      nullptr));
    CUresult result = cuCtxSynchronize();
    cuCtxDestroy_v2(other);
    return result;
  };
  EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, store(2));
  CUmemAccessDesc access = {second, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  OK(cuMemPoolSetAccess(pool, &access, 1));
  OK(cuMemPoolGetAccess(&flags, pool, &second));
  assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  OK(store(3));
  uint32_t value = 0;
  OK(cuMemcpyDtoH_v2(&value, word, 4));
  assert_int_equal(value, 3);
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  OK(cuMemPoolSetAccess(pool, &access, 1));
  EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, store(4));
  access.location = first;
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolSetAccess(pool, &access, 1));
  access.location.id = 9;
  EXPECT(CUDA_ERROR_INVALID_DEVICE, cuMemPoolSetAccess(pool, &access, 1));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolSetAccess(pool, nullptr, 1));
  OK(cuMemFreeAsync(word, nullptr));
}

// Freeing waits for the device's own work, not for what another device does.
void freeing_does_not_wait_for_other_devices(void **) {
  CUdeviceptr memory;
  OK(cuMemAlloc_v2(&memory, 4 << 20));
  CUcontext other, before;
  OK(cuCtxGetCurrent(&before));
  OK(cuCtxCreate_v2(&other, 0, 1));
  CUstream stream;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  Gate gate;
  gate.hold(stream);
  CUdeviceptr target;
  OK(cuMemAlloc_v2(&target, 4 << 20));
  // A copy out of what is freed meanwhile: it must not be our death.
  OK(cuMemcpyPeerAsync(target, other, memory, before, 4 << 20, stream));
  OK(cuCtxSetCurrent(before));
  OK(cuMemFree_v2(memory));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD32_v2(memory, 0, 1));
  gate.open();
  OK(cuStreamSynchronize(stream));
  OK(cuCtxDestroy_v2(other));
  OK(cuCtxSetCurrent(before));
}

// A thread's default stream goes with it; what is queued there still runs.
void streams_of_threads_end_with_them(void **) {
  CUcontext context;
  OK(cuCtxGetCurrent(&context));
  CUdeviceptr word;
  OK(cuMemAlloc_v2(&word, 4));
  OK(cuMemsetD32_v2(word, 0, 1));
  for (uint32_t i = 0; i < 50; i++)
    std::thread([&] {
      cuCtxSetCurrent(context);
      cuMemsetD32Async_ptsz(word, i, 1, CU_STREAM_PER_THREAD);
    }).join();
  OK(cuCtxSynchronize());
  uint32_t value = 0;
  OK(cuMemcpyDtoH_v2(&value, word, 4));
  assert_int_equal(value, 49);
  OK(cuMemFree_v2(word));
}

}  // namespace

int main() {
  setenv("SOFTWARE_DEVICE_GPUS", "2", 1);
  const CMUnitTest tests[] = {
      TEST(attributes_of_streams),
      TEST(events_of_launches),
      TEST(the_persisting_part_of_the_cache),
      TEST(atomics_are_everywhere),
      TEST(pools_let_devices_in),
      TEST(freeing_does_not_wait_for_other_devices),
      TEST(streams_of_threads_end_with_them),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
