// The inside of executable graphs, for the files that make, send and launch them.
#ifndef OUTBOARD_EXEC_INTERNAL_H
#define OUTBOARD_EXEC_INTERNAL_H

#include "exec/exec.h"
#include "exec/hook.h"
#include "session/session.h"

// ---- exec_memory.c: what its nodes allocate and free ----

CUresult exec_memory_make(struct graph_exec *exec);
CUresult exec_memory_before(struct graph_exec *exec);
void exec_memory_after(struct graph_exec *exec);
void exec_memory_end(struct graph_exec *exec);

// ---- launch.c ----

// Launches what one server has, into a stream of its session's. With the mutex held.
CUresult exec_launch_here(struct graph_exec *exec, uint64_t stream);

// ---- send.c: how they travel ----

// Sends all of it. CUDA_ERROR_NOT_SUPPORTED with *culprit for nodes that cannot travel. `from` may
// have conditions, which the server knows it by; NULL: it has none, and is sent once more.
CUresult exec_send(struct graph_exec *exec, struct graph *from, struct graph_node **culprit,
                   CUgraphInstantiateResult *why);
CUresult exec_send_task(struct graph_exec *exec, const struct graph_node *node);
CUresult exec_send_hook(struct graph_exec *exec, const struct graph_node *node);

// ---- transfer.c: what travels with launches ----

_Bool is_transfer(const struct task *task);
// Sets memory aside for a node's copy.
CUresult transfer_prepare(struct graph_exec *exec, struct graph_node *node,
                          const struct task *task);
const struct graph_transfer *transfer_find(const struct graph_exec *exec,
                                           const struct graph_node *node);
// Whether what it copies to the device is read when the graph is launched.
_Bool transfer_is_early(const struct graph_transfer *transfer);
// Before each launch, and before shared pages are handed over for it.
void transfer_locate(struct graph_exec *exec);
CUresult transfer_before(struct graph_exec *exec, uint64_t stream);
CUresult transfer_after(struct session *session, struct graph_exec *exec, uint64_t stream);
void transfer_end(struct graph_exec *exec);
// Between the program's memory and what is set aside; `more`: the caller waits for a later one.
CUresult transfer_fetch(const struct box_end *host, const struct box *box, uint64_t staging,
                        uint64_t stream, _Bool more);
CUresult transfer_send(const struct box_end *host, const struct box *box, uint64_t staging,
                       uint64_t stream);

// ---- hook_plan.c ----

// With both locks, Finds out what each hook has to do, from all nodes of the
// plan (exec->order). *moved: nodes that have a hook ahead of them are others than before, so that
// the server needs another graph.
CUresult hooks_plan(struct graph_exec *exec, _Bool *moved);

#endif
