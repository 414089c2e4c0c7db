#include "graph/dot.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi_descriptor.h"
#include "copies/box.h"
#include "graph/allocation.h"
#include "graph/task.h"
#include "kernels/lookup.h"
#include "kernels/module.h"

static const char *name_of(CUgraphNodeType type) {
  static const char *const names[] = {
      "KERNEL",       "MEMCPY",       "MEMSET",           "HOST",           "GRAPH",     "EMPTY",
      "EVENT_WAIT",   "EVENT_RECORD", "EXT_SEMAS_SIGNAL", "EXT_SEMAS_WAIT", "MEM_ALLOC", "MEM_FREE",
      "BATCH_MEM_OP", "CONDITIONAL"};
  return (size_t)type < sizeof names / sizeof *names ? names[type] : "?";
}

// Which flag asks for the parameters of a node.
static unsigned flag_of(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return CU_GRAPH_DEBUG_DOT_FLAGS_MEMCPY_NODE_PARAMS;
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS;
    case CU_GRAPH_NODE_TYPE_HOST:
      return CU_GRAPH_DEBUG_DOT_FLAGS_HOST_NODE_PARAMS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return CU_GRAPH_DEBUG_DOT_FLAGS_EVENT_NODE_PARAMS;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return CU_GRAPH_DEBUG_DOT_FLAGS_MEM_ALLOC_NODE_PARAMS;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return CU_GRAPH_DEBUG_DOT_FLAGS_MEM_FREE_NODE_PARAMS;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return CU_GRAPH_DEBUG_DOT_FLAGS_BATCH_MEM_OP_NODE_PARAMS;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return CU_GRAPH_DEBUG_DOT_FLAGS_CONDITIONAL_NODE_PARAMS;
    default:
      return 0;
  }
}

struct text {
  char *bytes;
  size_t size, room;
  _Bool failed;
  unsigned flags, graphs;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *text, const char *format, ...) {
  for (int attempt = 0; attempt < 2 && !text->failed; attempt++) {
    size_t left = text->room - text->size;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text->bytes ? text->bytes + text->size : NULL, left, format, arguments);
    va_end(arguments);
    if (length >= 0 && (size_t)length < left) {
      text->size += (size_t)length;
      return;
    }
    size_t room = text->room * 2 + (size_t)(length < 0 ? 0 : length) + 4096;
    char *grown = length < 0 ? NULL : realloc(text->bytes, room);
    text->failed = grown == NULL;
    if (grown) {
      text->bytes = grown;
      text->room = room;
    }
  }
}

static _Bool wants(const struct text *text, unsigned flag) {
  return (text->flags & (flag | CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE)) != 0;
}

static void put_parameters(struct text *text, const struct task *task) {
  switch (task->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      const struct kernel_task *kernel = &task->kernel;
      put(text, "\\n%u x %u x %u blocks of %u x %u x %u, %u bytes of shared memory",
          kernel->grid[0], kernel->grid[1], kernel->grid[2], kernel->block[0], kernel->block[1],
          kernel->block[2], kernel->shared);
      break;
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY: {
      const struct copy_task *copy = &task->copy;
      put(text, "\\n0x%" PRIx64 " to 0x%" PRIx64 "\\n%" PRIu64 " x %" PRIu64 " x %" PRIu64,
          copy->from.place == BOX_ARRAY ? copy->from.array : copy->from.address,
          copy->to.place == BOX_ARRAY ? copy->to.array : copy->to.address, copy->box.width,
          copy->box.height, copy->box.depth);
      break;
    }
    case CU_GRAPH_NODE_TYPE_MEMSET:
      put(text, "\\n0x%" PRIx64 "\\n%" PRIu64 " x %" PRIu64 " bytes of 0x%x", task->fill.address,
          task->fill.box.width, task->fill.box.height, task->fill.value);
      break;
    case CU_GRAPH_NODE_TYPE_HOST:
      put(text, "\\n%p(%p)", (void *)(uintptr_t)task->host.fn, task->host.userData);
      break;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      put(text, "\\nevent 0x%" PRIx64, task->event.handle);
      break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      put(text, "\\n%zu bytes at 0x%" PRIx64, task->allocate.bytes,
          graph_allocation_address(task->allocate.allocation));
      break;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      put(text, "\\n0x%" PRIx64, graph_allocation_address(task->freed));
      break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
      unsigned values = 0;
      for (unsigned i = 0; i < task->values.count; i++)
        values += task->values.entries[i].operation != CU_STREAM_MEM_OP_BARRIER;
      put(text, "\\n%u values", values);
      break;
    }
    default:
      break;
  }
}

static void put_details(struct text *text, const struct graph_node *node) {
  if (wants(text, CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES))
    put(text, "\\nhandle 0x%" PRIx64, node->handle);
  if (wants(text, CU_GRAPH_DEBUG_DOT_FLAGS_EXTRA_TOPO_INFO))
    put(text, "\\n%u in, %u out", node->before.count, node->after.count);
  const struct task *task = node->task;
  if (!task) return;
  if (node->type == CU_GRAPH_NODE_TYPE_KERNEL) {
    const struct function *function = function_find(task->kernel.handle);
    put(text, "\\n");
    for (const char *c = function ? function->name : ""; *c; c++)
      put(text, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
    if (wants(text, CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_ATTRIBUTES))
      for (unsigned i = 0; i < task->kernel.attribute_count; i++)
        put(text, "\\nattribute %d", (int)task->kernel.attributes[i].id);
  }
  if (wants(text, flag_of(node->type))) put_parameters(text, task);
}

// Nodes are called by the number of their graph and their own in it.
static void put_graph(struct text *text, const struct graph *graph) {
  unsigned number = text->graphs++;
  put(text, "subgraph cluster_%u {\nlabel=\"graph_%u\" graph[style=\"dashed\"];\n", number, number);
  uint32_t index = 0;
  for (struct graph_node *node = graph->first; node; node = node->next) node->index = index++;
  for (const struct graph_node *node = graph->first; node; node = node->next) {
    _Bool kernel = node->type == CU_GRAPH_NODE_TYPE_KERNEL;
    put(text, "\"graph_%u_node_%u\"[style=\"%s\" shape=\"%s\" label=\"%u\\n%s", number, node->index,
        kernel ? "bold" : "solid", kernel ? "octagon" : "rectangle", node->index,
        name_of(node->type));
    put_details(text, node);
    put(text, "\"];\n");
    for (unsigned i = 0; i < node->child_count; i++) {
      unsigned first = text->graphs;
      put_graph(text, node->children[i]);
      if (node->children[i]->first)
        put(text, "\"graph_%u_node_%u\" -> \"graph_%u_node_0\" [style=\"dotted\"];\n", number,
            node->index, first);
    }
  }
  for (const struct graph_node *node = graph->first; node; node = node->next)
    for (uint32_t i = 0; i < node->after.count; i++) {
      const struct graph_edge *edge = &node->after.at[i];
      put(text, "\"graph_%u_node_%u\" -> \"graph_%u_node_%u\"", number, node->index, number,
          edge->node->index);
      if (!graph_is_plain(edge->data))
        put(text, " [label=\"port %u, type %u\"]", edge->data.from_port, edge->data.type);
      put(text, ";\n");
    }
  put(text, "}\n");
}

char *dot_of(struct graph *graph, unsigned flags) {
  struct text text = {.flags = flags};
  put(&text, "digraph dot {\n");
  put_graph(&text, graph);
  put(&text, "}\n");
  if (!text.failed) return text.bytes;
  free(text.bytes);
  return NULL;
}

_Bool dot_write(const char *path, const char *text) {
  FILE *file = stream_above(path, "w");
  if (!file) return 0;
  _Bool written = fputs(text, file) >= 0;
  return fclose(file) == 0 && written;
}
