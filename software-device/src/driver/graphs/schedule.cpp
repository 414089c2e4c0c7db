#include "graphs/schedule.h"

#include "core/driver.h"
#include "core/log.h"
#include "graphs/condition.h"
#include "graphs/tasks.h"
#include "streams/transfer.h"

namespace softdev::driver {

uint32_t Schedule::add_step(Node *node) {
  steps_.emplace_back();
  steps_.back().node = node;
  return static_cast<uint32_t>(steps_.size() - 1);
}

void Schedule::order(uint32_t before, uint32_t after) {
  steps_[before].after.push_back(after);
  steps_[after].first = false;
}

namespace {

bool allowed_in_body(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_GRAPH:
    case CU_GRAPH_NODE_TYPE_MEMSET:
    case CU_GRAPH_NODE_TYPE_MEMCPY:
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return true;
    default:
      return false;
  }
}

// What copies in a body may name: memory of the device, and of the host where it is pinned.
bool allowed_in_body(const End &end) {
  if (end.side == Side::kArray) return false;
  auto pin = driver()->memory.pin();
  return driver()->memory.find(end.address) != nullptr;
}

bool allowed_in_body(const CopyTask &copy) {
  if (!copy.box.width || !copy.box.height || !copy.box.depth) return true;
  return allowed_in_body(copy.to) && allowed_in_body(copy.from);
}

}  // namespace

CUresult Schedule::add(const Graph &graph, bool body, Node **culprit, std::vector<Span> *spans,
                       std::vector<Node *> *sorted) {
  if (!graph.sort(sorted)) {
    *culprit = nullptr;
    return refuse(CUDA_ERROR_INVALID_VALUE, "the graph has a cycle");
  }
  spans->resize(sorted->size());
  for (size_t i = 0; i < sorted->size(); i++) {
    Node *node = (*sorted)[i];
    if (body && !allowed_in_body(node->type)) {
      *culprit = node;
      return refuse(CUDA_ERROR_NOT_SUPPORTED, "nodes of type %d do not run under a condition",
                    node->type);
    }
    if (body && node->type == CU_GRAPH_NODE_TYPE_MEMCPY &&
        !allowed_in_body(static_cast<const CopyTask &>(*node->task))) {
      *culprit = node;
      return refuse(
          CUDA_ERROR_NOT_SUPPORTED,
          "copies of arrays and of memory that is not pinned do not run under a condition");
    }
    if (node->type != CU_GRAPH_NODE_TYPE_GRAPH) {
      uint32_t step = add_step(node);
      (*spans)[i] = {step, step};
      if (node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
        for (const auto &child : node->children) {
          auto inner = std::make_unique<Schedule>();
          if (CUresult bad = inner->make(*child, true, culprit)) return bad;
          steps_[step].choices.push_back(inner.get());
          steps_[step].bodies.push_back(std::move(inner));
        }
    } else {
      std::vector<Span> inner;
      std::vector<Node *> inner_sorted;
      uint32_t begin = add_step(nullptr);
      if (CUresult bad = add(*node->children[0], body, culprit, &inner, &inner_sorted)) return bad;
      uint32_t end = add_step(nullptr);
      order(begin, end);
      for (size_t k = 0; k < inner_sorted.size(); k++) {
        if (inner_sorted[k]->before.empty()) order(begin, inner[k].begin);
        if (inner_sorted[k]->after.empty()) order(inner[k].end, end);
      }
      (*spans)[i] = {begin, end};
    }
    for (const Edge &edge : node->before) order((*spans)[edge.node->index].end, (*spans)[i].begin);
  }
  return CUDA_SUCCESS;
}

CUresult Schedule::make(const Graph &graph, bool body, Node **culprit) {
  std::vector<Span> spans;
  std::vector<Node *> sorted;
  return add(graph, body, culprit, &spans, &sorted);
}

void Schedule::check_memory() {
  for (Step &step : steps_) {
    if (step.node && step.node->task) step.blocked = !step.node->task->reachable();
    for (const auto &body : step.bodies) body->check_memory();
  }
}

CUresult Schedule::check_contexts() const {
  const Context *last = nullptr;
  for (const Step &step : steps_) {
    for (const auto &body : step.bodies)
      if (CUresult bad = body->check_contexts()) return bad;
    if (!step.node || !step.node->task || step.node->task->context.get() == last) continue;
    last = step.node->task->context.get();
    if (!last->active())
      return refuse(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the context of a node is not alive");
    if (CUresult sticky = last->error()) return sticky;
  }
  return CUDA_SUCCESS;
}

Work Schedule::work_of(const Step &step, const std::shared_ptr<Context> &context) const {
  const Node *node = step.node;
  if (!node || !node->task || !node->enabled)
    return std::make_shared<Operation>(context, Where::kInline);
  if (node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
    return condition_work(std::static_pointer_cast<ConditionTask>(node->task), step.choices.data());
  if (!step.blocked) return node->task->operation(Task::Uses::kAgain);
  auto work = std::make_shared<Operation>(node->task->context, Where::kInline);
  work->run = [](Operation &operation) {
    log(Level::kError, "a copy or set of a graph reaches for memory that has been freed");
    operation.context()->fail(CUDA_ERROR_ILLEGAL_ADDRESS);
  };
  return work;
}

void Schedule::queue(const std::shared_ptr<Context> &context, Where end, Batch *batch) const {
  batch->first = std::make_shared<Operation>(context, Where::kInline);
  batch->last = std::make_shared<Operation>(context, end);
  std::vector<Work> works;
  works.reserve(steps_.size());
  for (const Step &step : steps_) {
    works.push_back(work_of(step, context));
    if (!step.node || !step.node->task) continue;
    if (step.node->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD ||
        step.node->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT) {
      const auto &task = static_cast<const EventTask &>(*step.node->task);
      batch->marks.push_back({task.event, works.back(), task.record});
    }
  }
  for (size_t i = 0; i < steps_.size(); i++) {
    if (steps_[i].first) Queue::order(batch->first, works[i]);
    for (uint32_t after : steps_[i].after) Queue::order(works[i], works[after]);
    if (steps_[i].after.empty()) Queue::order(works[i], batch->last);
  }
  if (steps_.empty()) Queue::order(batch->first, batch->last);
}

}  // namespace softdev::driver
