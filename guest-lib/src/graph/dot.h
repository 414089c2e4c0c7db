// Graphs as text in the language of Graphviz. With the lock of graphs.
#ifndef OUTBOARD_GRAPH_DOT_H
#define OUTBOARD_GRAPH_DOT_H

#include "graph/graph.h"

// To be freed; NULL when memory is out. `flags`: CUgraphDebugDot_flags.
char *dot_of(struct graph *graph, unsigned flags);
_Bool dot_write(const char *path, const char *text);

#endif
