// Launches: arguments are checked and packed here, and the launch is posted.
#include <string.h>

#include "context.h"
#include "guest_calls.h"
#include "log.h"
#include "module.h"
#include "stream.h"

#define PARAMETERS_MAX (32u << 10)

static CUresult check_shape(const CUlaunchConfig *config) {
  int device = context_current()->device;
  const unsigned grid[3] = {config->gridDimX, config->gridDimY, config->gridDimZ};
  const unsigned block[3] = {config->blockDimX, config->blockDimY, config->blockDimZ};
  uint64_t threads = 1;
  for (int i = 0; i < 3; i++) {
    if (!grid[i] || !block[i]) return CUDA_ERROR_INVALID_VALUE;
    if (grid[i] > (unsigned)device_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i) ||
        block[i] > (unsigned)device_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i))
      return CUDA_ERROR_INVALID_VALUE;
    threads *= block[i];
  }
  if (threads > (unsigned)device_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK))
    return CUDA_ERROR_INVALID_VALUE;
  int shared = device_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  if (shared && config->sharedMemBytes > (unsigned)shared) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

// `extra` names one buffer that holds all parameters as the kernel sees them.
static CUresult read_extra(void **extra, const void **buffer, size_t *size) {
  *buffer = NULL;
  *size = 0;
  for (int i = 0; i < 16; i += 2) {
    if (extra[i] == CU_LAUNCH_PARAM_END) return *buffer ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
      *buffer = extra[i + 1];
    else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
      *size = *(size_t *)extra[i + 1];
    else
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

static CUresult launch(CUfunction f, const CUlaunchConfig *config, void **kernelParams,
                       void **extra, uint32_t cooperative, int per_thread) {
  struct function *function;
  uint64_t wire;
  CUresult result = function_resolve(f, &function, &wire);
  if (!result) result = check_shape(config);
  if (result) return result;
  uint64_t stream;
  if ((result = stream_resolve(config->hStream, per_thread, &stream))) return result;

  uint32_t size = function->parameter_bytes;
  if (size > PARAMETERS_MAX) return CUDA_ERROR_INVALID_VALUE;
  unsigned char packed[size ? size : 1];
  if (kernelParams && function->parameter_count) {
    if (extra) return CUDA_ERROR_INVALID_VALUE;
    memset(packed, 0, size);
    for (uint32_t i = 0; i < function->parameter_count; i++) {
      if (!kernelParams[i]) return CUDA_ERROR_INVALID_VALUE;
      memcpy(packed + function->parameters[i].offset, kernelParams[i],
             function->parameters[i].size);
    }
  } else if (extra) {
    const void *buffer;
    size_t given;
    if ((result = read_extra(extra, &buffer, &given))) return result;
    // A buffer may be longer than the kernel needs, or lack the padding behind the last parameter.
    memset(packed, 0, size);
    memcpy(packed, buffer, given < size ? given : size);
  } else if (function->parameter_count) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return put_Launch(wire, stream, config->gridDimX, config->gridDimY, config->gridDimZ,
                    config->blockDimX, config->blockDimY, config->blockDimZ, config->sharedMemBytes,
                    cooperative, packed, size);
}

CUresult guest_cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                              unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                              unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                              void **kernelParams, void **extra, int per_thread) {
  CUlaunchConfig config = {.gridDimX = gridDimX,
                           .gridDimY = gridDimY,
                           .gridDimZ = gridDimZ,
                           .blockDimX = blockDimX,
                           .blockDimY = blockDimY,
                           .blockDimZ = blockDimZ,
                           .sharedMemBytes = sharedMemBytes,
                           .hStream = hStream};
  return launch(f, &config, kernelParams, extra, 0, per_thread);
}

CUresult guest_cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                         unsigned int gridDimZ, unsigned int blockDimX,
                                         unsigned int blockDimY, unsigned int blockDimZ,
                                         unsigned int sharedMemBytes, CUstream hStream,
                                         void **kernelParams, int per_thread) {
  CUlaunchConfig config = {.gridDimX = gridDimX,
                           .gridDimY = gridDimY,
                           .gridDimZ = gridDimZ,
                           .blockDimX = blockDimX,
                           .blockDimY = blockDimY,
                           .blockDimZ = blockDimZ,
                           .sharedMemBytes = sharedMemBytes,
                           .hStream = hStream};
  return launch(f, &config, kernelParams, NULL, 1, per_thread);
}

CUresult guest_cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams,
                                void **extra, int per_thread) {
  if (!config || (config->numAttrs && !config->attrs)) return CUDA_ERROR_INVALID_VALUE;
  uint32_t cooperative = 0;
  for (unsigned i = 0; i < config->numAttrs; i++) {
    const CUlaunchAttribute *attribute = &config->attrs[i];
    switch (attribute->id) {
      case CU_LAUNCH_ATTRIBUTE_IGNORE:
        break;
      case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        cooperative = attribute->value.cooperative != 0;
        break;
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        if (attribute->value.clusterDim.x > 1 || attribute->value.clusterDim.y > 1 ||
            attribute->value.clusterDim.z > 1)
          return CUDA_ERROR_NOT_SUPPORTED;
        break;
      // Hints: a launch without them computes the same.
      case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
      case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        break;
      default:
        log_warn("launch attribute %d is not served", (int)attribute->id);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
  }
  return launch(f, config, kernelParams, extra, cooperative, per_thread);
}

// ---- occupancy ---------------------------------------------------------------------------------

// The largest block that keeps a multiprocessor fullest, as the vendor's reference describes it.
CUresult guest_cuOccupancyMaxPotentialBlockSizeWithFlags(
    int *minGridSize, int *blockSize, CUfunction func,
    CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize, int blockSizeLimit,
    unsigned int flags) {
  if (!minGridSize || !blockSize || !context_current()) return CUDA_ERROR_INVALID_VALUE;
  struct function *function;
  uint64_t wire;
  CUresult result = function_resolve(func, &function, &wire);
  if (result) return result;
  int device = context_current()->device;
  int warp = device_attribute(device, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  int most;
  result = guest_cuFuncGetAttribute(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, func);
  if (result) return result;
  if (blockSizeLimit > 0 && blockSizeLimit < most) most = blockSizeLimit;
  int best_threads = 0;
  *blockSize = 0;
  for (int rounded = (most + warp - 1) / warp * warp; rounded > 0; rounded -= warp) {
    int size = rounded < most ? rounded : most;
    size_t shared = blockSizeToDynamicSMemSize ? blockSizeToDynamicSMemSize(size) : dynamicSMemSize;
    struct answer answer;
    answer_init(&answer);
    result = ask_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(wire, size, shared, flags,
                                                                      &answer);
    int blocks = 0;
    if (!result) {
      const struct wire_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags_reply *reply =
          answer.reply;
      blocks = reply->numBlocks;
    }
    answer_free(&answer);
    if (result) return result;
    if (blocks * size > best_threads) {
      best_threads = blocks * size;
      *blockSize = size;
      *minGridSize = blocks * device_attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    }
    if (best_threads ==
        device_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR))
      break;
  }
  return CUDA_SUCCESS;
}

CUresult guest_cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func,
                                                CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                                size_t dynamicSMemSize, int blockSizeLimit) {
  return guest_cuOccupancyMaxPotentialBlockSizeWithFlags(
      minGridSize, blockSize, func, blockSizeToDynamicSMemSize, dynamicSMemSize, blockSizeLimit, 0);
}
