#include "graphs/params.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "core/driver.h"
#include "core/log.h"
#include "graphs/condition.h"
#include "graphs/memory.h"
#include "graphs/tasks.h"
#include "streams/described_copy.h"
#include "streams/host_function.h"
#include "streams/transfer.h"
#include "streams/values.h"

namespace softdev::driver {
namespace {

std::mutex answers_mutex;  // for what tasks keep only to answer with

// A function belongs to a context; a kernel is used in the one that is asked for.
CUresult kernel_of(const CUDA_KERNEL_NODE_PARAMS_v3 &params,
                   const std::vector<CUlaunchAttribute> &attributes, TaskRef *task) {
  const void *handle = params.func ? static_cast<const void *>(params.func) : params.kern;
  std::shared_ptr<Context> context;
  if (auto function = driver()->handles.find<Function>(handle)) {
    auto instance = function->instance.lock();
    if (!instance) return refuse(CUDA_ERROR_INVALID_HANDLE, "the function has been unloaded");
    context = instance->context();
  } else if (CUresult bad = find_context(params.ctx, &context)) {
    return bad;
  }
  LaunchRequest request{
      .function = handle,
      .grid = {params.gridDimX, params.gridDimY, params.gridDimZ},
      .block = {params.blockDimX, params.blockDimY, params.blockDimZ},
      .dynamic_shared = params.sharedMemBytes,
      .parameters = params.kernelParams,
      .extra = params.extra,
  };
  for (const CUlaunchAttribute &attribute : attributes)
    if (CUresult bad = apply(attribute, &request)) return bad;
  std::shared_ptr<KernelTask> kernel;
  if (CUresult bad = make_kernel(context, request, &kernel)) return bad;
  kernel->kernel = params.kern;
  *task = std::move(kernel);
  return CUDA_SUCCESS;
}

CUresult copy_of(const CUDA_MEMCPY_NODE_PARAMS &params, TaskRef *task) {
  if (params.flags || params.reserved) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Context> context;
  if (CUresult bad = find_context(params.copyCtx, &context)) return bad;
  DescribedCopy of;
  if (CUresult bad = read_copy(params.copyParams, &of)) return bad;
  std::shared_ptr<CopyTask> copy;
  if (CUresult bad = make_copy(context, of.to, of.from, of.box, &copy)) return bad;
  copy->described = std::make_shared<CUDA_MEMCPY3D>(params.copyParams);
  *task = std::move(copy);
  return CUDA_SUCCESS;
}

CUresult fill_of(const CUDA_MEMSET_NODE_PARAMS_v2 &params, TaskRef *task) {
  std::shared_ptr<Context> context;
  if (CUresult bad = find_context(params.ctx, &context)) return bad;
  unsigned unit = params.elementSize;
  if (unit != 1 && unit != 2 && unit != 4)
    return refuse(CUDA_ERROR_INVALID_VALUE, "elements have 1, 2 or 4 bytes, not %u", unit);
  if (!params.width || !params.height || params.width > SIZE_MAX / unit)
    return refuse(CUDA_ERROR_INVALID_VALUE, "the width or height is 0 or too large");
  size_t width = params.width * unit;
  size_t pitch = params.height > 1 ? params.pitch : width;
  std::shared_ptr<FillTask> fill;
  if (CUresult bad = make_fill(context, {params.dst, pitch, pitch * params.height, Side::kDevice},
                               {width, params.height, 1}, params.value, unit, &fill))
    return bad;
  *task = std::move(fill);
  return CUDA_SUCCESS;
}

CUresult host_of(const CUDA_HOST_NODE_PARAMS_v2 &params, TaskRef *task) {
  std::shared_ptr<Context> context;
  if (CUresult bad =
          params.ctx ? find_context(params.ctx, &context) : find_own_context(0, &context))
    return bad;
  if (!params.fn) return refuse(CUDA_ERROR_INVALID_VALUE, "the function is NULL");
  if (params.syncMode > CU_HOST_TASK_SPINWAIT)
    return refuse(CUDA_ERROR_INVALID_VALUE, "there is no way to wait %u", params.syncMode);
  *task = std::make_shared<HostTask>(context, params.fn, params.userData, params.syncMode);
  return CUDA_SUCCESS;
}

// `preferred` may be NULL: an event is recorded in its own context in any case.
CUresult event_of(CUevent handle, CUcontext preferred, bool record, TaskRef *task) {
  std::shared_ptr<Context> named;
  if (CUresult bad = preferred ? find_context(preferred, &named) : CUDA_SUCCESS) return bad;
  auto event = driver()->handles.find<Event>(handle);
  if (!event)
    return refuse(CUDA_ERROR_INVALID_VALUE, "%p is no event", static_cast<void *>(handle));
  std::shared_ptr<Context> context = event->context.lock();
  if (!context) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  *task = std::make_shared<EventTask>(context, std::move(event), record);
  return CUDA_SUCCESS;
}

CUresult values_of(const CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 &params, TaskRef *task) {
  if (params.flags || (params.count && !params.paramArray)) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Context> context;
  if (CUresult bad = find_context(params.ctx, &context)) return bad;
  std::vector<Value> values;
  if (CUresult bad = read_values(params.paramArray, params.count, &values)) return bad;
  std::shared_ptr<ValuesTask> made;
  if (CUresult bad = make_values(context, std::move(values), &made)) return bad;
  made->described.assign(params.paramArray, params.paramArray + params.count);
  *task = std::move(made);
  return CUDA_SUCCESS;
}

CUcontext context_handle(const Task &task) {
  return reinterpret_cast<CUcontext>(task.context->handle());
}

void params_of_kernel(KernelTask &task, CUDA_KERNEL_NODE_PARAMS_v3 *params) {
  const Launch &launch = task.prepared;
  params->gridDimX = launch.grid.x;
  params->gridDimY = launch.grid.y;
  params->gridDimZ = launch.grid.z;
  params->blockDimX = launch.block.x;
  params->blockDimY = launch.block.y;
  params->blockDimZ = launch.block.z;
  params->sharedMemBytes = launch.dynamic_shared;
  const auto &parameters = launch.kernel->parameters();
  std::lock_guard guard(answers_mutex);
  if (task.parameter_pointers.size() != parameters.size())
    for (const ParameterInfo &parameter : parameters)
      task.parameter_pointers.push_back(task.prepared.parameters.data() + parameter.offset);
  params->kernelParams = parameters.empty() ? nullptr : task.parameter_pointers.data();
  params->ctx = context_handle(task);
  void *handle = const_cast<void *>(task.function);
  if (Handles::claimed_kind(handle) == Kind::kKernel) {
    params->kern = static_cast<CUkernel>(handle);
    auto instance = std::static_pointer_cast<Instance>(launch.keep);
    Callable callable;
    if (find_callable(handle, task.context, &callable) == CUDA_SUCCESS)
      params->func = reinterpret_cast<CUfunction>(
          instance->function(launch.kernel, callable.settings)->handle());
  } else {
    params->func = static_cast<CUfunction>(handle);
    params->kern = task.kernel;
  }
}

bool is_host_memory(const End &end) {
  if (end.side != Side::kEither) return end.side == Side::kHost;
  auto pin = driver()->memory.pin();
  const Region *region = driver()->memory.find(end.address);
  return !region || region->kind == RegionKind::kHost || region->kind == RegionKind::kRegistered;
}

void params_of_copy(const CopyTask &task, CUDA_MEMCPY_NODE_PARAMS *params) {
  params->copyCtx = context_handle(task);
  CUDA_MEMCPY3D &copy = params->copyParams;
  if (task.described) {
    copy = *task.described;
    return;
  }
  copy.WidthInBytes = task.box.width;
  copy.Height = task.box.height;
  copy.Depth = task.box.depth;
  const End &from = task.from, &to = task.to;
  if (from.side == Side::kArray) {
    copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.srcArray = from.array;
    copy.srcXInBytes = from.x;
    copy.srcY = from.y;
    copy.srcZ = from.z;
  } else {
    copy.srcPitch = from.pitch;
    copy.srcHeight = from.pitch ? from.slice / from.pitch : 0;
    if (is_host_memory(from)) {
      copy.srcMemoryType = CU_MEMORYTYPE_HOST;
      copy.srcHost = reinterpret_cast<const void *>(from.address);
    } else {
      copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
      copy.srcDevice = from.address;
    }
  }
  if (to.side == Side::kArray) {
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.dstArray = to.array;
    copy.dstXInBytes = to.x;
    copy.dstY = to.y;
    copy.dstZ = to.z;
  } else {
    copy.dstPitch = to.pitch;
    copy.dstHeight = to.pitch ? to.slice / to.pitch : 0;
    if (is_host_memory(to)) {
      copy.dstMemoryType = CU_MEMORYTYPE_HOST;
      copy.dstHost = reinterpret_cast<void *>(to.address);
    } else {
      copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
      copy.dstDevice = to.address;
    }
  }
}

void params_of_fill(const FillTask &task, CUDA_MEMSET_NODE_PARAMS_v2 *params) {
  params->dst = task.to.address;
  params->pitch = task.box.height > 1 ? task.to.pitch : 0;
  params->value = task.pattern;
  params->elementSize = task.pattern_bytes;
  params->width = task.box.width / task.pattern_bytes;
  params->height = task.box.height;
  params->ctx = context_handle(task);
}

// What was captured has not been described so.
CUstreamBatchMemOpParams described(const Value &value) {
  CUstreamBatchMemOpParams entry{};
  if (value.waits) {
    entry.operation = value.wide ? CU_STREAM_MEM_OP_WAIT_VALUE_64 : CU_STREAM_MEM_OP_WAIT_VALUE_32;
    entry.waitValue.address = value.address;
    entry.waitValue.value64 = value.value;
    entry.waitValue.flags = value.flags;
  } else {
    entry.operation =
        value.wide ? CU_STREAM_MEM_OP_WRITE_VALUE_64 : CU_STREAM_MEM_OP_WRITE_VALUE_32;
    entry.writeValue.address = value.address;
    entry.writeValue.value64 = value.value;
    entry.writeValue.flags = value.flags;
  }
  return entry;
}

void params_of_values(ValuesTask &task, CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 *params) {
  std::lock_guard guard(answers_mutex);
  if (task.described.empty())
    for (const Value &value : task.values) task.described.push_back(described(value));
  params->ctx = context_handle(task);
  params->count = static_cast<unsigned>(task.described.size());
  params->paramArray = task.described.data();
}

void params_of_allocation(const AllocateTask &task, CUDA_MEM_ALLOC_NODE_PARAMS_v2 *params) {
  params->poolProps = task.properties;
  params->accessDescs = task.access.data();
  params->accessDescCount = task.access.size();
  params->bytesize = task.bytes;
  params->dptr = task.allocation->address;
}

void params_of_condition(ConditionTask &task, CUDA_CONDITIONAL_NODE_PARAMS *params) {
  params->handle = task.condition->handle();
  params->type = task.kind;
  params->size = task.size;
  params->phGraph_out = task.bodies.data();
  params->ctx = context_handle(task);
}

bool flat(const Box &box) { return box.height <= 1 && box.depth <= 1; }
bool same_box(const Box &a, const Box &b) {
  return a.width == b.width && a.height == b.height && a.depth == b.depth;
}
bool same_end(const End &a, const End &b) {
  return a.address == b.address && a.pitch == b.pitch && a.slice == b.slice;
}

// An array is another type of memory, which must not change.
bool is_array(const End &end) { return end.side == Side::kArray; }

// Which device's memory, or the host's.
int owner_of(const End &end) {
  auto pin = driver()->memory.pin();
  const Region *region = driver()->memory.find(end.address);
  return region ? region->device : -1;
}

CUgraphExecUpdateResult compare_copies(const CopyTask &from, const CopyTask &to) {
  if (same_box(from.box, to.box) && same_end(from.to, to.to) && same_end(from.from, to.from))
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
  if (!flat(from.box) || !flat(to.box) || is_array(from.to) != is_array(to.to) ||
      is_array(from.from) != is_array(to.from) || owner_of(from.to) != owner_of(to.to) ||
      owner_of(from.from) != owner_of(to.from))
    return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

CUgraphExecUpdateResult compare_fills(const FillTask &from, const FillTask &to) {
  if (same_box(from.box, to.box) && same_end(from.to, to.to)) return CU_GRAPH_EXEC_UPDATE_SUCCESS;
  if (!flat(from.box) || !flat(to.box) || owner_of(from.to) != owner_of(to.to))
    return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

}  // namespace

CUresult find_context(CUcontext handle, std::shared_ptr<Context> *context) {
  if (!handle) return enter(context);
  if (CUresult bad = enter()) return bad;
  *context = driver()->handles.find<Context>(handle);
  if (!*context || !(*context)->active())
    return refuse(CUDA_ERROR_INVALID_CONTEXT, "%p is no context that is alive",
                  static_cast<void *>(handle));
  return (*context)->error();
}

CUresult find_own_context(int device, std::shared_ptr<Context> *context) {
  if (CUresult bad = enter_anywhere(context)) return bad;
  if (*context) return CUDA_SUCCESS;
  *context = driver()->device(device)->primary;
  return (*context)->active() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult task_of(const CUgraphNodeParams &params, const std::vector<CUlaunchAttribute> &attributes,
                 TaskRef *task) {
  task->reset();
  switch (params.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return kernel_of(params.kernel, attributes, task);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return copy_of(params.memcpy, task);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return fill_of(params.memset, task);
    case CU_GRAPH_NODE_TYPE_HOST:
      return host_of(params.host, task);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return event_of(params.eventRecord.event, params.eventRecord.ctx, true, task);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return event_of(params.eventWait.event, nullptr, false, task);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return values_of(params.memOp, task);
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
      return refuse(CUDA_ERROR_NOT_SUPPORTED, "external semaphores are not supported");
    default:
      return refuse(CUDA_ERROR_INVALID_VALUE, "a node of type %d cannot be made so", params.type);
  }
}

void params_of(const TaskRef &task, CUgraphNodeParams *params) {
  memset(params, 0, sizeof *params);
  params->type = task->type();
  switch (task->type()) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      params_of_kernel(static_cast<KernelTask &>(*task), &params->kernel);
      break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      params_of_copy(static_cast<const CopyTask &>(*task), &params->memcpy);
      break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
      params_of_fill(static_cast<const FillTask &>(*task), &params->memset);
      break;
    case CU_GRAPH_NODE_TYPE_HOST:
      params->host.fn = static_cast<const HostTask &>(*task).function;
      params->host.userData = static_cast<const HostTask &>(*task).data;
      params->host.syncMode = static_cast<const HostTask &>(*task).sync_mode;
      params->host.ctx = context_handle(*task);
      break;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      params->eventRecord.ctx = context_handle(*task);
      [[fallthrough]];
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      params->eventRecord.event =
          reinterpret_cast<CUevent>(static_cast<const EventTask &>(*task).event->handle());
      break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      params_of_values(static_cast<ValuesTask &>(*task), &params->memOp);
      break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      params_of_allocation(static_cast<const AllocateTask &>(*task), &params->alloc);
      break;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      params->free.dptr = static_cast<const FreeTask &>(*task).allocation->address;
      break;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      params_of_condition(static_cast<ConditionTask &>(*task), &params->conditional);
      break;
    default:
      break;
  }
}

CUresult attribute_of(const KernelTask &task, CUlaunchAttributeID id,
                      CUlaunchAttributeValue *value) {
  memset(value, 0, sizeof *value);
  // The one that was set last counts.
  for (auto at = task.attributes.rbegin(); at != task.attributes.rend(); ++at)
    if (at->id == id) {
      *value = at->value;
      return CUDA_SUCCESS;
    }
  switch (id) {
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
      value->cooperative = task.prepared.cooperative;
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      value->memSyncDomainMap = {0, 1};
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
      return refuse(CUDA_ERROR_INVALID_VALUE, "kernels of graphs have no attribute %d", id);
  }
}

CUgraphExecUpdateResult compare(const Task &from, const Task &to) {
  if (from.type() != to.type()) return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
  switch (from.type()) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      if (from.context != to.context) return CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
      bool cooperative = static_cast<const KernelTask &>(from).prepared.cooperative;
      if (cooperative != static_cast<const KernelTask &>(to).prepared.cooperative)
        return CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED;
      return CU_GRAPH_EXEC_UPDATE_SUCCESS;
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return compare_copies(static_cast<const CopyTask &>(from), static_cast<const CopyTask &>(to));
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return compare_fills(static_cast<const FillTask &>(from), static_cast<const FillTask &>(to));
    case CU_GRAPH_NODE_TYPE_HOST:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return CU_GRAPH_EXEC_UPDATE_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return static_cast<const AllocateTask &>(from).allocation ==
                     static_cast<const AllocateTask &>(to).allocation
                 ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                 : CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return static_cast<const FreeTask &>(from).allocation ==
                     static_cast<const FreeTask &>(to).allocation
                 ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                 : CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL: {
      const auto &a = static_cast<const ConditionTask &>(from);
      const auto &b = static_cast<const ConditionTask &>(to);
      return a.kind == b.kind && a.size == b.size ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                                                  : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    }
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return from.context == to.context ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                                        : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    default:
      return CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
  }
}

}  // namespace softdev::driver
