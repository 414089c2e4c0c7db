// Which device does what (lane.h): what names memory, an event or a function is done by the device
// that has it.
#include "graph/task_lane.h"

#include "copies/across.h"
#include "copies/box.h"
#include "graph/allocation.h"
#include "graph/condition.h"
#include "graph/task.h"
#include "graph/task_params.h"
#include "session/handle.h"
#include "session/lane.h"

unsigned lane_of_both(unsigned a, unsigned b) {
  if (a == LANE_ANY || a == b) return b;
  return b == LANE_ANY ? a : LANE_SEVERAL;
}

unsigned task_lane(const struct task *task) {
  const unsigned own = lane_of_context(task->context);
  switch (task->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      // A library's may be any device's.
      unsigned lane = handle_lane(WIRE_KIND_FUNCTION, handle_of(task->kernel.handle));
      return lane == LANE_ANY ? own : lane;
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      if (task_is_idle(task)) return LANE_ANY;
      return lane_of_both(across_lane_of(&task->copy.to), across_lane_of(&task->copy.from));
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      const struct box_end end = {.place = BOX_DEVICE, .address = task->fill.address};
      return task_is_idle(task) ? LANE_ANY : across_lane_of(&end);
    }
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return handle_lane(WIRE_KIND_EVENT, task->event.handle);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return lane_of_device(task->allocate.properties.location.id);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return graph_allocation_lane(task->freed);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return task->condition.condition->lane;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return own;
    default:
      return LANE_ANY;
  }
}

unsigned graph_node_lane(const struct graph_node *node) {
  unsigned lane = node->task ? task_lane(node->task) : LANE_ANY;
  for (unsigned i = 0; i < node->child_count; i++)
    lane = lane_of_both(lane, graph_lane(node->children[i]));
  return lane;
}

unsigned graph_lane(const struct graph *graph) {
  unsigned lane = LANE_ANY;
  for (const struct graph_node *node = graph->first; node; node = node->next)
    lane = lane_of_both(lane, graph_node_lane(node));
  return lane;
}
