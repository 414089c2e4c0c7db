#include "graphs/update.h"

#include "core/driver.h"
#include "core/log.h"
#include "graphs/params.h"

namespace softdev::driver {
namespace {

// A node of the plan, and what it is to do from now on.
struct Pair {
  Node *node;
  TaskRef task;
  CUgraphNode from;  // that had it
};

// Finds which node of a graph is which of the plan: the last nodes of both are the same in order,
// and so are those each one depends on. With the lock of graphs held.
class Matcher {
 public:
  explicit Matcher(CUgraphExecUpdateResultInfo *info) : info_(info) {}

  bool match(const Graph &plan, const Graph &graph) {
    if (plan.nodes().size() != graph.nodes().size()) return topology(nullptr, nullptr);
    std::vector<Node *> ends;
    for (const auto &node : plan.nodes()) {
      node->twin = nullptr;
      if (node->after.empty()) ends.push_back(node.get());
    }
    for (const auto &node : graph.nodes()) node->twin = nullptr;
    std::vector<Two> open;
    for (const auto &node : graph.nodes()) {
      if (!node->after.empty()) continue;
      if (open.size() == ends.size()) return topology(node.get(), nullptr);
      open.push_back({ends[open.size()], node.get()});
    }
    if (open.size() != ends.size()) return topology(nullptr, nullptr);
    for (Two &two : open)
      if (!pair(two.mine, two.other, nullptr)) return false;
    while (!open.empty()) {
      Two two = open.back();
      open.pop_back();
      if (!match_dependencies(two, &open)) return false;
      for (size_t i = 0; i < two.mine->children.size(); i++)
        if (!match(*two.mine->children[i], *two.other->children[i])) return false;
    }
    return true;
  }

  std::vector<Pair> pairs;

 private:
  struct Two {
    Node *mine, *other;
  };

  bool fail(CUgraphExecUpdateResult why, const Node *node, const Node *from) {
    auto handle = [](const Node *of) {
      return reinterpret_cast<CUgraphNode>(of ? of->handle() : 0);
    };
    *info_ = {why, handle(node), handle(from)};
    return false;
  }
  bool topology(const Node *node, const Node *from) {
    return fail(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, node, from);
  }

  // `of`: the node of the graph that depends on `other`, if any.
  bool pair(Node *mine, Node *other, const Node *of) {
    if (mine->twin || other->twin) return topology(of ? of : other, of ? other : nullptr);
    if (mine->type != other->type)
      return fail(CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, other, nullptr);
    if (mine->children.size() != other->children.size()) return topology(other, nullptr);
    mine->twin = other;
    other->twin = mine;
    if (mine->task)
      pairs.push_back({mine, other->task, reinterpret_cast<CUgraphNode>(other->handle())});
    return true;
  }

  bool match_dependencies(const Two &two, std::vector<Two> *open) {
    if (two.mine->before.size() != two.other->before.size()) return topology(two.other, nullptr);
    for (size_t i = 0; i < two.mine->before.size(); i++) {
      const Edge &mine = two.mine->before[i], &other = two.other->before[i];
      if (mine.data.from_port != other.data.from_port || mine.data.type != other.data.type)
        return topology(two.other, other.node);
      if (mine.node->twin == other.node && other.node->twin == mine.node) continue;
      if (!pair(mine.node, other.node, two.other)) return false;
      open->push_back({mine.node, other.node});
    }
    return true;
  }

  CUgraphExecUpdateResultInfo *const info_;
};

// With the exec's lock held.
CUresult match_and_apply(Exec &exec, const Graph &plan, CUgraph handle,
                         CUgraphExecUpdateResultInfo *info) {
  Matcher matcher(info);
  {
    GraphsLock lock;
    std::shared_ptr<Graph> graph;
    if (CUresult bad = find_graph(handle, &graph)) {
      info->result = CU_GRAPH_EXEC_UPDATE_ERROR;
      return bad;
    }
    if (!matcher.match(plan, *graph))
      return refuse(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "the graphs differ (%d)", info->result);
  }
  for (const Pair &pair : matcher.pairs) {
    if (pair.node->task == pair.task) continue;
    CUgraphExecUpdateResult why = compare(*pair.node->task, *pair.task);
    if (why == CU_GRAPH_EXEC_UPDATE_SUCCESS) continue;
    *info = {why, pair.from, nullptr};
    return refuse(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "a node changes too much (%d)", why);
  }
  {
    GraphsLock lock;  // bodies of conditions may be queued just now
    for (Pair &pair : matcher.pairs) pair.node->task.swap(pair.task);
  }
  exec.changed();
  *info = {CU_GRAPH_EXEC_UPDATE_SUCCESS, nullptr, nullptr};
  return CUDA_SUCCESS;
}

}  // namespace

CUresult set_params(Exec &exec, CUgraphNode handle, const CUgraphNodeParams &params) {
  std::vector<CUlaunchAttribute> attributes;
  std::lock_guard guard(exec.mutex);
  Node *node = exec.find(handle);
  if (!node) return refuse(CUDA_ERROR_INVALID_VALUE, "the node is not of this graph");
  if (node->type != params.type)
    return refuse(CUDA_ERROR_INVALID_VALUE, "the node is of type %d, not %d", node->type,
                  params.type);
  if (node->type == CU_GRAPH_NODE_TYPE_GRAPH) {
    CUgraphExecUpdateResultInfo info;
    return match_and_apply(exec, *node->children[0], params.graph.graph, &info)
               ? CUDA_ERROR_INVALID_VALUE
               : CUDA_SUCCESS;
  }
  if (!node->task) return refuse(CUDA_ERROR_INVALID_VALUE, "the node has no parameters");
  if (node->type == CU_GRAPH_NODE_TYPE_KERNEL)
    attributes = static_cast<const KernelTask &>(*node->task).attributes;
  TaskRef task;
  if (CUresult bad = task_of(params, attributes, &task)) return bad;
  if (CUgraphExecUpdateResult why = compare(*node->task, *task))
    return refuse(CUDA_ERROR_INVALID_VALUE, "the node would change too much (%d)", why);
  {
    GraphsLock lock;  // the body of a condition may be queued just now
    node->task.swap(task);
  }
  exec.changed();
  return CUDA_SUCCESS;
}

CUresult update(Exec &exec, CUgraph graph, CUgraphExecUpdateResultInfo *info) {
  std::lock_guard guard(exec.mutex);
  *info = {CU_GRAPH_EXEC_UPDATE_ERROR, nullptr, nullptr};
  return match_and_apply(exec, *exec.plan, graph, info);
}

}  // namespace softdev::driver
