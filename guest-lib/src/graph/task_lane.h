// Which device does what (session/lane.h).
#ifndef OUTBOARD_TASK_LANE_H
#define OUTBOARD_TASK_LANE_H

#include "graph/task.h"

// By which lane (lane.h) it is done, and all of a graph: LANE_ANY when any may do it.
#define LANE_SEVERAL 0xfeu  // of a task: it copies from one device to another
unsigned task_lane(const struct task *task);
unsigned graph_lane(const struct graph *graph);
unsigned graph_node_lane(const struct graph_node *node);
unsigned lane_of_both(unsigned a, unsigned b);

#endif
