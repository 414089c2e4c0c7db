// Values in memory that a stream waits for or writes: stream memory operations.
#pragma once

#include <memory>
#include <vector>

#include "cuda_driver.h"
#include "streams/task.h"

namespace softdev::driver {

struct Value {
  bool waits;  // or writes
  bool wide;   // 64 bits
  CUdeviceptr address;
  uint64_t value;
  unsigned flags;
};

// Does one after the other.
class ValuesTask : public Task {
 public:
  ValuesTask(std::shared_ptr<Context> in, std::vector<Value> list)
      : Task(std::move(in)), values(std::move(list)) {}
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP; }
  Work operation(Uses) override;
  bool reachable() const override;

  const std::vector<Value> values;
  std::vector<CUstreamBatchMemOpParams> described;  // for graphs: as the program has them
};

CUresult make_values(const std::shared_ptr<Context> &context, std::vector<Value> values,
                     std::shared_ptr<ValuesTask> *task);

// From the form in which batches come. Barriers and what a stream does anyhow leave no value.
CUresult read_values(const CUstreamBatchMemOpParams *entries, unsigned count,
                     std::vector<Value> *values);

}  // namespace softdev::driver
