// What a node does, apart from when. A task does not change: its node gets another one instead.
// References to tasks that a node has are counted with the lock of graphs held; to make a task
// needs no lock.
#ifndef OUTBOARD_TASK_H
#define OUTBOARD_TASK_H

#include "copies/copy.h"
#include "graph/graph.h"
#include "session/session.h"

struct kernel_task {
  const void *handle;  // CUfunction or CUkernel, as it was asked for
  CUkernel kernel;     // that the program said belongs to it, or of a library; NULL
  unsigned grid[3], block[3], cluster[3], shared;
  _Bool cooperative;
  CUlaunchAttribute *attributes;  // as they were asked for
  unsigned attribute_count;
  uint32_t parameter_bytes;
  unsigned char *parameters;  // packed as the kernel sees them
  void **pointers;            // into them, for who asks for the parameters again
  uint32_t pointer_count;
};
struct copy_task {
  struct box_end to, from;  // located, unless nothing is copied
  _Bool reached;            // the device reaches what is the host's, and copies it itself
  struct box box;
  _Bool is_described;
  CUDA_MEMCPY3D described;  // how the program described it
};
struct fill_task {
  uint64_t address, pitch;
  struct box box;
  uint32_t value, unit;
};
struct event_task {
  uint64_t handle;
  struct event *kept;
};
struct values_task {
  CUstreamBatchMemOpParams *entries;
  unsigned count;
};
struct allocate_task {
  struct graph_allocation *allocation;
  CUmemPoolProps properties;  // as they were asked for
  CUmemAccessDesc *access;
  size_t access_count, bytes;
};
struct condition_task {
  struct condition *condition;
  CUgraphConditionalNodeType kind;
  unsigned size;
  CUgraph *bodies;  // of the first node that it was for; told to the program
};

struct task {
  unsigned references;
  CUgraphNodeType type;
  uint64_t context;  // handle
  union {
    struct kernel_task kernel;
    struct copy_task copy;
    struct fill_task fill;
    CUDA_HOST_NODE_PARAMS_v2 host;
    struct event_task event;
    struct values_task values;
    struct allocate_task allocate;
    struct graph_allocation *freed;
    struct condition_task condition;
  };
};

// Makes an empty task with one reference; NULL when there is no memory.
struct task *task_new(CUgraphNodeType type, uint64_t context);
// Take a reference, and let go of one.
static inline struct task *task_ref(struct task *task) {
  task->references++;
  return task;
}
void task_unref(struct task *task);

// Sets *context to the handle of a live context, or of the current one for NULL.
// CUDA_ERROR_INVALID_CONTEXT when there is none, CUDA_ERROR_CONTEXT_IS_DESTROYED when the current
// one is that. The thread is in its session from now on.
CUresult task_context(CUcontext handle, uint64_t *context);
// The same for a node that names none and can be made without a current one: the current one if
// there is one, else the primary one of a device.
CUresult task_own_context(int device, uint64_t *context);

// Make tasks of one type each, with a reference that is the caller's. The functions check what
// could not be checked without knowing the device: CUDA_ERROR_INVALID_VALUE for addresses and
// events that are not the program's, CUDA_ERROR_OUT_OF_MEMORY.
CUresult task_kernel(const void *function, const CUlaunchConfig *config, _Bool cooperative,
                     const void *packed, uint32_t size, uint64_t context, struct task **task);
CUresult task_copy(uint64_t context, const struct copy *copy, struct task **task);
CUresult task_fill(uint64_t context, uint64_t address, uint64_t pitch, struct box box,
                   uint32_t value, uint32_t unit, struct task **task);
CUresult task_values(uint64_t context, const CUstreamBatchMemOpParams *entries, unsigned count,
                     struct task **task);
CUresult task_event(uint64_t event, _Bool record, uint64_t context, struct task **task);
CUresult task_host(CUhostFn function, void *data, uint64_t context, struct task **task);

// Makes the task that `params` describe, after all checks that CUDA makes; NULL for nodes that need
// none. It is not for allocations, child graphs and conditions, which belong to one graph. Kernels
// get the attributes of `like`, if given. The thread stays in its session.
CUresult task_of(const CUgraphNodeParams *params, const struct task *like, struct task **task);
// Makes a copy that the device of `session` does by itself, under a condition, out of one that may
// name pinned memory, which is shared with the device. CUDA_ERROR_NOT_SUPPORTED for arrays and
// other memory of the host, as in any driver.
CUresult task_under_condition(struct session *session, const struct task *copy, struct task **task);
// Makes a task of the same kernel with other attributes.
CUresult task_with_attributes(const struct task *kernel, const CUlaunchAttribute *attributes,
                              unsigned count, struct task **task);

#endif
