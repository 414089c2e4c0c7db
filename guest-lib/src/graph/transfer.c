// Copies of graphs between the program's memory and the device. What a launch uploads is sent ahead
// of it, in order of its stream, to device memory set aside for the node; what it downloads is
// fetched from there behind it, and lands before the next synchronisation that covers it.
#include <stdlib.h>

#include "copy.h"
#include "graph/exec.h"
#include "graph/task.h"
#include "guest_calls.h"
#include "host_memory.h"
#include "log.h"
#include "memory.h"

_Bool is_transfer(const struct task *task) {
  return task->type == CU_GRAPH_NODE_TYPE_MEMCPY &&
         (task->copy.to.place == BOX_HOST || task->copy.from.place == BOX_HOST) &&
         !task_is_idle(task);
}

static uint64_t bytes_of(struct box box) {
  return span_1d(span_1d(box.width, box.height), box.depth);
}

static struct graph_transfer *find(const struct graph_exec *exec, const struct graph_node *node) {
  for (size_t i = 0; i < exec->transfer_count; i++)
    if (exec->transfers[i].node == node) return &exec->transfers[i];
  return NULL;
}

uint64_t transfer_staging(const struct graph_exec *exec, const struct graph_node *node) {
  const struct graph_transfer *found = find(exec, node);
  return found ? found->staging : 0;
}

CUresult transfer_prepare(struct graph_exec *exec, struct graph_node *node, const struct task *task,
                          uint64_t *staging) {
  if (task->copy.to.place == BOX_HOST && task->copy.from.place == BOX_HOST) {
    log_warn("copies from host to host in graphs are not served");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  struct graph_transfer *transfer = find(exec, node);
  if (!transfer) {
    struct graph_transfer *grown =
        realloc(exec->transfers, (exec->transfer_count + 1) * sizeof *grown);
    if (!grown) return CUDA_ERROR_OUT_OF_MEMORY;
    exec->transfers = grown;
    transfer = &grown[exec->transfer_count++];
    *transfer = (struct graph_transfer){.node = node};
  }
  uint64_t bytes = bytes_of(task->copy.box);
  if (bytes > transfer->capacity) {
    CUdeviceptr grown;
    CUresult result = guest_cuMemAlloc_v2(&grown, bytes);
    if (result) return result;
    if (transfer->staging) guest_cuMemFree_v2(transfer->staging);
    transfer->staging = grown;
    transfer->capacity = bytes;
  }
  *staging = transfer->staging;
  return CUDA_SUCCESS;
}

// Looked up before the pages of what the device reaches are locked.
void transfer_locate(struct graph_exec *exec) {
  for (size_t i = 0; i < exec->transfer_count; i++) {
    struct graph_transfer *transfer = &exec->transfers[i];
    const struct copy_task *copy = &transfer->node->task->copy;
    transfer->mapped = 0;
    if (!host_shared || !is_transfer(transfer->node->task)) continue;
    const struct box_end *host = copy->to.place == BOX_HOST ? &copy->to : &copy->from;
    const void *at = host_on_device((const void *)(uintptr_t)host->address);
    if (memory_is_device(at)) transfer->mapped = (uint64_t)(uintptr_t)at;
  }
}

static void each_row(const struct copy_task *copy, const struct box_end *host,
                     const struct graph_transfer *transfer, uint64_t stream, CUresult *result) {
  uint64_t staging = transfer->staging;
  const struct box *box = &copy->box;
  const _Bool solid = (host->pitch == box->width || box->height == 1) &&
                      ((host->pitch * host->rows) == box->width * box->height || box->depth == 1);
  const uint64_t width = solid ? bytes_of(*box) : box->width;
  const uint64_t rows = solid ? 1 : box->height, slices = solid ? 1 : box->depth;
  for (uint64_t z = 0; z < slices && !*result; z++)
    for (uint64_t y = 0; y < rows && !*result; y++, staging += width) {
      uint64_t offset = z * (host->pitch * host->rows) + y * host->pitch;
      char *at = (char *)(uintptr_t)(host->address + offset);
      if (transfer->mapped)
        *result = host == &copy->from
                      ? put_cuMemcpyDtoDAsync_v2(staging, transfer->mapped + offset, width, stream)
                      : put_cuMemcpyDtoDAsync_v2(transfer->mapped + offset, staging, width, stream);
      else
        *result = host == &copy->from ? copy_upload(staging, at, width, stream)
                                      : copy_download(at, staging, width, stream, LANDING_DEFERRED);
    }
}

CUresult transfer_before(struct graph_exec *exec, uint64_t stream) {
  if (!exec->transfer_count) return CUDA_SUCCESS;
  CUresult result = CUDA_SUCCESS;
  // The launch before may still use what is there.
  if (exec->launched && exec->stream != stream && exec->event)
    result = put_cuStreamWaitEvent(stream, exec->event, 0);
  for (size_t i = 0; i < exec->transfer_count && !result; i++) {
    const struct graph_transfer *transfer = &exec->transfers[i];
    const struct task *task = transfer->node->task;
    if (is_transfer(task) && task->copy.from.place == BOX_HOST && transfer->node->enabled)
      each_row(&task->copy, &task->copy.from, transfer, stream, &result);
  }
  return result;
}

CUresult transfer_after(struct graph_exec *exec, uint64_t stream) {
  if (!exec->transfer_count) return CUDA_SUCCESS;
  CUresult result = CUDA_SUCCESS;
  for (size_t i = 0; i < exec->transfer_count && !result; i++) {
    const struct graph_transfer *transfer = &exec->transfers[i];
    const struct task *task = transfer->node->task;
    if (is_transfer(task) && task->copy.to.place == BOX_HOST && transfer->node->enabled)
      each_row(&task->copy, &task->copy.to, transfer, stream, &result);
  }
  if (!result && !exec->event) {
    CUevent event;
    result = guest_cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    if (!result) exec->event = (uint64_t)(uintptr_t)event;
  }
  return result ? result : put_cuEventRecord(exec->event, stream);
}

void transfer_end(struct graph_exec *exec) {
  for (size_t i = 0; i < exec->transfer_count; i++)
    if (exec->transfers[i].staging) guest_cuMemFree_v2(exec->transfers[i].staging);
  free(exec->transfers);
  exec->transfers = NULL;
  exec->transfer_count = 0;
  if (exec->event) guest_cuEventDestroy_v2((CUevent)(uintptr_t)exec->event);
  exec->event = 0;
}
