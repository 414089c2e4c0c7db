// Copies of graphs between the program's memory and the device. What a launch uploads is sent ahead
// of it, in order of its stream, to device memory set aside for the node; what it downloads is
// fetched from there behind it, and lands before the next synchronisation that covers it. What may
// change before the graph's turn comes, or before the node's, is sent by hooks (hook.h).
#include <stdlib.h>

#include "copies/download.h"
#include "copies/on_device.h"
#include "copies/upload.h"
#include "exec/exec.h"
#include "exec/hook.h"
#include "exec/internal.h"
#include "graph/task_params.h"
#include "guest_calls.h"
#include "memory/host_memory.h"
#include "memory/memory_range.h"
#include "session/session.h"
#include "streams/pending.h"
#include "streams/room.h"
#include "wire/answer.h"

_Bool is_transfer(const struct task *task) {
  return task->type == CU_GRAPH_NODE_TYPE_MEMCPY &&
         (task->copy.to.place == BOX_HOST) != (task->copy.from.place == BOX_HOST) &&
         !task->copy.reached && !task_is_idle(task);
}

_Bool transfer_is_early(const struct graph_transfer *transfer) {
  return transfer->node->task->copy.from.place == BOX_HOST && transfer->node->enabled &&
         !transfer->late;
}

static struct graph_transfer *find(const struct graph_exec *exec, const struct graph_node *node) {
  for (size_t i = 0; i < exec->transfer_count; i++)
    if (exec->transfers[i].node == node) return &exec->transfers[i];
  return NULL;
}

const struct graph_transfer *transfer_find(const struct graph_exec *exec,
                                           const struct graph_node *node) {
  return find(exec, node);
}

// Keeps memory that was set aside until the end, as a hook may be about to use it.
static CUresult outgrow(struct graph_exec *exec, uint64_t staging) {
  uint64_t *grown = realloc(exec->outgrown, (exec->outgrown_count + 1) * sizeof *grown);
  if (!grown) return CUDA_ERROR_OUT_OF_MEMORY;
  exec->outgrown = grown;
  grown[exec->outgrown_count++] = staging;
  return CUDA_SUCCESS;
}

CUresult transfer_prepare(struct graph_exec *exec, struct graph_node *node,
                          const struct task *task) {
  struct graph_transfer *transfer = find(exec, node);
  if (!transfer) {
    struct graph_transfer *grown =
        realloc(exec->transfers, (exec->transfer_count + 1) * sizeof *grown);
    if (!grown) return CUDA_ERROR_OUT_OF_MEMORY;
    exec->transfers = grown;
    transfer = &grown[exec->transfer_count++];
    *transfer = (struct graph_transfer){.node = node};
  }
  uint64_t bytes = box_bytes(&task->copy.box);
  if (bytes <= transfer->capacity) return CUDA_SUCCESS;
  CUdeviceptr grown;
  CUresult result = guest_cuMemAlloc_v2(&grown, bytes);
  if (result) return result;
  if (transfer->staging && exec->calls)
    result = outgrow(exec, transfer->staging);
  else if (transfer->staging)
    guest_cuMemFree_v2(transfer->staging);
  transfer->staging = grown;
  transfer->capacity = bytes;
  return result;
}

// The lock of memory, which this takes, comes before the lock of pages: so this is done before.
void transfer_locate(struct graph_exec *exec) {
  for (size_t i = 0; i < exec->transfer_count; i++) {
    struct graph_transfer *transfer = &exec->transfers[i];
    const struct copy_task *copy = &transfer->node->task->copy;
    transfer->mapped = 0;
    if (!host_shared) continue;
    const struct box_end *host = copy->to.place == BOX_HOST ? &copy->to : &copy->from;
    const void *at = host_on_device(box_pointer(host));
    struct host_range range;
    if (!memory_is_device(at)) continue;
    // Another session's device may have it: then it is the host's here.
    if (sessions_many() && host_find_on_device((uint64_t)(uintptr_t)at, &range) &&
        range.session != session_here())
      continue;
    transfer->mapped = (uint64_t)(uintptr_t)at;
  }
}

// Rows that lie one behind the other on both sides are one.
static struct box joined(const struct box_end *host, const struct box *box) {
  return box_slices_join(host, box) ? box_row(box_bytes(box)) : *box;
}

// How a row travels.
typedef CUresult row_mover(struct session *session, uint64_t at, uint64_t staging, uint64_t width,
                           uint64_t stream);

static CUresult send_row(struct session *session, uint64_t at, uint64_t staging, uint64_t width,
                         uint64_t stream) {
  const CUresult result = stream_await_room(session, stream);
  return result ? result
                : upload_line(session, staging, (const void *)(uintptr_t)at, width, stream);
}
static CUresult fetch_by(struct session *session, uint64_t at, uint64_t staging, uint64_t width,
                         uint64_t stream, enum landing landing) {
  const CUresult result =
      stream_await_operations(session, stream, stream_operations_of_download(session, width));
  return result ? result
                : download_line(session, (void *)(uintptr_t)at, staging, width, stream, landing);
}
static CUresult fetch_row(struct session *session, uint64_t at, uint64_t staging, uint64_t width,
                          uint64_t stream) {
  return fetch_by(session, at, staging, width, stream, LANDING_DEFERRED);
}
static CUresult fetch_row_and_wait(struct session *session, uint64_t at, uint64_t staging,
                                   uint64_t width, uint64_t stream) {
  return fetch_by(session, at, staging, width, stream, LANDING_WAITED_FOR);
}

// Moves all rows, the last one by `last`. Each is sent when the stream has room for it.
static CUresult each_row(const struct box_end *host, const struct box *given, uint64_t staging,
                         uint64_t stream, row_mover *move, row_mover *last) {
  const struct box box = joined(host, given);
  struct session *session = session_here();
  CUresult result = CUDA_SUCCESS;
  for (uint64_t z = 0; z < box.depth && !result; z++)
    for (uint64_t y = 0; y < box.height && !result; y++, staging += box.width) {
      uint64_t at = host->address + (z * host->rows + y) * host->pitch;
      _Bool ends = z + 1 == box.depth && y + 1 == box.height;
      result = (ends ? last : move)(session, at, staging, box.width, stream);
    }
  return result;
}

CUresult transfer_fetch(const struct box_end *host, const struct box *box, uint64_t staging,
                        uint64_t stream, _Bool more) {
  return each_row(host, box, staging, stream, fetch_row, more ? fetch_row : fetch_row_and_wait);
}
CUresult transfer_send(const struct box_end *host, const struct box *box, uint64_t staging,
                       uint64_t stream) {
  return each_row(host, box, staging, stream, send_row, send_row);
}

// What the device reaches by itself it copies in one operation.
static CUresult copy_mapped(const struct graph_transfer *transfer, uint64_t stream) {
  const struct copy_task *task = &transfer->node->task->copy;
  const _Bool up = task->from.place == BOX_HOST;
  const struct box_end *host = up ? &task->from : &task->to;
  const struct box box = joined(host, &task->box);
  const struct box_end there = {
      .place = BOX_DEVICE, .address = transfer->mapped, .pitch = host->pitch, .rows = host->rows};
  const struct box_end staging = {
      .place = BOX_DEVICE, .address = transfer->staging, .pitch = box.width, .rows = box.height};
  const struct copy copy = {.to = up ? staging : there,
                            .from = up ? there : staging,
                            .box = box,
                            .stream = stream,
                            .session = session_here(),
                            .line = box.height == 1 && box.depth == 1,
                            .bytes = box_bytes(&box)};
  return copy_on_device(&copy);
}

// Whether the program's memory may change, without the program doing anything wrong, between now
// and the graph's turn: by functions of the program, by what they or the program let go on, or by
// what is on its way there.
static _Bool lands(struct session *session, const struct graph_exec *exec) {
  if (!answer_outstanding(session)) return 0;
  for (size_t i = 0; i < exec->transfer_count; i++) {
    const struct graph_transfer *transfer = &exec->transfers[i];
    if (!transfer_is_early(transfer)) continue;
    const struct copy_task *copy = &transfer->node->task->copy;
    const void *from = box_pointer(&copy->from);
    const uint64_t bytes = box_span(&copy->from, &copy->box);
    // It may be on its way to either place where the library has pinned memory.
    if (answer_lands_in(session, from, bytes) || answer_lands_in(session, host_view(from), bytes))
      return 1;
  }
  return 0;
}

static _Bool may_change(const struct graph_exec *exec) {
  _Bool changes = pending_any();
  for (struct session *session = sessions; session < sessions_end() && !changes; session++)
    changes = lands(session, exec);
  return changes;
}

static _Bool fetches(const struct graph_transfer *transfer) {
  return transfer->node->task->copy.to.place == BOX_HOST && transfer->node->enabled &&
         !transfer->landed;
}

CUresult transfer_before(struct graph_exec *exec, uint64_t stream) {
  if (!exec->transfer_count) return CUDA_SUCCESS;
  CUresult result = stream_await_room(session_here(), stream);
  // The launch before may still use what is there.
  if (!result && exec->launches && exec->stream != stream && exec->event)
    result = put_cuStreamWaitEvent(session_here(), stream, exec->event, 0);
  _Bool reads = 0;
  for (size_t i = 0; i < exec->transfer_count; i++)
    reads |= transfer_is_early(&exec->transfers[i]) && !exec->transfers[i].mapped;
  const _Bool later = reads && may_change(exec);
  if (!result && later) result = stream_await_room(session_here(), stream);
  if (!result && later) result = hooks_read_later(exec, stream);
  for (size_t i = 0; i < exec->transfer_count && !result && !later; i++) {
    const struct graph_transfer *transfer = &exec->transfers[i];
    const struct copy_task *copy = &transfer->node->task->copy;
    if (transfer_is_early(transfer) && !transfer->mapped)
      result = transfer_send(&copy->from, &copy->box, transfer->staging, stream);
  }
  return result;
}

unsigned transfer_mapped_count(const struct graph_exec *exec) {
  unsigned count = 0;
  for (size_t i = 0; i < exec->transfer_count; i++) {
    const struct graph_transfer *transfer = &exec->transfers[i];
    count += transfer->mapped && (transfer_is_early(transfer) || fetches(transfer));
  }
  return count;
}

CUresult transfer_mapped(const struct graph_exec *exec, uint64_t stream, _Bool before) {
  CUresult result = CUDA_SUCCESS;
  for (size_t i = 0; i < exec->transfer_count && !result; i++) {
    const struct graph_transfer *transfer = &exec->transfers[i];
    if (transfer->mapped && (before ? transfer_is_early(transfer) : fetches(transfer)))
      result = copy_mapped(transfer, stream);
  }
  return result;
}

CUresult transfer_after(struct session *session, struct graph_exec *exec, uint64_t stream) {
  if (!exec->transfer_count) return CUDA_SUCCESS;
  CUresult result = CUDA_SUCCESS;
  for (size_t i = 0; i < exec->transfer_count && !result; i++) {
    const struct graph_transfer *transfer = &exec->transfers[i];
    const struct copy_task *copy = &transfer->node->task->copy;
    if (fetches(transfer) && !transfer->mapped)
      result = transfer_fetch(&copy->to, &copy->box, transfer->staging, stream, 1);
  }
  if (!result && !exec->event) {
    CUevent event;
    result = guest_cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    if (!result) exec->event = (uint64_t)(uintptr_t)event;
  }
  if (!result) result = stream_await_room(session, stream);
  return result ? result : put_cuEventRecord(session, exec->event, stream);
}

void transfer_end(struct graph_exec *exec) {
  for (size_t i = 0; i < exec->transfer_count && !exec->gone; i++)
    if (exec->transfers[i].staging) guest_cuMemFree_v2(exec->transfers[i].staging);
  for (size_t i = 0; i < exec->outgrown_count && !exec->gone; i++)
    guest_cuMemFree_v2(exec->outgrown[i]);
  free(exec->transfers);
  free(exec->outgrown);
  exec->transfers = NULL;
  exec->outgrown = NULL;
  exec->transfer_count = exec->outgrown_count = 0;
  if (exec->event && !exec->gone) guest_cuEventDestroy_v2((CUevent)(uintptr_t)exec->event);
  exec->event = 0;
}
