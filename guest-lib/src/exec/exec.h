// Executable graphs: a copy of a graph of which nothing but the parameters of nodes changes, and
// which the server has too. Making one is one posted message (or several, when it is long), a
// launch is one posted command, and so is what changes.
#ifndef OUTBOARD_GRAPH_EXEC_H
#define OUTBOARD_GRAPH_EXEC_H

#include <pthread.h>

#include "copies/box.h"
#include "graph/graph.h"
#include "session/session.h"

// A copy between the program's memory and the device. The server's node copies from or to device
// memory set aside for it; what the program has there travels with each launch.
struct graph_transfer {
  struct graph_node *node;
  uint64_t staging, capacity;
  uint64_t mapped;   // where the device reaches the program's memory; 0: it does not
  _Bool late;        // a hook reads the program's memory, not the launch (hook.h)
  _Bool landed;      // a hook writes it
  _Bool ahead;       // ... that comes ahead of the node
  uint64_t fetched;  // by hooks, in how many launches
};

struct graph_exec {
  unsigned references;      // with the lock of graphs
  struct session *session;  // whose server has it
  _Bool split;  // several have: its parts (parts.h), each an executable graph of its own
  struct graph_parts *parts;  // also, once it was launched into a stream of another session
  uint64_t handle;
  uint64_t wire;  // the server's; the same, until it has been made again
  uint64_t flags;
  // For all below; taken before the lock of graphs.
  pthread_mutex_t mutex;
  struct graph *plan;
  struct graph *from;         // whose only executable graph it is, as it allocates; or NULL
  struct graph_node **order;  // all nodes, each behind those it depends on
  size_t order_count;
  _Bool gone;  // the server has it no more
  struct graph_transfer *transfers;
  size_t transfer_count;
  uint64_t *outgrown;  // memory set aside that launches under way may still use
  size_t outgrown_count;
  struct graph_hook *hooks, *early;  // early: ahead of launches
  struct hook_call *calls;
  uint64_t aside;             // a stream for what hooks copy; or 0
  _Bool hooks_stale, remake;  // what nodes have changed asks for
  _Bool records;              // events
  // What it allocates and frees, of which `left` is what a launch leaves or frees of another's.
  struct graph_balance *memory;
  size_t memory_count;
  _Bool *allocates;
  uint64_t event;   // behind the last launch, where transfers have to wait for it; or 0
  uint64_t stream;  // of the last launch
  uint64_t sequence;
  uint64_t launches;
  struct graph_exec *next;  // that has ended while a launch was under way
};

// Returns the executable graph behind a handle, with a reference and its mutex held; NULL when
// there is none. The lock of graphs is not held, here and in the next.
struct graph_exec *exec_enter(CUgraphExec handle);
// Lets go of both.
void exec_leave(struct graph_exec *exec);

// Makes an executable graph of a graph, and sends it. The lock of graphs is held. *why says what
// was wrong, and *culprit is the handle of the node of `graph` that it was wrong with, or 0.
// CUDA_ERROR_NOT_SUPPORTED for what is not served, CUDA_ERROR_INVALID_VALUE for a graph that cannot
// be executed, CUDA_ERROR_OUT_OF_MEMORY, or what posting returns.
CUresult exec_make(struct graph *graph, uint64_t flags, struct graph_exec **exec, uint64_t *culprit,
                   CUgraphInstantiateResult *why);
// Does the same for a plan, which it takes over, in the session that does all of it, and leaves out
// what its nodes allocate. *culprit is a node of the plan; `from` is as in exec_send.
CUresult exec_make_of(struct graph *plan, struct session *session, uint64_t flags,
                      struct graph *from, struct graph_exec **exec, struct graph_node **culprit,
                      CUgraphInstantiateResult *why);
// Ends one that was never launched, and that the program does not know. The lock of graphs is held.
void exec_give_up(struct graph_exec *exec);
// Ends the handle: it is launched no more. What its launches use ends once they are done. The mutex
// is held, the lock of graphs is not. CUDA_ERROR_INVALID_VALUE when the handle has ended already,
// or what posting returns.
CUresult exec_retire(struct graph_exec *exec);
// Has launches do what a node of the plan does, or leave it out, and tells the server. Both locks
// are held, here and below.
CUresult exec_enable(struct graph_exec *exec, struct graph_node *node, _Bool enabled);
// Returns the plan's node for a node of the graph that it was made from, or of one embedded in it;
// NULL when there is none.
static inline struct graph_node *exec_node(struct graph_exec *exec, CUgraphNode node) {
  return graph_copy_of(exec->plan, (uint64_t)(uintptr_t)node, 1);
}
// Gives a node of the plan another task, and takes a reference to that. The server knows all of
// what has changed after exec_changed. CUDA_ERROR_NOT_SUPPORTED when the node would move to another
// device, CUDA_ERROR_OUT_OF_MEMORY, or what posting returns.
CUresult exec_set_task(struct graph_exec *exec, struct graph_node *node, struct task *task);
// To be called when all nodes that change have their tasks: tells the server what it does not know
// yet.
CUresult exec_changed(struct graph_exec *exec);
// To be called after a reset of the context, without a lock: notes that the server has none of the
// session's executable graphs any more.
void exec_forget_all(struct session *session);

#endif
