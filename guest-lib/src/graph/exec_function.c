// Functions of the program in graphs. They run in the guest, on the thread that calls host
// functions (host_function.h), while the server's graph waits. What a graph copies to the program's
// memory ahead of one is fetched first, and what it copies from there behind one is sent once more.
#include <stdlib.h>

#include "copy.h"
#include "graph/exec.h"
#include "graph/task.h"
#include "guest_calls.h"
#include "host_function.h"
#include "stream.h"

// A copy between a row of the program's memory and the device, as a function wants it.
struct row {
  uint64_t host, staging, width;
  _Bool upload;
};

struct surrounded {
  CUhostFn function;
  void *data;
  uint64_t stream;
  size_t count;
  struct row rows[];
};

static void call(void *data) {
  const struct surrounded *of = data;
  for (size_t i = 0; i < of->count; i++)
    if (!of->rows[i].upload)
      copy_download((void *)(uintptr_t)of->rows[i].host, of->rows[i].staging, of->rows[i].width,
                    of->stream, LANDING_WAITED_FOR);
  of->function(of->data);
  _Bool sent = 0;
  for (size_t i = 0; i < of->count; i++) {
    if (!of->rows[i].upload) continue;
    copy_upload(of->rows[i].staging, (const void *)(uintptr_t)of->rows[i].host, of->rows[i].width,
                of->stream);
    sent = 1;
  }
  if (sent) guest_cuStreamSynchronize((CUstream)(uintptr_t)of->stream, 0);
}

static _Bool leads_to(const struct graph_node *first, const struct graph_node *last) {
  return first->graph == last->graph && graph_comes_before(last->graph, &last->before, first);
}

static uint64_t rows_of(const struct copy_task *copy) { return copy->box.height * copy->box.depth; }

// Copies that come before or behind the function.
static _Bool concerns(const struct graph_transfer *transfer, const struct graph_node *node) {
  return transfer->node->task->copy.to.place == BOX_HOST ? leads_to(transfer->node, node)
                                                         : leads_to(node, transfer->node);
}

uint64_t exec_function(struct graph_exec *exec, const struct graph_node *node,
                       const struct task *task) {
  exec->has_functions = 1;
  size_t rows = 0;
  for (size_t i = 0; i < exec->transfer_count; i++)
    if (concerns(&exec->transfers[i], node)) rows += rows_of(&exec->transfers[i].node->task->copy);
  if (!rows) return host_function_keep(task->host.fn, task->host.userData);
  // Stays as long as the number does: until the context is reset, or the process ends.
  struct surrounded *of = calloc(1, sizeof *of + rows * sizeof *of->rows);
  CUstream stream;
  if (!of) return 0;
  if (guest_cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)) {
    free(of);
    return 0;
  }
  *of = (struct surrounded){task->host.fn, task->host.userData, (uint64_t)(uintptr_t)stream, 0};
  for (size_t i = 0; i < exec->transfer_count; i++) {
    const struct graph_transfer *transfer = &exec->transfers[i];
    if (!concerns(transfer, node)) continue;
    const struct copy_task *copy = &transfer->node->task->copy;
    const struct box_end *host = copy->to.place == BOX_HOST ? &copy->to : &copy->from;
    uint64_t staging = transfer->staging;
    for (uint64_t z = 0; z < copy->box.depth; z++)
      for (uint64_t y = 0; y < copy->box.height; y++, staging += copy->box.width)
        of->rows[of->count++] =
            (struct row){host->address + z * (host->pitch * host->rows) + y * host->pitch, staging,
                         copy->box.width, copy->from.place == BOX_HOST};
  }
  return host_function_keep(call, of);
}
