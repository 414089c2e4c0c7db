// Each function here turns the parameters of a call for one type of node into the structure for all
// types, whose later versions only add to the earlier ones.
#ifndef OUTBOARD_GRAPH_NODE_PARAMS_H
#define OUTBOARD_GRAPH_NODE_PARAMS_H

#include <string.h>

#include "cuda_driver.h"

static inline CUgraphNodeParams params_of_type(CUgraphNodeType type, const void *from,
                                               size_t size) {
  CUgraphNodeParams params = {.type = type};
  memcpy(&params.kernel, from, size);  // all lie at the same place
  return params;
}

static inline CUgraphNodeParams params_of_kernel(const CUDA_KERNEL_NODE_PARAMS *from) {
  return params_of_type(CU_GRAPH_NODE_TYPE_KERNEL, from, sizeof *from);
}
static inline CUgraphNodeParams params_of_kernel_v1(const CUDA_KERNEL_NODE_PARAMS_v1 *from) {
  return params_of_type(CU_GRAPH_NODE_TYPE_KERNEL, from, sizeof *from);
}
static inline CUgraphNodeParams params_of_host(const CUDA_HOST_NODE_PARAMS *from) {
  return params_of_type(CU_GRAPH_NODE_TYPE_HOST, from, sizeof *from);
}
static inline CUgraphNodeParams params_of_values(const CUDA_BATCH_MEM_OP_NODE_PARAMS *from) {
  return params_of_type(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, from, sizeof *from);
}
static inline CUgraphNodeParams params_of_copy(const CUDA_MEMCPY3D *from, CUcontext context) {
  CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};
  params.memcpy.copyParams = *from;
  params.memcpy.copyCtx = context;
  return params;
}
static inline CUgraphNodeParams params_of_fill(const CUDA_MEMSET_NODE_PARAMS *from,
                                               CUcontext context) {
  CUgraphNodeParams params = params_of_type(CU_GRAPH_NODE_TYPE_MEMSET, from, sizeof *from);
  params.memset.ctx = context;
  return params;
}
static inline CUgraphNodeParams params_of_event(CUgraphNodeType type, CUevent event) {
  CUgraphNodeParams params = {.type = type};
  params.eventRecord.event = event;
  return params;
}
// Returns the parameters as calls of CUDA 13.3 and older mean them, which do not know the fields
// that are cleared here.
static inline CUgraphNodeParams params_without_preferences(const CUgraphNodeParams *from) {
  CUgraphNodeParams params = *from;
  if (params.type == CU_GRAPH_NODE_TYPE_HOST) {
    params.host.syncMode = 0;
    params.host.ctx = NULL;
  } else if (params.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) {
    params.eventRecord.ctx = NULL;
  }
  return params;
}
static inline CUgraphNodeParams params_of_child(CUgraph child) {
  CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
  params.graph.graph = child;
  params.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE;
  return params;
}

#endif
