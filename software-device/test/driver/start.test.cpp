// cuInit, the environment, and processes that fork.
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "support.h"

namespace {

// Runs `body` in a child with the given variables; its return value comes back.
int in_child(const std::vector<std::pair<const char *, const char *>> &variables,
             const std::function<int()> &body) {
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    for (auto [name, value] : variables) setenv(name, value, 1);
    if (!freopen("/dev/null", "w", stderr)) _exit(99);  // errors are expected here
    _exit(body());
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status);
}

int start() { return cuInit(0); }

int count() {
  int devices = 0;
  return cuInit(0) || cuDeviceGetCount(&devices) ? 99 : devices;
}

void nothing_works_before_start(void **) {
  int number;
  CUcontext context;
  EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&number));
  EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuCtxGetCurrent(&context));
  EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuMemFree_v2(4096));
  OK(cuDriverGetVersion(&number));
  assert_int_equal(number, 13050);
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuInit(1));
}

void settings_are_read(void **) {
  assert_int_equal(in_child({}, count), 1);
  assert_int_equal(in_child({{"SOFTWARE_DEVICE_GPUS", "5"}}, count), 5);
  int major = in_child({{"SOFTWARE_DEVICE_COMPUTE_CAPABILITY", "8.6"},
                        {"SOFTWARE_DEVICE_MEMORY", "512M"},
                        {"SOFTWARE_DEVICE_NAME", "Tiny"}},
                       [] {
                         int high, low;
                         size_t bytes;
                         char name[64];
                         if (cuInit(0) || cuDeviceComputeCapability(&high, &low, 0)) return 90;
                         if (cuDeviceTotalMem_v2(&bytes, 0) || bytes != 512u << 20) return 91;
                         if (cuDeviceGetName(name, sizeof name, 0) || strcmp(name, "Tiny"))
                           return 92;
                         return high * 10 + low;
                       });
  assert_int_equal(major, 86);
}

void bad_settings_are_refused(void **) {
  static const std::pair<const char *, const char *> bad[] = {
      {"SOFTWARE_DEVICE_GPUS", "many"},     {"SOFTWARE_DEVICE_GPUS", "-1"},
      {"SOFTWARE_DEVICE_GPUS", "65"},       {"SOFTWARE_DEVICE_MEMORY", "4X"},
      {"SOFTWARE_DEVICE_MEMORY", "1K"},     {"SOFTWARE_DEVICE_MEMORY", "99999999999999999999"},
      {"SOFTWARE_DEVICE_WORKERS", "0"},     {"SOFTWARE_DEVICE_COMPUTE_CAPABILITY", "new"},
      {"SOFTWARE_DEVICE_LOG", "everything"}};
  for (const auto &variable : bad)
    if (in_child({variable}, start) != CUDA_ERROR_INVALID_VALUE)
      fail_msg("%s=%s was accepted", variable.first, variable.second);
  assert_int_equal(in_child({{"SOFTWARE_DEVICE_GPUS", "0"}}, start), CUDA_ERROR_NO_DEVICE);
}

// A file with settings of its own for the test.
class SettingsFile {
 public:
  explicit SettingsFile(const char *text) {
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), strlen(text));
    close(file);
  }
  ~SettingsFile() { unlink(path); }
  char path[32] = "/tmp/softdev-settings-XXXXXX";
};

void devices_may_differ(void **) {
  SettingsFile file(
      "# for all\n"
      "memory = 256M\n"
      "compute_capability = 8.0\n"
      "\n"
      "[device]\n"
      "name = Large one   # the rest is no name\n"
      "memory = 1G\n"
      "multiprocessors = 16\n"
      "clock_mhz = 1500\n"
      "[device]\n"
      "compute_capability = 9.0\n");
  auto look = [] {
    int value, high, low;
    size_t bytes;
    char name[64];
    if (cuInit(0) || cuDeviceGetCount(&value) || value != 2) return 90;
    if (cuDeviceGetName(name, sizeof name, 0) || strcmp(name, "Large one")) return 91;
    if (cuDeviceGetName(name, sizeof name, 1) || strcmp(name, "Software Device")) return 92;
    if (cuDeviceTotalMem_v2(&bytes, 0) || bytes != 1u << 30) return 93;
    if (cuDeviceTotalMem_v2(&bytes, 1) || bytes != 256u << 20) return 94;
    if (cuDeviceComputeCapability(&high, &low, 0) || high != 8) return 95;
    if (cuDeviceComputeCapability(&high, &low, 1) || high != 9) return 96;
    if (cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0) || value != 16)
      return 97;
    if (cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 0) || value != 1500000)
      return 98;
    return 7;
  };
  assert_int_equal(in_child({{"SOFTWARE_DEVICE_CONFIG", file.path}}, look), 7);
  // A variable is for all of them, and the number of devices may be another one.
  assert_int_equal(
      in_child({{"SOFTWARE_DEVICE_CONFIG", file.path}, {"SOFTWARE_DEVICE_GPUS", "3"}}, count), 3);
  assert_int_equal(
      in_child({{"SOFTWARE_DEVICE_CONFIG", file.path}, {"SOFTWARE_DEVICE_MEMORY", "64M"}},
               [] {
                 size_t bytes;
                 return cuInit(0) || cuDeviceTotalMem_v2(&bytes, 0) ? 99
                                                                    : static_cast<int>(bytes >> 20);
               }),
      64);
  for (const char *bad : {"[devices]\n", "memory 4G\n", "memory = lots\n", "colour = red\n",
                          "multiprocessors = 0\n", "clock_mhz = -1\n"}) {
    SettingsFile wrong(bad);
    if (in_child({{"SOFTWARE_DEVICE_CONFIG", wrong.path}}, start) != CUDA_ERROR_INVALID_VALUE)
      fail_msg("a file with '%s' was accepted", bad);
  }
  assert_int_equal(in_child({{"SOFTWARE_DEVICE_CONFIG", "/nowhere"}}, start),
                   CUDA_ERROR_INVALID_VALUE);
}

void visible_devices(void **) {
  auto visible = [](const char *value) {
    return in_child({{"SOFTWARE_DEVICE_GPUS", "3"}, {"CUDA_VISIBLE_DEVICES", value}}, count);
  };
  assert_int_equal(visible("0,1,2"), 3);
  assert_int_equal(visible("2"), 1);
  assert_int_equal(visible("1,7,0"), 1);  // ends at the first that is not there
  assert_int_equal(visible("0,0"), 99);   // twice: none
  assert_int_equal(visible("0,x"), 1);
  assert_int_equal(in_child({{"CUDA_VISIBLE_DEVICES", ""}}, start), CUDA_ERROR_NO_DEVICE);
  assert_int_equal(in_child({{"CUDA_VISIBLE_DEVICES", "-1"}}, start), CUDA_ERROR_NO_DEVICE);

  // By UUID: the second of three, by its whole name and by as much as tells it apart.
  int pipes[2];
  assert_int_equal(pipe(pipes), 0);
  in_child({{"SOFTWARE_DEVICE_GPUS", "3"}}, [&] {
    CUuuid uuid;
    if (cuInit(0) || cuDeviceGetUuid_v2(&uuid, 1)) return 1;
    return write(pipes[1], uuid.bytes, 16) == 16 ? 0 : 1;
  });
  unsigned char bytes[16];
  assert_int_equal(read(pipes[0], bytes, 16), 16);
  char text[48] = "GPU-";
  for (int i = 0; i < 16; i++)
    snprintf(text + strlen(text), 4, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
             bytes[i]);
  auto bus = [] {
    int value;
    return cuInit(0) || cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 0) ? 99
                                                                                        : value;
  };
  int second = in_child({{"SOFTWARE_DEVICE_GPUS", "3"}, {"CUDA_VISIBLE_DEVICES", "1"}}, bus);
  assert_int_equal(in_child({{"SOFTWARE_DEVICE_GPUS", "3"}, {"CUDA_VISIBLE_DEVICES", text}}, bus),
                   second);
  text[8] = 0;
  assert_int_equal(in_child({{"SOFTWARE_DEVICE_GPUS", "3"}, {"CUDA_VISIBLE_DEVICES", text}}, bus),
                   second);
  assert_int_equal(visible("GPU-"), 99);  // names all three, so none: no device
  close(pipes[0]);
  close(pipes[1]);
}

// Last: from here on this process has started.
void a_forked_child_is_told_so(void **) {
  OK(cuInit(0));
  OK(cuInit(0));
  int devices;
  OK(cuDeviceGetCount(&devices));
  assert_int_equal(in_child({}, start), CUDA_ERROR_NOT_INITIALIZED);
  assert_int_equal(in_child({},
                            [] {
                              CUcontext context;
                              return static_cast<int>(cuDevicePrimaryCtxRetain(&context, 0));
                            }),
                   CUDA_ERROR_NOT_INITIALIZED);
  OK(cuDeviceGetCount(&devices));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(nothing_works_before_start),
      cmocka_unit_test(settings_are_read),
      cmocka_unit_test(bad_settings_are_refused),
      cmocka_unit_test(devices_may_differ),
      cmocka_unit_test(visible_devices),
      cmocka_unit_test(a_forked_child_is_told_so),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
