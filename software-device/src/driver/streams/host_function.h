// A function of the program that a stream calls.
#pragma once

#include "streams/task.h"

namespace softdev::driver {

class HostTask : public Task {
 public:
  HostTask(std::shared_ptr<Context> in, CUhostFn to_call, void *with, unsigned waits = 0)
      : Task(std::move(in)), function(to_call), data(with), sync_mode(waits) {}
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_HOST; }
  Work operation(Uses) override;

  const CUhostFn function;
  void *const data;
  const unsigned sync_mode;  // how the one who calls waits for it to be called: a hint
};

}  // namespace softdev::driver
