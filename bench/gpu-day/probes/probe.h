// What the probes share: the driver, which is looked up in the library that the command line names,
// kernels, the clock, and answers as one JSON object on stdout.
#ifndef GPU_DAY_PROBE_H
#define GPU_DAY_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda_driver.h"

#define PROBE_CALLS(X)             \
  X(cuInit)                        \
  X(cuDriverGetVersion)            \
  X(cuDeviceGetCount)              \
  X(cuDeviceGet)                   \
  X(cuDeviceGetName)               \
  X(cuDeviceGetUuid_v2)            \
  X(cuDeviceGetAttribute)          \
  X(cuDeviceTotalMem_v2)           \
  X(cuDevicePrimaryCtxRetain)      \
  X(cuCtxSetCurrent)               \
  X(cuCtxSynchronize)              \
  X(cuCtxGetLimit)                 \
  X(cuCtxSetLimit)                 \
  X(cuMemGetInfo_v2)               \
  X(cuMemAlloc_v2)                 \
  X(cuMemFree_v2)                  \
  X(cuMemcpyDtoH_v2)               \
  X(cuMemHostAlloc)                \
  X(cuMemFreeHost)                 \
  X(cuMemAddressReserve)           \
  X(cuMemAddressFree)              \
  X(cuMemGetAllocationGranularity) \
  X(cuMemCreate)                   \
  X(cuMemMap)                      \
  X(cuMemSetAccess)                \
  X(cuMemUnmap)                    \
  X(cuMemRelease)                  \
  X(cuModuleLoadData)              \
  X(cuModuleGetFunction)           \
  X(cuModuleGetGlobal_v2)          \
  X(cuModuleUnload)                \
  X(cuLibraryLoadData)             \
  X(cuLibraryGetKernel)            \
  X(cuLibraryUnload)               \
  X(cuKernelGetFunction)           \
  X(cuLaunchKernel)                \
  X(cuLaunchHostFunc)              \
  X(cuStreamCreate)                \
  X(cuStreamQuery)                 \
  X(cuStreamSynchronize)           \
  X(cuEventCreate)                 \
  X(cuEventRecord)                 \
  X(cuEventSynchronize)            \
  X(cuEventElapsedTime)            \
  X(cuTexObjectCreate)             \
  X(cuGetExportTable)

// Each has the type that the header gives the call of that name.
struct driver {
#define PROBE_MEMBER(name) __typeof__(&name) name;
  PROBE_CALLS(PROBE_MEMBER)
#undef PROBE_MEMBER
  // NULL where the driver is older than CUDA 12.4.
  __typeof__(&cuFuncGetParamInfo) cuFuncGetParamInfo;
  void *handle;
};
extern struct driver driver;

// Ends the program with what is wrong, on stdout, where its caller looks for it.
__attribute__((noreturn, format(printf, 2, 3))) void fail(const char *what, const char *format,
                                                          ...);

#define CHECK(call)                                                                     \
  do {                                                                                  \
    const CUresult check_result = driver.call;                                          \
    if (check_result) fail("driver", "%s: %s", #call, probe_result_name(check_result)); \
  } while (0)

const char *probe_result_name(CUresult result);

// Answers. Names are unique within a probe.
void say_number(const char *name, double value);
void say_text(const char *name, const char *value);
void say_result(const char *name, CUresult result);

double now_us(void);
void sleep_us(double us);

// The first device, and its primary context, which becomes the thread's.
CUdevice probe_device(void);
CUdevice probe_context(void);

// A kernel `nothing()`, a kernel `turns(.u32)` that counts, and one that uses 32 KiB of stack for
// each thread.
extern const char probe_ptx[];
CUfunction probe_function(const char *name);
void launch(CUfunction function, CUstream stream, unsigned turns);
// Turns that take about so long.
unsigned turns_for_us(CUfunction counts, double us);

// By the first argument of the program; `rest` are those behind the library.
void probe_facts(char **rest);
void probe_symbols(char **rest);
void probe_alive(char **rest);
void probe_memory_free(char **rest);
void probe_reserve(char **rest);
void probe_mapping(char **rest);
void probe_exhaust(char **rest);
void probe_modules(char **rest);
void probe_limits(char **rest);
void probe_queue(char **rest);
void probe_functions(char **rest);
void probe_behind(char **rest);
void probe_events(char **rest);
void probe_slices(char **rest);
void probe_waiting(char **rest);
void probe_answers(char **rest);
void probe_table(char **rest);
void probe_addresses(char **rest);

#endif
