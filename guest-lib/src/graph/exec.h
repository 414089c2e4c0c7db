// Executable graphs: a copy of a graph of which nothing but the parameters of nodes changes, and
// which the server has too. Making one is one posted message (or several, when it is long), a
// launch is one posted command, and so is what changes.
#ifndef OUTBOARD_GRAPH_EXEC_H
#define OUTBOARD_GRAPH_EXEC_H

#include <pthread.h>

#include "graph/graph.h"

// A copy between the program's memory and the device. The server's node copies from or to device
// memory set aside for it; what the program has there travels with each launch.
struct graph_transfer {
  struct graph_node *node;
  uint64_t staging, capacity;
  uint64_t mapped;  // where the device reaches the program's memory; 0: it does not
};

struct graph_exec {
  unsigned references;  // with the lock of graphs
  uint64_t handle;
  uint64_t flags;
  // For all below; taken before the lock of graphs.
  pthread_mutex_t mutex;
  struct graph *plan;
  struct graph *from;  // whose only executable graph it is, as it allocates; or NULL
  uint32_t node_count;
  _Bool gone;  // the server has it no more
  struct graph_transfer *transfers;
  size_t transfer_count;
  // What it allocates and frees, of which `left` is what a launch leaves or frees of another's.
  struct graph_balance *memory;
  size_t memory_count;
  _Bool *allocates;
  _Bool has_functions;  // of the program
  uint64_t event;       // behind the last launch, where transfers have to wait for it; or 0
  uint64_t stream;      // of the last launch
  _Bool launched;
};

// A reference to the exec of a handle, with its mutex held; NULL when there is none.
struct graph_exec *exec_enter(CUgraphExec handle);
void exec_leave(struct graph_exec *exec);

// With both locks held. On failure *culprit is the handle of a node of `graph`, or 0.
CUresult exec_make(struct graph *graph, uint64_t flags, struct graph_exec **exec, uint64_t *culprit,
                   CUgraphInstantiateResult *why);
// The plan's node for a node of the graph it was made from, or of one embedded in it.
static inline struct graph_node *exec_node(struct graph_exec *exec, CUgraphNode node) {
  return graph_copy_of(exec->plan, (uint64_t)(uintptr_t)node, 1);
}
// Gives a node of the plan another task, and tells the server; takes a reference.
CUresult exec_set_task(struct graph_exec *exec, struct graph_node *node, struct task *task);
// A reset of the context: the server has none of them any more.
void exec_forget_all(void);

// ---- exec_memory.c: what its nodes allocate and free -------------------------------------------

CUresult exec_memory_make(struct graph_exec *exec);
CUresult exec_memory_before(struct graph_exec *exec);
void exec_memory_after(struct graph_exec *exec);
void exec_memory_end(struct graph_exec *exec);

// ---- send.c: how they travel -------------------------------------------------------------------

// Numbers the nodes and sends all of it. CUDA_ERROR_NOT_SUPPORTED with *culprit for nodes that
// cannot travel.
CUresult exec_send(struct graph_exec *exec, struct graph *from, struct graph_node **culprit,
                   CUgraphInstantiateResult *why);
CUresult exec_send_task(struct graph_exec *exec, const struct graph_node *node,
                        const struct task *task);

// ---- transfer.c: what travels with launches ----------------------------------------------------

_Bool is_transfer(const struct task *task);
// Sets memory aside for a node's copy; *staging is where the server's node copies from or to.
CUresult transfer_prepare(struct graph_exec *exec, struct graph_node *node, const struct task *task,
                          uint64_t *staging);
uint64_t transfer_staging(const struct graph_exec *exec, const struct graph_node *node);
// Before each launch, and before shared pages are handed over for it.
void transfer_locate(struct graph_exec *exec);
CUresult transfer_before(struct graph_exec *exec, uint64_t stream);
CUresult transfer_after(struct graph_exec *exec, uint64_t stream);
void transfer_end(struct graph_exec *exec);

// ---- exec_function.c: functions of the program
// ---------------------------------------------------

// The number under which the server has a node's function called; 0 when memory is out.
uint64_t exec_function(struct graph_exec *exec, const struct graph_node *node,
                       const struct task *task);

#endif
