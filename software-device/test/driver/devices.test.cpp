#include <set>
#include <string>

#include "support.h"

namespace {

void every_attribute_has_a_value(void **) {
  for (int i = 1; i < CU_DEVICE_ATTRIBUTE_MAX; i++) {
    int value = -1000;
    OK(cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(i), 0));
    assert_int_not_equal(value, -1000);
  }
  int value;
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(5000), 0));
  EXPECT(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 9));
  OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
  assert_int_equal(value, 32);
}

void devices_are_told_apart(void **) {
  std::set<std::string> seen;
  int count;
  OK(cuDeviceGetCount(&count));
  assert_int_equal(count, 2);
  for (int i = 0; i < count; i++) {
    CUuuid uuid;
    char id[32];
    OK(cuDeviceGetUuid_v2(&uuid, i));
    assert_true(seen.insert(std::string(uuid.bytes, 16)).second);
    OK(cuDeviceGetPCIBusId(id, sizeof id, i));
    assert_true(seen.insert(id).second);
    CUdevice back = -1;
    OK(cuDeviceGetByPCIBusId(&back, id));
    assert_int_equal(back, i);
  }
  CUdevice device;
  EXPECT(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&device, 2));
  EXPECT(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&device, -1));
}

void unsupported_calls_say_so(void **) {
  CUexternalMemory memory;
  EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuImportExternalMemory(&memory, nullptr));
  void *function = &function;
  CUdriverProcAddressQueryResult status;
  EXPECT(CUDA_ERROR_NOT_FOUND,
         cuGetProcAddress_v2("cuImportExternalMemory", &function, 13000, 0, &status));
  assert_null(function);
  // What came later than the version that is asked for is not there yet, served or not.
  for (const char *newer : {"cuFuncGetParamCount", "cuCoredumpRegisterStartCallback"}) {
    EXPECT(CUDA_ERROR_NOT_FOUND, cuGetProcAddress_v2(newer, &function, 13010, 0, &status));
    assert_int_equal(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  }
  OK(cuGetProcAddress_v2("cuFuncGetParamCount", &function, 13020, 0, &status));
  EXPECT(CUDA_ERROR_NOT_FOUND,
         cuGetProcAddress_v2("cuCoredumpRegisterStartCallback", &function, 13020, 0, &status));
  assert_int_equal(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuCoredumpRegisterStartCallback(nullptr, nullptr, nullptr));
  OK(cuGetProcAddress_v2("cuMemAlloc", &function, 13000, 0, &status));
  assert_ptr_equal(function, reinterpret_cast<void *>(cuMemAlloc_v2));
}

int setup(void **) {
  setenv("SOFTWARE_DEVICE_GPUS", "2", 1);
  return cuInit(0);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(every_attribute_has_a_value),
      cmocka_unit_test(devices_are_told_apart),
      cmocka_unit_test(unsupported_calls_say_so),
  };
  return cmocka_run_group_tests(tests, setup, nullptr);
}
