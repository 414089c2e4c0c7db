// Conditional nodes: graphs that run, or run again, as a value says that kernels set.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "graphs/graph.h"
#include "streams/task.h"

namespace softdev::driver {

class Schedule;

// The value, in device memory of its own: its address is the handle that kernels write through.
class Condition {
 public:
  // Empty when memory is out.
  static std::shared_ptr<Condition> make(const std::shared_ptr<Context> &context, unsigned value,
                                         bool reset);
  ~Condition();

  CUgraphConditionalHandle handle() const { return address_; }
  unsigned value() const {
    return __atomic_load_n(reinterpret_cast<const uint32_t *>(address_), __ATOMIC_ACQUIRE);
  }
  // At a launch: gives it the value it is to begin with, if it has one.
  void begin();

  bool used = false;  // by a node; under the lock of graphs

 private:
  Condition(uint64_t address, uint64_t region, unsigned initial, bool reset)
      : address_(address), region_(region), initial_(initial), reset_(reset) {}

  const uint64_t address_, region_;
  const unsigned initial_;
  const bool reset_;
};

class ConditionTask : public Task {
 public:
  ConditionTask(std::shared_ptr<Context> in, std::shared_ptr<Condition> on,
                CUgraphConditionalNodeType as, unsigned bodies)
      : Task(std::move(in)), condition(std::move(on)), kind(as), size(bodies) {}
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_CONDITIONAL; }
  // The bodies are not the task's: the schedule makes the operation.
  Work operation(Uses) override { return std::make_shared<Operation>(context, Where::kInline); }

  const std::shared_ptr<Condition> condition;
  const CUgraphConditionalNodeType kind;
  const unsigned size;
  std::vector<CUgraph> bodies;  // of the first node that it was for; told to the program
};

// Work that runs the bodies as the condition says; they must live until it is done.
Work condition_work(const std::shared_ptr<ConditionTask> &task, const Schedule *const *bodies);

// Adds a node with empty bodies; with the lock of graphs held.
CUresult add_condition(Graph *graph, const std::shared_ptr<Context> &context,
                       const CUDA_CONDITIONAL_NODE_PARAMS &params, const std::vector<Edge> &before,
                       Node **node);

}  // namespace softdev::driver
