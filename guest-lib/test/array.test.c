// Arrays and copies of boxes: shapes, what is refused at once, how copies are cut, memory.
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "boxes.h"
#include "check.h"
#include "guest_calls.h"
#include "session.h"

#define MIB (1ull << 20)

static const struct server_hook no_hook;
static struct server *server;

static void start(uint64_t limit) { server = session_start(limit, no_hook); }
static uint64_t round_trips(void) { return atomic_load(&guest_stats->round_trips); }

static CUDA_ARRAY3D_DESCRIPTOR shape(size_t width, size_t height, size_t depth) {
  return (CUDA_ARRAY3D_DESCRIPTOR){.Width = width,
                                   .Height = height,
                                   .Depth = depth,
                                   .Format = CU_AD_FORMAT_UNSIGNED_INT8,
                                   .NumChannels = 4};
}

static CUarray create(size_t width, size_t height, size_t depth) {
  CUDA_ARRAY3D_DESCRIPTOR of = shape(width, height, depth);
  CUarray array;
  assert_int_equal(cuArray3DCreate_v2(&array, &of), CUDA_SUCCESS);
  return array;
}

static void descriptors(void **state) {
  (void)state;
  start(64 * MIB);
  CUDA_ARRAY3D_DESCRIPTOR of = shape(16, 8, 4), back;
  CUDA_ARRAY_DESCRIPTOR plane;
  CUarray array;
  assert_int_equal(cuArray3DCreate_v2(&array, &of), CUDA_SUCCESS);
  assert_int_equal(cuArray3DGetDescriptor_v2(&back, array), CUDA_SUCCESS);
  assert_memory_equal(&back, &of, sizeof of);
  assert_int_equal(cuArrayGetDescriptor_v2(&plane, array), CUDA_SUCCESS);
  assert_int_equal(plane.Height, 8);
  assert_int_equal(cuArrayGetDescriptor_v2(NULL, array), CUDA_ERROR_INVALID_VALUE);
  CUarray other;
  assert_int_equal(cuArrayGetPlane(&other, array, 0), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuArrayDestroy(array), CUDA_SUCCESS);
  assert_int_equal(cuArrayDestroy(array), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(cuArray3DGetDescriptor_v2(&back, array), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(cuArrayGetPlane(&other, array, 0), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(round_trips(), 0);
  // The server is told once no work can use it any more.
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  size_t free_bytes, total;
  assert_int_equal(cuMemGetInfo_v2(&free_bytes, &total), CUDA_SUCCESS);
  assert_int_equal(free_bytes, total);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  assert_int_equal(boxes_arrays(), 0);
}

static void bad_shapes(void **state) {
  (void)state;
  start(64 * MIB);
  const struct {
    size_t width, height, depth;
    int format;
    unsigned channels, flags;
    CUresult result;
  } bad[] = {
      {0, 8, 0, CU_AD_FORMAT_FLOAT, 1, 0, CUDA_ERROR_INVALID_VALUE},
      {8, 0, 4, CU_AD_FORMAT_FLOAT, 1, 0, CUDA_ERROR_INVALID_VALUE},
      {8, 8, 0, CU_AD_FORMAT_FLOAT, 3, 0, CUDA_ERROR_INVALID_VALUE},
      {8, 8, 0, 7, 1, 0, CUDA_ERROR_INVALID_VALUE},
      {8, 8, 0, CU_AD_FORMAT_BC1_UNORM, 1, 0, CUDA_ERROR_NOT_SUPPORTED},
      {8, 8, 0, CU_AD_FORMAT_UNORM_INT8X2, 4, 0, CUDA_ERROR_INVALID_VALUE},
      {8, 8, 0, CU_AD_FORMAT_FLOAT, 1, 0x1000, CUDA_ERROR_INVALID_VALUE},
      {8, 8, 0, CU_AD_FORMAT_FLOAT, 1, 0x40, CUDA_ERROR_NOT_SUPPORTED},       // sparse
      {8, 8, 0, CU_AD_FORMAT_FLOAT, 1, 0x1, CUDA_ERROR_INVALID_VALUE},        // no layers
      {8, 9, 6, CU_AD_FORMAT_FLOAT, 1, 0x4, CUDA_ERROR_INVALID_VALUE},        // no square faces
      {8, 8, 7, CU_AD_FORMAT_FLOAT, 1, 0x4 | 0x1, CUDA_ERROR_INVALID_VALUE},  // no whole cubes
      {8, 0, 0, CU_AD_FORMAT_FLOAT, 1, 0x8, CUDA_ERROR_INVALID_VALUE},        // gathers of a line
      {SIZE_MAX, 8, 0, CU_AD_FORMAT_FLOAT, 1, 0, CUDA_ERROR_INVALID_VALUE},
      {8, SIZE_MAX, SIZE_MAX, CU_AD_FORMAT_FLOAT, 1, 0, CUDA_ERROR_INVALID_VALUE},
  };
  for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
    CUDA_ARRAY3D_DESCRIPTOR of = {.Width = bad[i].width,
                                  .Height = bad[i].height,
                                  .Depth = bad[i].depth,
                                  .Format = (CUarray_format)bad[i].format,
                                  .NumChannels = bad[i].channels,
                                  .Flags = bad[i].flags};
    CUarray array;
    CUmipmappedArray mipmapped;
    assert_int_equal(cuArray3DCreate_v2(&array, &of), bad[i].result);
    assert_int_equal(cuMipmappedArrayCreate(&mipmapped, &of, 3), bad[i].result);
  }
  assert_int_equal(cuArray3DCreate_v2(NULL, NULL), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  assert_int_equal(boxes_arrays(), 0);
}

static void levels(void **state) {
  (void)state;
  start(64 * MIB);
  CUDA_ARRAY3D_DESCRIPTOR of = shape(16, 8, 4), back;
  CUmipmappedArray whole;
  CUarray level, again;
  assert_int_equal(cuMipmappedArrayCreate(&whole, &of, 100), CUDA_SUCCESS);  // 16, 8, 4, 2, 1
  assert_int_equal(cuMipmappedArrayGetLevel(&level, whole, 5), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMipmappedArrayGetLevel(&level, whole, 2), CUDA_SUCCESS);
  assert_int_equal(cuMipmappedArrayGetLevel(&again, whole, 2), CUDA_SUCCESS);
  assert_ptr_equal(level, again);
  assert_int_equal(cuArray3DGetDescriptor_v2(&back, level), CUDA_SUCCESS);
  assert_int_equal(back.Width, 4);
  assert_int_equal(back.Height, 2);
  assert_int_equal(back.Depth, 1);
  assert_int_equal(cuArrayDestroy(level), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(cuArrayDestroy((CUarray)whole), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(cuMipmappedArrayDestroy((CUmipmappedArray)level), CUDA_ERROR_INVALID_HANDLE);
  char bytes[16] = "sixteen bytes...";
  assert_int_equal(cuMemcpyHtoA_v2(level, 16, bytes, 16), CUDA_SUCCESS);
  assert_int_equal(cuMemcpyHtoA_v2(level, 17, bytes, 16), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  assert_memory_equal(boxes_array((uint64_t)(uintptr_t)level) + 16, bytes, 16);
  assert_int_equal(cuMipmappedArrayDestroy(whole), CUDA_SUCCESS);
  assert_int_equal(cuMemcpyHtoA_v2(level, 0, bytes, 16), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(server_count(server, WIRE_ArrayLevel), 1);
}

// What is given up counts as free, and is waited for when it is needed.
static void memory_that_arrays_take(void **state) {
  (void)state;
  start(8 * MIB);
  CUDA_ARRAY3D_DESCRIPTOR of = shape(1024, 1024, 0);  // 4 MiB
  CUarray one, two, three;
  assert_int_equal(cuArray3DCreate_v2(&one, &of), CUDA_SUCCESS);
  assert_int_equal(cuArray3DCreate_v2(&two, &of), CUDA_SUCCESS);
  assert_int_equal(cuArray3DCreate_v2(&three, &of), CUDA_ERROR_OUT_OF_MEMORY);
  CUdeviceptr memory;
  assert_int_equal(cuMemAlloc_v2(&memory, 4), CUDA_ERROR_OUT_OF_MEMORY);
  uint64_t before = round_trips();
  assert_int_equal(cuMemsetD8_v2(0, 0, 0), CUDA_SUCCESS);  // work that may use them
  assert_int_equal(cuArrayDestroy(one), CUDA_SUCCESS);
  size_t free_bytes, total;
  assert_int_equal(cuMemGetInfo_v2(&free_bytes, &total), CUDA_SUCCESS);
  assert_int_equal(free_bytes, 4 * MIB);
  assert_int_equal(cuArray3DCreate_v2(&three, &of), CUDA_SUCCESS);
  assert_true(round_trips() <= before + 1);
  assert_int_equal(cuArrayDestroy(two), CUDA_SUCCESS);
  assert_int_equal(cuMemAlloc_v2(&memory, 4 * MIB), CUDA_SUCCESS);
  // A reset ends them all.
  assert_int_equal(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
  assert_int_equal(cuArrayDestroy(three), CUDA_ERROR_INVALID_HANDLE);
}

// ---- copies, against loops over rows -----------------------------------------------------------

static uint8_t *host_a, *host_b, *expected;
static CUdeviceptr device;
#define ROOM (8 * MIB)

struct side {
  CUmemorytype type;
  size_t pitch, rows, x, y, z;
  CUarray array;
};

static CUDA_MEMCPY3D describe(const struct side *to, const struct side *from, size_t width,
                              size_t height, size_t depth) {
  return (CUDA_MEMCPY3D){.dstMemoryType = to->type,
                         .dstHost = host_a,
                         .dstDevice = device,
                         .dstArray = to->array,
                         .dstPitch = to->pitch,
                         .dstHeight = to->rows,
                         .dstXInBytes = to->x,
                         .dstY = to->y,
                         .dstZ = to->z,
                         .srcMemoryType = from->type,
                         .srcHost = host_b,
                         .srcDevice = device + ROOM,
                         .srcArray = from->array,
                         .srcPitch = from->pitch,
                         .srcHeight = from->rows,
                         .srcXInBytes = from->x,
                         .srcY = from->y,
                         .srcZ = from->z,
                         .WidthInBytes = width,
                         .Height = height,
                         .Depth = depth};
}

// The bytes of a side as they lie, and how far apart its rows and slices are.
static uint8_t *bytes_of(const struct side *side, _Bool to, size_t *pitch, size_t *slice) {
  *pitch = side->pitch;
  *slice = side->pitch * side->rows;
  if (side->type == CU_MEMORYTYPE_HOST) return to ? host_a : host_b;
  if (side->type == CU_MEMORYTYPE_DEVICE)
    return server_reach(server, device + (to ? 0 : ROOM), ROOM);
  return boxes_array((uint64_t)(uintptr_t)side->array);
}

static void volumes(void **state) {
  (void)state;
  start(64 * MIB);
  host_a = malloc(ROOM);
  host_b = malloc(ROOM);
  expected = malloc(ROOM);
  assert_int_equal(cuMemAlloc_v2(&device, 2 * ROOM), CUDA_SUCCESS);
  assert_int_equal(cuMemHostRegister_v2(host_a, ROOM, 0), CUDA_SUCCESS);
  static const struct {
    size_t width, height, depth, to_pitch, to_rows, from_pitch, from_rows, offset;
  } shapes[] = {
      {20, 5, 3, 40, 6, 32, 7, 4},                 // small rows, packed
      {20, 5, 3, 20, 5, 20, 5, 0},                 // lines
      {20, 5, 3, 24, 5, 20, 5, 0},                 // joined on one side
      {20, 5, 3, 20, 7, 20, 6, 0},                 // slices that do not join
      {100, 100, 40, 128, 100, 104, 101, 4},       // packed in several pieces
      {70000, 3, 2, 70004, 4, 70008, 4, 8},        // rows from where they are
      {1200000, 2, 1, 1300000, 2, 1200004, 2, 4},  // rows in parts
      {4, 1, 500, 8, 3, 12, 2, 4},
  };
  for (unsigned i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    const size_t width = shapes[i].width, height = shapes[i].height, depth = shapes[i].depth;
    const size_t columns = (width + shapes[i].offset + 3) / 4;
    CUarray arrays[2] = {create(columns, height + 1, depth), create(columns + 1, height, depth)};
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    for (int t = 0; t < 3; t++)
      for (int f = 0; f < 3; f++)
        for (int async = 0; async < 2; async++) {
          const CUmemorytype types[] = {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE,
                                        CU_MEMORYTYPE_ARRAY};
          struct side to = {types[t], shapes[i].to_pitch, shapes[i].to_rows, 0, 0, 0, arrays[0]};
          struct side from = {
              types[f], shapes[i].from_pitch, shapes[i].from_rows, shapes[i].offset, 0, 0,
              arrays[1]};
          if (from.pitch < width + from.x) from.x = 0;
          if (t == 2) {
            to.pitch = columns * 4;
            to.rows = height + 1;
            to.y = 1;
          }
          if (f == 2) {
            from.pitch = (columns + 1) * 4;
            from.rows = height;
          }
          size_t to_pitch, to_slice, from_pitch, from_slice;
          uint8_t *into = bytes_of(&to, 1, &to_pitch, &to_slice);
          uint8_t *of = bytes_of(&from, 0, &from_pitch, &from_slice);
          size_t to_size = to_slice * depth, from_size = from_slice * depth;
          assert_true(to_size <= ROOM && from_size <= ROOM);
          for (size_t b = 0; b < from_size; b++) of[b] = (uint8_t)(b * 7 + b / 251 + i);
          memset(into, 0xee, to_size);
          memset(expected, 0xee, to_size);
          for (size_t z = 0; z < depth; z++)
            for (size_t y = 0; y < height; y++)
              memcpy(expected + z * to_slice + (y + to.y) * to_pitch,
                     of + z * from_slice + y * from_pitch + from.x, width);
          CUDA_MEMCPY3D copy = describe(&to, &from, width, height, depth);
          uint64_t before = round_trips();
          assert_int_equal(async ? cuMemcpy3DAsync_v2(&copy, NULL) : cuMemcpy3D_v2(&copy),
                           CUDA_SUCCESS);
          // Pinned memory may be written later; what the device alone does, or is sent, need not
          // be waited for.
          assert_int_equal(round_trips(), before + (t == 0 && f != 0 && !async));
          assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
          assert_memory_equal(into, expected, to_size);
        }
    for (int a = 0; a < 2; a++) assert_int_equal(cuArrayDestroy(arrays[a]), CUDA_SUCCESS);
  }
}

static void bad_volumes(void **state) {
  (void)state;
  start(64 * MIB);
  host_a = malloc(ROOM);
  host_b = malloc(ROOM);
  assert_int_equal(cuMemAlloc_v2(&device, 2 * ROOM), CUDA_SUCCESS);
  CUarray array = create(8, 4, 2);
  const struct side host = {.type = CU_MEMORYTYPE_HOST, .pitch = 32, .rows = 4};
  const struct side in_array = {.type = CU_MEMORYTYPE_ARRAY, .array = array};
  const CUDA_MEMCPY3D good = describe(&in_array, &host, 32, 4, 2);
  CUDA_MEMCPY3D copy = good;
#define BAD(change) \
  copy = good;      \
  change;           \
  assert_int_equal(cuMemcpy3D_v2(&copy), CUDA_ERROR_INVALID_VALUE)
  BAD(copy.WidthInBytes = 36);
  BAD(copy.WidthInBytes = 30);
  BAD(copy.dstXInBytes = 4);
  BAD(copy.dstXInBytes = SIZE_MAX - 3);
  BAD(copy.dstY = 1);
  BAD(copy.dstZ = 1);
  BAD(copy.dstZ = SIZE_MAX);
  BAD(copy.Depth = SIZE_MAX);
  BAD(copy.dstLOD = 1);
  BAD(copy.srcPitch = 31);
  BAD(copy.srcHeight = 3);
  BAD(copy.srcY = SIZE_MAX);
  BAD(copy.srcHost = NULL);
  BAD(copy.dstArray = NULL);
  BAD(copy.dstArray = (CUarray)0x1234);
  BAD(copy.dstMemoryType = 0);
  BAD(copy.dstMemoryType = CU_MEMORYTYPE_DEVICE; copy.dstDevice = device + 2 * ROOM - 100);
  BAD(copy.dstMemoryType = CU_MEMORYTYPE_DEVICE; copy.dstPitch = 1ull << 40);
  BAD(copy.dstMemoryType = CU_MEMORYTYPE_DEVICE; copy.dstHeight = SIZE_MAX / 2);
  BAD(copy.dstMemoryType = CU_MEMORYTYPE_DEVICE; copy.dstDevice = (CUdeviceptr)(uintptr_t)host_a);
  assert_int_equal(cuMemcpy3D_v2(NULL), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemcpy3DAsync_v2(&good, (CUstream)0x77), CUDA_ERROR_INVALID_HANDLE);
  CUDA_MEMCPY3D_PEER peer;
  memcpy(&peer, &good, sizeof peer);
  assert_int_equal(cuMemcpy3DPeer(&peer), CUDA_ERROR_INVALID_CONTEXT);
  assert_int_equal(cuMemcpy3DPeerAsync(&peer, NULL), CUDA_SUCCESS);
  copy = good;
  copy.Depth = 0;
  assert_int_equal(cuMemcpy3D_v2(&copy), CUDA_SUCCESS);
  assert_int_equal(cuMemcpy3D_v2(&good), CUDA_SUCCESS);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  assert_int_equal(server_count(server, WIRE_BoxUpload), 2);
}

// Bytes in a row, from any place in an array on.
static void lines_of_arrays(void **state) {
  (void)state;
  start(64 * MIB);
  CUarray one = create(5, 3, 4), two = create(7, 5, 3);  // rows of 20 and 28 bytes
  uint8_t in[240], out[240];
  for (unsigned i = 0; i < sizeof in; i++) in[i] = (uint8_t)(i * 11 + 1);
  assert_int_equal(cuMemcpyHtoA_v2(one, 0, in, 240), CUDA_SUCCESS);
  assert_int_equal(cuMemcpyAtoH_v2(out, one, 0, 240), CUDA_SUCCESS);
  assert_memory_equal(in, out, 240);
  for (unsigned begin = 0; begin < 100; begin += 12)
    for (unsigned size = 4; begin + size <= 240; size += 28) {
      memset(out, 0, sizeof out);
      assert_int_equal(cuMemcpyAtoA_v2(two, begin, one, begin, size), CUDA_SUCCESS);
      uint64_t before = round_trips();
      assert_int_equal(cuMemcpyAtoH_v2(out, two, begin, size), CUDA_SUCCESS);
      assert_int_equal(round_trips(), before + 1);
      assert_memory_equal(in + begin, out, size);
    }
  CUdeviceptr memory;
  assert_int_equal(cuMemAlloc_v2(&memory, 240), CUDA_SUCCESS);
  assert_int_equal(cuMemcpyAtoD_v2(memory, one, 24, 100), CUDA_SUCCESS);
  assert_int_equal(cuMemcpyDtoA_v2(two, 8, memory, 100), CUDA_SUCCESS);
  assert_int_equal(cuMemcpyAtoH_v2(out, two, 8, 100), CUDA_SUCCESS);
  assert_memory_equal(in + 24, out, 100);
  assert_int_equal(cuMemcpyAtoH_v2(out, one, 200, 44), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemcpyAtoH_v2(out, one, 2, 4), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemcpyAtoH_v2(out, (CUarray)0x12, 0, 4), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemcpyAtoA_v2(two, 0, one, 0, 0), CUDA_SUCCESS);
}

// Every kind in one batch, with one wait at most.
static void batches(void **state) {
  (void)state;
  start(64 * MIB);
  CUstream stream;
  assert_int_equal(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  assert_int_equal(cuMemAlloc_v2(&device, 4096), CUDA_SUCCESS);
  static char a[16] = "first", b[16] = "second", c[16], d[16];
#define ADDRESS(pointer) (CUdeviceptr)(uintptr_t)(pointer)
  CUdeviceptr to[] = {device, device + 100, ADDRESS(c), ADDRESS(d), device + 200};
  CUdeviceptr from[] = {ADDRESS(a), ADDRESS(b), device, device + 100, device};
  size_t sizes[] = {16, 16, 16, 16, 16}, index = 0, failed = 7;
  CUmemcpyAttributes how = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
  uint64_t before = round_trips();
  assert_int_equal(cuMemcpyBatchAsync(to, from, sizes, 5, &how, &index, 1, &failed, stream),
                   CUDA_SUCCESS);
  assert_int_equal(round_trips(), before + 1);
  assert_string_equal(c, "first");
  assert_string_equal(d, "second");
  assert_int_equal(failed, SIZE_MAX);
  sizes[3] = 5000;
  assert_int_equal(cuMemcpyBatchAsync(to, from, sizes, 5, &how, &index, 1, &failed, stream),
                   CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(failed, 3);
  assert_int_equal(cuMemcpyBatchAsync(to, from, sizes, 5, &how, &index, 1, &failed, NULL),
                   CUDA_ERROR_INVALID_VALUE);
  index = 1;
  assert_int_equal(cuMemcpyBatchAsync(to, from, sizes, 5, &how, &index, 1, &failed, stream),
                   CUDA_ERROR_INVALID_VALUE);
  CUarray array = create(4, 4, 2);
  CUDA_MEMCPY3D_BATCH_OP boxes[2] = {
      {.src = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr = {.ptr = ADDRESS(a)}},
       .dst = {.type = CU_MEMCPY_OPERAND_TYPE_ARRAY, .op.array = {array, {1, 2, 1}}},
       .extent = {2, 1, 1},
       .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_ANY},
      {.src = {.type = CU_MEMCPY_OPERAND_TYPE_ARRAY, .op.array = {array, {1, 2, 1}}},
       .dst = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr = {.ptr = ADDRESS(c + 4)}},
       .extent = {2, 1, 1},
       .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_ANY}};
  memset(c, 0, sizeof c);
  assert_int_equal(cuMemcpy3DBatchAsync(2, boxes, &failed, 0, stream), CUDA_SUCCESS);
  assert_string_equal(c + 4, "first");
  boxes[1].extent.width = 4;
  assert_int_equal(cuMemcpy3DBatchAsync_v2(2, boxes, 0, stream), CUDA_ERROR_INVALID_VALUE);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(descriptors),     cmocka_unit_test(bad_shapes),
      cmocka_unit_test(levels),          cmocka_unit_test(memory_that_arrays_take),
      cmocka_unit_test(volumes),         cmocka_unit_test(bad_volumes),
      cmocka_unit_test(lines_of_arrays), cmocka_unit_test(batches),
  };
  RUN_ONE_TEST(tests, argc, argv);
}
