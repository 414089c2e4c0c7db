// A call of cuBLAS on its way.
#ifndef LIBRARIES_CALL_H
#define LIBRARIES_CALL_H

#include <stdint.h>

struct cublas_handle;

// Makes the call of that number (CUBLAS_...): `words` are its parameters without the handle, as the
// program gave them. Returns a cublasStatus_t.
int cublas_call(struct cublas_handle *handle, uint32_t function, const uint64_t *words);
// The same for a handle that is locked, with parameters that need no packing. `wait` false: posted.
int call_plain(struct cublas_handle *handle, uint32_t function, const uint64_t *words,
               uint32_t count, _Bool wait);

#endif
