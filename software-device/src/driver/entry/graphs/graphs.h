// What the entry points of graphs share.
#pragma once

#include "entry/entry.h"
#include "graphs/graph.h"

namespace softdev::driver {

// Runs with the lock of graphs held.
template <class Function>
CUresult locked(Function function) {
  if (CUresult bad = enter()) return bad;
  return guarded([&] {
    GraphsLock lock;
    return function();
  });
}

// What the structures of the calls for one type of node become in the one for all types, whose
// later versions only add to the earlier ones.
inline CUgraphNodeParams params_for(const CUDA_KERNEL_NODE_PARAMS &from) {
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_KERNEL;
  static_assert(sizeof params.kernel == sizeof from);
  memcpy(&params.kernel, &from, sizeof from);
  return params;
}
inline CUgraphNodeParams params_for(const CUDA_KERNEL_NODE_PARAMS_v1 &from) {
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_KERNEL;
  memcpy(&params.kernel, &from, sizeof from);
  return params;
}
inline CUgraphNodeParams params_for(const CUDA_MEMCPY3D &from, CUcontext context) {
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  params.memcpy.copyParams = from;
  params.memcpy.copyCtx = context;
  return params;
}
inline CUgraphNodeParams params_for(const CUDA_MEMSET_NODE_PARAMS &from, CUcontext context) {
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_MEMSET;
  memcpy(&params.memset, &from, sizeof from);
  params.memset.ctx = context;
  return params;
}
inline CUgraphNodeParams params_for(const CUDA_HOST_NODE_PARAMS &from) {
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_HOST;
  params.host.fn = from.fn;
  params.host.userData = from.userData;
  return params;
}
inline CUgraphNodeParams params_for(const CUDA_BATCH_MEM_OP_NODE_PARAMS &from) {
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
  memcpy(&params.memOp, &from, sizeof from);
  return params;
}
// As calls of CUDA 13.3 and older mean them, for which the rest of these two was not there.
inline CUgraphNodeParams without_preferences(CUgraphNodeParams params) {
  if (params.type == CU_GRAPH_NODE_TYPE_HOST) {
    params.host.syncMode = 0;
    params.host.ctx = nullptr;
  } else if (params.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) {
    params.eventRecord.ctx = nullptr;
  }
  return params;
}
inline CUgraphNodeParams params_for_event(CUgraphNodeType type, CUevent event) {
  CUgraphNodeParams params{};
  params.type = type;
  params.eventRecord.event = event;
  return params;
}

}  // namespace softdev::driver
