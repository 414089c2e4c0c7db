// Graphs as the program builds them: tasks, and the order between them. All of it is the guest's;
// the server learns of a graph when it is made executable (exec.h).
//
// One lock guards all graphs, captures and executable graphs: the calls that build graphs are
// short. It is taken before the maps of memory and modules. Threads that read what the server sends
// never take it.
#ifndef OUTBOARD_GRAPH_H
#define OUTBOARD_GRAPH_H

#include <stddef.h>
#include <stdint.h>

#include "cuda_driver.h"

// How deep graphs may lie in one another.
#define GRAPH_DEEPEST 64

struct task;
struct graph;
struct graph_node;
struct graph_told;
struct graph_hook;
struct graph_parts;
struct condition;
struct graph_allocation;
struct user_object;

struct graph_edge {
  struct graph_node *node;  // at the other end
  CUgraphEdgeData data;
};

struct graph_edges {
  struct graph_edge *at;
  uint32_t count, room;
};

struct graph_node {
  unsigned references;
  uint64_t handle;      // 0 in an executable graph
  uint64_t origin;      // handle of the node that it is a copy of
  struct graph *graph;  // NULL when the node has been destroyed
  CUgraphNodeType type;
  struct task *task;        // NULL for empty nodes and child graphs
  struct graph **children;  // a child graph; the bodies of a condition
  unsigned child_count;
  struct graph_edges before, after;  // in the order in which they were added
  _Bool enabled;                     // of an executable graph
  uint32_t number;                   // ... by which the server knows it
  struct graph_hook *hook;           // ... what the program's side does at its turn
  struct graph_told *told;           // what the program holds pointers to (told.h)
  struct graph_node *next, *previous;

  // Scratch of whoever holds the lock and walks the graph.
  struct graph_node *twin;
  uint64_t mark, visited;
  uint32_t index;
};

struct graph_balance {
  struct graph_allocation *allocation;
  int left;  // allocated less freed, by the graph's nodes
};

struct graph_user {
  struct user_object *object;
  uint64_t count;
};

struct graph {
  unsigned references;
  uint64_t handle;
  uint64_t origin;            // handle of the graph that it is a copy of
  _Bool named;                // its nodes have handles
  _Bool gone;                 // the program has destroyed it
  struct graph_node *parent;  // the node that it is embedded in
  struct graph_node *first, *last;
  size_t node_count, edge_count;
  uint64_t version;  // counts its changes, and those of what is embedded in it
  uint64_t sent;     // the version that the server has, where it knows the graph by conditions

  // Values that conditional nodes of this graph, or of those embedded in it, go by.
  struct condition **conditions;
  unsigned condition_count;

  struct graph_user *users;
  size_t user_count;

  // Allocations tie a graph to one executable graph, and forbid copies of it.
  unsigned memory_nodes;
  struct graph **instance;  // where the executable one keeps this one, to be told of its end
  struct graph_balance *balance;
  size_t balance_count;
  struct graph_node **freed;  // nodes that free what it has allocated, until it is taken again
  size_t freed_count;

  struct graph_origin *copies;  // by origin; made when first asked for
  size_t copy_count;
};

void graphs_lock(void);
void graphs_unlock(void);

// The callers of all below hold the lock.

// Makes a graph without a handle, with one reference; NULL when there is no memory.
struct graph *graph_new(void);
// Gives a graph a handle, which holds a reference. False when there are too many.
_Bool graph_name(struct graph *graph);
// Let go of a reference.
void graph_unref(struct graph *graph);
void graph_node_unref(struct graph_node *node);

// Return the graph or the node behind a handle of the program; NULL when there is none.
struct graph *graph_find(CUgraph handle);
struct graph_node *graph_find_node(CUgraphNode handle);
// Sets *edges to nodes of `graph` as ends of edges, which the caller frees (graph_edges_free).
// `data` may be NULL: the edges are plain then. CUDA_ERROR_INVALID_VALUE for what is no node of the
// graph, CUDA_ERROR_OUT_OF_MEMORY.
CUresult graph_find_edges(const struct graph *graph, const CUgraphNode *handles,
                          const CUgraphEdgeData *data, size_t count, struct graph_edges *edges);
// Adds one end to a list. False when there is no memory.
_Bool graph_edges_add(struct graph_edges *edges, struct graph_node *node, CUgraphEdgeData data);
// Frees a list, and nothing that is in it.
void graph_edges_free(struct graph_edges *edges);

// Adds a node behind others, and takes a reference to its `task`, which may be NULL.
// CUDA_ERROR_OUT_OF_MEMORY, or the errors of graph_connect.
CUresult graph_add(struct graph *graph, CUgraphNodeType type, struct task *task,
                   const struct graph_edges *before, struct graph_node **added);
// Takes a node out of its graph, with its edges and all that is embedded in it.
void graph_remove(struct graph_node *node);
// Connects two nodes of one graph. CUDA_ERROR_INVALID_VALUE when they are connected already or the
// edge cannot be, CUDA_ERROR_OUT_OF_MEMORY.
CUresult graph_connect(struct graph_node *from, struct graph_node *to, CUgraphEdgeData data);
// Takes an edge away, which has that data, or is plain where `data` is NULL.
// CUDA_ERROR_INVALID_VALUE when there is none.
CUresult graph_disconnect(struct graph_node *from, struct graph_node *to,
                          const CUgraphEdgeData *data);
// Embeds a graph in a node, and takes the caller's reference over. False when there is no memory;
// the reference stays the caller's then.
_Bool graph_embed(struct graph_node *node, struct graph *child);

// Returns a copy with copies of all that is embedded in it; NULL when there is no memory or handle.
// With `with_names`, nodes and embedded graphs have handles. The copy itself has none yet.
struct graph *graph_clone(const struct graph *graph, _Bool with_names);
// Returns the node that is a copy of the one whose handle was `origin`; NULL when there is none.
// With `deep`, which all calls for a graph agree on, embedded graphs are searched, too.
struct graph_node *graph_copy_of(struct graph *graph, uint64_t origin, _Bool deep);

// Checks whether `child`, or a graph without children for NULL, can be embedded in a node of
// `graph`. CUDA_ERROR_NOT_SUPPORTED when graphs would lie too deep in one another.
CUresult graph_check_room(const struct graph *graph, const struct graph *child);
// Whether nodes of the graph, or of those embedded in it, allocate or free memory.
_Bool graph_holds_memory_nodes(const struct graph *graph);
// Whether `target` is one of the edges' nodes or comes before one. In large graphs it may be
// missed.
_Bool graph_comes_before(const struct graph *graph, const struct graph_edges *before,
                         const struct graph_node *target);
// Returns all nodes, each behind those it depends on, in an array that the caller frees, and sets
// their `index` to their place there. NULL, with *cycle, when there is no such order; NULL without
// it when there is no memory.
struct graph_node **graph_sort(const struct graph *graph, _Bool *cycle);
// Notes that the graph, or a node of it, has changed.
void graph_touch(struct graph *graph);
// Ends the handles of the graph and of all in it: the program has it no more. That lets go of the
// reference that the graph's handle holds.
void graph_forget(struct graph *graph);

static inline _Bool graph_is_plain(CUgraphEdgeData data) {
  return !data.from_port && !data.to_port && !data.type;
}

#endif
