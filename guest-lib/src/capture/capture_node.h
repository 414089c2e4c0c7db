// Work that becomes nodes of a capture.
#ifndef OUTBOARD_CAPTURE_NODE_H
#define OUTBOARD_CAPTURE_NODE_H

#include <stdint.h>

#include "cuda_driver.h"
#include "graph/graph.h"

// The launch of a graph becomes a node when its stream is captured; CAPTURE_NONE otherwise. With
// the lock of graphs.
CUresult capture_graph(uint64_t stream, const struct graph *graph);

#endif
