// What hooks do, on the thread that calls functions of the program (host_function.h).
#include "exec/hook.h"

#include <stdlib.h>
#include <string.h>

#include "copies/on_host.h"
#include "exec/internal.h"
#include "graph/task_params.h"
#include "guest_calls.h"
#include "session/handle.h"
#include "session/session.h"
#include "streams/host_function.h"
#include "streams/stream.h"

enum hook_kind { HOOK_FUNCTION, HOOK_COPY, HOOK_NOTHING };

// A copy between the program's memory and what is set aside for it on the device.
struct hook_move {
  struct box_end host;
  struct box box;
  uint64_t staging;
  size_t transfer;
};

// Does not change: a hook gets another one instead, and launches before have the old.
struct hook_call {
  struct hook_call *next;  // of the executable graph
  struct graph_hook *hook;
  uint64_t number;
  struct session *session;
  struct hook_what {
    enum hook_kind kind;
    CUhostFn function;
    void *data;
    struct box_end to, from;
    struct box box;
  } what;
  size_t fetches, sends;
  struct hook_move moves[];  // to fetch, then to send
};

_Bool is_host_copy(const struct task *task) {
  return task->type == CU_GRAPH_NODE_TYPE_MEMCPY && task->copy.to.place == BOX_HOST &&
         task->copy.from.place == BOX_HOST && !task->copy.reached && !task_is_idle(task);
}

// ---- on the thread that calls ------------------------------------------------------------------

static void fetch(const struct hook_call *call) {
  struct graph_exec *exec = call->hook->exec;
  const struct hook_move *last = NULL;
  // One wait for all: answers on one stream come in order.
  for (size_t i = 0; i < call->fetches; i++) {
    const struct hook_move *move = &call->moves[i];
    struct graph_transfer *transfer = &exec->transfers[move->transfer];
    // Another hook may have done so, and the program have changed it since.
    if (transfer->fetched == call->hook->runs) continue;
    transfer->fetched = call->hook->runs;
    if (last) transfer_fetch(&last->host, &last->box, last->staging, exec->aside, 1);
    last = move;
  }
  if (last) transfer_fetch(&last->host, &last->box, last->staging, exec->aside, 0);
}

static void run(void *data) {
  const struct hook_call *call = data;
  struct graph_exec *exec = call->hook->exec;
  struct thread_session before = session_switch(call->session);
  call->hook->runs++;
  fetch(call);
  if (call->what.kind == HOOK_FUNCTION)
    call->what.function(call->what.data);
  else if (call->what.kind == HOOK_COPY)
    box_on_host(&call->what.to, &call->what.from, &call->what.box);
  for (size_t i = 0; i < call->sends; i++) {
    const struct hook_move *move = &call->moves[call->fetches + i];
    transfer_send(&move->host, &move->box, move->staging, exec->aside);
  }
  if (call->sends) stream_synchronize(session_here(), exec->aside);
  session_back(before);
}

// ---- what they are to do -----------------------------------------------------------------------

static struct hook_move move_of(const struct graph_exec *exec, size_t index) {
  const struct graph_transfer *transfer = &exec->transfers[index];
  const struct copy_task *copy = &transfer->node->task->copy;
  struct hook_move move;
  memset(&move, 0, sizeof move);  // they are compared
  const struct box_end *host = copy->to.place == BOX_HOST ? &copy->to : &copy->from;
  move.host.place = BOX_HOST;
  move.host.address = host->address;
  move.host.pitch = host->pitch;
  move.host.rows = host->rows;
  move.box = copy->box;
  move.staging = transfer->staging;
  move.transfer = index;
  return move;
}

static CUresult add_hook(struct graph_exec *exec, struct graph_node *node,
                         struct graph_hook **added) {
  struct graph_hook *hook = calloc(1, sizeof *hook);
  if (!hook) return CUDA_ERROR_OUT_OF_MEMORY;
  *hook =
      (struct graph_hook){.next = exec->hooks, .exec = exec, .node = node, .runs = exec->launches};
  exec->hooks = hook;
  *added = hook;
  return CUDA_SUCCESS;
}

static struct hook_what what_of(const struct graph_node *node) {
  struct hook_what what;
  memset(&what, 0, sizeof what);
  const struct task *task = node ? node->task : NULL;
  what.kind = HOOK_NOTHING;
  if (task && task->type == CU_GRAPH_NODE_TYPE_HOST) {
    what.kind = HOOK_FUNCTION;
    what.function = task->host.fn;
    what.data = task->host.userData;
  } else if (task && is_host_copy(task) && node->enabled) {
    what.kind = HOOK_COPY;
    what.to = task->copy.to;
    what.from = task->copy.from;
    what.box = task->copy.box;
  }
  return what;
}

static _Bool same_call(const struct hook_call *a, const struct hook_call *b) {
  return a->fetches == b->fetches && a->sends == b->sends &&
         !memcmp(&a->what, &b->what, sizeof a->what) &&
         !memcmp(a->moves, b->moves, (a->fetches + a->sends) * sizeof *a->moves);
}

static CUresult renew(struct graph_hook *hook, const size_t *fetch_from, size_t fetches,
                      const size_t *send_to, size_t sends) {
  struct graph_exec *exec = hook->exec;
  const struct hook_what what = what_of(hook->node);
  if (what.kind == HOOK_FUNCTION && !fetches && !sends) {
    uint64_t number = host_function_keep(what.function, what.data);
    if (!number) return CUDA_ERROR_OUT_OF_MEMORY;
    hook->told = hook->told && hook->number == number;
    hook->call = NULL;
    hook->number = number;
    return CUDA_SUCCESS;
  }
  if (!exec->aside) {
    CUstream aside;
    CUresult result = guest_cuStreamCreate(&aside, CU_STREAM_NON_BLOCKING);
    if (result) return result;
    exec->aside = handle_of(aside);
  }
  struct hook_call *call = calloc(1, sizeof *call + (fetches + sends) * sizeof *call->moves);
  if (!call) return CUDA_ERROR_OUT_OF_MEMORY;
  call->hook = hook;
  call->session = session_here();
  call->what = what;
  call->fetches = fetches;
  call->sends = sends;
  for (size_t i = 0; i < fetches; i++) call->moves[i] = move_of(exec, fetch_from[i]);
  for (size_t i = 0; i < sends; i++) call->moves[fetches + i] = move_of(exec, send_to[i]);
  if (hook->call && same_call(hook->call, call)) {
    free(call);
    return CUDA_SUCCESS;
  }
  call->number = host_function_keep(run, call);
  if (!call->number) {
    free(call);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  call->next = exec->calls;
  exec->calls = call;
  hook->call = call;
  hook->number = call->number;
  hook->told = 0;
  return CUDA_SUCCESS;
}

CUresult hook_renew(struct graph_exec *exec, struct graph_node *node, const size_t *fetch_from,
                    size_t fetches, const size_t *send_to, size_t sends) {
  CUresult result = node->hook ? CUDA_SUCCESS : add_hook(exec, node, &node->hook);
  return result ? result : renew(node->hook, fetch_from, fetches, send_to, sends);
}

CUresult hooks_tell(struct graph_exec *exec) {
  CUresult result = CUDA_SUCCESS;
  for (struct graph_hook *hook = exec->hooks; hook && !result; hook = hook->next) {
    if (hook->told || !hook->node) continue;
    result = exec_send_hook(exec, hook->node);
    hook->told = !result;
  }
  return result;
}

// ---- launches ----------------------------------------------------------------------------------

CUresult hooks_read_later(struct graph_exec *exec, uint64_t stream) {
  CUresult result = CUDA_SUCCESS;
  if (!exec->early) result = add_hook(exec, NULL, &exec->early);
  size_t *send_to = result ? NULL : malloc((exec->transfer_count + 1) * sizeof *send_to);
  if (!send_to) return CUDA_ERROR_OUT_OF_MEMORY;
  size_t sends = 0;
  for (size_t i = 0; i < exec->transfer_count; i++)
    if (transfer_is_early(&exec->transfers[i]) && !exec->transfers[i].mapped) send_to[sends++] = i;
  result = renew(exec->early, NULL, 0, send_to, sends);
  free(send_to);
  return result ? result
                : put_HostFunction(session_here(), stream, exec->early->number, WIRE_FUNCTION_KEPT);
}

void hooks_end(struct graph_exec *exec) {
  for (struct hook_call *call = exec->calls, *next; call; call = next) {
    next = call->next;
    if (!exec->gone) host_function_drop(call->number);
    free(call);
  }
  for (struct graph_hook *hook = exec->hooks, *next; hook; hook = next) {
    next = hook->next;
    free(hook);
  }
  exec->calls = NULL;
  exec->hooks = NULL;
  exec->early = NULL;
  if (exec->aside && !exec->gone) stream_end(exec->aside);
  exec->aside = 0;
}
