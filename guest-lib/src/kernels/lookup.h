// Functions and kernels by their handles.
#ifndef OUTBOARD_LOOKUP_H
#define OUTBOARD_LOOKUP_H

#include "kernels/module.h"

// Returns the function or kernel behind a handle of the program, or NULL.
struct function *function_find(const void *handle);

// Finds the function or kernel behind a handle, as the thread's session has it, and the server's
// handle for it. Loads a library on the device if it is not there yet, and again if a reset of the
// context has unloaded it. CUDA_ERROR_INVALID_HANDLE, or the errors of such a load. module_lock is
// not held.
CUresult function_resolve(const void *handle, struct function **function, uint64_t *wire);

// Returns the handle of the context that a function's module was loaded in; 0 for the kernel of a
// library, and for what is no function.
uint64_t function_context(const void *handle);

#endif
