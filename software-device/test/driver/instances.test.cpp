// Instances of a GPU in MIG mode (the trait `mig`), as processes and as a server find them.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "support.h"

namespace {

using Variables = std::vector<std::pair<const char *, const char *>>;

// What `say` writes in a process of its own with those variables.
std::string said_with(const Variables &variables, const std::function<std::string()> &say) {
  int pipes[2];
  assert_int_equal(pipe(pipes), 0);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    for (const auto &[name, value] : variables) setenv(name, value, 1);
    if (!freopen("/dev/null", "w", stderr)) _exit(99);
    const std::string said = say();
    _exit(write(pipes[1], said.data(), said.size()) != static_cast<ssize_t>(said.size()));
  }
  close(pipes[1]);
  std::string all;
  char part[4096];
  for (ssize_t got; (got = read(pipes[0], part, sizeof part)) > 0;)
    all.append(part, static_cast<size_t>(got));
  close(pipes[0]);
  int status;
  waitpid(child, &status, 0);
  assert_int_equal(status, 0);
  return all;
}

std::string text(const char *kind, const CUuuid &uuid) {
  std::string all = kind;
  for (int i = 0; i < 16; i++) {
    char byte[4];
    snprintf(byte, sizeof byte, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
             static_cast<unsigned char>(uuid.bytes[i]));
    all += byte;
  }
  return all;
}

// The devices: `name|MiB|multiprocessors|PCI bus`, a line for each; or the error.
std::string devices() {
  if (const CUresult bad = cuInit(0)) return "error " + std::to_string(bad);
  int count;
  OK(cuDeviceGetCount(&count));
  std::string all;
  for (int i = 0; i < count; i++) {
    char name[100];
    size_t bytes;
    int multiprocessors, bus;
    OK(cuDeviceGetName(name, sizeof name, i));
    OK(cuDeviceTotalMem_v2(&bytes, i));
    OK(cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, i));
    OK(cuDeviceGetAttribute(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, i));
    all += std::string(name) + "|" + std::to_string(bytes >> 20) + "|" +
           std::to_string(multiprocessors) + "|" + std::to_string(bus) + "\n";
  }
  return all;
}

// The UUIDs of the first device by both versions of the call.
std::string uuids() {
  CUuuid before, now;
  if (const CUresult bad = cuInit(0)) return "error " + std::to_string(bad);
  OK(cuDeviceGetUuid(&before, 0));
  OK(cuDeviceGetUuid_v2(&now, 0));
  return text("GPU-", before) + " " + text("MIG-", now);
}

// GPUs of the machine as its NVML has them, `GPU-...:M MIG-... MIG-...`, where M says MIG mode.
std::string machine() {
  void *const library = dlopen(TEST_NVML, RTLD_NOW);
  assert_non_null(library);
  const auto find = [&]<typename F>(F *, const char *name) {
    auto *const function = reinterpret_cast<F *>(dlsym(library, name));
    assert_non_null(function);
    return function;
  };
  using Handle = void *;
  using Index = int(Handle, unsigned, Handle *);
  const auto init = find(static_cast<int (*)()>(nullptr), "nvmlInit_v2");
  const auto count = find(static_cast<int (*)(unsigned *)>(nullptr), "nvmlDeviceGetCount_v2");
  const auto gpu_at =
      find(static_cast<int (*)(unsigned, Handle *)>(nullptr), "nvmlDeviceGetHandleByIndex_v2");
  const auto uuid =
      find(static_cast<int (*)(Handle, char *, unsigned)>(nullptr), "nvmlDeviceGetUUID");
  const auto mode =
      find(static_cast<int (*)(Handle, unsigned *, unsigned *)>(nullptr), "nvmlDeviceGetMigMode");
  const auto most =
      find(static_cast<int (*)(Handle, unsigned *)>(nullptr), "nvmlDeviceGetMaxMigDeviceCount");
  const auto instance_at =
      find(static_cast<Index *>(nullptr), "nvmlDeviceGetMigDeviceHandleByIndex");
  unsigned gpus = 0;
  if (count(&gpus) != 1 || init() != 0 || count(&gpus) != 0) return "not started";
  std::string all;
  for (unsigned i = 0; i < gpus; i++) {
    Handle gpu, instance;
    char name[64];
    unsigned current = 9, pending = 9, instances = 9;
    assert_int_equal(gpu_at(i, &gpu), 0);
    assert_int_equal(uuid(gpu, name, sizeof name), 0);
    assert_int_equal(uuid(gpu, name, 40), 7);
    assert_int_equal(mode(gpu, &current, &pending), 0);
    assert_int_equal(most(gpu, &instances), 0);
    assert_int_equal(instances, current ? 7 : 0);
    all += std::string(name) + (current ? ":M" : ":");
    for (unsigned each = 0; each < instances; each++) {
      if (instance_at(gpu, each, &instance) != 0) continue;
      assert_int_equal(uuid(instance, name, sizeof name), 0);
      all += std::string(" ") + name;
    }
    all += "\n";
  }
  return all;
}

constexpr std::pair<const char *, const char *> kTraits{"SOFTWARE_DEVICE_TRAITS", "mig=1g+2g"};
constexpr char kFirst[] = "MIG-5000de71-ce00-4c50-955d-0ec0de000100";
constexpr char kSecond[] = "MIG-5001de71-ce00-4c50-955d-0ec0de000200";
constexpr char kWhole[] = "GPU-50f7de71-ce00-4c50-955d-0ec0de000000";

void a_process_sees_one_instance(void **) {
  assert_string_equal(said_with({kTraits}, devices).c_str(),
                      "Software Device MIG 1g.1gb|512|1|1\n");
  assert_string_equal(said_with({kTraits, {"CUDA_VISIBLE_DEVICES", kSecond}}, devices).c_str(),
                      "Software Device MIG 2g.1gb|1024|1|1\n");
  // More are named, or the GPU is: the first.
  const std::string both = std::string(kSecond) + "," + kFirst;
  assert_string_equal(said_with({kTraits, {"CUDA_VISIBLE_DEVICES", both.c_str()}}, devices).c_str(),
                      "Software Device MIG 2g.1gb|1024|1|1\n");
  for (const char *gpu : {"0", kWhole})
    assert_string_equal(said_with({kTraits, {"CUDA_VISIBLE_DEVICES", gpu}}, devices).c_str(),
                        "Software Device MIG 1g.1gb|512|1|1\n");
  // Prefixes and UUIDs of none name nothing.
  for (const char *none : {"MIG-5000de71", "MIG-5000de71-ce00-4c50-955d-0ec0de000300", "MIG-"})
    assert_string_equal(said_with({kTraits, {"CUDA_VISIBLE_DEVICES", none}}, devices).c_str(),
                        "error 100");
  assert_string_equal(said_with({{"SOFTWARE_DEVICE_TRAITS", "device=h100,mig=3g+1g"},
                                 {"SOFTWARE_DEVICE_MEMORY", "80G"}},
                                devices)
                          .c_str(),
                      "NVIDIA H100 80GB HBM3 MIG 3g.40gb|40960|49|1\n");
}

void each_has_a_uuid(void **) {
  assert_string_equal(said_with({kTraits}, uuids).c_str(),
                      (std::string(kWhole) + " " + kFirst).c_str());
  assert_string_equal(said_with({kTraits, {"CUDA_VISIBLE_DEVICES", kSecond}}, uuids).c_str(),
                      (std::string(kWhole) + " " + kSecond).c_str());
  // A GPU has one UUID.
  assert_string_equal(said_with({}, uuids).c_str(),
                      (std::string(kWhole) + " MIG-" + (kWhole + 4)).c_str());
}

void memory_is_the_instances(void **) {
  assert_string_equal(said_with({kTraits},
                                [] {
                                  CUcontext context;
                                  CUdeviceptr at;
                                  size_t free, total;
                                  OK(cuInit(0));
                                  OK(cuDevicePrimaryCtxRetain(&context, 0));
                                  OK(cuCtxSetCurrent(context));
                                  OK(cuMemGetInfo_v2(&free, &total));
                                  assert_int_equal(total, 512u << 20);
                                  EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&at, 600u << 20));
                                  OK(cuMemAlloc_v2(&at, 500u << 20));
                                  return std::string("so");
                                })
                          .c_str(),
                      "so");
}

// A machine with a whole GPU, one with instances, and one in MIG mode that has none.
struct Machine {
  Machine() {
    const int file = mkstemp(path);
    assert_true(file >= 0);
    const char settings[] =
        "[device]\nname = Whole\n[device]\nname = Parts\nmig = 7g\n[device]\nmig = none\n";
    assert_int_equal(write(file, settings, sizeof settings - 1), sizeof settings - 1);
    close(file);
  }
  ~Machine() { unlink(path); }
  char path[32] = "/tmp/softdev-mig-XXXXXX";
};

void gpus_in_mig_mode_and_whole_ones(void **) {
  const Machine mixed;
  const std::pair<const char *, const char *> config{"SOFTWARE_DEVICE_CONFIG", mixed.path};
  const auto visible = [&](const char *value) {
    return said_with({config, {"CUDA_VISIBLE_DEVICES", value}}, devices);
  };
  const char parts[] = "Parts MIG 7g.4gb|4096|4|2\n", whole[] = "Whole|4096|4|1\n";
  // An instance leaves no whole GPU beside it.
  assert_string_equal(said_with({config}, devices).c_str(), parts);
  assert_string_equal(visible("0,1").c_str(), parts);
  assert_string_equal(visible("0").c_str(), whole);
  assert_string_equal(visible("2").c_str(), "error 100");
  assert_string_equal(visible("0,2,1").c_str(), whole);
  assert_string_equal(said_with({{"SOFTWARE_DEVICE_TRAITS", "mig=none"}}, devices).c_str(),
                      "error 100");
  assert_string_equal(said_with({config}, machine).c_str(),
                      "GPU-50f7de71-ce00-4c50-955d-0ec0de000000:\n"
                      "GPU-51f7de71-ce00-4c50-955d-0ec0de000001:M "
                      "MIG-5100de71-ce00-4c50-955d-0ec0de000101\n"
                      "GPU-52f7de71-ce00-4c50-955d-0ec0de000002:M\n");
}

void a_machine_is_described_whatever_is_visible(void **) {
  const std::string both = std::string(kWhole) + ":M " + kFirst + " " + kSecond + "\n";
  assert_string_equal(said_with({kTraits, {"CUDA_VISIBLE_DEVICES", kSecond}}, machine).c_str(),
                      both.c_str());
  assert_string_equal(said_with({{"SOFTWARE_DEVICE_TRAITS", "mig=9g"}}, machine).c_str(),
                      "not started");
}

void what_is_no_set_of_instances_is_refused(void **) {
  for (const char *wrong : {"mig", "mig=", "mig=5g", "mig=1g+", "mig=+1g", "mig=7g+1g", "mig=4g+4g",
                            "mig=4g+3g+1g", "mig=3g+3g+1g", "mig=none+1g", "-mig=1g"})
    assert_string_equal(said_with({{"SOFTWARE_DEVICE_TRAITS", wrong}}, devices).c_str(), "error 1");
  assert_string_equal(said_with({{"SOFTWARE_DEVICE_TRAITS", "mig=1g,-mig"}}, devices).c_str(),
                      "Software Device|4096|4|1\n");
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_process_sees_one_instance),
      cmocka_unit_test(each_has_a_uuid),
      cmocka_unit_test(memory_is_the_instances),
      cmocka_unit_test(gpus_in_mig_mode_and_whole_ones),
      cmocka_unit_test(a_machine_is_described_whatever_is_visible),
      cmocka_unit_test(what_is_no_set_of_instances_is_refused),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
