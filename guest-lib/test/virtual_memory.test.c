// Memory that the program manages itself: everything is decided in the guest, as a device decides
// it.
#include "allocation/virtual_memory.h"

#include "base/stats.h"
#include "check.h"
#include "memory/memory_range.h"
#include "session.h"

#define MIB (1ull << 20)
#define GRANULE WIRE_GRANULE

static const struct server_hook no_hook;

#define OK(call) assert_int_equal((call), CUDA_SUCCESS)
#define FAILS(result, call) assert_int_equal((call), CUDA_ERROR_##result)

static CUmemAllocationProp on_device(int device) {
  return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                               .location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}}};
}

static CUmemGenericAllocationHandle create(uint64_t size) {
  CUmemAllocationProp properties = on_device(0);
  CUmemGenericAllocationHandle handle;
  OK(cuMemCreate(&handle, size, &properties, 0));
  return handle;
}

static CUdeviceptr reserve(uint64_t size) {
  CUdeviceptr address;
  OK(cuMemAddressReserve(&address, size, 0, 0, 0));
  return address;
}

static CUresult allow(CUdeviceptr address, uint64_t size, CUmemAccess_flags flags) {
  CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, {0}}, flags};
  return cuMemSetAccess(address, size, &access, 1);
}
#define READ_WRITE CU_MEM_ACCESS_FLAGS_PROT_READWRITE

static uint64_t free_bytes(void) {
  size_t free, total;
  OK(cuMemGetInfo_v2(&free, &total));
  return free;
}

static void reservations(void **state) {
  (void)state;
  struct server *server = session_start(64 * MIB, no_hook);
  CUdeviceptr first, second;
  const CUdeviceptr wanted = WIRE_WINDOW_BASE + (33ull << 30);
  OK(cuMemAddressReserve(&first, 64ull << 30, 0, wanted, 0));
  assert_int_equal(first, wanted);
  OK(cuMemAddressReserve(&second, GRANULE, 0, wanted, 0));  // taken: somewhere else then
  assert_true(second < wanted || second >= wanted + (64ull << 30));
  OK(cuMemAddressFree(second, GRANULE));
  OK(cuMemAddressReserve(&second, GRANULE, 1ull << 30, 0, 0));
  assert_int_equal(second % (1ull << 30), 0);
  OK(cuMemAddressFree(second, GRANULE));
  OK(cuMemAddressReserve(&second, GRANULE, 0, 1ull << 30, 0));  // outside the window
  assert_true(second >= WIRE_WINDOW_BASE);
  FAILS(INVALID_VALUE, cuMemAddressFree(second, 2 * GRANULE));
  FAILS(INVALID_VALUE, cuMemAddressFree(second + GRANULE, GRANULE));
  OK(cuMemAddressFree(second, GRANULE));
  FAILS(INVALID_VALUE, cuMemAddressFree(second, GRANULE));
  FAILS(INVALID_VALUE, cuMemAddressReserve(NULL, GRANULE, 0, 0, 0));
  FAILS(INVALID_VALUE, cuMemAddressReserve(&second, 0, 0, 0, 0));
  FAILS(INVALID_VALUE, cuMemAddressReserve(&second, GRANULE + 1, 0, 0, 0));
  FAILS(INVALID_VALUE, cuMemAddressReserve(&second, GRANULE, 3, 0, 0));
  FAILS(INVALID_VALUE, cuMemAddressReserve(&second, GRANULE, 0, 4096, 0));
  FAILS(INVALID_VALUE, cuMemAddressReserve(&second, GRANULE, 0, 0, 1));
  FAILS(OUT_OF_MEMORY, cuMemAddressReserve(&second, WIRE_WINDOW_SIZE, 0, 0, 0));
  FAILS(OUT_OF_MEMORY, cuMemAddressReserve(&second, 0 - GRANULE, 0, 0, 0));
  // What is reserved is nobody else's.
  for (int i = 0; i < 8; i++) {
    CUdeviceptr other;
    OK(cuMemAlloc_v2(&other, 4 * MIB));
    assert_true(other < first || other >= first + (64ull << 30));
  }
  FAILS(INVALID_VALUE, memory_check(first, 1));
  OK(cuMemAddressFree(first, 64ull << 30));
  assert_int_equal(server_count(server, WIRE_cuCtxSynchronize), 0);
}

static void pieces(void **state) {
  (void)state;
  struct server *server = session_start(16 * MIB, no_hook);
  CUmemAllocationProp properties = on_device(0), told;
  CUmemGenericAllocationHandle handle, again;
  size_t granularity;
  OK(cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  assert_int_equal(granularity, GRANULE);
  FAILS(INVALID_VALUE, cuMemCreate(&handle, 4096, &properties, 0));
  FAILS(INVALID_VALUE, cuMemCreate(&handle, 0, &properties, 0));
  FAILS(INVALID_VALUE, cuMemCreate(NULL, GRANULE, &properties, 0));
  FAILS(INVALID_VALUE, cuMemCreate(&handle, GRANULE, NULL, 0));
  FAILS(INVALID_VALUE, cuMemCreate(&handle, GRANULE, &properties, 1));
  FAILS(OUT_OF_MEMORY, cuMemCreate(&handle, 18 * MIB, &properties, 0));
  FAILS(OUT_OF_MEMORY, cuMemCreate(&handle, 0 - GRANULE, &properties, 0));
  properties.location.id = 9;
  FAILS(INVALID_DEVICE, cuMemCreate(&handle, GRANULE, &properties, 0));
  // Where CUDA has pieces of memory and we do not is told from where it has none.
  const struct {
    CUmemLocationType place;
    CUmemAllocationHandleType handles;
    CUresult result;
  } places[] = {
      {CU_MEM_LOCATION_TYPE_HOST, CU_MEM_HANDLE_TYPE_NONE, CUDA_ERROR_NOT_SUPPORTED},
      {CU_MEM_LOCATION_TYPE_HOST, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
       CUDA_ERROR_INVALID_VALUE},
      {CU_MEM_LOCATION_TYPE_HOST_NUMA, CU_MEM_HANDLE_TYPE_NONE, CUDA_ERROR_NOT_SUPPORTED},
      {CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN, CU_MEM_HANDLE_TYPE_NONE,
       CUDA_ERROR_NOT_SUPPORTED},
      {CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, CU_MEM_HANDLE_TYPE_NONE, CUDA_ERROR_INVALID_VALUE},
      {CU_MEM_LOCATION_TYPE_INVISIBLE, CU_MEM_HANDLE_TYPE_NONE, CUDA_ERROR_INVALID_VALUE},
      {CU_MEM_LOCATION_TYPE_NONE, CU_MEM_HANDLE_TYPE_NONE, CUDA_ERROR_INVALID_VALUE},
      {(CUmemLocationType)77, CU_MEM_HANDLE_TYPE_NONE, CUDA_ERROR_INVALID_VALUE},
  };
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    properties = on_device(0);
    properties.location.type = places[i].place;
    properties.requestedHandleTypes = places[i].handles;
    const uint64_t before = guest_stats->unsupported;
    assert_int_equal(cuMemCreate(&handle, GRANULE, &properties, 0), places[i].result);
    assert_int_equal(
        cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
        places[i].result);
    assert_int_equal(guest_stats->unsupported - before,
                     places[i].result == CUDA_ERROR_NOT_SUPPORTED ? 2 : 0);
  }
  properties = on_device(0);
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
  FAILS(NOT_SUPPORTED, cuMemCreate(&handle, GRANULE, &properties, 0));

  handle = create(16 * MIB);
  assert_int_equal(free_bytes(), 0);
  properties = on_device(0);
  FAILS(OUT_OF_MEMORY, cuMemCreate(&again, GRANULE, &properties, 0));
  CUdeviceptr address;
  FAILS(OUT_OF_MEMORY, cuMemAlloc_v2(&address, 1));
  OK(cuMemGetAllocationPropertiesFromHandle(&told, handle));
  assert_int_equal(told.location.id, 0);
  assert_int_equal(told.requestedHandleTypes, CU_MEM_HANDLE_TYPE_NONE);
  OK(cuMemRelease(handle));
  FAILS(INVALID_VALUE, cuMemRelease(handle));
  FAILS(INVALID_VALUE, cuMemGetAllocationPropertiesFromHandle(&told, handle));
  assert_int_equal(free_bytes(), 16 * MIB);
  // What was freed makes room.
  OK(cuMemAlloc_v2(&address, 10 * MIB));
  OK(cuMemFree_v2(address));
  handle = create(16 * MIB);
  assert_int_equal(server_count(server, WIRE_cuCtxSynchronize), 1);
  OK(cuMemRelease(handle));
}

static void mappings(void **state) {
  (void)state;
  session_start(64 * MIB, no_hook);
  CUdeviceptr at = reserve(8 * GRANULE), next = reserve(GRANULE);
  CUmemGenericAllocationHandle handle = create(2 * GRANULE);
  OK(cuMemMap(at, 2 * GRANULE, 0, handle, 0));
  OK(cuMemMap(at + 4 * GRANULE, GRANULE, GRANULE, handle, 0));
  FAILS(INVALID_VALUE, cuMemMap(at + GRANULE, GRANULE, 0, handle, 0));          // mapped
  FAILS(INVALID_VALUE, cuMemMap(at + 3 * GRANULE, 2 * GRANULE, 0, handle, 0));  // in part
  FAILS(INVALID_VALUE, cuMemMap(at + 7 * GRANULE, 2 * GRANULE, 0, handle, 0));  // two reservations
  FAILS(INVALID_VALUE, cuMemMap(at + 6 * GRANULE, 2 * GRANULE, GRANULE, handle, 0));
  FAILS(INVALID_VALUE, cuMemMap(at + 6 * GRANULE, GRANULE, 0 - GRANULE, handle, 0));
  FAILS(INVALID_VALUE, cuMemMap(at + 6 * GRANULE, GRANULE, 4096, handle, 0));
  FAILS(INVALID_VALUE, cuMemMap(at + 6 * GRANULE + 4096, GRANULE, 0, handle, 0));
  FAILS(INVALID_VALUE, cuMemMap(at + 6 * GRANULE, 0, 0, handle, 0));
  FAILS(INVALID_VALUE, cuMemMap(at + 6 * GRANULE, 0 - GRANULE, 0, handle, 0));
  FAILS(INVALID_VALUE, cuMemMap(at + 6 * GRANULE, GRANULE, 0, handle + 1, 0));
  FAILS(INVALID_VALUE, cuMemMap(at + 6 * GRANULE, GRANULE, 0, handle, 1));
  FAILS(INVALID_VALUE, cuMemMap(next + 4 * GRANULE, GRANULE, 0, handle, 0));  // not reserved
  FAILS(INVALID_VALUE, cuMemAddressFree(at, 8 * GRANULE));

  CUdeviceptr base;
  size_t size;
  OK(cuMemGetAddressRange_v2(&base, &size, at + GRANULE + 5));
  assert_int_equal(base, at);
  assert_int_equal(size, 2 * GRANULE);
  FAILS(NOT_FOUND, cuMemGetAddressRange_v2(&base, &size, at + 2 * GRANULE));
  OK(cuMemRelease(handle));  // the mappings keep it
  FAILS(INVALID_VALUE, cuMemMap(at + 6 * GRANULE, GRANULE, 0, handle, 0));
  CUmemGenericAllocationHandle again;
  FAILS(INVALID_VALUE, cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(at + 2 * GRANULE)));
  OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(at + 4 * GRANULE + 7)));
  OK(cuMemMap(at + 2 * GRANULE, GRANULE, 0, again, 0));
  OK(cuMemRelease(again));
  assert_int_equal(free_bytes(), 60 * MIB);

  FAILS(INVALID_VALUE, cuMemUnmap(at, GRANULE));  // half a mapping
  FAILS(INVALID_VALUE, cuMemUnmap(at + GRANULE, GRANULE));
  FAILS(INVALID_VALUE, cuMemUnmap(at, 4 * GRANULE));  // a hole
  FAILS(INVALID_VALUE, cuMemUnmap(at, 0 - GRANULE));
  OK(cuMemUnmap(at, 3 * GRANULE));  // two of them
  assert_int_equal(free_bytes(), 60 * MIB);
  OK(cuMemUnmap(at + 4 * GRANULE, GRANULE));
  assert_int_equal(free_bytes(), 64 * MIB);
  FAILS(INVALID_VALUE, cuMemUnmap(at + 4 * GRANULE, GRANULE));
  OK(cuMemAddressFree(at, 8 * GRANULE));
  OK(cuMemAddressFree(next, GRANULE));
}

static void access(void **state) {
  (void)state;
  session_start(64 * MIB, no_hook);
  CUdeviceptr at = reserve(6 * GRANULE);
  CUmemGenericAllocationHandle handle = create(3 * GRANULE);
  OK(cuMemMap(at, 3 * GRANULE, 0, handle, 0));
  OK(cuMemMap(at + 3 * GRANULE, GRANULE, 0, handle, 0));
  FAILS(INVALID_VALUE, cuMemsetD8_v2(at, 1, 1));  // none yet
  OK(allow(at, 4 * GRANULE, READ_WRITE));
  OK(cuMemsetD8_v2(at, 1, 4 * GRANULE));  // both mappings
  FAILS(INVALID_VALUE, cuMemsetD8_v2(at, 1, 4 * GRANULE + 1));
  FAILS(INVALID_VALUE, allow(at, 5 * GRANULE, READ_WRITE));
  FAILS(INVALID_VALUE, allow(at + 4096, GRANULE, READ_WRITE));
  FAILS(INVALID_VALUE, allow(at + 4 * GRANULE, GRANULE, READ_WRITE));
  FAILS(INVALID_VALUE, allow(at, GRANULE, (CUmemAccess_flags)2));
  FAILS(INVALID_VALUE, cuMemSetAccess(at, GRANULE, NULL, 1));
  CUmemAccessDesc elsewhere = {{CU_MEM_LOCATION_TYPE_DEVICE, {1}}, READ_WRITE};
  FAILS(PEER_ACCESS_UNSUPPORTED, cuMemSetAccess(at, GRANULE, &elsewhere, 1));
  elsewhere.location.id = 2;
  FAILS(INVALID_VALUE, cuMemSetAccess(at, GRANULE, &elsewhere, 1));
  // A part of a mapping may differ.
  OK(allow(at + GRANULE, GRANULE, CU_MEM_ACCESS_FLAGS_PROT_NONE));
  OK(cuMemsetD8_v2(at, 1, GRANULE));
  FAILS(INVALID_VALUE, cuMemsetD8_v2(at, 1, GRANULE + 1));
  FAILS(INVALID_VALUE, cuMemsetD8_v2(at + 2 * GRANULE - 1, 1, 1));
  OK(cuMemsetD8_v2(at + 2 * GRANULE, 1, 2 * GRANULE));
  unsigned long long flags;
  CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, {0}},
                there = {CU_MEM_LOCATION_TYPE_DEVICE, {1}};
  OK(cuMemGetAccess(&flags, &here, at + GRANULE));
  assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  OK(cuMemGetAccess(&flags, &here, at));
  assert_int_equal(flags, READ_WRITE);
  OK(cuMemGetAccess(&flags, &there, at));
  assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  OK(cuMemGetAccess(&flags, &here, at + 5 * GRANULE));
  assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  FAILS(INVALID_VALUE, cuMemGetAccess(&flags, &here, at + 6 * GRANULE));
  OK(allow(at, 3 * GRANULE, CU_MEM_ACCESS_FLAGS_PROT_READ));
  int told;
  OK(cuPointerGetAttribute(&told, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, at));
  assert_int_equal(told, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ);
  uint64_t start, context = 1;
  OK(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at + GRANULE));
  assert_int_equal(start, at);
  OK(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, at));
  assert_int_equal(context, 0);
  FAILS(INVALID_VALUE, cuPointerGetAttribute(&told, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at - 1));
}

static void a_reset_leaves_it(void **state) {
  (void)state;
  struct server *server = session_start(64 * MIB, no_hook);
  CUdeviceptr at = reserve(2 * GRANULE), plain;
  CUmemGenericAllocationHandle handle = create(GRANULE);
  OK(cuMemMap(at, GRANULE, 0, handle, 0));
  OK(allow(at, GRANULE, READ_WRITE));
  OK(cuMemAlloc_v2(&plain, 4 * MIB));
  OK(cuDevicePrimaryCtxReset_v2(0));
  session_enter();
  FAILS(INVALID_VALUE, memory_check(plain, 1));
  OK(memory_check(at, GRANULE));
  assert_int_equal(free_bytes(), 62 * MIB);
  assert_int_equal(server_mapped(server), GRANULE);
  OK(cuMemUnmap(at, GRANULE));
  OK(cuMemRelease(handle));
  OK(cuMemAddressFree(at, 2 * GRANULE));
}

// Nothing but taking mappings away waits.
static void what_waits(void **state) {
  (void)state;
  struct server *server = session_start(64 * MIB, no_hook);
  server_pause(server);
  CUdeviceptr at = reserve(16 * GRANULE);
  for (unsigned i = 0; i < 16; i++) {
    CUmemGenericAllocationHandle handle = create(GRANULE);
    OK(cuMemMap(at + i * GRANULE, GRANULE, 0, handle, 0));
    OK(allow(at + i * GRANULE, GRANULE, READ_WRITE));
    OK(cuMemRelease(handle));
  }
  server_resume(server);
  OK(cuMemUnmap(at, 16 * GRANULE));
  assert_int_equal(server_count(server, WIRE_MemoryDisplace), 1);
  OK(cuCtxSynchronize());
  assert_int_equal(server_count(server, WIRE_MemoryRelease), 16);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reservations),      cmocka_unit_test(pieces),
      cmocka_unit_test(mappings),          cmocka_unit_test(access),
      cmocka_unit_test(a_reset_leaves_it), cmocka_unit_test(what_waits),
  };
  RUN_ONE_TEST(tests, argc, argv);
}
