// Executable graphs of several devices, and those that are launched into streams of other devices
// than their own (docs/graphs.md).
//
// A part is what one device can do of a graph without waiting for another: an executable graph of
// its session's own. A copy from one device to another is a part for itself. Parts have levels:
// those of one are waited for by none but of higher ones. A launch puts the parts of the stream's
// session into that stream and those of each other session into a stream of the executable graph's
// own, in the order of levels, and has a stream wait (device_wait.h) where a part needs what
// another session's has done.
#ifndef OUTBOARD_GRAPH_PARTS_H
#define OUTBOARD_GRAPH_PARTS_H

#include "exec/exec.h"

// Divides exec->plan and makes the parts known to their servers. With both locks held; on failure
// *culprit may be a node of the plan. `graph`: that it was made of.
CUresult parts_make(struct graph_exec *exec, struct graph *graph, struct graph_node **culprit,
                    CUgraphInstantiateResult *why);
// With the mutex held, and so are the others. *node, of the plan, becomes the one of the part that
// is returned; NULL: it is a copy between two devices.
struct graph_exec *parts_find(const struct graph_exec *exec, struct graph_node **node);
// Until one is not CUDA_SUCCESS.
CUresult parts_each(struct graph_exec *exec, CUresult (*visit)(struct graph_exec *part));
// Into a stream of the thread's session.
CUresult parts_launch(struct graph_exec *exec, uint64_t stream);
// No launch follows: without the lock of graphs. With it, for one that never was launched.
void parts_retire(struct graph_exec *exec);
void parts_end(struct graph_exec *exec);

#endif
