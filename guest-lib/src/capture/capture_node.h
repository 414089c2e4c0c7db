// Work that becomes nodes of a capture.
#ifndef OUTBOARD_CAPTURE_NODE_H
#define OUTBOARD_CAPTURE_NODE_H

#include <stdint.h>

#include "cuda_driver.h"
#include "graph/graph.h"

// Makes a node of the launch of a graph if its stream is captured, and returns what the program
// gets; CAPTURE_NONE otherwise. The lock of graphs is held.
CUresult capture_graph(uint64_t stream, const struct graph *graph);

#endif
