// Values that conditional nodes go by. Kernels write them through a handle that the driver made, so
// that the graph a handle is made for is known to the server from then on. Everything here is
// called with the lock of graphs held.
#ifndef OUTBOARD_GRAPH_CONDITION_H
#define OUTBOARD_GRAPH_CONDITION_H

#include "graph/graph.h"
#include "session/session.h"

struct condition {
  unsigned references;
  CUgraphConditionalHandle handle;  // the driver's
  uint64_t graph;                   // that it was made for
  struct session *session;          // whose server knows the handle, and the graph by it
  _Bool used;                       // by a node
};

// Take a reference, and let go of one.
struct condition *condition_ref(struct condition *condition);
void condition_unref(struct condition *condition);

// Adds a node with empty bodies, and has `params` name them. CUDA_ERROR_INVALID_VALUE for
// parameters that make no sense, and for a handle that is used or was made for another graph;
// otherwise the errors of graph_check_room and graph_add.
CUresult graph_add_condition(struct graph *graph, uint64_t context,
                             CUDA_CONDITIONAL_NODE_PARAMS *params, const struct graph_edges *before,
                             struct graph_node **node);

#endif
