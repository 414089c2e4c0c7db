#include "graphs/condition.h"

#include "core/driver.h"
#include "core/log.h"
#include "graphs/schedule.h"

namespace softdev::driver {
namespace {

// One execution of a conditional node. Bodies may end on any thread, also before start() returns:
// then the one who started goes on, so that loops need no stack.
class Loop : public std::enable_shared_from_this<Loop> {
 public:
  Loop(Work node, std::shared_ptr<ConditionTask> task, const Schedule *const *bodies)
      : node_(std::move(node)), task_(std::move(task)), bodies_(bodies) {}

  void advance() {
    while (const Schedule *body = choose()) {
      phase_.store(kStarting, std::memory_order_relaxed);
      Batch batch;
      {
        GraphsLock lock;  // nodes get new parameters under it
        body->queue(task_->context, Where::kInline, &batch);
      }
      batch.last->always = true;
      batch.last->run = [self = shared_from_this()](Operation &) { self->ended(); };
      Queue::start(batch.first);
      int starting = kStarting;
      if (phase_.compare_exchange_strong(starting, kRunning, std::memory_order_acq_rel)) return;
    }
    node_->finish();
  }

 private:
  enum { kStarting, kRunning, kEnded };

  void ended() {
    int starting = kStarting;
    if (!phase_.compare_exchange_strong(starting, kEnded, std::memory_order_acq_rel)) advance();
  }

  const Schedule *choose() {
    if (task_->context->failed()) return nullptr;
    unsigned value = task_->condition->value();
    switch (task_->kind) {
      case CU_GRAPH_COND_TYPE_WHILE:
        return value ? bodies_[0] : nullptr;
      case CU_GRAPH_COND_TYPE_IF:
        if (done_) return nullptr;
        done_ = true;
        return value ? bodies_[0] : task_->size > 1 ? bodies_[1] : nullptr;
      default:
        if (done_) return nullptr;
        done_ = true;
        return value < task_->size ? bodies_[value] : nullptr;
    }
  }

  const Work node_;
  const std::shared_ptr<ConditionTask> task_;
  const Schedule *const *const bodies_;
  std::atomic<int> phase_{kStarting};
  bool done_ = false;
};

}  // namespace

std::shared_ptr<Condition> Condition::make(const std::shared_ptr<Context> &context, unsigned value,
                                           bool reset) {
  uint64_t region = 0;
  // Of no context: graphs may outlive theirs.
  uint64_t address =
      driver()->memory.reserve_device(context->device().ordinal, sizeof(uint32_t), 0, &region);
  if (!address) return nullptr;
  std::shared_ptr<Condition> made(new Condition(address, region, value, reset));
  __atomic_store_n(reinterpret_cast<uint32_t *>(address), value, __ATOMIC_RELEASE);
  return made;
}

Condition::~Condition() {
  Memory &memory = driver()->memory;
  auto region =
      memory.remove(address_, [this](const Region &candidate) { return candidate.id == region_; });
  if (region) memory.destroy(std::move(region), [] {});
}

void Condition::begin() {
  if (reset_) __atomic_store_n(reinterpret_cast<uint32_t *>(address_), initial_, __ATOMIC_RELEASE);
}

Work condition_work(const std::shared_ptr<ConditionTask> &task, const Schedule *const *bodies) {
  auto work = std::make_shared<Operation>(task->context, Where::kEngine);
  work->run = [task, bodies](Operation &operation) {
    std::make_shared<Loop>(operation.shared_from_this(), task, bodies)->advance();
  };
  return work;
}

CUresult add_condition(Graph *graph, const std::shared_ptr<Context> &context,
                       const CUDA_CONDITIONAL_NODE_PARAMS &params, const std::vector<Edge> &before,
                       Node **added) {
  bool two = params.type == CU_GRAPH_COND_TYPE_IF && params.size == 2;
  bool any = params.type == CU_GRAPH_COND_TYPE_SWITCH && params.size > 0 && params.size <= 4096;
  bool one = (params.type == CU_GRAPH_COND_TYPE_IF || params.type == CU_GRAPH_COND_TYPE_WHILE) &&
             params.size == 1;
  if (!one && !two && !any)
    return refuse(CUDA_ERROR_INVALID_VALUE, "a condition of type %d has not %u bodies", params.type,
                  params.size);
  // A handle is made for a graph, and used in it or in what is embedded there.
  std::shared_ptr<Condition> condition;
  for (const Graph *at = graph; at && !condition; at = at->parent ? at->parent->graph : nullptr)
    if (auto found = at->conditions.find(params.handle); found != at->conditions.end())
      condition = found->second;
  if (!condition || condition->used)
    return refuse(CUDA_ERROR_INVALID_VALUE, "the handle is not of this graph, or is in use");
  if (CUresult bad = graph->check_room(Graph())) return bad;
  auto task = std::make_shared<ConditionTask>(context, condition, params.type, params.size);
  std::vector<std::shared_ptr<Graph>> bodies;
  for (unsigned i = 0; i < params.size; i++) bodies.push_back(std::make_shared<Graph>());
  Node *node;
  if (CUresult bad = graph->add(CU_GRAPH_NODE_TYPE_CONDITIONAL, task, before, &node)) return bad;
  for (const auto &body : bodies) {
    body->parent = node;
    driver()->handles.add(body);
    task->bodies.push_back(reinterpret_cast<CUgraph>(body->handle()));
  }
  node->children = std::move(bodies);
  condition->used = true;
  *added = node;
  return CUDA_SUCCESS;
}

}  // namespace softdev::driver
