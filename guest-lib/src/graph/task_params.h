// What programs are told of tasks, and how two of them compare.
#ifndef OUTBOARD_TASK_PARAMS_H
#define OUTBOARD_TASK_PARAMS_H

#include "graph/task.h"

// As the program describes it. Pointers stay valid as long as the task does.
void task_params(const struct task *task, CUgraphNodeParams *params);
int task_priority(const struct kernel_task *kernel);
// The value of an attribute of a kernel; CUDA_ERROR_INVALID_VALUE when it has no such attribute.
CUresult task_attribute(const struct task *kernel, CUlaunchAttributeID id,
                        CUlaunchAttributeValue *value);

// Whether it copies or fills nothing, which only captures make: no driver has such nodes.
_Bool task_is_idle(const struct task *task);
// Whether an executable graph may take `to` where it has `from`: what must not change is the same.
CUgraphExecUpdateResult task_compare(const struct task *from, const struct task *to);
// Whether kernels have the same of what the server is told of attributes.
_Bool task_same_attributes(const struct task *a, const struct task *b);
// Whether both do exactly the same, so that there is nothing to tell the server.
_Bool task_same(const struct task *a, const struct task *b);

#endif
