// The nodes of a graph, and of those embedded in it, in an order in which they can be queued.
#pragma once

#include <memory>
#include <vector>

#include "graphs/graph.h"

namespace softdev::driver {

class Schedule {
 public:
  // With the lock of graphs held. The graph must outlive it. On failure `*culprit` may be a node.
  // A body of a condition holds fewer types of nodes.
  CUresult make(const Graph &graph, bool body, Node **culprit);

  // Looks whether what copies and sets name may still be touched; with the pin of the memory held.
  // What may not fails its context when its turn comes.
  void check_memory();

  // Whether all contexts that it needs are alive and well.
  CUresult check_contexts() const;

  // Work for all nodes, once: behind batch->first and before batch->last, which is of the given
  // kind. The schedule must live until it is done.
  void queue(const std::shared_ptr<Context> &context, Where end, Batch *batch) const;

  // Calls visit(Node &) for each node, in order; also for those in bodies of conditions.
  template <class Visit>
  void each(Visit visit) const {
    for (const Step &step : steps_) {
      if (step.node) visit(*step.node);
      for (const auto &body : step.bodies) body->each(visit);
    }
  }

 private:
  // A node in its turn, or where an embedded graph begins or ends.
  struct Step {
    Node *node = nullptr;
    bool first = true;                              // behind no other step
    bool blocked = false;                           // it names memory that is gone
    std::vector<uint32_t> after;                    // steps behind it
    std::vector<std::unique_ptr<Schedule>> bodies;  // of a condition
    std::vector<const Schedule *> choices;          // the same
  };
  struct Span {
    uint32_t begin, end;  // the steps through which a node is entered and left
  };

  CUresult add(const Graph &graph, bool body, Node **culprit, std::vector<Span> *spans,
               std::vector<Node *> *sorted);
  Work work_of(const Step &step, const std::shared_ptr<Context> &context) const;
  uint32_t add_step(Node *node);
  void order(uint32_t before, uint32_t after);

  std::vector<Step> steps_;
};

}  // namespace softdev::driver
