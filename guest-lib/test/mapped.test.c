// Pinned memory that the device reaches: when it begins to, what travels, and what either side sees
// of the other.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "guest_calls.h"
#include "memory/host_memory.h"
#include "pages/merged.h"
#include "pages/pages.h"
#include "session.h"

#define KIB 1024
#define MIB (1ull << 20)
#define PAGE 4096

static const struct server_hook no_hook;
static struct server *server;

static uint8_t *allocate(size_t size) {
  void *memory;
  assert_int_equal(cuMemHostAlloc(&memory, size, 0), CUDA_SUCCESS);
  return memory;
}

static uint8_t *on_device(const void *pointer) {
  return server_reach(server, host_device_address(pointer), 1);
}

// As a launch does with parameters that name it.
static void work_on(const void *pointer) {
  const uint64_t parameters[3] = {7, (uint64_t)(uintptr_t)pointer, 9};
  assert_int_equal(host_share_named((const unsigned char *)parameters, sizeof parameters),
                   CUDA_SUCCESS);
  assert_true(pages_hand_over(session_here()));
  put_ContextRecord(session_here(), 0);
  pages_handed_over();
}
static void settle(void) { assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS); }

static void what_is_only_copied_stays_here(void **state) {
  (void)state;
  server = session_start(64 * MIB, no_hook);
  CUdeviceptr device;
  uint8_t *pinned = allocate(MIB);
  assert_int_equal(cuMemAlloc_v2(&device, MIB), CUDA_SUCCESS);
  memset(pinned, 5, MIB);
  assert_int_equal(cuMemcpyHtoDAsync_v2(device, pinned, MIB, NULL), CUDA_SUCCESS);
  memset(pinned, 0, MIB);
  assert_int_equal(cuMemcpyDtoHAsync_v2(pinned, device, MIB, NULL), CUDA_SUCCESS);
  settle();
  for (size_t i = 0; i < MIB; i++) assert_int_equal(pinned[i], 5);
  const uint64_t parameters[2] = {device, 12345};
  assert_int_equal(host_share_named((const unsigned char *)parameters, 16), CUDA_SUCCESS);
  assert_int_equal(server_count(server, WIRE_MemoryMap), 1);
  assert_int_equal(pages_ranges, 0);
  assert_int_equal(cuMemFreeHost(pinned), CUDA_SUCCESS);
  assert_int_equal(server_count(server, WIRE_PagesUpload), 0);
}

static void parameters_begin_it(void **state) {
  (void)state;
  server = session_start(64 * MIB, no_hook);
  uint8_t *pinned = allocate(3 * MIB);
  pinned[5] = 1;
  pinned[2 * MIB + 7] = 2;
  work_on(pinned + 64);
  settle();
  // Of three mebibytes, the two pages that were touched.
  assert_int_equal(server_count(server, WIRE_PagesUpload), 1);
  assert_int_equal(on_device(pinned)[5], 1);
  assert_int_equal(on_device(pinned)[2 * MIB + 7], 2);
  on_device(pinned)[MIB] = 3;
  assert_int_equal(pinned[MIB], 3);
  assert_int_equal(pages_merged, 0);  // nothing runs
  assert_int_equal(server_count(server, WIRE_PagesChanged), 1);
  // What it costs on the server ends with it.
  assert_int_equal(server_mapped(server), 4 * MIB);
  assert_int_equal(cuMemFreeHost(pinned), CUDA_SUCCESS);
  settle();
  server_wait(server, WIRE_MemoryUnmap, 1);
  assert_int_equal(pages_ranges, 0);
}

static void both_sides_change_a_page_while_work_runs(void **state) {
  (void)state;
  server = session_start(64 * MIB, no_hook);
  uint8_t *pinned = allocate(PAGE);
  work_on(pinned);
  server_settled(server, 0);
  on_device(pinned)[0] = 1;
  assert_int_equal(pinned[0], 1);  // without waiting for the work
  assert_int_equal(pages_merged, 1);
  pinned[100] = 2;
  on_device(pinned)[200] = 3;
  settle();
  assert_int_equal(on_device(pinned)[100], 2);
  assert_int_equal(pinned[100], 2);
  assert_int_equal(pinned[200], 3);
  // Once it is known that nothing runs, the page is an ordinary one.
  server_settled(server, 1);
  pinned[300] = 4;
  work_on(pinned);
  settle();
  assert_int_equal(on_device(pinned)[300], 4);
  assert_int_equal(on_device(pinned)[200], 3);
}

// Neither side calls anything.
static void flags_are_seen_while_work_runs(void **state) {
  (void)state;
  server = session_start(64 * MIB, no_hook);
  volatile uint32_t *flags = (volatile uint32_t *)(void *)allocate(64);
  work_on((const void *)flags);
  server_settled(server, 0);
  volatile uint32_t *there = (volatile uint32_t *)(void *)on_device((const void *)flags);
  for (unsigned i = 1; i < 10; i++) {
    flags[0] = i;
    for (unsigned ms = 0; there[0] != i; ms++) {
      assert_true(ms < 20000);
      usleep(1000);
    }
    there[1] = i;
    for (unsigned ms = 0; flags[1] != i; ms++) {
      assert_true(ms < 20000);
      usleep(1000);
    }
  }
}

static void registered_memory_has_a_shadow(void **state) {
  (void)state;
  server = session_start(64 * MIB, no_hook);
  const size_t size = 3 * MIB;
  uint8_t *all = malloc(size + 200), *own = all + 101;
  memset(all, 9, size + 200);
  assert_int_equal(cuMemHostRegister_v2(own, size, CU_MEMHOSTREGISTER_DEVICEMAP), CUDA_SUCCESS);
  CUdeviceptr device, again;
  assert_int_equal(cuMemHostGetDevicePointer_v2(&device, own, 0), CUDA_SUCCESS);
  assert_int_equal(device % PAGE, (uintptr_t)own % PAGE);
  assert_int_equal(cuMemHostGetDevicePointer_v2(&again, own + 77, 0), CUDA_SUCCESS);
  assert_int_equal(again, device + 77);
  uint64_t host = 0;
  assert_int_equal(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, again),
                   CUDA_SUCCESS);
  assert_int_equal(host, (uintptr_t)own + 77);
  settle();
  uint8_t *there = server_reach(server, device, size);
  assert_memory_equal(there, own, size);
  for (unsigned round = 1; round < 4; round++) {
    own[round * 1000] = (uint8_t)round;
    own[size - round] = (uint8_t)(round + 10);
    uint64_t asked = server_count(server, WIRE_PagesChanged);
    work_on((const void *)(uintptr_t)device);
    settle();
    assert_int_equal(there[round * 1000], round);
    assert_int_equal(there[size - round], round + 10);
    assert_int_equal(server_count(server, WIRE_PagesChanged), asked + 4);  // a mebibyte each, about
    settle();
    assert_int_equal(server_count(server, WIRE_PagesChanged), asked + 4);  // nothing ran
    there[0] = there[size - 1] = there[2 * MIB] = (uint8_t)(round + 20);
    own[5] = (uint8_t)round;
    work_on((const void *)(uintptr_t)device);
    settle();
    assert_int_equal(own[0], round + 20);
    assert_int_equal(own[2 * MIB], round + 20);
    assert_int_equal(own[size - 1], round + 20);
    assert_int_equal(own[5], round);
  }
  assert_int_equal(all[100], 9);
  assert_int_equal(own[size], 9);
  // A copy that names it is one on the device.
  uint8_t *pinned = allocate(PAGE);
  pinned[0] = 77;
  assert_int_equal(cuMemcpy((CUdeviceptr)(uintptr_t)(own + 40), (CUdeviceptr)(uintptr_t)pinned, 8),
                   CUDA_SUCCESS);
  assert_int_equal(own[40], 77);
  there[50] = 88;
  work_on((const void *)(uintptr_t)device);
  assert_int_equal(cuMemHostUnregister(own), CUDA_SUCCESS);
  assert_int_equal(own[50], 88);
  assert_int_equal(host_shadows, 0);
  free(all);
}

static void read_only_memory_does_not_come_back(void **state) {
  (void)state;
  server = session_start(64 * MIB, no_hook);
  static const uint8_t bytes[2 * PAGE] = {1, 2, 3};
  CUdeviceptr device;
  void *own = (void *)(uintptr_t)bytes;
  assert_int_equal(cuMemHostRegister_v2(own, sizeof bytes, CU_MEMHOSTREGISTER_READ_ONLY),
                   CUDA_SUCCESS);
  assert_int_equal(cuMemHostGetDevicePointer_v2(&device, own, 0), CUDA_SUCCESS);
  work_on((const void *)(uintptr_t)device);
  settle();
  assert_memory_equal(server_reach(server, device, sizeof bytes), bytes, sizeof bytes);
  assert_int_equal(server_count(server, WIRE_PagesChanged), 0);
  assert_int_equal(cuMemHostUnregister(own), CUDA_SUCCESS);
}

static void only_writable_memory_is_the_devices_to_write(void **state) {
  (void)state;
  server = session_start(64 * MIB, no_hook);
  uint8_t *own = mmap(NULL, 4 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_int_equal(cuMemHostRegister_v2(own, 4 * PAGE, 0), CUDA_ERROR_INVALID_VALUE);
  const unsigned read_only = CU_MEMHOSTREGISTER_READ_ONLY;
  assert_int_equal(cuMemHostRegister_v2(own, 4 * PAGE, read_only), CUDA_SUCCESS);
  assert_int_equal(cuMemHostUnregister(own), CUDA_SUCCESS);
  // In part.
  mprotect(own, 2 * PAGE, PROT_READ | PROT_WRITE);
  assert_int_equal(cuMemHostRegister_v2(own + 50, 2 * PAGE, 0), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemHostRegister_v2(own + 50, 2 * PAGE - 50, 0), CUDA_SUCCESS);
  assert_int_equal(cuMemHostUnregister(own + 50), CUDA_SUCCESS);
  mprotect(own, 4 * PAGE, PROT_NONE);
  assert_int_equal(cuMemHostRegister_v2(own, PAGE, read_only), CUDA_ERROR_INVALID_VALUE);
  munmap(own, 4 * PAGE);
}

// As a device that has the pages pinned: it goes on with them, whatever the program may do there.
static void memory_that_is_closed_while_registered_hurts_nobody(void **state) {
  (void)state;
  server = session_start(64 * MIB, no_hook);
  uint8_t *own = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CUdeviceptr device;
  assert_int_equal(cuMemHostRegister_v2(own, 4 * PAGE, 0), CUDA_SUCCESS);
  assert_int_equal(cuMemHostGetDevicePointer_v2(&device, own, 0), CUDA_SUCCESS);
  uint8_t *there = server_reach(server, device, 4 * PAGE);
  work_on((const void *)(uintptr_t)device);
  settle();
  mprotect(own, 2 * PAGE, PROT_READ);
  there[0] = there[2 * PAGE] = 1;
  work_on((const void *)(uintptr_t)device);
  settle();
  assert_int_equal(own[0], 1);
  assert_int_equal(own[2 * PAGE], 1);
  for (unsigned gone = 0; gone < 2; gone++) {
    if (gone)
      munmap(own, 2 * PAGE);
    else
      mprotect(own, 2 * PAGE, PROT_NONE);
    own[3 * PAGE] = (uint8_t)(gone + 5);
    there[1] = there[2 * PAGE + 1] = (uint8_t)(gone + 2);
    work_on((const void *)(uintptr_t)device);
    settle();
    assert_int_equal(own[2 * PAGE + 1], gone + 2);
    assert_int_equal(there[1], gone + 2);
    assert_int_equal(there[3 * PAGE], gone + 5);
    mprotect(own, 2 * PAGE, PROT_READ | PROT_WRITE);
    if (!gone) assert_int_equal(own[1], 2);
  }
  assert_int_equal(cuMemHostUnregister(own), CUDA_SUCCESS);
  munmap(own + 2 * PAGE, 2 * PAGE);
}

static size_t free_now(void) {
  size_t left, total;
  assert_int_equal(cuMemGetInfo_v2(&left, &total), CUDA_SUCCESS);
  return left;
}

static void what_has_a_limit_of_its_own_counts_beyond_it(void **state) {
  (void)state;
  server = session_start_pinned(64 * MIB, 6 * MIB, no_hook);
  CUdeviceptr device, all;
  // All that is free, in one piece.
  assert_int_equal(cuMemAlloc_v2(&all, free_now()), CUDA_SUCCESS);
  uint8_t *four = allocate(4 * MIB), *eight = allocate(8 * MIB);
  assert_int_equal(cuMemHostGetDevicePointer_v2(&device, four, 0), CUDA_SUCCESS);
  assert_int_equal(cuMemHostGetDevicePointer_v2(&device, eight, 0), CUDA_ERROR_OUT_OF_MEMORY);
  assert_int_equal(free_now(), 0);
  assert_int_equal(cuMemFree_v2(all), CUDA_SUCCESS);
  assert_int_equal(cuMemHostGetDevicePointer_v2(&device, eight, 0), CUDA_SUCCESS);
  assert_int_equal(free_now(), 58 * MIB);
  // What goes was beyond the limit first, whichever it is.
  assert_int_equal(cuMemFreeHost(four), CUDA_SUCCESS);
  assert_int_equal(free_now(), 62 * MIB);
  assert_int_equal(cuMemFreeHost(eight), CUDA_SUCCESS);
  assert_int_equal(free_now(), 64 * MIB);
  assert_int_equal(cuMemAlloc_v2(&all, 64 * MIB), CUDA_SUCCESS);
  settle();
  assert_int_equal(server_count(server, WIRE_PinnedMap), 2);
  assert_int_equal(server_count(server, WIRE_MemoryMap), 2);
}

static void it_counts_against_the_limit(void **state) {
  (void)state;
  server = session_start(8 * MIB, no_hook);
  uint8_t *large = allocate(16 * MIB), *small = allocate(100), *other = allocate(100);
  size_t left, total;
  CUdeviceptr device;
  assert_int_equal(cuMemHostGetDevicePointer_v2(&device, large, 0), CUDA_ERROR_OUT_OF_MEMORY);
  assert_int_equal(cuMemHostGetDevicePointer_v2(&device, small, 0), CUDA_SUCCESS);
  assert_int_equal(device, (uintptr_t)small);
  assert_int_equal(cuMemHostGetDevicePointer_v2(&device, other + 10, 0), CUDA_SUCCESS);
  assert_int_equal(device, (uintptr_t)other + 10);
  assert_int_equal(cuMemGetInfo_v2(&left, &total), CUDA_SUCCESS);
  assert_int_equal(total - left, 2 * MIB);  // both are in one granule
  assert_int_equal(cuMemHostGetDevicePointer_v2(&device, &left, 0), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemHostGetDevicePointer_v2(&device, small, 1), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemHostGetDevicePointer_v2(NULL, small, 0), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemFreeHost(small), CUDA_SUCCESS);
  // Its page is used again, and what the device had there is not seen.
  work_on(other);
  memset(on_device(other) - PAGE, 7, 100);
  uint8_t *next = allocate(100);
  assert_ptr_equal(next, small);
  work_on(next);
  settle();
  assert_int_equal(on_device(next)[0], 0);
  assert_int_equal(cuMemFreeHost(next), CUDA_SUCCESS);
  assert_int_equal(cuMemFreeHost(other), CUDA_SUCCESS);
  assert_int_equal(cuMemFreeHost(large), CUDA_SUCCESS);
  assert_int_equal(cuMemGetInfo_v2(&left, &total), CUDA_SUCCESS);
  assert_int_equal(total, left);
}

static void a_fill_and_a_copy_begin_it(void **state) {
  (void)state;
  server = session_start(64 * MIB, no_hook);
  uint8_t *filled = allocate(PAGE), *copied = allocate(PAGE);
  assert_int_equal(cuMemsetD8_v2((CUdeviceptr)(uintptr_t)filled, 6, PAGE), CUDA_SUCCESS);
  assert_int_equal(
      cuMemcpyDtoD_v2((CUdeviceptr)(uintptr_t)copied, (CUdeviceptr)(uintptr_t)filled, PAGE),
      CUDA_SUCCESS);
  assert_int_equal(host_shared, 2);
  // Past its end, and not pinned any more.
  assert_int_equal(cuMemsetD8_v2((CUdeviceptr)(uintptr_t)filled, 6, PAGE + 1),
                   CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemFreeHost(filled), CUDA_SUCCESS);
  assert_int_equal(cuMemsetD8_v2((CUdeviceptr)(uintptr_t)filled, 6, 1), CUDA_ERROR_INVALID_VALUE);
}

static void *touch_and_work(void *memory) {
  session_enter();
  volatile uint32_t *mine = memory;
  for (unsigned i = 1; i < 200; i++) {
    mine[0]++;
    CHECK(pages_hand_over(session_here()));
    put_ContextRecord(session_here(), 0);
    pages_handed_over();
    mine[1]++;
    if (i % 16 == 0) CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
    CHECK(mine[0] == i && mine[1] == i);
  }
  return NULL;
}

// Each counts in words of its own, on pages of all.
static void threads(void **state) {
  (void)state;
  server = session_start(64 * MIB, no_hook);
  uint32_t *pinned = (uint32_t *)(void *)allocate(PAGE);
  uint32_t *own = calloc(1, PAGE);
  CUdeviceptr device;
  assert_int_equal(cuMemHostRegister_v2(own, PAGE, 0), CUDA_SUCCESS);
  assert_int_equal(cuMemHostGetDevicePointer_v2(&device, own, 0), CUDA_SUCCESS);
  work_on(pinned);
  server_settled(server, 0);
  pthread_t ids[4];
  for (int i = 0; i < 4; i++)
    pthread_create(&ids[i], NULL, touch_and_work, (i % 2 ? own : pinned) + i * 16);
  for (int i = 0; i < 4; i++) pthread_join(ids[i], NULL);
  settle();
  server_settled(server, 1);
  settle();
  for (int i = 0; i < 4; i++) {
    assert_int_equal(((i % 2 ? own : pinned) + i * 16)[1], 199);
    const uint32_t *there = (const uint32_t *)(const void *)on_device(i % 2 ? own : pinned);
    assert_int_equal(there[i * 16], 199);
  }
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_only_copied_stays_here),
      cmocka_unit_test(parameters_begin_it),
      cmocka_unit_test(both_sides_change_a_page_while_work_runs),
      cmocka_unit_test(flags_are_seen_while_work_runs),
      cmocka_unit_test(registered_memory_has_a_shadow),
      cmocka_unit_test(read_only_memory_does_not_come_back),
      cmocka_unit_test(only_writable_memory_is_the_devices_to_write),
      cmocka_unit_test(memory_that_is_closed_while_registered_hurts_nobody),
      cmocka_unit_test(it_counts_against_the_limit),
      cmocka_unit_test(what_has_a_limit_of_its_own_counts_beyond_it),
      cmocka_unit_test(a_fill_and_a_copy_begin_it),
      cmocka_unit_test(threads),
  };
  RUN_ONE_TEST(tests, argc, argv);
}
