// Launches: arguments are checked and packed here, and the launch is posted.
#include "kernels/launch.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "guest_calls.h"
#include "kernels/internal.h"
#include "kernels/library.h"
#include "kernels/lookup.h"
#include "memory/host_memory.h"
#include "pages/pages.h"
#include "session/context.h"
#include "session/handle.h"
#include "session/session.h"
#include "streams/event.h"
#include "streams/recorder.h"
#include "streams/stream.h"

// Parameters up to this are packed on the stack of the calling thread, which may be a small one.
#define PACK_ON_STACK 4096

// `extra` names one buffer that holds all parameters as the kernel sees them.
static CUresult read_extra(void **extra, const void **buffer, size_t *size) {
  *buffer = NULL;
  *size = 0;
  for (int i = 0; i < 16; i += 2) {
    if (extra[i] == CU_LAUNCH_PARAM_END) return CUDA_SUCCESS;
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
      *buffer = extra[i + 1];
    else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
      *size = *(size_t *)extra[i + 1];
    else
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult launch_pack(const struct function *function, void **kernelParams, void **extra,
                     unsigned char *packed) {
  uint32_t size = function->parameter_bytes;
  if (kernelParams && extra) return CUDA_ERROR_INVALID_VALUE;
  if (kernelParams) {
    // What lies between parameters is padding, and nothing of this process's memory.
    memset(packed, 0, size);
    for (uint32_t i = 0; i < function->parameter_count; i++) {
      if (!kernelParams[i]) return CUDA_ERROR_INVALID_VALUE;
      memcpy(packed + function->parameters[i].offset, kernelParams[i],
             function->parameters[i].size);
    }
    return CUDA_SUCCESS;
  }
  if (!extra) return function->parameter_count ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  const void *buffer;
  size_t given;
  CUresult result = read_extra(extra, &buffer, &given);
  if (result) return result;
  if (given < size || (given && !buffer)) return CUDA_ERROR_INVALID_VALUE;
  if (size) memcpy(packed, buffer, size);
  return CUDA_SUCCESS;
}

static CUresult post(struct session *session, const struct function *function,
                     uint64_t function_on_wire, uint64_t stream, const struct launch_shape *shape,
                     const struct launch_attributes *attributes, const unsigned char *packed) {
  const unsigned *grid = shape->grid, *block = shape->block;
  uint32_t size = function->parameter_bytes;
  // A launch whose one attribute is that it is cooperative travels as a plain one.
  if (attributes->count <= (shape->cooperative ? 1u : 0u))
    return put_Launch(session, function_on_wire, stream, grid[0], grid[1], grid[2], block[0],
                      block[1], block[2], shape->shared, shape->cooperative, packed, size);
  return put_LaunchWith(session, function_on_wire, stream, grid[0], grid[1], grid[2], block[0],
                        block[1], block[2], shape->shared, attributes->travel,
                        attributes->count * (uint32_t)sizeof *attributes->travel, packed, size);
}

static struct launch_shape shape_of(const CUlaunchConfig *config, _Bool cooperative) {
  return (struct launch_shape){.grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
                               .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
                               .shared = config->sharedMemBytes,
                               .cooperative = cooperative};
}

CUresult launch_check_config(struct function *function, uint64_t function_on_wire,
                             const CUlaunchConfig *config, _Bool cooperative) {
  struct launch_shape shape = shape_of(config, cooperative);
  struct launch_attributes attributes;
  CUresult result = launch_attributes_read(config->attrs, config->numAttrs, &attributes, &shape);
  return result ? result : launch_check(function, function_on_wire, &shape);
}

// A function of a module is launched in the module's context. A library's kernel is of none.
static CUresult check_context(const struct function *function, uint64_t stream) {
  if (!atomic_load_explicit(&contexts_created, memory_order_relaxed)) return CUDA_SUCCESS;
  const struct module *module = handle_object(WIRE_KIND_MODULE, function->module);
  return module && module->context && module->context != stream_context(stream)
             ? CUDA_ERROR_INVALID_HANDLE
             : CUDA_SUCCESS;
}

static CUresult launch(CUfunction f, const CUlaunchConfig *config, void **kernelParams,
                       void **extra, _Bool cooperative, int per_thread) {
  uint64_t stream, function_on_wire;
  struct function *function;
  struct launch_shape shape = shape_of(config, cooperative);
  struct launch_attributes attributes;
  CUresult result = launch_attributes_read(config->attrs, config->numAttrs, &attributes, &shape);
  if (!result) result = stream_for_work(config->hStream, per_thread, &stream);
  if (!result) result = function_resolve(f, &function, &function_on_wire);
  // The stream and the function must be of one device.
  if (!result) result = session_mixed_error();
  if (!result) result = check_context(function, stream);
  if (!result) result = launch_check(function, function_on_wire, &shape);
  if (result) return stream_leave_room(result);
  uint32_t size = function->parameter_bytes;
  if (size > LAUNCH_PARAMETERS_MAX) return stream_leave_room(CUDA_ERROR_INVALID_VALUE);
  unsigned char small[size && size <= PACK_ON_STACK ? size : 1];
  unsigned char *packed = size <= PACK_ON_STACK ? small : malloc(size);
  if (!packed) return stream_leave_room(CUDA_ERROR_OUT_OF_MEMORY);
  result = launch_pack(function, kernelParams, extra, packed);
  if (!result) result = host_share_named(packed, size);
  CUresult captured = CAPTURE_NONE;
  if (!result && capture_active())
    captured = recorder->launch(stream, f, config, shape.cooperative, packed, size);
  if (!result && captured == CAPTURE_NONE) {
    struct session *session = session_here();
    const _Bool handed_over = library_hand_over(session, function, packed, size);
    result = post(session, function, function_on_wire, stream, &shape, &attributes, packed);
    if (handed_over) pages_handed_over();
    for (int i = 0; i < 2 && !result; i++)
      if (attributes.events[i]) event_recorded(attributes.events[i], stream);
  } else {
    result = stream_leave_room(result ? result : captured);
  }
  if (packed != small) free(packed);
  return result;
}

// ---- entry points ------------------------------------------------------------------------------

CUresult guest_cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                              unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                              unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                              void **kernelParams, void **extra, int per_thread) {
  const CUlaunchConfig config = {.gridDimX = gridDimX,
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
  const CUlaunchConfig config = {.gridDimX = gridDimX,
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
  return launch(f, config, kernelParams, extra, 0, per_thread);
}
