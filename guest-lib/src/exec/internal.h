// The inside of executable graphs, for the files that make, send and launch them. Everything here
// is called with the mutex of the executable graph held, where others know it already, and by a
// thread in its session.
#ifndef OUTBOARD_EXEC_INTERNAL_H
#define OUTBOARD_EXEC_INTERNAL_H

#include "exec/exec.h"
#include "exec/hook.h"
#include "session/session.h"

// ---- exec_memory.c: what its nodes allocate and free; the lock of graphs is held, too ----

// Finds what the plan's nodes allocate and free, and has memory put under it. The errors are those
// of graph_allocation_map.
CUresult exec_memory_make(struct graph_exec *exec);
// To be called before a launch. CUDA_ERROR_INVALID_VALUE when it would allocate what an earlier one
// has left allocated, or free what is not allocated; otherwise the errors of graph_allocation_map.
CUresult exec_memory_before(struct graph_exec *exec);
// To be called after it: notes what it leaves allocated, and what it frees of others'.
void exec_memory_after(struct graph_exec *exec);
// Lets go of the allocations.
void exec_memory_end(struct graph_exec *exec);

// ---- launch.c ----

// Launches what one server has, into a stream of its session. CUDA_ERROR_CONTEXT_IS_DESTROYED when
// a reset of the context has taken it from the server. The lock of graphs is not held.
CUresult exec_launch_here(struct graph_exec *exec, uint64_t stream);

// ---- send.c: how they travel ----

// Sends all of the plan. CUDA_ERROR_NOT_SUPPORTED with *culprit for nodes that cannot travel.
// `from` is the graph that it was made of, which the server knows already if it has conditions;
// NULL for a plan without conditions that is sent once more.
CUresult exec_send(struct graph_exec *exec, struct graph *from, struct graph_node **culprit,
                   CUgraphInstantiateResult *why);
// Sends what a node does now, or the number of the function that its hook is called by.
CUresult exec_send_task(struct graph_exec *exec, const struct graph_node *node);
CUresult exec_send_hook(struct graph_exec *exec, const struct graph_node *node);

// ---- transfer.c: what travels with launches ----

// Whether a task copies between the program's memory and the device or an array.
_Bool is_transfer(const struct task *task);
// Sets device memory aside for the copy that a node is going to make. CUDA_ERROR_OUT_OF_MEMORY, or
// the errors of memory_obtain.
CUresult transfer_prepare(struct graph_exec *exec, struct graph_node *node,
                          const struct task *task);
// Returns the transfer of a node; NULL when it has none.
const struct graph_transfer *transfer_find(const struct graph_exec *exec,
                                           const struct graph_node *node);
// Whether it copies to the device, and reads the program's memory when the graph is launched.
_Bool transfer_is_early(const struct graph_transfer *transfer);
// Finds out where the device reaches the program's memory by itself. To be called before each
// launch, and before shared pages are handed over for it.
void transfer_locate(struct graph_exec *exec);
// Put on a stream what a launch uploads, ahead of it, and what it downloads, behind it, but for
// what the device reaches by itself. They wait for room there, so that the lock of pages is not
// held.
CUresult transfer_before(struct graph_exec *exec, uint64_t stream);
CUresult transfer_after(struct session *session, struct graph_exec *exec, uint64_t stream);
// Returns how many copies of what the device reaches by itself a launch makes; and makes them,
// ahead of it (`before`) or behind it, for which there is room.
unsigned transfer_mapped_count(const struct graph_exec *exec);
CUresult transfer_mapped(const struct graph_exec *exec, uint64_t stream, _Bool before);
// Gives back what was set aside, when no launch is under way any more.
void transfer_end(struct graph_exec *exec);
// Fetch to the program's memory, or send from there, what a copy moves through the memory set aside
// at `staging`. `more` says that the caller fetches more on the stream, and waits for that.
CUresult transfer_fetch(const struct box_end *host, const struct box *box, uint64_t staging,
                        uint64_t stream, _Bool more);
CUresult transfer_send(const struct box_end *host, const struct box *box, uint64_t staging,
                       uint64_t stream);

// ---- hook_plan.c ----

// Finds out what each hook has to do, from all nodes of the plan (exec->order). The lock of graphs
// is held, too. *moved says that other nodes than before have a hook ahead of them, so that the
// server needs another graph. CUDA_ERROR_OUT_OF_MEMORY.
CUresult hooks_plan(struct graph_exec *exec, _Bool *moved);

#endif
