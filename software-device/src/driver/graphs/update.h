// Changes of executable graphs: one node, or all of them after the pattern of another graph.
#pragma once

#include "graphs/exec.h"

namespace softdev::driver {

// CUDA_ERROR_INVALID_VALUE when what must not change would.
CUresult set_params(Exec &exec, CUgraphNode node, const CUgraphNodeParams &params);

// CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, with the reason in `info`, when the graph differs in more
// than parameters. The executable graph is as before then.
CUresult update(Exec &exec, CUgraph graph, CUgraphExecUpdateResultInfo *info);

}  // namespace softdev::driver
