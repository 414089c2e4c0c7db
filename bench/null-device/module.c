// Modules, libraries, kernels and launches that do nothing. CUmodule and CUlibrary are one thing
// here, and so are CUfunction and CUkernel.
#include <stdlib.h>
#include <string.h>

#include "image.h"
#include "null.h"

struct library {
  struct kernel *kernels;
};

static CUresult load(struct library **library, const void *image) {
  struct library *made = calloc(1, sizeof *made);
  if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = image_kernels(image, &made->kernels);
  if (result) {
    free(made);
    return result;
  }
  for (struct kernel *k = made->kernels; k; k = k->next) k->image = made;
  *library = made;
  return CUDA_SUCCESS;
}

static CUresult unload(struct library *library) {
  image_free(library->kernels);
  free(library);
  return CUDA_SUCCESS;
}

static CUresult find(struct kernel **kernel, const struct library *library, const char *name) {
  struct kernel *k = library->kernels;
  while (k && strcmp(k->name, name)) k = k->next;
  *kernel = k;
  return k ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode) {
  *mode = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  return load((struct library **)module, image);
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count,
                            CUjit_option *options, void **values) {
  (void)count, (void)options, (void)values;
  return load((struct library **)module, image);
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image) {
  return load((struct library **)module, image);
}

CUresult cuModuleUnload(CUmodule module) { return unload((struct library *)module); }

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  return find((struct kernel **)function, (struct library *)module, name);
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *size, CUmodule module,
                              const char *name) {
  (void)address, (void)size, (void)module, (void)name;
  return CUDA_ERROR_NOT_FOUND;
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *image, CUjit_option *jit_options,
                           void **jit_values, unsigned int jit_count, CUlibraryOption *options,
                           void **values, unsigned int count) {
  (void)jit_options, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
  return load((struct library **)library, image);
}

CUresult cuLibraryUnload(CUlibrary library) { return unload((struct library *)library); }

CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library) {
  *module = (CUmodule)library;
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
  return find((struct kernel **)kernel, (struct library *)library, name);
}

CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary library) {
  *count = 0;
  for (struct kernel *k = ((struct library *)library)->kernels; k; k = k->next) ++*count;
  return CUDA_SUCCESS;
}

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int count, CUlibrary library) {
  struct kernel *k = ((struct library *)library)->kernels;
  for (unsigned i = 0; i < count && k; i++, k = k->next) kernels[i] = (CUkernel)k;
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *size, CUlibrary library,
                            const char *name) {
  (void)address, (void)size, (void)library, (void)name;
  return CUDA_ERROR_NOT_FOUND;
}

CUresult cuLibraryGetManaged(CUdeviceptr *address, size_t *size, CUlibrary library,
                             const char *name) {
  return cuLibraryGetGlobal(address, size, library, name);
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel) {
  *function = (CUfunction)kernel;
  return CUDA_SUCCESS;
}

CUresult cuKernelGetLibrary(CUlibrary *library, CUkernel kernel) {
  *library = (CUlibrary)((struct kernel *)kernel)->image;
  return CUDA_SUCCESS;
}

CUresult cuKernelGetName(const char **name, CUkernel kernel) {
  *name = ((struct kernel *)kernel)->name;
  return CUDA_SUCCESS;
}
CUresult cuFuncGetName(const char **name, CUfunction function) {
  return cuKernelGetName(name, (CUkernel)function);
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *size) {
  const struct kernel *k = (struct kernel *)kernel;
  if (index >= k->parameter_count) return CUDA_ERROR_INVALID_VALUE;
  *offset = k->parameters[index].offset;
  if (size) *size = k->parameters[index].size;
  return CUDA_SUCCESS;
}
CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *size) {
  return cuKernelGetParamInfo((CUkernel)function, index, offset, size);
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
  (void)function;
  *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0;
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  (void)function, (void)attribute, (void)value;
  return CUDA_SUCCESS;
}

CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config) {
  (void)function, (void)config;
  return CUDA_SUCCESS;
}

CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel,
                              CUdevice device) {
  (void)device;
  return cuFuncGetAttribute(value, attribute, (CUfunction)kernel);
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel,
                              CUdevice device) {
  (void)attribute, (void)value, (void)kernel, (void)device;
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function,
                                                              int size, size_t shared,
                                                              unsigned int flags) {
  (void)function, (void)shared, (void)flags;
  if (size <= 0) return CUDA_ERROR_INVALID_VALUE;
  *blocks = 2048 / size < 32 ? 2048 / size : 32;
  return CUDA_SUCCESS;
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *shared, CUfunction function, int blocks,
                                                 int size) {
  (void)function, (void)size;
  if (blocks <= 0) return CUDA_ERROR_INVALID_VALUE;
  *shared = (size_t)(96 << 10) / (size_t)blocks;
  return CUDA_SUCCESS;
}

// ---- launches ----------------------------------------------------------------------------------

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                        unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                        unsigned int block_z, unsigned int shared, CUstream stream,
                        void **parameters, void **extra) {
  (void)function, (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x, (void)block_y;
  (void)block_z, (void)shared, (void)stream, (void)parameters, (void)extra;
  return CUDA_SUCCESS;
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                   unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                   unsigned int block_z, unsigned int shared, CUstream stream,
                                   void **parameters) {
  return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream,
                        parameters, NULL);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters,
                          void **extra) {
  (void)config, (void)function, (void)parameters, (void)extra;
  return CUDA_SUCCESS;
}
