// nvmlInit and nvmlShutdown, when the monitor is asked and what its refusals become, forks.
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "cuda_driver.h"
#include "log_capture.h"
#include "monitor.h"
#include "nvml_calls.h"
#include "wire.h"

static outboard_DeviceReport report;

// The library's clock, in the place of the C library's: while a test has stopped it, no time
// passes.
static _Atomic int64_t stopped_ns;

int clock_gettime(clockid_t clock, struct timespec *now) {
  int64_t ns = atomic_load(&stopped_ns);
  if (ns == 0) return (int)syscall(SYS_clock_gettime, clock, now);
  *now = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
  return 0;
}

static void stop_clock(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  atomic_store(&stopped_ns, (int64_t)now.tv_sec * 1000000000 + now.tv_nsec);
}

static void pass_ms(int64_t ms) { atomic_fetch_add(&stopped_ns, ms * 1000000); }

static int begin(void **state) {
  (void)state;
  atomic_store(&stopped_ns, 0);
  while (nvmlShutdown() == NVML_SUCCESS) {
  }
  setenv("OUTBOARD_TOKEN", "secret", 1);
  monitor_start();
  monitor_usual(&report, 2);
  monitor_report(&report);
  log_capture("error");
  log_captured();
  return 0;
}

static int end(void **state) {
  (void)state;
  monitor_stop();
  return 0;
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static unsigned lines(const char *text) {
  unsigned count = 0;
  for (; *text; text++) count += *text == '\n';
  return count;
}

static void nothing_before_init(void **state) {
  (void)state;
  unsigned count;
  nvmlDevice_t device;
  char text[8];
  assert_int_equal(nvmlDeviceGetCount_v2(&count), NVML_ERROR_UNINITIALIZED);
  assert_int_equal(nvmlDeviceGetHandleByIndex_v2(0, &device), NVML_ERROR_UNINITIALIZED);
  assert_int_equal(nvmlDeviceGetName(NULL, text, 8), NVML_ERROR_UNINITIALIZED);
  assert_int_equal(nvmlUnitGetCount(&count), NVML_ERROR_UNINITIALIZED);
  assert_int_equal(nvmlShutdown(), NVML_ERROR_UNINITIALIZED);
  assert_int_equal(monitor_queries(), 0);
  assert_string_equal(nvmlErrorString(NVML_ERROR_NO_PERMISSION), "No permission");
  assert_string_equal(nvmlErrorString((nvmlReturn_t)31), "Unknown error");
  assert_string_equal(nvmlErrorString((nvmlReturn_t)-1), "Unknown error");
  assert_string_equal(nvmlErrorString(NVML_ERROR_UNKNOWN), "Unknown error");
}

static void init_is_counted(void **state) {
  (void)state;
  unsigned count = 0;
  assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
  assert_int_equal(nvmlInitWithFlags(1), NVML_SUCCESS);
  assert_int_equal(nvmlInit(), NVML_SUCCESS);
  assert_int_equal(nvmlShutdown(), NVML_SUCCESS);
  assert_int_equal(nvmlShutdown(), NVML_SUCCESS);
  assert_int_equal(nvmlDeviceGetCount(&count), NVML_SUCCESS);
  assert_int_equal(count, 2);
  assert_int_equal(nvmlShutdown(), NVML_SUCCESS);
  assert_int_equal(nvmlDeviceGetCount(&count), NVML_ERROR_UNINITIALIZED);
  assert_string_equal(log_captured(), "");
}

static void the_query(void **state) {
  (void)state;
  setenv("OUTBOARD_GPUS", "2", 1);
  assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
  unsetenv("OUTBOARD_GPUS");
  const outboard_Hello *hello = monitor_hello();
  assert_true(hello->has_query);
  assert_int_equal(hello->query.session, 0);
  assert_int_equal(hello->window_size, 1);
  assert_int_equal(hello->window_bases_count, 0);
  assert_int_equal(hello->devices, 2);
  assert_int_equal(hello->pid, getpid());
  assert_string_equal(hello->token, "secret");
}

static void one_query_serves_a_poll(void **state) {
  (void)state;
  unsigned count;
  stop_clock();
  assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
  unsigned before = monitor_queries();
  for (int i = 0; i < 12; i++) {
    assert_int_equal(nvmlDeviceGetCount_v2(&count), NVML_SUCCESS);
    pass_ms(8);
  }
  assert_int_equal(monitor_queries(), before);
  pass_ms(4);
  assert_int_equal(nvmlDeviceGetCount_v2(&count), NVML_SUCCESS);
  assert_int_equal(monitor_queries(), before + 1);
  assert_int_equal(monitor_hello()->query.shown_count, 2);
  assert_memory_equal(monitor_hello()->query.shown[1].bytes, report.devices[1].uuid.bytes, 16);
}

static void no_server(void **state) {
  (void)state;
  char address[64];
  strcpy(address, getenv("OUTBOARD_SERVER"));
  unsetenv("OUTBOARD_SERVER");
  assert_int_equal(nvmlInit_v2(), NVML_ERROR_DRIVER_NOT_LOADED);
  const char *log = log_captured();
  assert_int_equal(lines(log), 1);
  assert_non_null(strstr(log, "OUTBOARD_SERVER is not set"));
  setenv("OUTBOARD_SERVER", address, 1);
  monitor_stop();
  assert_int_equal(nvmlInit_v2(), NVML_ERROR_DRIVER_NOT_LOADED);
  log = log_captured();
  assert_int_equal(lines(log), 1);
  assert_non_null(strstr(log, "no connection to 127.0.0.1"));
  setenv("OUTBOARD_SERVER", "nonsense:", 1);
  assert_int_equal(nvmlInit_v2(), NVML_ERROR_INVALID_ARGUMENT);
  unsigned count;
  assert_int_equal(nvmlDeviceGetCount(&count), NVML_ERROR_UNINITIALIZED);
}

static void refusals(void **state) {
  (void)state;
  static const struct {
    CUresult cuda;
    nvmlReturn_t nvml;
  } cases[] = {
      {CUDA_ERROR_NOT_PERMITTED, NVML_ERROR_NO_PERMISSION},
      {CUDA_ERROR_INVALID_DEVICE, NVML_ERROR_GPU_NOT_FOUND},
      {CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, NVML_ERROR_LIB_RM_VERSION_MISMATCH},
      {CUDA_ERROR_DEVICE_UNAVAILABLE, NVML_ERROR_DRIVER_NOT_LOADED},
      {(CUresult)-1, NVML_ERROR_DRIVER_NOT_LOADED},
  };
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    monitor_refuse("OB_TEST", (int32_t)cases[i].cuda);
    assert_int_equal(nvmlInit_v2(), cases[i].nvml);
    const char *log = log_captured();
    assert_int_equal(lines(log), 1);
    assert_non_null(strstr(log, "the server refused (OB_TEST): no. Ask again."));
  }
  // A refusal is understood in every version.
  uint8_t message[64] = {3 << 3 | 2, 2, 1 << 3 | 2, 0};
  monitor_say(message, 4, WIRE_PROTOCOL + 1);
  assert_int_equal(nvmlInit_v2(), NVML_ERROR_DRIVER_NOT_LOADED);
}

static void answers_that_make_no_sense(void **state) {
  (void)state;
  static uint8_t message[WIRE_CONTROL_MAX];
  size_t size = monitor_encode(&report, message, sizeof message);
  monitor_say(message, size, WIRE_PROTOCOL + 1);
  assert_int_equal(nvmlInit_v2(), NVML_ERROR_LIB_RM_VERSION_MISMATCH);
  assert_non_null(strstr(log_captured(), "speaks protocol 3"));
  for (size_t cut = 0; cut < size; cut += 7) {
    monitor_say(message, cut, WIRE_PROTOCOL);
    assert_int_not_equal(nvmlInit_v2(), NVML_SUCCESS);
  }
  outboard_DeviceReport wrong = report;
  wrong.devices_count = 0;
  wrong.processes_count = 0;
  monitor_report(&wrong);
  assert_int_not_equal(nvmlInit_v2(), NVML_SUCCESS);
  wrong = report;
  wrong.devices[1].uuid = wrong.devices[0].uuid;
  monitor_report(&wrong);
  assert_int_not_equal(nvmlInit_v2(), NVML_SUCCESS);
  wrong = report;
  wrong.devices[1].uuid.size = 15;
  monitor_report(&wrong);
  assert_int_not_equal(nvmlInit_v2(), NVML_SUCCESS);
  wrong = report;
  wrong.devices[0].memory_used = wrong.devices[0].memory_total + 1;
  monitor_report(&wrong);
  assert_int_not_equal(nvmlInit_v2(), NVML_SUCCESS);
  wrong = report;
  wrong.processes[0].device = 2;
  monitor_report(&wrong);
  assert_int_not_equal(nvmlInit_v2(), NVML_SUCCESS);
  monitor_report(&report);
  assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
}

static void a_server_that_goes(void **state) {
  (void)state;
  nvmlDevice_t device;
  nvmlUtilization_t utilization;
  char address[64];
  assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
  assert_int_equal(nvmlDeviceGetHandleByIndex_v2(0, &device), NVML_SUCCESS);
  strcpy(address, getenv("OUTBOARD_SERVER"));
  monitor_stop();
  stop_clock();
  pass_ms(150);
  log_captured();
  for (int i = 0; i < 5; i++) {
    assert_int_equal(nvmlDeviceGetUtilizationRates(device, &utilization), NVML_ERROR_GPU_IS_LOST);
    pass_ms(190);
  }
  assert_int_equal(lines(log_captured()), 1);
  pass_ms(50);
  assert_int_equal(nvmlDeviceGetUtilizationRates(device, &utilization), NVML_ERROR_GPU_IS_LOST);
  assert_int_equal(lines(log_captured()), 1);
}

static void versions(void **state) {
  (void)state;
  char text[64];
  int version = 0;
  assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
  assert_int_equal(nvmlSystemGetDriverVersion(text, sizeof text), NVML_SUCCESS);
  assert_string_equal(text, "0.1.0");
  assert_int_equal(nvmlSystemGetNVMLVersion(text, sizeof text), NVML_SUCCESS);
  assert_string_equal(text, "13.0.1.0");
  assert_int_equal(nvmlSystemGetNVMLVersion(text, 8), NVML_ERROR_INSUFFICIENT_SIZE);
  assert_int_equal(nvmlSystemGetNVMLVersion(NULL, 8), NVML_ERROR_INVALID_ARGUMENT);
  assert_int_equal(nvmlSystemGetCudaDriverVersion(&version), NVML_SUCCESS);
  assert_int_equal(version, 12080);
  assert_int_equal(nvmlSystemGetCudaDriverVersion_v2(NULL), NVML_ERROR_INVALID_ARGUMENT);
  while (nvmlShutdown() == NVML_SUCCESS) {
  }
  strcpy(report.nvidia_driver, "580.65.06");
  strcpy(report.nvml_version, "13.580.65.06");
  monitor_report(&report);
  assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
  assert_int_equal(nvmlSystemGetDriverVersion(text, sizeof text), NVML_SUCCESS);
  assert_string_equal(text, "580.65.06");
  assert_int_equal(nvmlSystemGetNVMLVersion(text, sizeof text), NVML_SUCCESS);
  assert_string_equal(text, "13.580.65.06");
}

static void what_is_not_served_is_named_once(void **state) {
  (void)state;
  log_capture("warn");
  nvmlEnableState_t one, other;
  unsigned number;
  assert_int_equal(nvmlDeviceGetEccMode(NULL, &one, &other), NVML_ERROR_NOT_SUPPORTED);
  assert_int_equal(nvmlDeviceGetEccMode(NULL, &one, &other), NVML_ERROR_NOT_SUPPORTED);
  assert_int_equal(nvmlDeviceGetMinorNumber(NULL, &number), NVML_ERROR_NOT_SUPPORTED);
  const char *log = log_captured();
  assert_int_equal(lines(log), 2);
  assert_non_null(strstr(log, "nvmlDeviceGetEccMode is not served"));
  assert_non_null(strstr(log, "nvmlDeviceGetMinorNumber is not served"));
  log_capture("info");
  assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
  assert_int_equal(nvmlShutdown(), NVML_SUCCESS);
  assert_non_null(strstr(log_captured(), ", 3 calls that are not served"));
}

static void sets_without_events(void **state) {
  (void)state;
  nvmlDevice_t device;
  nvmlEventSet_t set;
  nvmlEventData_t data;
  unsigned long long types = 1;
  assert_int_equal(nvmlEventSetCreate(&set), NVML_ERROR_UNINITIALIZED);
  assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
  assert_int_equal(nvmlDeviceGetHandleByIndex_v2(0, &device), NVML_SUCCESS);
  assert_int_equal(nvmlEventSetCreate(NULL), NVML_ERROR_INVALID_ARGUMENT);
  assert_int_equal(nvmlEventSetCreate(&set), NVML_SUCCESS);
  assert_int_equal(nvmlDeviceGetSupportedEventTypes(device, &types), NVML_SUCCESS);
  assert_int_equal(types, 0);
  assert_int_equal(nvmlDeviceRegisterEvents(device, 0, set), NVML_SUCCESS);
  assert_int_equal(nvmlDeviceRegisterEvents(device, 1, set), NVML_ERROR_NOT_SUPPORTED);
  assert_int_equal(nvmlDeviceRegisterEvents(device, 0, NULL), NVML_ERROR_INVALID_ARGUMENT);
  double from = seconds();
  assert_int_equal(nvmlEventSetWait(set, &data, 30), NVML_ERROR_TIMEOUT);
  assert_true(seconds() - from >= 0.03);
  assert_int_equal(nvmlEventSetWait_v2(set, NULL, 0), NVML_ERROR_INVALID_ARGUMENT);
  assert_int_equal(nvmlEventSetWait_v2(NULL, &data, 0), NVML_ERROR_INVALID_ARGUMENT);
  assert_int_equal(nvmlEventSetFree(NULL), NVML_ERROR_INVALID_ARGUMENT);
  assert_int_equal(nvmlEventSetFree(set), NVML_SUCCESS);
}

// ---- forks -------------------------------------------------------------------------------------

static int in_child(void) {
  unsigned count = 0;
  nvmlReturn_t result = nvmlDeviceGetCount(&count);
  return result == NVML_SUCCESS && count == 2 ? 0 : 10 + (int)result;
}

static _Atomic _Bool polling;

static void *poll_devices(void *unused) {
  (void)unused;
  while (atomic_load(&polling)) {
    nvmlDevice_t device;
    CHECK(nvmlDeviceGetHandleByIndex_v2(1, &device) == NVML_SUCCESS);
    usleep(1000);
  }
  return NULL;
}

// Whatever the other thread is doing: it holds the lock, or waits for the monitor.
static void children(void **state) {
  (void)state;
  assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
  pthread_t thread;
  atomic_store(&polling, 1);
  assert_int_equal(pthread_create(&thread, NULL, poll_devices, NULL), 0);
  for (int i = 0; i < 100; i++) {
    usleep(4000);
    pid_t child = fork();
    if (child == 0) {
      alarm(60);
      _exit(in_child());
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
  }
  atomic_store(&polling, 0);
  pthread_join(thread, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(nothing_before_init, begin, end),
      cmocka_unit_test_setup_teardown(init_is_counted, begin, end),
      cmocka_unit_test_setup_teardown(the_query, begin, end),
      cmocka_unit_test_setup_teardown(one_query_serves_a_poll, begin, end),
      cmocka_unit_test_setup_teardown(no_server, begin, end),
      cmocka_unit_test_setup_teardown(refusals, begin, end),
      cmocka_unit_test_setup_teardown(answers_that_make_no_sense, begin, end),
      cmocka_unit_test_setup_teardown(a_server_that_goes, begin, end),
      cmocka_unit_test_setup_teardown(versions, begin, end),
      cmocka_unit_test_setup_teardown(what_is_not_served_is_named_once, begin, end),
      cmocka_unit_test_setup_teardown(sets_without_events, begin, end),
      cmocka_unit_test_setup_teardown(children, begin, end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
