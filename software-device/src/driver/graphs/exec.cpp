#include "graphs/exec.h"

#include "core/driver.h"
#include "core/log.h"
#include "graphs/capture.h"

namespace softdev::driver {

CUresult Exec::make(const std::shared_ptr<Graph> &graph, uint64_t flags,
                    std::shared_ptr<Exec> *made, uint64_t *culprit, CUgraphInstantiateResult *why) {
  *culprit = 0;
  *why = CUDA_GRAPH_INSTANTIATE_ERROR;
  if (graph->memory_nodes && !graph->exec.expired())
    return refuse(CUDA_ERROR_NOT_SUPPORTED,
                  "a graph that allocates has one executable graph at a time");
  auto exec = std::make_shared<Exec>(flags);
  exec->plan = graph->clone(false);
  Node *bad_node = nullptr;
  if (CUresult bad = exec->schedule_->make(*exec->plan, false, &bad_node)) {
    *why = bad == CUDA_ERROR_NOT_SUPPORTED ? CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED
                                           : CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
    if (bad_node) *culprit = bad_node->origin;
    return bad;
  }
  for (const auto &[handle, condition] : graph->conditions)
    if (!condition->used) {
      *why = CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED;
      return refuse(CUDA_ERROR_INVALID_VALUE, "a handle of a condition has no node");
    }
  exec->schedule_->each([&](const Node &node) {
    if (node.type == CU_GRAPH_NODE_TYPE_CONDITIONAL) exec->conditional_ = true;
    bool allocates = node.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    if (!allocates && node.type != CU_GRAPH_NODE_TYPE_MEM_FREE) return;
    const GraphAllocationRef &allocation =
        allocates ? static_cast<const AllocateTask &>(*node.task).allocation
                  : static_cast<const FreeTask &>(*node.task).allocation;
    Balance &balance = exec->memory_[allocation.get()];
    balance.allocation = allocation;
    balance.left += allocates ? 1 : -1;
    balance.allocates = balance.allocates || allocates;
  });
  if (graph->memory_nodes) graph->exec = exec;
  *why = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  *made = std::move(exec);
  return CUDA_SUCCESS;
}

CUresult Exec::allocate() {
  for (const auto &[key, balance] : memory_) {
    bool live = balance.allocation->live();
    if (balance.left > 0 && live && !(flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH))
      return refuse(CUDA_ERROR_INVALID_VALUE,
                    "what the launch before has allocated has not been freed");
    if (balance.left < 0 && !live)
      return refuse(CUDA_ERROR_INVALID_VALUE, "what the graph frees is not allocated");
  }
  for (const auto &[key, balance] : memory_)
    if (balance.allocates && !balance.allocation->back())
      return refuse(CUDA_ERROR_OUT_OF_MEMORY, "there are no %llu bytes for the graph",
                    static_cast<unsigned long long>(balance.allocation->size));
  return CUDA_SUCCESS;
}

void Exec::reset_conditions(const Work &before) const {
  std::vector<std::shared_ptr<Condition>> all;
  schedule_->each([&](const Node &node) {
    if (node.type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
      all.push_back(static_cast<const ConditionTask &>(*node.task).condition);
  });
  before->run = [all = std::move(all)](Operation &) {
    for (const auto &condition : all) condition->begin();
  };
}

CUresult Exec::launch(const StreamRef &stream) {
  Batch batch;
  {
    std::lock_guard guard(mutex);
    if (CUresult bad = schedule_->check_contexts()) return bad;
    std::unique_lock<std::mutex> memory_guard;
    if (!memory_.empty()) {
      memory_guard = std::unique_lock(graph_memory_mutex());
      CUresult bad = allocate();
      if (bad == CUDA_ERROR_OUT_OF_MEMORY) {
        // Other graphs may hold what they do not use.
        memory_guard.unlock();
        trim_graph_memory(stream.context->device().ordinal);
        memory_guard.lock();
        bad = allocate();
      }
      if (bad) return bad;
    }
    // While it is pinned no memory goes away; what is freed once the work is queued waits for it.
    Memory &memory = driver()->memory;
    Memory::Pin pin = memory.pin();
    if (uint64_t removals = memory.removals(); removals != removals_) {
      schedule_->check_memory();
      removals_ = removals;
    }
    // The end of a graph that allocates may free memory, which is not done just anywhere.
    schedule_->queue(stream.context,
                     memory_.empty() && !conditional_ ? Where::kInline : Where::kCopier, &batch);
    if (conditional_) reset_conditions(batch.first);
    // The plan, and user objects with it, stay until it is done.
    batch.last->run = [plan = plan, schedule = schedule_](Operation &) {};
    batch.last->always = true;  // a failed context lets go of them in the same place
    bool ready = Queue::enqueue(*stream, batch, last_);
    last_ = batch.last;
    for (const auto &[key, balance] : memory_)
      if (balance.left) balance.allocation->set_live(balance.left > 0);
    if (!ready) return CUDA_SUCCESS;
  }
  Queue::start(batch.first);
  return CUDA_SUCCESS;
}

CUresult Exec::capture(const StreamRef &stream) {
  std::lock_guard guard(mutex);
  GraphsLock lock;
  if (plan->holds_memory_nodes())
    return refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "a graph that allocates is not captured");
  return capture_graph(stream, *plan);
}

CUresult find_exec(CUgraphExec handle, std::shared_ptr<Exec> *exec) {
  *exec = driver()->handles.find<Exec>(handle);
  if (*exec) return CUDA_SUCCESS;
  return refuse(CUDA_ERROR_INVALID_VALUE, "%p is no executable graph", static_cast<void *>(handle));
}

}  // namespace softdev::driver
