// Functions and kernels by their handles.
#ifndef OUTBOARD_LOOKUP_H
#define OUTBOARD_LOOKUP_H

#include "kernels/module.h"

// The function or kernel behind a handle, or NULL.
struct function *function_find(const void *handle);

// The same with the server's handle for it; its library is loaded again if a reset has ended it.
CUresult function_resolve(const void *handle, struct function **function, uint64_t *wire);

// The context that its module was loaded in; 0: it is a library's, or of no kind.
uint64_t function_context(const void *handle);

#endif
