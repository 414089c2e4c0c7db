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

_Bool is_host_copy(const struct task *task);  // from host to host
static inline _Bool is_hook(const struct task *task) {
  return task->type == CU_GRAPH_NODE_TYPE_HOST || is_host_copy(task);
}

// With both locks, as is the next. Gives a hook of the plan what it does: transfers to fetch and to
// send, by index.
CUresult hook_renew(struct graph_exec *exec, struct graph_node *node, const size_t *fetch,
                    size_t fetch_count, const size_t *send, size_t send_count);
// Tells the server of hooks that have changed.
CUresult hooks_tell(struct graph_exec *exec);

// For a launch: has the program's memory read when the stream comes to it.
CUresult hooks_read_later(struct graph_exec *exec, uint64_t stream);
// When no launch is under way any more.
void hooks_end(struct graph_exec *exec);

#endif
