// Context-local storage: values that cudart hangs on a context under keys of its own. Purely
// local to the process, safe from any thread; a get takes no lock.
#ifndef ABI_STORAGE_H
#define ABI_STORAGE_H

#include "cuda_driver.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void (*abi_storage_dtor)(CUcontext context, void *key, void *value);

// Sets the value of (context, key), replacing one that is there. `dtor` may be NULL.
// NULL or (CUcontext)-1 for `context` mean the calling thread's current one; without one the
// answer is CUDA_ERROR_INVALID_HANDLE, here and below.
CUresult abi_storage_put(CUcontext context, void *key, void *value, abi_storage_dtor dtor);

// Forgets (context, key) without calling its dtor. CUDA_ERROR_INVALID_HANDLE when it is not there.
CUresult abi_storage_delete(CUcontext context, void *key);

// CUDA_ERROR_INVALID_HANDLE, and *value untouched, when nothing was put.
CUresult abi_storage_get(void **value, CUcontext context, void *key);

// To be called when `context` is destroyed or reset: forgets all its keys, then calls their dtors.
void abi_storage_drop(CUcontext context);

#ifdef __cplusplus
}
#endif
#endif
