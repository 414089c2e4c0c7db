// Which device does what (session/session.h).
#ifndef OUTBOARD_TASK_SESSION_H
#define OUTBOARD_TASK_SESSION_H

#include "graph/task.h"

// By which session (session.h) it is done, and all of a graph: SESSION_ANY when any may do it.
#define SESSION_SEVERAL 0xfeu  // of a task: it copies from one device to another
unsigned task_session(const struct task *task);
unsigned graph_session(const struct graph *graph);
unsigned graph_node_session(const struct graph_node *node);
unsigned session_of_both(unsigned a, unsigned b);

#endif
