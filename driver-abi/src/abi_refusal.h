// What a driver has and we do not serve: whether look-ups find it, and what it answers.
#ifndef ABI_REFUSAL_H
#define ABI_REFUSAL_H

#include "cuda_driver.h"

#ifdef __cplusplus
extern "C" {
#endif

// Programs take the absence of some functions for a broken driver: those are found and refuse. The
// others are not found, because programs fall back on that.
int abi_refusal_is_found(const char *name);

// CUDA_ERROR_NOT_SUPPORTED, or what a driver says on a machine without a display.
CUresult abi_refusal(const char *name);

#ifdef __cplusplus
}
#endif
#endif
