// What programs are told of tasks, and how two of them compare.
#include "graph/task_params.h"

#include <string.h>

#include "copies/resolve.h"
#include "graph/allocation.h"
#include "graph/condition.h"
#include "graph/task.h"
#include "graph/task_session.h"
#include "session/session.h"

static CUcontext context_of(const struct task *task) { return (CUcontext)(uintptr_t)task->context; }

static void params_of_kernel(const struct task *task, CUDA_KERNEL_NODE_PARAMS_v3 *params) {
  const struct kernel_task *kernel = &task->kernel;
  params->gridDimX = kernel->grid[0];
  params->gridDimY = kernel->grid[1];
  params->gridDimZ = kernel->grid[2];
  params->blockDimX = kernel->block[0];
  params->blockDimY = kernel->block[1];
  params->blockDimZ = kernel->block[2];
  params->sharedMemBytes = kernel->shared;
  params->kernelParams = kernel->pointers;
  params->ctx = context_of(task);
  // Functions and kernels are one thing here.
  params->func = (CUfunction)kernel->handle;
  params->kern = kernel->kernel;
}

static CUmemorytype memory_type(const struct box_end *end) {
  return end->place == BOX_ARRAY  ? CU_MEMORYTYPE_ARRAY
         : end->place == BOX_HOST ? CU_MEMORYTYPE_HOST
                                  : CU_MEMORYTYPE_DEVICE;
}

static void params_of_copy(const struct task *task, CUDA_MEMCPY_NODE_PARAMS *params) {
  const struct copy_task *copy = &task->copy;
  params->copyCtx = context_of(task);
  CUDA_MEMCPY3D *what = &params->copyParams;
  if (copy->is_described) {
    *what = copy->described;
    return;
  }
  what->WidthInBytes = copy->box.width;
  what->Height = copy->box.height;
  what->Depth = copy->box.depth;
  const struct box_end *to = &copy->to, *from = &copy->from;
  what->srcMemoryType = memory_type(from);
  what->dstMemoryType = memory_type(to);
  if (from->place == BOX_ARRAY) {
    what->srcArray = (CUarray)(uintptr_t)from->array;
    what->srcXInBytes = from->x;
    what->srcY = from->y;
    what->srcZ = from->z;
  } else {
    what->srcPitch = from->pitch;
    what->srcHeight = from->pitch ? from->rows : 0;
    if (from->place == BOX_HOST)
      what->srcHost = box_pointer(from);
    else
      what->srcDevice = from->address;
  }
  if (to->place == BOX_ARRAY) {
    what->dstArray = (CUarray)(uintptr_t)to->array;
    what->dstXInBytes = to->x;
    what->dstY = to->y;
    what->dstZ = to->z;
  } else {
    what->dstPitch = to->pitch;
    what->dstHeight = to->pitch ? to->rows : 0;
    if (to->place == BOX_HOST)
      what->dstHost = box_pointer(to);
    else
      what->dstDevice = to->address;
  }
}

static void params_of_fill(const struct task *task, CUDA_MEMSET_NODE_PARAMS_v2 *params) {
  const struct fill_task *fill = &task->fill;
  params->dst = fill->address;
  params->pitch = fill->box.height > 1 ? fill->pitch : 0;
  params->value = fill->value;
  params->elementSize = fill->unit;
  params->width = fill->box.width / fill->unit;
  params->height = fill->box.height;
  params->ctx = context_of(task);
}

static void params_of_allocation(const struct task *task, CUDA_MEM_ALLOC_NODE_PARAMS_v2 *params) {
  const struct allocate_task *allocate = &task->allocate;
  params->poolProps = allocate->properties;
  params->accessDescs = allocate->access;
  params->accessDescCount = allocate->access_count;
  params->bytesize = allocate->bytes;
  params->dptr = graph_allocation_address(allocate->allocation);
}

static void params_of_condition(const struct task *task, CUDA_CONDITIONAL_NODE_PARAMS *params) {
  const struct condition_task *condition = &task->condition;
  params->handle = condition->condition->handle;
  params->type = condition->kind;
  params->size = condition->size;
  params->phGraph_out = condition->bodies;
  params->ctx = context_of(task);
}

void task_params(const struct task *task, CUgraphNodeParams *params) {
  memset(params, 0, sizeof *params);
  params->type = task->type;
  switch (task->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      params_of_kernel(task, &params->kernel);
      break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      params_of_copy(task, &params->memcpy);
      break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
      params_of_fill(task, &params->memset);
      break;
    case CU_GRAPH_NODE_TYPE_HOST:
      params->host = task->host;
      params->host.ctx = context_of(task);
      break;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      params->eventRecord.ctx = context_of(task);
      __attribute__((fallthrough));
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      params->eventRecord.event = (CUevent)(uintptr_t)task->event.handle;
      break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      params->memOp.ctx = context_of(task);
      params->memOp.count = task->values.count;
      params->memOp.paramArray = task->values.entries;
      break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      params_of_allocation(task, &params->alloc);
      break;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      params->free.dptr = graph_allocation_address(task->freed);
      break;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      params_of_condition(task, &params->conditional);
      break;
    default:
      break;
  }
}

CUresult task_attribute(const struct task *task, CUlaunchAttributeID id,
                        CUlaunchAttributeValue *value) {
  const struct kernel_task *kernel = &task->kernel;
  memset(value, 0, sizeof *value);
  // The one that was set last counts.
  for (unsigned i = kernel->attribute_count; i-- > 0;)
    if (kernel->attributes[i].id == id) {
      *value = kernel->attributes[i].value;
      return CUDA_SUCCESS;
    }
  switch (id) {
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
      value->cooperative = kernel->cooperative;
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      value->memSyncDomainMap.remote = 1;
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

int task_priority(const struct kernel_task *kernel) {
  int priority = 0;
  for (unsigned i = 0; i < kernel->attribute_count; i++)
    if (kernel->attributes[i].id == CU_LAUNCH_ATTRIBUTE_PRIORITY)
      priority = kernel->attributes[i].value.priority;
  return priority;
}

// ---- comparison --------------------------------------------------------------------------------

static _Bool is_flat(struct box box) { return box.height <= 1 && box.depth <= 1; }
static _Bool same_box(struct box a, struct box b) {
  return a.width == b.width && a.height == b.height && a.depth == b.depth;
}
static _Bool same_end(const struct box_end *a, const struct box_end *b) {
  if (a->place != b->place) return 0;
  return a->place == BOX_ARRAY
             ? a->array == b->array && a->x == b->x && a->y == b->y && a->z == b->z
             : a->address == b->address && a->pitch == b->pitch &&
                   (a->rows == b->rows || !a->pitch);
}

static _Bool same_copy(const struct copy_task *a, const struct copy_task *b) {
  return same_box(a->box, b->box) && same_end(&a->to, &b->to) && same_end(&a->from, &b->from);
}

static _Bool same_fill(const struct fill_task *a, const struct fill_task *b) {
  return same_box(a->box, b->box) && a->address == b->address && a->pitch == b->pitch;
}

// Whether one is another device's memory than the other.
static _Bool is_elsewhere(const struct box_end *a, const struct box_end *b) {
  return sessions_many() && session_of_both(holder_of(a), holder_of(b)) == SESSION_SEVERAL;
}

static CUgraphExecUpdateResult changed_if(_Bool changed, CUgraphExecUpdateResult what) {
  return changed ? what : CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

_Bool task_is_idle(const struct task *task) {
  return (task->type == CU_GRAPH_NODE_TYPE_MEMCPY && box_is_empty(&task->copy.box)) ||
         (task->type == CU_GRAPH_NODE_TYPE_MEMSET && box_is_empty(&task->fill.box));
}

CUgraphExecUpdateResult task_compare(const struct task *from, const struct task *to) {
  if (from->type != to->type) return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
  if (task_is_idle(from) != task_is_idle(to)) return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
  switch (from->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      if (from->context != to->context)
        return CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
      return changed_if(from->kernel.cooperative != to->kernel.cooperative,
                        CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED);
    case CU_GRAPH_NODE_TYPE_MEMCPY: {
      const struct copy_task *a = &from->copy, *b = &to->copy;
      _Bool moved = !is_flat(a->box) || !is_flat(b->box) || a->to.place != b->to.place ||
                    a->from.place != b->from.place || is_elsewhere(&a->to, &b->to) ||
                    is_elsewhere(&a->from, &b->from);
      return changed_if(!same_copy(a, b) && moved, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
    }
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      const struct fill_task *a = &from->fill, *b = &to->fill;
      return changed_if(!same_fill(a, b) && (!is_flat(a->box) || !is_flat(b->box) ||
                                             session_of_both(task_session(from),
                                                             task_session(to)) == SESSION_SEVERAL),
                        CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
    }
    case CU_GRAPH_NODE_TYPE_HOST:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return CU_GRAPH_EXEC_UPDATE_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return changed_if(from->allocate.allocation != to->allocate.allocation,
                        CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return changed_if(from->freed != to->freed, CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return changed_if(
          from->condition.kind != to->condition.kind || from->condition.size != to->condition.size,
          CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return changed_if(from->context != to->context,
                        CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
    default:
      return CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
  }
}

static _Bool same_kernel(const struct kernel_task *a, const struct kernel_task *b) {
  return a->handle == b->handle && !memcmp(a->grid, b->grid, sizeof a->grid) &&
         !memcmp(a->block, b->block, sizeof a->block) && a->shared == b->shared &&
         a->parameter_bytes == b->parameter_bytes &&
         (!a->parameter_bytes || !memcmp(a->parameters, b->parameters, a->parameter_bytes));
}

_Bool task_same_attributes(const struct task *a, const struct task *b) {
  return !memcmp(a->kernel.cluster, b->kernel.cluster, sizeof a->kernel.cluster) &&
         a->kernel.cooperative == b->kernel.cooperative &&
         task_priority(&a->kernel) == task_priority(&b->kernel);
}

_Bool task_same(const struct task *a, const struct task *b) {
  if (a == b) return 1;
  if (a->type != b->type) return 0;
  if (task_is_idle(a) && task_is_idle(b)) return 1;
  switch (a->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return same_kernel(&a->kernel, &b->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return same_copy(&a->copy, &b->copy);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return same_fill(&a->fill, &b->fill) && a->fill.value == b->fill.value &&
             a->fill.unit == b->fill.unit;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return a->event.handle == b->event.handle;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return 1;
    default:
      return 0;
  }
}
