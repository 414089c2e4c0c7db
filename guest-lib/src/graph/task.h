// What a node does, apart from when. Tasks do not change: a node gets another one instead. Counted,
// with the lock of graphs.
#ifndef OUTBOARD_TASK_H
#define OUTBOARD_TASK_H

#include "copies/copy.h"
#include "graph/graph.h"
#include "session/session.h"

struct kernel_task {
  const void *handle;  // CUfunction or CUkernel, as it was asked for
  CUkernel kernel;     // that the program said belongs to it
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

struct task *task_new(CUgraphNodeType type, uint64_t context);  // NULL when memory is out
static inline struct task *task_ref(struct task *task) {
  task->references++;
  return task;
}
void task_unref(struct task *task);

// The context of a handle, or the current one for NULL.
CUresult task_context(CUcontext handle, uint64_t *context);

// Tasks of checked parameters.
CUresult task_kernel(const void *function, const CUlaunchConfig *config, _Bool cooperative,
                     const void *packed, uint32_t size, uint64_t context, struct task **task);
CUresult task_copy(uint64_t context, const struct copy *copy, struct task **task);
CUresult task_fill(uint64_t context, uint64_t address, uint64_t pitch, struct box box,
                   uint32_t value, uint32_t unit, struct task **task);
CUresult task_values(uint64_t context, const CUstreamBatchMemOpParams *entries, unsigned count,
                     struct task **task);
CUresult task_event(uint64_t event, _Bool record, uint64_t context, struct task **task);
CUresult task_host(CUhostFn function, void *data, uint64_t context, struct task **task);

// The task that `params` describe; NULL for nodes that need none. Not for allocations, child graphs
// and conditions, which belong to one graph. Kernels get the attributes of `like`, if given.
CUresult task_of(const CUgraphNodeParams *params, const struct task *like, struct task **task);
// The same copy as the device does it itself under a condition, with the pinned memory that it
// names: of arrays and other memory of the host's it is CUDA_ERROR_NOT_SUPPORTED, as in any driver.
CUresult task_under_condition(struct session *session, const struct task *copy, struct task **task);
// The same kernel with other attributes.
CUresult task_with_attributes(const struct task *kernel, const CUlaunchAttribute *attributes,
                              unsigned count, struct task **task);

#endif
