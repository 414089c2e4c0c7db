#include "abi_result.h"

#include <stddef.h>

#include "cuda_driver.h"

const char *abi_result_name(int value) {
  for (unsigned i = 0; i < abi_result_count; i++)
    if (abi_results[i].value == value) return abi_results[i].name;
  return NULL;
}

const char *abi_result_sentence(int value) {
  switch ((CUresult)value) {
    case CUDA_SUCCESS:
      return "no error";
    case CUDA_ERROR_INVALID_VALUE:
      return "an argument is outside what the call accepts";
    case CUDA_ERROR_OUT_OF_MEMORY:
      return "not enough memory is left for the request";
    case CUDA_ERROR_NOT_INITIALIZED:
      return "cuInit has not succeeded in this process";
    case CUDA_ERROR_DEINITIALIZED:
      return "the driver is shutting down";
    case CUDA_ERROR_PROFILER_DISABLED:
      return "profiling is switched off for this run";
    case CUDA_ERROR_PROFILER_NOT_INITIALIZED:
      return "the profiler was not set up";
    case CUDA_ERROR_PROFILER_ALREADY_STARTED:
      return "the profiler is running already";
    case CUDA_ERROR_PROFILER_ALREADY_STOPPED:
      return "the profiler is stopped already";
    case CUDA_ERROR_STUB_LIBRARY:
      return "a stub of the driver library was loaded, not a driver";
    case CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER:
      return "the call needs a newer driver";
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
      return "the device is busy or cannot be used right now";
    case CUDA_ERROR_MULTICAST_RESOURCE_FULL:
      return "no room is left for another multicast object";
    case CUDA_ERROR_NO_DEVICE:
      return "no CUDA device is visible";
    case CUDA_ERROR_INVALID_DEVICE:
      return "there is no device with this number";
    case CUDA_ERROR_DEVICE_NOT_LICENSED:
      return "the device has no licence for this use";
    case CUDA_ERROR_INVALID_IMAGE:
      return "the module is not a kernel image, or is damaged";
    case CUDA_ERROR_INVALID_CONTEXT:
      return "the context is not valid, or no context is current";
    case CUDA_ERROR_CONTEXT_ALREADY_CURRENT:
      return "the context is current already";
    case CUDA_ERROR_MAP_FAILED:
      return "mapping the memory or resource failed";
    case CUDA_ERROR_UNMAP_FAILED:
      return "unmapping the memory or resource failed";
    case CUDA_ERROR_ARRAY_IS_MAPPED:
      return "the array is mapped and cannot be destroyed";
    case CUDA_ERROR_ALREADY_MAPPED:
      return "the resource is mapped already";
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
      return "the module has no code that this device can run";
    case CUDA_ERROR_ALREADY_ACQUIRED:
      return "the resource was acquired already";
    case CUDA_ERROR_NOT_MAPPED:
      return "the resource is not mapped";
    case CUDA_ERROR_NOT_MAPPED_AS_ARRAY:
      return "the resource is not mapped as an array";
    case CUDA_ERROR_NOT_MAPPED_AS_POINTER:
      return "the resource is not mapped as a pointer";
    case CUDA_ERROR_ECC_UNCORRECTABLE:
      return "the memory had an error that ECC could not correct";
    case CUDA_ERROR_UNSUPPORTED_LIMIT:
      return "the device does not have this limit";
    case CUDA_ERROR_CONTEXT_ALREADY_IN_USE:
      return "the context is in use by another thread";
    case CUDA_ERROR_PEER_ACCESS_UNSUPPORTED:
      return "the devices cannot reach each other's memory";
    case CUDA_ERROR_INVALID_PTX:
      return "the PTX could not be compiled";
    case CUDA_ERROR_INVALID_GRAPHICS_CONTEXT:
      return "the graphics context is not usable";
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
      return "NVLink had an error that it could not correct";
    case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
      return "the PTX compiler is missing";
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
      return "the PTX is of a version newer than the driver";
    case CUDA_ERROR_JIT_COMPILATION_DISABLED:
      return "compiling PTX at run time is switched off";
    case CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY:
      return "the device cannot restrict execution in this way";
    case CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC:
      return "the code waits on the device for kernels it started, which is not possible";
    case CUDA_ERROR_CONTAINED:
      return "a memory error was contained; the process must end";
    case CUDA_ERROR_INSUFFICIENT_LOADER_VERSION:
      return "the image needs a newer loader";
    case CUDA_ERROR_INVALID_SOURCE:
      return "the source of the kernel is not valid";
    case CUDA_ERROR_FILE_NOT_FOUND:
      return "the file does not exist";
    case CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND:
      return "a shared library lacks a symbol";
    case CUDA_ERROR_SHARED_OBJECT_INIT_FAILED:
      return "a shared library could not be set up";
    case CUDA_ERROR_OPERATING_SYSTEM:
      return "a call to the operating system failed";
    case CUDA_ERROR_INVALID_HANDLE:
      return "the handle names no live object of the expected kind";
    case CUDA_ERROR_ILLEGAL_STATE:
      return "the object is not in a state that allows the call";
    case CUDA_ERROR_LOSSY_QUERY:
      return "the answer would lose information the caller needs";
    case CUDA_ERROR_NOT_FOUND:
      return "nothing with this name was found";
    case CUDA_ERROR_NOT_READY:
      return "the work has not finished yet";
    case CUDA_ERROR_ILLEGAL_ADDRESS:
      return "a kernel or copy touched memory that is not its own";
    case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
      return "the launch asks for more threads, registers or shared memory than there is";
    case CUDA_ERROR_LAUNCH_TIMEOUT:
      return "the kernel ran for longer than it is allowed to";
    case CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING:
      return "the kernel uses textures in a way that cannot be mixed";
    case CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED:
      return "access to the peer is enabled already";
    case CUDA_ERROR_PEER_ACCESS_NOT_ENABLED:
      return "access to the peer was not enabled";
    case CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE:
      return "the primary context is active already";
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
      return "the current context has been destroyed";
    case CUDA_ERROR_ASSERT:
      return "an assert in a kernel failed";
    case CUDA_ERROR_TOO_MANY_PEERS:
      return "no more peers can be connected";
    case CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED:
      return "part of the host memory is registered already";
    case CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED:
      return "the host memory is not registered";
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
      return "a kernel overflowed or damaged its stack";
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
      return "a kernel met an instruction that cannot run";
    case CUDA_ERROR_MISALIGNED_ADDRESS:
      return "a kernel used an address of the wrong alignment";
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
      return "a kernel used an address in a space the instruction does not reach";
    case CUDA_ERROR_INVALID_PC:
      return "a kernel jumped to where no code is";
    case CUDA_ERROR_LAUNCH_FAILED:
      return "a kernel failed while it ran";
    case CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE:
      return "the cooperative grid has more blocks than can be resident at once";
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
      return "a kernel ended without freeing tensor memory";
    case CUDA_ERROR_NOT_PERMITTED:
      return "the operation is not permitted here";
    case CUDA_ERROR_NOT_SUPPORTED:
      return "the operation is not supported by this driver";
    case CUDA_ERROR_SYSTEM_NOT_READY:
      return "the system is not ready for CUDA yet";
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
      return "parts of the driver are of different versions";
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
      return "the device cannot run under this compatibility package";
    case CUDA_ERROR_MPS_CONNECTION_FAILED:
      return "the sharing service cannot be reached";
    case CUDA_ERROR_MPS_RPC_FAILURE:
      return "the sharing service did not understand or answer";
    case CUDA_ERROR_MPS_SERVER_NOT_READY:
      return "the sharing service is not ready";
    case CUDA_ERROR_MPS_MAX_CLIENTS_REACHED:
      return "the sharing service has no room for a client";
    case CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED:
      return "the sharing service has no connection left for the device";
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
      return "the sharing service ended this client";
    case CUDA_ERROR_CDP_NOT_SUPPORTED:
      return "kernels cannot start kernels on this device";
    case CUDA_ERROR_CDP_VERSION_MISMATCH:
      return "the module starts kernels in a way of another version";
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
      return "the operation cannot be captured";
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
      return "an earlier error spoilt the capture";
    case CUDA_ERROR_STREAM_CAPTURE_MERGE:
      return "the operation would join two captures";
    case CUDA_ERROR_STREAM_CAPTURE_UNMATCHED:
      return "the capture did not begin in this stream";
    case CUDA_ERROR_STREAM_CAPTURE_UNJOINED:
      return "a stream was forked and not joined again";
    case CUDA_ERROR_STREAM_CAPTURE_ISOLATION:
      return "the operation would make the capture depend on work outside it";
    case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
      return "the default stream would be made to wait, which a capture does not allow";
    case CUDA_ERROR_CAPTURED_EVENT:
      return "the event belongs to a capture";
    case CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD:
      return "another thread began the capture";
    case CUDA_ERROR_TIMEOUT:
      return "the wait took longer than allowed";
    case CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE:
      return "the graph differs too much to be updated in place";
    case CUDA_ERROR_EXTERNAL_DEVICE:
      return "a device outside the driver's control failed";
    case CUDA_ERROR_INVALID_CLUSTER_SIZE:
      return "the cluster has a size that cannot be run";
    case CUDA_ERROR_FUNCTION_NOT_LOADED:
      return "the function is not loaded";
    case CUDA_ERROR_INVALID_RESOURCE_TYPE:
      return "a resource is of a type the call does not take";
    case CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION:
      return "the resources do not fit together or are not enough";
    case CUDA_ERROR_KEY_ROTATION:
      return "the keys of protected memory are being changed";
    case CUDA_ERROR_STREAM_DETACHED:
      return "the part of the device that the stream belonged to has been given back";
    case CUDA_ERROR_GRAPH_RECAPTURE_FAILURE:
      return "what was captured differs too much from the graph";
    case CUDA_ERROR_FABRIC_NOT_READY:
      return "the fabric between devices is not ready";
    case CUDA_ERROR_UNKNOWN:
      return "an error of unknown kind happened";
    default:
      return NULL;
  }
}
