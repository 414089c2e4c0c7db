// Entry points: graphs, their edges, and what is in them.
#include <stdlib.h>

#include "graph/condition.h"
#include "graph/dot.h"
#include "graph/graph.h"
#include "guest_calls.h"
#include "session/session.h"

static CUgraphNode name_of(const struct graph_node *node) {
  return (CUgraphNode)(uintptr_t)node->handle;
}

// Fills an array that the program has sized, and says how many there are; what is left of it is
// NULL. A NULL array only asks for the count; one without room is a mistake.
struct teller {
  CUgraphNode *nodes;
  size_t room, told;
};

static _Bool has_room(const CUgraphNode *nodes, const size_t *count) {
  return count && (!nodes || *count);
}

static void tell(struct teller *teller, const struct graph_node *node) {
  if (teller->nodes && teller->told < teller->room) teller->nodes[teller->told] = name_of(node);
  teller->told++;
}

static void told(struct teller *teller, size_t *count) {
  for (size_t i = teller->told; teller->nodes && i < teller->room; i++) teller->nodes[i] = NULL;
  if (!teller->nodes || teller->told < teller->room) *count = teller->told;
}

static CUresult nodes_of(CUgraph handle, CUgraphNode *nodes, size_t *count, _Bool roots) {
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  graphs_lock();
  const struct graph *graph = graph_find(handle);
  if (graph && has_room(nodes, count)) {
    struct teller teller = {nodes, *count, 0};
    for (const struct graph_node *node = graph->first; node; node = node->next)
      if (!roots || !node->before.count) tell(&teller, node);
    told(&teller, count);
    result = CUDA_SUCCESS;
  }
  graphs_unlock();
  return result;
}

// With the lock.
static CUresult tell_edges(const struct graph_edges *edges, CUgraphNode *nodes,
                           CUgraphEdgeData *data, size_t *count) {
  if (!has_room(nodes, count)) return CUDA_ERROR_INVALID_VALUE;
  for (uint32_t i = 0; i < edges->count; i++)
    if (nodes && !data && !graph_is_plain(edges->at[i].data)) return CUDA_ERROR_LOSSY_QUERY;
  for (size_t i = 0; data && i < *count && i < edges->count; i++) data[i] = edges->at[i].data;
  struct teller teller = {nodes, *count, 0};
  for (uint32_t i = 0; i < edges->count; i++) tell(&teller, edges->at[i].node);
  told(&teller, count);
  return CUDA_SUCCESS;
}

static CUresult neighbours(CUgraphNode handle, _Bool after, CUgraphNode *nodes,
                           CUgraphEdgeData *data, size_t *count) {
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  graphs_lock();
  const struct graph_node *node = graph_find_node(handle);
  if (node && (nodes || !data))
    result = tell_edges(after ? &node->after : &node->before, nodes, data, count);
  graphs_unlock();
  return result;
}

// With the lock.
static CUresult tell_all_edges(const struct graph *graph, CUgraphNode *from, CUgraphNode *to,
                               CUgraphEdgeData *data, size_t *count) {
  if (!has_room(from, count) || !from != !to || (data && !from)) return CUDA_ERROR_INVALID_VALUE;
  if (!from) {
    *count = graph->edge_count;
    return CUDA_SUCCESS;
  }
  size_t at = 0;
  for (const struct graph_node *node = graph->first; node; node = node->next)
    for (uint32_t i = 0; i < node->before.count; i++) {
      const struct graph_edge *edge = &node->before.at[i];
      if (at >= *count) return CUDA_SUCCESS;
      if (!data && !graph_is_plain(edge->data)) return CUDA_ERROR_LOSSY_QUERY;
      from[at] = name_of(edge->node);
      to[at] = name_of(node);
      if (data) data[at] = edge->data;
      at++;
    }
  for (size_t i = at; i < *count; i++) from[i] = to[i] = NULL;
  *count = at;
  return CUDA_SUCCESS;
}

static CUresult edges_of(CUgraph handle, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data,
                         size_t *count) {
  graphs_lock();
  const struct graph *graph = graph_find(handle);
  CUresult result = graph ? tell_all_edges(graph, from, to, data, count) : CUDA_ERROR_INVALID_VALUE;
  graphs_unlock();
  return result;
}

// With the lock; all or none.
static CUresult add_edges(struct graph_edges *from, struct graph_edges *to) {
  for (uint32_t i = 0; i < from->count; i++) {
    CUresult result = graph_connect(from->at[i].node, to->at[i].node, from->at[i].data);
    if (!result) continue;
    while (i-- > 0) graph_disconnect(from->at[i].node, to->at[i].node, &from->at[i].data);
    return result;
  }
  return CUDA_SUCCESS;
}

static CUresult remove_edges(struct graph *graph, struct graph_edges *from, struct graph_edges *to,
                             _Bool with_data) {
  if (graph->memory_nodes && from->count) return CUDA_ERROR_NOT_SUPPORTED;
  for (uint32_t i = 0; i < from->count; i++) {
    CUresult result =
        graph_disconnect(from->at[i].node, to->at[i].node, with_data ? &from->at[i].data : NULL);
    if (!result) continue;
    // What was removed comes back, if at the end.
    while (i-- > 0) graph_connect(from->at[i].node, to->at[i].node, from->at[i].data);
    return result;
  }
  return CUDA_SUCCESS;
}

static CUresult change_edges(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to,
                             const CUgraphEdgeData *data, size_t count, _Bool add) {
  struct graph_edges starts = {0}, ends = {0};
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  graphs_lock();
  struct graph *graph = graph_find(handle);
  if (graph) result = graph_find_edges(graph, from, data, count, &starts);
  if (!result) result = graph_find_edges(graph, to, NULL, count, &ends);
  if (!result)
    result = add ? add_edges(&starts, &ends) : remove_edges(graph, &starts, &ends, data != NULL);
  graph_edges_free(&starts);
  graph_edges_free(&ends);
  graphs_unlock();
  return result;
}

// ---- entry points ------------------------------------------------------------------------------

CUresult guest_cuGraphCreate(CUgraph *phGraph, unsigned int flags) {
  if (!phGraph || flags) return CUDA_ERROR_INVALID_VALUE;
  graphs_lock();
  struct graph *graph = graph_new();
  _Bool named = graph && graph_name(graph);
  if (named) *phGraph = (CUgraph)(uintptr_t)graph->handle;
  if (graph) graph_unref(graph);
  graphs_unlock();
  return named ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

// Servers know it by its conditions.
static void forget_conditions(const struct graph *graph) {
  unsigned told = 0;
  for (unsigned i = 0; i < graph->condition_count; i++) {
    struct session *session = graph->conditions[i]->session;
    if (sessions_have(told, session)) continue;
    told |= session_bit(session);
    put_GraphForget(session, graph->handle);
  }
}

CUresult guest_cuGraphDestroy(CUgraph hGraph) {
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  graphs_lock();
  struct graph *graph = graph_find(hGraph);
  if (graph && !graph->parent) {
    forget_conditions(graph);
    graph_forget(graph);
    result = CUDA_SUCCESS;
  }
  graphs_unlock();
  return result;
}

CUresult guest_cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph) {
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  graphs_lock();
  struct graph *graph = graph_find(originalGraph);
  if (graph && phGraphClone) {
    struct graph *copy = NULL;
    result = CUDA_ERROR_NOT_SUPPORTED;
    if (!graph_holds_memory_nodes(graph)) {
      copy = graph_clone(graph, 1);
      result = copy && graph_name(copy) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!result) *phGraphClone = (CUgraph)(uintptr_t)copy->handle;
    if (copy) graph_unref(copy);
  }
  graphs_unlock();
  return result;
}

CUresult guest_cuGraphNodeFindInClone(CUgraphNode *phNode, CUgraphNode hOriginalNode,
                                      CUgraph hClonedGraph) {
  if (!phNode) return CUDA_ERROR_INVALID_VALUE;
  graphs_lock();
  struct graph_node *node = graph_find_node(hOriginalNode);
  struct graph *graph = graph_find(hClonedGraph);
  struct graph_node *copy = node && graph ? graph_copy_of(graph, node->handle, 0) : NULL;
  if (copy) *phNode = name_of(copy);
  graphs_unlock();
  return copy ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult guest_cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes) {
  return nodes_of(hGraph, nodes, numNodes, 0);
}
CUresult guest_cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes) {
  return nodes_of(hGraph, rootNodes, numRootNodes, 1);
}
CUresult guest_cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to,
                               size_t *numEdges) {
  return edges_of(hGraph, from, to, NULL, numEdges);
}
CUresult guest_cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to,
                                  CUgraphEdgeData *edgeData, size_t *numEdges) {
  return edges_of(hGraph, from, to, edgeData, numEdges);
}
CUresult guest_cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode *dependencies,
                                          size_t *numDependencies) {
  return neighbours(hNode, 0, dependencies, NULL, numDependencies);
}
CUresult guest_cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode *dependencies,
                                             CUgraphEdgeData *edgeData, size_t *numDependencies) {
  return neighbours(hNode, 0, dependencies, edgeData, numDependencies);
}
CUresult guest_cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode *dependentNodes,
                                            size_t *numDependentNodes) {
  return neighbours(hNode, 1, dependentNodes, NULL, numDependentNodes);
}
CUresult guest_cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode *dependentNodes,
                                               CUgraphEdgeData *edgeData,
                                               size_t *numDependentNodes) {
  return neighbours(hNode, 1, dependentNodes, edgeData, numDependentNodes);
}
CUresult guest_cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode *from,
                                      const CUgraphNode *to, size_t numDependencies) {
  return change_edges(hGraph, from, to, NULL, numDependencies, 1);
}
CUresult guest_cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from,
                                         const CUgraphNode *to, const CUgraphEdgeData *edgeData,
                                         size_t numDependencies) {
  return change_edges(hGraph, from, to, edgeData, numDependencies, 1);
}
CUresult guest_cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode *from,
                                         const CUgraphNode *to, size_t numDependencies) {
  return change_edges(hGraph, from, to, NULL, numDependencies, 0);
}
CUresult guest_cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode *from,
                                            const CUgraphNode *to, const CUgraphEdgeData *edgeData,
                                            size_t numDependencies) {
  return change_edges(hGraph, from, to, edgeData, numDependencies, 0);
}

CUresult guest_cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type) {
  graphs_lock();
  const struct graph_node *node = graph_find_node(hNode);
  if (node && type) *type = node->type;
  graphs_unlock();
  return node && type ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult guest_cuGraphDestroyNode(CUgraphNode hNode) {
  CUresult result = CUDA_SUCCESS;
  graphs_lock();
  struct graph_node *node = graph_find_node(hNode);
  if (!node)
    result = CUDA_ERROR_INVALID_VALUE;
  else if (node->graph->memory_nodes)
    result = CUDA_ERROR_NOT_SUPPORTED;
  else
    graph_remove(node);
  graphs_unlock();
  return result;
}

CUresult guest_cuGraphDebugDotPrint(CUgraph hGraph, const char *path, unsigned int flags) {
  const unsigned known = (CU_GRAPH_DEBUG_DOT_FLAGS_CONDITIONAL_NODE_PARAMS << 1) - 1;
  if (!path || flags & ~known) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  char *text = NULL;
  graphs_lock();
  struct graph *graph = graph_find(hGraph);
  if (graph) result = (text = dot_of(graph, flags)) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  graphs_unlock();
  if (!result && !dot_write(path, text)) result = CUDA_ERROR_OPERATING_SYSTEM;
  free(text);
  return result;
}
