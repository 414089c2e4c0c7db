#include "exec/exec.h"

#include <stdlib.h>

#include "exec/hook.h"
#include "exec/internal.h"
#include "exec/parts.h"
#include "graph/condition.h"
#include "graph/task.h"
#include "graph/task_params.h"
#include "graph/task_session.h"
#include "guest_calls.h"
#include "session/handle.h"
#include "session/session.h"
#include "setup/log.h"
#include "streams/stream.h"
#include "wire/order.h"

static void unref(struct graph_exec *exec) {
  if (--exec->references) return;
  exec_memory_end(exec);
  if (exec->plan) graph_unref(exec->plan);
  pthread_mutex_destroy(&exec->mutex);
  free(exec->order);
  free(exec);
}

// Executable graphs that have ended, and whose last launch may yet call hooks. The lock of graphs
// guards the list.
static struct graph_exec *ending;

// Ends what launches use beside the server's graph. Nobody else knows the executable graph any
// more. The lock of graphs is not held.
static void end(struct graph_exec *exec) {
  struct thread_session before = session_switch(exec->session);
  pthread_mutex_lock(&exec->mutex);
  hooks_end(exec);
  transfer_end(exec);
  pthread_mutex_unlock(&exec->mutex);
  session_back(before);
}

static _Bool is_under_way(const struct graph_exec *exec) {
  return exec->calls && exec->launches && !exec->gone &&
         !stream_has_done(exec->session, exec->stream, exec->sequence);
}

static void end_those_that_are_done(void) {
  struct graph_exec *done = NULL;
  graphs_lock();
  for (struct graph_exec **at = &ending; *at;) {
    struct graph_exec *exec = *at;
    if (is_under_way(exec)) {
      at = &exec->next;
    } else {
      *at = exec->next;
      exec->next = done;
      done = exec;
    }
  }
  graphs_unlock();
  while (done) {
    struct graph_exec *exec = done;
    done = exec->next;
    end(exec);
    graphs_lock();
    handle_recycle(WIRE_KIND_GRAPH_EXEC, exec->handle);
    unref(exec);
    graphs_unlock();
  }
}

struct graph_exec *exec_enter(CUgraphExec handle) {
  graphs_lock();
  struct graph_exec *exec = handle_object(WIRE_KIND_GRAPH_EXEC, handle_of(handle));
  if (exec) exec->references++;
  graphs_unlock();
  if (exec) pthread_mutex_lock(&exec->mutex);
  return exec;
}

void exec_leave(struct graph_exec *exec) {
  pthread_mutex_unlock(&exec->mutex);
  graphs_lock();
  unref(exec);
  graphs_unlock();
}

static struct graph_exec *new_exec(struct graph *plan, uint64_t flags) {
  struct graph_exec *exec = plan ? calloc(1, sizeof *exec) : NULL;
  if (!exec) {
    if (plan) graph_unref(plan);
    return NULL;
  }
  pthread_mutex_init(&exec->mutex, NULL);
  exec->references = 1;
  exec->flags = flags;
  exec->plan = plan;
  exec->wire = exec->handle = handle_mint_for_any(WIRE_KIND_GRAPH_EXEC, exec);
  if (exec->handle) return exec;
  unref(exec);
  return NULL;
}

void exec_give_up(struct graph_exec *exec) {
  struct thread_session before = session_switch(exec->session);
  parts_end(exec);
  hooks_end(exec);
  transfer_end(exec);
  handle_retire(WIRE_KIND_GRAPH_EXEC, exec->handle);
  if (!exec->split)
    put_GraphDestroy(session_here(), exec->handle);  // of which pieces may have been sent
  handle_recycle(WIRE_KIND_GRAPH_EXEC, exec->handle);
  unref(exec);
  session_back(before);
}

static CUresult tell(struct graph_exec *exec, struct session *session, struct graph *from,
                     struct graph_node **culprit, CUgraphInstantiateResult *why) {
  exec->session = session;
  struct thread_session before = session_switch(session);
  CUresult result = exec_send(exec, from, culprit, why);
  session_back(before);
  for (size_t i = 0; i < exec->order_count; i++)
    if (exec->order[i]->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) exec->records = 1;
  return result;
}

CUresult exec_make_of(struct graph *plan, struct session *session, uint64_t flags,
                      struct graph *from, struct graph_exec **made, struct graph_node **culprit,
                      CUgraphInstantiateResult *why) {
  struct graph_exec *exec = new_exec(plan, flags);
  if (!exec) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = tell(exec, session, from, culprit, why);
  if (result)
    exec_give_up(exec);
  else
    *made = exec;
  return result;
}

CUresult exec_make(struct graph *graph, uint64_t flags, struct graph_exec **made, uint64_t *culprit,
                   CUgraphInstantiateResult *why) {
  *culprit = 0;
  *why = CUDA_GRAPH_INSTANTIATE_ERROR;
  if (graph->memory_nodes && graph->instance) return CUDA_ERROR_NOT_SUPPORTED;
  for (unsigned i = 0; i < graph->condition_count; i++)
    if (!graph->conditions[i]->used) {
      *why = CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED;
      return CUDA_ERROR_INVALID_VALUE;
    }
  struct graph_exec *exec = new_exec(graph_clone(graph, 0), flags);
  if (!exec) return CUDA_ERROR_OUT_OF_MEMORY;
  struct graph_node *bad = NULL;
  struct session *session = sessions_many() ? graph_session(exec->plan) : sessions;
  if (!session) session = session_here();
  CUresult result = exec_memory_make(exec);
  if (!result)
    result = session == SESSION_SEVERAL ? parts_make(exec, graph, &bad, why)
                                        : tell(exec, session, graph, &bad, why);
  if (bad) *culprit = bad->origin;
  if (result) {
    exec_give_up(exec);
    return result;
  }
  *why = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  if (graph->memory_nodes) graph->instance = &exec->from;
  exec->from = graph->memory_nodes ? graph : NULL;
  *made = exec;
  return CUDA_SUCCESS;
}

// Whether a node of the server's graph would have to get other attributes, which no driver allows.
static _Bool needs_another(const struct task *from, const struct task *to) {
  return from->type == CU_GRAPH_NODE_TYPE_KERNEL && !task_same_attributes(from, to);
}

// Does exec_set_task in the session of the executable graph.
static CUresult set_here(struct graph_exec *exec, struct graph_node *node, struct task *task) {
  const _Bool moves = is_transfer(task);
  CUresult result = moves ? transfer_prepare(exec, node, task) : CUDA_SUCCESS;
  if (result) return result;
  struct task *before = node->task;
  node->task = task_ref(task);
  if (needs_another(before, task)) {
    exec->remake = 1;
  } else if (!task_same(before, task)) {
    exec->hooks_stale |= moves || is_hook(task) || task->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    if (!is_hook(task)) result = exec_send_task(exec, node);
  }
  task_unref(before);
  return result;
}

static _Bool is_under_condition(const struct graph_node *node) {
  for (node = node->graph->parent; node; node = node->graph->parent)
    if (node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) return 1;
  return 0;
}

// Does the same for any node, also one in the body of a condition, where the device makes copies by
// itself.
static CUresult set_there(struct graph_exec *exec, struct graph_node *node, struct task *task) {
  if (task->type != CU_GRAPH_NODE_TYPE_MEMCPY || task_is_idle(task) || !is_under_condition(node))
    return set_here(exec, node, task);
  struct task *reached;
  CUresult result = task_under_condition(session_here(), task, &reached);
  if (result) return result;
  result = set_here(exec, node, reached);
  task_unref(reached);
  return result;
}

CUresult exec_set_task(struct graph_exec *exec, struct graph_node *node, struct task *task) {
  struct graph_node *inner = node;
  struct graph_exec *part = exec->split ? parts_find(exec, &inner) : exec;
  CUresult result = CUDA_SUCCESS;
  if (part && sessions_many() &&
      session_of_both(task_session(task), part->session) != part->session) {
    log_warn("a node of an executable graph that moves to another device is not served");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (part) {
    struct thread_session before = session_switch(part->session);
    result = set_there(part, inner, task);
    session_back(before);
  }
  if (result || part == exec) return result;
  struct task *old = node->task;
  node->task = task_ref(task);
  task_unref(old);
  return CUDA_SUCCESS;
}

static void retire_wire(struct graph_exec *exec, uint64_t wire) {
  if (wire == exec->handle) return;
  handle_retire(WIRE_KIND_GRAPH_EXEC, wire);
  handle_recycle(WIRE_KIND_GRAPH_EXEC, wire);
}

// Has the server make all of it again, as the plan has it now. Launches under way go on.
static CUresult make_again(struct graph_exec *exec) {
  for (size_t i = 0; i < exec->order_count; i++)
    if (exec->order[i]->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
      log_warn("new attributes of kernels in executable graphs with conditions are not served");
      return CUDA_ERROR_NOT_SUPPORTED;
    }
  const uint64_t before = exec->wire;
  exec->wire = handle_mint_for_any(WIRE_KIND_GRAPH_EXEC, exec);
  if (!exec->wire) {
    exec->wire = before;
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  struct graph_node *bad = NULL;
  CUgraphInstantiateResult why;
  CUresult result = exec_send(exec, NULL, &bad, &why);
  struct session *session = session_here();
  for (size_t i = 0; i < exec->order_count && !result; i++)
    if (!exec->order[i]->enabled && !is_host_copy(exec->order[i]->task))
      result = put_GraphEnable(session, exec->wire, exec->order[i]->number, 0);
  const uint64_t spare = result ? exec->wire : before;
  if (result) exec->wire = before;
  put_GraphDestroy(session, spare);
  retire_wire(exec, spare);
  return result;
}

static CUresult changed_here(struct graph_exec *exec) {
  CUresult result = CUDA_SUCCESS;
  struct thread_session before = session_switch(exec->session);
  if (exec->hooks_stale) {
    _Bool moved;
    result = hooks_plan(exec, &moved);
    exec->remake |= moved;
  }
  if (!result) result = exec->remake ? make_again(exec) : hooks_tell(exec);
  exec->hooks_stale = exec->remake = 0;
  session_back(before);
  return result;
}

CUresult exec_changed(struct graph_exec *exec) {
  return exec->split ? parts_each(exec, changed_here) : changed_here(exec);
}

CUresult exec_enable(struct graph_exec *exec, struct graph_node *node, _Bool enabled) {
  struct graph_node *inner = node;
  struct graph_exec *part = exec->split ? parts_find(exec, &inner) : exec;
  node->enabled = inner->enabled = enabled;
  if (!part) return CUDA_SUCCESS;
  CUresult result = CUDA_SUCCESS;
  struct thread_session before = session_switch(part->session);
  if (!is_host_copy(inner->task))
    result = put_GraphEnable(session_here(), part->wire, inner->number, enabled);
  part->hooks_stale |= is_host_copy(inner->task) || is_transfer(inner->task);
  if (!result) result = changed_here(part);
  session_back(before);
  return result;
}

static void forget(uint64_t handle, void *object, void *session) {
  (void)handle;
  struct graph_exec *exec = object;
  if (exec->session == session) exec->gone = 1;
}

void exec_forget_all(struct session *session) {
  handle_each(session, WIRE_KIND_GRAPH_EXEC, forget, session);
  graphs_lock();
  for (struct graph_exec *exec = ending; exec; exec = exec->next)
    if (exec->session == session) exec->gone = 1;
  graphs_unlock();
}

// ---- entry points ------------------------------------------------------------------------------

#define KNOWN_FLAGS                                                                              \
  (CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | \
   CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)

static CUresult instantiate(CUgraphExec *out, CUgraph handle, uint64_t flags, CUgraphNode *culprit,
                            CUgraphInstantiateResult *why) {
  *culprit = NULL;
  *why = CUDA_GRAPH_INSTANTIATE_ERROR;
  if (!out || flags & ~(uint64_t)KNOWN_FLAGS) return CUDA_ERROR_INVALID_VALUE;
  if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) {
    *why = CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED;
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  uint64_t node = 0;
  struct graph_exec *exec = NULL;
  graphs_lock();
  struct graph *graph = graph_find(handle);
  if (graph) result = exec_make(graph, flags, &exec, &node, why);
  if (!result) *out = (CUgraphExec)(uintptr_t)exec->handle;
  graphs_unlock();
  *culprit = (CUgraphNode)(uintptr_t)node;
  return result;
}

CUresult guest_cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
                                            CUDA_GRAPH_INSTANTIATE_PARAMS *params, int per_thread) {
  if (!params) return CUDA_ERROR_INVALID_VALUE;
  uint64_t flags = params->flags;
  if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) {
    uint64_t stream;
    CUresult result = stream_resolve(params->hUploadStream, per_thread, &stream);
    if (result) return result;
    flags &= ~(uint64_t)CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
  }
  return instantiate(phGraphExec, hGraph, flags, &params->hErrNode_out, &params->result_out);
}

CUresult guest_cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph,
                                           unsigned long long flags) {
  CUgraphNode culprit;
  CUgraphInstantiateResult why;
  return instantiate(phGraphExec, hGraph, flags, &culprit, &why);
}

CUresult guest_cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph,
                                     CUgraphNode *phErrorNode, char *logBuffer, size_t bufferSize) {
  CUgraphNode culprit;
  CUgraphInstantiateResult why;
  CUresult result = instantiate(phGraphExec, hGraph, 0, &culprit, &why);
  if (phErrorNode) *phErrorNode = culprit;
  if (logBuffer && bufferSize) logBuffer[0] = 0;
  return result;
}

CUresult guest_cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph,
                                  CUgraphNode *phErrorNode, char *logBuffer, size_t bufferSize) {
  return guest_cuGraphInstantiate_v2(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
}

static CUresult finish(struct graph_exec *exec) {
  return exec->split ? parts_each(exec, finish) : session_synchronize(exec->session);
}

CUresult exec_retire(struct graph_exec *exec) {
  CUresult result = CUDA_SUCCESS;
  struct thread_session before = session_switch(exec->session);
  // What its launches use of the program's stays until they are done.
  if (exec->plan->user_count && exec->launches) finish(exec);
  graphs_lock();
  _Bool mine = handle_retire(WIRE_KIND_GRAPH_EXEC, exec->handle) != NULL;
  graphs_unlock();
  if (mine) {
    if (!exec->gone && !exec->split) result = put_GraphDestroy(session_here(), exec->wire);
    graphs_lock();
    retire_wire(exec, exec->wire);
    if (exec->from) exec->from->instance = NULL;
    exec->from = NULL;
    // The handle's reference is the list's now.
    exec->next = ending;
    ending = exec;
    graphs_unlock();
  }
  session_back(before);
  return mine ? result : CUDA_ERROR_INVALID_VALUE;
}

CUresult guest_cuGraphExecDestroy(CUgraphExec hGraphExec) {
  struct graph_exec *exec = exec_enter(hGraphExec);
  if (!exec) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = exec_retire(exec);
  if (result != CUDA_ERROR_INVALID_VALUE) parts_retire(exec);
  exec_leave(exec);
  end_those_that_are_done();
  return result;
}

CUresult guest_cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t *flags) {
  struct graph_exec *exec = exec_enter(hGraphExec);
  if (!exec) return CUDA_ERROR_INVALID_VALUE;
  if (flags) *flags = exec->flags;
  exec_leave(exec);
  return flags ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
