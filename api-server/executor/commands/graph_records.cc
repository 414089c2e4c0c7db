#include "commands/graph_records.h"

#include "base/served_values.h"
#include "base/span.h"
#include "commands/box.h"

namespace outboard {

namespace {

constexpr uint32_t kMostValues = 256;
constexpr uint32_t kMostBodies = 4096;

}  // namespace

CUresult GraphRecords::fail(const char *why) {
  why_ = why;
  return CUDA_ERROR_INVALID_VALUE;
}

template <class T>
const T *GraphRecords::take(size_t count) {
  if (count > record_.size() / sizeof(T)) {
    why_ = "a node of a graph is shorter than its type";
    return nullptr;
  }
  const auto *at = reinterpret_cast<const T *>(record_.data());
  record_ = record_.subspan(count * sizeof(T));
  return at;
}

const wire_graph_node *GraphRecords::next() {
  kernel_ = nullptr;
  function_ = nullptr;
  bodies_ = 0;
  arrays_ = {};
  if (bytes_.empty() || why_) return nullptr;
  const auto *head = reinterpret_cast<const wire_graph_node *>(bytes_.data());
  if (bytes_.size() < sizeof *head || head->size < sizeof *head || head->size % 8 ||
      head->size > bytes_.size()) {
    why_ = "the size of a graph's node makes no sense";
    return nullptr;
  }
  record_ = bytes_.subspan(sizeof *head, head->size - sizeof *head);
  bytes_ = bytes_.subspan(head->size);
  head_ = head;
  const auto *edges = take<wire_graph_edge>(head->edges);
  if (!edges) return nullptr;
  edges_ = {edges, head->edges};
  return head;
}

CUresult GraphRecords::params(CUgraphNodeParams *params) {
  *params = {};
  params->type = static_cast<CUgraphNodeType>(head_->type);
  const CUresult result = decode(params);
  if (result == CUDA_SUCCESS && !record_.empty()) return fail("a graph's node is too long");
  return result;
}

CUresult GraphRecords::decode(CUgraphNodeParams *params) {
  switch (head_->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return kernel_params(params);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return copy_params(params);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return fill_params(params);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return event_params(params);
    case CU_GRAPH_NODE_TYPE_HOST:
      return host_params(params);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return values_params(params);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return condition_params(params);
    case CU_GRAPH_NODE_TYPE_GRAPH:
      bodies_ = 1;
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return CUDA_SUCCESS;
    default:
      return fail("a graph's node has an unknown type");
  }
}

CUresult GraphRecords::kernel_params(CUgraphNodeParams *params) {
  const auto *q = take<wire_graph_kernel>();
  if (!q) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t padded = (uint64_t{q->parameter_bytes} + 7) & ~uint64_t{7};
  const auto *packed = take<uint8_t>(padded);
  if (!packed) return CUDA_ERROR_INVALID_VALUE;
  kernel_ = q;
  function_ = s_.objects().find_function(q->function);
  if (!function_) return CUDA_ERROR_INVALID_HANDLE;
  if (function_->layout_known && q->parameter_bytes != function_->parameter_bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (const CUresult result = s_.stacks().need(function_); result != CUDA_SUCCESS) return result;
  CUDA_KERNEL_NODE_PARAMS_v3 &kernel = params->kernel;
  kernel.func = function_->object;
  kernel.gridDimX = q->grid[0];
  kernel.gridDimY = q->grid[1];
  kernel.gridDimZ = q->grid[2];
  kernel.blockDimX = q->block[0];
  kernel.blockDimY = q->block[1];
  kernel.blockDimZ = q->block[2];
  kernel.sharedMemBytes = q->shared;
  packed_size_ = q->parameter_bytes;
  packed_[0] = CU_LAUNCH_PARAM_BUFFER_POINTER;
  packed_[1] = const_cast<uint8_t *>(packed);
  packed_[2] = CU_LAUNCH_PARAM_BUFFER_SIZE;
  packed_[3] = &packed_size_;
  packed_[4] = CU_LAUNCH_PARAM_END;
  kernel.extra = packed_size_ ? packed_ : nullptr;
  return CUDA_SUCCESS;
}

CUresult GraphRecords::copy_params(CUgraphNodeParams *params) {
  const auto *q = take<wire_graph_copy>();
  if (!q) return CUDA_ERROR_INVALID_VALUE;
  if (!record_.empty()) {
    const auto *arrays = take<wire_graph_arrays>();
    if (!arrays) return CUDA_ERROR_INVALID_VALUE;
    arrays_ = *arrays;
  }
  const Box box{q->width, q->height, q->depth};
  BoxEnd to, from;
  if (!find_box(s_, arrays_.to, q->to, q->to_pitch, q->to_rows, box, &to) ||
      !find_box(s_, arrays_.from, q->from, q->from_pitch, q->from_rows, box, &from)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  params->memcpy.copyParams = on_device(to, from, box);
  params->memcpy.copyCtx = s_.device().context();
  return CUDA_SUCCESS;
}

CUresult GraphRecords::fill_params(CUgraphNodeParams *params) {
  const auto *q = take<wire_graph_fill>();
  if (!q) return CUDA_ERROR_INVALID_VALUE;
  // A driver would read as much of the value as the unit says; rows that lie on one another could
  // be without end.
  const uint64_t row = span_1d(q->width, q->unit);
  const bool is_unit = q->unit == 1 || q->unit == 2 || q->unit == 4;
  if (!is_unit || (q->height > 1 && q->pitch < row) ||
      !s_.reachable(q->address, span_2d(q->pitch, q->height, row))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  CUDA_MEMSET_NODE_PARAMS_v2 &fill = params->memset;
  fill.dst = q->address;
  fill.pitch = q->pitch;
  fill.value = q->value;
  fill.elementSize = q->unit;
  fill.width = q->width;
  fill.height = q->height;
  fill.ctx = s_.device().context();
  return CUDA_SUCCESS;
}

CUresult GraphRecords::event_params(CUgraphNodeParams *params) {
  const auto *q = take<wire_graph_event>();
  if (!q) return CUDA_ERROR_INVALID_VALUE;
  return s_.objects().find(q->event, &params->eventRecord.event) ? CUDA_SUCCESS
                                                                 : CUDA_ERROR_INVALID_HANDLE;
}

CUresult GraphRecords::host_params(CUgraphNodeParams *params) {
  const auto *q = take<wire_graph_host>();
  if (!q) return CUDA_ERROR_INVALID_VALUE;
  CUDA_HOST_NODE_PARAMS host{};
  if (!s_.host_functions().node(q->function, &host)) return CUDA_ERROR_OUT_OF_MEMORY;
  params->host.fn = host.fn;
  params->host.userData = host.userData;
  return CUDA_SUCCESS;
}

CUresult GraphRecords::values_params(CUgraphNodeParams *params) {
  const auto *q = take<wire_graph_values>();
  if (!q) return CUDA_ERROR_INVALID_VALUE;
  if (q->count > kMostValues) return fail("a graph's node has too many values");
  const auto *values = take<wire_graph_value>(q->count);
  if (!values) return CUDA_ERROR_INVALID_VALUE;
  values_.assign(q->count, {});
  for (uint32_t i = 0; i < q->count; i++) {
    const wire_graph_value &in = values[i];
    CUstreamBatchMemOpParams &out = values_[i];
    out.operation = static_cast<CUstreamBatchMemOpType>(in.operation);
    uint64_t size = 4;
    switch (in.operation) {
      case CU_STREAM_MEM_OP_BARRIER:
        if (!is_served_value(in.operation, in.flags, in.value)) return CUDA_ERROR_INVALID_VALUE;
        out.memoryBarrier.flags = in.flags;
        continue;
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        size = 8;
        [[fallthrough]];
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        break;
      default:
        return fail("a graph's node has a value of an unknown kind");
    }
    if (!is_served_value(in.operation, in.flags, in.value) || in.address % size != 0 ||
        !s_.reachable(in.address, size)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    // Both kinds lie alike.
    out.waitValue.address = in.address;
    out.waitValue.value64 = in.value;
    out.waitValue.flags = in.flags;
  }
  params->memOp.ctx = s_.device().context();
  params->memOp.count = q->count;
  params->memOp.paramArray = values_.data();
  return CUDA_SUCCESS;
}

CUresult GraphRecords::condition_params(CUgraphNodeParams *params) {
  const auto *q = take<wire_graph_condition>();
  if (!q) return CUDA_ERROR_INVALID_VALUE;
  if (q->bodies == 0 || q->bodies > kMostBodies) return fail("a condition has too many bodies");
  if (q->kind > CU_GRAPH_COND_TYPE_SWITCH) return CUDA_ERROR_INVALID_VALUE;
  bodies_ = q->bodies;
  params->conditional.handle = q->handle;
  params->conditional.type = static_cast<CUgraphConditionalNodeType>(q->kind);
  params->conditional.size = q->bodies;
  params->conditional.ctx = s_.device().context();
  return CUDA_SUCCESS;
}

}  // namespace outboard
