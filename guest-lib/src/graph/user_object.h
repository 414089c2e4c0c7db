// Objects of the program that graphs keep alive: counted, and destroyed by a function of the
// program. With the lock of graphs.
#ifndef OUTBOARD_USER_OBJECT_H
#define OUTBOARD_USER_OBJECT_H

#include "graph/graph.h"

// Lets go of all references that a graph holds.
void graph_release_users(struct graph *graph);
// Gives a copy of a graph as many references as that holds. False when there is no memory.
_Bool graph_copy_users(const struct graph *graph, struct graph *copy);

#endif
