// cuGetProcAddress, for libraries that stand in for libcuda.so.1.
#ifndef ABI_PROC_ADDRESS_H
#define ABI_PROC_ADDRESS_H

#include "cuda_driver.h"

#ifdef __cplusplus
extern "C" {
#endif

// cuGetProcAddress_v2, whole. cuGetProcAddress is the same with `status` NULL.
// What came with a later CUDA than abi_host says the driver is of does not exist.
// What is not implemented is refused as if the name did not exist: programs fall back on that,
// while they would trust a stub. Only for a few names that PyTorch cannot do without there is the
// stub, which answers CUDA_ERROR_NOT_SUPPORTED when it is called. CUDA_ERROR_NOT_FOUND then, with
// *function NULL and the reason in *status; CUDA_ERROR_INVALID_VALUE for bad arguments.
CUresult abi_get_proc_address(const char *name, void **function, int version, cuuint64_t flags,
                              CUdriverProcAddressQueryResult *status);

#ifdef __cplusplus
}
#endif
#endif
