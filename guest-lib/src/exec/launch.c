// Launches of executable graphs.
#include <stdatomic.h>

#include "capture/capture_node.h"
#include "copies/box.h"
#include "exec/exec.h"
#include "exec/internal.h"
#include "exec/parts.h"
#include "graph/task.h"
#include "guest_calls.h"
#include "kernels/library.h"
#include "memory/host_memory.h"
#include "pages/pages.h"
#include "session/session.h"
#include "streams/event.h"
#include "streams/host_function.h"
#include "streams/pending.h"
#include "streams/recorder.h"
#include "streams/room.h"
#include "streams/stream.h"
#include "wire/order.h"

// Returns the device address of an end of a copy that the device makes by itself, or 0.
static uint64_t named_by(const struct copy_task *copy, const struct box_end *end) {
  if (end->place == BOX_HOST && copy->reached) return host_device_address(box_pointer(end));
  return end->place == BOX_DEVICE ? end->address : 0;
}

// Brings what nodes name of managed and pinned memory, which several devices use by turns, to the
// device of the session.
static CUresult take_memory(const struct graph_exec *exec) {
  CUresult result = CUDA_SUCCESS;
  for (size_t i = 0; i < exec->order_count && !result; i++) {
    const struct task *task = exec->order[i]->task;
    uint64_t named[2] = {0};
    if (task && task->type == CU_GRAPH_NODE_TYPE_KERNEL) {
      result = host_share_named(task->kernel.parameters, task->kernel.parameter_bytes);
    } else if (task && task->type == CU_GRAPH_NODE_TYPE_MEMSET) {
      named[0] = task->fill.address;
    } else if (task && task->type == CU_GRAPH_NODE_TYPE_MEMCPY) {
      named[0] = named_by(&task->copy, &task->copy.to);
      named[1] = named_by(&task->copy, &task->copy.from);
    }
    if (!result) result = host_share_named((const unsigned char *)named, sizeof named);
  }
  return result;
}

static CUresult launch_here(struct graph_exec *exec, uint64_t stream) {
  CUresult result = transfer_mapped(exec, stream, 1);
  struct session *session = session_here();
  if (!result) result = put_GraphLaunch(session, exec->wire, stream);
  for (size_t i = 0; i < exec->order_count && exec->records && !result; i++)
    if (exec->order[i]->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
      event_note_recorded(exec->order[i]->task->event.kept, stream);
  exec->launches++;
  if (!result && exec->hooks) {
    host_function_expect(session, stream_last_sequence(session, stream));
    pending_note(session, stream);
  }
  return result ? result : transfer_mapped(exec, stream, 0);
}

CUresult exec_launch_here(struct graph_exec *exec, uint64_t stream) {
  if (exec->gone) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  CUresult result = sessions_many() ? take_memory(exec) : CUDA_SUCCESS;
  if (result) return result;
  struct session *session = session_here();
  transfer_locate(exec);
  result = transfer_before(exec, stream);
  if (!result)
    result = stream_await_operations(session, stream,
                                     STREAM_OPERATIONS_MOST + transfer_mapped_count(exec));
  if (!result) {
    const _Bool shared = library_hand_over(exec->session, NULL, NULL, 0);
    result = launch_here(exec, stream);
    if (shared) pages_handed_over();
  }
  if (!result) result = transfer_after(session, exec, stream);
  exec->stream = stream;
  exec->sequence = stream_last_sequence(session, stream);
  return result;
}

// Launches an executable graph whose mutex is held.
static CUresult launch(struct graph_exec *exec, uint64_t stream) {
  CUresult result = CUDA_SUCCESS;
  if (capture_active()) {
    graphs_lock();
    CUresult captured = capture_graph(stream, exec->plan);
    graphs_unlock();
    if (captured != CAPTURE_NONE) return captured;
  }
  if (exec->gone) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (exec->memory_count) {
    graphs_lock();
    result = exec_memory_before(exec);
    graphs_unlock();
  }
  if (!result)
    result = sessions_many() && (exec->split || exec->session != session_here())
                 ? parts_launch(exec, stream)
                 : exec_launch_here(exec, stream);
  if (!result && exec->memory_count) {
    graphs_lock();
    exec_memory_after(exec);
    graphs_unlock();
  }
  return result;
}

CUresult guest_cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream, int per_thread) {
  uint64_t stream;
  CUresult result = stream_resolve(hStream, per_thread, &stream);
  if (result) return result;
  struct graph_exec *exec = exec_enter(hGraphExec);
  if (!exec) return CUDA_ERROR_INVALID_VALUE;
  result = launch(exec, stream);
  exec_leave(exec);
  return stream_leave_room(result);
}

// A graph is on the server, where it will run, from when it was instantiated.
CUresult guest_cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream, int per_thread) {
  uint64_t stream;
  CUresult result = stream_resolve(hStream, per_thread, &stream);
  if (result) return result;
  struct graph_exec *exec = exec_enter(hGraphExec);
  if (!exec) return CUDA_ERROR_INVALID_VALUE;
  exec_leave(exec);
  return CUDA_SUCCESS;
}
