#include <string.h>

#include "abi_lookup.h"
#include "abi_proc_address.h"
#include "host.h"

// Strong definitions beat the stubs: what a library implements is found.
CUresult cuInit(unsigned int flags) {
  return flags == 77 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t size) {
  (void)to, (void)from, (void)size;
  return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void *from, size_t size) {
  (void)to, (void)from, (void)size;
  return CUDA_SUCCESS;
}
CUresult cuCtxSynchronize(void) { return CUDA_SUCCESS; }
CUresult cuCtxSynchronize_v2(CUcontext context) {
  (void)context;
  return CUDA_SUCCESS;
}

static void *ask(const char *name, int version, cuuint64_t flags) {
  void *function = (void *)1;
  CUdriverProcAddressQueryResult status = 99;
  CUresult result = abi_get_proc_address(name, &function, version, flags, &status);
  assert_int_equal(status == CU_GET_PROC_ADDRESS_SUCCESS, result == CUDA_SUCCESS);
  assert_int_equal(result == CUDA_SUCCESS, function != NULL);
  return function;
}

static void newest_abi_not_newer_than_asked(void **state) {
  (void)state;
  assert_ptr_equal(ask("cuInit", 2000, 0), cuInit);
  assert_ptr_equal(ask("cuCtxSynchronize", 2000, 0), cuCtxSynchronize);
  assert_ptr_equal(ask("cuCtxSynchronize", 12090, 0), cuCtxSynchronize);
  assert_ptr_equal(ask("cuCtxSynchronize", 13000, 0), cuCtxSynchronize_v2);
  assert_ptr_equal(ask("cuCtxSynchronize", 99000, 0), cuCtxSynchronize_v2);
}

static void per_thread_variant_falls_back(void **state) {
  (void)state;
  assert_ptr_equal(ask("cuMemcpyHtoD", 7000, 2), cuMemcpyHtoD_v2_ptds);
  assert_ptr_equal(ask("cuMemcpyHtoD", 7000, 0), cuMemcpyHtoD_v2);
  assert_ptr_equal(ask("cuMemcpyHtoD", 7000, 1), cuMemcpyHtoD_v2);
  assert_ptr_equal(ask("cuInit", 7000, 2), cuInit);
}

static void assert_refused(const char *symbol, int version, CUdriverProcAddressQueryResult why) {
  void *function = (void *)1;
  CUdriverProcAddressQueryResult status;
  assert_int_equal(abi_get_proc_address(symbol, &function, version, 0, &status),
                   CUDA_ERROR_NOT_FOUND);
  assert_int_equal(status, why);
  assert_null(function);
}

static void refusals_say_why(void **state) {
  (void)state;
  void *function = (void *)1;
  CUdriverProcAddressQueryResult status;
  assert_refused("cuNoSuchCall", 13000, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  assert_refused("cuInit", 1000, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  // There as a symbol, but not implemented here.
  assert_refused("cuMemFree", 3020, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  // The probe that cudart starts with.
  assert_int_equal(abi_get_proc_address("", &function, 0, 0, &status), CUDA_ERROR_NOT_FOUND);
  assert_int_equal(abi_get_proc_address("cuInit", &function, 2000, 0, NULL), CUDA_SUCCESS);
}

// cuCtxSynchronize_v2 and cuDeviceGetP2PAtomicCapabilities came with 13.0.
static void a_driver_has_nothing_that_came_after_it(void **state) {
  (void)state;
  void *function = (void *)1;
  CUdriverProcAddressQueryResult status;
  test_driver_version = 12040;
  assert_ptr_equal(ask("cuCtxSynchronize", 13000, 0), cuCtxSynchronize);
  assert_ptr_equal(ask("cuCtxSynchronize", 99000, 0), cuCtxSynchronize);
  for (int version = 12000; version <= 13000; version += 1000) {
    assert_int_equal(abi_get_proc_address("cuCtxSynchronize_v2", &function, version, 0, &status),
                     CUDA_ERROR_NOT_FOUND);
    assert_refused("cuDevSmResourceSplit", version + 10, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  }
  assert_refused("cuInit", 1000, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  test_driver_version = 13010;
  assert_ptr_equal(ask("cuCtxSynchronize", 13010, 0), cuCtxSynchronize_v2);
  assert_non_null(ask("cuDevSmResourceSplit", 13010, 0));
  test_driver_version = 13000;
}

static void entries_know_since_when_they_are_there(void **state) {
  (void)state;
  for (int entry = 0; entry < ABI_ENTRY_COUNT; entry++) {
    const char *name = abi_entries[entry].name;
    const int since = abi_since(entry);
    assert_true(since >= 2000);
    if (strcmp(name, "cuCtxSynchronize") == 0) assert_int_equal(since, 2000);
    if (strcmp(name, "cuCtxSynchronize_v2") == 0) assert_int_equal(since, 13000);
  }
}

static void what_pytorch_wants_at_its_start_is_found_and_refuses(void **state) {
  (void)state;
  CUresult (*create)(void *, const void *) = NULL;
  *(void **)&create = ask("cuMulticastCreate", 12010, 0);
  assert_non_null(create);
  assert_int_equal(create(NULL, NULL), CUDA_ERROR_NOT_SUPPORTED);
  assert_string_equal(abi_entries[test_unsupported].name, "cuMulticastCreate");
  assert_null(ask("cuMulticastCreate", 11000, 0));
}

// As of a driver on a machine without a display.
static void what_goes_with_graphics_is_found_and_refuses(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int version;
    CUresult result;
  } calls[] = {
      {"cuGraphicsGLRegisterBuffer", 3000, CUDA_ERROR_INVALID_GRAPHICS_CONTEXT},
      {"cuGraphicsGLRegisterImage", 3000, CUDA_ERROR_INVALID_GRAPHICS_CONTEXT},
      {"cuGLGetDevices", 6050, CUDA_ERROR_INVALID_GRAPHICS_CONTEXT},
      {"cuGraphicsMapResources", 7000, CUDA_ERROR_INVALID_HANDLE},
      {"cuGraphicsUnmapResources", 7000, CUDA_ERROR_INVALID_HANDLE},
      {"cuGraphicsResourceGetMappedPointer", 3020, CUDA_ERROR_INVALID_HANDLE},
      {"cuGraphicsSubResourceGetMappedArray", 3000, CUDA_ERROR_INVALID_HANDLE},
      {"cuGraphicsUnregisterResource", 3000, CUDA_ERROR_INVALID_HANDLE},
      {"cuGraphicsEGLRegisterImage", 7000, CUDA_ERROR_NOT_SUPPORTED},
      {"cuEGLStreamConsumerConnect", 7000, CUDA_ERROR_NOT_SUPPORTED},
      {"cuEventCreateFromEGLSync", 9000, CUDA_ERROR_NOT_SUPPORTED},
      {"cuVDPAUGetDevice", 3010, CUDA_ERROR_NOT_SUPPORTED},
      {"cuGraphicsVDPAURegisterVideoSurface", 3010, CUDA_ERROR_NOT_SUPPORTED},
  };
  for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) {
    CUresult (*call)(void) = NULL;
    *(void **)&call = ask(calls[i].name, calls[i].version, 0);
    if (!call) fail_msg("%s is not found", calls[i].name);
    if (call() != calls[i].result) fail_msg("%s does not give %d", calls[i].name, calls[i].result);
  }
}

static void bad_arguments(void **state) {
  (void)state;
  void *function;
  assert_int_equal(abi_get_proc_address(NULL, &function, 2000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(abi_get_proc_address("cuInit", NULL, 2000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(abi_get_proc_address("cuInit", &function, 2000, 4, NULL),
                   CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(abi_get_proc_address("cuInit", &function, 2000, 3, NULL),
                   CUDA_ERROR_INVALID_VALUE);
}

static void a_stub_reports_its_own_name(void **state) {
  (void)state;
  assert_int_equal(cuMemFree_v2(0), CUDA_ERROR_NOT_SUPPORTED);
  assert_string_equal(abi_entries[test_unsupported].name, "cuMemFree_v2");
}

// abi_find does a binary search, and takes the last fitting row of a name.
static void lookups_are_sorted(void **state) {
  (void)state;
  for (int i = 1; i < ABI_LOOKUP_COUNT; i++) {
    int order = strcmp(abi_lookups[i - 1].name, abi_lookups[i].name);
    assert_true(order < 0 || (order == 0 && abi_lookups[i - 1].version <= abi_lookups[i].version));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(newest_abi_not_newer_than_asked),
      cmocka_unit_test(per_thread_variant_falls_back),
      cmocka_unit_test(refusals_say_why),
      cmocka_unit_test(a_driver_has_nothing_that_came_after_it),
      cmocka_unit_test(entries_know_since_when_they_are_there),
      cmocka_unit_test(what_pytorch_wants_at_its_start_is_found_and_refuses),
      cmocka_unit_test(what_goes_with_graphics_is_found_and_refuses),
      cmocka_unit_test(bad_arguments),
      cmocka_unit_test(a_stub_reports_its_own_name),
      cmocka_unit_test(lookups_are_sorted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
