// Which device does what (session.h): what names memory, an event or a function is done by the
// device that has it.
#include "graph/task_session.h"

#include "copies/resolve.h"
#include "graph/allocation.h"
#include "graph/condition.h"
#include "graph/task.h"
#include "graph/task_params.h"
#include "session/handle.h"
#include "session/session.h"

struct session sessions_several;

struct session *session_of_both(struct session *a, struct session *b) {
  if (!a || a == b) return b;
  return b ? SESSION_SEVERAL : a;
}

struct session *task_session(const struct task *task) {
  struct session *own = session_of_context(task->context);
  switch (task->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      // A library's may be any device's.
      struct session *session = handle_session(WIRE_KIND_FUNCTION, handle_of(task->kernel.handle));
      return session ? session : own;
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      if (task_is_idle(task)) return NULL;
      return session_of_both(holder_of(&task->copy.to), holder_of(&task->copy.from));
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      const struct box_end end = {.place = BOX_DEVICE, .address = task->fill.address};
      return task_is_idle(task) ? NULL : holder_of(&end);
    }
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return handle_session(WIRE_KIND_EVENT, task->event.handle);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return session_of_device(task->allocate.properties.location.id);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return graph_allocation_session(task->freed);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return task->condition.condition->session;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return own;
    default:
      return NULL;
  }
}

struct session *graph_node_session(const struct graph_node *node) {
  struct session *session = node->task ? task_session(node->task) : NULL;
  for (unsigned i = 0; i < node->child_count; i++)
    session = session_of_both(session, graph_session(node->children[i]));
  return session;
}

struct session *graph_session(const struct graph *graph) {
  struct session *session = NULL;
  for (const struct graph_node *node = graph->first; node; node = node->next)
    session = session_of_both(session, graph_node_session(node));
  return session;
}
