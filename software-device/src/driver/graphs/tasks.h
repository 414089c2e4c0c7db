// Tasks that streams do by other means, and graphs in nodes.
#pragma once

#include "streams/task.h"

namespace softdev::driver {

// Records an event, or waits for it. Which work that is about is found at each launch (Batch).
class EventTask : public Task {
 public:
  EventTask(std::shared_ptr<Context> in, std::shared_ptr<Event> of, bool records)
      : Task(std::move(in)), event(std::move(of)), record(records) {}
  CUgraphNodeType type() const override {
    return record ? CU_GRAPH_NODE_TYPE_EVENT_RECORD : CU_GRAPH_NODE_TYPE_WAIT_EVENT;
  }
  Work operation(Uses) override { return std::make_shared<Operation>(context, Where::kInline); }

  const std::shared_ptr<Event> event;
  const bool record;
};

}  // namespace softdev::driver
