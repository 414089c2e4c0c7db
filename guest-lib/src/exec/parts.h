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

// Divides exec->plan, which was made of `graph`, and makes the parts known to their servers. The
// lock of graphs is held. Returns errors as exec_make does; *culprit may be a node of the plan.
CUresult parts_make(struct graph_exec *exec, struct graph *graph, struct graph_node **culprit,
                    CUgraphInstantiateResult *why);
// Returns the part that has a node of the plan, and sets *node to the node there. NULL when it is a
// copy between two devices, which is in no part's graph. The mutex is held, here and below.
struct graph_exec *parts_find(const struct graph_exec *exec, struct graph_node **node);
// Visits the executable graph of each part, until `visit` returns an error, which it returns.
CUresult parts_each(struct graph_exec *exec, CUresult (*visit)(struct graph_exec *part));
// Launches all parts, as a whole, into a stream of the thread's session. The lock of graphs is not
// held. Returns the errors of launches, of copies and of putting work on streams.
CUresult parts_launch(struct graph_exec *exec, uint64_t stream);
// Ends the parts, as exec_retire does; the lock of graphs is not held. parts_end is for what never
// was launched, with the lock of graphs held.
void parts_retire(struct graph_exec *exec);
void parts_end(struct graph_exec *exec);

#endif
