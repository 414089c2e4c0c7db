// The library itself: initialisation, versions, look-ups, and what cudart asks privately.
#include <string.h>

#include "abi_lookup.h"
#include "abi_proc_address.h"
#include "abi_tables.h"
#include "driver/attach.h"
#include "driver/companion.h"
#include "guest_calls.h"
#include "session/context.h"
#include "session/device.h"
#include "setup/environment.h"
#include "setup/log.h"

CUresult guest_cuInit(unsigned int Flags) { return Flags ? CUDA_ERROR_INVALID_VALUE : attach(); }

CUresult guest_cuDriverGetVersion(int *driverVersion) {
  if (!driverVersion) return CUDA_ERROR_INVALID_VALUE;
  *driverVersion = device_tell_version();
  return CUDA_SUCCESS;
}

CUresult guest_cuModuleGetLoadingMode(CUmoduleLoadingMode *mode) {
  if (!mode) return CUDA_ERROR_INVALID_VALUE;
  const char *wanted = environment("CUDA_MODULE_LOADING");
  *mode = wanted && strcmp(wanted, "EAGER") == 0 ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

// A profiler would have to run where the GPU is: these mark a range for one that is not there.
CUresult guest_cuProfilerStart(void) { return CUDA_SUCCESS; }
CUresult guest_cuProfilerStop(void) { return CUDA_SUCCESS; }

CUresult guest_cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion,
                                   cuuint64_t flags, CUdriverProcAddressQueryResult *symbolStatus) {
  return abi_get_proc_address(symbol, pfn, cudaVersion, flags, symbolStatus);
}

CUresult guest_cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags) {
  return abi_get_proc_address(symbol, pfn, cudaVersion, flags, NULL);
}

CUresult guest_cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId) {
  const struct companion_table *ours = companion_table(pExportTableId);
  if (!ours || !ppExportTable) return abi_get_export_table(ppExportTable, pExportTableId);
  *ppExportTable = ours;
  return CUDA_SUCCESS;
}

// ---- what the private tables ask of us ---------------------------------------------------------

static void identity(int ordinal, struct abi_device_identity *identity) {
  identity->uuid = device_get(ordinal)->gpu_uuid;
  identity->pci_domain = device_attribute(ordinal, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
  identity->pci_bus = device_attribute(ordinal, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
  identity->pci_device = device_attribute(ordinal, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
}

static CUresult primary_context(CUcontext *context, CUdevice device) {
  if (!device_exists(device)) return CUDA_ERROR_INVALID_DEVICE;
  *context = (CUcontext)(uintptr_t)context_primary(device);
  return CUDA_SUCCESS;
}

static CUcontext current_context(void) { return (CUcontext)(uintptr_t)context_current_handle(); }

static void log_line(enum abi_log_level level, const char *line) {
  static const enum log_level levels[] = {LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG};
  log_write(levels[level], "%s", line);
}

const struct abi_host abi_host __attribute__((visibility("hidden"))) = {
    .driver_version = device_driver_version,
    .device_count = device_count,
    .device_identity = identity,
    .primary_context = primary_context,
    .current_context = current_context,
    .log = log_line,
};
