// The program's side of the driver: the kernel it launches, and, when it runs through Outboard,
// what its calls cost on the wire.
#ifndef BENCH_SESSION_H
#define BENCH_SESSION_H

#include <stdbool.h>

#include "abi_result.h"
#include "cuda_driver.h"
#include "figure.h"

#define CHECK(call)                                                               \
  do {                                                                            \
    CUresult check_result = (call);                                               \
    const char *check_name = abi_result_name(check_result);                       \
    if (check_result) FAIL("%s: %s", #call, check_name ? check_name : "unknown"); \
  } while (0)

struct session {
  CUcontext context;
  CUmodule module;
  CUfunction kernel;  // of a pointer, an int and a float; does nothing
  CUdeviceptr memory;
};

// From cuInit on. `bytes` of device memory.
struct session session_open(size_t bytes);
// One launch with three parameters.
void session_launch(const struct session *session);
void session_launch_on(const struct session *session, CUstream stream);

// So far; all 0 when the program does not run through Outboard, or without OUTBOARD_STATS.
struct cost {
  uint64_t commands;
  uint64_t round_trips;
  uint64_t sent;
  uint64_t received;
};
struct cost cost_now(void);

#endif
