// Graphs as text in the language of Graphviz.
#ifndef OUTBOARD_GRAPH_DOT_H
#define OUTBOARD_GRAPH_DOT_H

#include "graph/graph.h"

// Returns the text, which the caller frees; NULL when there is no memory. `flags` are
// CUgraphDebugDot_flags. The lock of graphs is held.
char *dot_of(struct graph *graph, unsigned flags);
// Writes the text to a file. False when that fails.
_Bool dot_write(const char *path, const char *text);

#endif
