// What programs are told of tasks, and how two of them compare.
#ifndef OUTBOARD_TASK_PARAMS_H
#define OUTBOARD_TASK_PARAMS_H

#include "graph/task.h"

// Sets *params to what a program is told of a task. Pointers in it stay valid as long as the task.
void task_params(const struct task *task, CUgraphNodeParams *params);
// Returns the priority that a kernel's attributes ask for; 0 when they ask for none.
int task_priority(const struct kernel_task *kernel);
// Sets *value to that of a kernel's attribute. CUDA_ERROR_INVALID_VALUE when it has no such.
CUresult task_attribute(const struct task *kernel, CUlaunchAttributeID id,
                        CUlaunchAttributeValue *value);

// Whether a task copies or fills nothing, which only captures make: no driver has such nodes.
_Bool task_is_idle(const struct task *task);
// Says whether an executable graph may take `to` where it has `from`:
// CU_GRAPH_EXEC_UPDATE_SUCCESS, or which of what must not change differs.
CUgraphExecUpdateResult task_compare(const struct task *from, const struct task *to);
// Whether the server would be told the same of the attributes of two kernels.
_Bool task_same_attributes(const struct task *a, const struct task *b);
// Whether both do exactly the same, so that there is nothing to tell the server.
_Bool task_same(const struct task *a, const struct task *b);

#endif
