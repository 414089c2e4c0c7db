// Handles, and what is told of a device; memory of a process with a session.
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "log_capture.h"
#include "monitor.h"
#include "nvml_calls.h"

static outboard_DeviceReport report;
static nvmlDevice_t first, second;

static int begin(void **state) {
  (void)state;
  while (nvmlShutdown() == NVML_SUCCESS) {
  }
  log_capture("error");
  monitor_start();
  monitor_usual(&report, 2);
  monitor_report(&report);
  return nvmlInit_v2() || nvmlDeviceGetHandleByIndex_v2(0, &first) ||
         nvmlDeviceGetHandleByIndex_v2(1, &second);
}

static int end(void **state) {
  (void)state;
  monitor_stop();
  return 0;
}

// The next call asks again.
static void change(void) {
  monitor_report(&report);
  while (nvmlShutdown() == NVML_SUCCESS) {
  }
  assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
}

static void identity(void **state) {
  (void)state;
  char text[96];
  unsigned index;
  int major, minor;
  nvmlDeviceArchitecture_t architecture;
  assert_int_equal(nvmlDeviceGetName(second, text, sizeof text), NVML_SUCCESS);
  assert_string_equal(text, "Test Device 1");
  assert_int_equal(nvmlDeviceGetName(second, text, 13), NVML_ERROR_INSUFFICIENT_SIZE);
  assert_int_equal(nvmlDeviceGetName(second, text, 14), NVML_SUCCESS);
  assert_int_equal(nvmlDeviceGetName(second, NULL, 14), NVML_ERROR_INVALID_ARGUMENT);
  assert_int_equal(nvmlDeviceGetUUID(first, text, sizeof text), NVML_SUCCESS);
  assert_string_equal(text, "GPU-a0a0a0a0-a0a0-a0a0-a0a0-a0a0a0a0a0a0");
  assert_int_equal(nvmlDeviceGetUUID(first, text, 40), NVML_ERROR_INSUFFICIENT_SIZE);
  assert_int_equal(nvmlDeviceGetIndex(second, &index), NVML_SUCCESS);
  assert_int_equal(index, 1);
  assert_int_equal(nvmlDeviceGetIndex(second, NULL), NVML_ERROR_INVALID_ARGUMENT);
  assert_int_equal(nvmlDeviceGetCudaComputeCapability(first, &major, &minor), NVML_SUCCESS);
  assert_int_equal(major * 10 + minor, 89);
  assert_int_equal(nvmlDeviceGetArchitecture(first, &architecture), NVML_SUCCESS);
  assert_int_equal(architecture, NVML_DEVICE_ARCH_ADA);
}

static void architectures(void **state) {
  (void)state;
  static const struct {
    unsigned major, minor, architecture;
  } cases[] = {
      {3, 5, NVML_DEVICE_ARCH_KEPLER},     {5, 2, NVML_DEVICE_ARCH_MAXWELL},
      {6, 1, NVML_DEVICE_ARCH_PASCAL},     {7, 0, NVML_DEVICE_ARCH_VOLTA},
      {7, 5, NVML_DEVICE_ARCH_TURING},     {8, 7, NVML_DEVICE_ARCH_AMPERE},
      {9, 0, NVML_DEVICE_ARCH_HOPPER},     {10, 3, NVML_DEVICE_ARCH_BLACKWELL},
      {12, 1, NVML_DEVICE_ARCH_BLACKWELL}, {13, 0, NVML_DEVICE_ARCH_UNKNOWN},
      {0, 0, NVML_DEVICE_ARCH_UNKNOWN},
  };
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    nvmlDeviceArchitecture_t architecture = 77;
    report.devices[0].compute_major = cases[i].major;
    report.devices[0].compute_minor = cases[i].minor;
    change();
    assert_int_equal(nvmlDeviceGetArchitecture(first, &architecture), NVML_SUCCESS);
    assert_int_equal(architecture, cases[i].architecture);
  }
}

static void handles(void **state) {
  (void)state;
  nvmlDevice_t found;
  unsigned index;
  assert_ptr_not_equal(first, second);
  assert_int_equal(nvmlDeviceGetHandleByIndex(1, &found), NVML_SUCCESS);
  assert_ptr_equal(found, second);
  assert_int_equal(nvmlDeviceGetHandleByIndex(2, &found), NVML_ERROR_INVALID_ARGUMENT);
  assert_int_equal(nvmlDeviceGetHandleByIndex(0, NULL), NVML_ERROR_INVALID_ARGUMENT);
  // Anything that is no handle.
  const uintptr_t wrong[] = {
      0, 1, (uintptr_t)first + 1, (uintptr_t)second + 16, UINTPTR_MAX, (uintptr_t)first - 16};
  for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_int_equal(nvmlDeviceGetIndex((nvmlDevice_t)wrong[i], &index),
                     NVML_ERROR_INVALID_ARGUMENT);

  const char *uuid = "GPU-A1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a1a1";
  assert_int_equal(nvmlDeviceGetHandleByUUID(uuid, &found), NVML_SUCCESS);
  assert_ptr_equal(found, second);
  assert_int_equal(nvmlDeviceGetHandleByUUID("GPU-a1a1", &found), NVML_ERROR_NOT_FOUND);
  assert_int_equal(nvmlDeviceGetHandleByUUID(NULL, &found), NVML_ERROR_INVALID_ARGUMENT);
  nvmlUUID_t typed = {.version = nvmlUUID_v1, .type = NVML_UUID_TYPE_BINARY};
  memset(typed.value.bytes, 0xa1, sizeof typed.value.bytes);
  assert_int_equal(nvmlDeviceGetHandleByUUIDV(&typed, &found), NVML_SUCCESS);
  assert_ptr_equal(found, second);
  typed.type = NVML_UUID_TYPE_ASCII;
  memset(typed.value.str, 'x', sizeof typed.value.str);
  assert_int_equal(nvmlDeviceGetHandleByUUIDV(&typed, &found), NVML_ERROR_INVALID_ARGUMENT);
  strcpy(typed.value.str, uuid);
  assert_int_equal(nvmlDeviceGetHandleByUUIDV(&typed, &found), NVML_SUCCESS);
  typed.version++;
  assert_int_equal(nvmlDeviceGetHandleByUUIDV(&typed, &found),
                   NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
}

static void instances(void **state) {
  (void)state;
  report.devices[1].gpu_uuid.size = 16;
  memset(report.devices[1].gpu_uuid.bytes, 0xb1, 16);
  change();
  char text[96];
  unsigned is = 9, most = 9;
  nvmlDevice_t found;
  assert_int_equal(nvmlDeviceIsMigDeviceHandle(first, &is), NVML_SUCCESS);
  assert_int_equal(is, 0);
  assert_int_equal(nvmlDeviceIsMigDeviceHandle(second, &is), NVML_SUCCESS);
  assert_int_equal(is, 1);
  assert_int_equal(nvmlDeviceIsMigDeviceHandle(second, NULL), NVML_ERROR_INVALID_ARGUMENT);
  assert_int_equal(nvmlDeviceGetUUID(second, text, sizeof text), NVML_SUCCESS);
  assert_string_equal(text, "MIG-a1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a1a1");
  assert_int_equal(nvmlDeviceGetHandleByUUID(text, &found), NVML_SUCCESS);
  assert_ptr_equal(found, second);
  memcpy(text, "GPU", 3);
  assert_int_equal(nvmlDeviceGetHandleByUUID(text, &found), NVML_ERROR_NOT_FOUND);
  assert_int_equal(nvmlDeviceGetMaxMigDeviceCount(second, &most), NVML_SUCCESS);
  assert_int_equal(most, 0);
}

// In whatever order the monitor tells them.
static void handles_stay(void **state) {
  (void)state;
  char text[96];
  unsigned index;
  outboard_DeviceState device = report.devices[0];
  report.devices[0] = report.devices[1];
  report.devices[1] = device;
  change();
  assert_int_equal(nvmlDeviceGetName(second, text, sizeof text), NVML_SUCCESS);
  assert_string_equal(text, "Test Device 1");
  assert_int_equal(nvmlDeviceGetIndex(second, &index), NVML_SUCCESS);
  assert_int_equal(index, 0);
  report.devices_count = 1;
  report.processes_count = 0;
  change();
  assert_int_equal(nvmlDeviceGetIndex(second, &index), NVML_SUCCESS);
  assert_int_equal(nvmlDeviceGetIndex(first, &index), NVML_ERROR_GPU_IS_LOST);
}

// The session is on the second device, and the program has a handle of the first from before.
static void a_handle_from_before_stays(void **state) {
  (void)state;
  char text[96];
  unsigned index, count = 9;
  nvmlDevice_t found;
  nvmlMemory_t memory;
  nvmlProcessInfo_t processes[4];
  report.others[0] = report.devices[0];
  report.others_count = 1;
  report.devices[0] = report.devices[1];
  report.devices_count = 1;
  for (unsigned i = 0; i < report.processes_count; i++) report.processes[i].device ^= 1;
  change();
  assert_int_equal(nvmlDeviceGetCount_v2(&count), NVML_SUCCESS);
  assert_int_equal(count, 1);
  assert_int_equal(nvmlDeviceGetHandleByIndex_v2(0, &found), NVML_SUCCESS);
  assert_ptr_equal(found, second);
  assert_int_equal(nvmlDeviceGetHandleByIndex_v2(1, &found), NVML_ERROR_INVALID_ARGUMENT);
  assert_int_equal(nvmlDeviceGetName(first, text, sizeof text), NVML_SUCCESS);
  assert_string_equal(text, "Test Device 0");
  assert_int_equal(nvmlDeviceGetIndex(first, &index), NVML_SUCCESS);
  assert_int_equal(index, 1);
  assert_int_equal(nvmlDeviceGetMemoryInfo(first, &memory), NVML_SUCCESS);
  assert_int_equal(memory.used, 100ull << 20);
  count = 4;
  assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(first, &count, processes), NVML_SUCCESS);
  assert_int_equal(count, 1);
  count = 4;
  assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(second, &count, processes),
                   NVML_SUCCESS);
  assert_int_equal(count, 0);
  assert_int_equal(nvmlDeviceGetUUID(first, text, sizeof text), NVML_SUCCESS);
  assert_int_equal(nvmlDeviceGetHandleByUUID(text, &found), NVML_SUCCESS);
  assert_ptr_equal(found, first);
  // Both are named to the server from now on, which only so goes on telling of both.
  change();
  assert_int_equal(nvmlDeviceGetIndex(first, &index), NVML_SUCCESS);
  assert_int_equal(monitor_hello()->query.shown_count, 2);
}

static void pci(void **state) {
  (void)state;
  nvmlDevice_t found;
  static const char *const good[] = {"0000:1b:00.0", "00000000:1B:00.0", "1b:00.0", "0:1b:0"};
  for (unsigned i = 0; i < sizeof good / sizeof *good; i++) {
    assert_int_equal(nvmlDeviceGetHandleByPciBusId(good[i], &found), NVML_SUCCESS);
    assert_ptr_equal(found, second);
  }
  static const char *const bad[] = {"",         "1b",      "0000:1b:00.1", "x:1b:00.0", " 1b:00",
                                    "1b:00.0 ", "1:2:3:4", "1b:",          "1b:00.00",  "-1b:0"};
  for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_int_equal(nvmlDeviceGetHandleByPciBusId(bad[i], &found), NVML_ERROR_INVALID_ARGUMENT);
  assert_int_equal(nvmlDeviceGetHandleByPciBusId("0001:1b:00.0", &found), NVML_ERROR_NOT_FOUND);
  assert_int_equal(nvmlDeviceGetHandleByPciBusId(NULL, &found), NVML_ERROR_INVALID_ARGUMENT);

  report.devices[1].has_pci_device_id = 1;
  report.devices[1].pci_device_id = 0x233510de;
  report.devices[1].has_pci_subsystem_id = 1;
  report.devices[1].pci_subsystem_id = 0x18be10de;
  change();
  nvmlPciInfo_t info;
  memset(&info, 0x55, sizeof info);
  assert_int_equal(nvmlDeviceGetPciInfo_v3(second, &info), NVML_SUCCESS);
  assert_string_equal(info.busId, "00000000:1B:00.0");
  assert_string_equal(info.busIdLegacy, "0000:1B:00.0");
  assert_int_equal(info.domain, 0);
  assert_int_equal(info.bus, 0x1b);
  assert_int_equal(info.device, 0);
  assert_int_equal(info.pciDeviceId, 0x233510de);
  assert_int_equal(info.pciSubSystemId, 0x18be10de);
  // Callers of older versions have no room for more.
  memset(&info, 0x55, sizeof info);
  assert_int_equal(nvmlDeviceGetPciInfo_v2(second, &info), NVML_SUCCESS);
  assert_int_equal(info.pciSubSystemId, 0x18be10de);
  assert_int_equal(info.busId[0], 0x55);
  memset(&info, 0x55, sizeof info);
  assert_int_equal(nvmlDeviceGetPciInfo(second, &info), NVML_SUCCESS);
  assert_int_equal(info.pciDeviceId, 0x233510de);
  assert_int_equal(info.pciSubSystemId, 0x55555555);
  nvmlPciInfoExt_t more = {.version = nvmlPciInfoExt_v1};
  assert_int_equal(nvmlDeviceGetPciInfoExt(second, &more), NVML_SUCCESS);
  assert_string_equal(more.busId, "00000000:1B:00.0");
  assert_int_equal(more.baseClass, 3);
  more.version = 0;
  assert_int_equal(nvmlDeviceGetPciInfoExt(second, &more), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
}

static void memory(void **state) {
  (void)state;
  nvmlMemory_t memory;
  nvmlMemory_v2_t more = {.version = nvmlMemory_v2, .reserved = 1};
  nvmlUtilization_t utilization;
  assert_int_equal(nvmlDeviceGetMemoryInfo(first, &memory), NVML_SUCCESS);
  assert_int_equal(memory.total, 1ull << 30);
  assert_int_equal(memory.used, 100ull << 20);
  assert_int_equal(memory.free, memory.total - memory.used);
  assert_int_equal(nvmlDeviceGetMemoryInfo_v2(first, &more), NVML_SUCCESS);
  assert_int_equal(more.version, nvmlMemory_v2);
  assert_int_equal(more.total, 1ull << 30);
  assert_int_equal(more.used, 100ull << 20);
  assert_int_equal(more.free, memory.free);
  assert_int_equal(more.reserved, 0);
  more.version = 2;
  assert_int_equal(nvmlDeviceGetMemoryInfo_v2(first, &more), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
  assert_int_equal(nvmlDeviceGetMemoryInfo(first, NULL), NVML_ERROR_INVALID_ARGUMENT);
  assert_int_equal(nvmlDeviceGetUtilizationRates(first, &utilization), NVML_SUCCESS);
  assert_int_equal(utilization.gpu, 42);
  assert_int_equal(utilization.memory, 0);
  // The server does not measure what runs there.
  report.devices[0].has_busy = 0;
  change();
  assert_int_equal(nvmlDeviceGetUtilizationRates(first, &utilization), NVML_ERROR_NOT_SUPPORTED);
  report.devices[0].has_busy = 1;
  change();
}

static void constants(void **state) {
  (void)state;
  nvmlComputeMode_t mode;
  nvmlEnableState_t on;
  unsigned number = 7;
  nvmlGpuVirtualizationMode_t virtualization;
  assert_int_equal(nvmlDeviceGetComputeMode(first, &mode), NVML_SUCCESS);
  assert_int_equal(mode, NVML_COMPUTEMODE_DEFAULT);
  assert_int_equal(nvmlDeviceGetComputeMode(first, NULL), NVML_ERROR_INVALID_ARGUMENT);
  assert_int_equal(nvmlDeviceGetComputeMode(NULL, &mode), NVML_ERROR_INVALID_ARGUMENT);
  assert_int_equal(nvmlDeviceGetPersistenceMode(first, &on), NVML_SUCCESS);
  assert_int_equal(on, NVML_FEATURE_ENABLED);
  assert_int_equal(nvmlDeviceGetVirtualizationMode(first, &virtualization), NVML_SUCCESS);
  assert_int_equal(virtualization, NVML_GPU_VIRTUALIZATION_MODE_NONE);
  assert_int_equal(nvmlUnitGetCount(&number), NVML_SUCCESS);
  assert_int_equal(number, 0);
}

static void sensors(void **state) {
  (void)state;
  unsigned value;
  nvmlPstates_t performance;
  nvmlBrandType_t brand;
  nvmlTemperature_t typed = {.version = nvmlTemperature_v1, .sensorType = NVML_TEMPERATURE_GPU};
  assert_int_equal(nvmlDeviceGetTemperature(first, NVML_TEMPERATURE_GPU, &value),
                   NVML_ERROR_NOT_SUPPORTED);
  assert_int_equal(nvmlDeviceGetTemperatureV(first, &typed), NVML_ERROR_NOT_SUPPORTED);
  assert_int_equal(nvmlDeviceGetPowerUsage(first, &value), NVML_ERROR_NOT_SUPPORTED);
  assert_int_equal(nvmlDeviceGetPowerUsage(first, NULL), NVML_ERROR_INVALID_ARGUMENT);
  assert_int_equal(nvmlDeviceGetClockInfo(first, NVML_CLOCK_SM, &value), NVML_ERROR_NOT_SUPPORTED);
  assert_int_equal(nvmlDeviceGetBrand(first, &brand), NVML_SUCCESS);
  assert_int_equal(brand, NVML_BRAND_UNKNOWN);

  outboard_DeviceState *device = &report.devices[0];
  device->has_temperature = device->has_temperature_slowdown = 1;
  device->temperature = 61;
  device->temperature_slowdown = 87;
  device->has_power = device->has_performance_state = device->has_brand = 1;
  device->power = 301000;
  device->performance_state = NVML_PSTATE_2;
  device->brand = NVML_BRAND_NVIDIA;
  device->clocks_count = 3;
  device->clocks[NVML_CLOCK_SM] = 1980;
  device->max_clocks_count = 4;
  device->max_clocks[NVML_CLOCK_MEM] = 2619;
  change();
  assert_int_equal(nvmlDeviceGetTemperature(first, NVML_TEMPERATURE_GPU, &value), NVML_SUCCESS);
  assert_int_equal(value, 61);
  assert_int_equal(nvmlDeviceGetTemperature(first, NVML_TEMPERATURE_COUNT, &value),
                   NVML_ERROR_INVALID_ARGUMENT);
  assert_int_equal(nvmlDeviceGetTemperatureV(first, &typed), NVML_SUCCESS);
  assert_int_equal(typed.temperature, 61);
  assert_int_equal(
      nvmlDeviceGetTemperatureThreshold(first, NVML_TEMPERATURE_THRESHOLD_SLOWDOWN, &value),
      NVML_SUCCESS);
  assert_int_equal(value, 87);
  assert_int_equal(
      nvmlDeviceGetTemperatureThreshold(first, NVML_TEMPERATURE_THRESHOLD_SHUTDOWN, &value),
      NVML_ERROR_NOT_SUPPORTED);
  assert_int_equal(
      nvmlDeviceGetTemperatureThreshold(
          first, (nvmlTemperatureThresholds_t)NVML_TEMPERATURE_THRESHOLD_COUNT, &value),
      NVML_ERROR_INVALID_ARGUMENT);
  assert_int_equal(nvmlDeviceGetPowerUsage(first, &value), NVML_SUCCESS);
  assert_int_equal(value, 301000);
  assert_int_equal(nvmlDeviceGetPerformanceState(first, &performance), NVML_SUCCESS);
  assert_int_equal(performance, NVML_PSTATE_2);
  assert_int_equal(nvmlDeviceGetBrand(first, &brand), NVML_SUCCESS);
  assert_int_equal(brand, NVML_BRAND_NVIDIA);
  assert_int_equal(nvmlDeviceGetClockInfo(first, NVML_CLOCK_SM, &value), NVML_SUCCESS);
  assert_int_equal(value, 1980);
  assert_int_equal(nvmlDeviceGetClockInfo(first, NVML_CLOCK_MEM, &value), NVML_ERROR_NOT_SUPPORTED);
  assert_int_equal(nvmlDeviceGetClockInfo(first, NVML_CLOCK_VIDEO, &value),
                   NVML_ERROR_NOT_SUPPORTED);
  assert_int_equal(nvmlDeviceGetClockInfo(first, NVML_CLOCK_COUNT, &value),
                   NVML_ERROR_INVALID_ARGUMENT);
  assert_int_equal(nvmlDeviceGetMaxClockInfo(first, NVML_CLOCK_MEM, &value), NVML_SUCCESS);
  assert_int_equal(value, 2619);
}

// ---- with a session in the process -------------------------------------------------------------

static void (*set_session)(uint64_t, uint64_t, uint64_t);

static void a_session(void **state) {
  (void)state;
  nvmlMemory_t memory;
  nvmlProcessInfo_t processes[4];
  unsigned count = 4;
  report.devices_count = 1;
  change();
  assert_int_equal(monitor_hello()->query.session, 0);
  void *library = dlopen(TEST_LIBCUDA, RTLD_NOW);
  assert_non_null(library);
  *(void **)&set_session = dlsym(library, "test_session");
  assert_int_equal(nvmlDeviceGetMemoryInfo(first, &memory), NVML_SUCCESS);
  assert_int_equal(memory.used, 100ull << 20);

  // It is asked about at once, however young the report is, and knows its memory itself.
  set_session(7, 200ull << 20, 50ull << 20);
  assert_int_equal(nvmlDeviceGetMemoryInfo(first, &memory), NVML_SUCCESS);
  assert_int_equal(monitor_hello()->query.session, 7);
  assert_int_equal(memory.total, 200ull << 20);
  assert_int_equal(memory.used, 150ull << 20);
  assert_int_equal(memory.free, 50ull << 20);
  assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(first, &count, processes), NVML_SUCCESS);
  assert_int_equal(count, 1);
  assert_int_equal(processes[0].usedGpuMemory, 150ull << 20);
  set_session(7, 200ull << 20, 20ull << 20);
  assert_int_equal(nvmlDeviceGetMemoryInfo(first, &memory), NVML_SUCCESS);
  assert_int_equal(memory.used, 180ull << 20);

  set_session(0, 0, 0);
  assert_int_equal(nvmlDeviceGetMemoryInfo(first, &memory), NVML_SUCCESS);
  assert_int_equal(monitor_hello()->query.session, 0);
  assert_int_equal(memory.used, 100ull << 20);
  dlclose(library);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(identity, begin, end),
      cmocka_unit_test_setup_teardown(architectures, begin, end),
      cmocka_unit_test_setup_teardown(handles, begin, end),
      cmocka_unit_test_setup_teardown(instances, begin, end),
      cmocka_unit_test_setup_teardown(handles_stay, begin, end),
      cmocka_unit_test_setup_teardown(a_handle_from_before_stays, begin, end),
      cmocka_unit_test_setup_teardown(pci, begin, end),
      cmocka_unit_test_setup_teardown(memory, begin, end),
      cmocka_unit_test_setup_teardown(constants, begin, end),
      cmocka_unit_test_setup_teardown(sensors, begin, end),
      cmocka_unit_test_setup_teardown(a_session, begin, end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
