// Between the structures in which programs describe nodes, and tasks.
#pragma once

#include "graphs/graph.h"
#include "streams/launch.h"

namespace softdev::driver {

// The context of a handle, or the current one for NULL.
CUresult find_context(CUcontext handle, std::shared_ptr<Context> *context);
// For a node that names none, and can be made without a current one: the current one if there is
// one, else the primary one of a device.
CUresult find_own_context(int device, std::shared_ptr<Context> *context);

// The task that `params` describe; empty for nodes that need none. Without the lock of graphs: it
// looks at memory. Not for allocations, child graphs and conditions, which belong to one graph.
// Kernels get `attributes`.
CUresult task_of(const CUgraphNodeParams &params, const std::vector<CUlaunchAttribute> &attributes,
                 TaskRef *task);

// The other way. Also without the lock of graphs. Pointers stay valid as long as the task does.
void params_of(const TaskRef &task, CUgraphNodeParams *params);

// The value of an attribute of a kernel; CUDA_ERROR_INVALID_VALUE when it has no such attribute.
CUresult attribute_of(const KernelTask &task, CUlaunchAttributeID id,
                      CUlaunchAttributeValue *value);

// Whether an executable graph may take `to` where it has `from`: what must not change is the same.
CUgraphExecUpdateResult compare(const Task &from, const Task &to);

}  // namespace softdev::driver
