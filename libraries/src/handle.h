// Handles of cuBLAS. What a program sets of one is kept here and sent before its next use.
#ifndef LIBRARIES_HANDLE_H
#define LIBRARIES_HANDLE_H

#include <pthread.h>
#include <stdint.h>

#include "cuda_driver.h"
#include "kernels/remote_call.h"

#define HANDLE_MAGIC 0x737361626c627563ull

// What was set and not sent, a bit each, in the order in which it has to be sent.
enum {
  SET_STREAM = 1,
  SET_WORKSPACE = 2,
  SET_ATOMICS = 4,
  SET_MATH = 8,
  SET_SM_COUNT = 16,
  SET_EMULATION = 32,
  SET_ENVIRONMENT = 64
};

struct cublas_handle {
  uint64_t magic;        // HANDLE_MAGIC as long as it is live
  pthread_mutex_t lock;  // of all below, and held while a call of the handle waits for its answer
  uint64_t wire;
  uint32_t version;
  CUstream stream;
  int pointer_mode, atomics, math, sm_count, emulation, environment;
  void *workspace;
  size_t workspace_size;  // bytes
  unsigned set;
};

// Returns the handle, locked; NULL for one that is none, or that a fork has taken from its process.
struct cublas_handle *handle_use(struct cublas_handle *handle);
void handle_used(struct cublas_handle *handle);

#endif
