// Which session's device does what.
#ifndef OUTBOARD_TASK_SESSION_H
#define OUTBOARD_TASK_SESSION_H

#include "graph/task.h"
#include "session/session.h"

// Stands for a session where there is more than one: of a task that copies from one device to
// another, and of a graph with work of several.
extern struct session sessions_several;
#define SESSION_SEVERAL (&sessions_several)
// Return the session whose device does a task, all of a graph, or all of a node with what is
// embedded in it; SESSION_SEVERAL, or NULL when any may do it.
struct session *task_session(const struct task *task);
struct session *graph_session(const struct graph *graph);
struct session *graph_node_session(const struct graph_node *node);
// Returns the session of work whose two parts are those sessions', by the same rule.
struct session *session_of_both(struct session *a, struct session *b);

#endif
