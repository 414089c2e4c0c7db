// Entry points: nodes of graphs, and their parameters.
#include "entry/graphs/graphs.h"
#include "graphs/condition.h"
#include "graphs/memory.h"
#include "graphs/params.h"

using namespace softdev::driver;

namespace {

CUresult add_child(CUgraphNode *out, CUgraph handle, const CUgraphNode *before,
                   const CUgraphEdgeData *data, size_t count,
                   const CUDA_CHILD_GRAPH_NODE_PARAMS &params) {
  return locked([&]() -> CUresult {
    std::shared_ptr<Graph> graph, child;
    if (CUresult bad = find_graph(handle, &graph)) return bad;
    if (CUresult bad = find_graph(params.graph, &child)) return bad;
    bool move = params.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
    if (!move && params.ownership != CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE)
      return CUDA_ERROR_INVALID_VALUE;
    if (move && (child->parent || child == graph))
      return refuse(CUDA_ERROR_INVALID_VALUE, "the graph cannot be moved: it is embedded");
    if (child->holds_memory_nodes())
      return refuse(CUDA_ERROR_NOT_SUPPORTED, "a graph that allocates cannot be embedded");
    if (CUresult bad = graph->check_room(*child)) return bad;
    std::vector<Edge> edges;
    if (CUresult bad = find_edges(*graph, before, data, count, &edges)) return bad;
    std::shared_ptr<Graph> embedded = move ? child : child->clone(true);
    Node *node;
    if (CUresult bad = graph->add(CU_GRAPH_NODE_TYPE_GRAPH, nullptr, edges, &node)) {
      if (!move) embedded->forget();
      return bad;
    }
    if (!move) driver()->handles.add(embedded);
    embedded->parent = node;
    node->children.push_back(std::move(embedded));
    *out = as_handle<CUgraphNode>(*node);
    return CUDA_SUCCESS;
  });
}

// A node behind others: `make(graph, edges, &node)` adds it.
template <class Make>
CUresult add_node(CUgraphNode *out, CUgraph handle, const CUgraphNode *before,
                  const CUgraphEdgeData *data, size_t count, Make make) {
  return locked([&]() -> CUresult {
    std::shared_ptr<Graph> graph;
    std::vector<Edge> edges;
    if (CUresult bad = find_graph(handle, &graph)) return bad;
    if (CUresult bad = find_edges(*graph, before, data, count, &edges)) return bad;
    Node *node;
    if (CUresult bad = make(graph.get(), edges, &node)) return bad;
    *out = as_handle<CUgraphNode>(*node);
    return CUDA_SUCCESS;
  });
}

// Allocations and what frees them. `*address` is what is to be freed, or what was allocated.
CUresult add_memory(CUgraphNode *out, CUgraph handle, const CUgraphNode *before,
                    const CUgraphEdgeData *data, size_t count,
                    const CUDA_MEM_ALLOC_NODE_PARAMS *allocation, CUdeviceptr *address) {
  if (CUresult bad = enter()) return bad;
  if (allocation)
    if (CUresult bad = check_allocation(*allocation)) return bad;
  std::shared_ptr<Context> context;
  if (CUresult bad = find_own_context(allocation ? allocation->poolProps.location.id : 0, &context))
    return bad;
  auto make = [&](Graph *graph, const std::vector<Edge> &edges, Node **node) -> CUresult {
    if (!allocation) return add_free(graph, context, *address, edges, node);
    if (CUresult bad = add_allocation(graph, context, *allocation, edges, node)) return bad;
    *address = static_cast<const AllocateTask &>(*(*node)->task).allocation->address;
    return CUDA_SUCCESS;
  };
  return add_node(out, handle, before, data, count, make);
}

CUresult add(CUgraphNode *out, CUgraph handle, const CUgraphNode *before,
             const CUgraphEdgeData *data, size_t count, const CUgraphNodeParams &params) {
  if (CUresult bad = enter()) return bad;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (params.type == CU_GRAPH_NODE_TYPE_GRAPH)
    return add_child(out, handle, before, data, count, params.graph);
  return guarded([&]() -> CUresult {
    TaskRef task;
    if (CUresult bad = task_of(params, {}, &task)) return bad;
    return add_node(out, handle, before, data, count,
                    [&](Graph *graph, const std::vector<Edge> &edges, Node **node) {
                      return graph->add(params.type, std::move(task), edges, node);
                    });
  });
}

CUresult add_conditional(CUgraphNode *out, CUgraph handle, const CUgraphNode *before,
                         const CUgraphEdgeData *data, size_t count,
                         CUDA_CONDITIONAL_NODE_PARAMS *params) {
  std::shared_ptr<Context> context;
  if (CUresult bad = find_context(params->ctx, &context)) return bad;
  auto make = [&](Graph *graph, const std::vector<Edge> &edges, Node **node) -> CUresult {
    if (CUresult bad = add_condition(graph, context, *params, edges, node)) return bad;
    params->phGraph_out = static_cast<ConditionTask &>(*(*node)->task).bodies.data();
    return CUDA_SUCCESS;
  };
  return add_node(out, handle, before, data, count, make);
}

// As it comes from the program.
CUresult add_generic(CUgraphNode *out, CUgraph graph, const CUgraphNode *before,
                     const CUgraphEdgeData *data, size_t count, CUgraphNodeParams *params) {
  if (!params || params->reserved0[0] || params->reserved0[1] || params->reserved0[2] ||
      params->reserved2)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult bad = enter()) return bad;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
    CUDA_MEM_ALLOC_NODE_PARAMS allocation;
    static_assert(sizeof allocation == sizeof params->alloc);
    memcpy(&allocation, &params->alloc, sizeof allocation);
    return add_memory(out, graph, before, data, count, &allocation, &params->alloc.dptr);
  }
  if (params->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
    return add_memory(out, graph, before, data, count, nullptr, &params->free.dptr);
  if (params->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
    return add_conditional(out, graph, before, data, count, &params->conditional);
  return add(out, graph, before, data, count, *params);
}

// The node's task, when it is of the type.
CUresult task_in(CUgraphNode handle, CUgraphNodeType type, std::shared_ptr<Node> *node,
                 TaskRef *task) {
  return locked([&]() -> CUresult {
    if (CUresult bad = find_node(handle, node)) return bad;
    if ((*node)->type != type)
      return refuse(CUDA_ERROR_INVALID_VALUE, "the node is of type %d", (*node)->type);
    *task = (*node)->task;
    return CUDA_SUCCESS;
  });
}

CUresult get(CUgraphNode handle, CUgraphNodeType type, const void *out, CUgraphNodeParams *params) {
  std::shared_ptr<Node> node;
  TaskRef task;
  if (CUresult bad = task_in(handle, type, &node, &task)) return bad;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&] {
    params_of(task, params);
    GraphsLock lock;
    node->told.keep(task, node->task == task, params);
    return CUDA_SUCCESS;
  });
}

// The part of a node's parameters that the call for its type tells.
template <class Out, class Tell>
CUresult read(CUgraphNode node, CUgraphNodeType type, Out *out, Tell tell) {
  CUgraphNodeParams params;
  if (CUresult bad = get(node, type, out, &params)) return bad;
  tell(params);
  return CUDA_SUCCESS;
}

CUresult set(CUgraphNode handle, const CUgraphNodeParams &params) {
  std::shared_ptr<Node> node;
  TaskRef before, task;
  if (CUresult bad = task_in(handle, params.type, &node, &before)) return bad;
  return guarded([&]() -> CUresult {
    std::vector<CUlaunchAttribute> attributes;
    if (params.type == CU_GRAPH_NODE_TYPE_KERNEL)
      attributes = static_cast<const KernelTask &>(*before).attributes;
    if (CUresult bad = task_of(params, attributes, &task)) return bad;
    GraphsLock lock;
    node->task.swap(task);
    node->told.outdate();
    return CUDA_SUCCESS;
  });
}

// A kernel node with other attributes. The parameters are those that it has.
CUresult set_attributes(const std::shared_ptr<Node> &node, const TaskRef &before,
                        const std::vector<CUlaunchAttribute> &attributes) {
  CUgraphNodeParams params;
  params_of(before, &params);
  TaskRef task;
  if (CUresult bad = task_of(params, attributes, &task)) return bad;
  GraphsLock lock;
  node->task.swap(task);
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

#define BEFORE CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count

CUresult cuGraphAddKernelNode(BEFORE, const CUDA_KERNEL_NODE_PARAMS_v1 *params) {
  if (!params) return CUDA_ERROR_INVALID_VALUE;
  return add(node, graph, before, nullptr, count, params_for(*params));
}
CUresult cuGraphAddKernelNode_v2(BEFORE, const CUDA_KERNEL_NODE_PARAMS *params) {
  if (!params) return CUDA_ERROR_INVALID_VALUE;
  return add(node, graph, before, nullptr, count, params_for(*params));
}
CUresult cuGraphAddMemcpyNode(BEFORE, const CUDA_MEMCPY3D *params, CUcontext context) {
  if (!params) return CUDA_ERROR_INVALID_VALUE;
  return add(node, graph, before, nullptr, count, params_for(*params, context));
}
CUresult cuGraphAddMemsetNode(BEFORE, const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context) {
  if (!params) return CUDA_ERROR_INVALID_VALUE;
  return add(node, graph, before, nullptr, count, params_for(*params, context));
}
CUresult cuGraphAddHostNode(BEFORE, const CUDA_HOST_NODE_PARAMS *params) {
  if (!params) return CUDA_ERROR_INVALID_VALUE;
  return add(node, graph, before, nullptr, count, params_for(*params));
}
CUresult cuGraphAddChildGraphNode(BEFORE, CUgraph child) {
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_GRAPH;
  params.graph = {child, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE};
  return add(node, graph, before, nullptr, count, params);
}
CUresult cuGraphAddEmptyNode(BEFORE) {
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_EMPTY;
  return add(node, graph, before, nullptr, count, params);
}
CUresult cuGraphAddEventRecordNode(BEFORE, CUevent event) {
  return add(node, graph, before, nullptr, count,
             params_for_event(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event));
}
CUresult cuGraphAddEventWaitNode(BEFORE, CUevent event) {
  return add(node, graph, before, nullptr, count,
             params_for_event(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event));
}
CUresult cuGraphAddBatchMemOpNode(BEFORE, const CUDA_BATCH_MEM_OP_NODE_PARAMS *params) {
  if (!params) return CUDA_ERROR_INVALID_VALUE;
  return add(node, graph, before, nullptr, count, params_for(*params));
}
CUresult cuGraphAddMemAllocNode(BEFORE, CUDA_MEM_ALLOC_NODE_PARAMS *params) {
  if (!node || !params) return CUDA_ERROR_INVALID_VALUE;
  return add_memory(node, graph, before, nullptr, count, params, &params->dptr);
}
CUresult cuGraphAddMemFreeNode(BEFORE, CUdeviceptr address) {
  if (!node) return CUDA_ERROR_INVALID_VALUE;
  return add_memory(node, graph, before, nullptr, count, nullptr, &address);
}
CUresult cuGraphAddNode(BEFORE, CUgraphNodeParams *params) {
  return cuGraphAddNode_v2(node, graph, before, nullptr, count, params);
}
CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *before,
                           const CUgraphEdgeData *data, size_t count, CUgraphNodeParams *params) {
  if (params && (params->type == CU_GRAPH_NODE_TYPE_HOST ||
                 params->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)) {
    CUgraphNodeParams known = without_preferences(*params);
    return add_generic(node, graph, before, data, count, &known);
  }
  return add_generic(node, graph, before, data, count, params);
}
CUresult cuGraphAddNode_v3(CUgraphNode *node, CUgraph graph, const CUgraphNode *before,
                           const CUgraphEdgeData *data, size_t count, CUgraphNodeParams *params) {
  return add_generic(node, graph, before, data, count, params);
}

CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *out, CUgraph handle,
                                        CUcontext context_handle, unsigned int value,
                                        unsigned int flags) {
  std::shared_ptr<Context> context;
  if (CUresult bad = find_context(context_handle, &context)) return bad;
  // The one flag has each launch begin with the value.
  if (!out || flags > 1) return CUDA_ERROR_INVALID_VALUE;
  return locked([&]() -> CUresult {
    std::shared_ptr<Graph> graph;
    if (CUresult bad = find_graph(handle, &graph)) return bad;
    auto condition = Condition::make(context, value, flags != 0);
    if (!condition) return CUDA_ERROR_OUT_OF_MEMORY;
    graph->conditions[condition->handle()] = condition;
    *out = condition->handle();
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *out) {
  return read(node, CU_GRAPH_NODE_TYPE_KERNEL, out,
              [out](const CUgraphNodeParams &params) { memcpy(out, &params.kernel, sizeof *out); });
}
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *out) {
  return read(node, CU_GRAPH_NODE_TYPE_KERNEL, out,
              [out](const CUgraphNodeParams &params) { memcpy(out, &params.kernel, sizeof *out); });
}
CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D *out) {
  return read(node, CU_GRAPH_NODE_TYPE_MEMCPY, out,
              [out](const CUgraphNodeParams &params) { *out = params.memcpy.copyParams; });
}
CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *out) {
  return read(node, CU_GRAPH_NODE_TYPE_MEMSET, out,
              [out](const CUgraphNodeParams &params) { memcpy(out, &params.memset, sizeof *out); });
}
CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS *out) {
  return read(node, CU_GRAPH_NODE_TYPE_HOST, out, [out](const CUgraphNodeParams &params) {
    *out = {params.host.fn, params.host.userData};
  });
}
CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent *event) {
  return read(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event,
              [event](const CUgraphNodeParams &params) { *event = params.eventRecord.event; });
}
CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent *event) {
  return read(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event,
              [event](const CUgraphNodeParams &params) { *event = params.eventWait.event; });
}
CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode node, CUDA_BATCH_MEM_OP_NODE_PARAMS *out) {
  return read(node, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, out,
              [out](const CUgraphNodeParams &params) { memcpy(out, &params.memOp, sizeof *out); });
}
CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *out) {
  return read(node, CU_GRAPH_NODE_TYPE_MEM_ALLOC, out,
              [out](const CUgraphNodeParams &params) { memcpy(out, &params.alloc, sizeof *out); });
}
CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *address) {
  return read(node, CU_GRAPH_NODE_TYPE_MEM_FREE, address,
              [address](const CUgraphNodeParams &params) { *address = params.free.dptr; });
}
// Of any type.
CUresult cuGraphNodeGetParams(CUgraphNode handle, CUgraphNodeParams *out) {
  std::shared_ptr<Node> node;
  TaskRef task;
  CUgraph child = nullptr;
  CUresult found = locked([&]() -> CUresult {
    if (CUresult bad = find_node(handle, &node)) return bad;
    task = node->task;
    if (node->type == CU_GRAPH_NODE_TYPE_GRAPH) child = as_handle<CUgraph>(*node->children[0]);
    return CUDA_SUCCESS;
  });
  if (found) return found;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (task) return get(handle, node->type, out, out);
  *out = CUgraphNodeParams{};
  out->type = node->type;
  // The graph is the node's, and not to be given to another.
  if (child) out->graph = {child, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_INVALID};
  return CUDA_SUCCESS;
}
CUresult cuGraphNodeGetContainingGraph(CUgraphNode handle, CUgraph *graph) {
  return locked([&]() -> CUresult {
    std::shared_ptr<Node> node;
    if (CUresult bad = find_node(handle, &node)) return bad;
    if (!graph) return CUDA_ERROR_INVALID_VALUE;
    *graph = as_handle<CUgraph>(*node->graph);
    return CUDA_SUCCESS;
  });
}
CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode handle, CUgraph *graph) {
  return locked([&]() -> CUresult {
    std::shared_ptr<Node> node;
    if (CUresult bad = find_node(handle, &node)) return bad;
    if (!graph || node->type != CU_GRAPH_NODE_TYPE_GRAPH) return CUDA_ERROR_INVALID_VALUE;
    *graph = as_handle<CUgraph>(*node->children[0]);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params) {
  return params ? set(node, params_for(*params)) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params) {
  return params ? set(node, params_for(*params)) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D *params) {
  if (!params) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams now;
  if (CUresult bad = get(node, CU_GRAPH_NODE_TYPE_MEMCPY, params, &now)) return bad;
  return set(node, params_for(*params, now.memcpy.copyCtx));
}
CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params) {
  if (!params) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams now;
  if (CUresult bad = get(node, CU_GRAPH_NODE_TYPE_MEMSET, params, &now)) return bad;
  return set(node, params_for(*params, now.memset.ctx));
}
CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS *params) {
  return params ? set(node, params_for(*params)) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event) {
  return set(node, params_for_event(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event));
}
CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event) {
  return set(node, params_for_event(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event));
}
CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode node,
                                        const CUDA_BATCH_MEM_OP_NODE_PARAMS *params) {
  return params ? set(node, params_for(*params)) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *params) {
  if (!params) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams known = without_preferences(*params);
  return cuGraphNodeSetParams_v2(node, &known);
}
CUresult cuGraphNodeSetParams_v2(CUgraphNode node, CUgraphNodeParams *params) {
  if (!params || params->reserved2) return CUDA_ERROR_INVALID_VALUE;
  switch (params->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
    case CU_GRAPH_NODE_TYPE_MEMCPY:
    case CU_GRAPH_NODE_TYPE_MEMSET:
    case CU_GRAPH_NODE_TYPE_HOST:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return set(node, *params);
    default:
      return refuse(CUDA_ERROR_INVALID_VALUE, "nodes of type %d have no parameters to be set",
                    params->type);
  }
}

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode handle, CUkernelNodeAttrID id,
                                       CUkernelNodeAttrValue *value) {
  std::shared_ptr<Node> node;
  TaskRef task;
  if (CUresult bad = task_in(handle, CU_GRAPH_NODE_TYPE_KERNEL, &node, &task)) return bad;
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  return attribute_of(static_cast<const KernelTask &>(*task), id, value);
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode handle, CUkernelNodeAttrID id,
                                       const CUkernelNodeAttrValue *value) {
  std::shared_ptr<Node> node;
  TaskRef task;
  if (CUresult bad = task_in(handle, CU_GRAPH_NODE_TYPE_KERNEL, &node, &task)) return bad;
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&]() -> CUresult {
    const auto &kernel = static_cast<const KernelTask &>(*task);
    CUlaunchAttributeValue known;
    if (CUresult bad = attribute_of(kernel, id, &known)) return bad;
    std::vector<CUlaunchAttribute> attributes = kernel.attributes;
    std::erase_if(attributes, [id](const CUlaunchAttribute &old) { return old.id == id; });
    attributes.push_back({id, {}, *value});
    return set_attributes(node, task, attributes);
  });
}

CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from) {
  std::shared_ptr<Node> to_node, from_node;
  TaskRef to_task, from_task;
  if (CUresult bad = task_in(to, CU_GRAPH_NODE_TYPE_KERNEL, &to_node, &to_task)) return bad;
  if (CUresult bad = task_in(from, CU_GRAPH_NODE_TYPE_KERNEL, &from_node, &from_task)) return bad;
  return guarded([&] {
    return set_attributes(to_node, to_task, static_cast<const KernelTask &>(*from_task).attributes);
  });
}

}  // extern "C"
