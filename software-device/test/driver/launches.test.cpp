// Launches: arguments, limits, and kernels that fail.
#include <unistd.h>

#include <atomic>
#include <string>

#include "entry/work.h"
#include "support.h"

namespace {

CUresult launch(CUfunction function, unsigned grid, unsigned block, unsigned shared,
                void **parameters) {
  return cuLaunchKernel(function, grid, 1, 1, block, 1, 1, shared, nullptr, parameters, nullptr);
}

void parameters_in_either_form(void **) {
  CUfunction store = kernel(load_kernels(), "store");
  CUdeviceptr address;
  OK(cuMemAlloc_v2(&address, 4));
  uint32_t value = 17, back;
  void *pointers[] = {&address, &value};
  OK(launch(store, 1, 1, 0, pointers));
  OK(cuMemcpyDtoH_v2(&back, address, 4));
  assert_int_equal(back, 17);

  struct {
    CUdeviceptr address;
    uint32_t value;
  } block = {address, 18};
  size_t size = 12;
  void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &block, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   CU_LAUNCH_PARAM_END};
  OK(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));
  OK(cuMemcpyDtoH_v2(&back, address, 4));
  assert_int_equal(back, 18);
  size = 11;
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));
  EXPECT(CUDA_ERROR_INVALID_VALUE, launch(store, 1, 1, 0, nullptr));
  size = 12;
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, pointers, extra));
}

void limits(void **) {
  CUmodule module = load_kernels();
  CUfunction nothing = kernel(module, "nothing"), limited = kernel(module, "at_most_64");
  OK(launch(nothing, 1, 1024, 0, nullptr));
  EXPECT(CUDA_ERROR_INVALID_VALUE, launch(nothing, 1, 1025, 0, nullptr));
  EXPECT(CUDA_ERROR_INVALID_VALUE, launch(nothing, 0, 1, 0, nullptr));
  EXPECT(CUDA_ERROR_INVALID_VALUE, launch(nothing, 1, 0, 0, nullptr));
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuLaunchKernel(nothing, 1, 65536, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 65, 0, nullptr, nullptr, nullptr));
  OK(launch(limited, 1, 64, 0, nullptr));
  EXPECT(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, launch(limited, 1, 65, 0, nullptr));
  OK(launch(limited, 1, 1, 47 << 10, nullptr));
  EXPECT(CUDA_ERROR_INVALID_VALUE, launch(limited, 1, 1, 48 << 10, nullptr));
  OK(cuFuncSetAttribute(limited, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 64 << 10));
  OK(launch(limited, 1, 1, 64 << 10, nullptr));
  EXPECT(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
         cuLaunchCooperativeKernel(nothing, 100000, 1, 1, 64, 1, 1, 0, nullptr, nullptr));
  EXPECT(CUDA_ERROR_INVALID_HANDLE, launch(reinterpret_cast<CUfunction>(0x77), 1, 1, 0, nullptr));
  OK(cuCtxSynchronize());  // none of it harmed the context
}

void launch_attributes(void **) {
  CUfunction nothing = kernel(load_kernels(), "nothing");
  CUlaunchAttribute attributes[2] = {};
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attributes[0].value.cooperative = 1;
  attributes[1].id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
  CUlaunchConfig config = {};
  config.gridDimX = 2, config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = 32, config.blockDimY = config.blockDimZ = 1;
  config.attrs = attributes;
  config.numAttrs = 2;
  OK(cuLaunchKernelEx(&config, nothing, nullptr, nullptr));
  config.gridDimX = 100000;
  EXPECT(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
         cuLaunchKernelEx(&config, nothing, nullptr, nullptr));
  config.gridDimX = 2;
  attributes[1].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attributes[1].value.clusterDim.x = 2;
  attributes[1].value.clusterDim.y = attributes[1].value.clusterDim.z = 1;
  OK(cuLaunchKernelEx(&config, nothing, nullptr, nullptr));
  attributes[1].value.clusterDim.y = 0;
  EXPECT(CUDA_ERROR_INVALID_CLUSTER_SIZE, cuLaunchKernelEx(&config, nothing, nullptr, nullptr));
  OK(cuCtxSynchronize());
}

// An address in no window, and one behind the end of an allocation.
void a_fault_poisons_the_context(void **) {
  CUmodule module = load_kernels();
  CUfunction store = kernel(module, "store");
  CUdeviceptr address, other;
  OK(cuMemAlloc_v2(&address, 4 << 20));
  uint32_t value = 1;
  CUdeviceptr past = address + (4 << 20);
  void *parameters[] = {&past, &value};
  OK(launch(store, 1, 1, 0, parameters));
  EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
  EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
  EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemAlloc_v2(&other, 16));
  EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemcpyHtoD_v2(address, &value, 4));
  EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, launch(store, 1, 1, 0, parameters));
  CUcontext current;
  OK(cuCtxGetCurrent(&current));
  // Another context of the same device is well.
  CUcontext healthy;
  OK(cuCtxCreate_v2(&healthy, 0, 0));
  OK(cuMemAlloc_v2(&other, 16));
  OK(cuCtxSynchronize());
  OK(cuCtxDestroy_v2(healthy));
}

void a_host_pointer_is_a_fault(void **) {
  CUfunction store = kernel(load_kernels(), "store");
  uint32_t on_host = 5, value = 6;
  CUdeviceptr address = reinterpret_cast<CUdeviceptr>(&on_host);
  void *parameters[] = {&address, &value};
  OK(launch(store, 1, 1, 0, parameters));
  EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
  assert_int_equal(on_host, 5);
}

void a_reset_heals_the_primary_context(void **) {
  CUcontext primary;
  OK(cuDevicePrimaryCtxRetain(&primary, 0));
  OK(cuCtxPushCurrent_v2(primary));
  CUfunction store = kernel(load_kernels(), "store");
  CUdeviceptr address = 8;
  uint32_t value = 6;
  void *parameters[] = {&address, &value};
  OK(launch(store, 1, 1, 0, parameters));
  EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(nullptr));
  OK(cuDevicePrimaryCtxReset_v2(0));
  OK(cuDevicePrimaryCtxRetain(&primary, 0));
  OK(cuMemAlloc_v2(&address, 4));
  store = kernel(load_kernels(), "store");
  OK(launch(store, 1, 1, 0, parameters));
  OK(cuCtxSynchronize());
  OK(cuCtxPopCurrent_v2(&primary));
  OK(cuDevicePrimaryCtxRelease_v2(0));
  OK(cuDevicePrimaryCtxRelease_v2(0));
}

// What is queued behind a fault does not run, and is over.
void work_behind_a_fault_is_dropped(void **) {
  CUfunction store = kernel(load_kernels(), "store");
  CUdeviceptr good, bad = 16;
  OK(cuMemAlloc_v2(&good, 4));
  OK(cuMemsetD32_v2(good, 1, 1));
  CUstream stream;
  OK(cuStreamCreate(&stream, 0));
  static int called;
  called = 0;
  static std::atomic<CUresult> told;
  told = CUDA_SUCCESS;
  uint32_t value = 2;
  void *parameters[] = {&bad, &value};
  Gate gate;
  gate.hold(stream);
  OK(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr));
  OK(cuMemsetD32Async(good, 3, 1, stream));
  OK(cuLaunchHostFunc(
      stream, [](void *) { called++; }, nullptr));
  OK(cuStreamAddCallback(
      stream,
      [](CUstream, CUresult status, void *) {
        told = status;
        told.notify_all();
      },
      nullptr, 0));
  gate.open();
  EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
  // Where the fault has come before, the call has not waited for what is behind it.
  told.wait(CUDA_SUCCESS);
  assert_int_equal(told, CUDA_ERROR_ILLEGAL_ADDRESS);
  assert_int_equal(called, 0);
  assert_int_equal(*reinterpret_cast<uint32_t *>(good), 1);
}

// The log names kernel, line and instruction; the rest of the module works.
void an_unknown_instruction_is_refused(void **) {
  CUmodule module = load_kernels();
  CUfunction unknown = kernel(module, "unknown"), nothing = kernel(module, "nothing");
  char path[] = "/tmp/software-device-XXXXXX";
  int file = mkstemp(path), standard = dup(2);
  dup2(file, 2);
  CUresult result = launch(unknown, 1, 1, 0, nullptr);
  dup2(standard, 2);
  char text[1000] = {};
  assert_true(pread(file, text, sizeof text - 1, 0) > 0);
  close(file);
  close(standard);
  unlink(path);
  EXPECT(CUDA_ERROR_NOT_SUPPORTED, result);
  assert_non_null(strstr(text, "unknown"));
  assert_non_null(strstr(text, "tcgen05.relinquish_alloc_permit"));
  assert_non_null(strpbrk(text, "0123456789"));
  OK(launch(nothing, 1, 1, 0, nullptr));
  OK(cuCtxSynchronize());
}

void many_launches_keep_their_order(void **) {
  CUfunction add_one = kernel(load_kernels(), "add_one");
  CUdeviceptr address;
  OK(cuMemAlloc_v2(&address, 1000 * 4));
  OK(cuMemsetD32_v2(address, 0, 1000));
  uint32_t count = 1000;
  void *parameters[] = {&address, &count};
  for (int i = 0; i < 2000; i++) OK(launch(add_one, 4, 256, 0, parameters));
  std::vector<uint32_t> back(1000);
  OK(cuMemcpyDtoH_v2(back.data(), address, 4000));
  for (uint32_t value : back) assert_int_equal(value, 2000);
}

// Grows with what is done and with nothing else, and is complete when the kernel is.
void work_is_counted(void **state) {
  uint64_t before = 1, after = 0;
  uint32_t workers = 0;
  OK(softwareDeviceWorkNs(nullptr, &before, &workers));
  assert_int_equal(before, 0);
  assert_true(workers >= 1);
  CUfunction add_one = kernel(load_kernels(), "add_one");
  CUdeviceptr address;
  uint32_t count = 1 << 16;
  OK(cuMemAlloc_v2(&address, count * 4));
  OK(cuMemsetD32_v2(address, 0, count));
  OK(cuCtxSynchronize());
  OK(softwareDeviceWorkNs(nullptr, &before, &workers));
  assert_int_equal(before, 0);
  void *parameters[] = {&address, &count};
  OK(launch(add_one, count / 256, 256, 0, parameters));
  OK(cuCtxSynchronize());
  OK(softwareDeviceWorkNs(static_cast<CUcontext>(*state), &after, &workers));
  assert_true(after > 0);
  CUcontext other;
  OK(cuCtxCreate_v2(&other, 0, 0));
  OK(softwareDeviceWorkNs(other, &after, &workers));
  assert_int_equal(after, 0);
  EXPECT(CUDA_ERROR_INVALID_VALUE, softwareDeviceWorkNs(other, nullptr, &workers));
  OK(cuCtxDestroy_v2(other));
  EXPECT(CUDA_ERROR_INVALID_CONTEXT, softwareDeviceWorkNs(other, &after, &workers));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      TEST(parameters_in_either_form),
      TEST(limits),
      TEST(launch_attributes),
      TEST(a_fault_poisons_the_context),
      TEST(a_host_pointer_is_a_fault),
      TEST(a_reset_heals_the_primary_context),
      TEST(work_behind_a_fault_is_dropped),
      TEST(an_unknown_instruction_is_refused),
      TEST(many_launches_keep_their_order),
      TEST(work_is_counted),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
