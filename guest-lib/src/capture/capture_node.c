// Work that becomes nodes of a capture.
#include "capture/capture_node.h"

#include <string.h>

#include "capture/internal.h"
#include "copies/copy.h"
#include "graph/allocation.h"
#include "graph/task.h"
#include "guest_calls.h"
#include "memory/memory_range.h"
#include "session/handle.h"
#include "wire/order.h"

#define VALUES_MAX 256  // in a batch

// Edges to a kernel that need not wait for the end of the kernel before it.
static _Bool is_programmatic(const struct task *task) {
  if (!task || task->type != CU_GRAPH_NODE_TYPE_KERNEL) return 0;
  for (unsigned i = 0; i < task->kernel.attribute_count; i++)
    if (task->kernel.attributes[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
      return task->kernel.attributes[i].value.programmaticStreamSerializationAllowed != 0;
  return 0;
}

CUresult capture_add(struct capture *capture, struct capture_member *member, CUgraphNodeType type,
                     struct task *task, struct graph_node **node) {
  CUresult result = capture_check_valid(capture);
  if (result) return result;
  const _Bool programmatic = is_programmatic(task);
  struct graph_edges before = {0};
  for (uint32_t i = 0; i < member->tips.count && !result; i++) {
    struct graph_edge tip = member->tips.at[i];
    if (!tip.node->graph) continue;  // destroyed meanwhile
    if (programmatic && tip.node->type == CU_GRAPH_NODE_TYPE_KERNEL && graph_is_plain(tip.data)) {
      tip.data.from_port = 1;
      tip.data.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
    }
    if (!graph_edges_add(&before, tip.node, tip.data)) result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  struct graph *graph = capture->graph;
  if (!result && type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
    result = graph_add_allocation(graph, task, &before, node);
  else if (!result && type == CU_GRAPH_NODE_TYPE_MEM_FREE)
    result = graph_add_free(graph, task, &before, node);
  else if (!result)
    result = graph_add(graph, type, task, &before, node);
  graph_edges_free(&before);
  if (result) {
    capture->valid = 0;
    return result;
  }
  struct graph_edges tips = {0};
  if (!graph_edges_add(&tips, *node, (CUgraphEdgeData){0})) {
    capture->valid = 0;
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  (*node)->references++;
  tips_free(&member->tips);
  member->tips = tips;
  return CUDA_SUCCESS;
}

// With the lock: CAPTURE_NONE when the stream is not captured.
static CUresult admit(uint64_t stream, struct capture **capture, struct capture_member **member) {
  if (stream == STREAM_LEGACY_WIRE) {
    CUresult result = capture_check_legacy(0);
    return result ? result : CAPTURE_NONE;
  }
  if (!capture_find(stream, capture, member)) return CAPTURE_NONE;
  return capture_check_valid(*capture);
}

// With the lock; takes the reference to the task over.
static CUresult add_task(uint64_t stream, struct task *task, struct graph_node **node) {
  struct capture *capture;
  struct capture_member *member;
  CUresult result = admit(stream, &capture, &member);
  if (!result) result = capture_add(capture, member, task->type, task, node);
  task_unref(task);
  return result;
}

// Returns CAPTURE_NONE when the stream is not captured and may be used.
CUresult capture_look(uint64_t stream) {
  struct capture *capture;
  struct capture_member *member;
  graphs_lock();
  CUresult result = admit(stream, &capture, &member);
  graphs_unlock();
  return result;
}

CUresult capture_check_work(uint64_t stream) {
  CUresult result = capture_look(stream);
  return result == CAPTURE_NONE ? CUDA_SUCCESS : result;
}

CUresult capture_task(uint64_t stream, CUresult made, struct task *task) {
  if (made) return made;
  struct graph_node *node;
  graphs_lock();
  CUresult result = add_task(stream, task, &node);
  graphs_unlock();
  return result;
}

static uint64_t context_of(uint64_t stream) {
  CUcontext context = NULL;
  guest_cuStreamGetCtx((CUstream)(uintptr_t)stream, &context, 0);
  return handle_of(context);
}

// `make` is an expression that makes `task`, with the lock held.
#define CAPTURE(stream, make)                \
  do {                                       \
    CUresult looked = capture_look(stream);  \
    if (looked) return looked;               \
    struct task *task = NULL;                \
    uint64_t context = context_of(stream);   \
    graphs_lock();                           \
    CUresult made = (make);                  \
    graphs_unlock();                         \
    return capture_task(stream, made, task); \
  } while (0)

CUresult capture_launch(uint64_t stream, const void *function, const CUlaunchConfig *config,
                        _Bool cooperative, const void *packed, uint32_t size) {
  int priority = 0;
  CUresult looked = capture_look(stream);
  if (looked) return looked;
  guest_cuStreamGetPriority((CUstream)(uintptr_t)stream, &priority, 0);
  unsigned count = config->numAttrs + (priority != 0);
  CUlaunchAttribute attributes[count ? count : 1];
  if (priority) {
    attributes[0] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_PRIORITY};
    attributes[0].value.priority = priority;
  }
  for (unsigned i = 0; i < config->numAttrs; i++) {
    // Events of launches cannot be captured.
    if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT ||
        config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
      return CUDA_ERROR_NOT_SUPPORTED;
    attributes[i + (priority != 0)] = config->attrs[i];
  }
  CUlaunchConfig kept = *config;
  kept.attrs = attributes;
  kept.numAttrs = count;
  struct task *task = NULL;
  graphs_lock();
  CUresult made =
      task_kernel(function, &kept, cooperative, packed, size, context_of(stream), &task);
  graphs_unlock();
  return capture_task(stream, made, task);
}

// Finds the place of an end of an empty copy. Only the program looks at it, when it asks for the
// node.
static void place(struct box_end *end) {
  if (end->place != BOX_EITHER) return;
  const void *pointer = box_pointer(end);
  end->place = memory_is_device(pointer) ? BOX_DEVICE : BOX_HOST;
}

CUresult capture_copy(const struct copy *copy) {
  struct copy placed = *copy;
  if (box_is_empty(&copy->box)) {
    place(&placed.to);
    place(&placed.from);
  }
  CAPTURE(copy->stream, task_copy(context, &placed, &task));
}

CUresult capture_host(uint64_t stream, CUhostFn function, void *data) {
  CAPTURE(stream, task_host(function, data, context, &task));
}

CUresult capture_values(uint64_t stream, const struct wire_value *values, unsigned count) {
  CUstreamBatchMemOpParams entries[VALUES_MAX];
  if (count > VALUES_MAX) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; i++) {
    // Waits and writes lie alike.
    memset(&entries[i], 0, sizeof entries[i]);
    entries[i].operation = (CUstreamBatchMemOpType)values[i].operation;
    entries[i].waitValue.address = values[i].address;
    entries[i].waitValue.value64 = values[i].value;
    entries[i].waitValue.flags = values[i].flags;
  }
  CAPTURE(stream, task_values(context, entries, count, &task));
}

CUresult capture_fill(uint64_t address, uint64_t pitch, uint32_t value, uint32_t unit,
                      uint64_t elements, uint64_t height, uint64_t stream) {
  struct box box = {elements * unit, height, 1};
  uint64_t row = height > 1 ? pitch : box.width;
  CAPTURE(stream, task_fill(context, address, row, box, value, unit, &task));
}

// ---- what belongs to one graph -----------------------------------------------------------------

CUresult capture_graph(uint64_t stream, const struct graph *graph) {
  struct capture *capture;
  struct capture_member *member;
  CUresult result = admit(stream, &capture, &member);
  if (result) return result;
  if (graph_holds_memory_nodes(graph)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if ((result = graph_check_room(capture->graph, graph))) return result;
  struct graph *copy = graph_clone(graph, 1);
  if (!copy) return CUDA_ERROR_OUT_OF_MEMORY;
  struct graph_node *node;
  result = capture_add(capture, member, CU_GRAPH_NODE_TYPE_GRAPH, NULL, &node);
  if (!result && (!graph_name(copy) || !graph_embed(node, copy))) result = CUDA_ERROR_OUT_OF_MEMORY;
  if (!result) return CUDA_SUCCESS;
  graph_forget(copy);
  graph_unref(copy);
  return result;
}

CUresult capture_allocate(uint64_t stream, int device, uint64_t size, CUdeviceptr *address) {
  CUresult looked = capture_look(stream);
  if (looked) return looked;
  CUDA_MEM_ALLOC_NODE_PARAMS params = {.bytesize = size};
  params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  params.poolProps.location.id = device;
  struct task *task = NULL;
  struct graph_node *node;
  graphs_lock();
  CUresult result = task_allocate(&params, context_of(stream), &task);
  if (!result) result = add_task(stream, task, &node);
  if (!result) *address = graph_allocation_address(node->task->allocate.allocation);
  graphs_unlock();
  return result;
}

CUresult capture_free(uint64_t stream, uint64_t address) {
  CUresult looked = capture_look(stream);
  if (looked) return looked;
  struct task *task = NULL;
  struct graph_node *node;
  graphs_lock();
  CUresult result = task_free(address, context_of(stream), &task);
  if (!result) result = add_task(stream, task, &node);
  graphs_unlock();
  return result;
}
