// Launching a kernel in a stream.
#pragma once

#include <memory>
#include <vector>

#include "engine.h"
#include "modules/module.h"
#include "streams/task.h"

namespace softdev::driver {

struct LaunchRequest {
  const void *function = nullptr;  // CUfunction or CUkernel
  Dim3 grid, block;
  Dim3 cluster = {0, 0, 0};  // 0: not asked for
  unsigned dynamic_shared = 0;
  bool cooperative = false;
  void **parameters = nullptr;
  void **extra = nullptr;
  std::vector<CUlaunchAttribute> attributes = {};  // that were applied
};

// Puts an attribute of a launch, or of a kernel in a graph, into the request.
CUresult apply(const CUlaunchAttribute &attribute, LaunchRequest *request);

class Succession;  // nested/family.h

class KernelTask : public Task {
 public:
  using Task::Task;
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_KERNEL; }
  Work operation(Uses uses) override;

  const void *function = nullptr;             // as it was asked for
  CUkernel kernel = nullptr;                  // what a graph was told that belongs to it
  std::vector<CUlaunchAttribute> attributes;  // as they were asked for
  Launch prepared;
  std::shared_ptr<Succession> succession;  // of a grid that is in another one's tail
  // Into `prepared`, for who asks for the parameters again.
  std::vector<void *> parameter_pointers;
};

CUresult check_shape(const LaunchRequest &request);
// Checks all that can be checked before the kernel runs.
CUresult make_kernel(const std::shared_ptr<Context> &context, const LaunchRequest &request,
                     std::shared_ptr<KernelTask> *task);
// The same without parameters, whatever the request says of them and of the function.
CUresult make_kernel(const Callable &callable, const LaunchRequest &request,
                     std::shared_ptr<KernelTask> *task);
CUresult launch(const StreamRef &stream, const LaunchRequest &request);

// Blocks of a kernel that a multiprocessor holds at once.
int blocks_per_multiprocessor(const Device &device, const KernelAttributes &attributes,
                              int block_threads, size_t dynamic_shared);

// The cluster that a launch has: what it asks for, what the kernel was compiled for, or what was
// set for the function. Zeros: none.
CUresult find_cluster(const Kernel &kernel, const FunctionSettings &settings, const Dim3 &asked,
                      Dim3 *cluster);
// The most blocks that a cluster of this function may have.
uint32_t cluster_limit(const KernelAttributes &attributes, const FunctionSettings &settings);

// The most dynamic shared memory a launch may ask for, as the program has set it.
int dynamic_shared_limit(const KernelAttributes &attributes, const FunctionSettings &settings);

}  // namespace softdev::driver
