#include "graph/task.h"

#include <stdlib.h>
#include <string.h>

#include "copies/described_copy.h"
#include "copies/resolve.h"
#include "copies/stream_values.h"
#include "graph/allocation.h"
#include "graph/condition.h"
#include "kernels/launch.h"
#include "kernels/lookup.h"
#include "kernels/module.h"
#include "memory/host_memory.h"
#include "memory/memory_range.h"
#include "session/context.h"
#include "session/handle.h"
#include "session/session.h"
#include "streams/event.h"

#define VALUES_MAX 256

struct task *task_new(CUgraphNodeType type, uint64_t context) {
  struct task *task = calloc(1, sizeof *task);
  if (!task) return NULL;
  task->references = 1;
  task->type = type;
  task->context = context;
  return task;
}

void task_unref(struct task *task) {
  if (--task->references) return;
  switch (task->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      free(task->kernel.attributes);
      free(task->kernel.parameters);
      free(task->kernel.pointers);
      break;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      event_let_go(task->event.kept);
      break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      free(task->values.entries);
      break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      free(task->allocate.access);
      if (task->allocate.allocation) graph_allocation_unref(task->allocate.allocation);
      break;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      graph_allocation_unref(task->freed);
      break;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      free(task->condition.bodies);
      condition_unref(task->condition.condition);
      break;
    default:
      break;
  }
  free(task);
}

CUresult task_context(CUcontext handle, uint64_t *context) {
  *context = handle ? handle_of(handle) : context_current_handle();
  if (!handle) return context_unusable();
  return handle_object(WIRE_KIND_CONTEXT, *context) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult task_own_context(int device, uint64_t *context) {
  *context = context_unusable() ? context_primary(device) : context_current_handle();
  return context_is_inactive(*context) ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

// ---- kernels -----------------------------------------------------------------------------------

static CUresult add_attributes(struct kernel_task *kernel, const CUlaunchAttribute *attributes,
                               unsigned count) {
  if (!count) return CUDA_SUCCESS;
  kernel->attributes = malloc(count * sizeof *attributes);
  if (!kernel->attributes) return CUDA_ERROR_OUT_OF_MEMORY;
  for (unsigned i = 0; i < count; i++) {
    const CUlaunchAttribute *attribute = &attributes[i];
    switch (attribute->id) {
      case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        kernel->cooperative = attribute->value.cooperative != 0;
        break;
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        kernel->cluster[0] = attribute->value.clusterDim.x;
        kernel->cluster[1] = attribute->value.clusterDim.y;
        kernel->cluster[2] = attribute->value.clusterDim.z;
        if (!kernel->cluster[0] || !kernel->cluster[1] || !kernel->cluster[2])
          return CUDA_ERROR_INVALID_VALUE;
        break;
      case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
        return CUDA_ERROR_NOT_SUPPORTED;
      default:
        break;
    }
    kernel->attributes[kernel->attribute_count++] = *attribute;
  }
  return CUDA_SUCCESS;
}

// A function is used in its module's context; a library's in the one that is asked for.
static CUresult kernel_context(const CUDA_KERNEL_NODE_PARAMS_v3 *params, uint64_t *context) {
  const uint64_t own = params->func ? function_context(params->func) : 0;
  if (!own) return task_context(params->func ? NULL : params->ctx, context);
  *context = own;
  return CUDA_SUCCESS;
}

CUresult task_kernel(const void *function, const CUlaunchConfig *config, _Bool cooperative,
                     const void *packed, uint32_t size, uint64_t context, struct task **made) {
  struct thread_session before = session_switch(session_of_context(context));
  CUresult result = host_share_named(packed, size);
  session_back(before);
  if (result) return result;
  struct task *task = task_new(CU_GRAPH_NODE_TYPE_KERNEL, context);
  if (!task) return CUDA_ERROR_OUT_OF_MEMORY;
  struct kernel_task *kernel = &task->kernel;
  *kernel = (struct kernel_task){
      .handle = function,
      // Captured launches of the runtime are of kernels; whoever makes a node says so by itself.
      .kernel = function_context(function) ? NULL : (CUkernel)function,
      .grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
      .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
      .shared = config->sharedMemBytes,
      .cooperative = cooperative,
      .parameter_bytes = size,
  };
  result = add_attributes(kernel, config->attrs, config->numAttrs);
  if (!result && size) {
    kernel->parameters = malloc(size);
    if (kernel->parameters)
      memcpy(kernel->parameters, packed, size);
    else
      result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  // Told to who asks for the parameters again: one pointer for each.
  struct function *found = function_find(function);
  if (!result && found && found->parameter_count) {
    kernel->pointers = malloc(found->parameter_count * sizeof(void *));
    if (!kernel->pointers) result = CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < found->parameter_count && !result; i++)
      kernel->pointers[i] = kernel->parameters + found->parameters[i].offset;
    kernel->pointer_count = found->parameter_count;
  }
  if (result)
    task_unref(task);
  else
    *made = task;
  return result;
}

static CUresult kernel_of(const CUDA_KERNEL_NODE_PARAMS_v3 *params, const struct task *like,
                          struct task **task) {
  const void *handle = params->func ? (const void *)params->func : (const void *)params->kern;
  uint64_t context;
  CUresult result = kernel_context(params, &context);
  if (result) return result;
  session_use(session_of_context(context));
  struct function *function;
  uint64_t wire;
  if ((result = function_resolve(handle, &function, &wire))) return result;
  const CUlaunchConfig config = {.gridDimX = params->gridDimX,
                                 .gridDimY = params->gridDimY,
                                 .gridDimZ = params->gridDimZ,
                                 .blockDimX = params->blockDimX,
                                 .blockDimY = params->blockDimY,
                                 .blockDimZ = params->blockDimZ,
                                 .sharedMemBytes = params->sharedMemBytes,
                                 .attrs = like ? like->kernel.attributes : NULL,
                                 .numAttrs = like ? like->kernel.attribute_count : 0};
  // A captured cooperative launch may have come without an attribute that says so.
  _Bool cooperative = like && like->kernel.cooperative;
  if ((result = launch_check_config(function, wire, &config, cooperative))) return result;
  uint32_t size = function->parameter_bytes;
  if (size > LAUNCH_PARAMETERS_MAX) return CUDA_ERROR_INVALID_VALUE;
  unsigned char packed[size ? size : 1];
  result = launch_pack(function, params->kernelParams, params->extra, packed);
  if (!result) result = task_kernel(handle, &config, cooperative, packed, size, context, task);
  if (!result) (*task)->kernel.kernel = params->kern;
  return result;
}

CUresult task_with_attributes(const struct task *task, const CUlaunchAttribute *attributes,
                              unsigned count, struct task **made) {
  const struct kernel_task *kernel = &task->kernel;
  const CUlaunchConfig config = {.gridDimX = kernel->grid[0],
                                 .gridDimY = kernel->grid[1],
                                 .gridDimZ = kernel->grid[2],
                                 .blockDimX = kernel->block[0],
                                 .blockDimY = kernel->block[1],
                                 .blockDimZ = kernel->block[2],
                                 .sharedMemBytes = kernel->shared,
                                 .attrs = (CUlaunchAttribute *)attributes,
                                 .numAttrs = count};
  CUresult result = task_kernel(kernel->handle, &config, 0, kernel->parameters,
                                kernel->parameter_bytes, task->context, made);
  if (!result) (*made)->kernel.kernel = kernel->kernel;
  return result;
}

// ---- copies ------------------------------------------------------------------------------------

CUresult task_copy(uint64_t context, const struct copy *what, struct task **made) {
  struct copy copy = *what;
  // Each end may be of another device.
  struct thread_session before = session_switch(session_here());
  CUresult result = copy_locate(&copy);
  session_back(before);
  if (result) return result;
  struct task *task = task_new(CU_GRAPH_NODE_TYPE_MEMCPY, context);
  if (!task) return CUDA_ERROR_OUT_OF_MEMORY;
  task->copy = (struct copy_task){.to = copy.to, .from = copy.from, .box = copy.box};
  *made = task;
  return CUDA_SUCCESS;
}

static CUresult reach(struct session *session, const struct box_end *end, const struct box *box) {
  const void *at = box_pointer(end);
  if (end->place == BOX_DEVICE) return CUDA_SUCCESS;
  if (end->place != BOX_HOST || !host_is_pinned(at, box_span(end, box)))
    return CUDA_ERROR_NOT_SUPPORTED;
  uint64_t address = host_device_address(at);
  return address ? host_share(session, address) : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult task_under_condition(struct session *session, const struct task *copy,
                              struct task **made) {
  CUresult result = reach(session, &copy->copy.to, &copy->copy.box);
  if (!result) result = reach(session, &copy->copy.from, &copy->copy.box);
  if (result) return result;
  struct task *task = task_new(CU_GRAPH_NODE_TYPE_MEMCPY, copy->context);
  if (!task) return CUDA_ERROR_OUT_OF_MEMORY;
  task->copy = copy->copy;
  task->copy.reached = 1;
  *made = task;
  return CUDA_SUCCESS;
}

static CUresult copy_of(const CUDA_MEMCPY_NODE_PARAMS *params, struct task **task) {
  if (params->flags || params->reserved) return CUDA_ERROR_INVALID_VALUE;
  uint64_t context;
  CUresult result = task_context(params->copyCtx, &context);
  if (result) return result;
  struct copy copy = {.async = 1};
  result = copy_described(&params->copyParams, &copy);
  if (!result) result = task_copy(context, &copy, task);
  if (result) return result;
  (*task)->copy.is_described = 1;
  (*task)->copy.described = params->copyParams;
  return CUDA_SUCCESS;
}

// ---- the others --------------------------------------------------------------------------------

CUresult task_fill(uint64_t context, uint64_t address, uint64_t pitch, struct box box,
                   uint32_t value, uint32_t unit, struct task **made) {
  if (box.width && box.height) {
    if (address % unit || (box.height > 1 && (pitch % unit || pitch < box.width)))
      return CUDA_ERROR_INVALID_VALUE;
    CUresult result = memory_check(address, span_2d(pitch, box.height, box.width));
    if (result) return result;
  }
  struct task *task = task_new(CU_GRAPH_NODE_TYPE_MEMSET, context);
  if (!task) return CUDA_ERROR_OUT_OF_MEMORY;
  task->fill = (struct fill_task){address, pitch, box, value, unit};
  *made = task;
  return CUDA_SUCCESS;
}

static CUresult fill_of(const CUDA_MEMSET_NODE_PARAMS_v2 *params, struct task **task) {
  uint64_t context;
  CUresult result = task_context(params->ctx, &context);
  if (result) return result;
  unsigned unit = params->elementSize;
  if (unit != 1 && unit != 2 && unit != 4) return CUDA_ERROR_INVALID_VALUE;
  if (!params->width || !params->height || params->width > SIZE_MAX / unit)
    return CUDA_ERROR_INVALID_VALUE;
  struct box box = {params->width * unit, params->height, 1};
  return task_fill(context, params->dst, params->height > 1 ? params->pitch : box.width, box,
                   params->value, unit, task);
}

CUresult task_host(CUhostFn function, void *data, uint64_t context, struct task **made) {
  if (!function) return CUDA_ERROR_INVALID_VALUE;
  struct task *task = task_new(CU_GRAPH_NODE_TYPE_HOST, context);
  if (!task) return CUDA_ERROR_OUT_OF_MEMORY;
  task->host.fn = function;
  task->host.userData = data;
  *made = task;
  return CUDA_SUCCESS;
}

CUresult task_event(uint64_t event, _Bool record, uint64_t context, struct task **made) {
  struct event *kept = event_keep(event);
  if (!kept) return CUDA_ERROR_INVALID_VALUE;
  struct task *task =
      task_new(record ? CU_GRAPH_NODE_TYPE_EVENT_RECORD : CU_GRAPH_NODE_TYPE_WAIT_EVENT, context);
  if (!task) {
    event_let_go(kept);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  task->event = (struct event_task){event, kept};
  *made = task;
  return CUDA_SUCCESS;
}

static CUresult check_value(const CUstreamBatchMemOpParams *entry) {
  struct wire_value value;
  _Bool made;
  CUresult result = value_read(entry, &value, &made);
  return result || !made ? result : value_check(&value);
}

CUresult task_values(uint64_t context, const CUstreamBatchMemOpParams *entries, unsigned count,
                     struct task **made) {
  if (!entries || !count || count > VALUES_MAX) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; i++) {
    CUresult result = check_value(&entries[i]);
    if (result) return result;
  }
  struct task *task = task_new(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, context);
  if (!task) return CUDA_ERROR_OUT_OF_MEMORY;
  task->values.entries = malloc(count * sizeof *entries);
  if (!task->values.entries) {
    task_unref(task);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  memcpy(task->values.entries, entries, count * sizeof *entries);
  task->values.count = count;
  *made = task;
  return CUDA_SUCCESS;
}

static CUresult values_of(const CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 *params, struct task **task) {
  if (params->flags || (params->count && !params->paramArray)) return CUDA_ERROR_INVALID_VALUE;
  uint64_t context;
  CUresult result = task_context(params->ctx, &context);
  return result ? result : task_values(context, params->paramArray, params->count, task);
}

static CUresult host_of(const CUDA_HOST_NODE_PARAMS_v2 *params, struct task **task) {
  uint64_t context;
  CUresult result =
      params->ctx ? task_context(params->ctx, &context) : task_own_context(device_here(), &context);
  if (!result && params->syncMode > CU_HOST_TASK_SPINWAIT) result = CUDA_ERROR_INVALID_VALUE;
  if (!result) result = task_host(params->fn, params->userData, context, task);
  if (!result) (*task)->host.syncMode = params->syncMode;
  return result;
}

// An event is recorded in its own context, whichever is preferred.
static CUresult record_of(const CUDA_EVENT_RECORD_NODE_PARAMS *params, struct task **task) {
  uint64_t context;
  CUresult result =
      params->ctx ? task_context(params->ctx, &context) : task_own_context(device_here(), &context);
  return result ? result : task_event(handle_of(params->event), 1, context, task);
}

static CUresult read_params(const CUgraphNodeParams *params, const struct task *like,
                            struct task **task) {
  uint64_t context = context_current_handle();
  switch (params->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return kernel_of(&params->kernel, like, task);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return copy_of(&params->memcpy, task);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return fill_of(&params->memset, task);
    case CU_GRAPH_NODE_TYPE_HOST:
      return host_of(&params->host, task);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return record_of(&params->eventRecord, task);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return task_event(handle_of(params->eventWait.event), 0, context, task);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return values_of(&params->memOp, task);
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// Nodes of one graph may be of several devices: none of this is the calling thread's session's.
CUresult task_of(const CUgraphNodeParams *params, const struct task *like, struct task **task) {
  *task = NULL;
  struct thread_session before = session_switch(session_here());
  CUresult result = read_params(params, like, task);
  session_back(before);
  return result;
}
