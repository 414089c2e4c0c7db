// Calls of libraries that the server has, as libcublas.so.13 of ours makes them (companion.h): each
// travels whole, to a handle of the server's. Work that they put on a stream is ordered as launches
// are. All functions may be called by any thread.
#ifndef OUTBOARD_REMOTE_CALL_H
#define OUTBOARD_REMOTE_CALL_H

#include <stdint.h>

#include "cuda_driver.h"

struct remote_call {
  uint32_t library;       // LIBRARY_CUBLAS, ...
  uint64_t handle;        // of remote_begin; 0: LIBRARY_CUBLASLT has none
  CUstream stream;        // that its work is put on
  uint32_t function;      // as in proto/generated/cublas_calls.h, or cublaslt_call.h
  uint32_t mode;          // enum library_mode
  const void *arguments;  // as proto/wire/library_call.h or cublaslt_call.h says, aligned to 8
  uint32_t size;          // bytes of them: a multiple of 8, at most REMOTE_ARGUMENTS_MAX
  uint64_t key;           // by which the next session of the function is told of it; 0: it is not
};

enum { REMOTE_ARGUMENTS_MAX = 1024, REMOTE_RESULTS_MAX = 6400 };

struct remote_answer {
  int32_t status;  // of the library
  uint32_t size;   // bytes of results
  uint64_t results[REMOTE_RESULTS_MAX / sizeof(uint64_t)];
};

// As guest_enter, for what is no call of the driver: with a current context, or an error.
CUresult remote_enter(void);
// Makes a handle for the device of the current context and says which version of cuBLAS serves it.
// CUDA_ERROR_NOT_SUPPORTED where the server has none, or an error of a call that cannot go on.
CUresult remote_begin(uint64_t *handle, uint32_t *version);
// Makes a call. `answer` NULL: it is posted, and a failure comes as one of asynchronous work does.
// Otherwise waits for the library's status and results. CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
// where the stream is captured, CUDA_ERROR_INVALID_HANDLE for a handle or stream that is none.
CUresult remote_call(const struct remote_call *call, struct remote_answer *answer);
// Ends a handle, after a call that has destroyed what is behind it.
void remote_end(uint64_t handle);

#endif
