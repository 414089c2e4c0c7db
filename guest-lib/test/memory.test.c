// Device memory, decided in the guest: addresses, limits to the byte, reuse only of what no work
// can touch any more. The server's thread holds every map and unmap against each other (server.c).
#include "memory/limit.h"
#include "memory/memory_range.h"
#include "memory/variable.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"
#include "log_capture.h"
#include "session.h"

#define MIB (1ull << 20)
#define GRANULE WIRE_GRANULE

static const struct server_hook no_hook;

static uint64_t allocate(uint64_t size) {
  CUdeviceptr address = 0;
  assert_int_equal(cuMemAlloc_v2(&address, size), CUDA_SUCCESS);
  return address;
}

static CUresult try(uint64_t size) {
  CUdeviceptr address = 0x5555;
  CUresult result = cuMemAlloc_v2(&address, size);
  if (result)
    assert_int_equal(address, 0x5555);
  else
    assert_int_equal(cuMemFree_v2(address), CUDA_SUCCESS);
  return result;
}

static uint64_t free_bytes(void) {
  size_t free, total;
  assert_int_equal(cuMemGetInfo_v2(&free, &total), CUDA_SUCCESS);
  return free;
}

static void release(uint64_t address) { assert_int_equal(cuMemFree_v2(address), CUDA_SUCCESS); }

static void settle(void) { assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS); }

// ---- what an allocation is ---------------------------------------------------------------------

static void addresses(void **state) {
  (void)state;
  session_start(64 * MIB, no_hook);
  static const uint64_t sizes[] = {1, 511, 512, 513, 4096, MIB, MIB + 1, 2 * MIB, 2 * MIB + 1};
  for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    uint64_t address = allocate(sizes[i]);
    assert_int_equal(address % (sizes[i] > MIB ? GRANULE : 512), 0);
    assert_true(address >= WIRE_WINDOW_BASE);
    CUdeviceptr begin;
    size_t size;
    const uint64_t inside[] = {address, address + sizes[i] / 2, address + sizes[i] - 1};
    for (int j = 0; j < 3; j++) {
      assert_int_equal(cuMemGetAddressRange_v2(&begin, &size, inside[j]), CUDA_SUCCESS);
      assert_int_equal(begin, address);
      assert_int_equal(size, sizes[i]);
    }
    assert_int_equal(cuMemGetAddressRange_v2(&begin, &size, address + sizes[i]),
                     CUDA_ERROR_NOT_FOUND);
    assert_true(memory_is_device((void *)(uintptr_t)address));
  }
  assert_false(memory_is_device(&state));
}

static void bad_arguments(void **state) {
  (void)state;
  session_start(64 * MIB, no_hook);
  CUdeviceptr address;
  size_t pitch;
  assert_int_equal(cuMemAlloc_v2(NULL, 1), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemAlloc_v2(&address, 0), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemAllocPitch_v2(&address, &pitch, 0, 1, 4), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemAllocPitch_v2(&address, &pitch, 1, 0, 4), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemAllocPitch_v2(&address, &pitch, 1, 1, 3), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemAllocPitch_v2(&address, NULL, 1, 1, 4), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemAllocPitch_v2(&address, &pitch, 1ull << 40, 1ull << 40, 4),
                   CUDA_ERROR_OUT_OF_MEMORY);
  assert_int_equal(cuMemAllocPitch_v2(&address, &pitch, UINT64_MAX, 1, 4),
                   CUDA_ERROR_OUT_OF_MEMORY);
  assert_int_equal(cuMemFree_v2(0), CUDA_SUCCESS);
  assert_int_equal(cuMemFree_v2(1), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemFree_v2(WIRE_WINDOW_BASE), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemFree_v2(WIRE_WINDOW_BASE + WIRE_WINDOW_SIZE), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemFree_v2((CUdeviceptr)(uintptr_t)&address), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemFreeAsync(0, NULL), CUDA_SUCCESS);
  const uint64_t sizes[] = {5000, 3 * MIB};
  for (int i = 0; i < 2; i++) {
    uint64_t there = allocate(sizes[i]);
    assert_int_equal(cuMemFree_v2(there + 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemFree_v2(there + 512), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemFree_v2(there + GRANULE), CUDA_ERROR_INVALID_VALUE);
    release(there);
    assert_int_equal(cuMemFree_v2(there), CUDA_ERROR_INVALID_VALUE);
    settle();
    assert_int_equal(cuMemFree_v2(there), CUDA_ERROR_INVALID_VALUE);
  }
}

static void pitched(void **state) {
  (void)state;
  session_start(64 * MIB, no_hook);
  CUdeviceptr address, begin;
  size_t pitch, size;
  assert_int_equal(cuMemAllocPitch_v2(&address, &pitch, 1000, 7, 4), CUDA_SUCCESS);
  assert_int_equal(pitch, 1024);
  assert_int_equal(address % 512, 0);
  assert_int_equal(cuMemGetAddressRange_v2(&begin, &size, address), CUDA_SUCCESS);
  assert_int_equal(size, 7 * 1024);
  assert_int_equal(cuMemAllocPitch_v2(&address, &pitch, 512, 1, 16), CUDA_SUCCESS);
  assert_int_equal(pitch, 512);
}

static void ranges(void **state) {
  (void)state;
  session_start(64 * MIB, no_hook);
  uint64_t small = allocate(1000), next = allocate(1000), large = allocate(5 * MIB);
  assert_int_equal(memory_check(small, 1000), CUDA_SUCCESS);
  assert_int_equal(memory_check(small + 999, 1), CUDA_SUCCESS);
  assert_int_equal(memory_check(small + 999, 2), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(memory_check(small + 1000, 1), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(memory_check(small, next - small + 1), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(memory_check(large, 5 * MIB), CUDA_SUCCESS);
  assert_int_equal(memory_check(large + MIB, 4 * MIB + 1), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(memory_check(large - 1, 1), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(memory_check(large, UINT64_MAX), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(memory_check(UINT64_MAX, 2), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(memory_check(0, 0), CUDA_SUCCESS);
  // Sizes that overflow are no ranges.
  assert_int_equal(cuMemsetD32_v2(large, 1, 5 * MIB / 4), CUDA_SUCCESS);
  assert_int_equal(cuMemsetD32_v2(large, 1, 5 * MIB / 4 + 1), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemsetD32_v2(large, 1, 1ull << 62), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemsetD2D8_v2(large, MIB, 1, MIB, 5), CUDA_SUCCESS);
  assert_int_equal(cuMemsetD2D8_v2(large, MIB, 1, MIB, 6), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemsetD2D8_v2(large, 1ull << 63, 1, 1, 3), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemsetD2D32_v2(large, MIB, 1, 1ull << 62, 2), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemsetD2D16_v2(large, 0, 1, 1ull << 63, 1), CUDA_ERROR_INVALID_VALUE);
  // Module variables lie where the driver put them, outside the window.
  memory_add_variable(session_here(), 0x7000, 64, 0);
  assert_int_equal(memory_check(0x7000, 64), CUDA_SUCCESS);
  assert_int_equal(memory_check(0x7000, 65), CUDA_ERROR_INVALID_VALUE);
  assert_true(memory_is_device((void *)0x703f));
  assert_false(memory_is_device((void *)0x7040));
  memory_remove_variable(session_here(), 0x7000);
  assert_false(memory_is_device((void *)0x7000));
}

// Where the program could have mapped something meanwhile.
static _Atomic uintptr_t watched;
static _Atomic _Bool taken_away;

// In place of the C library's.
int munmap(void *address, size_t size) {
  const uintptr_t first = (uintptr_t)address, at = watched;
  if (at && at - first < size) taken_away = 1;
  return (int)syscall(SYS_munmap, address, size);
}

static void a_variable_over_the_programs_own_memory_is_told_of_once(void **state) {
  (void)state;
  char *own = mmap(NULL, 2 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(own != MAP_FAILED);
  munmap(own + 4096, 4096);
  const uint64_t beside = (uint64_t)(uintptr_t)own + 4096;
  log_capture("warn");
  watched = beside;
  memory_add_variable(session_here(), beside, 4096, 0);
  memory_remove_variable(session_here(), beside);
  assert_string_equal(log_captured(), "");
  // What was looked at is as free as before, and always was: nothing was mapped to find out.
  assert_int_equal(msync(own + 4096, 4096, MS_ASYNC), -1);
  assert_false(taken_away);
  watched = 0;
  log_capture("warn");
  for (int i = 0; i < 2; i++) {
    memory_add_variable(session_here(), beside - 8, 64, 0);
    memory_remove_variable(session_here(), beside - 8);
  }
  const char *log = log_captured();
  assert_non_null(strstr(log, "where this program has memory of its own"));
  assert_null(strstr(strchr(log, '\n') + 1, "warn"));
  munmap(own, 4096);
}

// ---- limits ------------------------------------------------------------------------------------

// Refuses room for more than `context` bytes.
static _Bool bounded_room(struct server *server, const struct wire_header *frame, void *context) {
  if (frame->op != WIRE_MemoryRoom) return 0;
  const struct wire_MemoryRoom *q = (const void *)frame;
  const uint64_t *most = context;
  server_reply(server, q->request.request, q->size > *most ? CUDA_ERROR_OUT_OF_MEMORY : 0, 0);
  return 1;
}

static void near_the_limit_the_server_is_asked(void **state) {
  (void)state;
  uint64_t most = 2 * MIB;
  struct server *server = session_start(16 * MIB, (struct server_hook){bounded_room, &most});
  memory_join(session_here(), 16 * MIB, 0, 1);
  uint64_t three_quarters = allocate(12 * MIB);
  assert_int_equal(server_count(server, WIRE_MemoryRoom), 0);
  log_capture("error");
  assert_int_equal(try(4 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
  assert_true(server_count(server, WIRE_MemoryRoom) > 0);
  assert_int_equal(free_bytes(), 4 * MIB);
  settle();
  assert_int_equal(server_mapped(server), 12 * MIB);
  uint64_t last = allocate(2 * MIB);
  // Who frees there may need what is free at once.
  release(last);
  server_wait(server, WIRE_MemoryUnmap, 1);
  release(three_quarters);
}

static void the_limit_is_exact(void **state) {
  (void)state;
  struct server *server = session_start(8 * MIB + 12345, no_hook);
  size_t free, total;
  assert_int_equal(cuMemGetInfo_v2(&free, &total), CUDA_SUCCESS);
  assert_int_equal(free, 8 * MIB);
  assert_int_equal(total, 8 * MIB);
  log_capture("error");
  assert_int_equal(try(8 * MIB + 1), CUDA_ERROR_OUT_OF_MEMORY);
  assert_non_null(
      strstr(log_captured(),
             "error: out of memory: 8.0 MiB (8388609 bytes) wanted, and 0 bytes of the "
             "session's limit of 8 MiB are in use. More is to be had with OUTBOARD_MEMORY"));
  log_capture("warn");
  assert_int_equal(try(UINT64_MAX), CUDA_ERROR_OUT_OF_MEMORY);
  assert_non_null(strstr(log_captured(), "warn: out of memory: 16777216 TiB"));

  uint64_t whole = allocate(8 * MIB);
  assert_int_equal(free_bytes(), 0);
  assert_int_equal(try(1), CUDA_ERROR_OUT_OF_MEMORY);
  // All of that was decided here.
  assert_int_equal(server_count(server, WIRE_cuCtxSynchronize), 0);
  release(whole);
  assert_int_equal(free_bytes(), 8 * MIB);

  uint64_t a = allocate(6 * MIB), b = allocate(1);
  assert_int_equal(free_bytes(), 0);
  assert_int_equal(try(MIB + 1), CUDA_ERROR_OUT_OF_MEMORY);
  assert_int_equal(try(MIB), CUDA_SUCCESS);  // beside `b`
  release(a);
  assert_int_equal(try(6 * MIB + 1), CUDA_ERROR_OUT_OF_MEMORY);
  assert_int_equal(try(6 * MIB), CUDA_SUCCESS);
  release(b);
  settle();
  assert_int_equal(free_bytes(), 8 * MIB);
  assert_true(server_mapped(server) <= 8 * MIB);
}

// What an empty shared granule keeps for reuse must not be missing when all is wanted.
static void all_is_free_again(void **state) {
  (void)state;
  session_start(4 * MIB, no_hook);
  for (int round = 0; round < 3; round++) {
    uint64_t small = allocate(100);
    release(small);
    settle();
    assert_int_equal(free_bytes(), 4 * MIB);
    uint64_t whole = allocate(4 * MIB);
    release(whole);
  }
}

static void small_ones_share_a_granule(void **state) {
  (void)state;
  struct server *server = session_start(2 * MIB, no_hook);
  static uint64_t all[GRANULE / 512];
  for (unsigned i = 0; i < GRANULE / 512; i++) all[i] = allocate(1 + i % 512);
  assert_int_equal(try(1), CUDA_ERROR_OUT_OF_MEMORY);
  for (unsigned i = 0; i < GRANULE / 512; i += 2) release(all[i]);
  // Half is free, but no two pieces beside each other.
  assert_int_equal(try(513), CUDA_ERROR_OUT_OF_MEMORY);
  for (unsigned i = 0; i < GRANULE / 512; i += 2) all[i] = allocate(512);
  assert_int_equal(try(1), CUDA_ERROR_OUT_OF_MEMORY);
  release(all[100]);
  release(all[101]);
  assert_int_equal(try(1024), CUDA_SUCCESS);
  assert_int_equal(server_mapped(server), GRANULE);
}

// ---- reuse -------------------------------------------------------------------------------------

static void freed_memory_waits_for_the_work(void **state) {
  (void)state;
  struct server *server = session_start(64 * MIB, no_hook);
  const uint64_t sizes[] = {1000, 3 * MIB};
  for (int i = 0; i < 2; i++) {
    uint64_t first = allocate(sizes[i]);
    release(first);
    // Work sent before may still use it.
    uint64_t second = allocate(sizes[i]);
    assert_int_not_equal(second, first);
    assert_int_equal(memory_check(first, 1), CUDA_ERROR_INVALID_VALUE);
    settle();
    assert_int_equal(allocate(sizes[i]), first);
    release(second);
  }
  // Nothing of it asked the server.
  assert_int_equal(server_count(server, WIRE_cuCtxSynchronize), 2);
}

static void out_of_memory_waits_before_it_gives_up(void **state) {
  (void)state;
  struct server *server = session_start(4 * MIB, no_hook);
  uint64_t first = allocate(4 * MIB);
  release(first);
  assert_int_equal(free_bytes(), 4 * MIB);
  assert_int_equal(server_count(server, WIRE_cuCtxSynchronize), 0);
  assert_int_equal(allocate(4 * MIB), first);
  assert_int_equal(server_count(server, WIRE_cuCtxSynchronize), 1);
}

static void alternating_small_ones_stay_mapped(void **state) {
  (void)state;
  struct server *server = session_start(64 * MIB, no_hook);
  for (int i = 0; i < 100; i++) {
    release(allocate(4000));
    settle();
  }
  assert_int_equal(server_count(server, WIRE_MemoryMap), 1);
  assert_int_equal(server_count(server, WIRE_MemoryUnmap), 0);
}

static void neighbours_join(void **state) {
  (void)state;
  session_start(12 * MIB, no_hook);
  uint64_t a = allocate(4 * MIB), b = allocate(4 * MIB), c = allocate(4 * MIB);
  assert_int_equal(b, a + 4 * MIB);
  assert_int_equal(c, b + 4 * MIB);
  static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                   {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (int i = 0; i < 6; i++) {
    const uint64_t all[3] = {a, b, c};
    for (int j = 0; j < 3; j++) release(all[orders[i][j]]);
    settle();
    assert_int_equal(allocate(12 * MIB), a);
    release(a);
    settle();
    assert_int_equal(allocate(4 * MIB), a);
    assert_int_equal(allocate(4 * MIB), b);
    assert_int_equal(allocate(4 * MIB), c);
  }
  // A hole between takes what fits it, and more goes elsewhere although no hole is that wide.
  release(a);
  release(c);
  settle();
  uint64_t wide = allocate(8 * MIB);
  assert_true(wide >= c || wide + 8 * MIB <= b);
}

static void a_reset_forgets_all(void **state) {
  (void)state;
  struct server *server = session_start(8 * MIB, no_hook);
  uint64_t first = allocate(3 * MIB);
  allocate(100);
  allocate(200);
  release(first);
  assert_int_equal(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
  session_enter();
  assert_int_equal(server_mapped(server), 0);
  assert_int_equal(free_bytes(), 8 * MIB);
  assert_int_equal(memory_check(first, 1), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(allocate(8 * MIB), first);
}

static void a_context_takes_its_memory_along(void **state) {
  (void)state;
  session_start(8 * MIB, no_hook);
  uint64_t kept_small = allocate(300), kept = allocate(MIB + 1);
  CUcontext context;
  assert_int_equal(cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
  uint64_t small = allocate(300), large = allocate(3 * MIB);
  assert_int_equal(cuCtxDestroy_v2(context), CUDA_SUCCESS);
  assert_int_equal(memory_check(small, 1), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(memory_check(large, 1), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(memory_check(kept_small, 300), CUDA_SUCCESS);
  assert_int_equal(memory_check(kept, MIB + 1), CUDA_SUCCESS);
  settle();
  assert_int_equal(free_bytes(), 4 * MIB);
}

// Each device's memory is its own, also where small allocations share.
static uint32_t map_devices[16];
static int maps;
static _Bool note_device(struct server *server, const struct wire_header *h, void *context) {
  (void)server, (void)context;
  if (h->op == WIRE_MemoryMap) map_devices[maps++] = ((const struct wire_MemoryMap *)h)->device;
  return 0;
}

static void devices_do_not_share(void **state) {
  (void)state;
  struct server *server = session_start(64 * MIB, (struct server_hook){note_device, NULL});
  uint64_t first = allocate(100);
  CUcontext other;
  assert_int_equal(cuDevicePrimaryCtxRetain(&other, 1), CUDA_SUCCESS);
  assert_int_equal(cuCtxPushCurrent_v2(other), CUDA_SUCCESS);
  uint64_t second = allocate(100);
  assert_int_not_equal(first / GRANULE, second / GRANULE);
  settle();
  assert_int_equal(server_count(server, WIRE_MemoryMap), 2);
  assert_int_equal(map_devices[0], 0);
  assert_int_equal(map_devices[1], 1);
}

// ---- against a simple reference ----------------------------------------------------------------

#define LIMIT (24 * MIB)
#define GRANULES (LIMIT / GRANULE)
#define LIVE_MAX 200

static struct model { uint64_t address, size; } live[LIVE_MAX];
static int live_count;

// Granules that live allocations lie in.
static uint64_t granules_used(void) {
  uint64_t count = 0, shared[LIVE_MAX];
  int shared_count = 0;
  for (int i = 0; i < live_count; i++) {
    if (live[i].size > MIB) {
      count += (live[i].size + GRANULE - 1) / GRANULE;
      continue;
    }
    uint64_t granule = live[i].address / GRANULE;
    int j = 0;
    while (j < shared_count && shared[j] != granule) j++;
    if (j == shared_count) {
      shared[shared_count++] = granule;
      count++;
    }
  }
  return count;
}

// Whether `size` bytes fit between the small allocations of some granule.
static _Bool fits_between(uint64_t size) {
  for (int i = 0; i < live_count; i++) {
    if (live[i].size > MIB) continue;
    uint64_t begin = live[i].address / GRANULE * GRANULE;
    uint8_t taken[GRANULE / 512] = {0};
    for (int j = 0; j < live_count; j++)
      if (live[j].address / GRANULE * GRANULE == begin)
        memset(taken + (live[j].address - begin) / 512, 1, (live[j].size + 511) / 512);
    uint64_t run = 0;
    for (unsigned unit = 0; unit < GRANULE / 512; unit++) {
      run = taken[unit] ? 0 : run + 512;
      if (run >= size) return 1;
    }
  }
  return 0;
}

static void random_against_a_reference(void **state) {
  (void)state;
  struct server *server = session_start(LIMIT, no_hook);
  uint64_t seed = 12345;
  int refused = 0;
  for (int step = 0; step < 4000; step++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    uint64_t random = seed >> 20;
    if (live_count == LIVE_MAX || (live_count && random % 5 < 2)) {
      int i = (int)(random / 5 % (unsigned)live_count);
      release(live[i].address);
      live[i] = live[--live_count];
      if (random % 3 == 0) settle();
      continue;
    }
    uint64_t size = random % 4 == 0   ? 1 + random % (5 * MIB)
                    : random % 4 == 1 ? 1 + random % MIB
                                      : 1 + random % 5000;
    // What is freed counts as free, so only live allocations decide.
    _Bool must_fit = size > MIB ? granules_used() + (size + GRANULE - 1) / GRANULE <= GRANULES
                                : granules_used() < GRANULES || fits_between(size);
    CUdeviceptr address;
    CUresult result = cuMemAlloc_v2(&address, size);
    assert_int_equal(result, must_fit ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
    if (result) {
      refused++;
      continue;
    }
    for (int i = 0; i < live_count; i++)
      assert_true(address + size <= live[i].address || live[i].address + live[i].size <= address);
    live[live_count++] = (struct model){address, size};
    if (step % 16) continue;
    for (int i = 0; i < live_count; i++) {
      assert_int_equal(memory_check(live[i].address, live[i].size), CUDA_SUCCESS);
      assert_int_equal(memory_check(live[i].address, live[i].size + 1), CUDA_ERROR_INVALID_VALUE);
    }
    settle();
    assert_int_equal(free_bytes(), LIMIT - granules_used() * GRANULE);
    assert_true(server_mapped(server) <= LIMIT);
  }
  assert_true(refused > 100);
  while (live_count) release(live[--live_count].address);
  settle();
  assert_int_equal(free_bytes(), LIMIT);
  assert_int_equal(allocate(LIMIT) % GRANULE, 0);
}

// ---- threads -----------------------------------------------------------------------------------

static void *churn(void *argument) {
  uint64_t seed = (uintptr_t)argument;
  struct model mine[8] = {0};
  session_enter();
  for (int step = 0; step < 500; step++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    struct model *m = &mine[(seed >> 40) % 8];
    if (m->size) {
      CHECK(memory_check(m->address, m->size) == CUDA_SUCCESS);
      CHECK(cuMemFree_v2(m->address) == CUDA_SUCCESS);
      m->size = 0;
      continue;
    }
    uint64_t size = (seed >> 33) % 3 ? 1 + (seed >> 20) % 9000 : MIB + 1 + (seed >> 20) % MIB;
    CUdeviceptr address;
    CUresult result = cuMemAlloc_v2(&address, size);
    CHECK(result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY);
    if (!result) *m = (struct model){address, size};
  }
  for (int i = 0; i < 8; i++)
    if (mine[i].size) CHECK(cuMemFree_v2(mine[i].address) == CUDA_SUCCESS);
  return NULL;
}

static void threads(void **state) {
  (void)state;
  session_start(32 * MIB, no_hook);
  pthread_t ids[4];
  for (uintptr_t i = 0; i < 4; i++) pthread_create(&ids[i], NULL, churn, (void *)(i + 1));
  for (int i = 0; i < 4; i++) pthread_join(ids[i], NULL);
  settle();
  assert_int_equal(free_bytes(), 32 * MIB);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(addresses),
      cmocka_unit_test(a_variable_over_the_programs_own_memory_is_told_of_once),
      cmocka_unit_test(bad_arguments),
      cmocka_unit_test(pitched),
      cmocka_unit_test(ranges),
      cmocka_unit_test(near_the_limit_the_server_is_asked),
      cmocka_unit_test(the_limit_is_exact),
      cmocka_unit_test(all_is_free_again),
      cmocka_unit_test(small_ones_share_a_granule),
      cmocka_unit_test(freed_memory_waits_for_the_work),
      cmocka_unit_test(out_of_memory_waits_before_it_gives_up),
      cmocka_unit_test(alternating_small_ones_stay_mapped),
      cmocka_unit_test(neighbours_join),
      cmocka_unit_test(a_reset_forgets_all),
      cmocka_unit_test(a_context_takes_its_memory_along),
      cmocka_unit_test(devices_do_not_share),
      cmocka_unit_test(random_against_a_reference),
      cmocka_unit_test(threads),
  };
  RUN_ONE_TEST(tests, argc, argv);
}
