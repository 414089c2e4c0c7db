// The private tables behind cuGetExportTable that cudart asks any libcuda.so.1 for, with the
// integrity answer and the tools buffers that belong to them.
//
// The embedding library defines `abi_host`: the few facts the tables need. Nothing here allocates
// at load time, starts a thread or has a constructor.
#ifndef ABI_TABLES_H
#define ABI_TABLES_H

#include "cuda_driver.h"

#ifdef __cplusplus
extern "C" {
#endif

// How a device is named in the integrity answer. Must be the very values that cuDeviceGetUuid and
// cuDeviceGetAttribute (50, 33, 34) report.
struct abi_device_identity {
  CUuuid uuid;
  int pci_domain;
  int pci_bus;
  int pci_device;
};

enum abi_log_level { ABI_LOG_ERROR, ABI_LOG_WARN, ABI_LOG_INFO, ABI_LOG_DEBUG };

struct abi_host {
  // What cuDriverGetVersion reports.
  int (*driver_version)(void);
  // Devices after cuInit; 0 before.
  int (*device_count)(void);
  // For 0 <= ordinal < device_count().
  void (*device_identity)(int ordinal, struct abi_device_identity *identity);
  // The handle that cuDevicePrimaryCtxRetain will return, WITHOUT retaining it.
  CUresult (*primary_context)(CUcontext *context, CUdevice device);
  // The calling thread's current context, or NULL.
  CUcontext (*current_context)(void);
  // One line without a newline; may be called from any thread.
  void (*log)(enum abi_log_level level, const char *line);
};

// Defined by the embedding library.
extern const struct abi_host abi_host;

// The table called `id`, or NULL when we have none by that name; an unknown id is reported to
// abi_host.log. cuGetExportTable answers CUDA_ERROR_NOT_FOUND then.
const void *abi_export_table(const CUuuid *id);

// cuGetExportTable, whole: checks its arguments, and sets *table to NULL when it refuses.
CUresult abi_get_export_table(const void **table, const CUuuid *id);

#ifdef __cplusplus
}
#endif
#endif
