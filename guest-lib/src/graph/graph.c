#include "graph/graph.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "graph/allocation.h"
#include "graph/condition.h"
#include "graph/task.h"
#include "graph/told.h"
#include "graph/user_object.h"
#include "session/handle.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void graphs_lock(void) { pthread_mutex_lock(&lock); }
void graphs_unlock(void) { pthread_mutex_unlock(&lock); }

// ---- life --------------------------------------------------------------------------------------

struct graph *graph_new(void) {
  struct graph *graph = calloc(1, sizeof *graph);
  if (!graph) return NULL;
  graph->references = 1;
  graph->named = 1;
  return graph;
}

_Bool graph_name(struct graph *graph) {
  graph->handle = handle_mint_for_any(WIRE_KIND_GRAPH, graph);
  if (graph->handle) graph->references++;
  return graph->handle != 0;
}

static void forget_name(enum wire_kind kind, uint64_t *handle) {
  if (handle_retire(kind, *handle)) handle_recycle(kind, *handle);
  *handle = 0;
}

void graph_node_unref(struct graph_node *node) {
  if (--node->references) return;
  for (unsigned i = 0; i < node->child_count; i++) {
    node->children[i]->parent = NULL;
    graph_unref(node->children[i]);
  }
  if (node->task) task_unref(node->task);
  told_free(node);
  free(node->children);
  free(node->before.at);
  free(node->after.at);
  free(node);
}

void graph_unref(struct graph *graph) {
  if (--graph->references) return;
  for (struct graph_node *node = graph->first, *next; node; node = next) {
    next = node->next;
    node->graph = NULL;
    node->before.count = node->after.count = 0;
    graph_node_unref(node);
  }
  graph_release_users(graph);
  if (graph->instance) *graph->instance = NULL;
  for (unsigned i = 0; i < graph->condition_count; i++) condition_unref(graph->conditions[i]);
  for (size_t i = 0; i < graph->balance_count; i++)
    graph_allocation_unref(graph->balance[i].allocation);
  for (size_t i = 0; i < graph->freed_count; i++) graph_node_unref(graph->freed[i]);
  free(graph->conditions);
  free(graph->users);
  free(graph->balance);
  free(graph->freed);
  free(graph->copies);
  free(graph);
}

void graph_forget(struct graph *graph) {
  graph->gone = 1;
  for (struct graph_node *node = graph->first; node; node = node->next) {
    if (node->handle) forget_name(WIRE_KIND_GRAPH_NODE, &node->handle);
    node->graph = NULL;
    for (unsigned i = 0; i < node->child_count; i++) graph_forget(node->children[i]);
  }
  if (!graph->handle) return;
  forget_name(WIRE_KIND_GRAPH, &graph->handle);
  graph_unref(graph);
}

struct graph *graph_find(CUgraph handle) {
  return handle_object(WIRE_KIND_GRAPH, handle_of(handle));
}

struct graph_node *graph_find_node(CUgraphNode handle) {
  struct graph_node *node = handle_object(WIRE_KIND_GRAPH_NODE, handle_of(handle));
  return node && node->graph ? node : NULL;
}

void graph_touch(struct graph *graph) {
  for (; graph; graph = graph->parent ? graph->parent->graph : NULL) graph->version++;
}

// ---- edges -------------------------------------------------------------------------------------

_Bool graph_edges_add(struct graph_edges *edges, struct graph_node *node, CUgraphEdgeData data) {
  if (edges->count == edges->room) {
    uint32_t room = edges->room ? edges->room * 2 : 4;
    struct graph_edge *grown = realloc(edges->at, room * sizeof *grown);
    if (!grown) return 0;
    edges->at = grown;
    edges->room = room;
  }
  edges->at[edges->count++] = (struct graph_edge){node, data};
  return 1;
}

void graph_edges_free(struct graph_edges *edges) {
  free(edges->at);
  *edges = (struct graph_edges){0};
}

CUresult graph_find_edges(const struct graph *graph, const CUgraphNode *handles,
                          const CUgraphEdgeData *data, size_t count, struct graph_edges *edges) {
  *edges = (struct graph_edges){0};
  if (count && !handles) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; i++) {
    struct graph_node *node = graph_find_node(handles[i]);
    CUresult result = CUDA_SUCCESS;
    if (!node || node->graph != graph)
      result = CUDA_ERROR_INVALID_VALUE;
    else if (!graph_edges_add(edges, node, data ? data[i] : (CUgraphEdgeData){0}))
      result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!result) continue;
    graph_edges_free(edges);
    return result;
  }
  return CUDA_SUCCESS;
}

static struct graph_edge *find_edge(struct graph_edges *edges, const struct graph_node *node) {
  for (uint32_t i = 0; i < edges->count; i++)
    if (edges->at[i].node == node) return &edges->at[i];
  return NULL;
}

static void erase_edge(struct graph_edges *edges, const struct graph_node *node) {
  struct graph_edge *found = find_edge(edges, node);
  if (!found) return;
  size_t behind = (size_t)(&edges->at[edges->count] - (found + 1));
  memmove(found, found + 1, behind * sizeof *found);
  edges->count--;
}

static CUresult check_data(const struct graph_node *from, const struct graph_node *to,
                           CUgraphEdgeData data) {
  for (size_t i = 0; i < sizeof data.reserved; i++)
    if (data.reserved[i]) return CUDA_ERROR_INVALID_VALUE;
  if (data.to_port || data.from_port > 2 || data.type > CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC)
    return CUDA_ERROR_INVALID_VALUE;
  _Bool kernels = from->type == CU_GRAPH_NODE_TYPE_KERNEL && to->type == CU_GRAPH_NODE_TYPE_KERNEL;
  if (data.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC && !kernels)
    return CUDA_ERROR_INVALID_VALUE;
  if (data.from_port && from->type != CU_GRAPH_NODE_TYPE_KERNEL) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

CUresult graph_connect(struct graph_node *from, struct graph_node *to, CUgraphEdgeData data) {
  if (from == to) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = check_data(from, to, data);
  if (result) return result;
  _Bool connected = from->after.count < to->before.count ? find_edge(&from->after, to) != NULL
                                                         : find_edge(&to->before, from) != NULL;
  if (connected) return CUDA_ERROR_INVALID_VALUE;
  if (!graph_edges_add(&from->after, to, data)) return CUDA_ERROR_OUT_OF_MEMORY;
  if (!graph_edges_add(&to->before, from, data)) {
    from->after.count--;
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  to->graph->edge_count++;
  graph_touch(to->graph);
  return CUDA_SUCCESS;
}

CUresult graph_disconnect(struct graph_node *from, struct graph_node *to,
                          const CUgraphEdgeData *data) {
  const struct graph_edge *found = find_edge(&from->after, to);
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  CUgraphEdgeData is = found->data;
  if (data ? is.from_port != data->from_port || is.to_port != data->to_port || is.type != data->type
           : !graph_is_plain(is))
    return CUDA_ERROR_INVALID_VALUE;
  erase_edge(&from->after, to);
  erase_edge(&to->before, from);
  to->graph->edge_count--;
  graph_touch(to->graph);
  return CUDA_SUCCESS;
}

// ---- nodes -------------------------------------------------------------------------------------

static void forget_copies(struct graph *graph) {
  free(graph->copies);
  graph->copies = NULL;
  graph->copy_count = 0;
}

static struct graph_node *append(struct graph *graph, CUgraphNodeType type) {
  struct graph_node *node = calloc(1, sizeof *node);
  if (!node) return NULL;
  node->references = 1;
  node->graph = graph;
  node->type = type;
  node->enabled = 1;
  node->previous = graph->last;
  if (graph->last)
    graph->last->next = node;
  else
    graph->first = node;
  graph->last = node;
  graph->node_count++;
  return node;
}

static _Bool name_node(struct graph_node *node) {
  node->handle = handle_mint_for_any(WIRE_KIND_GRAPH_NODE, node);
  return node->handle != 0;
}

CUresult graph_add(struct graph *graph, CUgraphNodeType type, struct task *task,
                   const struct graph_edges *before, struct graph_node **added) {
  struct graph_node *node = append(graph, type);
  if (!node) return CUDA_ERROR_OUT_OF_MEMORY;
  node->task = task ? task_ref(task) : NULL;
  CUresult result = CUDA_SUCCESS;
  for (uint32_t i = 0; i < before->count && !result; i++)
    result = graph_connect(before->at[i].node, node, before->at[i].data);
  if (!result && graph->named && !name_node(node)) result = CUDA_ERROR_OUT_OF_MEMORY;
  if (result) {
    graph_remove(node);
    return result;
  }
  if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE)
    graph->memory_nodes++;
  graph_touch(graph);
  *added = node;
  return CUDA_SUCCESS;
}

void graph_remove(struct graph_node *node) {
  struct graph *graph = node->graph;
  forget_copies(graph);
  graph_touch(graph);
  graph->edge_count -= node->before.count + node->after.count;
  for (uint32_t i = 0; i < node->before.count; i++)
    erase_edge(&node->before.at[i].node->after, node);
  for (uint32_t i = 0; i < node->after.count; i++)
    erase_edge(&node->after.at[i].node->before, node);
  node->before.count = node->after.count = 0;
  if (node->handle) forget_name(WIRE_KIND_GRAPH_NODE, &node->handle);
  for (unsigned i = 0; i < node->child_count; i++) graph_forget(node->children[i]);
  *(node->previous ? &node->previous->next : &graph->first) = node->next;
  *(node->next ? &node->next->previous : &graph->last) = node->previous;
  graph->node_count--;
  node->graph = NULL;
  graph_node_unref(node);
}

_Bool graph_embed(struct graph_node *node, struct graph *child) {
  struct graph **grown = realloc(node->children, (node->child_count + 1) * sizeof(struct graph *));
  if (!grown) return 0;
  node->children = grown;
  node->children[node->child_count++] = child;
  child->parent = node;
  return 1;
}

// ---- copies ------------------------------------------------------------------------------------

static _Bool clone_node(struct graph *copy, struct graph_node *node, _Bool with_names) {
  struct graph_node *twin = append(copy, node->type);
  if (!twin) return 0;
  node->twin = twin;
  twin->task = node->task ? task_ref(node->task) : NULL;
  twin->origin = node->handle ? node->handle : node->origin;
  twin->enabled = node->enabled;
  for (unsigned i = 0; i < node->child_count; i++) {
    struct graph *child = graph_clone(node->children[i], with_names);
    if (!child) return 0;
    if (!graph_embed(twin, child)) {
      graph_unref(child);
      return 0;
    }
    if (with_names && !graph_name(child)) return 0;
  }
  return !with_names || name_node(twin);
}

static _Bool clone_edges(const struct graph_edges *from, struct graph_edges *to) {
  for (uint32_t i = 0; i < from->count; i++)
    if (!graph_edges_add(to, from->at[i].node->twin, from->at[i].data)) return 0;
  return 1;
}

static _Bool clone_conditions(const struct graph *graph, struct graph *copy) {
  if (!graph->condition_count) return 1;
  copy->conditions = malloc(graph->condition_count * sizeof(struct condition *));
  if (!copy->conditions) return 0;
  for (unsigned i = 0; i < graph->condition_count; i++)
    copy->conditions[copy->condition_count++] = condition_ref(graph->conditions[i]);
  return 1;
}

struct graph *graph_clone(const struct graph *graph, _Bool with_names) {
  struct graph *copy = graph_new();
  if (!copy) return NULL;
  copy->named = with_names;
  copy->origin = graph->handle;
  copy->memory_nodes = graph->memory_nodes;
  _Bool done = clone_conditions(graph, copy) && graph_copy_users(graph, copy);
  for (struct graph_node *node = graph->first; node && done; node = node->next)
    done = clone_node(copy, node, with_names);
  for (struct graph_node *node = graph->first; node && done; node = node->next)
    done = clone_edges(&node->before, &node->twin->before) &&
           clone_edges(&node->after, &node->twin->after);
  copy->edge_count = graph->edge_count;
  if (done) return copy;
  graph_forget(copy);
  graph_unref(copy);
  return NULL;
}

struct graph_origin {
  uint64_t origin;
  struct graph_node *node;
};

static size_t count_nodes(const struct graph *graph, _Bool deep) {
  size_t count = graph->node_count;
  for (const struct graph_node *node = graph->first; node && deep; node = node->next)
    for (unsigned i = 0; i < node->child_count; i++) count += count_nodes(node->children[i], 1);
  return count;
}

static void list_copies(struct graph *into, const struct graph *graph, _Bool deep) {
  for (struct graph_node *node = graph->first; node; node = node->next) {
    into->copies[into->copy_count++] = (struct graph_origin){node->origin, node};
    for (unsigned i = 0; i < node->child_count && deep; i++)
      list_copies(into, node->children[i], 1);
  }
}

static int by_origin(const void *a, const void *b) {
  uint64_t left = ((const struct graph_origin *)a)->origin;
  uint64_t right = ((const struct graph_origin *)b)->origin;
  return (left > right) - (left < right);
}

struct graph_node *graph_copy_of(struct graph *graph, uint64_t origin, _Bool deep) {
  if (!origin) return NULL;
  if (!graph->copies) {
    size_t count = count_nodes(graph, deep);
    graph->copies = malloc((count ? count : 1) * sizeof *graph->copies);
    if (!graph->copies) return NULL;
    list_copies(graph, graph, deep);
    qsort(graph->copies, graph->copy_count, sizeof *graph->copies, by_origin);
  }
  struct graph_origin wanted = {origin, NULL};
  const struct graph_origin *found =
      bsearch(&wanted, graph->copies, graph->copy_count, sizeof wanted, by_origin);
  return found ? found->node : NULL;
}

// ---- shape -------------------------------------------------------------------------------------

static unsigned depth(const struct graph *graph) {
  unsigned deepest = 0;
  for (const struct graph_node *node = graph->first; node; node = node->next)
    for (unsigned i = 0; i < node->child_count; i++) {
      unsigned below = depth(node->children[i]);
      if (below > deepest) deepest = below;
      if (deepest >= GRAPH_DEEPEST) return deepest + 1;
    }
  return deepest + 1;
}

CUresult graph_check_room(const struct graph *graph, const struct graph *child) {
  unsigned deep = child ? depth(child) : 1;
  for (const struct graph *at = graph; at && deep <= GRAPH_DEEPEST; deep++)
    at = at->parent ? at->parent->graph : NULL;
  return deep <= GRAPH_DEEPEST ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

_Bool graph_holds_memory_nodes(const struct graph *graph) {
  if (graph->memory_nodes) return 1;
  for (const struct graph_node *node = graph->first; node; node = node->next)
    for (unsigned i = 0; i < node->child_count; i++)
      if (graph_holds_memory_nodes(node->children[i])) return 1;
  return 0;
}

// How many nodes are looked at for one that comes before others.
#define VISITED_MAX 4096

_Bool graph_comes_before(const struct graph *graph, const struct graph_edges *before,
                         const struct graph_node *target) {
  static uint64_t marks;
  uint64_t mark = ++marks;
  size_t found = 0;
  struct graph_node **open = malloc((graph->node_count + 1) * sizeof(struct graph_node *));
  if (!open) return 0;
  const struct graph_edges *edges = before;
  _Bool comes = 0;
  for (size_t i = 0; !comes; i++) {
    for (uint32_t k = 0; k < edges->count; k++) {
      struct graph_node *node = edges->at[k].node;
      comes = comes || node == target;
      if (node->visited == mark) continue;
      node->visited = mark;
      open[found++] = node;
    }
    if (i >= found || i >= VISITED_MAX) break;
    edges = &open[i]->before;
  }
  free(open);
  return comes;
}

struct graph_node **graph_sort(const struct graph *graph, _Bool *cycle) {
  *cycle = 0;
  struct graph_node **sorted = malloc((graph->node_count + 1) * sizeof(struct graph_node *));
  if (!sorted) return NULL;
  size_t count = 0;
  for (struct graph_node *node = graph->first; node; node = node->next) {
    node->index = node->before.count;
    if (!node->before.count) sorted[count++] = node;
  }
  for (size_t at = 0; at < count; at++)
    for (uint32_t i = 0; i < sorted[at]->after.count; i++) {
      struct graph_node *next = sorted[at]->after.at[i].node;
      if (--next->index == 0) sorted[count++] = next;
    }
  if (count != graph->node_count) {
    *cycle = 1;
    free(sorted);
    return NULL;
  }
  for (size_t i = 0; i < count; i++) sorted[i]->index = (uint32_t)i;
  return sorted;
}
