// Pools and stream-ordered allocation: limits, figures, and reuse only in the order of streams.
#include "allocation/pool.h"

#include <string.h>

#include "base/stats.h"
#include "check.h"
#include "log_capture.h"
#include "memory/memory_range.h"
#include "session.h"

#define MIB (1ull << 20)

static const struct server_hook no_hook;

#define OK(call) assert_int_equal((call), CUDA_SUCCESS)
#define FAILS(result, call) assert_int_equal((call), CUDA_ERROR_##result)

static CUstream stream(unsigned flags) {
  CUstream made;
  OK(cuStreamCreate(&made, flags));
  return made;
}

static CUdeviceptr get(uint64_t size, CUstream in) {
  CUdeviceptr address;
  OK(cuMemAllocAsync(&address, size, in));
  return address;
}

static CUmemoryPool make_pool(size_t most) {
  CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                               .location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}},
                               .maxSize = most};
  CUmemoryPool pool;
  OK(cuMemPoolCreate(&pool, &properties));
  return pool;
}

static uint64_t figure(CUmemoryPool pool, CUmemPool_attribute attribute) {
  cuuint64_t value = 0;
  OK(cuMemPoolGetAttribute(pool, attribute, &value));
  return value;
}

static void a_stream_reuses_at_once(void **state) {
  (void)state;
  struct server *server = session_start(8 * MIB, no_hook);
  CUstream one = stream(CU_STREAM_NON_BLOCKING);
  const uint64_t sizes[] = {5 * MIB, 3000};
  for (int i = 0; i < 2; i++) {
    CUdeviceptr first = get(sizes[i], one);
    for (int round = 0; round < 100; round++) {
      OK(cuMemsetD8Async(first, 1, sizes[i], one));
      OK(cuMemFreeAsync(first, one));
      FAILS(INVALID_VALUE, cuMemsetD8Async(first, 1, 1, one));
      CUdeviceptr again = get(sizes[i], one);
      assert_int_equal(again, first);
    }
    OK(cuMemFreeAsync(first, one));
  }
  assert_int_equal(server_count(server, WIRE_cuCtxSynchronize), 0);
  assert_int_equal(server_count(server, WIRE_cuStreamSynchronize), 0);
}

static void another_stream_waits(void **state) {
  (void)state;
  struct server *server = session_start(64 * MIB, no_hook);
  CUstream one = stream(CU_STREAM_NON_BLOCKING), two = stream(CU_STREAM_NON_BLOCKING);
  CUdeviceptr first = get(5 * MIB, one), unlike;
  OK(cuMemsetD8Async(first, 1, MIB, one));
  OK(cuMemFreeAsync(first, one));
  CUdeviceptr second = get(5 * MIB, two);
  assert_int_not_equal(second, first);
  OK(cuMemsetD8Async(second, 1, MIB, two));
  OK(cuStreamSynchronize(two));  // says nothing of the first
  assert_int_not_equal(unlike = get(5 * MIB, two), first);
  OK(cuStreamSynchronize(one));
  assert_int_equal(get(5 * MIB, two), first);
  assert_int_not_equal(unlike, second);
  OK(cuCtxSynchronize());
  assert_int_equal(server_count(server, WIRE_MemoryUnmap), 1);
}

// What a blocking stream frees may be in use by the legacy stream, which it waits for.
static void the_legacy_stream_counts(void **state) {
  (void)state;
  session_start(64 * MIB, no_hook);
  CUstream blocking = stream(0), other = stream(CU_STREAM_NON_BLOCKING);
  CUdeviceptr address = get(5 * MIB, blocking);
  OK(cuMemsetD8Async(address, 1, MIB, NULL));
  OK(cuMemFreeAsync(address, blocking));
  OK(cuStreamSynchronize(blocking));
  assert_int_not_equal(get(5 * MIB, other), address);
  OK(cuStreamSynchronize(NULL));
  assert_int_equal(get(5 * MIB, other), address);

  CUdeviceptr next = get(7 * MIB, NULL);
  OK(cuMemsetD8Async(next, 1, MIB, blocking));
  OK(cuMemFreeAsync(next, NULL));
  assert_int_not_equal(get(7 * MIB, other), next);
  OK(cuStreamSynchronize(NULL));
  assert_int_equal(get(7 * MIB, other), next);
}

static void a_destroyed_stream_keeps_nothing(void **state) {
  (void)state;
  session_start(8 * MIB, no_hook);
  CUstream one = stream(CU_STREAM_NON_BLOCKING);
  CUdeviceptr address = get(8 * MIB, one);
  OK(cuMemsetD8Async(address, 1, MIB, one));
  OK(cuMemFreeAsync(address, one));
  OK(cuStreamDestroy_v2(one));
  CUdeviceptr again;
  OK(cuMemAlloc_v2(&again, 8 * MIB));  // waits for all work
  assert_int_equal(again, address);
}

static void out_of_memory_waits_before_it_gives_up(void **state) {
  (void)state;
  struct server *server = session_start(8 * MIB, no_hook);
  CUstream one = stream(CU_STREAM_NON_BLOCKING), two = stream(CU_STREAM_NON_BLOCKING);
  CUdeviceptr address = get(8 * MIB, one), none;
  FAILS(OUT_OF_MEMORY, cuMemAllocAsync(&none, 1, two));
  assert_int_equal(server_count(server, WIRE_cuCtxSynchronize), 0);
  OK(cuMemFreeAsync(address, one));
  assert_int_equal(get(8 * MIB, two), address);
  size_t free, total;
  OK(cuMemGetInfo_v2(&free, &total));
  assert_int_equal(free, 0);
}

static void limits_and_figures(void **state) {
  (void)state;
  session_start(64 * MIB, no_hook);
  CUmemoryPool pool = make_pool(8 * MIB);
  CUdeviceptr a, b;
  OK(cuMemAllocFromPoolAsync(&a, 5 * MIB, pool, NULL));
  FAILS(OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&b, 5 * MIB, pool, NULL));
  FAILS(OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&b, SIZE_MAX, pool, NULL));
  FAILS(INVALID_VALUE, cuMemAllocFromPoolAsync(&b, 0, pool, NULL));
  FAILS(INVALID_VALUE, cuMemAllocFromPoolAsync(NULL, 1, pool, NULL));
  FAILS(INVALID_VALUE, cuMemAllocFromPoolAsync(&b, 1, (CUmemoryPool)(uintptr_t)0x123456, NULL));
  OK(cuMemAllocFromPoolAsync(&b, 3 * MIB, pool, NULL));
  assert_int_equal(figure(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 8 * MIB);
  OK(cuMemFree_v2(b));
  OK(cuMemFreeAsync(a, NULL));
  FAILS(INVALID_VALUE, cuMemFreeAsync(a, NULL));
  FAILS(INVALID_VALUE, cuMemFreeAsync(a + 512, NULL));
  OK(cuMemFreeAsync(0, NULL));
  assert_int_equal(figure(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
  assert_int_equal(figure(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 8 * MIB);
  cuuint64_t value = 1;
  FAILS(INVALID_VALUE, cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value));
  value = 0;
  OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value));
  assert_int_equal(figure(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 0);
  value = 12345;
  OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value));
  assert_int_equal(figure(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD), 12345);
  FAILS(INVALID_VALUE, cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value));
  FAILS(INVALID_VALUE, cuMemPoolSetAttribute(pool, 0, &value));
  FAILS(INVALID_VALUE, cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, NULL));
  int reuse = 0;
  OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &reuse));
  reuse = 7;
  OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &reuse));
  assert_int_equal(reuse, 0);
  OK(cuMemPoolTrimTo(pool, 0));
}

static void which_pool(void **state) {
  (void)state;
  session_start(64 * MIB, no_hook);
  CUmemoryPool first, again, own = make_pool(0);
  OK(cuDeviceGetDefaultMemPool(&first, 0));
  OK(cuDeviceGetMemPool(&again, 0));
  assert_ptr_equal(first, again);
  CUdeviceptr a = get(1000, NULL);
  assert_int_equal(figure(first, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 1000);
  OK(cuDeviceSetMemPool(0, own));
  FAILS(INVALID_VALUE, cuDeviceSetMemPool(1, own));
  CUdeviceptr b = get(2000, NULL);
  assert_int_equal(figure(own, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 2000);
  CUmemoryPool of;
  OK(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, b));
  assert_ptr_equal(of, own);
  FAILS(INVALID_VALUE, cuMemPoolDestroy(first));
  OK(cuMemPoolDestroy(own));
  FAILS(INVALID_VALUE, cuMemPoolDestroy(own));
  OK(cuDeviceGetMemPool(&again, 0));
  assert_ptr_equal(first, again);
  OK(memory_check(b, 2000));  // it outlives its pool
  OK(cuMemFreeAsync(b, NULL));
  OK(cuMemFreeAsync(a, NULL));
  FAILS(INVALID_DEVICE, cuDeviceGetMemPool(&again, 2));
  CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, {1}};
  OK(cuMemGetDefaultMemPool(&again, &location, CU_MEM_ALLOCATION_TYPE_PINNED));
  assert_ptr_not_equal(first, again);
}

// Where CUDA has pools and we do not is told from where it has none, and said once.
static void places_without_pools(void **state) {
  (void)state;
  session_start(64 * MIB, no_hook);
  log_capture("warn");
  const struct {
    CUmemLocation place;
    CUresult result;
  } places[] = {
      {{CU_MEM_LOCATION_TYPE_HOST, {0}}, CUDA_ERROR_NOT_SUPPORTED},
      {{CU_MEM_LOCATION_TYPE_HOST_NUMA, {0}}, CUDA_ERROR_NOT_SUPPORTED},
      {{CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN, {0}}, CUDA_ERROR_NOT_SUPPORTED},
      {{CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, {0}}, CUDA_ERROR_INVALID_VALUE},
      {{CU_MEM_LOCATION_TYPE_INVISIBLE, {-2}}, CUDA_ERROR_INVALID_VALUE},
      {{CU_MEM_LOCATION_TYPE_NONE, {0}}, CUDA_ERROR_INVALID_VALUE},
      {{(CUmemLocationType)77, {0}}, CUDA_ERROR_INVALID_VALUE},
      {{CU_MEM_LOCATION_TYPE_DEVICE, {99}}, CUDA_ERROR_INVALID_DEVICE},
  };
  CUmemoryPool pool, own = make_pool(0);
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    CUmemLocation place = places[i].place;
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = place};
    uint64_t before = guest_stats->unsupported;
    assert_int_equal(cuMemPoolCreate(&pool, &properties), places[i].result);
    assert_int_equal(cuMemGetDefaultMemPool(&pool, &place, CU_MEM_ALLOCATION_TYPE_PINNED),
                     places[i].result);
    assert_int_equal(cuMemGetMemPool(&pool, &place, CU_MEM_ALLOCATION_TYPE_PINNED),
                     places[i].result);
    assert_int_equal(cuMemSetMemPool(&place, CU_MEM_ALLOCATION_TYPE_PINNED, own), places[i].result);
    assert_int_equal(guest_stats->unsupported - before,
                     places[i].result == CUDA_ERROR_NOT_SUPPORTED ? 4 : 0);
  }
  const char *log = log_captured(), *first = strstr(log, "pools of host memory are not served");
  assert_non_null(first);
  assert_null(strstr(first + 1, "pools of host memory"));
  assert_non_null(strstr(log, "pools of a locality domain of a device are not served"));
}

static void access(void **state) {
  (void)state;
  session_start(64 * MIB, no_hook);
  CUmemoryPool pool = make_pool(0);
  CUmemAccessDesc own = {{CU_MEM_LOCATION_TYPE_DEVICE, {0}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  OK(cuMemPoolSetAccess(pool, &own, 1));
  own.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  FAILS(INVALID_VALUE, cuMemPoolSetAccess(pool, &own, 1));
  CUmemAccessDesc other = {{CU_MEM_LOCATION_TYPE_DEVICE, {1}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  FAILS(PEER_ACCESS_UNSUPPORTED, cuMemPoolSetAccess(pool, &other, 1));
  CUmemAccess_flags flags;
  OK(cuMemPoolGetAccess(&flags, pool, &other.location));
  assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  OK(cuMemPoolGetAccess(&flags, pool, &own.location));
  assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

static void a_reset_empties_pools(void **state) {
  (void)state;
  struct server *server = session_start(64 * MIB, no_hook);
  CUmemoryPool pool = make_pool(0);
  CUdeviceptr a;
  OK(cuMemAllocFromPoolAsync(&a, 3 * MIB, pool, NULL));
  OK(cuMemFreeAsync(get(4 * MIB, NULL), NULL));
  OK(cuDevicePrimaryCtxReset_v2(0));
  session_enter();
  assert_int_equal(figure(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
  assert_int_equal(server_mapped(server), 0);
  FAILS(INVALID_VALUE, cuMemFreeAsync(a, NULL));
  OK(cuMemAllocFromPoolAsync(&a, 3 * MIB, pool, NULL));
  size_t free, total;
  OK(cuMemGetInfo_v2(&free, &total));
  assert_int_equal(free, 60 * MIB);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_stream_reuses_at_once),
      cmocka_unit_test(another_stream_waits),
      cmocka_unit_test(the_legacy_stream_counts),
      cmocka_unit_test(a_destroyed_stream_keeps_nothing),
      cmocka_unit_test(out_of_memory_waits_before_it_gives_up),
      cmocka_unit_test(limits_and_figures),
      cmocka_unit_test(which_pool),
      cmocka_unit_test(places_without_pools),
      cmocka_unit_test(access),
      cmocka_unit_test(a_reset_empties_pools),
  };
  RUN_ONE_TEST(tests, argc, argv);
}
