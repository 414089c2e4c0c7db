// Tensor maps: what is refused when they are made, and that a kernel finds what they say.
#include "support.h"

#include <functional>

namespace {

// The arguments of the three calls, good ones for two of them to begin with.
struct Arguments {
  alignas(64) CUtensorMap map;
  CUtensorMap *out = &map;
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  cuuint32_t rank = 4;
  uint64_t address = 0;
  cuuint64_t dimensions[5] = {16, 8, 8, 4, 2};
  cuuint64_t strides[4] = {64, 512, 4096, 16384};
  cuuint32_t box[5] = {8, 4, 4, 2, 1};
  cuuint32_t steps[5] = {1, 1, 1, 1, 1};
  int lower[3] = {-1, -1, -1}, upper[3] = {-1, -1, -1};
  cuuint32_t channels = 8, pixels = 32;
  CUtensorMapInterleave interleave = CU_TENSOR_MAP_INTERLEAVE_NONE;
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_32B;
  CUtensorMapL2promotion promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
  CUtensorMapFloatOOBfill fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
  CUtensorMapIm2ColWideMode mode = CU_TENSOR_MAP_IM2COL_WIDE_MODE_W;

  CUresult tiled() {
    return cuTensorMapEncodeTiled(out, type, rank, reinterpret_cast<void *>(address), dimensions,
                                  strides, box, steps, interleave, swizzle, promotion, fill);
  }
  CUresult wide() {
    return cuTensorMapEncodeIm2colWide(out, type, rank, reinterpret_cast<void *>(address),
                                       dimensions, strides, lower[0], upper[0], channels, pixels,
                                       steps, interleave, mode, swizzle, promotion, fill);
  }
  CUresult im2col() {
    return cuTensorMapEncodeIm2col(out, type, rank, reinterpret_cast<void *>(address), dimensions,
                                   strides, lower, upper, channels, pixels, steps, interleave,
                                   swizzle, promotion, fill);
  }
};

using Change = std::function<void(Arguments &)>;
template <class Enumeration>
Enumeration number(int value) {
  return static_cast<Enumeration>(value);
}

CUdeviceptr memory() {
  CUdeviceptr address;
  OK(cuMemAlloc_v2(&address, 65536));
  return address;
}

void six_bits(Arguments &a) {
  a.type = CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B;
  a.swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
  a.dimensions[0] = 256;
  a.box[0] = a.channels = 128;
  for (unsigned d = 0; d < 4; ++d) a.strides[d] = 192ull << 3 * d;
}
void four_bits(Arguments &a) {
  a.type = CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B;
  a.dimensions[0] = 34;
  a.box[0] = a.channels = 64;
}

// By all calls.
const Change kBad[] = {
    [](Arguments &a) { a.out = nullptr; },
    [](Arguments &a) { a.out = reinterpret_cast<CUtensorMap *>(&a.map.opaque[4]); },
    [](Arguments &a) { a.type = number<CUtensorMapDataType>(16); },
    [](Arguments &a) { a.type = number<CUtensorMapDataType>(-1); },
    [](Arguments &a) { a.rank = 0; },
    [](Arguments &a) { a.rank = 6; },
    [](Arguments &a) { a.address += 8; },
    [](Arguments &a) { a.dimensions[3] = 0; },
    [](Arguments &a) { a.dimensions[0] = (uint64_t{1} << 32) + 1; },
    [](Arguments &a) { a.strides[2] = 4104; },
    [](Arguments &a) { a.strides[1] = uint64_t{1} << 40; },
    [](Arguments &a) { a.steps[2] = 9; },
    [](Arguments &a) { a.steps[1] = 0; },
    [](Arguments &a) { a.interleave = number<CUtensorMapInterleave>(3); },
    [](Arguments &a) { a.swizzle = number<CUtensorMapSwizzle>(7); },
    [](Arguments &a) { a.steps[3] = 0; },
    [](Arguments &a) { a.promotion = number<CUtensorMapL2promotion>(4); },
    [](Arguments &a) { a.fill = number<CUtensorMapFloatOOBfill>(2); },
    // Integers are filled with zeros only.
    [](Arguments &a) {
      a.type = CU_TENSOR_MAP_DATA_TYPE_INT32;
      a.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
    },
    // A row of 24 bytes, and one of more bytes than are swizzled.
    [](Arguments &a) { a.box[0] = a.channels = 6; },
    [](Arguments &a) { a.box[0] = a.channels = 36; },
    // Interleaving: at least three dimensions; by 32 bytes needs that for all else.
    [](Arguments &a) {
      a.interleave = CU_TENSOR_MAP_INTERLEAVE_16B;
      a.rank = 2;
    },
    [](Arguments &a) {
      a.interleave = CU_TENSOR_MAP_INTERLEAVE_32B;
      a.address += 16;
    },
    [](Arguments &a) {
      a.interleave = CU_TENSOR_MAP_INTERLEAVE_32B;
      a.strides[0] = 80;
    },
    [](Arguments &a) {
      a.interleave = CU_TENSOR_MAP_INTERLEAVE_32B;
      a.swizzle = CU_TENSOR_MAP_SWIZZLE_64B;
    },
};
// Of what came with capability 10.0, by all calls.
const Change kBadNewer[] = {
    [](Arguments &a) { six_bits(a), a.address += 16; },
    [](Arguments &a) { six_bits(a), a.strides[0] += 16; },
    [](Arguments &a) { six_bits(a), a.dimensions[0] = 192; },
    [](Arguments &a) { six_bits(a), a.box[0] = a.channels = 64; },
    [](Arguments &a) { six_bits(a), a.swizzle = CU_TENSOR_MAP_SWIZZLE_64B; },
    [](Arguments &a) { six_bits(a), a.interleave = CU_TENSOR_MAP_INTERLEAVE_16B; },
    [](Arguments &a) {
      six_bits(a);
      a.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
    },
    // Padded elements of 4 bits are loaded only, and chunks of 64 bytes are for stores.
    [](Arguments &a) {
      six_bits(a);
      a.type = CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B;
      a.swizzle = CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B;
    },
    [](Arguments &a) { four_bits(a), a.dimensions[0] = 33; },
    [](Arguments &a) { four_bits(a), a.box[0] = a.channels = 48; },
    [](Arguments &a) {
      four_bits(a);
      a.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
    },
};
const Change kGoodNewer[] = {
    six_bits,
    four_bits,
    [](Arguments &a) { six_bits(a), a.type = CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B; },
    [](Arguments &a) { six_bits(a), a.swizzle = CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B; },
    [](Arguments &a) { a.swizzle = CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B; },
};
// Not by cuTensorMapEncodeIm2colWide.
const Change kGoodNarrow[] = {
    [](Arguments &a) { six_bits(a), a.swizzle = CU_TENSOR_MAP_SWIZZLE_NONE; },
    [](Arguments &a) { six_bits(a), a.swizzle = CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B; },
    [](Arguments &a) { a.swizzle = CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B; },
};
const Change kBadTiled[] = {
    [](Arguments &a) { a.box[1] = 0; },
    [](Arguments &a) { a.box[3] = 257; },
};
const Change kBadIm2col[] = {
    [](Arguments &a) { a.rank = 2; },
    [](Arguments &a) { a.channels = 0; },
    [](Arguments &a) { a.channels = 257; },
    [](Arguments &a) { a.pixels = 0; },
    [](Arguments &a) { a.pixels = 1025; },
    [](Arguments &a) { a.lower[1] = -129; },
    [](Arguments &a) { a.upper[0] = 128; },
    [](Arguments &a) {
      a.rank = 5;
      a.upper[2] = 16;
    },
    // No pixels between the corners.
    [](Arguments &a) { a.lower[1] = 7, a.upper[1] = -1; },
};
const Change kBadWide[] = {
    [](Arguments &a) { a.rank = 2; },
    [](Arguments &a) { a.channels = 257; },
    [](Arguments &a) { a.pixels = 0; },
    [](Arguments &a) { a.pixels = 1025; },
    [](Arguments &a) { a.lower[0] = -32769; },
    [](Arguments &a) { a.upper[0] = 32768; },
    [](Arguments &a) { a.lower[0] = 7, a.upper[0] = -1; },
    [](Arguments &a) { a.mode = number<CUtensorMapIm2ColWideMode>(2); },
    [](Arguments &a) { a.interleave = CU_TENSOR_MAP_INTERLEAVE_16B; },
    [](Arguments &a) { a.swizzle = CU_TENSOR_MAP_SWIZZLE_NONE; },
    [](Arguments &a) { a.swizzle = CU_TENSOR_MAP_SWIZZLE_32B; },
    [](Arguments &a) { a.swizzle = CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B_FLIP_8B; },
    [](Arguments &a) { a.swizzle = CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B; },
};
// What this device has nothing for.
const Change kNotHere[] = {
    [](Arguments &a) { a.interleave = CU_TENSOR_MAP_INTERLEAVE_16B; },
    [](Arguments &a) { a.interleave = CU_TENSOR_MAP_INTERLEAVE_32B; },
    [](Arguments &a) { a.swizzle = CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B_FLIP_8B; },
};

Arguments with(CUdeviceptr address, const Change &change) {
  Arguments made;
  made.address = address;
  change(made);
  return made;
}
// What cuTensorMapEncodeIm2colWide takes.
Arguments widely(CUdeviceptr address, const Change &change) {
  Arguments made;
  made.address = address;
  made.swizzle = CU_TENSOR_MAP_SWIZZLE_64B;
  change(made);
  return made;
}

void arguments(void **) {
  const CUdeviceptr address = memory();
  auto nothing = [](Arguments &) {};
  OK(with(address, nothing).tiled());
  OK(with(address, nothing).im2col());
  OK(with(address, [](Arguments &a) { a.rank = 1; }).tiled());
  OK(with(address, [](Arguments &a) { a.lower[0] = -128, a.upper[1] = 127; }).im2col());
  OK(with(address, [](Arguments &a) {
       a.rank = 3, a.lower[0] = -32768, a.upper[0] = 32767;
     }).im2col());
  for (const Change &change : kBad) {
    EXPECT(CUDA_ERROR_INVALID_VALUE, with(address, change).tiled());
    EXPECT(CUDA_ERROR_INVALID_VALUE, with(address, change).im2col());
  }
  for (const Change &change : kBadTiled)
    EXPECT(CUDA_ERROR_INVALID_VALUE, with(address, change).tiled());
  for (const Change &change : kBadIm2col)
    EXPECT(CUDA_ERROR_INVALID_VALUE, with(address, change).im2col());
  // The step of dimension 0 is ignored.
  OK(with(address, [](Arguments &a) { a.steps[0] = 0; }).tiled());
  OK(with(address, [](Arguments &a) { a.steps[0] = 9; }).im2col());
  for (const Change &change : kNotHere) {
    EXPECT(CUDA_ERROR_NOT_SUPPORTED, with(address, change).tiled());
    EXPECT(CUDA_ERROR_NOT_SUPPORTED, with(address, change).im2col());
  }
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuTensorMapEncodeTiled(nullptr, CU_TENSOR_MAP_DATA_TYPE_UINT8, 1, nullptr, nullptr,
                                nullptr, nullptr, nullptr, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  OK(cuMemFree_v2(address));
}

int compute_major() {
  int major = 0;
  OK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
  return major;
}

// What came with capability 10.0, which older devices refuse.
void newer_arguments(void **) {
  const CUdeviceptr address = memory();
  const bool newer = compute_major() >= 10;
  const CUresult wanted = newer ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
  for (const Change &change : kGoodNewer) {
    EXPECT(wanted, with(address, change).tiled());
    EXPECT(wanted, with(address, change).im2col());
    EXPECT(wanted, widely(address, change).wide());
  }
  for (const Change &change : kGoodNarrow) {
    EXPECT(wanted, with(address, change).tiled());
    EXPECT(wanted, with(address, change).im2col());
  }
  EXPECT(wanted, widely(address, [](Arguments &) {}).wide());
  EXPECT(wanted, widely(address, [](Arguments &a) {
                   a.mode = CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128;
                   a.pixels = 0;
                   a.lower[0] = -32768;
                   a.upper[0] = 32767;
                 }).wide());
  if (newer) {
    for (const Change &change : kBad)
      EXPECT(CUDA_ERROR_INVALID_VALUE, widely(address, change).wide());
    for (const Change &change : kBadWide)
      EXPECT(CUDA_ERROR_INVALID_VALUE, widely(address, change).wide());
    for (const Change &change : kBadNewer) {
      EXPECT(CUDA_ERROR_INVALID_VALUE, with(address, change).tiled());
      EXPECT(CUDA_ERROR_INVALID_VALUE, with(address, change).im2col());
      EXPECT(CUDA_ERROR_INVALID_VALUE, widely(address, change).wide());
    }
    Arguments six = with(address, six_bits);
    OK(six.tiled());
    OK(cuTensorMapReplaceAddress(&six.map, reinterpret_cast<void *>(address + 4096)));
    EXPECT(CUDA_ERROR_INVALID_VALUE,
           cuTensorMapReplaceAddress(&six.map, reinterpret_cast<void *>(address + 16)));
  }
  OK(cuMemFree_v2(address));
}

void another_address(void **) {
  const CUdeviceptr address = memory();
  Arguments one, two;
  one.address = address;
  two.address = address + 4096;
  OK(one.tiled());
  OK(two.tiled());
  assert_true(std::memcmp(&one.map, &two.map, sizeof one.map) != 0);
  OK(cuTensorMapReplaceAddress(&one.map, reinterpret_cast<void *>(address + 4096)));
  assert_memory_equal(&one.map, &two.map, sizeof one.map);
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuTensorMapReplaceAddress(&one.map, reinterpret_cast<void *>(address + 8)));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuTensorMapReplaceAddress(nullptr, nullptr));
  std::memset(static_cast<void *>(&two.map), 0x5a, sizeof two.map);
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuTensorMapReplaceAddress(&two.map, reinterpret_cast<void *>(address)));
  OK(cuMemFree_v2(address));
}

void a_kernel_copies_a_box(void **) {
  static const char kText[] = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry box(.param .align 64 .b8 m[128], .param .u64 out) {
  .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %d<4>;
  .shared .align 128 .b8 data[128]; .shared .align 8 .b64 bar;
  mov.b64 %d0, m; cvta.param.u64 %d0, %d0; ld.param.u64 %d1, [out];
  mov.u32 %r0, data; mov.u32 %r1, bar; mov.u32 %r2, 2; mov.u32 %r3, 1;
  mbarrier.init.shared.b64 [%r1], 1; mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 128;
  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes
    [%r0], [%d0, {%r2, %r3}], [%r1];
W: mbarrier.try_wait.parity.shared.b64 %p, [%r1], 0; @!%p bra W;
  cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r0], 128;
  ret;
})";
  const CUdeviceptr address = memory();
  uint32_t values[16 * 8], got[32];
  for (uint32_t i = 0; i < 16 * 8; ++i) values[i] = i;
  OK(cuMemcpyHtoD_v2(address, values, sizeof values));
  Arguments made;
  made.address = address;
  made.rank = 2;
  made.swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
  OK(made.tiled());
  CUmodule module;
  CUfunction function;
  OK(cuModuleLoadData(&module, kText));
  OK(cuModuleGetFunction(&function, module, "box"));
  CUdeviceptr out = address + 8192;
  void *arguments[] = {&made.map, &out};
  OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));
  OK(cuMemcpyDtoH_v2(got, out, sizeof got));
  for (uint32_t y = 0; y < 4; ++y)
    for (uint32_t x = 0; x < 8; ++x) assert_int_equal(got[y * 8 + x], (y + 1) * 16 + x + 2);
  OK(cuModuleUnload(module));
  OK(cuMemFree_v2(address));
}

void attribute(void **) {
  int value = 0;
  OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, 0));
  assert_int_equal(value, 1);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(arguments, use_primary, release_primary),
      cmocka_unit_test_setup_teardown(newer_arguments, use_primary, release_primary),
      cmocka_unit_test_setup_teardown(another_address, use_primary, release_primary),
      cmocka_unit_test_setup_teardown(a_kernel_copies_a_box, use_primary, release_primary),
      cmocka_unit_test_setup_teardown(attribute, use_primary, release_primary),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
