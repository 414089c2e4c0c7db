// Which device does what (session/session.h).
#ifndef OUTBOARD_TASK_SESSION_H
#define OUTBOARD_TASK_SESSION_H

#include "graph/task.h"
#include "session/session.h"

// By which session (session.h) it is done, and all of a graph: NULL when any may do it.
// In place of a session, of a task that copies from one device to another, and of a graph with work
// of several.
extern struct session sessions_several;
#define SESSION_SEVERAL (&sessions_several)
struct session *task_session(const struct task *task);
struct session *graph_session(const struct graph *graph);
struct session *graph_node_session(const struct graph_node *node);
struct session *session_of_both(struct session *a, struct session *b);

#endif
