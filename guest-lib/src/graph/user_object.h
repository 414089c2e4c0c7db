// Objects of the program that graphs keep alive: counted, and destroyed by a function of the
// program. With the lock of graphs.
#ifndef OUTBOARD_USER_OBJECT_H
#define OUTBOARD_USER_OBJECT_H

#include "graph/graph.h"

// The references that a graph holds go with it, and are doubled with its copies.
void graph_release_users(struct graph *graph);
_Bool graph_copy_users(const struct graph *graph, struct graph *copy);

#endif
