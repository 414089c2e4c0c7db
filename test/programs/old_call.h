// Versions of driver functions that today's header hides: programs of older toolkits call them.
#pragma once

#include <dlfcn.h>

#include <cuda.h>

// OLD_CALL(cuCtxCreate_v2, CUcontext *, unsigned, CUdevice)(&context, 0, device)
#define OLD_CALL(name, ...) \
  (reinterpret_cast<CUresult (*)(__VA_ARGS__)>(dlsym(RTLD_DEFAULT, #name)))
