// What changes in executable graphs: parameters of nodes, one at a time or as another graph has
// them. What is the same is not sent.
#include <stdlib.h>

#include "base/grow.h"
#include "exec/exec.h"
#include "graph/graph.h"
#include "graph/node_params.h"
#include "graph/task.h"
#include "graph/task_params.h"
#include "guest_calls.h"

// A node of the plan, and what it is to do from now on.
struct pair {
  struct graph_node *node;
  struct task *task;
  CUgraphNode from;  // that had it
};

// Finds which node of a graph is which of the plan: the last nodes of both are the same in order,
// and so are those each one depends on.
struct matcher {
  CUgraphExecUpdateResultInfo *info;
  struct pair *pairs;
  size_t count, room;
};

static CUgraphNode name_of(const struct graph_node *node) {
  return (CUgraphNode)(uintptr_t)(node ? node->handle : 0);
}

static _Bool fail(struct matcher *matcher, CUgraphExecUpdateResult why,
                  const struct graph_node *node, const struct graph_node *from) {
  *matcher->info = (CUgraphExecUpdateResultInfo){
      .result = why, .errorNode = name_of(node), .errorFromNode = name_of(from)};
  return 0;
}

static _Bool topology(struct matcher *matcher, const struct graph_node *node,
                      const struct graph_node *from) {
  return fail(matcher, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, node, from);
}

// `of`: the node of the graph that depends on `other`, if any.
static _Bool pair(struct matcher *matcher, struct graph_node *mine, struct graph_node *other,
                  const struct graph_node *of) {
  if (mine->twin || other->twin) return topology(matcher, of ? of : other, of ? other : NULL);
  if (mine->type != other->type)
    return fail(matcher, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, other, NULL);
  if (mine->child_count != other->child_count) return topology(matcher, other, NULL);
  mine->twin = other;
  other->twin = mine;
  if (!mine->task) return 1;
  if (!grow(&matcher->pairs, &matcher->room, matcher->count, sizeof *matcher->pairs))
    return fail(matcher, CU_GRAPH_EXEC_UPDATE_ERROR, other, NULL);
  matcher->pairs[matcher->count++] = (struct pair){mine, other->task, name_of(other)};
  return 1;
}

static _Bool match(struct matcher *matcher, const struct graph *plan, const struct graph *graph);

static _Bool match_node(struct matcher *matcher, struct graph_node *mine, struct graph_node *other,
                        struct graph_node **open, size_t *count) {
  if (mine->before.count != other->before.count) return topology(matcher, other, NULL);
  for (uint32_t i = 0; i < mine->before.count; i++) {
    const struct graph_edge *a = &mine->before.at[i], *b = &other->before.at[i];
    if (a->data.from_port != b->data.from_port || a->data.type != b->data.type)
      return topology(matcher, other, b->node);
    if (a->node->twin == b->node && b->node->twin == a->node) continue;
    if (!pair(matcher, a->node, b->node, other)) return 0;
    open[(*count)++] = a->node;
  }
  for (unsigned i = 0; i < mine->child_count; i++)
    if (!match(matcher, mine->children[i], other->children[i])) return 0;
  return 1;
}

static _Bool match(struct matcher *matcher, const struct graph *plan, const struct graph *graph) {
  if (plan->node_count != graph->node_count) return topology(matcher, NULL, NULL);
  struct graph_node **open = malloc((plan->node_count + 1) * sizeof(struct graph_node *));
  if (!open) return fail(matcher, CU_GRAPH_EXEC_UPDATE_ERROR, NULL, NULL);
  size_t ends = 0, count = 0;
  for (struct graph_node *node = plan->first; node; node = node->next) {
    node->twin = NULL;
    if (!node->after.count) open[ends++] = node;
  }
  for (struct graph_node *node = graph->first; node; node = node->next) node->twin = NULL;
  _Bool same = 1;
  for (struct graph_node *node = graph->first; node && same; node = node->next) {
    if (node->after.count) continue;
    same = count < ends ? pair(matcher, open[count], node, NULL) : topology(matcher, node, NULL);
    count++;
  }
  if (same && count != ends) same = topology(matcher, NULL, NULL);
  while (same && count) {
    struct graph_node *mine = open[--count];
    same = match_node(matcher, mine, mine->twin, open, &count);
  }
  free(open);
  return same;
}

// With both locks held.
static CUresult match_and_apply(struct graph_exec *exec, const struct graph *plan, CUgraph handle,
                                CUgraphExecUpdateResultInfo *info) {
  struct matcher matcher = {.info = info};
  const struct graph *graph = graph_find(handle);
  if (!graph) {
    info->result = CU_GRAPH_EXEC_UPDATE_ERROR;
    return CUDA_ERROR_INVALID_VALUE;
  }
  CUresult result =
      match(&matcher, plan, graph) ? CUDA_SUCCESS : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  for (size_t i = 0; i < matcher.count && !result; i++) {
    const struct pair *at = &matcher.pairs[i];
    if (at->node->task == at->task) continue;
    CUgraphExecUpdateResult why = task_compare(at->node->task, at->task);
    if (why == CU_GRAPH_EXEC_UPDATE_SUCCESS) continue;
    *info = (CUgraphExecUpdateResultInfo){.result = why, .errorNode = at->from};
    result = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  }
  for (size_t i = 0; i < matcher.count && !result; i++)
    result = exec_set_task(exec, matcher.pairs[i].node, matcher.pairs[i].task);
  if (!result) result = exec_changed(exec);
  free(matcher.pairs);
  if (!result) *info = (CUgraphExecUpdateResultInfo){.result = CU_GRAPH_EXEC_UPDATE_SUCCESS};
  return result;
}

// With both locks held.
static CUresult set_params(struct graph_exec *exec, CUgraphNode handle,
                           const CUgraphNodeParams *params) {
  struct graph_node *node = exec_node(exec, handle);
  if (!node || node->type != params->type) return CUDA_ERROR_INVALID_VALUE;
  if (node->type == CU_GRAPH_NODE_TYPE_GRAPH) {
    CUgraphExecUpdateResultInfo info;
    return match_and_apply(exec, node->children[0], params->graph.graph, &info)
               ? CUDA_ERROR_INVALID_VALUE
               : CUDA_SUCCESS;
  }
  if (!node->task) return CUDA_ERROR_INVALID_VALUE;
  struct task *task = NULL;
  CUresult result =
      task_of(params, node->type == CU_GRAPH_NODE_TYPE_KERNEL ? node->task : NULL, &task);
  if (result) return result;
  result =
      task_compare(node->task, task) ? CUDA_ERROR_INVALID_VALUE : exec_set_task(exec, node, task);
  if (!result) result = exec_changed(exec);
  task_unref(task);
  return result;
}

static CUresult set(CUgraphExec handle, CUgraphNode node, const CUgraphNodeParams *params) {
  struct graph_exec *exec = exec_enter(handle);
  if (!exec) return CUDA_ERROR_INVALID_VALUE;
  graphs_lock();
  CUresult result = set_params(exec, node, params);
  graphs_unlock();
  exec_leave(exec);
  return result;
}

static CUresult enable(CUgraphExec handle, CUgraphNode name, unsigned *enabled, _Bool change) {
  struct graph_exec *exec = exec_enter(handle);
  if (!exec) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  graphs_lock();
  struct graph_node *node = exec_node(exec, name);
  if (node && (node->type == CU_GRAPH_NODE_TYPE_KERNEL || node->type == CU_GRAPH_NODE_TYPE_MEMCPY ||
               node->type == CU_GRAPH_NODE_TYPE_MEMSET)) {
    result = CUDA_SUCCESS;
    const _Bool on = *enabled != 0, changes = change && node->enabled != on;
    if (!change) *enabled = node->enabled;
    if (changes) result = exec_enable(exec, node, on);
  }
  graphs_unlock();
  exec_leave(exec);
  return result;
}

// ---- entry points ------------------------------------------------------------------------------

CUresult guest_cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode,
                                     unsigned int isEnabled) {
  return enable(hGraphExec, hNode, &isEnabled, 1);
}
CUresult guest_cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode,
                                     unsigned int *isEnabled) {
  return isEnabled ? enable(hGraphExec, hNode, isEnabled, 0) : CUDA_ERROR_INVALID_VALUE;
}

CUresult guest_cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
                                    CUgraphExecUpdateResultInfo *resultInfo) {
  struct graph_exec *exec = exec_enter(hGraphExec);
  if (!exec) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  if (resultInfo) {
    *resultInfo = (CUgraphExecUpdateResultInfo){.result = CU_GRAPH_EXEC_UPDATE_ERROR};
    graphs_lock();
    result = match_and_apply(exec, exec->plan, hGraph, resultInfo);
    graphs_unlock();
  }
  exec_leave(exec);
  return result;
}
CUresult guest_cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph,
                                 CUgraphNode *hErrorNode_out,
                                 CUgraphExecUpdateResult *updateResult_out) {
  if (!hErrorNode_out || !updateResult_out) return CUDA_ERROR_INVALID_VALUE;
  CUgraphExecUpdateResultInfo info = {0};
  CUresult result = guest_cuGraphExecUpdate_v2(hGraphExec, hGraph, &info);
  *hErrorNode_out = info.errorNode;
  *updateResult_out = info.result;
  return result;
}

#define NODE CUgraphExec hGraphExec, CUgraphNode hNode

#define SET(name, structure, filled)                         \
  CUresult guest_##name(NODE, const structure *nodeParams) { \
    if (!nodeParams) return CUDA_ERROR_INVALID_VALUE;        \
    CUgraphNodeParams params = filled;                       \
    return set(hGraphExec, hNode, &params);                  \
  }
SET(cuGraphExecKernelNodeSetParams, CUDA_KERNEL_NODE_PARAMS_v1, params_of_kernel_v1(nodeParams))
SET(cuGraphExecKernelNodeSetParams_v2, CUDA_KERNEL_NODE_PARAMS, params_of_kernel(nodeParams))
SET(cuGraphExecHostNodeSetParams, CUDA_HOST_NODE_PARAMS, params_of_host(nodeParams))
SET(cuGraphExecBatchMemOpNodeSetParams, CUDA_BATCH_MEM_OP_NODE_PARAMS, params_of_values(nodeParams))

CUresult guest_cuGraphExecMemcpyNodeSetParams(NODE, const CUDA_MEMCPY3D *copyParams,
                                              CUcontext ctx) {
  if (!copyParams) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams params = params_of_copy(copyParams, ctx);
  return set(hGraphExec, hNode, &params);
}
CUresult guest_cuGraphExecMemsetNodeSetParams(NODE, const CUDA_MEMSET_NODE_PARAMS *memsetParams,
                                              CUcontext ctx) {
  if (!memsetParams) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams params = params_of_fill(memsetParams, ctx);
  return set(hGraphExec, hNode, &params);
}
CUresult guest_cuGraphExecEventRecordNodeSetEvent(NODE, CUevent event) {
  CUgraphNodeParams params = params_of_event(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
  return set(hGraphExec, hNode, &params);
}
CUresult guest_cuGraphExecEventWaitNodeSetEvent(NODE, CUevent event) {
  CUgraphNodeParams params = params_of_event(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
  return set(hGraphExec, hNode, &params);
}
CUresult guest_cuGraphExecChildGraphNodeSetParams(NODE, CUgraph childGraph) {
  CUgraphNodeParams params = params_of_child(childGraph);
  return set(hGraphExec, hNode, &params);
}
CUresult guest_cuGraphExecNodeSetParams(NODE, CUgraphNodeParams *nodeParams) {
  if (!nodeParams || nodeParams->reserved2) return CUDA_ERROR_INVALID_VALUE;
  return set(hGraphExec, hNode, nodeParams);
}
