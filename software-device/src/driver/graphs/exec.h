// An executable graph: a copy of a graph of which nothing but the parameters of nodes changes.
#pragma once

#include <memory>
#include <mutex>

#include "graphs/condition.h"
#include "graphs/graph.h"
#include "graphs/memory.h"
#include "graphs/schedule.h"

namespace softdev::driver {

class Exec : public Object {
 public:
  static constexpr Kind kKind = Kind::kGraphExec;
  explicit Exec(uint64_t with_flags) : flags(with_flags) {}

  // With the lock of graphs held. On failure `*culprit` is the handle of a node of `graph`, or 0.
  static CUresult make(const std::shared_ptr<Graph> &graph, uint64_t flags,
                       std::shared_ptr<Exec> *exec, uint64_t *culprit,
                       CUgraphInstantiateResult *why);

  // Queues all of it once, behind its stream and its own last launch.
  CUresult launch(const StreamRef &stream);

  // Into a stream that is being captured: all of it becomes a node there.
  CUresult capture(const StreamRef &stream);

  // Tasks of the plan are others now.
  void changed() { removals_ = UINT64_MAX; }

  const uint64_t flags;
  // For all below; held before the memory's pin and the lock of graphs. Tasks of nodes change with
  // both locks held.
  std::mutex mutex;
  std::shared_ptr<Graph> plan;
  // The plan's node for a node of the graph it was made from, or of one embedded in it.
  Node *find(CUgraphNode node) { return plan->copy_of(reinterpret_cast<uint64_t>(node), true); }

 private:
  // Has conditions begin with their values.
  void reset_conditions(const Work &before) const;
  // Notes what a launch leaves allocated or frees, and gives memory to what it uses.
  CUresult allocate();

  std::shared_ptr<Schedule> schedule_ = std::make_shared<Schedule>();
  bool conditional_ = false;
  struct Balance {
    GraphAllocationRef allocation;
    int left = 0;  // 1: a launch leaves it allocated; -1: it frees what another has left
    bool allocates = false;
  };
  std::map<const GraphAllocation *, Balance> memory_;
  uint64_t removals_ = UINT64_MAX;  // of memory, when what is named was last looked at
  Work last_;                       // the end of the latest launch
};

CUresult find_exec(CUgraphExec handle, std::shared_ptr<Exec> *exec);

}  // namespace softdev::driver
