// Launches as before CUDA 4: shape and parameters are set on the function, one call each.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "guest_calls.h"
#include "kernels/lookup.h"
#include "kernels/module.h"

#define STAGED_BYTES 32764  // of parameters, as a kernel may have

struct staged {
  unsigned block[3];
  unsigned shared;
  unsigned size;  // of the parameters, as set
  unsigned char parameters[STAGED_BYTES];
};

// Guards what is staged: nobody sets it often.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// What is staged for the function, with the lock held; NULL and why not without.
static struct staged *take(CUfunction handle, CUresult *result) {
  struct function *function = function_find(handle);
  *result = CUDA_ERROR_INVALID_HANDLE;
  if (!function) return NULL;
  pthread_mutex_lock(&lock);
  if (!function->staged) function->staged = calloc(1, sizeof *function->staged);
  if (function->staged) {
    *result = CUDA_SUCCESS;
    return function->staged;
  }
  pthread_mutex_unlock(&lock);
  *result = CUDA_ERROR_OUT_OF_MEMORY;
  return NULL;
}

CUresult guest_cuFuncSetBlockShape(CUfunction hfunc, int x, int y, int z) {
  CUresult result;
  if (!function_find(hfunc)) return CUDA_ERROR_INVALID_HANDLE;
  if (x <= 0 || y <= 0 || z <= 0) return CUDA_ERROR_INVALID_VALUE;
  struct staged *staged = take(hfunc, &result);
  if (!staged) return result;
  staged->block[0] = (unsigned)x;
  staged->block[1] = (unsigned)y;
  staged->block[2] = (unsigned)z;
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}

CUresult guest_cuFuncSetSharedSize(CUfunction hfunc, unsigned int bytes) {
  CUresult result;
  struct staged *staged = take(hfunc, &result);
  if (!staged) return result;
  staged->shared = bytes;
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}

CUresult guest_cuParamSetSize(CUfunction hfunc, unsigned int numbytes) {
  CUresult result;
  if (!function_find(hfunc)) return CUDA_ERROR_INVALID_HANDLE;
  if (numbytes > STAGED_BYTES) return CUDA_ERROR_INVALID_VALUE;
  struct staged *staged = take(hfunc, &result);
  if (!staged) return result;
  staged->size = numbytes;
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}

CUresult guest_cuParamSetv(CUfunction hfunc, int offset, void *ptr, unsigned int numbytes) {
  CUresult result;
  if (!function_find(hfunc)) return CUDA_ERROR_INVALID_HANDLE;
  if (!ptr || offset < 0 || numbytes > STAGED_BYTES || (unsigned)offset > STAGED_BYTES - numbytes)
    return CUDA_ERROR_INVALID_VALUE;
  struct staged *staged = take(hfunc, &result);
  if (!staged) return result;
  memcpy(staged->parameters + offset, ptr, numbytes);
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}

CUresult guest_cuParamSeti(CUfunction hfunc, int offset, unsigned int value) {
  return guest_cuParamSetv(hfunc, offset, &value, sizeof value);
}

CUresult guest_cuParamSetf(CUfunction hfunc, int offset, float value) {
  return guest_cuParamSetv(hfunc, offset, &value, sizeof value);
}

CUresult guest_cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height, CUstream hStream) {
  CUresult result;
  if (!function_find(f)) return CUDA_ERROR_INVALID_HANDLE;
  if (grid_width <= 0 || grid_height <= 0) return CUDA_ERROR_INVALID_VALUE;
  struct staged *staged = take(f, &result);
  if (!staged) return result;
  size_t size = staged->size;
  void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, staged->parameters, CU_LAUNCH_PARAM_BUFFER_SIZE,
                   &size, CU_LAUNCH_PARAM_END};
  result = guest_cuLaunchKernel(f, (unsigned)grid_width, (unsigned)grid_height, 1, staged->block[0],
                                staged->block[1], staged->block[2], staged->shared, hStream, NULL,
                                size ? extra : NULL, 0);
  pthread_mutex_unlock(&lock);
  return result;
}

CUresult guest_cuLaunchGrid(CUfunction f, int grid_width, int grid_height) {
  return guest_cuLaunchGridAsync(f, grid_width, grid_height, NULL);
}

CUresult guest_cuLaunch(CUfunction f) { return guest_cuLaunchGridAsync(f, 1, 1, NULL); }
