// Whether a launch can be, as far as that is known before it runs.
#include "kernels/function.h"
#include "kernels/internal.h"
#include "kernels/launch.h"
#include "session/device.h"
#include "setup/log.h"

// Every kernel can be launched with so many threads, whatever registers it takes, unless it was
// compiled for fewer.
#define THREADS_ALWAYS 256
#define PORTABLE_CLUSTER 8
#define LARGEST_CLUSTER 16

static CUresult check_device(const struct launch_shape *shape, uint64_t *threads) {
  // Those that the server did not tell are 0.
  const int *limits = device_get(device_here())->attributes;
  *threads = 1;
  for (int i = 0; i < 3; i++) {
    unsigned grid = shape->grid[i], block = shape->block[i];
    if (!grid || !block) return CUDA_ERROR_INVALID_VALUE;
    if (grid > (unsigned)limits[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i] ||
        block > (unsigned)limits[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i])
      return CUDA_ERROR_INVALID_VALUE;
    *threads *= block;
  }
  if (*threads > (unsigned)limits[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK])
    return CUDA_ERROR_INVALID_VALUE;
  int shared = limits[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN];
  if (shared && shape->shared > (unsigned)shared) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

static CUresult check_resident(struct function *function, uint64_t wire,
                               const struct launch_shape *shape, int threads) {
  int fit;
  CUresult result =
      function_occupancy(session_here(), function, wire, threads, shape->shared, 0, &fit);
  if (result) return result;
  uint64_t most = (uint64_t)fit * (unsigned)device_attribute(
                                      device_here(), CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  uint64_t blocks = (uint64_t)shape->grid[0] * shape->grid[1];
  if (blocks > most || blocks * shape->grid[2] > most) {
    log_debug("%s: more blocks than can be resident at once, which are %llu", function->name,
              (unsigned long long)most);
    return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  }
  return CUDA_SUCCESS;
}

// The cluster that a launch has: what it asks for, what the kernel was compiled for, or what was
// set for the function.
static CUresult check_cluster(struct function *function, const struct launch_shape *shape) {
  const unsigned *cluster = shape->cluster;
  unsigned required[3], set = 0;
  for (int i = 0; i < 3; i++) {
    int value = function->attributes[CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH + i];
    required[i] = value > 0 ? (unsigned)value : 0;
    set += value > 0;
  }
  // A function's are set one after the other.
  const _Bool is_required = set != 0;
  if (is_required && set != 3 && !cluster[0]) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  if (is_required && cluster[0] && !function->cluster_set)
    for (int i = 0; i < 3; i++)
      if (cluster[i] != required[i]) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  if (!cluster[0] && is_required) cluster = required;
  if (!cluster[0])
    return function->attributes[CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET]
               ? CUDA_ERROR_INVALID_CLUSTER_SIZE
               : CUDA_SUCCESS;
  unsigned most = function->attributes[CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED]
                      ? LARGEST_CLUSTER
                      : PORTABLE_CLUSTER;
  uint64_t blocks = (uint64_t)cluster[0] * cluster[1];
  if (blocks > most || blocks * cluster[2] > most) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  if (blocks * cluster[2] > 1 &&
      device_attribute(device_here(), CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) < 9)
    return CUDA_ERROR_NOT_SUPPORTED;
  for (int i = 0; i < 3; i++)
    if (shape->grid[i] % cluster[i]) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  return CUDA_SUCCESS;
}

// Of every launch: what is known of the function is not called for.
static inline CUresult attribute_of(struct function *function, uint64_t wire,
                                    CUfunction_attribute attribute, int *value) {
  if (!(function->attributes_known & 1u << attribute))
    return function_attribute(session_here(), function, wire, attribute, value);
  *value = function->attributes[attribute];
  return CUDA_SUCCESS;
}

CUresult launch_check(struct function *function, uint64_t wire, const struct launch_shape *shape) {
  uint64_t threads;
  CUresult result = check_device(shape, &threads);
  if (result) return result;
  if (!function->described) {
    // Nothing is asked for the sake of what only a program's own mistake could make fail.
    if (threads <= THREADS_ALWAYS && !shape->shared && !shape->cooperative && !shape->cluster[0] &&
        !function->cluster_set)
      return CUDA_SUCCESS;
    if ((result = function_describe(session_here(), function, wire))) return result;
  }
  int most;
  result = attribute_of(function, wire, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &most);
  if (result) return result;
  if (threads > (unsigned)most) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  if (shape->shared) {
    result = attribute_of(function, wire, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, &most);
    if (result) return result;
    if (shape->shared > (unsigned)(most > 0 ? most : 0)) return CUDA_ERROR_INVALID_VALUE;
  }
  if (shape->cooperative) {
    result = check_resident(function, wire, shape, (int)threads);
    if (result) return result;
  }
  return check_cluster(function, shape);
}
