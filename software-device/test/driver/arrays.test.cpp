// Arrays and mipmapped arrays: what can be made, copies of every kind, and what is refused.
#include <string>

#include "support.h"

namespace {

constexpr unsigned kLayered = 1, kSurface = 2, kCube = 4, kGather = 8, kSparse = 0x40;

CUDA_ARRAY3D_DESCRIPTOR shape(size_t width, size_t height, size_t depth, unsigned flags = 0,
                              CUarray_format format = CU_AD_FORMAT_UNSIGNED_INT16,
                              unsigned channels = 2) {
  return {width, height, depth, format, channels, flags};
}

std::vector<uint8_t> noise(size_t bytes) {
  std::vector<uint8_t> all(bytes);
  uint32_t state = 12345;
  for (uint8_t &byte : all)
    byte = static_cast<uint8_t>((state = state * 1664525 + 1013904223) >> 24);
  return all;
}

void descriptors(void **) {
  CUarray array;
  CUDA_ARRAY_DESCRIPTOR flat = {100, 50, CU_AD_FORMAT_FLOAT, 4}, flat_back;
  OK(cuArrayCreate_v2(&array, &flat));
  OK(cuArrayGetDescriptor_v2(&flat_back, array));
  assert_memory_equal(&flat, &flat_back, sizeof flat);
  CUDA_ARRAY3D_DESCRIPTOR back;
  OK(cuArray3DGetDescriptor_v2(&back, array));
  assert_true(back.Width == 100 && back.Height == 50 && back.Depth == 0 && back.Flags == 0);
  OK(cuArrayDestroy(array));
  EXPECT(CUDA_ERROR_INVALID_HANDLE, cuArrayDestroy(array));
  EXPECT(CUDA_ERROR_INVALID_HANDLE, cuArrayGetDescriptor_v2(&flat_back, array));
  EXPECT(CUDA_ERROR_INVALID_HANDLE, cuArrayDestroy(nullptr));

  for (CUDA_ARRAY3D_DESCRIPTOR good :
       {shape(7, 0, 0), shape(7, 5, 0), shape(7, 5, 3), shape(7, 0, 4, kLayered),
        shape(7, 5, 4, kLayered), shape(8, 8, 6, kCube), shape(8, 8, 12, kCube | kLayered),
        shape(7, 5, 0, kGather), shape(7, 5, 3, kSurface), shape(131072, 1, 0)}) {
    OK(cuArray3DCreate_v2(&array, &good));
    OK(cuArray3DGetDescriptor_v2(&back, array));
    assert_memory_equal(&good, &back, sizeof good);
    OK(cuArrayDestroy(array));
  }
  for (CUDA_ARRAY3D_DESCRIPTOR bad :
       {shape(0, 5, 0), shape(7, 0, 3), shape(7, 5, 0, kLayered), shape(8, 7, 6, kCube),
        shape(8, 8, 7, kCube), shape(8, 8, 12, kCube), shape(131073, 0, 0), shape(9, 65537, 0),
        shape(9, 9, 2049, kLayered), shape(7, 5, 3, kGather), shape(7, 5, 0, 0x8000),
        shape(7, 5, 0, 0, CU_AD_FORMAT_FLOAT, 3), shape(7, 5, 0, 0, CU_AD_FORMAT_FLOAT, 0),
        shape(7, 5, 0, 0, static_cast<CUarray_format>(77), 1), shape(SIZE_MAX, SIZE_MAX, 0),
        shape(SIZE_MAX, SIZE_MAX, SIZE_MAX)})
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuArray3DCreate_v2(&array, &bad));
  for (CUDA_ARRAY3D_DESCRIPTOR other :
       {shape(8, 8, 0, kSparse), shape(8, 8, 0, 0, CU_AD_FORMAT_BC7_UNORM, 4),
        shape(8, 8, 0, 0, CU_AD_FORMAT_NV12, 3)})
    EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuArray3DCreate_v2(&array, &other));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuArray3DCreate_v2(&array, nullptr));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuArray3DCreate_v2(nullptr, &back));
}

void every_format(void **) {
  struct Row {
    CUarray_format format;
    unsigned channels, bytes;
  };
  for (Row row : {Row{CU_AD_FORMAT_UNSIGNED_INT8, 1, 1},
                  {CU_AD_FORMAT_UNSIGNED_INT16, 2, 4},
                  {CU_AD_FORMAT_UNSIGNED_INT32, 4, 16},
                  {CU_AD_FORMAT_SIGNED_INT8, 4, 4},
                  {CU_AD_FORMAT_SIGNED_INT16, 1, 2},
                  {CU_AD_FORMAT_SIGNED_INT32, 2, 8},
                  {CU_AD_FORMAT_HALF, 4, 8},
                  {CU_AD_FORMAT_FLOAT, 1, 4},
                  {CU_AD_FORMAT_UNORM_INT8X4, 4, 4},
                  {CU_AD_FORMAT_SNORM_INT16X2, 2, 4},
                  {CU_AD_FORMAT_UNORM_INT_101010_2, 4, 4}}) {
    CUDA_ARRAY3D_DESCRIPTOR of = shape(19, 0, 0, 0, row.format, row.channels);
    CUarray array;
    OK(cuArray3DCreate_v2(&array, &of));
    std::vector<uint8_t> in = noise(19 * row.bytes), out(in.size());
    OK(cuMemcpyHtoA_v2(array, 0, in.data(), in.size()));
    OK(cuMemcpyAtoH_v2(out.data(), array, 0, out.size()));
    assert_memory_equal(in.data(), out.data(), in.size());
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoA_v2(array, 0, in.data(), in.size() + row.bytes));
    if (row.bytes > 1)
      EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoA_v2(array, 1, in.data(), row.bytes));
    OK(cuArrayDestroy(array));
  }
}

void memory_is_counted(void **) {
  size_t before, during, after, total;
  OK(cuMemGetInfo_v2(&before, &total));
  CUDA_ARRAY3D_DESCRIPTOR of = shape(4096, 4096, 0, 0, CU_AD_FORMAT_FLOAT, 1);
  CUarray array;
  OK(cuArray3DCreate_v2(&array, &of));
  OK(cuMemGetInfo_v2(&during, &total));
  assert_in_range(before - during, 64 << 20, 66 << 20);
  OK(cuArrayDestroy(array));
  OK(cuMemGetInfo_v2(&after, &total));
  assert_int_equal(before, after);
  of = shape(131072, 65536, 0, 0, CU_AD_FORMAT_FLOAT, 4);
  EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuArray3DCreate_v2(&array, &of));
}

// Boxes to and from a volume, through pinned and pageable memory, on both kinds of stream.
void boxes(void **) {
  constexpr size_t W = 20, H = 9, D = 5, B = 4;  // elements of four bytes
  for (unsigned flags : {0u, kLayered}) {
    CUDA_ARRAY3D_DESCRIPTOR of = shape(W, H, D, flags);
    CUarray array, other;
    OK(cuArray3DCreate_v2(&array, &of));
    OK(cuArray3DCreate_v2(&other, &of));
    std::vector<uint8_t> in = noise(W * H * D * B), out(in.size());
    CUDA_MEMCPY3D copy = {};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = in.data();
    copy.srcPitch = W * B;
    copy.srcHeight = H;
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.dstArray = array;
    copy.WidthInBytes = W * B;
    copy.Height = H;
    copy.Depth = D;
    OK(cuMemcpy3D_v2(&copy));
    // To the other array, and from a place inside of it to device memory.
    CUDA_MEMCPY3D across = {};
    across.srcMemoryType = across.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    across.srcArray = array;
    across.dstArray = other;
    across.WidthInBytes = W * B;
    across.Height = H;
    across.Depth = D;
    OK(cuMemcpy3DAsync_v2(&across, nullptr));
    CUdeviceptr device;
    OK(cuMemAlloc_v2(&device, 4096));
    CUDA_MEMCPY3D part = {};
    part.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    part.srcArray = other;
    part.srcXInBytes = 3 * B;
    part.srcY = 2;
    part.srcZ = 1;
    part.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    part.dstDevice = device;
    part.dstPitch = 64;
    part.dstHeight = 6;
    part.WidthInBytes = 10 * B;
    part.Height = 4;
    part.Depth = 3;
    OK(cuMemcpy3D_v2_ptds(&part));
    OK(cuMemcpyDtoH_v2(out.data(), device, 64 * 6 * 2 + 64 * 4));
    for (size_t z = 0; z < 3; ++z)
      for (size_t y = 0; y < 4; ++y)
        assert_memory_equal(out.data() + (z * 6 + y) * 64,
                            in.data() + (((z + 1) * H + y + 2) * W + 3) * B, 10 * B);
    // A slice by a 2D copy from the first one only.
    CUDA_MEMCPY2D plane = {};
    plane.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    plane.srcArray = other;
    plane.dstMemoryType = CU_MEMORYTYPE_HOST;
    plane.dstHost = out.data();
    plane.dstPitch = W * B;
    plane.WidthInBytes = W * B;
    plane.Height = H;
    OK(cuMemcpy2DUnaligned_v2(&plane));
    assert_memory_equal(out.data(), in.data(), W * B * H);

    auto refused = [&](auto change) {
      CUDA_MEMCPY3D bad = part;
      change(bad);
      EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D_v2(&bad));
    };
    refused([](CUDA_MEMCPY3D &c) { c.srcXInBytes = 11 * B; });
    refused([](CUDA_MEMCPY3D &c) { c.srcY = 6; });
    refused([](CUDA_MEMCPY3D &c) { c.srcZ = 3; });
    refused([](CUDA_MEMCPY3D &c) { c.srcXInBytes = 2; });
    refused([](CUDA_MEMCPY3D &c) { c.WidthInBytes = 7; });
    refused([](CUDA_MEMCPY3D &c) { c.srcXInBytes = SIZE_MAX - 3; });
    refused([](CUDA_MEMCPY3D &c) { c.Height = SIZE_MAX; });
    refused([](CUDA_MEMCPY3D &c) { c.dstPitch = 32; });
    refused([](CUDA_MEMCPY3D &c) { c.dstHeight = 3; });
    refused([](CUDA_MEMCPY3D &c) { c.srcLOD = 1; });
    refused([](CUDA_MEMCPY3D &c) { c.srcArray = nullptr; });
    refused([](CUDA_MEMCPY3D &c) { c.srcMemoryType = static_cast<CUmemorytype>(9); });
    OK(cuMemFree_v2(device));
    OK(cuArrayDestroy(array));
    part.srcArray = array;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D_v2(&part));
    OK(cuArrayDestroy(other));
  }
}

// Bytes in a row go on in the next row of the array.
void rows(void **) {
  CUDA_ARRAY3D_DESCRIPTOR wide = shape(10, 6, 0, 0, CU_AD_FORMAT_FLOAT, 1),
                          narrow = shape(6, 10, 0, 0, CU_AD_FORMAT_FLOAT, 1);
  CUarray a, b;
  OK(cuArray3DCreate_v2(&a, &wide));
  OK(cuArray3DCreate_v2(&b, &narrow));
  std::vector<uint8_t> in = noise(240), out(240);
  OK(cuMemcpyHtoA_v2_ptds(a, 0, in.data(), 240));
  OK(cuMemcpyAtoA_v2(b, 0, a, 0, 240));
  OK(cuMemcpyAtoH_v2(out.data(), b, 0, 240));
  assert_memory_equal(in.data(), out.data(), 240);
  CUdeviceptr device;
  OK(cuMemAlloc_v2(&device, 240));
  OK(cuMemcpyAtoD_v2(device, a, 36, 100));
  OK(cuMemcpyDtoA_v2(b, 12, device, 100));
  OK(cuMemcpyAtoHAsync_v2(out.data(), b, 12, 100, nullptr));
  OK(cuCtxSynchronize());
  assert_memory_equal(in.data() + 36, out.data(), 100);
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyAtoD_v2(device, a, 200, 44));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyAtoA_v2(b, 0, a, SIZE_MAX & ~size_t{3}, 8));
  OK(cuMemcpyAtoD_v2(device, a, 240, 0));
  OK(cuMemFree_v2(device));
  OK(cuArrayDestroy(a));
  OK(cuArrayDestroy(b));
}

// What is queued waits its turn, and an array that is destroyed waits for it.
void asynchronous(void **) {
  CUDA_ARRAY3D_DESCRIPTOR of = shape(64, 64, 0, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4);
  CUarray array;
  OK(cuArray3DCreate_v2(&array, &of));
  CUstream stream;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  void *pinned;
  OK(cuMemAllocHost_v2(&pinned, 2 * 16384));
  auto *in = static_cast<uint8_t *>(pinned), *out = in + 16384;
  memset(in, 0, 16384);
  Gate gate;
  gate.hold(stream);
  OK(cuMemcpyHtoAAsync_v2(array, 0, in, 16384, stream));
  OK(cuMemcpyAtoHAsync_v2_ptsz(out, array, 0, 16384, stream));
  memset(in, 42, 16384);
  EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
  gate.open();
  OK(cuArrayDestroy(array));
  OK(cuStreamQuery(stream));
  assert_int_equal(out[16383], 42);
  OK(cuStreamDestroy_v2(stream));
  OK(cuMemFreeHost(pinned));
}

// Batches count elements where an array is involved.
void batches(void **) {
  CUDA_ARRAY3D_DESCRIPTOR of = shape(16, 8, 0);
  CUarray array;
  OK(cuArray3DCreate_v2(&array, &of));
  CUstream stream;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  std::vector<uint8_t> in = noise(16 * 8 * 4), out(in.size());
  CUDA_MEMCPY3D_BATCH_OP copies[2] = {};
  copies[0].src.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  copies[0].src.op.ptr.ptr = reinterpret_cast<CUdeviceptr>(in.data());
  copies[0].src.op.ptr.rowLength = 16;
  copies[0].src.op.ptr.layerHeight = 8;
  copies[0].dst.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
  copies[0].dst.op.array.array = array;
  copies[0].extent = {16, 8, 1};
  copies[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  OK(cuMemcpy3DBatchAsync_v2(1, copies, 0, stream));
  copies[1] = copies[0];
  copies[1].src.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
  copies[1].src.op.array = {};
  copies[1].src.op.array.array = array;
  copies[1].src.op.array.offset = {3, 2, 0};
  copies[1].dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  copies[1].dst.op.ptr = {};
  copies[1].dst.op.ptr.ptr = reinterpret_cast<CUdeviceptr>(out.data());
  copies[1].extent = {10, 4, 1};
  OK(cuMemcpy3DBatchAsync_v2(1, copies + 1, 0, stream));
  OK(cuStreamSynchronize(stream));
  for (size_t y = 0; y < 4; ++y)
    assert_memory_equal(out.data() + y * 40, in.data() + ((y + 2) * 16 + 3) * 4, 40);
  copies[1].src.op.array.offset = {7, 2, 0};
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy3DBatchAsync_v2(1, copies + 1, 0, stream));
  copies[1].src.op.array.offset = {SIZE_MAX, 0, 0};
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy3DBatchAsync_v2(1, copies + 1, 0, stream));
  OK(cuStreamDestroy_v2(stream));
  OK(cuArrayDestroy(array));
}

void mipmaps(void **) {
  CUDA_ARRAY3D_DESCRIPTOR of = shape(40, 20, 0, 0, CU_AD_FORMAT_FLOAT, 1), back;
  CUmipmappedArray mipmap;
  OK(cuMipmappedArrayCreate(&mipmap, &of, 100));
  CUarray level, again;
  // 40 20 10 5 2 1
  const size_t widths[] = {40, 20, 10, 5, 2, 1}, heights[] = {20, 10, 5, 2, 1, 1};
  for (unsigned i = 0; i < 6; ++i) {
    OK(cuMipmappedArrayGetLevel(&level, mipmap, i));
    OK(cuMipmappedArrayGetLevel(&again, mipmap, i));
    assert_ptr_equal(level, again);
    OK(cuArray3DGetDescriptor_v2(&back, level));
    assert_int_equal(back.Width, widths[i]);
    assert_int_equal(back.Height, heights[i]);
    std::vector<uint8_t> in = noise(widths[i] * heights[i] * 4), out(in.size());
    OK(cuMemcpyHtoA_v2(level, 0, in.data(), in.size()));
    OK(cuMemcpyAtoH_v2(out.data(), level, 0, out.size()));
    assert_memory_equal(in.data(), out.data(), in.size());
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuArrayDestroy(level));
  }
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMipmappedArrayGetLevel(&level, mipmap, 6));
  OK(cuMipmappedArrayGetLevel(&level, mipmap, 0));
  OK(cuMipmappedArrayDestroy(mipmap));
  EXPECT(CUDA_ERROR_INVALID_HANDLE, cuMipmappedArrayDestroy(mipmap));
  EXPECT(CUDA_ERROR_INVALID_HANDLE, cuArray3DGetDescriptor_v2(&back, level));
  of = shape(16, 16, 5, kLayered);
  OK(cuMipmappedArrayCreate(&mipmap, &of, 0));  // one level
  OK(cuMipmappedArrayGetLevel(&level, mipmap, 0));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMipmappedArrayGetLevel(&level, mipmap, 1));
  OK(cuMipmappedArrayDestroy(mipmap));
}

void what_there_is_not(void **) {
  CUDA_ARRAY3D_DESCRIPTOR of = shape(8, 8, 0);
  CUarray array, plane;
  OK(cuArray3DCreate_v2(&array, &of));
  CUDA_ARRAY_MEMORY_REQUIREMENTS requirements;
  CUDA_ARRAY_SPARSE_PROPERTIES sparse;
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuArrayGetPlane(&plane, array, 0));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuArrayGetMemoryRequirements(&requirements, array, 0));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuArrayGetSparseProperties(&sparse, array));
  size_t width = 0;
  OK(cuDeviceGetTexture1DLinearMaxWidth(&width, CU_AD_FORMAT_FLOAT, 4, 0));
  assert_int_equal(width, 1 << 28);
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuDeviceGetTexture1DLinearMaxWidth(&width, CU_AD_FORMAT_FLOAT, 3, 0));
  OK(cuArrayDestroy(array));
}

// The memory of an array is reached through its handle alone, and goes with its context.
void the_context_owns_it(void **state) {
  CUDA_ARRAY3D_DESCRIPTOR of = shape(8, 8, 0), back;
  CUarray array;
  OK(cuArray3DCreate_v2(&array, &of));
  OK(cuCtxDestroy_v2(static_cast<CUcontext>(*state)));
  EXPECT(CUDA_ERROR_INVALID_HANDLE, cuArray3DGetDescriptor_v2(&back, array));
  fresh_context(state);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      TEST(descriptors),
      TEST(every_format),
      TEST(memory_is_counted),
      TEST(boxes),
      TEST(rows),
      TEST(asynchronous),
      TEST(batches),
      TEST(mipmaps),
      TEST(what_there_is_not),
      TEST(the_context_owns_it),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
