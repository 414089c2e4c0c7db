#include "graph/exec.h"

#include <stdlib.h>

#include "graph/capture_state.h"
#include "graph/condition.h"
#include "graph/task.h"
#include "guest_calls.h"
#include "handle.h"
#include "host_function.h"
#include "pages.h"
#include "stream.h"

static void unref(struct graph_exec *exec) {
  if (--exec->references) return;
  exec_memory_end(exec);
  if (exec->plan) graph_unref(exec->plan);
  pthread_mutex_destroy(&exec->mutex);
  free(exec->transfers);
  free(exec);
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

CUresult exec_make(struct graph *graph, uint64_t flags, struct graph_exec **made, uint64_t *culprit,
                   CUgraphInstantiateResult *why) {
  *culprit = 0;
  *why = CUDA_GRAPH_INSTANTIATE_ERROR;
  if (graph->memory_nodes && graph->exec) return CUDA_ERROR_NOT_SUPPORTED;
  for (unsigned i = 0; i < graph->condition_count; i++)
    if (!graph->conditions[i]->used) {
      *why = CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED;
      return CUDA_ERROR_INVALID_VALUE;
    }
  struct graph_exec *exec = calloc(1, sizeof *exec);
  if (!exec) return CUDA_ERROR_OUT_OF_MEMORY;
  pthread_mutex_init(&exec->mutex, NULL);
  exec->references = 1;
  exec->flags = flags;
  exec->plan = graph_clone(graph, 0);
  if (exec->plan) exec->handle = handle_mint(WIRE_KIND_GRAPH_EXEC, exec);
  if (!exec->handle) {
    unref(exec);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  struct graph_node *bad = NULL;
  CUresult result = exec_memory_make(exec);
  if (!result) result = exec_send(exec, graph, &bad, why);
  if (bad) *culprit = bad->origin;
  if (!result) {
    *why = CUDA_GRAPH_INSTANTIATE_SUCCESS;
    if (graph->memory_nodes) graph->exec = exec;
    exec->from = graph->memory_nodes ? graph : NULL;
    *made = exec;
    return CUDA_SUCCESS;
  }
  transfer_end(exec);
  handle_retire(WIRE_KIND_GRAPH_EXEC, exec->handle);
  put_GraphDestroy(exec->handle);  // of which pieces may have been sent
  handle_recycle(WIRE_KIND_GRAPH_EXEC, exec->handle);
  unref(exec);
  return result;
}

CUresult exec_set_task(struct graph_exec *exec, struct graph_node *node, struct task *task) {
  CUresult result = CUDA_SUCCESS;
  uint64_t staging;
  if (is_transfer(task)) result = transfer_prepare(exec, node, task, &staging);
  if (!result && !task_same(node->task, task)) result = exec_send_task(exec, node, task);
  if (result) return result;
  task_ref(task);
  task_unref(node->task);
  node->task = task;
  return CUDA_SUCCESS;
}

static void forget(uint64_t handle, void *object, void *context) {
  (void)handle, (void)context;
  ((struct graph_exec *)object)->gone = 1;
}

void exec_forget_all(void) { handle_each(WIRE_KIND_GRAPH_EXEC, forget, NULL); }

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

CUresult guest_cuGraphExecDestroy(CUgraphExec hGraphExec) {
  struct graph_exec *exec = exec_enter(hGraphExec);
  if (!exec) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = CUDA_SUCCESS;
  // What its launches use of the program's stays until they are done.
  if (exec->plan->user_count && exec->launched) context_synchronize();
  graphs_lock();
  _Bool mine = handle_retire(WIRE_KIND_GRAPH_EXEC, exec->handle) != NULL;
  graphs_unlock();
  if (mine) {
    transfer_end(exec);
    if (!exec->gone) result = put_GraphDestroy(exec->handle);
    graphs_lock();
    handle_recycle(WIRE_KIND_GRAPH_EXEC, exec->handle);
    exec->references--;  // the handle's
    if (exec->from) exec->from->exec = NULL;
    exec->from = NULL;
    graphs_unlock();
  }
  exec_leave(exec);
  return mine ? result : CUDA_ERROR_INVALID_VALUE;
}

CUresult guest_cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t *flags) {
  struct graph_exec *exec = exec_enter(hGraphExec);
  if (!exec) return CUDA_ERROR_INVALID_VALUE;
  if (flags) *flags = exec->flags;
  exec_leave(exec);
  return flags ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// With the mutex held.
static CUresult launch(struct graph_exec *exec, uint64_t stream) {
  if (capture_active()) {
    graphs_lock();
    CUresult captured = capture_graph(stream, exec->plan);
    graphs_unlock();
    if (captured != CAPTURE_NONE) return captured;
  }
  if (exec->gone) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  CUresult result = CUDA_SUCCESS;
  if (exec->memory_count) {
    graphs_lock();
    result = exec_memory_before(exec);
    graphs_unlock();
  }
  if (!result) result = transfer_before(exec, stream);
  if (!result) result = put_GraphLaunch(exec->handle, stream);
  if (!result && exec->has_functions) host_function_expect(stream_last_sequence(stream));
  if (!result) result = transfer_after(exec, stream);
  if (!result && exec->memory_count) {
    graphs_lock();
    exec_memory_after(exec);
    graphs_unlock();
  }
  exec->launched = 1;
  exec->stream = stream;
  return result;
}

CUresult guest_cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream, int per_thread) {
  uint64_t stream;
  CUresult result = stream_resolve(hStream, per_thread, &stream);
  if (result) return result;
  struct graph_exec *exec = exec_enter(hGraphExec);
  if (!exec) return CUDA_ERROR_INVALID_VALUE;
  transfer_locate(exec);
  _Bool shared = pages_hand_over();
  result = launch(exec, stream);
  if (shared) pages_handed_over();
  exec_leave(exec);
  return result;
}

// It is where it will run.
CUresult guest_cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream, int per_thread) {
  uint64_t stream;
  CUresult result = stream_resolve(hStream, per_thread, &stream);
  if (result) return result;
  struct graph_exec *exec = exec_enter(hGraphExec);
  if (!exec) return CUDA_ERROR_INVALID_VALUE;
  exec_leave(exec);
  return CUDA_SUCCESS;
}
