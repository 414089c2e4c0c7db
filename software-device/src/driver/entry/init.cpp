// Entry points: start, look-ups, errors.
#include <atomic>

#include "abi_lookup.h"
#include "abi_proc_address.h"
#include "abi_refusal.h"
#include "abi_result.h"
#include "abi_tables.h"
#include "entry/entry.h"

using namespace softdev::driver;

extern "C" {

CUresult cuInit(unsigned int flags) {
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  return guarded(initialise);
}

CUresult cuDriverGetVersion(int *version) {
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  *version = driver_version();
  return CUDA_SUCCESS;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status) {
  return abi_get_proc_address(symbol, function, version, flags, status);
}

CUresult cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags) {
  return abi_get_proc_address(symbol, function, version, flags, nullptr);
}

CUresult cuGetExportTable(const void **table, const CUuuid *id) {
  return abi_get_export_table(table, id);
}

CUresult cuGetErrorName(CUresult error, const char **name) {
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  *name = abi_result_name(error);
  return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **sentence) {
  if (!sentence) return CUDA_ERROR_INVALID_VALUE;
  *sentence = abi_result_sentence(error);
  return *sentence ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuProfilerStart() { return enter(); }
CUresult cuProfilerStop() { return enter(); }

int abi_unsupported(int entry) {
  static std::atomic<unsigned> calls[ABI_ENTRY_COUNT];
  if (calls[entry].fetch_add(1, std::memory_order_relaxed) == 0)
    log(Level::kWarn, "%s is not supported", abi_entries[entry].name);
  return abi_refusal(abi_entries[entry].name);
}

}  // extern "C"
