// The device, reached through a driver library and nothing else: a table of its entry points. Those
// that start work on the device are apart: only the gate gives them out (gate.h), and only the
// scrubber has one of its own.
#pragma once

#include <cstdint>
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
  X(cuCtxRecordEvent)             \
  X(cuCtxWaitEvent)               \
  X(cuCtxGetStreamPriorityRange)  \
  X(cuMemGetInfo_v2)              \
  X(cuMemAlloc_v2)                \
  X(cuMemFree_v2)                 \
  X(cuArray3DCreate_v2)           \
  X(cuArrayDestroy)               \
  X(cuMipmappedArrayCreate)       \
  X(cuMipmappedArrayGetLevel)     \
  X(cuMipmappedArrayDestroy)      \
  X(cuTexObjectCreate)            \
  X(cuTexObjectDestroy)           \
  X(cuSurfObjectCreate)           \
  X(cuSurfObjectDestroy)          \
  X(cuLibraryGetModule)           \
  X(cuModuleGetTexRef)            \
  X(cuModuleGetSurfRef)           \
  X(cuTexRefSetArray)             \
  X(cuTexRefSetMipmappedArray)    \
  X(cuTexRefSetAddress_v2)        \
  X(cuTexRefSetAddress2D_v3)      \
  X(cuTexRefSetFormat)            \
  X(cuTexRefSetAddressMode)       \
  X(cuTexRefSetFilterMode)        \
  X(cuTexRefSetMipmapFilterMode)  \
  X(cuTexRefSetMipmapLevelBias)   \
  X(cuTexRefSetMipmapLevelClamp)  \
  X(cuTexRefSetMaxAnisotropy)     \
  X(cuTexRefSetBorderColor)       \
  X(cuTexRefSetFlags)             \
  X(cuSurfRefSetArray)            \
  X(cuMemAddressReserve)          \
  X(cuMemAddressFree)             \
  X(cuMemCreate)                  \
  X(cuMemRelease)                 \
  X(cuMemMap)                     \
  X(cuMemUnmap)                   \
  X(cuMemSetAccess)               \
  X(cuMemHostAlloc)               \
  X(cuMemFreeHost)                \
  X(cuMemHostRegister_v2)         \
  X(cuMemHostUnregister)          \
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
  X(cuLaunchHostFunc)             \
  X(cuStreamAddCallback)          \
  X(cuStreamSetAttribute)

// ... about clusters.
#define OUTBOARD_DRIVER_OCCUPANCY(X) \
  X(cuOccupancyMaxActiveClusters)    \
  X(cuOccupancyMaxPotentialClusterSize)

// ... for graphs.
#define OUTBOARD_DRIVER_GRAPHS(X)   \
  X(cuGraphCreate)                  \
  X(cuGraphDestroy)                 \
  X(cuGraphAddNode_v2)              \
  X(cuGraphChildGraphNodeGetGraph)  \
  X(cuGraphKernelNodeSetAttribute)  \
  X(cuGraphConditionalHandleCreate) \
  X(cuGraphInstantiateWithFlags)    \
  X(cuGraphExecDestroy)             \
  X(cuGraphExecNodeSetParams)       \
  X(cuGraphNodeSetEnabled)

// ... for links.
#define OUTBOARD_DRIVER_LINKS(X) \
  X(cuLinkCreate_v2)             \
  X(cuLinkAddData_v2)            \
  X(cuLinkComplete)              \
  X(cuLinkDestroy)

// ... for what processes share.
#define OUTBOARD_DRIVER_SHARING(X)  \
  X(cuMemExportToShareableHandle)   \
  X(cuMemImportFromShareableHandle) \
  X(cuIpcGetEventHandle)            \
  X(cuIpcOpenEventHandle)

// ... about other devices. A library may lack them: then there are none.
#define OUTBOARD_DRIVER_PEERS(X) \
  X(cuDeviceCanAccessPeer)       \
  X(cuDeviceGetP2PAttribute)     \
  X(cuDeviceGetP2PAtomicCapabilities)

// Those of them that start work. proto/test/work.test.ts knows which are.
#define OUTBOARD_WORK_HAND(X) \
  X(cuStreamBatchMemOp_v2)    \
  X(cuMemcpyHtoDAsync_v2)     \
  X(cuMemcpyDtoHAsync_v2)     \
  X(cuMemcpy3DAsync_v2)       \
  X(cuLaunchKernel)           \
  X(cuLaunchKernelEx)         \
  X(cuGraphLaunch)

namespace outboard {

#define OUTBOARD_DRIVER_MEMBER(name) decltype(&::name) name = nullptr;

// What starts work.
struct WorkCalls {
  OUTBOARD_WORK_CALLS(OUTBOARD_DRIVER_MEMBER)
  OUTBOARD_WORK_HAND(OUTBOARD_DRIVER_MEMBER)
};

// ... kept from everybody else.
class WorkDriver {
  friend struct Driver;
  friend class Gate;
  friend class Scrubber;
  WorkCalls calls_;
};

struct Driver {
  OUTBOARD_DRIVER_CALLS(OUTBOARD_DRIVER_MEMBER)
  OUTBOARD_DRIVER_HAND(OUTBOARD_DRIVER_MEMBER)
  OUTBOARD_DRIVER_OCCUPANCY(OUTBOARD_DRIVER_MEMBER)
  OUTBOARD_DRIVER_GRAPHS(OUTBOARD_DRIVER_MEMBER)
  OUTBOARD_DRIVER_LINKS(OUTBOARD_DRIVER_MEMBER)
  OUTBOARD_DRIVER_SHARING(OUTBOARD_DRIVER_MEMBER)
  OUTBOARD_DRIVER_PEERS(OUTBOARD_DRIVER_MEMBER)
  WorkDriver work;

  // Nanoseconds of work done for a context, by so many workers. Only the software device has it.
  CUresult (*softwareDeviceWorkNs)(CUcontext, uint64_t *, uint32_t *) = nullptr;

  // Loads the library and initialises it. It stays loaded for the life of the process: drivers do
  // not expect to be unloaded. Throws Error.
  static Driver open(const std::string &library);

  // "CUDA_ERROR_X (what it means)"
  std::string describe(CUresult result) const;
};

#undef OUTBOARD_DRIVER_MEMBER

// Of several calls that are all made, whatever becomes of them, the first failure is what is told.
inline void keep_first(CUresult &first, CUresult result) {
  if (first == CUDA_SUCCESS) first = result;
}

}  // namespace outboard
