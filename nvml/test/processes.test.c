// Processes on a device: how many, who, in every version of the call.
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
  report.processes_count = 3;
  report.processes[1] = (outboard_ProcessState){
      .session = 8, .device = 1, .pid = 99, .memory = 5, .host = "elsewhere", .program = "infer"};
  report.processes[2] = (outboard_ProcessState){
      .session = 9, .pid = 4242, .memory = 3, .busy = 11, .host = "elsewhere", .program = "other"};
  monitor_report(&report);
  return nvmlInit_v2() || nvmlDeviceGetHandleByIndex_v2(0, &first) ||
         nvmlDeviceGetHandleByIndex_v2(1, &second);
}

static int end(void **state) {
  (void)state;
  monitor_stop();
  return 0;
}

static void of_each_device(void **state) {
  (void)state;
  nvmlProcessInfo_t infos[4];
  unsigned count = 0;
  assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(first, &count, NULL),
                   NVML_ERROR_INSUFFICIENT_SIZE);
  assert_int_equal(count, 2);
  assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(first, &count, NULL),
                   NVML_ERROR_INVALID_ARGUMENT);
  count = 1;
  assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(first, &count, infos),
                   NVML_ERROR_INSUFFICIENT_SIZE);
  count = 4;
  assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(first, &count, infos), NVML_SUCCESS);
  assert_int_equal(count, 2);
  assert_int_equal(infos[0].pid, 4242);
  assert_int_equal(infos[0].usedGpuMemory, 100ull << 20);
  assert_int_equal(infos[0].gpuInstanceId, 0xffffffff);
  assert_int_equal(infos[0].computeInstanceId, 0xffffffff);
  assert_int_equal(infos[1].usedGpuMemory, 3);
  count = 4;
  assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(second, &count, infos), NVML_SUCCESS);
  assert_int_equal(count, 1);
  assert_int_equal(infos[0].pid, 99);
  assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(second, NULL, infos),
                   NVML_ERROR_INVALID_ARGUMENT);
}

static void older_versions(void **state) {
  (void)state;
  nvmlProcessInfo_v1_t small[3];
  nvmlProcessInfo_v2_t large[3];
  unsigned count = 2;
  memset(small, 0x55, sizeof small);
  assert_int_equal(nvmlDeviceGetComputeRunningProcesses(first, &count, small), NVML_SUCCESS);
  assert_int_equal(small[0].pid, 4242);
  assert_int_equal(small[1].usedGpuMemory, 3);
  assert_int_equal(small[2].pid, 0x55555555);
  memset(large, 0x55, sizeof large);
  count = 2;
  assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v2(first, &count, large), NVML_SUCCESS);
  assert_int_equal(large[1].pid, 4242);
  assert_int_equal(large[1].gpuInstanceId, 0xffffffff);
  assert_int_equal(large[2].pid, 0x55555555);
}

static void of_other_kinds(void **state) {
  (void)state;
  nvmlProcessInfo_t infos[1];
  unsigned count = 1;
  assert_int_equal(nvmlDeviceGetGraphicsRunningProcesses_v3(first, &count, infos), NVML_SUCCESS);
  assert_int_equal(count, 0);
  count = 1;
  assert_int_equal(nvmlDeviceGetMPSComputeRunningProcesses_v3(first, &count, infos), NVML_SUCCESS);
  assert_int_equal(count, 0);
  assert_int_equal(nvmlDeviceGetMPSComputeRunningProcesses_v3(first, NULL, infos),
                   NVML_ERROR_INVALID_ARGUMENT);
}

static void details(void **state) {
  (void)state;
  nvmlProcessDetail_v1_t rows[2];
  nvmlProcessDetailList_t list = {.version = nvmlProcessDetailList_v1};
  assert_int_equal(nvmlDeviceGetRunningProcessDetailList(first, &list),
                   NVML_ERROR_INSUFFICIENT_SIZE);
  assert_int_equal(list.numProcArrayEntries, 2);
  list.procArray = rows;
  assert_int_equal(nvmlDeviceGetRunningProcessDetailList(first, &list), NVML_SUCCESS);
  assert_int_equal(rows[0].pid, 4242);
  assert_int_equal(rows[1].usedGpuMemory, 3);
  list.mode = 1;
  assert_int_equal(nvmlDeviceGetRunningProcessDetailList(first, &list), NVML_SUCCESS);
  assert_int_equal(list.numProcArrayEntries, 0);
  list.mode = 3;
  assert_int_equal(nvmlDeviceGetRunningProcessDetailList(first, &list),
                   NVML_ERROR_INVALID_ARGUMENT);
  list.version = 0;
  assert_int_equal(nvmlDeviceGetRunningProcessDetailList(first, &list),
                   NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
}

static void utilization(void **state) {
  (void)state;
  nvmlProcessUtilizationSample_t samples[2];
  unsigned count = 2;
  assert_int_equal(nvmlDeviceGetProcessUtilization(first, NULL, &count, 0),
                   NVML_ERROR_INSUFFICIENT_SIZE);
  assert_int_equal(count, 2);
  assert_int_equal(nvmlDeviceGetProcessUtilization(first, samples, &count, 0), NVML_SUCCESS);
  assert_int_equal(samples[0].smUtil, 42);
  assert_int_equal(samples[1].smUtil, 11);
  assert_true(samples[0].timeStamp > 0);
  assert_int_equal(nvmlDeviceGetProcessUtilization(first, samples, &count, UINT64_MAX),
                   NVML_ERROR_NOT_FOUND);
}

static void names(void **state) {
  (void)state;
  char text[64];
  assert_int_equal(nvmlSystemGetProcessName(4242, text, sizeof text), NVML_SUCCESS);
  assert_string_equal(text, "train");
  assert_int_equal(nvmlSystemGetProcessName(99, text, sizeof text), NVML_SUCCESS);
  assert_string_equal(text, "infer (elsewhere)");
  assert_int_equal(nvmlSystemGetProcessName(99, text, 17), NVML_ERROR_INSUFFICIENT_SIZE);
  assert_int_equal(nvmlSystemGetProcessName((unsigned)getpid(), text, sizeof text),
                   NVML_ERROR_NOT_FOUND);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(of_each_device, begin, end),
      cmocka_unit_test_setup_teardown(older_versions, begin, end),
      cmocka_unit_test_setup_teardown(of_other_kinds, begin, end),
      cmocka_unit_test_setup_teardown(details, begin, end),
      cmocka_unit_test_setup_teardown(utilization, begin, end),
      cmocka_unit_test_setup_teardown(names, begin, end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
