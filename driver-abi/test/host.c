#include "host.h"

#include <stdio.h>
#include <string.h>

#include "abi_lookup.h"
#include "abi_refusal.h"

CUcontext test_current;
int test_driver_version = 13000;
char test_logged[256];
int test_log_count;
enum abi_log_level test_log_level;
int test_unsupported = -1;

static int driver_version(void) { return test_driver_version; }
static int device_count(void) { return 2; }

static void device_identity(int ordinal, struct abi_device_identity *identity) {
  memset(identity, 0, sizeof *identity);
  identity->uuid.bytes[0] = (char)ordinal;
  identity->pci_bus = ordinal + 2;
}

static CUresult primary_context(CUcontext *context, CUdevice device) {
  if (device < 0 || device >= 2) return CUDA_ERROR_INVALID_DEVICE;
  *context = (CUcontext)(uintptr_t)(0x1000 + device);
  return CUDA_SUCCESS;
}

static CUcontext current_context(void) { return test_current; }

static void record(enum abi_log_level level, const char *line) {
  test_log_level = level;
  test_log_count++;
  snprintf(test_logged, sizeof test_logged, "%s", line);
}

const struct abi_host abi_host = {driver_version,  device_count,    device_identity,
                                  primary_context, current_context, record};

int abi_unsupported(int entry) {
  test_unsupported = entry;
  return abi_refusal(abi_entries[entry].name);
}
