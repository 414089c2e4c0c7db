#include "lt_handle.h"

#include <stdint.h>
#include <stdlib.h>

#include "door.h"
#include "handle.h"
#include "lt_served.h"
#include "setup/log.h"
#include "status.h"

#define LT_HANDLE_MAGIC 0x74736c62756375ull

struct lt_handle {
  uint64_t magic;  // LT_HANDLE_MAGIC as long as it is live; where one of cuBLAS has its own
};

_Bool lt_usable(const void *handle) {
  if (!handle || door_is_child()) return 0;
  const uint64_t magic = *(const uint64_t *)handle;
  return magic == LT_HANDLE_MAGIC || magic == HANDLE_MAGIC;
}

SERVED int cublasLtCreate(struct lt_handle **out) {
  if (!out) return STATUS_INVALID_VALUE;
  *out = NULL;
  if (!door() || door_is_child()) return STATUS_NOT_INITIALIZED;
  uint64_t wire;
  uint32_t version;
  CUresult result = door_context();
  // All that is asked is whether the server has the library. Nothing of that leaves the process.
  if (!result) result = door()->remote_begin(&wire, &version);
  if (result == CUDA_ERROR_NOT_SUPPORTED) {
    door_say_unserved();
    return STATUS_NOT_INITIALIZED;
  }
  if (result) return status_of(result);
  door()->remote_end(wire);
  struct lt_handle *handle = malloc(sizeof *handle);
  if (!handle) return STATUS_ALLOC_FAILED;
  handle->magic = LT_HANDLE_MAGIC;
  *out = handle;
  return STATUS_SUCCESS;
}

SERVED int cublasLtDestroy(struct lt_handle *handle) {
  if (!lt_usable(handle) || handle->magic != LT_HANDLE_MAGIC) return STATUS_NOT_INITIALIZED;
  handle->magic = 0;
  free(handle);
  return STATUS_SUCCESS;
}
