// Captures: sequences of work that go into a graph in place of being sent.
#ifndef OUTBOARD_CAPTURE_H
#define OUTBOARD_CAPTURE_H

#include <stdint.h>

#include "cuda_driver.h"

struct graph;

// From now on what puts work on streams asks here (streams/recorder.h). To be called before a
// session begins.
void capture_start(void);

// The launch of a graph becomes a node when its stream is captured; CAPTURE_NONE otherwise. With
// the lock of graphs.
CUresult capture_graph(uint64_t stream, const struct graph *graph);

#endif
