#include "handle.h"

#include <stdlib.h>

#include "base/notice.h"
#include "call.h"
#include "cublas_calls.h"
#include "cublas_hand.h"
#include "door.h"
#include "status.h"

enum { MATH_DEFAULT = 0, ATOMICS_NOT_ALLOWED = 0 };

struct cublas_handle *handle_use(struct cublas_handle *handle) {
  // The lock may be one that another thread of the parent held.
  if (!handle || handle->magic != HANDLE_MAGIC || door_is_child()) return NULL;
  pthread_mutex_lock(&handle->lock);
  return handle;
}

void handle_used(struct cublas_handle *handle) { pthread_mutex_unlock(&handle->lock); }

// ---- their life --------------------------------------------------------------------------------

static int begin(struct cublas_handle *handle) {
  CUresult result = door_context();
  if (!result) result = door()->remote_begin(&handle->wire, &handle->version);
  if (result == CUDA_ERROR_NOT_SUPPORTED) {
    door_say_unserved();
    return STATUS_NOT_INITIALIZED;
  }
  if (result) return status_of(result);
  const int status = call_plain(handle, CUBLAS_cublasCreate_v2, NULL, 0, 1);
  if (!status) return status;
  if (status == STATUS_ALLOC_FAILED)
    notice(LOG_ERROR,
           "the session has no memory left for a handle of cuBLAS: after the first they count with "
           "the code that it loads. Start the server with a larger `outboard serve "
           "--module-memory`, or run the program with --libraries=guest");
  // The server keeps the number until then.
  call_plain(handle, CUBLAS_cublasDestroy_v2, NULL, 0, 0);
  door()->remote_end(handle->wire);
  return status;
}

int cublas_cublasCreate_v2(struct cublas_handle **out) {
  if (!out) return STATUS_INVALID_VALUE;
  *out = NULL;
  if (!door() || door_is_child()) return STATUS_NOT_INITIALIZED;
  struct cublas_handle *handle = calloc(1, sizeof *handle);
  if (!handle) return STATUS_ALLOC_FAILED;
  handle->math = MATH_DEFAULT;
  handle->atomics = ATOMICS_NOT_ALLOWED;
  const int status = begin(handle);
  if (status) {
    free(handle);
    return status;
  }
  pthread_mutex_init(&handle->lock, NULL);
  handle->magic = HANDLE_MAGIC;
  *out = handle;
  return STATUS_SUCCESS;
}

int cublas_cublasDestroy_v2(struct cublas_handle *given) {
  struct cublas_handle *handle = handle_use(given);
  if (!handle) return STATUS_NOT_INITIALIZED;
  handle->magic = 0;
  // The stream may be gone by now.
  handle->stream = NULL;
  const int status = call_plain(handle, CUBLAS_cublasDestroy_v2, NULL, 0, 0);
  door()->remote_end(handle->wire);
  handle_used(handle);
  pthread_mutex_destroy(&handle->lock);
  free(handle);
  return status;
}

// ---- what programs set -------------------------------------------------------------------------

// Runs `change` with the handle locked, and returns what it says.
#define WITH_HANDLE(given, change)                    \
  do {                                                \
    struct cublas_handle *handle = handle_use(given); \
    if (!handle) return STATUS_NOT_INITIALIZED;       \
    int status = STATUS_SUCCESS;                      \
    change;                                           \
    handle_used(handle);                              \
    return status;                                    \
  } while (0)

int cublas_cublasSetStream_v2(struct cublas_handle *given, void *stream) {
  WITH_HANDLE(given, {
    // Which gives up the program's workspace.
    handle->stream = stream;
    handle->workspace = NULL;
    handle->workspace_size = 0;
    handle->set = (handle->set & ~(unsigned)SET_WORKSPACE) | SET_STREAM;
  });
}

int cublas_cublasGetStream_v2(struct cublas_handle *given, void *out) {
  if (!out) return STATUS_INVALID_VALUE;
  WITH_HANDLE(given, { *(CUstream *)out = handle->stream; });
}

int cublas_cublasSetWorkspace_v2(struct cublas_handle *given, void *workspace, size_t size) {
  // As the library has it: whatever is not aligned to 256 bytes is refused.
  if ((uintptr_t)workspace % 256) return STATUS_INVALID_VALUE;
  WITH_HANDLE(given, {
    handle->workspace = workspace;
    handle->workspace_size = size;
    handle->set |= SET_WORKSPACE;
  });
}

int cublas_cublasSetPointerMode_v2(struct cublas_handle *given, int mode) {
  if (mode != LIBRARY_MODE_HOST && mode != LIBRARY_MODE_DEVICE) return STATUS_INVALID_VALUE;
  WITH_HANDLE(given, { handle->pointer_mode = mode; });
}

int cublas_cublasGetPointerMode_v2(struct cublas_handle *given, void *out) {
  if (!out) return STATUS_INVALID_VALUE;
  WITH_HANDLE(given, { *(int *)out = handle->pointer_mode; });
}

int cublas_cublasSetAtomicsMode(struct cublas_handle *given, int mode) {
  if (mode != 0 && mode != 1) return STATUS_INVALID_VALUE;
  WITH_HANDLE(given, {
    handle->atomics = mode;
    handle->set |= SET_ATOMICS;
  });
}

int cublas_cublasGetAtomicsMode(struct cublas_handle *given, void *out) {
  if (!out) return STATUS_INVALID_VALUE;
  WITH_HANDLE(given, { *(int *)out = handle->atomics; });
}

// Which of them there are is known to the library alone: what is new is asked for.
int cublas_cublasSetMathMode(struct cublas_handle *given, int mode) {
  WITH_HANDLE(given, {
    const uint64_t word = (uint64_t)(int64_t)mode;
    const _Bool known = mode >= 0 && (mode & 0xf) <= 3 && (mode & ~0x13) == 0;
    if (!known) status = call_plain(handle, CUBLAS_cublasSetMathMode, &word, 1, 1);
    if (!status) handle->math = mode;
    if (!status && known) handle->set |= SET_MATH;
  });
}

int cublas_cublasGetMathMode(struct cublas_handle *given, void *out) {
  if (!out) return STATUS_INVALID_VALUE;
  WITH_HANDLE(given, { *(int *)out = handle->math; });
}

// How many there are the library asks the device: so does this.
int cublas_cublasSetSmCountTarget(struct cublas_handle *given, int count) {
  WITH_HANDLE(given, {
    const uint64_t word = (uint64_t)(int64_t)count;
    if (count) status = call_plain(handle, CUBLAS_cublasSetSmCountTarget, &word, 1, 1);
    if (!status) handle->sm_count = count;
    if (!status && !count) handle->set |= SET_SM_COUNT;
  });
}

int cublas_cublasGetSmCountTarget(struct cublas_handle *given, void *out) {
  if (!out) return STATUS_INVALID_VALUE;
  WITH_HANDLE(given, { *(int *)out = handle->sm_count; });
}

int cublas_cublasSetEmulationStrategy(struct cublas_handle *given, int strategy) {
  enum { EAGER = 2 };
  WITH_HANDLE(given, {
    if (strategy < 0 || strategy > EAGER) status = STATUS_INVALID_VALUE;
    if (!status && strategy != handle->emulation) handle->set |= SET_EMULATION;
    if (!status) handle->emulation = strategy;
  });
}

int cublas_cublasGetEmulationStrategy(struct cublas_handle *given, void *out) {
  WITH_HANDLE(given, {
    if (!out) status = STATUS_INVALID_VALUE;
    if (out) *(int *)out = handle->emulation;
  });
}

int cublas_cublasSetEnvironmentMode(struct cublas_handle *given, int mode) {
  WITH_HANDLE(given, {
    if (mode != 0 && mode != 1) status = STATUS_INVALID_VALUE;
    if (!status && mode != handle->environment) handle->set |= SET_ENVIRONMENT;
    if (!status) handle->environment = mode;
  });
}

int cublas_cublasGetEnvironmentMode(struct cublas_handle *given, void *out) {
  WITH_HANDLE(given, {
    if (!out) status = STATUS_INVALID_VALUE;
    if (out) *(int *)out = handle->environment;
  });
}

int cublas_cublasGetVersion_v2(struct cublas_handle *given, void *out) {
  if (!out) return STATUS_INVALID_VALUE;
  // Without a handle, too, as the library does.
  if (!given) {
    int parts[3] = {0};
    for (int i = 0; i < 3; i++) cublas_cublasGetProperty(i, &parts[i]);
    *(int *)out = parts[0] * 10000 + parts[1] * 100 + parts[2];
    return STATUS_SUCCESS;
  }
  WITH_HANDLE(given, { *(int *)out = (int)handle->version; });
}
