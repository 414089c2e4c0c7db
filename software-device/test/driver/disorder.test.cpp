// The disorder mode: what CUDA orders stays ordered, what it does not comes in another order, and
// a program without the synchronisation that it needs is shown to be wrong.
#include <atomic>
#include <cstdlib>
#include <vector>

#include "support.h"

namespace {

constexpr uint32_t kWords = 1 << 14;

// Each step needs the one before.
void a_stream_keeps_its_order(void **) {
  CUmodule module = load_kernels();
  CUfunction add = kernel(module, "add_one");
  CUdeviceptr a, b;
  OK(cuMemAlloc_v2(&a, kWords * 4));
  OK(cuMemAlloc_v2(&b, kWords * 4));
  uint32_t *host;
  OK(cuMemAllocHost_v2(reinterpret_cast<void **>(&host), kWords * 4));
  CUstream stream;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  uint32_t count = kWords;
  for (uint32_t round = 0; round < 10; round++) {
    OK(cuMemsetD32Async(a, round, kWords, stream));
    void *parameters[] = {&a, &count};
    OK(cuLaunchKernel(add, kWords / 256, 1, 1, 256, 1, 1, 0, stream, parameters, nullptr));
    OK(cuMemcpyDtoDAsync_v2(b, a, kWords * 4, stream));
    OK(cuMemcpyDtoHAsync_v2(host, b, kWords * 4, stream));
    OK(cuStreamSynchronize(stream));
    for (uint32_t i = 0; i < kWords; i++) assert_int_equal(host[i], round + 1);
  }
  OK(cuMemFreeHost(host));
  OK(cuMemFree_v2(a));
  OK(cuMemFree_v2(b));
}

void events_order_streams(void **) {
  CUdeviceptr at;
  OK(cuMemAlloc_v2(&at, 4));
  CUstream first, second;
  CUevent event;
  OK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
  OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  for (uint32_t round = 0; round < 20; round++) {
    OK(cuMemsetD32Async(at, 2 * round, 1, first));
    OK(cuEventRecord(event, first));
    OK(cuStreamWaitEvent(second, event, 0));
    OK(cuMemsetD32Async(at, 2 * round + 1, 1, second));
    OK(cuStreamSynchronize(second));
    uint32_t value;
    OK(cuMemcpyDtoH_v2(&value, at, 4));
    assert_int_equal(value, 2 * round + 1);
  }
  OK(cuMemFree_v2(at));
}

struct Arrivals {
  std::atomic<unsigned> count{0};
  unsigned order[64];
};
struct Traveller {
  Arrivals *all;
  unsigned number;
};
void arrive(void *data) {
  auto *traveller = static_cast<Traveller *>(data);
  traveller->all->order[traveller->all->count++] = traveller->number;
}

void streams_overtake_one_another(void **) {
  Arrivals all;
  Traveller travellers[64];
  for (unsigned i = 0; i < 64; i++) {
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    travellers[i] = {&all, i};
    OK(cuLaunchHostFunc(stream, arrive, &travellers[i]));
  }
  OK(cuCtxSynchronize());
  assert_int_equal(all.count, 64);
  unsigned overtaken = 0;
  for (unsigned i = 1; i < 64; i++) overtaken += all.order[i] < all.order[i - 1];
  assert_true(overtaken > 4);
}

// The source is written again before the copy is known to be done.
void a_missing_synchronisation_shows(void **) {
  CUdeviceptr at;
  OK(cuMemAlloc_v2(&at, 4));
  uint32_t *host;
  OK(cuMemAllocHost_v2(reinterpret_cast<void **>(&host), 4));
  CUstream stream;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  unsigned wrong = 0;
  for (uint32_t round = 0; round < 40; round++) {
    __atomic_store_n(host, 2 * round, __ATOMIC_RELEASE);
    OK(cuMemcpyHtoDAsync_v2(at, host, 4, stream));
    __atomic_store_n(host, 2 * round + 1, __ATOMIC_RELEASE);
    OK(cuStreamSynchronize(stream));
    uint32_t value;
    OK(cuMemcpyDtoH_v2(&value, at, 4));
    wrong += value != 2 * round;
  }
  assert_true(wrong > 0);
  OK(cuMemFreeHost(host));
  OK(cuMemFree_v2(at));
}

}  // namespace

int main() {
  setenv("SOFTWARE_DEVICE_DISORDER", "11", 1);
  const CMUnitTest tests[] = {TEST(a_stream_keeps_its_order), TEST(events_order_streams),
                              TEST(streams_overtake_one_another),
                              TEST(a_missing_synchronisation_shows)};
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
