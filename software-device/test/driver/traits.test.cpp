// Traits of NVIDIA's driver. Run with those in its environment that the first tests look at.
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>

#include "core/traits.h"
#include "support.h"

namespace {

using softdev::driver::kOwnAddresses;
using softdev::driver::read_traits;
using softdev::driver::Traits;
using softdev::driver::traits_text;

constexpr unsigned kEntries = 8;  // of the queue, by the environment of this test
// Long enough for a call that does not wait to be over. Where calls do wait, no time matters.
constexpr useconds_t kMoment = 100'000;

CUstream stream() {
  CUstream made;
  OK(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
  return made;
}

// Queues one entry more than a stream takes, behind a gate that is opened a moment later.
template <class QueueOne>
void waits_for_room(QueueOne queue_one) {
  CUcontext context;
  OK(cuCtxGetCurrent(&context));
  CUstream full = stream();
  Gate gate;
  gate.hold(full);
  for (unsigned i = 1; i < kEntries; i++) queue_one(full);
  std::atomic<bool> opened{false}, opened_before_return{false};
  std::thread other([&] {
    OK(cuCtxSetCurrent(context));
    queue_one(full);
    opened_before_return = opened.load();
  });
  usleep(kMoment);
  opened = true;
  gate.open();
  other.join();
  assert_true(opened_before_return);
  OK(cuStreamDestroy_v2(full));
}

void a_full_queue_lets_launches_wait(void **) {
  CUfunction function = kernel(load_kernels(), "nothing");
  waits_for_room([&](CUstream full) {
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, full, nullptr, nullptr));
  });
}

void a_full_queue_lets_fills_events_and_graphs_wait(void **) {
  CUdeviceptr at;
  OK(cuMemAlloc_v2(&at, 4));
  waits_for_room([&](CUstream full) { OK(cuMemsetD32Async(at, 1, 1, full)); });
  CUevent event;
  OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
  waits_for_room([&](CUstream full) { OK(cuEventRecord(event, full)); });
  CUgraph graph;
  CUgraphExec exec;
  OK(cuGraphCreate(&graph, 0));
  OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  waits_for_room([&](CUstream full) { OK(cuGraphLaunch(exec, full)); });
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
  OK(cuMemFree_v2(at));
}

void other_streams_have_room(void **) {
  CUdeviceptr at;
  OK(cuMemAlloc_v2(&at, 4));
  CUstream full = stream(), free = stream();
  Gate gate;
  gate.hold(full);
  for (unsigned i = 1; i < kEntries; i++) OK(cuMemsetD32Async(at, i, 1, full));
  for (unsigned i = 0; i < 4 * kEntries; i++) OK(cuMemsetD32Async(at, 0, 1, free));
  // What is captured is not queued.
  CUgraph graph;
  OK(cuStreamBeginCapture_v2(full, CU_STREAM_CAPTURE_MODE_RELAXED));
  for (unsigned i = 0; i < kEntries; i++) OK(cuMemsetD32Async(at, i, 1, full));
  OK(cuStreamEndCapture(full, &graph));
  OK(cuGraphDestroy(graph));
  gate.open();
  OK(cuCtxSynchronize());
  OK(cuMemFree_v2(at));
}

struct Calls {
  std::atomic<int> inside{0}, most{0};
};
void call(void *data) {
  auto *calls = static_cast<Calls *>(data);
  const int inside = ++calls->inside;
  if (inside > calls->most) calls->most = inside;
  usleep(kMoment / 4);
  --calls->inside;
}

void host_functions_are_called_one_by_one(void **) {
  Calls calls;
  for (int i = 0; i < 4; i++) OK(cuLaunchHostFunc(stream(), call, &calls));
  OK(cuCtxSynchronize());
  assert_int_equal(calls.most, 1);
}

CUdeviceptr reserved(uint64_t hint) {
  constexpr size_t kBytes = size_t{1} << 30;
  CUdeviceptr at;
  OK(cuMemAddressReserve(&at, kBytes, 0, hint, 0));
  OK(cuMemAddressFree(at, kBytes));
  return at;
}

void hints_may_be_ignored(void **) {
#ifdef __SANITIZE_THREAD__
  skip();  // its shadow is in all of these places
#endif
  constexpr uint64_t kLow = uint64_t{1} << 45, kHigh = uint64_t{1} << 46;
  assert_int_equal(reserved(0), kOwnAddresses);
  const char *traits = getenv("SOFTWARE_DEVICE_TRAITS");
  const bool low = strstr(traits, "hints=low"), high = strstr(traits, "hints=high");
  assert_int_equal(reserved(kLow), low ? kLow : kOwnAddresses);
  assert_int_equal(reserved(kHigh), high ? kHigh : kOwnAddresses);
  // Where that is taken, the next one is.
  CUdeviceptr first, second;
  OK(cuMemAddressReserve(&first, kHigh - kLow, 0, 0, 0));
  OK(cuMemAddressReserve(&second, 1 << 21, 0, 0, 0));
  assert_int_equal(first, kOwnAddresses);
  assert_true(second != first);
  OK(cuMemAddressFree(first, kHigh - kLow));
  OK(cuMemAddressFree(second, 1 << 21));
}

int64_t processor_ns(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

constexpr int64_t kMuch = 5'000'000;  // ns of processor time: no thread needs it to fall asleep

// Checks whether `wait` spins until the gate in front of what it waits for opens: the gate is
// opened when it has used much processor time, or after a while in which it has not.
template <class Wait>
void check_spins(bool expected, Gate &gate, Wait wait) {
  clockid_t clock;
  assert_int_equal(pthread_getcpuclockid(pthread_self(), &clock), 0);
  const int64_t before = processor_ns(clock);
  bool spun = false;
  std::thread other([&] {
    for (int moments = 0; moments < (expected ? 1000 : 8) && !spun; moments++) {
      usleep(kMoment / 4);
      spun = processor_ns(clock) - before > kMuch;
    }
    gate.open();
  });
  wait();
  other.join();
  assert_int_equal(spun, expected);
}

void check_synchronising(unsigned flags, bool expected) {
  OK(cuCtxSetFlags(flags));
  CUstream held = stream();
  Gate gate;
  gate.hold(held);
  check_spins(expected, gate, [&] { OK(cuStreamSynchronize(held)); });
  gate.hold(held);
  check_spins(expected, gate, [] { OK(cuCtxSynchronize()); });
  OK(cuStreamDestroy_v2(held));
}

void contexts_spin_unless_told_otherwise(void **) {
  check_synchronising(CU_CTX_SCHED_AUTO, true);
  check_synchronising(CU_CTX_SCHED_SPIN, true);
  check_synchronising(CU_CTX_SCHED_YIELD, true);
  check_synchronising(CU_CTX_SCHED_BLOCKING_SYNC, false);
}

void events_spin_unless_they_are_blocking(void **) {
  OK(cuCtxSetFlags(CU_CTX_SCHED_BLOCKING_SYNC));
  CUstream held = stream();
  for (const bool blocking : {false, true}) {
    CUevent event;
    OK(cuEventCreate(&event, blocking ? CU_EVENT_BLOCKING_SYNC : CU_EVENT_DEFAULT));
    Gate gate;
    gate.hold(held);
    OK(cuEventRecord(event, held));
    check_spins(!blocking, gate, [&] { OK(cuEventSynchronize(event)); });
    OK(cuEventDestroy_v2(event));
  }
  OK(cuStreamDestroy_v2(held));
}

// ---- memory that nobody asked for ---------------------------------------------------------------

constexpr size_t kMiB = size_t{1} << 20;
constexpr char kDeep[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry deep(.param .u64 at)
{
  .local .align 4 .b8 room[16384];
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [at];
  ld.local.u32 %r1, [room];
  cvta.to.global.u64 %rd1, %rd1;
  st.global.u32 [%rd1], %r1;
  ret;
})";

size_t free_bytes() {
  size_t free, total;
  OK(cuMemGetInfo_v2(&free, &total));
  return free;
}

// What stacks of so many bytes take.
size_t stacks(size_t bytes) {
  int processors, threads;
  OK(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
  OK(cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 0));
  return static_cast<size_t>(processors) * static_cast<size_t>(threads) * bytes;
}

CUresult launch_deep(CUmodule module, CUdeviceptr at) {
  void *parameters[] = {&at};
  return cuLaunchKernel(kernel(module, "deep"), 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr);
}

void contexts_take_memory(void **) {
  size_t total;
  OK(cuDeviceTotalMem_v2(&total, 0));
  const size_t before = free_bytes();
  assert_int_equal(total - before, total / 64 + stacks(1024));
  CUcontext second;
  OK(cuCtxCreate_v2(&second, 0, 0));
  assert_int_equal(before - free_bytes(), total - before);
  OK(cuCtxDestroy_v2(second));
  assert_int_equal(free_bytes(), before);
}

void code_takes_memory_with_the_first_launch(void **) {
  const size_t before = free_bytes();
  CUmodule module = load_kernels();
  const CUfunction nothing = kernel(module, "nothing");
  const size_t variables = before - free_bytes();
  for (int i = 0; i < 2; i++) {
    OK(cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
    assert_int_equal(before - free_bytes(), variables + 2 * kMiB);
  }
  OK(cuModuleUnload(module));
  assert_int_equal(free_bytes(), before);
}

void stacks_stay_as_large_as_any_kernel_has_needed(void **) {
  CUmodule module;
  OK(cuModuleLoadData(&module, kDeep));
  CUdeviceptr at;
  OK(cuMemAlloc_v2(&at, 4));
  const size_t before = free_bytes();
  for (int i = 0; i < 2; i++) {
    OK(launch_deep(module, at));
    assert_int_equal(before - free_bytes(), stacks(16384 - 1024) + 2 * kMiB);
  }
  // A limit that is set is what they have.
  OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2048));
  assert_int_equal(before - free_bytes(), stacks(1024) + 2 * kMiB);
  OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
  assert_int_equal(before - free_bytes(), 2 * kMiB);
  OK(cuMemFree_v2(at));
}

void a_launch_needs_memory_for_its_stacks(void **) {
  CUmodule module;
  OK(cuModuleLoadData(&module, kDeep));
  CUdeviceptr at, rest;
  OK(cuMemAlloc_v2(&at, 4));
  OK(cuMemAlloc_v2(&rest, free_bytes() - 8 * kMiB));
  EXPECT(CUDA_ERROR_OUT_OF_MEMORY, launch_deep(module, at));
  EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 16384));
  OK(cuCtxSynchronize());
  OK(cuMemFree_v2(rest));
  OK(launch_deep(module, at));
  OK(cuCtxSynchronize());
  OK(cuMemFree_v2(at));
}

void a_context_needs_memory(void **) {
  CUdeviceptr rest;
  OK(cuMemAlloc_v2(&rest, free_bytes() - 8 * kMiB));
  CUcontext second;
  EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuCtxCreate_v2(&second, 0, 0));
  OK(cuMemFree_v2(rest));
}

void memory_keeps_its_bytes(void **) {
  constexpr unsigned kWord = 0x5ec2e75e, kWords = 16 << 20;
  CUdeviceptr at;
  OK(cuMemAlloc_v2(&at, kWords * sizeof kWord));
  OK(cuMemsetD32_v2(at, kWord, kWords));
  OK(cuMemFree_v2(at));
  CUmemAllocationProp about{};
  about.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  about.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemGenericAllocationHandle piece;
  OK(cuMemCreate(&piece, kWords * sizeof kWord, &about, 0));
  OK(cuMemAddressReserve(&at, kWords * sizeof kWord, 0, 0, 0));
  OK(cuMemMap(at, kWords * sizeof kWord, 0, piece, 0));
  const CUmemAccessDesc access{about.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  OK(cuMemSetAccess(at, kWords * sizeof kWord, &access, 1));
  std::vector<unsigned> found(kWords);
  OK(cuMemcpyDtoH_v2(found.data(), at, kWords * sizeof kWord));
  assert_int_equal(std::count(found.begin(), found.end(), kWord), kWords);
  OK(cuMemUnmap(at, kWords * sizeof kWord));
  OK(cuMemAddressFree(at, kWords * sizeof kWord));
  OK(cuMemRelease(piece));
  // Variables of modules are as the module says.
  const CUmodule module = load_kernels();
  size_t size;
  OK(cuModuleGetGlobal_v2(&at, &size, module, "counter"));
  OK(cuMemcpyDtoH_v2(found.data(), at, size));
  assert_int_equal(found[0], 41);
  OK(cuModuleUnload(module));
}

void an_export_takes_a_millisecond(void **) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle handle;
  OK(cuMemCreate(&handle, 2 << 20, &properties, 0));
  timespec before{}, after{};
  clock_gettime(CLOCK_MONOTONIC, &before);
  int number;
  OK(cuMemExportToShareableHandle(&number, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  clock_gettime(CLOCK_MONOTONIC, &after);
  const int64_t ns =
      int64_t{1'000'000'000} * (after.tv_sec - before.tv_sec) + after.tv_nsec - before.tv_nsec;
  assert_true(ns >= 1'000'000);
  close(number);
  OK(cuMemRelease(handle));
}

// ---- names -------------------------------------------------------------------------------------

std::string read(const char *names) {
  Traits traits;
  std::string problem;
  return read_traits(names, &traits, &problem) ? traits_text(traits) : problem;
}

void names_are_read(void **) {
  assert_string_equal(read("").c_str(), "");
  assert_string_equal(read("finite-queue").c_str(), "finite-queue=1024");
  assert_string_equal(read("serial-host-functions,finite-queue=7").c_str(),
                      "finite-queue=7,serial-host-functions");
  for (const char *same : {"reservation-hints=ignored", "reservation-hints=low", "hidden-memory",
                           "residue", "slow-export", "exclusive-process=/a/b", "time-slices=/a/b",
                           "uncounted-work", "empty-cubins"})
    assert_string_equal(read(same).c_str(), same);
  const std::string all = read("nvidia-like");
  assert_non_null(strstr(all.c_str(), "finite-queue=1024"));
  assert_string_equal(read(all.c_str()).c_str(), all.c_str());
  assert_null(strstr(read("nvidia-like,-finite-queue").c_str(), "finite-queue"));
  assert_non_null(strstr(all.c_str(), "device=h100"));
  assert_non_null(strstr(all.c_str(), "driver=13.0"));
  assert_non_null(strstr(read("nvidia-like,device=t4,driver=12.4").c_str(), "device=t4"));
  assert_null(strstr(read("nvidia-like,-device,-driver").c_str(), "device"));
  for (const char *same : {"lazy-loading", "lazy-loading=waiting", "lazy-loading=locking"})
    assert_string_equal(read(same).c_str(), same);
  assert_string_equal(read("lazy-loading=waiting,-lazy-loading").c_str(), "");
  assert_string_equal(read("lazy-loading=locking,lazy-loading=waiting").c_str(),
                      "lazy-loading=waiting");
  assert_non_null(strstr(read("lazy-loading=1").c_str(), "expected waiting or locking behind"));
  for (const char *same :
       {"driver=12.4", "driver=12.6", "driver=12.8", "driver=13.0", "driver=13.5"})
    assert_string_equal(read(same).c_str(), same);
  assert_string_equal(read("driver=12.4,-driver").c_str(), "");
  assert_string_equal(read("newer-ptx,driver=12.4").c_str(), "driver=12.4,newer-ptx");
  for (const char *same : {"granularity=64K", "granularity=32M"})
    assert_string_equal(read(same).c_str(), same);
  assert_string_equal(read("granularity=2M").c_str(), "");
  assert_null(strstr(all.c_str(), "granularity"));
  assert_null(strstr(all.c_str(), "time-slices"));
  assert_null(strstr(all.c_str(), "empty-cubins"));
  assert_non_null(strstr(all.c_str(), "uncounted-work"));
  for (const char *same : {"device=h100", "device=a10", "device=l4", "device=t4"})
    assert_string_equal(read(same).c_str(), same);
  assert_string_equal(read("device=t4,-device").c_str(), "");
  for (const char *names : {"device", "device=", "device=H100", "device=gtx"})
    assert_non_null(strstr(read(names).c_str(), "expected h100, a10, l4 or t4 behind"));
}

void what_is_no_trait_is_refused(void **) {
  for (const char *names :
       {"finite", "finite-queue,,serial-host-functions", "-", "=", "-nvidia-like"})
    assert_non_null(strstr(read(names).c_str(), "expected one of nvidia-like, finite-queue, "));
  for (const char *names : {"finite-queue=", "finite-queue=0", "finite-queue=1000001",
                            "finite-queue=8x", "finite-queue=-8"})
    assert_non_null(strstr(read(names).c_str(), "expected entries from 1 to 1000000"));
  assert_non_null(strstr(read("reservation-hints=").c_str(), "expected ignored, low or high"));
  assert_non_null(strstr(read("reservation-hints=none").c_str(), "expected ignored, low or high"));
  for (const char *names : {"driver", "driver=", "driver=12", "driver=12.40", "driver=550"})
    assert_non_null(strstr(read(names).c_str(), "expected 12.4, 12.6, 12.8, 13.0 or 13.5"));
  for (const char *same : {"exclusive-process=/tmp/a", "lost-gpu=/tmp/a"})
    assert_string_equal(read(same).c_str(), same);
  for (const char *names :
       {"exclusive-process", "exclusive-process=", "exclusive-process=a", "lost-gpu", "lost-gpu=a"})
    assert_non_null(strstr(read(names).c_str(), "expected a path, from / on, behind"));
  for (const char *names : {"granularity", "granularity=", "granularity=4M", "granularity=65536"})
    assert_non_null(strstr(read(names).c_str(), "expected 64K, 2M or 32M"));
  for (const char *names : {"serial-host-functions=1", "-finite-queue=3"})
    assert_non_null(strstr(read(names).c_str(), "' without a value"));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_full_queue_lets_launches_wait, use_primary,
                                      release_primary),
      cmocka_unit_test_setup_teardown(a_full_queue_lets_fills_events_and_graphs_wait, use_primary,
                                      release_primary),
      cmocka_unit_test_setup_teardown(other_streams_have_room, use_primary, release_primary),
      cmocka_unit_test_setup_teardown(host_functions_are_called_one_by_one, use_primary,
                                      release_primary),
      cmocka_unit_test_setup_teardown(hints_may_be_ignored, use_primary, release_primary),
      cmocka_unit_test_setup_teardown(contexts_spin_unless_told_otherwise, use_primary,
                                      release_primary),
      cmocka_unit_test_setup_teardown(events_spin_unless_they_are_blocking, use_primary,
                                      release_primary),
      cmocka_unit_test_setup_teardown(contexts_take_memory, use_primary, release_primary),
      cmocka_unit_test_setup_teardown(code_takes_memory_with_the_first_launch, use_primary,
                                      release_primary),
      cmocka_unit_test_setup_teardown(stacks_stay_as_large_as_any_kernel_has_needed, use_primary,
                                      release_primary),
      cmocka_unit_test_setup_teardown(a_launch_needs_memory_for_its_stacks, use_primary,
                                      release_primary),
      cmocka_unit_test_setup_teardown(a_context_needs_memory, use_primary, release_primary),
      cmocka_unit_test_setup_teardown(memory_keeps_its_bytes, use_primary, release_primary),
      cmocka_unit_test_setup_teardown(an_export_takes_a_millisecond, use_primary, release_primary),
      cmocka_unit_test(names_are_read),
      cmocka_unit_test(what_is_no_trait_is_refused),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
