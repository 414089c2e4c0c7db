// What the program's side does in the middle of a launch, while the server's graph waits: functions
// of the program, copies between two places of its memory, and reading of what is copied to the
// device where that cannot be done ahead of the launch. The server has a host node for each.
//
// A hook first fetches what was copied to the program's memory ahead of it, if that concerns it;
// then it does its own; then it sends what is copied from there behind it. So a copy that comes
// behind a function finds what the function has left, and a function what a copy has brought.
#ifndef OUTBOARD_HOOK_H
#define OUTBOARD_HOOK_H

#include "exec/exec.h"
#include "graph/task.h"

struct graph_hook {
  struct graph_hook *next;
  struct graph_exec *exec;
  struct graph_node *node;  // whose it is, or ahead of which it comes; NULL: ahead of a launch
  uint64_t runs;            // in how many launches, of all of the executable graph
  struct hook_call *call;   // what it does; NULL: the function and nothing else
  uint64_t number;          // under which the server calls it
  _Bool told;               // the server knows that
};

// Whether a task copies from one place of the program's memory to another.
_Bool is_host_copy(const struct task *task);
// Whether it is done by a hook.
static inline _Bool is_hook(const struct task *task) {
  return task->type == CU_GRAPH_NODE_TYPE_HOST || is_host_copy(task);
}

// All below is called by a thread in the executable graph's session, with the mutex of that held,
// where others know it already.

// Makes the hook of a node if there is none, and gives it the transfers, by index, that it is to
// fetch and to send. Launches under way go on with what it did before. CUDA_ERROR_OUT_OF_MEMORY.
CUresult hook_renew(struct graph_exec *exec, struct graph_node *node, const size_t *fetch,
                    size_t fetch_count, const size_t *send, size_t send_count);
// Tells the server of hooks that have changed. Returns what posting returns.
CUresult hooks_tell(struct graph_exec *exec);

// Puts a hook on a stream ahead of a launch, which reads what that copies from the program's
// memory.
CUresult hooks_read_later(struct graph_exec *exec, uint64_t stream);
// Frees all hooks, when no launch is under way any more.
void hooks_end(struct graph_exec *exec);

#endif
