// Memory that graphs allocate. An allocation has its address from when its node is made; memory
// comes under it when the graph is instantiated and stays until it is trimmed, so that launches
// cost nothing. The program is told of it from the first launch on. Everything here is called with
// the lock of graphs held, except for graph_memory_free.
#ifndef OUTBOARD_GRAPH_ALLOCATION_H
#define OUTBOARD_GRAPH_ALLOCATION_H

#include "graph/graph.h"
#include "session/session.h"

// Takes a reference, and returns the allocation.
struct graph_allocation *graph_allocation_ref(struct graph_allocation *allocation);
// Lets go of a reference. With the last, memory and addresses are given back, once the work of the
// device is done.
void graph_allocation_unref(struct graph_allocation *allocation);
// Returns the session of its device, and where it lies.
struct session *graph_allocation_session(const struct graph_allocation *allocation);
uint64_t graph_allocation_address(const struct graph_allocation *allocation);

// Whether a launch has left it allocated. What is live has a reference of its own.
_Bool graph_allocation_is_live(const struct graph_allocation *allocation);
void graph_allocation_set_live(struct graph_allocation *allocation, _Bool live);
// Has memory put under it, unless it has some. Where the session's limit leaves no room, it waits
// for the work of the device, and takes the memory of allocations that are not live.
// CUDA_ERROR_OUT_OF_MEMORY, or the errors of that work.
CUresult graph_allocation_map(struct graph_allocation *allocation);
// Counts it as in use, once, for programs that ask how much graphs use.
void graph_allocation_count(struct graph_allocation *allocation);

// Frees what a launch has left allocated. GRAPH_MEMORY_NONE (streams/recorder.h) when the address
// is none of a graph's allocation, CUDA_ERROR_INVALID_VALUE when that is not live.
CUresult graph_memory_free(uint64_t address);

// Make tasks of nodes that allocate and free. The allocation itself is found when the node is
// added. CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_VALUE for parameters that cannot be and for
// what no graph allocates, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED.
CUresult task_allocate(const CUDA_MEM_ALLOC_NODE_PARAMS *params, uint64_t context,
                       struct task **task);
CUresult task_free(uint64_t address, uint64_t context, struct task **task);
// Add nodes with such tasks, as graph_add does. CUDA_ERROR_NOT_SUPPORTED where the graph is
// embedded in another. This one takes an allocation again that the graph has freed ahead of the
// node, where one fits.
CUresult graph_add_allocation(struct graph *graph, struct task *task,
                              const struct graph_edges *before, struct graph_node **node);
// This one returns CUDA_ERROR_INVALID_VALUE when the graph has freed the allocation already.
CUresult graph_add_free(struct graph *graph, struct task *task, const struct graph_edges *before,
                        struct graph_node **node);

#endif
