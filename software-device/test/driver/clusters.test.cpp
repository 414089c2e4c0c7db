// Launches in clusters, and the limits of a context that kernels meet: stack, heap, time.
#include "support.h"

namespace {

const char kModule[] = R"(
.version 8.0
.target sm_90
.address_size 64
.extern .func (.param .b64 r) malloc(.param .b64 a);

.visible .entry rank(.param .u64 out) {
  .reg .b32 %r<4>; .reg .b64 %d<4>;
  ld.param.u64 %d1, [out]; mov.u32 %r1, %ctaid.x; mul.wide.u32 %d2, %r1, 4; add.s64 %d1, %d1, %d2;
  mov.u32 %r2, %cluster_ctarank; mov.u32 %r3, %cluster_nctarank; shl.b32 %r3, %r3, 8;
  or.b32 %r2, %r2, %r3; st.global.u32 [%d1], %r2; ret;
}
.visible .entry fixed(.param .u64 out) .explicitcluster .reqnctapercluster 2, 1, 1 {
  .reg .b32 %r<4>; .reg .b64 %d<4>;
  ld.param.u64 %d1, [out]; mov.u32 %r1, %ctaid.x; mul.wide.u32 %d2, %r1, 4; add.s64 %d1, %d1, %d2;
  mov.u32 %r2, %cluster_nctarank; st.global.u32 [%d1], %r2; ret;
}
.visible .entry flat() .explicitcluster .reqnctapercluster 2, 0, 1 { ret; }
.visible .entry must() .explicitcluster { ret; }
.visible .entry small() .maxclusterrank 4 { ret; }

.func (.param .b32 out) deep(.param .b32 n) {
  .reg .pred %p<2>; .reg .b32 %r<4>; .local .align 4 .b8 room[64];
  ld.param.u32 %r1, [n]; setp.eq.u32 %p1, %r1, 0; @%p1 bra DONE; sub.s32 %r1, %r1, 1;
  { .param .b32 a; st.param.b32 [a], %r1; .param .b32 b; call (b), deep, (a); ld.param.b32 %r1, [b]; }
  DONE: st.param.b32 [out], %r1; ret;
}
.visible .entry recurse(.param .u32 depth) {
  .reg .b32 %r<4>;
  ld.param.u32 %r1, [depth];
  { .param .b32 a; st.param.b32 [a], %r1; .param .b32 b; call (b), deep, (a); }
  ret;
}
.visible .entry allocate(.param .u64 out, .param .u64 size) {
  .reg .b64 %d<4>;
  ld.param.u64 %d1, [out]; ld.param.u64 %d2, [size];
  { .param .b64 a; st.param.b64 [a], %d2; .param .b64 r; call.uni (r), malloc, (a); ld.param.b64 %d3, [r]; }
  st.global.u64 [%d1], %d3; ret;
}
.visible .entry endless() { L: bra L; }
)";

CUmodule load() {
  CUmodule module;
  OK(cuModuleLoadData(&module, kModule));
  return module;
}

CUresult launch(CUfunction function, unsigned grid, unsigned cluster, void **parameters) {
  CUlaunchAttribute attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim.x = cluster;
  attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
  CUlaunchConfig config = {};
  config.gridDimX = grid, config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = 32, config.blockDimY = config.blockDimZ = 1;
  config.attrs = &attribute;
  config.numAttrs = cluster ? 1 : 0;
  return cuLaunchKernelEx(&config, function, parameters, nullptr);
}

void clusters(void **) {
  CUmodule module = load();
  CUfunction rank = kernel(module, "rank"), fixed = kernel(module, "fixed");
  CUdeviceptr out;
  OK(cuMemAlloc_v2(&out, 64));
  void *parameters[] = {&out};
  uint32_t back[16];
  OK(launch(rank, 16, 8, parameters));
  OK(cuMemcpyDtoH_v2(back, out, sizeof back));
  for (uint32_t i = 0; i < 16; ++i) assert_int_equal(back[i], 0x800 | i % 8);
  OK(launch(rank, 16, 0, parameters));
  OK(cuMemcpyDtoH_v2(back, out, sizeof back));
  for (uint32_t i = 0; i < 16; ++i) assert_int_equal(back[i], 0x100);
  EXPECT(CUDA_ERROR_INVALID_CLUSTER_SIZE, launch(rank, 16, 16, parameters));
  OK(cuFuncSetAttribute(rank, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
  OK(launch(rank, 16, 16, parameters));
  OK(cuMemcpyDtoH_v2(back, out, sizeof back));
  for (uint32_t i = 0; i < 16; ++i) assert_int_equal(back[i], 0x1000 | i);
  EXPECT(CUDA_ERROR_INVALID_CLUSTER_SIZE, launch(rank, 15, 2, parameters));

  // What the kernel was compiled for holds for every kind of launch.
  OK(cuLaunchKernel(fixed, 4, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  OK(cuMemcpyDtoH_v2(back, out, sizeof back));
  assert_int_equal(back[3], 2);
  OK(launch(fixed, 4, 2, parameters));
  EXPECT(CUDA_ERROR_INVALID_CLUSTER_SIZE, launch(fixed, 4, 4, parameters));
  EXPECT(CUDA_ERROR_INVALID_CLUSTER_SIZE, launch(fixed, 3, 0, parameters));
  EXPECT(CUDA_ERROR_INVALID_CLUSTER_SIZE, launch(kernel(module, "flat"), 4, 0, nullptr));
  EXPECT(CUDA_ERROR_INVALID_CLUSTER_SIZE, launch(kernel(module, "must"), 2, 0, nullptr));
  OK(launch(kernel(module, "must"), 2, 2, nullptr));
  EXPECT(CUDA_ERROR_INVALID_CLUSTER_SIZE, launch(kernel(module, "small"), 8, 8, nullptr));

  int value = 0;
  OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, fixed));
  assert_int_equal(value, 2);
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuFuncSetAttribute(fixed, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 4));
  OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET,
                        kernel(module, "must")));
  assert_int_equal(value, 1);
  OK(cuFuncSetAttribute(rank, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 4));
  EXPECT(CUDA_ERROR_INVALID_CLUSTER_SIZE, launch(rank, 16, 0, parameters));
  OK(cuFuncSetAttribute(rank, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT, 1));
  OK(cuFuncSetAttribute(rank, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH, 1));
  OK(launch(rank, 16, 0, parameters));
  OK(cuMemcpyDtoH_v2(back, out, sizeof back));
  for (uint32_t i = 0; i < 16; ++i) assert_int_equal(back[i], 0x400 | i % 4);
  OK(cuCtxSynchronize());
}

void occupancy(void **) {
  CUmodule module = load();
  CUfunction rank = kernel(module, "rank");
  CUlaunchAttribute attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim.x = 4;
  attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
  CUlaunchConfig config = {};
  config.gridDimX = 8, config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = 64, config.blockDimY = config.blockDimZ = 1;
  int size = 0, clusters = 0, blocks = 0, processors = 0;
  OK(cuOccupancyMaxPotentialClusterSize(&size, rank, &config));
  assert_int_equal(size, 8);
  OK(cuOccupancyMaxPotentialClusterSize(&size, kernel(module, "small"), &config));
  assert_int_equal(size, 4);
  config.attrs = &attribute;
  config.numAttrs = 1;
  OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, rank, 64, 0));
  OK(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
  OK(cuOccupancyMaxActiveClusters(&clusters, rank, &config));
  assert_int_equal(clusters, blocks * processors / 4);
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuOccupancyMaxActiveClusters(nullptr, rank, &config));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuOccupancyMaxPotentialClusterSize(&size, rank, nullptr));
  OK(cuDeviceGetAttribute(&blocks, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 0));
  assert_int_equal(blocks, 1);
}

void stack_limit(void **) {
  CUfunction recurse = kernel(load(), "recurse");
  uint32_t depth = 500;
  void *parameters[] = {&depth};
  OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 64 << 10));
  OK(cuLaunchKernel(recurse, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr));
  OK(cuCtxSynchronize());
  OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
  OK(cuLaunchKernel(recurse, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr));
  EXPECT(CUDA_ERROR_HARDWARE_STACK_ERROR, cuCtxSynchronize());
  EXPECT(CUDA_ERROR_HARDWARE_STACK_ERROR, cuCtxSynchronize());  // it stays
}

void heap_limit(void **) {
  OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 32 << 20));
  CUfunction allocate = kernel(load(), "allocate");
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 64 << 20));
  CUdeviceptr out;
  OK(cuMemAlloc_v2(&out, 8));
  uint64_t size = 20 << 20, got = 0;
  void *parameters[] = {&out, &size};
  for (int round = 0; round < 2; ++round) {
    OK(cuLaunchKernel(allocate, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
    OK(cuMemcpyDtoH_v2(&got, out, 8));
    assert_int_equal(got != 0, round == 0);  // the second does not fit beside the first
  }
}

void watchdog(void **) {
  OK(cuLaunchKernel(kernel(load(), "endless"), 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr));
  EXPECT(CUDA_ERROR_LAUNCH_TIMEOUT, cuCtxSynchronize());
  CUdeviceptr out;
  EXPECT(CUDA_ERROR_LAUNCH_TIMEOUT, cuMemAlloc_v2(&out, 8));
}

}  // namespace

int main() {
  setenv("SOFTWARE_DEVICE_WATCHDOG", "1", 1);
  const CMUnitTest tests[] = {TEST(clusters), TEST(occupancy), TEST(stack_limit), TEST(heap_limit),
                              TEST(watchdog)};
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
