// How executable graphs travel (wire_graph.h): nodes are numbered in an order in which each comes
// behind those it depends on, and sent in pieces as they are written down.
#include <stdlib.h>
#include <string.h>

#include "copies/box.h"
#include "exec/exec.h"
#include "exec/hook.h"
#include "exec/internal.h"
#include "graph/condition.h"
#include "graph/graph.h"
#include "graph/task.h"
#include "graph/task_params.h"
#include "guest_calls.h"
#include "kernels/lookup.h"
#include "kernels/module.h"
#include "memory/host_memory.h"
#include "setup/log.h"
#include "wire_graph.h"

// A piece leaves when it is as long as this; one record is always much shorter than the rest of a
// frame.
#define PIECE_BYTES (256u << 10)

struct writer {
  struct graph_exec *exec;
  unsigned char *bytes;
  size_t size, room;
  uint64_t base;  // the graph that the server knows by its conditions, or 0
  uint32_t nodes, graphs;
  struct graph_node *culprit;
  CUgraphInstantiateResult why;
};

static void *take(struct writer *writer, size_t size) {
  size_t padded = (size + 7) & ~(size_t)7;
  if (writer->size + padded > writer->room) {
    size_t room = writer->room ? writer->room * 2 : 4096;
    while (room < writer->size + padded) room *= 2;
    unsigned char *grown = realloc(writer->bytes, room);
    if (!grown) return NULL;
    writer->bytes = grown;
    writer->room = room;
  }
  void *at = writer->bytes + writer->size;
  memset(at, 0, padded);
  writer->size += padded;
  return at;
}

// ---- records -----------------------------------------------------------------------------------

static CUresult put_kernel(struct writer *writer, const struct kernel_task *kernel) {
  struct function *function;
  uint64_t wire;
  CUresult result = function_resolve(kernel->handle, &function, &wire);
  if (result) return result;
  struct wire_graph_kernel *out = take(writer, sizeof *out + kernel->parameter_bytes);
  if (!out) return CUDA_ERROR_OUT_OF_MEMORY;
  out->function = wire;
  for (int i = 0; i < 3; i++) {
    out->grid[i] = kernel->grid[i];
    out->block[i] = kernel->block[i];
    out->cluster[i] = kernel->cluster[i];
  }
  out->shared = kernel->shared;
  out->cooperative = kernel->cooperative;
  out->parameter_bytes = kernel->parameter_bytes;
  out->priority = task_priority(kernel);
  if (kernel->parameter_bytes) memcpy(out + 1, kernel->parameters, kernel->parameter_bytes);
  return CUDA_SUCCESS;
}

// Where the device has an end of a copy.
static struct box_end end_there(const struct copy_task *copy, const struct box_end *end,
                                uint64_t staging) {
  if (end->place != BOX_HOST) return *end;
  struct box_end there = {.place = BOX_DEVICE, .pitch = end->pitch, .rows = end->rows};
  if (copy->reached) {
    there.address = host_device_address(box_pointer(end));
    return there;
  }
  there.address = staging;
  there.pitch = copy->box.width;
  there.rows = copy->box.height;
  return there;
}

static CUresult put_copy(struct writer *writer, const struct copy_task *copy, uint64_t staging) {
  const _Bool arrays = copy->to.place == BOX_ARRAY || copy->from.place == BOX_ARRAY;
  struct wire_graph_copy *out =
      take(writer, sizeof *out + (arrays ? sizeof(struct wire_graph_arrays) : 0));
  if (!out) return CUDA_ERROR_OUT_OF_MEMORY;
  const struct box box = copy->box;
  const struct box_end to = end_there(copy, &copy->to, staging);
  const struct box_end from = end_there(copy, &copy->from, staging);
  *out = (struct wire_graph_copy){
      .to = to.address,
      .to_pitch = to.pitch,
      .to_rows = to.rows,
      .from = from.address,
      .from_pitch = from.pitch,
      .from_rows = from.rows,
      .width = box.width,
      .height = box.height,
      .depth = box.depth,
  };
  if (to.place == BOX_ARRAY) out->to = to.x, out->to_pitch = to.y, out->to_rows = to.z;
  if (from.place == BOX_ARRAY)
    out->from = from.x, out->from_pitch = from.y, out->from_rows = from.z;
  if (arrays)
    *(struct wire_graph_arrays *)(out + 1) = (struct wire_graph_arrays){to.array, from.array};
  return CUDA_SUCCESS;
}

static CUresult put_fill(struct writer *writer, const struct fill_task *fill) {
  struct wire_graph_fill *out = take(writer, sizeof *out);
  if (!out) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = (struct wire_graph_fill){.address = fill->address,
                                  .pitch = fill->pitch,
                                  .width = fill->box.width / fill->unit,
                                  .height = fill->box.height,
                                  .value = fill->value,
                                  .unit = fill->unit};
  return CUDA_SUCCESS;
}

static CUresult put_values(struct writer *writer, const struct values_task *values) {
  struct wire_graph_values *head =
      take(writer, sizeof *head + values->count * sizeof(struct wire_graph_value));
  if (!head) return CUDA_ERROR_OUT_OF_MEMORY;
  head->count = values->count;
  struct wire_graph_value *out = (struct wire_graph_value *)(head + 1);
  for (unsigned i = 0; i < values->count; i++) {
    const CUstreamBatchMemOpParams *in = &values->entries[i];
    out[i].operation = in->operation;
    switch (in->operation) {
      case CU_STREAM_MEM_OP_BARRIER:
        out[i].flags = in->memoryBarrier.flags;
        break;
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        out[i].flags = in->waitValue.flags;
        out[i].address = in->waitValue.address;
        out[i].value = in->waitValue.value64;
        break;
      default:
        out[i].flags = in->writeValue.flags;
        out[i].address = in->writeValue.address;
        out[i].value = in->writeValue.value64;
        break;
    }
  }
  return CUDA_SUCCESS;
}

static CUresult put_condition(struct writer *writer, const struct condition_task *task) {
  if (task->condition->graph != writer->base) {
    log_warn("conditions of a graph that is a copy of the one they were made for are not served");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  struct wire_graph_condition *out = take(writer, sizeof *out);
  if (!out) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = (struct wire_graph_condition){task->condition->handle, task->kind, task->size};
  return CUDA_SUCCESS;
}

static CUresult put_event(struct writer *writer, uint64_t event) {
  struct wire_graph_event *out = take(writer, sizeof *out);
  if (!out) return CUDA_ERROR_OUT_OF_MEMORY;
  out->event = event;
  return CUDA_SUCCESS;
}

static CUresult put_hook(struct writer *writer, const struct graph_node *node) {
  struct wire_graph_host *out = take(writer, sizeof *out);
  if (!out) return CUDA_ERROR_OUT_OF_MEMORY;
  out->function = node->hook->number;
  return CUDA_SUCCESS;
}

static uint32_t wire_type(CUgraphNodeType type, const struct task *task) {
  if (task && is_hook(task)) return CU_GRAPH_NODE_TYPE_HOST;
  // Memory is there when a launch needs it.
  return type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE ||
                 (task && task_is_idle(task))
             ? CU_GRAPH_NODE_TYPE_EMPTY
             : type;
}

// Whether a hook of its own comes ahead of a node; it has the number before the node's.
static _Bool is_behind_hook(const struct graph_exec *exec, const struct graph_node *node) {
  if (!node->hook || !node->task || !is_transfer(node->task)) return 0;
  return transfer_find(exec, node)->ahead;
}

static CUresult put_task(struct writer *writer, const struct graph_node *node,
                         const struct task *task) {
  if (!task || task_is_idle(task)) return CUDA_SUCCESS;
  if (is_hook(task)) return put_hook(writer, node);
  switch (task->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return put_kernel(writer, &task->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return put_copy(writer, &task->copy,
                      is_transfer(task) ? transfer_find(writer->exec, node)->staging : 0);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return put_fill(writer, &task->fill);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return put_event(writer, task->event.handle);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return put_values(writer, &task->values);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return put_condition(writer, &task->condition);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return CUDA_SUCCESS;
    default:
      log_warn("nodes of type %d are not served in graphs", (int)task->type);
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

// A record, of which `put` writes what its type adds.
static CUresult put_record(struct writer *writer, const struct graph_node *node, uint32_t type,
                           uint32_t graph, uint32_t edges) {
  struct wire_graph_node *head =
      take(writer, sizeof *head + edges * sizeof(struct wire_graph_edge));
  if (!head) return CUDA_ERROR_OUT_OF_MEMORY;
  const size_t start = (size_t)((unsigned char *)head - writer->bytes);
  head->type = type;
  head->graph = graph;
  head->edges = edges;
  struct wire_graph_edge *out = (struct wire_graph_edge *)(head + 1);
  const _Bool hook = type == CU_GRAPH_NODE_TYPE_HOST;
  if (!hook && edges && is_behind_hook(writer->exec, node))
    out[0].from = node->number - 1;
  else
    for (uint32_t i = 0; i < edges; i++) {
      const struct graph_edge *edge = &node->before.at[i];
      out[i] = (struct wire_graph_edge){edge->node->number, edge->data.from_port,
                                        edge->data.to_port, edge->data.type, 0};
    }
  CUresult result = hook ? put_hook(writer, node) : put_task(writer, node, node->task);
  head = (struct wire_graph_node *)(writer->bytes + start);  // it may have moved
  head->size = (uint32_t)(writer->size - start);
  return result;
}

static CUresult put_node(struct writer *writer, const struct graph_node *node, uint32_t graph) {
  const uint32_t type = wire_type(node->type, node->task);
  if (!is_behind_hook(writer->exec, node))
    return put_record(writer, node, type, graph, node->before.count);
  // What reads the program's memory for it comes between.
  CUresult result = put_record(writer, node, CU_GRAPH_NODE_TYPE_HOST, graph, node->before.count);
  return result ? result : put_record(writer, node, type, graph, 1);
}

// ---- all of a graph ----------------------------------------------------------------------------

static CUresult send_piece(struct session *session, struct writer *writer, _Bool last) {
  CUresult result = put_GraphBuild(session, writer->exec->wire, writer->base, last, 0,
                                   (uint64_t)writer->size, writer->bytes);
  writer->size = 0;
  return result;
}

static _Bool allowed_in_body(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_GRAPH:
    case CU_GRAPH_NODE_TYPE_MEMSET:
    case CU_GRAPH_NODE_TYPE_MEMCPY:
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return 1;
    default:
      return 0;
  }
}

static CUresult refuse(struct writer *writer, struct graph_node *node, CUresult result,
                       CUgraphInstantiateResult why) {
  writer->culprit = node;
  writer->why = why;
  return result;
}

static CUresult add_to_order(struct graph_exec *exec, struct graph_node *node) {
  // Room is doubled whenever it is used up.
  const size_t count = exec->order_count;
  if (!(count & (count - 1))) {
    struct graph_node **grown =
        realloc(exec->order, (count ? count * 2 : 1) * sizeof(struct graph_node *));
    if (!grown) return CUDA_ERROR_OUT_OF_MEMORY;
    exec->order = grown;
  }
  exec->order[exec->order_count++] = node;
  return CUDA_SUCCESS;
}

// Numbers the nodes, with their hooks.
static void number_all(struct writer *writer) {
  const struct graph_exec *exec = writer->exec;
  for (size_t i = 0; i < exec->order_count; i++) {
    struct graph_node *node = exec->order[i];
    const _Bool behind = is_behind_hook(exec, node);
    node->number = writer->nodes + behind;
    writer->nodes += 1u + behind;
  }
}

// Nobody knows whether, and how often, a body's turn comes: its copies leave nothing to launches.
static CUresult survey_body(struct session *session, struct writer *writer,
                            struct graph_node *node) {
  struct task *task = NULL;
  CUresult result = allowed_in_body(node->type) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
  if (!result && node->type == CU_GRAPH_NODE_TYPE_MEMCPY && !task_is_idle(node->task))
    result = task_under_condition(session, node->task, &task);
  if (task) {
    task_unref(node->task);
    node->task = task;
  }
  return result ? refuse(writer, node, result, CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED)
                : CUDA_SUCCESS;
}

// Looks whether all of it can be sent, before the first byte is: puts the nodes in order, and sets
// memory aside for copies.
static CUresult survey(struct writer *writer, struct graph *graph, _Bool body) {
  _Bool cycle;
  struct graph_node **sorted = graph_sort(graph, &cycle);
  if (!sorted)
    return cycle ? refuse(writer, NULL, CUDA_ERROR_INVALID_VALUE,
                          CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE)
                 : CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = CUDA_SUCCESS;
  for (size_t i = 0; i < graph->node_count && !result; i++) {
    struct graph_node *node = sorted[i];
    if (!(result = add_to_order(writer->exec, node)) && body)
      result = survey_body(session_here(), writer, node);
    if (!result && node->task && is_transfer(node->task))
      result = transfer_prepare(writer->exec, node, node->task);
    const _Bool bodies = body || node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL;
    for (unsigned k = 0; k < node->child_count && !result; k++)
      result = survey(writer, node->children[k], bodies);
  }
  free(sorted);
  return result;
}

static CUresult write_graph(struct writer *writer, struct graph *graph, uint32_t number) {
  _Bool cycle;
  struct graph_node **sorted = graph_sort(graph, &cycle);
  if (!sorted) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = CUDA_SUCCESS;
  for (size_t i = 0; i < graph->node_count && !result; i++) {
    struct graph_node *node = sorted[i];
    if ((result = put_node(writer, node, number))) {
      writer->culprit = node;
      break;
    }
    uint32_t first = writer->graphs;
    writer->graphs += node->child_count;
    if (writer->size >= PIECE_BYTES) result = send_piece(session_here(), writer, 0);
    for (unsigned k = 0; k < node->child_count && !result; k++)
      result = write_graph(writer, node->children[k], first + k);
  }
  free(sorted);
  return result;
}

// The server has all of a graph that conditions were made for, and makes another executable one.
static CUresult send_again(struct session *session, struct writer *writer,
                           const struct graph *from) {
  if (from->sent != from->version || writer->exec->transfer_count) {
    log_warn("a graph with conditions that was changed after it was instantiated is not served");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return put_GraphBuild(session, writer->exec->wire, writer->base, 1, 1, 0, "");
}

CUresult exec_send(struct graph_exec *exec, struct graph *from, struct graph_node **culprit,
                   CUgraphInstantiateResult *why) {
  struct writer writer = {.exec = exec, .graphs = 1, .why = *why};
  for (unsigned i = 0; from && i < from->condition_count; i++)
    if (from->conditions[i]->graph == from->handle && from->conditions[i]->session == exec->session)
      writer.base = from->handle;
  _Bool moved;
  CUresult result = exec->order_count ? CUDA_SUCCESS : survey(&writer, exec->plan, 0);
  if (!result) result = hooks_plan(exec, &moved);
  if (!result) number_all(&writer);
  if (!result && writer.base && from->sent) {
    result = send_again(session_here(), &writer, from);
  } else {
    if (!result) result = write_graph(&writer, exec->plan, 0);
    if (!result) result = send_piece(session_here(), &writer, 1);
    if (!result && writer.base) from->sent = from->version;
  }
  for (struct graph_hook *hook = exec->hooks; hook; hook = hook->next) hook->told = !result;
  free(writer.bytes);
  *culprit = writer.culprit;
  *why = writer.why;
  return result;
}

// One record with new parameters for what has a number.
static CUresult send_one(struct graph_exec *exec, const struct graph_node *node, uint32_t type,
                         uint32_t number) {
  struct writer writer = {.exec = exec};
  CUresult result = put_record(&writer, node, type, number, 0);
  if (!result)
    result = put_GraphSet(session_here(), exec->wire, (uint64_t)writer.size, writer.bytes);
  free(writer.bytes);
  return result;
}

CUresult exec_send_task(struct graph_exec *exec, const struct graph_node *node) {
  return send_one(exec, node, wire_type(node->type, node->task), node->number);
}

CUresult exec_send_hook(struct graph_exec *exec, const struct graph_node *node) {
  if (is_transfer(node->task) && !is_behind_hook(exec, node)) return CUDA_SUCCESS;
  return send_one(exec, node, CU_GRAPH_NODE_TYPE_HOST, node->number - is_behind_hook(exec, node));
}
