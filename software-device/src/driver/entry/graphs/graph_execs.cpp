// Entry points: executable graphs.
#include "entry/graphs/graphs.h"
#include "graphs/exec.h"
#include "graphs/params.h"
#include "graphs/update.h"

using namespace softdev::driver;

namespace {

constexpr cuuint64_t kFlags = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                              CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |
                              CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

CUresult instantiate(CUgraphExec *out, CUgraph handle, cuuint64_t flags, CUgraphNode *culprit,
                     CUgraphInstantiateResult *why) {
  *culprit = nullptr;
  *why = CUDA_GRAPH_INSTANTIATE_ERROR;
  std::shared_ptr<Context> context;
  if (CUresult bad = enter_anywhere(&context)) return bad;
  if (!out || (flags & ~kFlags)) return CUDA_ERROR_INVALID_VALUE;
  if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) {
    *why = CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED;
    return refuse(CUDA_ERROR_NOT_SUPPORTED, "kernels cannot launch graphs");
  }
  std::shared_ptr<Exec> exec;
  return locked([&]() -> CUresult {
    std::shared_ptr<Graph> graph;
    if (CUresult bad = find_graph(handle, &graph)) return bad;
    uint64_t node = 0;
    CUresult result = Exec::make(graph, flags, &exec, &node, why);
    *culprit = reinterpret_cast<CUgraphNode>(node);
    if (result) return result;
    driver()->handles.add(exec);
    *out = as_handle<CUgraphExec>(*exec);
    return CUDA_SUCCESS;
  });
}

CUresult instantiate_with(CUgraphExec *out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params,
                          Default null) {
  if (!params) return CUDA_ERROR_INVALID_VALUE;
  cuuint64_t flags = params->flags;
  bool upload = flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
  if (upload) {
    StreamRef stream;
    if (CUresult bad = find_stream(params->hUploadStream, null, &stream)) return bad;
    flags &= ~static_cast<cuuint64_t>(CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD);
  }
  return instantiate(out, graph, flags, &params->hErrNode_out, &params->result_out);
}

CUresult instantiate_old(CUgraphExec *out, CUgraph graph, CUgraphNode *culprit, char *text,
                         size_t size) {
  CUgraphNode node;
  CUgraphInstantiateResult why;
  CUresult result = instantiate(out, graph, 0, &node, &why);
  if (culprit) *culprit = node;
  if (text && size) text[0] = 0;
  return result;
}

CUresult find(CUgraphExec handle, std::shared_ptr<Exec> *exec) {
  if (CUresult bad = enter()) return bad;
  return find_exec(handle, exec);
}

CUresult launch(CUgraphExec handle, CUstream stream_handle, Default null) {
  StreamRef stream;
  if (CUresult bad = find_stream(stream_handle, null, &stream)) return bad;
  std::shared_ptr<Exec> exec;
  if (CUresult bad = find_exec(handle, &exec)) return bad;
  return guarded([&]() -> CUresult {
    if (CUresult bad = admit(stream, Use::kQueue)) return bad;
    return stream->capturing() ? exec->capture(stream) : exec->launch(stream);
  });
}

CUresult upload(CUgraphExec handle, CUstream stream_handle, Default null) {
  StreamRef stream;
  if (CUresult bad = find_stream(stream_handle, null, &stream)) return bad;
  std::shared_ptr<Exec> exec;
  return find_exec(handle, &exec);  // it is where it will run
}

CUresult set(CUgraphExec handle, CUgraphNode node_handle, const CUgraphNodeParams &params) {
  std::shared_ptr<Exec> exec;
  if (CUresult bad = find(handle, &exec)) return bad;
  return guarded([&] { return set_params(*exec, node_handle, params); });
}

CUresult enable(CUgraphExec handle, CUgraphNode node_handle, unsigned *enabled, bool change) {
  std::shared_ptr<Exec> exec;
  if (CUresult bad = find(handle, &exec)) return bad;
  return guarded([&]() -> CUresult {
    std::lock_guard guard(exec->mutex);
    GraphsLock lock;  // the body of a condition may be queued just now
    Node *node = exec->find(node_handle);
    if (!node) return refuse(CUDA_ERROR_INVALID_VALUE, "the node is not of this graph");
    if (node->type != CU_GRAPH_NODE_TYPE_KERNEL && node->type != CU_GRAPH_NODE_TYPE_MEMCPY &&
        node->type != CU_GRAPH_NODE_TYPE_MEMSET)
      return refuse(CUDA_ERROR_INVALID_VALUE, "only kernels, copies and sets can be disabled");
    if (change)
      node->enabled = *enabled != 0;
    else
      *enabled = node->enabled;
    return CUDA_SUCCESS;
  });
}

}  // namespace

extern "C" {

CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *culprit, char *text,
                            size_t size) {
  return instantiate_old(exec, graph, culprit, text, size);
}
CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *culprit, char *text,
                               size_t size) {
  return instantiate_old(exec, graph, culprit, text, size);
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
  CUgraphNode culprit;
  CUgraphInstantiateResult why;
  return instantiate(exec, graph, flags, &culprit, &why);
}
CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS *params) {
  return instantiate_with(exec, graph, params, Default::kLegacy);
}
CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *exec, CUgraph graph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS *params) {
  return instantiate_with(exec, graph, params, Default::kPerThread);
}

CUresult cuGraphExecDestroy(CUgraphExec handle) {
  if (CUresult bad = enter()) return bad;
  std::shared_ptr<Exec> exec = driver()->handles.remove<Exec>(handle);
  if (exec) return CUDA_SUCCESS;
  return refuse(CUDA_ERROR_INVALID_VALUE, "%p is no executable graph", static_cast<void *>(handle));
}

CUresult cuGraphExecGetFlags(CUgraphExec handle, cuuint64_t *flags) {
  std::shared_ptr<Exec> exec;
  if (CUresult bad = find(handle, &exec)) return bad;
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  *flags = exec->flags;
  return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  return launch(exec, stream, Default::kLegacy);
}
CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream) {
  return launch(exec, stream, Default::kPerThread);
}
CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
  return upload(exec, stream, Default::kLegacy);
}
CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream) {
  return upload(exec, stream, Default::kPerThread);
}

CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int enabled) {
  return enable(exec, node, &enabled, true);
}
CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int *enabled) {
  return enabled ? enable(exec, node, enabled, false) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphExecUpdate_v2(CUgraphExec handle, CUgraph graph,
                              CUgraphExecUpdateResultInfo *info) {
  std::shared_ptr<Exec> exec;
  if (CUresult bad = find(handle, &exec)) return bad;
  if (!info) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&] { return update(*exec, graph, info); });
}
CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *culprit,
                           CUgraphExecUpdateResult *why) {
  if (!culprit || !why) return CUDA_ERROR_INVALID_VALUE;
  CUgraphExecUpdateResultInfo info{};
  CUresult result = cuGraphExecUpdate_v2(exec, graph, &info);
  *culprit = info.errorNode;
  *why = info.result;
  return result;
}

#define NODE CUgraphExec exec, CUgraphNode node

CUresult cuGraphExecKernelNodeSetParams(NODE, const CUDA_KERNEL_NODE_PARAMS_v1 *params) {
  return params ? set(exec, node, params_for(*params)) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGraphExecKernelNodeSetParams_v2(NODE, const CUDA_KERNEL_NODE_PARAMS *params) {
  return params ? set(exec, node, params_for(*params)) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGraphExecMemcpyNodeSetParams(NODE, const CUDA_MEMCPY3D *params, CUcontext context) {
  return params ? set(exec, node, params_for(*params, context)) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGraphExecMemsetNodeSetParams(NODE, const CUDA_MEMSET_NODE_PARAMS *params,
                                        CUcontext context) {
  return params ? set(exec, node, params_for(*params, context)) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGraphExecHostNodeSetParams(NODE, const CUDA_HOST_NODE_PARAMS *params) {
  return params ? set(exec, node, params_for(*params)) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGraphExecBatchMemOpNodeSetParams(NODE, const CUDA_BATCH_MEM_OP_NODE_PARAMS *params) {
  return params ? set(exec, node, params_for(*params)) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGraphExecEventRecordNodeSetEvent(NODE, CUevent event) {
  return set(exec, node, params_for_event(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event));
}
CUresult cuGraphExecEventWaitNodeSetEvent(NODE, CUevent event) {
  return set(exec, node, params_for_event(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event));
}
CUresult cuGraphExecChildGraphNodeSetParams(NODE, CUgraph child) {
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_GRAPH;
  params.graph.graph = child;
  return set(exec, node, params);
}
CUresult cuGraphExecNodeSetParams(NODE, CUgraphNodeParams *params) {
  if (!params || params->reserved2) return CUDA_ERROR_INVALID_VALUE;
  return set(exec, node, *params);
}

}  // extern "C"
