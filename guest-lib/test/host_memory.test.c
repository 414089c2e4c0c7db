// Pinned host memory: what is pinned, and that nothing is written into what was given back.
#include "memory/host_memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "check.h"
#include "session.h"

#define MIB (1ull << 20)

static const struct server_hook no_hook;

static void allocated(void **state) {
  (void)state;
  struct server *server = session_start(64 * MIB, no_hook);
  uint8_t *a, *b;
  unsigned flags = 7;
  assert_int_equal(cuMemHostAlloc((void **)&a, 5000, CU_MEMHOSTALLOC_PORTABLE), CUDA_SUCCESS);
  assert_int_equal(cuMemAllocHost_v2((void **)&b, 1), CUDA_SUCCESS);
  memset(a, 1, 5000);
  assert_true(host_is_pinned(a, 5000));
  assert_true(host_is_pinned(a + 4999, 1));
  assert_false(host_is_pinned(a + 4999, 2));
  assert_false(host_is_pinned(a - 1, 1));
  assert_int_equal(cuMemHostGetFlags(&flags, a + 10), CUDA_SUCCESS);
  assert_int_equal(flags, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
  assert_int_equal(cuMemHostGetFlags(&flags, &flags), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemFreeHost(a + 1), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemHostUnregister(a), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemFreeHost(a), CUDA_SUCCESS);
  assert_int_equal(cuMemFreeHost(a), CUDA_ERROR_INVALID_VALUE);
  assert_false(host_is_pinned(a, 1));
  assert_int_equal(cuMemFreeHost(b), CUDA_SUCCESS);
  assert_int_equal(cuMemFreeHost(NULL), CUDA_SUCCESS);
  assert_int_equal(cuMemHostAlloc(NULL, 1, 0), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemHostAlloc((void **)&a, 0, 0), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemHostAlloc((void **)&a, 1, 0x80), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemHostAlloc((void **)&a, SIZE_MAX, 0), CUDA_ERROR_OUT_OF_MEMORY);
  assert_int_equal(server_count(server, 0), 0);  // all of it stays here
}

static void registered(void **state) {
  (void)state;
  session_start(64 * MIB, no_hook);
  static uint8_t bytes[10000];
  CUdeviceptr device;
  assert_int_equal(cuMemAlloc_v2(&device, 64), CUDA_SUCCESS);
  assert_int_equal(cuMemHostRegister_v2(bytes + 1000, 1000, 0), CUDA_SUCCESS);
  static const struct {
    size_t at, size;
  } overlapping[] = {{1000, 1000}, {0, 1001}, {1999, 1}, {1500, 100}, {0, 10000}, {1999, 5000}};
  for (unsigned i = 0; i < 6; i++)
    assert_int_equal(cuMemHostRegister_v2(bytes + overlapping[i].at, overlapping[i].size, 0),
                     CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  assert_int_equal(cuMemHostRegister_v2(bytes, 1000, 0), CUDA_SUCCESS);
  assert_int_equal(cuMemHostRegister_v2(bytes + 2000, 8000, 0), CUDA_SUCCESS);
  assert_true(host_is_pinned(bytes, 1000));
  assert_false(host_is_pinned(bytes, 1001));  // two ranges are not one
  assert_int_equal(cuMemHostUnregister(bytes + 1001), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemFreeHost(bytes + 1000), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemHostUnregister(bytes + 1000), CUDA_SUCCESS);
  assert_int_equal(cuMemHostUnregister(bytes + 1000), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  assert_true(host_is_pinned(bytes, 1000));
  assert_int_equal(cuMemHostUnregister(NULL), CUDA_ERROR_INVALID_VALUE);

  assert_int_equal(cuMemHostRegister_v2(NULL, 1, 0), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemHostRegister_v2(bytes + 1000, 0, 0), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemHostRegister_v2(bytes + 1000, SIZE_MAX, 0), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemHostRegister_v2(bytes + 1000, 8, 0x80), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemHostRegister_v2(bytes + 1000, 8, CU_MEMHOSTREGISTER_IOMEMORY),
                   CUDA_ERROR_NOT_SUPPORTED);
  assert_int_equal(cuMemHostRegister_v2((void *)(uintptr_t)device, 64, 0),
                   CUDA_ERROR_INVALID_VALUE);

  // Across a hole.
  const size_t page = 4096;
  uint8_t *pages = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(pages + page, page);
  assert_int_equal(cuMemHostRegister_v2(pages + 100, 2 * page, 0), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemHostRegister_v2(pages + 100, page - 100, 0), CUDA_SUCCESS);
  assert_int_equal(cuMemHostUnregister(pages + 100), CUDA_SUCCESS);
  munmap(pages, page);
  assert_int_equal(cuMemHostRegister_v2(pages + 100, 1, 0), CUDA_ERROR_INVALID_VALUE);
  munmap(pages + 2 * page, page);
}

static void what_a_pointer_is(void **state) {
  (void)state;
  session_start(64 * MIB, no_hook);
  CUdeviceptr device;
  uint8_t *pinned;
  assert_int_equal(cuMemAlloc_v2(&device, 3000), CUDA_SUCCESS);
  assert_int_equal(cuMemHostAlloc((void **)&pinned, 3000, 0), CUDA_SUCCESS);
  const struct {
    uint64_t pointer, base, size;
    unsigned type;
    int ordinal;
    uint64_t as_device, as_host;
  } rows[] = {
      {device + 5, device, 3000, CU_MEMORYTYPE_DEVICE, 0, device + 5, 0},
      {(uintptr_t)pinned + 5, (uintptr_t)pinned, 3000, CU_MEMORYTYPE_HOST, 0, (uintptr_t)pinned + 5,
       (uintptr_t)pinned + 5},
      {(uintptr_t)&device, 0, 0, 0, -2, 0, 0},
  };
  for (int i = 0; i < 3; i++) {
    unsigned type = 99;
    int ordinal = 99;
    uint64_t base = 99, size = 99, as_device = 99, as_host = 99;
    CUpointer_attribute ask[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
        CU_POINTER_ATTRIBUTE_DEVICE_POINTER,   CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void *answers[] = {&type, &ordinal, &base, &size, &as_device, &as_host};
    // For memory that is not ours it answers with zeros, not with an error.
    assert_int_equal(cuPointerGetAttributes(6, ask, answers, rows[i].pointer), CUDA_SUCCESS);
    assert_int_equal(type, rows[i].type);
    assert_int_equal(ordinal, rows[i].ordinal);
    assert_int_equal(base, rows[i].base);
    assert_int_equal(size, rows[i].size);
    assert_int_equal(as_device, rows[i].as_device);
    assert_int_equal(as_host, rows[i].as_host);
    assert_int_equal(
        cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, rows[i].pointer),
        i < 2 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
    unsigned managed = ~0u;  // cudart reads all four bytes
    cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, rows[i].pointer);
    assert_int_equal(managed, 0);
  }
  CUpointer_attribute unknown = (CUpointer_attribute)999;
  uint64_t answer;
  assert_int_equal(cuPointerGetAttribute(&answer, unknown, device), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuPointerGetAttributes(1, &unknown, (void *[]){&answer}, device),
                   CUDA_ERROR_INVALID_VALUE);
}

// A download on its way into pinned memory has landed before the memory goes.
static void downloads_land_before_it_goes(void **state) {
  (void)state;
  struct server *server = session_start(64 * MIB, no_hook);
  CUdeviceptr device;
  uint8_t *pinned;
  const uint64_t size = 8 * MIB;
  assert_int_equal(cuMemAlloc_v2(&device, size), CUDA_SUCCESS);
  assert_int_equal(cuMemHostAlloc((void **)&pinned, size, 0), CUDA_SUCCESS);
  assert_int_equal(cuMemcpyDtoHAsync_v2(pinned, device, size, NULL), CUDA_SUCCESS);
  assert_int_equal(cuMemFreeHost(pinned), CUDA_SUCCESS);
  // Whoever has these addresses next keeps what it writes.
  uint8_t *next;
  assert_int_equal(cuMemHostAlloc((void **)&next, size, 0), CUDA_SUCCESS);
  assert_ptr_equal(next, pinned);
  memset(next, 0x77, size);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  for (uint64_t i = 0; i < size; i += 4096) assert_int_equal(next[i], 0x77);
  // The same of the program's own.
  uint8_t *own = malloc(size);
  memset(own, 1, size);
  assert_int_equal(cuMemHostRegister_v2(own, size, 0), CUDA_SUCCESS);
  uint64_t before = server_count(server, WIRE_cuCtxSynchronize);
  assert_int_equal(cuMemcpyDtoHAsync_v2(own, device, size, NULL), CUDA_SUCCESS);
  assert_int_equal(cuMemHostUnregister(own), CUDA_SUCCESS);
  for (uint64_t i = 0; i < size; i += 4096) assert_int_equal(own[i], 0);
  assert_int_equal(server_count(server, WIRE_cuCtxSynchronize), before + 1);
  free(own);
}

static void *churn(void *unused) {
  (void)unused;
  session_enter();
  void *mine[16] = {0};
  for (int i = 0; i < 2000; i++) {
    void **m = &mine[i * 7 % 16];
    if (*m) {
      CHECK(host_is_pinned(*m, 100));
      CHECK(cuMemFreeHost(*m) == CUDA_SUCCESS);
      *m = NULL;
    } else {
      CHECK(cuMemHostAlloc(m, 100, 0) == CUDA_SUCCESS);
    }
  }
  return NULL;
}

static void threads(void **state) {
  (void)state;
  session_start(64 * MIB, no_hook);
  pthread_t ids[4];
  for (int i = 0; i < 4; i++) pthread_create(&ids[i], NULL, churn, NULL);
  for (int i = 0; i < 4; i++) pthread_join(ids[i], NULL);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(allocated),         cmocka_unit_test(registered),
      cmocka_unit_test(what_a_pointer_is), cmocka_unit_test(downloads_land_before_it_goes),
      cmocka_unit_test(threads),
  };
  RUN_ONE_TEST(tests, argc, argv);
}
