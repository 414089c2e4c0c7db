// The runtime API as this test calls it, of any version from 11.8 on: by pointers, so that several
// runtimes can be in one process, linked or loaded.
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct {
  unsigned x, y, z;
} dim3;

typedef struct {
  dim3 grid, block;
  size_t shared;
  void *stream;
  void *attributes;
  unsigned attribute_count;
} launch_config;

// Functions by name; STREAM: one that has a variant for per-thread default streams, and its ending.
#define RUNTIME_FUNCTIONS(PLAIN, STREAM)                                                           \
  PLAIN(int, cudaRuntimeGetVersion, (int *))                                                       \
  PLAIN(int, cudaDriverGetVersion, (int *))                                                        \
  PLAIN(int, cudaGetDeviceCount, (int *))                                                          \
  PLAIN(int, cudaGetDeviceProperties, (void *, int))                                               \
  PLAIN(int, cudaDeviceGetAttribute, (int *, int, int))                                            \
  PLAIN(int, cudaSetDevice, (int))                                                                 \
  PLAIN(int, cudaMalloc, (void **, size_t))                                                        \
  PLAIN(int, cudaFree, (void *))                                                                   \
  PLAIN(int, cudaMallocHost, (void **, size_t))                                                    \
  PLAIN(int, cudaFreeHost, (void *))                                                               \
  PLAIN(int, cudaMemGetInfo, (size_t *, size_t *))                                                 \
  PLAIN(int, cudaGetLastError, (void))                                                             \
  PLAIN(const char *, cudaGetErrorName, (int))                                                     \
  PLAIN(const char *, cudaGetErrorString, (int))                                                   \
  PLAIN(int, cudaStreamCreateWithFlags, (void **, unsigned))                                       \
  PLAIN(int, cudaStreamDestroy, (void *))                                                          \
  PLAIN(int, cudaEventCreate, (void **))                                                           \
  PLAIN(int, cudaEventDestroy, (void *))                                                           \
  PLAIN(int, cudaEventSynchronize, (void *))                                                       \
  PLAIN(int, cudaEventQuery, (void *))                                                             \
  PLAIN(int, cudaEventElapsedTime, (float *, void *, void *))                                      \
  PLAIN(int, cudaDeviceSynchronize, (void))                                                        \
  PLAIN(int, cudaFuncGetAttributes, (void *, const void *))                                        \
  PLAIN(int, cudaOccupancyMaxActiveBlocksPerMultiprocessor, (int *, const void *, int, size_t))    \
  PLAIN(int, cudaGetSymbolAddress, (void **, const void *))                                        \
  PLAIN(int, cudaStreamBeginCapture, (void *, int))                                                \
  PLAIN(int, cudaStreamEndCapture, (void *, void **))                                              \
  PLAIN(int, cudaGraphInstantiateWithFlags, (void **, void *, unsigned long long))                 \
  PLAIN(int, cudaGraphExecDestroy, (void *))                                                       \
  PLAIN(int, cudaGraphDestroy, (void *))                                                           \
  PLAIN(int, cudaGraphGetNodes, (void *, void **, size_t *))                                       \
  PLAIN(void **, __cudaRegisterFatBinary, (const void *))                                          \
  PLAIN(void, __cudaRegisterFatBinaryEnd, (void **))                                               \
  PLAIN(void, __cudaUnregisterFatBinary, (void **))                                                \
  PLAIN(void, __cudaRegisterFunction,                                                              \
        (void **, const void *, char *, const char *, int, void *, void *, void *, void *, int *)) \
  PLAIN(void, __cudaRegisterVar, (void **, char *, char *, const char *, int, size_t, int, int))   \
  STREAM(int, cudaMemcpy, _ptds, (void *, const void *, size_t, int))                              \
  STREAM(int, cudaMemset, _ptds, (void *, int, size_t))                                            \
  STREAM(int, cudaMemcpyToSymbol, _ptds, (const void *, const void *, size_t, size_t, int))        \
  STREAM(int, cudaMemcpyAsync, _ptsz, (void *, const void *, size_t, int, void *))                 \
  STREAM(int, cudaMemsetAsync, _ptsz, (void *, int, size_t, void *))                               \
  STREAM(int, cudaLaunchKernel, _ptsz, (const void *, dim3, dim3, void **, size_t, void *))        \
  STREAM(int, cudaLaunchKernelExC, _ptsz, (const launch_config *, const void *, void **))          \
  STREAM(int, cudaLaunchHostFunc, _ptsz, (void *, void (*)(void *), void *))                       \
  STREAM(int, cudaStreamSynchronize, _ptsz, (void *))                                              \
  STREAM(int, cudaStreamQuery, _ptsz, (void *))                                                    \
  STREAM(int, cudaStreamWaitEvent, _ptsz, (void *, void *, unsigned))                              \
  STREAM(int, cudaEventRecord, _ptsz, (void *, void *))                                            \
  STREAM(int, cudaMallocAsync, _ptsz, (void **, size_t, void *))                                   \
  STREAM(int, cudaFreeAsync, _ptsz, (void *, void *))                                              \
  STREAM(int, cudaGraphLaunch, _ptsz, (void *, void *))                                            \
  STREAM(int, cudaGetDriverEntryPoint, _ptsz, (const char *, void **, unsigned long long, int *))

#define RUNTIME_POINTER(result, name, arguments) result(*name) arguments;
#define RUNTIME_POINTER_STREAM(result, name, ending, arguments) result(*name) arguments;

struct runtime {
  const char *name_of;  // in what is printed
  void *library;        // of one that was loaded
  RUNTIME_FUNCTIONS(RUNTIME_POINTER, RUNTIME_POINTER_STREAM)
};

// Loaded beside all others. Ends the program if it cannot be.
void runtime_load(struct runtime *runtime, const char *path, int per_thread);
// The one that the program was linked with, if there is one.
int runtime_linked(struct runtime *runtime, int per_thread);
