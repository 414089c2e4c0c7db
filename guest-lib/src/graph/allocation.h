// Memory that graphs allocate. An allocation has its address from when its node is made; memory
// comes under it when the graph is instantiated and stays until it is trimmed, so that launches
// cost nothing. The program is told of it from the first launch on. With the lock of graphs.
#ifndef OUTBOARD_GRAPH_ALLOCATION_H
#define OUTBOARD_GRAPH_ALLOCATION_H

#include "graph/graph.h"
#include "session/session.h"

struct graph_allocation *graph_allocation_ref(struct graph_allocation *allocation);
void graph_allocation_unref(struct graph_allocation *allocation);
struct session *graph_allocation_session(const struct graph_allocation *allocation);
uint64_t graph_allocation_address(const struct graph_allocation *allocation);

// At launches.
_Bool graph_allocation_is_live(const struct graph_allocation *allocation);
void graph_allocation_set_live(struct graph_allocation *allocation, _Bool live);
CUresult graph_allocation_map(struct graph_allocation *allocation);  // puts memory under it
void graph_allocation_count(struct graph_allocation *allocation);    // as in use

// Frees what a launch has left; without the lock. GRAPH_MEMORY_NONE (streams/recorder.h): it is no
// graph's.
CUresult graph_memory_free(uint64_t address);

// Tasks of nodes that allocate and free. The allocation itself is found when the node is added.
CUresult task_allocate(const CUDA_MEM_ALLOC_NODE_PARAMS *params, uint64_t context,
                       struct task **task);
CUresult task_free(uint64_t address, uint64_t context, struct task **task);
// Takes an address again that the graph has freed before.
CUresult graph_add_allocation(struct graph *graph, struct task *task,
                              const struct graph_edges *before, struct graph_node **node);
// CUDA_ERROR_INVALID_VALUE when this graph has freed it.
CUresult graph_add_free(struct graph *graph, struct task *task, const struct graph_edges *before,
                        struct graph_node **node);

#endif
