// What the parts of the null device share. It trusts its caller: it measures what is in front of a
// driver, and is no test of what a driver checks.
#ifndef NULL_DEVICE_NULL_H
#define NULL_DEVICE_NULL_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda_driver.h"

#define NULL_DEVICE_MEMORY (16ull << 30)

struct CUctx_st {
  CUdevice device;
};

// The calling thread's current context.
CUcontext null_current(void);

// Waits until all host functions have been called.
void null_finish(void);

// One line, on stderr when NULL_DEVICE_LOG is set: a benchmark's output stays clean otherwise.
void null_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

static inline void *null_pointer(CUdeviceptr address) { return (void *)(uintptr_t)address; }

#endif
