// Devices: which are visible and in what order, and what is said of them.
#include "session/device.h"

#include <string.h>

#include "abi_version.h"
#include "check.h"
#include "guest_calls.h"
#include "log_capture.h"
#include "session/device_claims.h"

#define ALL 4

static struct device all[ALL];

static int describe(void **state) {
  (void)state;
  memset(all, 0, sizeof all);
  for (int i = 0; i < ALL; i++) {
    all[i].server_ordinal = (uint32_t)i;
    snprintf(all[i].name, sizeof all[i].name, "device %d", i);
    // The first two differ in their last byte only, the others in the first.
    memset(all[i].uuid.bytes, i < 2 ? 0xab : 0x10 * i, 16);
    all[i].uuid.bytes[15] = (char)i;
    snprintf(all[i].pci_bus_id, sizeof all[i].pci_bus_id, "0000:0%d:00.0", i + 1);
    all[i].attribute_count = 143;
    for (unsigned a = 1; a < 143; a++) all[i].attributes[a] = (int)(1000 * i + a);
    all[i].limit_count = 3;
    all[i].limits[1] = 1 << 20;
    all[i].least_priority = 0;
    all[i].greatest_priority = -5;
  }
  log_capture("warn");
  log_captured();
  return 0;
}

// What there is of other ways to write it: driver-abi/test/visible.tsv.
struct row {
  const char *visible;
  const char *devices;  // server ordinals, in order
  const char *says;     // in the log; NULL: nothing
};

static const struct row rows[] = {
    {NULL, "0123", NULL},
    {"", "", NULL},
    {"0", "0", NULL},
    {"2", "2", NULL},
    {"3,1", "31", NULL},
    {"3,2,1,0", "3210", NULL},
    {"0,1,", "01", NULL},
    // The list ends at the first that names no device.
    {"4", "", "\"4\" names no device"},
    {"1,4,2", "1", "\"4\" names no device"},
    {"-1", "", "\"-1\" names no device"},
    {"2,-1,0", "2", "\"-1\" names no device"},
    {"none", "", "\"none\" names no device"},
    {"NoDevFiles", "", "names no device"},
    {"0,,1", "0", "\"\" names no device"},
    {"GPU-3,GPU-nothing,GPU-2", "3", "\"GPU-nothing\" names no device"},
    {"MIG-GPU-0/1/0", "", "names no device"},
    // Twice: none.
    {"0,0", "", "twice"},
    {"1,2,1", "", "twice"},
    {"GPU-2,GPU-20", "", "twice"},
    // UUIDs, whole or a prefix that fits one.
    {"GPU-20202020-2020-2020-2020-202020202002", "2", NULL},
    {"GPU-30303030", "3", NULL},
    {"GPU-3", "3", NULL},
    {"GPU-ABABABAB-abab-abab-abab-ababababab01", "1", NULL},
    {"GPU-3,0,GPU-2", "3", "\"0\" is of another kind"},
    {"2,GPU-3,0", "2", "\"GPU-3\" is of another kind"},
    {"GPU-ab", "", "fits several devices"},
    {"GPU-", "", "fits several devices"},
    {"GPU-20202020-2020-2020-2020-2020202020020", "", "names no device"},  // too long
};

static void visible_devices(void **state) {
  (void)state;
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
    const struct row *row = &rows[i];
    device_start(all, ALL, row->visible, 13000);
    char seen[ALL + 1] = "";
    for (int d = 0; d < device_count(); d++) seen[d] = (char)('0' + device_get(d)->server_ordinal);
    const char *log = log_captured();
    if (strcmp(seen, row->devices) != 0 || (row->says ? !strstr(log, row->says) : *log))
      fail_msg("CUDA_VISIBLE_DEVICES=%s: devices \"%s\", log \"%s\"",
               row->visible ? row->visible : "(unset)", seen, log);
  }
}

static void instances_have_the_uuid_of_their_gpu_besides(void **state) {
  (void)state;
  static struct device some[2];
  memcpy(some, all, sizeof some);
  memset(some[0].uuid.bytes, 0x11, 16);
  memset(some[0].gpu_uuid.bytes, 0x33, 16);
  some[0].instance = 1;
  memset(some[1].uuid.bytes, 0x22, 16);
  some[1].gpu_uuid = some[1].uuid;
  CUuuid now, before;
  device_start(some, 2, NULL, 13000);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(guest_cuDeviceGetUuid_v2(&now, i), CUDA_SUCCESS);
    assert_int_equal(guest_cuDeviceGetUuid(&before, i), CUDA_SUCCESS);
    assert_memory_equal(&now, &some[i].uuid, 16);
    assert_memory_equal(&before, &some[i].gpu_uuid, 16);
  }
  assert_int_equal(guest_cuDeviceGetUuid(&before, 2), CUDA_ERROR_INVALID_DEVICE);
  assert_int_equal(guest_cuDeviceGetUuid(NULL, 0), CUDA_ERROR_INVALID_VALUE);
  // An instance is named by its whole UUID, and is no GPU.
  static const struct {
    const char *visible;
    int devices;
  } cases[] = {{"MIG-11111111-1111-1111-1111-111111111111", 1},
               {"MIG-1111", 0},
               {"GPU-11111111-1111-1111-1111-111111111111", 0},
               {"MIG-22222222-2222-2222-2222-222222222222", 0},
               {"GPU-2,MIG-11111111-1111-1111-1111-111111111111", 1}};
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    device_start(some, 2, cases[i].visible, 13000);
    if (device_count() != cases[i].devices) fail_msg("%s: %d", cases[i].visible, device_count());
  }
}

static void they_are_renumbered(void **state) {
  (void)state;
  device_start(all, ALL, "3,1", 13000);
  int count, value;
  CUdevice device;
  char name[32];
  assert_int_equal(guest_cuDeviceGetCount(&count), CUDA_SUCCESS);
  assert_int_equal(count, 2);
  assert_int_equal(guest_cuDeviceGet(&device, 1), CUDA_SUCCESS);
  assert_int_equal(guest_cuDeviceGetName(name, sizeof name, device), CUDA_SUCCESS);
  assert_string_equal(name, "device 1");
  assert_int_equal(guest_cuDeviceGetAttribute(&value, 16, 0), CUDA_SUCCESS);
  assert_int_equal(value, 3016);
  assert_int_equal(guest_cuDeviceGet(&device, 2), CUDA_ERROR_INVALID_DEVICE);
  assert_int_equal(guest_cuDeviceGet(&device, -1), CUDA_ERROR_INVALID_DEVICE);
  assert_int_equal(guest_cuDeviceGetAttribute(&value, 16, 2), CUDA_ERROR_INVALID_DEVICE);
}

static void a_name_is_cut_to_its_buffer(void **state) {
  (void)state;
  device_start(all, ALL, NULL, 13000);
  char name[5] = "zzzz";
  assert_int_equal(guest_cuDeviceGetName(name, 4, 0), CUDA_SUCCESS);
  assert_string_equal(name, "dev");
  assert_int_equal(guest_cuDeviceGetName(name, 0, 0), CUDA_ERROR_INVALID_VALUE);
}

static void attributes(void **state) {
  (void)state;
  device_start(all, ALL, NULL, 13000);
  int value;
  assert_int_equal(guest_cuDeviceGetAttribute(&value, 0, 0), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(guest_cuDeviceGetAttribute(&value, 142, 0), CUDA_SUCCESS);
  assert_int_equal(guest_cuDeviceGetAttribute(&value, 143, 0), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(guest_cuDeviceGetAttribute(&value, -1, 0), CUDA_ERROR_INVALID_VALUE);
  // What does not reach across a network is not offered.
  static const CUdevice_attribute never[] = {
      CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
      CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
      CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS,
      CU_DEVICE_ATTRIBUTE_INTEGRATED,
      CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED,
      CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED,
      CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK};
  for (unsigned i = 0; i < sizeof never / sizeof *never; i++) {
    assert_int_equal(guest_cuDeviceGetAttribute(&value, never[i], 0), CUDA_SUCCESS);
    assert_int_equal(value, 0);
  }
}

static void only_what_is_known_and_served_is_claimed(void **state) {
  (void)state;
  for (unsigned a = 1; a < CU_DEVICE_ATTRIBUTE_MAX; a++)
    if (!device_claims_knows(a)) fail_msg("attribute %u is neither passed on nor refused", a);
  assert_false(device_claims_knows(CU_DEVICE_ATTRIBUTE_MAX));
  // A driver to come has one more.
  log_capture("info");
  for (int i = 0; i < ALL; i++) {
    all[i].attribute_count = CU_DEVICE_ATTRIBUTE_MAX + 1;
    for (unsigned a = 1; a <= CU_DEVICE_ATTRIBUTE_MAX; a++) all[i].attributes[a] = 1;
  }
  device_start(all, ALL, NULL, 13000);
  int value;
  assert_int_equal(guest_cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX, 0), CUDA_SUCCESS);
  assert_int_equal(value, 0);
  const char *said = strstr(log_captured(), "does not know it");
  assert_non_null(said);
  assert_null(strstr(said + 1, "does not know it"));
  static const CUdevice_attribute never[] = {
      CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED,
      CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED,
      CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
      CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES,
      CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH};
  for (unsigned i = 0; i < sizeof never / sizeof *never; i++)
    assert_int_equal(device_attribute(0, never[i]), 0);
  assert_int_equal(device_attribute(0, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH), 1);
  assert_int_equal(device_attribute(0, CU_DEVICE_ATTRIBUTE_NUMA_ID), -1);
}

static void pci_ids(void **state) {
  (void)state;
  device_start(all, ALL, NULL, 13000);
  char id[32];
  CUdevice device;
  assert_int_equal(guest_cuDeviceGetPCIBusId(id, sizeof id, 2), CUDA_SUCCESS);
  assert_string_equal(id, "0000:03:00.0");
  assert_int_equal(guest_cuDeviceGetByPCIBusId(&device, id), CUDA_SUCCESS);
  assert_int_equal(device, 2);
  assert_int_equal(guest_cuDeviceGetByPCIBusId(&device, "04:00.0"), CUDA_SUCCESS);
  assert_int_equal(device, 3);
  assert_int_equal(guest_cuDeviceGetByPCIBusId(&device, "02:00"), CUDA_SUCCESS);
  assert_int_equal(device, 1);
  assert_int_equal(guest_cuDeviceGetByPCIBusId(&device, "09:00.0"), CUDA_ERROR_INVALID_DEVICE);
  // Neither a place, nor the first one that begins so.
  assert_int_equal(guest_cuDeviceGetByPCIBusId(&device, ""), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(guest_cuDeviceGetByPCIBusId(&device, "0"), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(guest_cuDeviceGetByPCIBusId(&device, "2:0"), CUDA_SUCCESS);
}

static void versions(void **state) {
  (void)state;
  device_start(all, ALL, NULL, 12080);  // the server's is older: the program must know
  assert_int_equal(device_driver_version(), 12080);
  device_start(all, ALL, NULL, 14000);  // newer than what this library knows
  assert_int_equal(device_driver_version(), ABI_DRIVER_VERSION);
  device_start(all, ALL, NULL, 12060);
  assert_int_equal(device_tell_version(), 12060);
  device_start(all, ALL, NULL, 13000);  // cudart asks before there is a server, and compares later
  assert_int_equal(device_driver_version(), 12060);
  assert_int_equal(device_tell_version(), 12060);
  assert_int_equal(device_server_version(), 13000);
}

static void limits_and_priorities(void **state) {
  (void)state;
  device_start(all, ALL, NULL, 13000);
  size_t value;
  assert_int_equal(device_limit(0, (CUlimit)1, &value), CUDA_SUCCESS);
  assert_int_equal(value, 1 << 20);
  assert_int_equal(device_limit(0, (CUlimit)3, &value), CUDA_ERROR_UNSUPPORTED_LIMIT);
  device_set_limit(0, (CUlimit)1, 5);
  assert_int_equal(device_limit(0, (CUlimit)1, &value), CUDA_SUCCESS);
  assert_int_equal(value, 5);
  assert_int_equal(device_clamp_priority(-9), -5);
  assert_int_equal(device_clamp_priority(9), 0);
  assert_int_equal(device_clamp_priority(-2), -2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(visible_devices, describe),
      cmocka_unit_test_setup(instances_have_the_uuid_of_their_gpu_besides, describe),
      cmocka_unit_test_setup(they_are_renumbered, describe),
      cmocka_unit_test_setup(a_name_is_cut_to_its_buffer, describe),
      cmocka_unit_test_setup(attributes, describe),
      cmocka_unit_test_setup(only_what_is_known_and_served_is_claimed, describe),
      cmocka_unit_test_setup(pci_ids, describe),
      cmocka_unit_test_setup(versions, describe),
      cmocka_unit_test_setup(limits_and_priorities, describe),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
