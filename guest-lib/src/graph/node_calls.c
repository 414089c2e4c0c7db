// Entry points: nodes of graphs, and their parameters.
#include <stdlib.h>
#include <string.h>

#include "abi_launch.h"
#include "graph/allocation.h"
#include "graph/condition.h"
#include "graph/graph.h"
#include "graph/node_params.h"
#include "graph/task.h"
#include "graph/task_params.h"
#include "graph/told.h"
#include "guest_calls.h"

// Where a node is to be added.
struct place {
  CUgraphNode *out;
  CUgraph graph;
  const CUgraphNode *before;
  const CUgraphEdgeData *data;
  size_t count;
};

// The rest is with the lock.
static CUresult embed_child(struct graph *graph, const CUDA_CHILD_GRAPH_NODE_PARAMS *params,
                            const struct graph_edges *edges, struct graph_node **node) {
  struct graph *child = graph_find(params->graph);
  if (!child) return CUDA_ERROR_INVALID_VALUE;
  const _Bool move = params->ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
  if (!move && params->ownership != CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE)
    return CUDA_ERROR_INVALID_VALUE;
  if (move && (child->parent || child == graph)) return CUDA_ERROR_INVALID_VALUE;
  if (graph_holds_memory_nodes(child)) return CUDA_ERROR_NOT_SUPPORTED;
  CUresult result = graph_check_room(graph, child);
  if (result) return result;
  struct graph *embedded = move ? child : graph_clone(child, 1);
  if (!embedded) return CUDA_ERROR_OUT_OF_MEMORY;
  if (move) embedded->references++;
  result = graph_add(graph, CU_GRAPH_NODE_TYPE_GRAPH, NULL, edges, node);
  if (!result && !move && !graph_name(embedded)) result = CUDA_ERROR_OUT_OF_MEMORY;
  if (!result && !graph_embed(*node, embedded)) result = CUDA_ERROR_OUT_OF_MEMORY;
  if (!result) return CUDA_SUCCESS;
  if (!move) graph_forget(embedded);
  graph_unref(embedded);
  return result;
}

static CUresult make(struct graph *graph, CUgraphNodeParams *params,
                     const struct graph_edges *edges, struct graph_node **node) {
  struct task *task = NULL;
  uint64_t context;
  CUresult result;
  switch (params->type) {
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return embed_child(graph, &params->graph, edges, node);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      result = task_context(params->conditional.ctx, &context);
      return result ? result
                    : graph_add_condition(graph, context, &params->conditional, edges, node);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
      CUDA_MEM_ALLOC_NODE_PARAMS allocation;
      _Static_assert(sizeof allocation == sizeof params->alloc, "versions of one structure");
      memcpy(&allocation, &params->alloc, sizeof allocation);
      const int device = allocation.poolProps.location.id;
      result = task_own_context(device_exists(device) ? device : device_here(), &context);
      if (!result) result = task_allocate(&allocation, context, &task);
      if (!result) result = graph_add_allocation(graph, task, edges, node);
      if (!result)
        params->alloc.dptr = graph_allocation_address((*node)->task->allocate.allocation);
      break;
    }
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      result = task_own_context(device_here(), &context);
      if (!result) result = task_free(params->free.dptr, context, &task);
      if (!result) result = graph_add_free(graph, task, edges, node);
      break;
    default:
      result = task_of(params, NULL, &task);
      if (!result) result = graph_add(graph, params->type, task, edges, node);
      break;
  }
  if (task) task_unref(task);
  return result;
}

static CUresult add(const struct place *place, CUgraphNodeParams *params) {
  if (!place->out) return CUDA_ERROR_INVALID_VALUE;
  struct graph_edges edges = {0};
  struct graph_node *node;
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  graphs_lock();
  struct graph *graph = graph_find(place->graph);
  if (graph) result = graph_find_edges(graph, place->before, place->data, place->count, &edges);
  if (!result) result = make(graph, params, &edges, &node);
  if (!result) *place->out = (CUgraphNode)(uintptr_t)node->handle;
  graph_edges_free(&edges);
  graphs_unlock();
  return result;
}

static CUresult add_generic(const struct place *place, CUgraphNodeParams *params) {
  if (!params || params->reserved0[0] || params->reserved0[1] || params->reserved0[2] ||
      params->reserved2)
    return CUDA_ERROR_INVALID_VALUE;
  return add(place, params);
}

static CUresult get(CUgraphNode handle, CUgraphNodeType type, const void *out,
                    CUgraphNodeParams *params) {
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  graphs_lock();
  struct graph_node *node = graph_find_node(handle);
  if (node && node->type == type && out) {
    task_params(node->task, params);
    result = told_keep(node, params);
  }
  graphs_unlock();
  return result;
}

static CUresult set(CUgraphNode handle, const CUgraphNodeParams *params) {
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  graphs_lock();
  struct graph_node *node = graph_find_node(handle);
  if (node && node->type == params->type) {
    struct task *task = NULL;
    result = task_of(params, node->type == CU_GRAPH_NODE_TYPE_KERNEL ? node->task : NULL, &task);
    if (!result) {
      task_unref(node->task);
      node->task = task;
      told_outdate(node);
      graph_touch(node->graph);
    }
  }
  graphs_unlock();
  return result;
}

// ---- entry points: adding ----------------------------------------------------------------------

#define BEFORE \
  CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies
#define PLACE \
  &(const struct place) { phGraphNode, hGraph, dependencies, NULL, numDependencies }

#define ADD(name, structure, filled)                           \
  CUresult guest_##name(BEFORE, const structure *nodeParams) { \
    if (!nodeParams) return CUDA_ERROR_INVALID_VALUE;          \
    CUgraphNodeParams params = filled;                         \
    return add(PLACE, &params);                                \
  }
ADD(cuGraphAddKernelNode, CUDA_KERNEL_NODE_PARAMS_v1, params_of_kernel_v1(nodeParams))
ADD(cuGraphAddKernelNode_v2, CUDA_KERNEL_NODE_PARAMS, params_of_kernel(nodeParams))
ADD(cuGraphAddHostNode, CUDA_HOST_NODE_PARAMS, params_of_host(nodeParams))
ADD(cuGraphAddBatchMemOpNode, CUDA_BATCH_MEM_OP_NODE_PARAMS, params_of_values(nodeParams))

CUresult guest_cuGraphAddMemcpyNode(BEFORE, const CUDA_MEMCPY3D *copyParams, CUcontext ctx) {
  if (!copyParams) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams params = params_of_copy(copyParams, ctx);
  return add(PLACE, &params);
}
CUresult guest_cuGraphAddMemsetNode(BEFORE, const CUDA_MEMSET_NODE_PARAMS *memsetParams,
                                    CUcontext ctx) {
  if (!memsetParams) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams params = params_of_fill(memsetParams, ctx);
  return add(PLACE, &params);
}
CUresult guest_cuGraphAddChildGraphNode(BEFORE, CUgraph childGraph) {
  CUgraphNodeParams params = params_of_child(childGraph);
  return add(PLACE, &params);
}
CUresult guest_cuGraphAddEmptyNode(BEFORE) {
  CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
  return add(PLACE, &params);
}
CUresult guest_cuGraphAddEventRecordNode(BEFORE, CUevent event) {
  CUgraphNodeParams params = params_of_event(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
  return add(PLACE, &params);
}
CUresult guest_cuGraphAddEventWaitNode(BEFORE, CUevent event) {
  CUgraphNodeParams params = params_of_event(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
  return add(PLACE, &params);
}
CUresult guest_cuGraphAddMemAllocNode(BEFORE, CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams) {
  if (!nodeParams) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
  memcpy(&params.alloc, nodeParams, sizeof *nodeParams);
  CUresult result = add(PLACE, &params);
  if (!result) nodeParams->dptr = params.alloc.dptr;
  return result;
}
CUresult guest_cuGraphAddMemFreeNode(BEFORE, CUdeviceptr dptr) {
  CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE};
  params.free.dptr = dptr;
  return add(PLACE, &params);
}
#define WITH_DATA                                                            \
  CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, \
      const CUgraphEdgeData *dependencyData, size_t numDependencies
CUresult guest_cuGraphAddNode_v3(WITH_DATA, CUgraphNodeParams *nodeParams) {
  return add_generic(
      &(const struct place){phGraphNode, hGraph, dependencies, dependencyData, numDependencies},
      nodeParams);
}
CUresult guest_cuGraphAddNode_v2(WITH_DATA, CUgraphNodeParams *nodeParams) {
  CUgraphNodeParams known;
  if (nodeParams && (nodeParams->type == CU_GRAPH_NODE_TYPE_HOST ||
                     nodeParams->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)) {
    known = params_without_preferences(nodeParams);
    nodeParams = &known;
  }
  return guest_cuGraphAddNode_v3(phGraphNode, hGraph, dependencies, dependencyData, numDependencies,
                                 nodeParams);
}
CUresult guest_cuGraphAddNode(BEFORE, CUgraphNodeParams *nodeParams) {
  return guest_cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, NULL, numDependencies,
                                 nodeParams);
}

// ---- entry points: asking and changing ---------------------------------------------------------

#define GET(name, type, structure, member)                                 \
  CUresult guest_##name(CUgraphNode hNode, structure *out) {               \
    CUgraphNodeParams params;                                              \
    CUresult result = get(hNode, CU_GRAPH_NODE_TYPE_##type, out, &params); \
    if (!result) memcpy(out, &params.member, sizeof *out);                 \
    return result;                                                         \
  }
GET(cuGraphKernelNodeGetParams, KERNEL, CUDA_KERNEL_NODE_PARAMS_v1, kernel)
GET(cuGraphKernelNodeGetParams_v2, KERNEL, CUDA_KERNEL_NODE_PARAMS, kernel)
GET(cuGraphMemcpyNodeGetParams, MEMCPY, CUDA_MEMCPY3D, memcpy.copyParams)
GET(cuGraphMemsetNodeGetParams, MEMSET, CUDA_MEMSET_NODE_PARAMS, memset)
GET(cuGraphHostNodeGetParams, HOST, CUDA_HOST_NODE_PARAMS, host)
GET(cuGraphEventRecordNodeGetEvent, EVENT_RECORD, CUevent, eventRecord.event)
GET(cuGraphEventWaitNodeGetEvent, WAIT_EVENT, CUevent, eventWait.event)
GET(cuGraphBatchMemOpNodeGetParams, BATCH_MEM_OP, CUDA_BATCH_MEM_OP_NODE_PARAMS, memOp)
GET(cuGraphMemAllocNodeGetParams, MEM_ALLOC, CUDA_MEM_ALLOC_NODE_PARAMS, alloc)
GET(cuGraphMemFreeNodeGetParams, MEM_FREE, CUdeviceptr, free.dptr)

CUresult guest_cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph) {
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  graphs_lock();
  const struct graph_node *node = graph_find_node(hNode);
  if (node && phGraph && node->type == CU_GRAPH_NODE_TYPE_GRAPH) {
    *phGraph = (CUgraph)(uintptr_t)node->children[0]->handle;
    result = CUDA_SUCCESS;
  }
  graphs_unlock();
  return result;
}

// Of any type.
CUresult guest_cuGraphNodeGetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams) {
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  graphs_lock();
  struct graph_node *node = graph_find_node(hNode);
  if (node && nodeParams) {
    memset(nodeParams, 0, sizeof *nodeParams);
    nodeParams->type = node->type;
    result = CUDA_SUCCESS;
    if (node->type == CU_GRAPH_NODE_TYPE_GRAPH) {
      // The graph is the node's, and not to be given to another.
      nodeParams->graph.graph = (CUgraph)(uintptr_t)node->children[0]->handle;
      nodeParams->graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_INVALID;
    } else if (node->task) {
      task_params(node->task, nodeParams);
      result = told_keep(node, nodeParams);
    }
  }
  graphs_unlock();
  return result;
}

CUresult guest_cuGraphNodeGetContainingGraph(CUgraphNode hNode, CUgraph *phGraph) {
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  graphs_lock();
  const struct graph_node *node = graph_find_node(hNode);
  if (node && phGraph) {
    *phGraph = (CUgraph)(uintptr_t)node->graph->handle;
    result = CUDA_SUCCESS;
  }
  graphs_unlock();
  return result;
}

#define SET(name, structure, filled)                                      \
  CUresult guest_##name(CUgraphNode hNode, const structure *nodeParams) { \
    if (!nodeParams) return CUDA_ERROR_INVALID_VALUE;                     \
    CUgraphNodeParams params = filled;                                    \
    return set(hNode, &params);                                           \
  }
SET(cuGraphKernelNodeSetParams, CUDA_KERNEL_NODE_PARAMS_v1, params_of_kernel_v1(nodeParams))
SET(cuGraphKernelNodeSetParams_v2, CUDA_KERNEL_NODE_PARAMS, params_of_kernel(nodeParams))
SET(cuGraphHostNodeSetParams, CUDA_HOST_NODE_PARAMS, params_of_host(nodeParams))
SET(cuGraphBatchMemOpNodeSetParams, CUDA_BATCH_MEM_OP_NODE_PARAMS, params_of_values(nodeParams))

CUresult guest_cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams) {
  CUgraphNodeParams now;
  CUresult result = get(hNode, CU_GRAPH_NODE_TYPE_MEMCPY, nodeParams, &now);
  if (result) return result;
  now = params_of_copy(nodeParams, now.memcpy.copyCtx);
  return set(hNode, &now);
}
CUresult guest_cuGraphMemsetNodeSetParams(CUgraphNode hNode,
                                          const CUDA_MEMSET_NODE_PARAMS *nodeParams) {
  CUgraphNodeParams now;
  CUresult result = get(hNode, CU_GRAPH_NODE_TYPE_MEMSET, nodeParams, &now);
  if (result) return result;
  now = params_of_fill(nodeParams, now.memset.ctx);
  return set(hNode, &now);
}
CUresult guest_cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event) {
  CUgraphNodeParams params = params_of_event(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
  return set(hNode, &params);
}
CUresult guest_cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event) {
  CUgraphNodeParams params = params_of_event(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
  return set(hNode, &params);
}
CUresult guest_cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams) {
  if (!nodeParams) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams known = params_without_preferences(nodeParams);
  return guest_cuGraphNodeSetParams_v2(hNode, &known);
}
CUresult guest_cuGraphNodeSetParams_v2(CUgraphNode hNode, CUgraphNodeParams *nodeParams) {
  if (!nodeParams || nodeParams->reserved2) return CUDA_ERROR_INVALID_VALUE;
  switch (nodeParams->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
    case CU_GRAPH_NODE_TYPE_MEMCPY:
    case CU_GRAPH_NODE_TYPE_MEMSET:
    case CU_GRAPH_NODE_TYPE_HOST:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return set(hNode, nodeParams);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// ---- entry points: attributes of kernels -------------------------------------------------------

static struct graph_node *find_kernel(CUgraphNode handle) {
  struct graph_node *node = graph_find_node(handle);
  return node && node->type == CU_GRAPH_NODE_TYPE_KERNEL ? node : NULL;
}

// With the lock.
static CUresult set_attributes(struct graph_node *node, const CUlaunchAttribute *attributes,
                               unsigned count) {
  struct task *task;
  CUresult result = task_with_attributes(node->task, attributes, count, &task);
  if (result) return result;
  task_unref(node->task);
  node->task = task;
  graph_touch(node->graph);
  return CUDA_SUCCESS;
}

CUresult guest_cuGraphKernelNodeGetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
                                             CUkernelNodeAttrValue *value_out) {
  graphs_lock();
  const struct graph_node *node = find_kernel(hNode);
  CUresult result =
      node && value_out ? task_attribute(node->task, attr, value_out) : CUDA_ERROR_INVALID_VALUE;
  graphs_unlock();
  return result;
}

CUresult guest_cuGraphKernelNodeSetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
                                             const CUkernelNodeAttrValue *value) {
  CUlaunchAttributeValue known;
  graphs_lock();
  struct graph_node *node = find_kernel(hNode);
  CUresult result =
      node && value ? task_attribute(node->task, attr, &known) : CUDA_ERROR_INVALID_VALUE;
  if (!result && !abi_launch_attribute_sound(attr, value)) result = CUDA_ERROR_INVALID_VALUE;
  if (!result) {
    const struct kernel_task *kernel = &node->task->kernel;
    CUlaunchAttribute attributes[kernel->attribute_count + 1];
    unsigned count = 0;
    for (unsigned i = 0; i < kernel->attribute_count; i++)
      if (kernel->attributes[i].id != attr) attributes[count++] = kernel->attributes[i];
    attributes[count++] = (CUlaunchAttribute){.id = attr, .value = *value};
    result = set_attributes(node, attributes, count);
  }
  graphs_unlock();
  return result;
}

CUresult guest_cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src) {
  graphs_lock();
  struct graph_node *to = find_kernel(dst);
  const struct graph_node *from = find_kernel(src);
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  if (to && from) {
    struct task *kept = task_ref(from->task);  // both may be one node
    result = set_attributes(to, kept->kernel.attributes, kept->kernel.attribute_count);
    task_unref(kept);
  }
  graphs_unlock();
  return result;
}
