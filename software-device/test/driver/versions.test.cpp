// A driver of an older version (the trait `driver`): what came after it does not exist.
#include <dlfcn.h>

#include <string>

#include "abi_version.h"
#include "support.h"

namespace {

// By the environment of this test.
int expected_version() {
  const char *traits = getenv("SOFTWARE_DEVICE_TRAITS");
  int major, minor;
  if (!traits || sscanf(traits, "driver=%d.%d", &major, &minor) != 2) return ABI_DRIVER_VERSION;
  return major * 1000 + minor * 10;
}

struct Found {
  CUresult result;
  CUdriverProcAddressQueryResult status;
  void *function;
};
Found ask(const char *name, int version) {
  Found found{};
  found.result = cuGetProcAddress_v2(name, &found.function, version, 0, &found.status);
  return found;
}

void the_version_is_told_before_the_start(void **) {
  int version;
  OK(cuDriverGetVersion(&version));
  assert_int_equal(version, expected_version());
  OK(cuInit(0));
  OK(cuDriverGetVersion(&version));
  assert_int_equal(version, expected_version());
}

void what_came_later_is_not_found(void **) {
  static const struct {
    const char *name;
    int since;
  } calls[] = {
      {"cuKernelGetParamInfo", 12040},  {"cuCtxRecordEvent", 12050},
      {"cuCtxWaitEvent", 12050},        {"cuKernelGetLibrary", 12050},
      {"cuMemcpyBatchAsync", 12080},    {"cuStreamGetDevice", 12080},
      {"cuLogsCurrent", 12090},         {"cuMemGetMemPool", 13000},
      {"cuKernelGetParamCount", 13020},
  };
  for (const auto &[name, since] : calls) {
    const Found found = ask(name, 99990);
    const bool there = since <= expected_version();
    EXPECT(there ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND, found.result);
    assert_int_equal(found.status,
                     there ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    assert_int_equal(found.function != nullptr, there);
    // It is no question of the version that the program asks for, unless it is there.
    const Found early = ask(name, since - 10);
    EXPECT(CUDA_ERROR_NOT_FOUND, early.result);
    assert_int_equal(early.status, there ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                         : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  }
}

void older_versions_are_handed_out(void **) {
  const Found old = ask("cuEventElapsedTime", 2000), newest = ask("cuEventElapsedTime", 99990);
  EXPECT(CUDA_SUCCESS, old.result);
  EXPECT(CUDA_SUCCESS, newest.result);
  assert_int_equal(old.function == newest.function, expected_version() < 12080);
}

void calls_that_came_later_refuse(void **) {
  CUevent start, end;
  float milliseconds;
  OK(cuEventCreate(&start, CU_EVENT_DEFAULT));
  OK(cuEventCreate(&end, CU_EVENT_DEFAULT));
  OK(cuEventRecord(start, nullptr));
  OK(cuEventRecord(end, nullptr));
  OK(cuEventSynchronize(end));
  OK(cuEventElapsedTime(&milliseconds, start, end));
  const auto later = [](int since) {
    return since <= expected_version() ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
  };
  EXPECT(later(12080), cuEventElapsedTime_v2(&milliseconds, start, end));
  EXPECT(later(12050), cuCtxRecordEvent(nullptr, end));
  OK(cuEventDestroy_v2(start));
  OK(cuEventDestroy_v2(end));
}

// What the compiler of a driver of that version knows, as major * 10 + minor.
int newest_ptx() {
  switch (expected_version()) {
    case 12040:
      return 84;
    case 12060:
      return 85;
    case 12080:
      return 87;
    case 13000:
      return 90;
    default:
      return 0;
  }
}

std::string ptx_of(int version) {
  return "// of a test\n\n.version " + std::to_string(version / 10) + "." +
         std::to_string(version % 10) + "\n.target sm_75\n.address_size 64\n.visible .entry f()" +
         "\n{\n\tret;\n}\n";
}

void ptx_that_came_later_is_refused(void **) {
  const int newest = newest_ptx();
  if (!newest) skip();
  const std::string good = ptx_of(newest), later = ptx_of(newest + 1);
  char log[256] = "";
  CUjit_option names[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[2];
  const auto fresh = [&] {
    log[0] = 0;
    values[0] = log;
    values[1] = reinterpret_cast<void *>(sizeof log);
    return values;
  };
  char said[160];
  snprintf(said, sizeof said,
           "ptxas application ptx input, line 3; fatal   : Unsupported .version %d.%d; current "
           "version is '%d.%d'",
           (newest + 1) / 10, (newest + 1) % 10, newest / 10, newest % 10);

  CUmodule module;
  OK(cuModuleLoadData(&module, good.c_str()));
  OK(cuModuleUnload(module));
  EXPECT(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, cuModuleLoadData(&module, later.c_str()));
  EXPECT(CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
         cuModuleLoadDataEx(&module, later.c_str(), 2, names, fresh()));
  assert_non_null(strstr(log, said));

  CUlibrary library;
  OK(cuLibraryLoadData(&library, good.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  OK(cuLibraryUnload(library));
  EXPECT(CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
         cuLibraryLoadData(&library, later.c_str(), names, fresh(), 2, nullptr, nullptr, 0));
  assert_non_null(strstr(log, said));

  CUlinkState link;
  OK(cuLinkCreate_v2(2, names, fresh(), &link));
  const auto add = [&](const std::string &text) {
    return cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, const_cast<char *>(text.c_str()),
                            text.size() + 1, "input", 0, nullptr, nullptr);
  };
  OK(add(good));
  EXPECT(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, add(later));
  assert_int_equal(strncmp(log, said, strlen(said)), 0);
  OK(cuLinkDestroy(link));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(the_version_is_told_before_the_start),
      cmocka_unit_test(what_came_later_is_not_found),
      cmocka_unit_test(older_versions_are_handed_out),
      cmocka_unit_test_setup_teardown(calls_that_came_later_refuse, use_primary, release_primary),
      cmocka_unit_test_setup_teardown(ptx_that_came_later_is_refused, use_primary, release_primary),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
