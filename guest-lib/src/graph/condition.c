#include "graph/condition.h"

#include <stdlib.h>

#include "graph/task.h"
#include "guest_calls.h"
#include "session/session.h"
#include "wire/answer.h"

#define BODIES_MAX 4096

struct condition *condition_ref(struct condition *condition) {
  condition->references++;
  return condition;
}

void condition_unref(struct condition *condition) {
  if (--condition->references == 0) free(condition);
}

// A handle is made for a graph, and used in it or in what is embedded there.
static struct condition *find(const struct graph *graph, CUgraphConditionalHandle handle) {
  for (const struct graph *at = graph; at; at = at->parent ? at->parent->graph : NULL)
    for (unsigned i = 0; i < at->condition_count; i++)
      if (at->conditions[i]->handle == handle) return at->conditions[i];
  return NULL;
}

static _Bool is_sensible(const CUDA_CONDITIONAL_NODE_PARAMS *params) {
  switch (params->type) {
    case CU_GRAPH_COND_TYPE_IF:
      return params->size == 1 || params->size == 2;
    case CU_GRAPH_COND_TYPE_WHILE:
      return params->size == 1;
    case CU_GRAPH_COND_TYPE_SWITCH:
      return params->size > 0 && params->size <= BODIES_MAX;
    default:
      return 0;
  }
}

static CUresult add_bodies(struct graph_node *node) {
  struct condition_task *task = &node->task->condition;
  task->bodies = malloc(task->size * sizeof(CUgraph));
  if (!task->bodies) return CUDA_ERROR_OUT_OF_MEMORY;
  for (unsigned i = 0; i < task->size; i++) {
    struct graph *body = graph_new();
    if (!body) return CUDA_ERROR_OUT_OF_MEMORY;
    if (!graph_embed(node, body)) {
      graph_unref(body);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!graph_name(body)) return CUDA_ERROR_OUT_OF_MEMORY;
    task->bodies[i] = (CUgraph)(uintptr_t)body->handle;
  }
  return CUDA_SUCCESS;
}

CUresult graph_add_condition(struct graph *graph, uint64_t context,
                             CUDA_CONDITIONAL_NODE_PARAMS *params, const struct graph_edges *before,
                             struct graph_node **added) {
  if (!is_sensible(params)) return CUDA_ERROR_INVALID_VALUE;
  struct condition *condition = find(graph, params->handle);
  if (!condition || condition->used) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = graph_check_room(graph, NULL);
  if (result) return result;
  struct task *task = task_new(CU_GRAPH_NODE_TYPE_CONDITIONAL, context);
  if (!task) return CUDA_ERROR_OUT_OF_MEMORY;
  task->condition = (struct condition_task){
      .condition = condition_ref(condition), .kind = params->type, .size = params->size};
  struct graph_node *node;
  result = graph_add(graph, CU_GRAPH_NODE_TYPE_CONDITIONAL, task, before, &node);
  task_unref(task);
  if (result) return result;
  if ((result = add_bodies(node))) {
    graph_remove(node);
    return result;
  }
  params->phGraph_out = task->condition.bodies;
  condition->used = 1;
  *added = node;
  return CUDA_SUCCESS;
}

CUresult guest_cuGraphConditionalHandleCreate(CUgraphConditionalHandle *pHandle_out, CUgraph hGraph,
                                              CUcontext ctx, unsigned int defaultLaunchValue,
                                              unsigned int flags) {
  uint64_t context;
  CUresult result = task_context(ctx, &context);
  if (result) return result;
  // The one flag has each launch begin with the value.
  if (!pHandle_out || flags > 1) return CUDA_ERROR_INVALID_VALUE;
  graphs_lock();
  struct graph *graph = graph_find(hGraph);
  struct condition *condition = graph ? calloc(1, sizeof *condition) : NULL;
  struct condition **grown =
      graph ? realloc(graph->conditions, (graph->condition_count + 1) * sizeof(struct condition *))
            : NULL;
  if (grown) graph->conditions = grown;
  if (!graph) {
    result = CUDA_ERROR_INVALID_VALUE;
  } else if (!condition || !grown) {
    result = CUDA_ERROR_OUT_OF_MEMORY;
  } else {
    struct answer answer;
    struct session *session = session_of_context(context);
    answer_init(&answer);
    condition->session = session;
    result = ask_GraphCondition(session, graph->handle, defaultLaunchValue, flags, &answer);
    if (!result)
      condition->handle = ((const struct wire_GraphCondition_reply *)answer.reply)->handle;
    answer_free(&answer);
  }
  if (result) {
    free(condition);
  } else {
    condition->references = 1;
    condition->graph = graph->handle;
    graph->conditions[graph->condition_count++] = condition;
    *pHandle_out = condition->handle;
  }
  graphs_unlock();
  return result;
}
