#include "abi_proc_address.h"

#include <string.h>

#include "abi_lookup.h"
#include "abi_refusal.h"
#include "abi_tables.h"

CUresult abi_get_proc_address(const char *name, void **function, int version, cuuint64_t flags,
                              CUdriverProcAddressQueryResult *status) {
  const cuuint64_t known =
      CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if (!name || !function || version < 0 || (flags & ~known) || flags == known)
    return CUDA_ERROR_INVALID_VALUE;
  *function = NULL;
  int per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  CUdriverProcAddressQueryResult reason = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  // A driver has nothing that came after it, whichever version is asked for.
  const int driver = abi_host.driver_version();
  enum abi_find_status found = abi_find(name, driver, per_thread, function);
  if (found == ABI_VERSION_TOO_OLD)
    found = ABI_UNKNOWN_NAME;
  else if (version < driver)
    found = abi_find(name, version, per_thread, function);
  switch (found) {
    case ABI_FOUND:
      reason = CU_GET_PROC_ADDRESS_SUCCESS;
      break;
    case ABI_VERSION_TOO_OLD:
      *function = NULL;
      reason = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
      break;
    case ABI_NOT_IMPLEMENTED:
      if (abi_refusal_is_found(name))
        reason = CU_GET_PROC_ADDRESS_SUCCESS;
      else
        *function = NULL;
      break;
    case ABI_UNKNOWN_NAME:
      break;
  }
  if (status) *status = reason;
  return reason == CU_GET_PROC_ADDRESS_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
