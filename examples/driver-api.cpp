// The driver API with no runtime beside it: the program is linked with libcuda, carries its
// kernels as PTX text, and launches them both ways: with a list of pointers to the parameters, and
// with all parameters packed into one buffer (`extra`).

#include <cuda.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "support/arguments.h"
#include "support/checksum.h"
#include "support/random.h"
#include "support/stopwatch.h"

// scale_add: out[i] = factor * x[i] + y[i] + bias, where bias is a variable of the module.
// turn_block: each block writes its 64 elements in the opposite order, through shared memory.
static const char kPtx[] = R"(
.version 7.0
.target sm_75
.address_size 64

.global .align 4 .f32 bias;

.visible .entry scale_add(
  .param .u64 out, .param .u64 x, .param .u64 y, .param .f32 factor, .param .u32 size
)
{
  .reg .pred %outside;
  .reg .b32 %i, %block, %width, %thread, %count;
  .reg .b64 %address, %offset;
  .reg .f32 %left, %right, %scale, %plus;

  mov.u32       %block, %ctaid.x;
  mov.u32       %width, %ntid.x;
  mov.u32       %thread, %tid.x;
  mad.lo.u32    %i, %block, %width, %thread;
  ld.param.u32  %count, [size];
  setp.ge.u32   %outside, %i, %count;
  @%outside bra done;

  mul.wide.u32  %offset, %i, 4;
  ld.param.u64  %address, [x];
  cvta.to.global.u64 %address, %address;
  add.u64       %address, %address, %offset;
  ld.global.f32 %left, [%address];
  ld.param.u64  %address, [y];
  cvta.to.global.u64 %address, %address;
  add.u64       %address, %address, %offset;
  ld.global.f32 %right, [%address];
  ld.param.f32  %scale, [factor];
  ld.global.f32 %plus, [bias];
  fma.rn.f32    %right, %scale, %left, %right;
  add.rn.f32    %right, %right, %plus;
  ld.param.u64  %address, [out];
  cvta.to.global.u64 %address, %address;
  add.u64       %address, %address, %offset;
  st.global.f32 [%address], %right;
done:
  ret;
}

.visible .entry turn_block(
  .param .u64 values
)
{
  .shared .align 4 .b8 room[256];
  .reg .b32 %block, %width, %thread, %i, %place, %value;
  .reg .b64 %address, %offset;

  mov.u32       %block, %ctaid.x;
  mov.u32       %width, %ntid.x;
  mov.u32       %thread, %tid.x;
  mad.lo.u32    %i, %block, %width, %thread;
  mul.wide.u32  %offset, %i, 4;
  ld.param.u64  %address, [values];
  cvta.to.global.u64 %address, %address;
  add.u64       %address, %address, %offset;
  ld.global.u32 %value, [%address];

  mov.u32       %place, room;
  mad.lo.u32    %place, %thread, 4, %place;
  st.shared.u32 [%place], %value;
  bar.sync      0;

  sub.u32       %thread, %width, %thread;
  sub.u32       %thread, %thread, 1;
  mov.u32       %place, room;
  mad.lo.u32    %place, %thread, 4, %place;
  ld.shared.u32 %value, [%place];
  st.global.u32 [%address], %value;
  ret;
}
)";

constexpr unsigned kBlock = 64;  // turn_block's shared memory holds as many values

#define CHECK(call) check_driver((call), #call, __LINE__)

static void check_driver(CUresult result, const char *call, int line) {
  if (result == CUDA_SUCCESS) return;
  const char *name = nullptr, *sentence = nullptr;
  cuGetErrorName(result, &name);
  cuGetErrorString(result, &sentence);
  std::fprintf(stderr, "%s:%d: %s failed: %s: %s\n", __FILE__, line, call,
               name ? name : "unknown error", sentence ? sentence : "no description");
  std::exit(1);
}

int main(int argc, char **argv) {
  Arguments arguments(argc, argv, "Runs hand-written PTX through the driver API.");
  const int blocks = arguments.integer("--blocks", 256, 1, 1 << 20, "blocks of 64 elements");
  Stopwatch watch(arguments.flag("--time", "print timings on stderr"));
  arguments.finish();
  // The last elements are outside of scale_add's reach and keep what the device was filled with.
  const unsigned count = blocks * kBlock, untouched = 5, size = count - untouched;
  const size_t bytes = count * sizeof(float);
  const float factor = 1.5f, bias = 0.25f, second_factor = -0.75f;
  const uint32_t filling = 0x40490fdb;  // pi as a float

  CHECK(cuInit(0));
  CUdevice device;
  CUcontext context;
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  CUmodule module;
  CUfunction scale_add, turn_block, missing;
  CHECK(cuModuleLoadData(&module, kPtx));
  CHECK(cuModuleGetFunction(&scale_add, module, "scale_add"));
  CHECK(cuModuleGetFunction(&turn_block, module, "turn_block"));
  CUresult refusal = cuModuleGetFunction(&missing, module, "no_such_kernel");
  if (refusal != CUDA_ERROR_NOT_FOUND) {
    std::fprintf(stderr, "driver-api: wrong: a kernel that does not exist gives error %d, not %d\n",
                 static_cast<int>(refusal), static_cast<int>(CUDA_ERROR_NOT_FOUND));
    return 1;
  }
  CUdeviceptr device_bias;
  size_t bias_bytes = 0;
  CHECK(cuModuleGetGlobal(&device_bias, &bias_bytes, module, "bias"));
  if (bias_bytes != sizeof bias) {
    std::fprintf(stderr, "driver-api: wrong: the module's float has %zu bytes\n", bias_bytes);
    return 1;
  }
  CHECK(cuMemcpyHtoD(device_bias, &bias, sizeof bias));

  std::vector<float> x(count), y(count), out(count);
  Random random(6);
  for (unsigned i = 0; i < count; i++) {
    x[i] = random.unit();
    y[i] = random.unit();
  }
  CUdeviceptr device_x, device_y, device_out;
  CHECK(cuMemAlloc(&device_x, bytes));
  CHECK(cuMemAlloc(&device_y, bytes));
  CHECK(cuMemAlloc(&device_out, bytes));
  CHECK(cuMemcpyHtoD(device_x, x.data(), bytes));
  CHECK(cuMemcpyHtoD(device_y, y.data(), bytes));
  CHECK(cuMemsetD32(device_out, filling, count));
  watch.lap("prepare, upload");

  // out = factor * x + y + bias, parameters by pointers.
  unsigned size_parameter = size;
  float factor_parameter = factor;
  void *pointers[] = {&device_out, &device_x, &device_y, &factor_parameter, &size_parameter};
  CHECK(cuLaunchKernel(scale_add, blocks, 1, 1, kBlock, 1, 1, 0, nullptr, pointers, nullptr));

  // y = second_factor * out + y + bias, parameters in one buffer, laid out as the PTX declares.
  struct {
    CUdeviceptr out, x, y;
    float factor;
    uint32_t size;
  } packed = {device_y, device_out, device_y, second_factor, size};
  size_t packed_size = sizeof packed;
  void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE,
                   &packed_size, CU_LAUNCH_PARAM_END};
  CHECK(cuLaunchKernel(scale_add, blocks, 1, 1, kBlock, 1, 1, 0, nullptr, nullptr, extra));
  // Parameters are taken at the launch: what happens to the buffer afterwards must not matter.
  std::memset(&packed, 0xff, sizeof packed);

  void *turn_pointers[] = {&device_y};
  CHECK(cuLaunchKernel(turn_block, blocks, 1, 1, kBlock, 1, 1, 0, nullptr, turn_pointers, nullptr));
  CHECK(cuCtxSynchronize());
  watch.lap("kernels");
  std::vector<float> turned(count);
  CHECK(cuMemcpyDtoH(out.data(), device_out, bytes));
  CHECK(cuMemcpyDtoH(turned.data(), device_y, bytes));
  watch.lap("download");
  CHECK(cuMemFree(device_x));
  CHECK(cuMemFree(device_y));
  CHECK(cuMemFree(device_out));
  CHECK(cuModuleUnload(module));
  CHECK(cuDevicePrimaryCtxRelease(device));

  std::vector<float> expected_out(count), expected_turned(count);
  for (unsigned i = 0; i < count; i++) {
    std::memcpy(&expected_out[i], &filling, sizeof filling);
    float second = y[i];
    if (i < size) {
      expected_out[i] = std::fmaf(factor, x[i], y[i]) + bias;
      second = std::fmaf(second_factor, expected_out[i], y[i]) + bias;
    }
    expected_turned[i - i % kBlock + (kBlock - 1 - i % kBlock)] = second;
  }
  for (unsigned i = 0; i < count; i++) {
    if (out[i] == expected_out[i] && turned[i] == expected_turned[i]) continue;
    std::fprintf(stderr, "driver-api: wrong: element %u is %a and %a, the CPU says %a and %a\n", i,
                 out[i], turned[i], expected_out[i], expected_turned[i]);
    return 1;
  }
  std::printf("driver-api: %u elements, checksums %016llx %016llx, correct\n", count,
              static_cast<unsigned long long>(checksum(out.data(), bytes)),
              static_cast<unsigned long long>(checksum(turned.data(), bytes)));
  return 0;
}
