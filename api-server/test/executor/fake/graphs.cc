// Graphs. A launch does the fills and copies among the nodes, in the order in which they were
// added; kernels and conditions do nothing.
#include "device.h"

using namespace fake;

struct CUgraphNode_st {
  CUgraph graph;
  CUgraphNodeParams params;
  std::vector<CUgraph> children;
  bool enabled = true;
};
struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
};
struct CUgraphExec_st {
  CUgraph graph;
};

namespace {

std::set<CUgraph> &graphs = *new std::set<CUgraph>;
std::set<CUgraphExec> &execs = *new std::set<CUgraphExec>;

void destroy(CUgraph graph) {
  for (const auto &node : graph->nodes) {
    for (CUgraph child : node->children) destroy(child);
  }
  graphs.erase(graph);
  delete graph;
}

CUgraph create() {
  auto *graph = new CUgraph_st;
  graphs.insert(graph);
  return graph;
}

using Work = std::vector<CUgraphNodeParams>;

void collect(CUgraph graph, Work *work) {
  for (const auto &node : graph->nodes) {
    if (node->enabled) work->push_back(node->params);
    if (node->params.type != CU_GRAPH_NODE_TYPE_GRAPH) continue;
    for (CUgraph child : node->children) collect(child, work);
  }
}

void run(const Work &work) {
  for (const CUgraphNodeParams &params : work) {
    if (params.type == CU_GRAPH_NODE_TYPE_MEMSET) {
      const CUDA_MEMSET_NODE_PARAMS_v2 &fill = params.memset;
      uint64_t bytes;
      if (__builtin_mul_overflow(fill.width, fill.elementSize, &bytes)) bytes = UINT64_MAX;
      for (size_t y = 0; y < fill.height && bytes; y++) {
        const uint64_t row = fill.dst + y * fill.pitch;
        if (!touch(row, bytes)) return;
        for (size_t x = 0; x < fill.width; x++) {
          memcpy(at(row + x * fill.elementSize), &fill.value, fill.elementSize);
        }
      }
    } else if (params.type == CU_GRAPH_NODE_TYPE_MEMCPY) {
      copy_volume(params.memcpy.copyParams);
    }
  }
}

}  // namespace

namespace fake {
unsigned live_graphs() { return static_cast<unsigned>(graphs.size() + execs.size()); }
}  // namespace fake

EXPORT CUresult cuGraphCreate(CUgraph *graph, unsigned) {
  ENTER;
  *graph = create();
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphDestroy(CUgraph graph) {
  Lock lock(mutex);
  enter(__func__);
  if (!graphs.count(graph)) return CUDA_ERROR_INVALID_VALUE;
  destroy(graph);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphAddNode_v2(CUgraphNode *added, CUgraph graph, const CUgraphNode *before,
                                  const CUgraphEdgeData *, size_t count,
                                  CUgraphNodeParams *params) {
  ENTER;
  if (!graphs.count(graph)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; i++) {
    if (before[i]->graph != graph) return CUDA_ERROR_INVALID_VALUE;
  }
  auto node = std::unique_ptr<CUgraphNode_st>(new CUgraphNode_st{graph, *params, {}});
  if (params->type == CU_GRAPH_NODE_TYPE_GRAPH) node->children.push_back(create());
  if (params->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
    for (unsigned i = 0; i < params->conditional.size; i++) node->children.push_back(create());
    params->conditional.phGraph_out = node->children.data();
  }
  *added = node.get();
  graph->nodes.push_back(std::move(node));
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *graph) {
  ENTER;
  *graph = node->children[0];
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphKernelNodeSetAttribute(CUgraphNode, CUlaunchAttributeID,
                                              const CUlaunchAttributeValue *) {
  ENTER;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *handle, CUgraph, CUcontext,
                                               unsigned, unsigned) {
  ENTER;
  static CUgraphConditionalHandle last = 0x1000;
  *handle = ++last;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long) {
  ENTER;
  if (!graphs.count(graph)) return CUDA_ERROR_INVALID_VALUE;
  *exec = new CUgraphExec_st{graph};
  execs.insert(*exec);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec) {
  Lock lock(mutex);
  enter(__func__);
  if (!execs.erase(exec)) return CUDA_ERROR_INVALID_VALUE;
  delete exec;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphExecNodeSetParams(CUgraphExec, CUgraphNode node, CUgraphNodeParams *params) {
  ENTER;
  node->params = *params;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphNodeSetEnabled(CUgraphExec, CUgraphNode node, unsigned enabled) {
  ENTER;
  node->enabled = enabled != 0;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  ENTER;
  if (!execs.count(exec)) return CUDA_ERROR_INVALID_VALUE;
  Work work;
  collect(exec->graph, &work);
  return queue(stream, [work = std::move(work)] { run(work); });
}
