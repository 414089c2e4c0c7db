// What a program has been told of a node's parameters that lies in arrays. Its pointers stay valid
// until the node ends, whatever parameters the node gets meanwhile. Everything here is called with
// the lock of graphs held.
#ifndef OUTBOARD_GRAPH_TOLD_H
#define OUTBOARD_GRAPH_TOLD_H

#include "graph/graph.h"

// Has `params`, which are those of the node's task, name copies of its arrays.
// CUDA_ERROR_OUT_OF_MEMORY.
CUresult told_keep(struct graph_node *node, CUgraphNodeParams *params);
// Notes that the node has got another task.
void told_outdate(struct graph_node *node);
// Frees what was kept for a node that ends.
void told_free(struct graph_node *node);

#endif
