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
  report.processes[2] = (outboard_ProcessState){.session = 9,
                                                .pid = 4242,
                                                .memory = 3,
                                                .has_busy = 1,
                                                .busy = 11,
                                                .host = "elsewhere",
                                                .program = "other"};
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

// As nvidia-smi finds them: in a table, by place (smi_table.c).
static void in_the_table_of_nvidia_smi(void **state) {
  (void)state;
  uint8_t name[16] = {0xc4, 0xfe, 0x3e, 0x6c, 0xc9, 0x8f, 0x6c, 0x4e,
                      0xa3, 0x27, 0xee, 0x69, 0x6e, 0x12, 0xf7, 0xc4};
  const void *found;
  assert_int_equal(nvmlInternalGetExportTable(NULL, name), NVML_ERROR_INVALID_ARGUMENT);
  assert_int_equal(nvmlInternalGetExportTable(&found, NULL), NVML_ERROR_INVALID_ARGUMENT);
  assert_int_equal(nvmlInternalGetExportTable(&found, name), NVML_SUCCESS);
  const uintptr_t *table = found;
  assert_true(table[0] > 256 * sizeof *table);
  for (size_t i = 1; i < table[0] / sizeof *table; i++) assert_true(table[i]);
  assert_int_equal(((nvmlReturn_t(*)(void))table[26])(), NVML_ERROR_NOT_SUPPORTED);

  nvmlDevice_t device = NULL;
  nvmlReturn_t (*handle)(unsigned, nvmlDevice_t *) = (void *)table[81];
  assert_int_equal(handle(1, &device), NVML_SUCCESS);
  assert_ptr_equal(device, second);
  assert_int_equal(handle(2, &device), NVML_ERROR_INVALID_ARGUMENT);

  static struct {
    unsigned pid;
    unsigned long long memory;
    unsigned instances[2];
    unsigned long long protected_memory;
    char name[4096];
  } list[3];
  assert_int_equal(sizeof *list, 4128);
  nvmlReturn_t (*processes)(nvmlDevice_t, unsigned *, void *) = (void *)table[213];
  unsigned count = 3;
  memset(list, 0xee, sizeof list);
  assert_int_equal(processes(first, &count, list), NVML_SUCCESS);
  assert_int_equal(count, 2);
  assert_int_equal(list[0].pid, 4242);
  assert_int_equal(list[0].memory, 100ull << 20);
  assert_int_equal(list[0].instances[1], 0xffffffff);
  assert_string_equal(list[0].name, "train");
  assert_string_equal(list[1].name, "other (elsewhere)");
  assert_int_equal(list[2].pid, 0xeeeeeeee);
  count = 1;
  assert_int_equal(processes(first, &count, list), NVML_SUCCESS);
  assert_int_equal(count, 1);
  assert_int_equal(processes(NULL, &count, list), NVML_ERROR_INVALID_ARGUMENT);
  assert_int_equal(processes(first, NULL, list), NVML_ERROR_INVALID_ARGUMENT);
  assert_int_equal(processes(first, &count, NULL), NVML_ERROR_INVALID_ARGUMENT);
  nvmlReturn_t (*graphics)(nvmlDevice_t, unsigned *, void *) = (void *)table[214];
  assert_int_equal(graphics(first, &count, list), NVML_SUCCESS);
  assert_int_equal(count, 0);

  name[15]++;
  assert_int_equal(nvmlInternalGetExportTable(&found, name), NVML_ERROR_NOT_SUPPORTED);
  assert_null(found);
  nvmlShutdown();
  name[15]--;
  assert_int_equal(nvmlInternalGetExportTable(&found, name), NVML_ERROR_UNINITIALIZED);
  assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(of_each_device, begin, end),
      cmocka_unit_test_setup_teardown(older_versions, begin, end),
      cmocka_unit_test_setup_teardown(of_other_kinds, begin, end),
      cmocka_unit_test_setup_teardown(details, begin, end),
      cmocka_unit_test_setup_teardown(utilization, begin, end),
      cmocka_unit_test_setup_teardown(names, begin, end),
      cmocka_unit_test_setup_teardown(in_the_table_of_nvidia_smi, begin, end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
