// Copies of every kind: which way they go, what reaches the device, what is refused at once.
#include <string.h>

#include "base/stats.h"
#include "check.h"
#include "guest_calls.h"
#include "log_capture.h"
#include "session.h"

#define MIB (1ull << 20)

static const struct server_hook no_hook;
static struct server *server;
static CUdeviceptr device;  // 1 MiB and a bit
#define DEVICE_BYTES (MIB + 100)

static void start(struct server_hook hook) {
  server = session_start(64 * MIB, hook);
  assert_int_equal(cuMemAlloc_v2(&device, DEVICE_BYTES), CUDA_SUCCESS);
}

static uint64_t round_trips(void) { return atomic_load(&guest_stats->round_trips); }

static uint8_t *at_server(CUdeviceptr address) {
  return server_memory(server) + (address - WIRE_WINDOW_BASE);
}

static CUdeviceptr host(void *pointer) { return (CUdeviceptr)(uintptr_t)pointer; }

static void the_direction_is_found(void **state) {
  (void)state;
  start(no_hook);
  char text[16] = "from the host", back[16] = "", other[16] = "";
  assert_int_equal(cuMemcpy(device, host(text), 14), CUDA_SUCCESS);
  assert_int_equal(cuMemcpy(device + 100, device, 14), CUDA_SUCCESS);
  assert_int_equal(round_trips(), 0);
  assert_int_equal(cuMemcpy(host(back), device + 100, 14), CUDA_SUCCESS);
  assert_string_equal(back, text);
  assert_int_equal(round_trips(), 1);
  assert_int_equal(cuMemcpy(host(other), host(text), 14), CUDA_SUCCESS);
  assert_string_equal(other, text);
  assert_int_equal(cuMemcpy(host(other + 1), host(other), 13), CUDA_SUCCESS);  // overlapping
  assert_string_equal(other, "ffrom the host");
  assert_int_equal(round_trips(), 1);
  assert_int_equal(server_count(server, WIRE_Upload), 1);
  assert_int_equal(server_count(server, WIRE_cuMemcpyDtoDAsync_v2), 1);
  assert_int_equal(server_count(server, WIRE_Download), 1);
}

static void nothing_is_copied_without_a_round_trip(void **state) {
  (void)state;
  start(no_hook);
  char byte;
  assert_int_equal(cuMemcpyHtoD_v2(device, NULL, 0), CUDA_SUCCESS);
  assert_int_equal(cuMemcpyDtoH_v2(NULL, device, 0), CUDA_SUCCESS);
  assert_int_equal(cuMemcpyDtoH_v2(&byte, 0, 0), CUDA_SUCCESS);
  assert_int_equal(cuMemcpy(0, 0, 0), CUDA_SUCCESS);
  assert_int_equal(cuMemcpyDtoD_v2(device, device + 8, 0), CUDA_SUCCESS);
  CUDA_MEMCPY2D none = {.srcMemoryType = CU_MEMORYTYPE_HOST, .dstMemoryType = CU_MEMORYTYPE_DEVICE};
  assert_int_equal(cuMemcpy2D_v2(&none), CUDA_SUCCESS);
  assert_int_equal(round_trips(), 0);
  assert_int_equal(server_count(server, WIRE_Upload), 0);
  assert_int_equal(server_count(server, WIRE_cuMemcpyDtoDAsync_v2), 0);
}

static void pointers_of_the_wrong_kind(void **state) {
  (void)state;
  start(no_hook);
  char bytes[64] = "";
  void *as_host = (void *)(uintptr_t)device;
  log_capture("warn");
  assert_int_equal(cuMemcpyHtoD_v2(device, as_host, 8), CUDA_ERROR_INVALID_VALUE);
  assert_non_null(strstr(log_captured(), "is a device pointer where a host pointer belongs"));
  assert_int_equal(cuMemcpyDtoH_v2(as_host, device, 8), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemcpyDtoHAsync_v2(as_host, device, 8, NULL), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemcpyHtoD_v2(host(bytes), bytes, 8), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemcpyDtoH_v2(bytes, host(bytes), 8), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemcpyDtoD_v2(device, host(bytes), 8), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemcpyHtoD_v2(device, NULL, 8), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemcpyHtoD_v2(0, bytes, 8), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemcpy(0, host(bytes), 8), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemcpy(host(bytes), 0, 8), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemsetD8_v2(host(bytes), 1, 8), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemcpyHtoDAsync_v2(device, bytes, 8, (CUstream)0x1234),
                   CUDA_ERROR_INVALID_HANDLE);
  // Past the end.
  assert_int_equal(cuMemcpyHtoD_v2(device + DEVICE_BYTES - 63, bytes, 64),
                   CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemcpyDtoH_v2(bytes, device + DEVICE_BYTES - 63, 64),
                   CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemcpyDtoD_v2(device, device + DEVICE_BYTES - 63, 64),
                   CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  assert_int_equal(server_count(server, 0), 2);  // the map, and the synchronisation
}

// Only pinned memory may be written behind the program's back.
static void asynchronous_downloads(void **state) {
  (void)state;
  start(no_hook);
  static uint8_t pageable[1000];
  uint8_t *pinned;
  assert_int_equal(cuMemHostAlloc((void **)&pinned, 1000, 0), CUDA_SUCCESS);
  assert_int_equal(cuMemsetD8_v2(device, 0, 1), CUDA_SUCCESS);
  memset(at_server(device), 42, 1000);
  uint64_t before = round_trips();
  assert_int_equal(cuMemcpyDtoHAsync_v2(pinned, device, 1000, NULL), CUDA_SUCCESS);
  assert_int_equal(cuMemcpyDtoHAsync_v2(pinned, device, 500, NULL), CUDA_SUCCESS);
  assert_int_equal(round_trips(), before);
  assert_int_equal(cuStreamSynchronize(NULL), CUDA_SUCCESS);
  assert_int_equal(round_trips(), before + 1);
  assert_int_equal(pinned[999], 42);
  // A copy between host buffers waits for what is on its way into one of them.
  memset(at_server(device), 43, 1000);
  assert_int_equal(cuMemcpyDtoHAsync_v2(pinned, device, 1000, NULL), CUDA_SUCCESS);
  assert_int_equal(cuMemcpy(host(pageable), host(pinned), 1000), CUDA_SUCCESS);
  assert_int_equal(pageable[999], 43);

  before = round_trips();
  memset(at_server(device), 44, 1000);
  assert_int_equal(cuMemcpyDtoHAsync_v2(pageable, device, 1000, NULL), CUDA_SUCCESS);
  assert_int_equal(pageable[999], 44);
  assert_int_equal(round_trips(), before + 1);
  // Pinned only in part.
  assert_int_equal(cuMemHostRegister_v2(pageable, 500, 0), CUDA_SUCCESS);
  assert_int_equal(cuMemcpyDtoHAsync_v2(pageable, device, 501, NULL), CUDA_SUCCESS);
  assert_int_equal(round_trips(), before + 2);
  assert_int_equal(cuMemcpyDtoHAsync_v2(pageable, device, 500, NULL), CUDA_SUCCESS);
  assert_int_equal(round_trips(), before + 2);
}

// ---- two-dimensional: every pair of memory types, against a loop over rows
// -----------------------

static uint8_t host_a[DEVICE_BYTES], host_b[DEVICE_BYTES], expected[DEVICE_BYTES];

static void set(CUDA_MEMCPY2D *copy, _Bool to, CUmemorytype type, size_t x, size_t y, size_t pitch,
                CUdeviceptr on_device, uint8_t *on_host) {
  *(to ? &copy->dstMemoryType : &copy->srcMemoryType) = type;
  *(to ? &copy->dstXInBytes : &copy->srcXInBytes) = x;
  *(to ? &copy->dstY : &copy->srcY) = y;
  *(to ? &copy->dstPitch : &copy->srcPitch) = pitch;
  CUdeviceptr *pointer = to ? &copy->dstDevice : &copy->srcDevice;
  if (type == CU_MEMORYTYPE_DEVICE) *pointer = on_device;
  if (type == CU_MEMORYTYPE_UNIFIED) *pointer = on_device;
  if (type == CU_MEMORYTYPE_HOST) {
    if (to)
      copy->dstHost = on_host;
    else
      copy->srcHost = on_host;
  }
}

static void rows(void **state) {
  (void)state;
  start(no_hook);
  CUdeviceptr source;
  assert_int_equal(cuMemAlloc_v2(&source, DEVICE_BYTES), CUDA_SUCCESS);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  static const CUmemorytype types[] = {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE,
                                       CU_MEMORYTYPE_UNIFIED};
  static const struct shape {
    size_t width, height, to_pitch, from_pitch, to_x, to_y, from_x, from_y;
  } shapes[] = {
      {100, 7, 128, 256, 0, 0, 0, 0},    {100, 7, 100, 100, 0, 0, 0, 0},
      {100, 1, 0, 0, 3, 0, 5, 0},        {33, 9, 64, 40, 5, 2, 7, 1},
      {300, 300, 1000, 300, 0, 0, 0, 0}, {20000, 20, 20000, 20001, 0, 0, 1, 3},
  };
  for (unsigned s = 0; s < sizeof shapes / sizeof *shapes; s++)
    for (int t = 0; t < 3; t++)
      for (int f = 0; f < 3; f++)
        for (int async = 0; async < 2; async++) {
          const struct shape *h = &shapes[s];
          CUDA_MEMCPY2D copy = {.WidthInBytes = h->width, .Height = h->height};
          set(&copy, 1, types[t], h->to_x, h->to_y, h->to_pitch, device, host_a);
          set(&copy, 0, types[f], h->from_x, h->from_y, h->from_pitch, source, host_b);
          uint8_t *from = types[f] == CU_MEMORYTYPE_HOST ? host_b : at_server(source);
          uint8_t *to = types[t] == CU_MEMORYTYPE_HOST ? host_a : at_server(device);
          for (size_t i = 0; i < DEVICE_BYTES; i++) from[i] = (uint8_t)(i * 7 + s + i / 251);
          memset(to, 0xee, DEVICE_BYTES);
          memset(expected, 0xee, DEVICE_BYTES);
          for (size_t row = 0; row < h->height; row++)
            memcpy(expected + (row + h->to_y) * h->to_pitch + h->to_x,
                   from + (row + h->from_y) * h->from_pitch + h->from_x, h->width);
          CUresult result = async ? cuMemcpy2DAsync_v2(&copy, NULL) : cuMemcpy2DUnaligned_v2(&copy);
          assert_int_equal(result, CUDA_SUCCESS);
          assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
          assert_memory_equal(to, expected, DEVICE_BYTES);
        }
}

static void bad_rows(void **state) {
  (void)state;
  start(no_hook);
  CUDA_MEMCPY2D good = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcHost = host_a,
                        .srcPitch = 100,
                        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                        .dstDevice = device,
                        .dstPitch = 100,
                        .WidthInBytes = 100,
                        .Height = 2};
  CUDA_MEMCPY2D copy = good;
  assert_int_equal(cuMemcpy2D_v2(NULL), CUDA_ERROR_INVALID_VALUE);
  copy.dstPitch = 99;
  assert_int_equal(cuMemcpy2D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
  copy = good;
  copy.srcXInBytes = 1;
  assert_int_equal(cuMemcpy2D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
  copy = good;
  copy.dstY = DEVICE_BYTES / 100 - 1;
  assert_int_equal(cuMemcpy2D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
  copy = good;
  copy.srcHost = NULL;
  assert_int_equal(cuMemcpy2D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
  copy = good;
  copy.srcHost = (void *)(uintptr_t)device;  // the address says what it is, as on a device
  assert_int_equal(cuMemcpy2D_v2(&copy), CUDA_SUCCESS);
  copy = good;
  copy.dstDevice = host(host_b);
  assert_int_equal(cuMemcpy2D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
  copy = good;
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  assert_int_equal(cuMemcpy2D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
  copy = good;
  copy.Height = 1ull << 62;
  assert_int_equal(cuMemcpy2D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemcpy2D_v2(&good), CUDA_SUCCESS);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_direction_is_found),
      cmocka_unit_test(nothing_is_copied_without_a_round_trip),
      cmocka_unit_test(pointers_of_the_wrong_kind),
      cmocka_unit_test(asynchronous_downloads),
      cmocka_unit_test(rows),
      cmocka_unit_test(bad_rows),
  };
  RUN_ONE_TEST(tests, argc, argv);
}
