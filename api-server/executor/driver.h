// The device, reached through a driver library and nothing else: a table of its entry points.
#pragma once

#include <string>

#include "cuda_driver.h"
#include "driver_calls.h"

// Functions that hand-written code calls, beside those of generated dispatch.
#define OUTBOARD_DRIVER_HAND(X)   \
  X(cuInit)                       \
  X(cuDriverGetVersion)           \
  X(cuGetErrorName)               \
  X(cuGetErrorString)             \
  X(cuDeviceGet)                  \
  X(cuDeviceGetCount)             \
  X(cuDeviceGetName)              \
  X(cuDeviceGetUuid_v2)           \
  X(cuDeviceGetAttribute)         \
  X(cuDeviceTotalMem_v2)          \
  X(cuDeviceGetPCIBusId)          \
  X(cuDevicePrimaryCtxRetain)     \
  X(cuDevicePrimaryCtxRelease_v2) \
  X(cuCtxSetCurrent)              \
  X(cuCtxGetLimit)                \
  X(cuCtxGetStreamPriorityRange)  \
  X(cuMemGetInfo_v2)              \
  X(cuMemAddressReserve)          \
  X(cuMemAddressFree)             \
  X(cuMemCreate)                  \
  X(cuMemRelease)                 \
  X(cuMemMap)                     \
  X(cuMemUnmap)                   \
  X(cuMemSetAccess)               \
  X(cuMemHostAlloc)               \
  X(cuMemFreeHost)                \
  X(cuMemcpyHtoDAsync_v2)         \
  X(cuMemcpyDtoHAsync_v2)         \
  X(cuMemcpy2DAsync_v2)           \
  X(cuStreamGetFlags)             \
  X(cuLibraryLoadData)            \
  X(cuLibraryUnload)              \
  X(cuLibraryGetKernel)           \
  X(cuLibraryGetKernelCount)      \
  X(cuLibraryEnumerateKernels)    \
  X(cuLibraryGetGlobal)           \
  X(cuLibraryGetManaged)          \
  X(cuKernelGetFunction)          \
  X(cuKernelGetName)              \
  X(cuKernelGetParamInfo)         \
  X(cuLaunchKernel)               \
  X(cuLaunchKernelEx)

namespace outboard {

struct Driver {
#define OUTBOARD_DRIVER_MEMBER(name) decltype(&::name) name = nullptr;
  OUTBOARD_DRIVER_CALLS(OUTBOARD_DRIVER_MEMBER)
  OUTBOARD_DRIVER_HAND(OUTBOARD_DRIVER_MEMBER)
#undef OUTBOARD_DRIVER_MEMBER

  // Loads the library and initialises it. It stays loaded for the life of the process: drivers do
  // not expect to be unloaded. Throws Error.
  static Driver open(const std::string &library);

  // "CUDA_ERROR_X (what it means)"
  std::string describe(CUresult result) const;
};

}  // namespace outboard
