#include "graphs/graph.h"

#include <algorithm>

#include "core/driver.h"
#include "core/log.h"

namespace softdev::driver {
namespace {

std::mutex the_mutex;

bool same(const CUgraphEdgeData &a, const CUgraphEdgeData &b) {
  return a.from_port == b.from_port && a.to_port == b.to_port && a.type == b.type;
}

CUresult check_data(const Node &from, const Node &to, const CUgraphEdgeData &data) {
  for (unsigned char byte : data.reserved)
    if (byte) return refuse(CUDA_ERROR_INVALID_VALUE, "reserved bytes of an edge are not 0");
  if (data.to_port || data.from_port > 2 || data.type > CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC)
    return refuse(CUDA_ERROR_INVALID_VALUE, "an edge has ports or a type that do not exist");
  bool kernels = from.type == CU_GRAPH_NODE_TYPE_KERNEL && to.type == CU_GRAPH_NODE_TYPE_KERNEL;
  if (data.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC && !kernels)
    return refuse(CUDA_ERROR_INVALID_VALUE, "a programmatic edge leads from kernel to kernel");
  if (data.from_port && from.type != CU_GRAPH_NODE_TYPE_KERNEL)
    return refuse(CUDA_ERROR_INVALID_VALUE, "only kernels have ports");
  return CUDA_SUCCESS;
}

bool connected(const Node &from, const Node &to) {
  auto leads_to = [](const Node &node) {
    return [&node](const Edge &edge) { return edge.node == &node; };
  };
  return from.after.size() < to.before.size()
             ? std::any_of(from.after.begin(), from.after.end(), leads_to(to))
             : std::any_of(to.before.begin(), to.before.end(), leads_to(from));
}

void erase(std::vector<Edge> *edges, const Node *node) {
  edges->erase(std::find_if(edges->begin(), edges->end(),
                            [node](const Edge &edge) { return edge.node == node; }));
}

}  // namespace

std::mutex &graphs_mutex() { return the_mutex; }

Graph::~Graph() = default;

CUresult Graph::connect(Node *from, Node *to, const CUgraphEdgeData &data) {
  if (from == to) return refuse(CUDA_ERROR_INVALID_VALUE, "a node cannot depend on itself");
  if (CUresult bad = check_data(*from, *to, data)) return bad;
  if (connected(*from, *to)) return refuse(CUDA_ERROR_INVALID_VALUE, "the edge exists already");
  from->after.push_back({to, data});
  to->before.push_back({from, data});
  edge_count_++;
  return CUDA_SUCCESS;
}

CUresult Graph::disconnect(Node *from, Node *to, const CUgraphEdgeData *data) {
  auto found = std::find_if(from->after.begin(), from->after.end(),
                            [to](const Edge &edge) { return edge.node == to; });
  if (found == from->after.end()) return refuse(CUDA_ERROR_INVALID_VALUE, "there is no such edge");
  if (data ? !same(*data, found->data) : !is_plain(found->data))
    return refuse(CUDA_ERROR_INVALID_VALUE, "the edge has other ports or another type");
  from->after.erase(found);
  erase(&to->before, from);
  edge_count_--;
  return CUDA_SUCCESS;
}

CUresult Graph::add(CUgraphNodeType type, TaskRef task, const std::vector<Edge> &before,
                    Node **added) {
  auto node = std::make_shared<Node>(this, type);
  node->task = std::move(task);
  nodes_.push_back(node);
  node->place_ = std::prev(nodes_.end());
  for (const Edge &edge : before)
    if (CUresult bad = connect(edge.node, node.get(), edge.data)) {
      remove(node.get());
      return bad;
    }
  if (named) driver()->handles.add(node);
  if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE) memory_nodes++;
  *added = node.get();
  return CUDA_SUCCESS;
}

void Graph::remove(Node *node) {
  copies_.clear();
  edge_count_ -= node->before.size() + node->after.size();
  for (const Edge &edge : node->before) erase(&edge.node->after, node);
  for (const Edge &edge : node->after) erase(&edge.node->before, node);
  if (node->handle()) driver()->handles.remove<Node>(node->handle());
  for (const auto &child : node->children) child->forget();
  node->graph = nullptr;
  nodes_.erase(node->place_);
}

std::shared_ptr<Graph> Graph::clone(bool with_names) const {
  auto copy = std::make_shared<Graph>();
  copy->named = with_names;
  copy->origin = handle();
  copy->user_objects = user_objects;
  copy->conditions = conditions;
  copy->memory_nodes = memory_nodes;
  copy->edge_count_ = edge_count_;
  for (const auto &node : nodes_) {
    auto twin = std::make_shared<Node>(copy.get(), node->type);
    twin->task = node->task;
    twin->origin = node->handle() ? node->handle() : node->origin;
    twin->enabled = node->enabled;
    for (const auto &child : node->children) {
      twin->children.push_back(child->clone(with_names));
      twin->children.back()->parent = twin.get();
      if (with_names) driver()->handles.add(twin->children.back());
    }
    if (with_names) driver()->handles.add(twin);
    node->twin = twin.get();
    copy->nodes_.push_back(std::move(twin));
    copy->nodes_.back()->place_ = std::prev(copy->nodes_.end());
  }
  for (const auto &node : nodes_) {
    for (const Edge &edge : node->before)
      node->twin->before.push_back({edge.node->twin, edge.data});
    for (const Edge &edge : node->after) node->twin->after.push_back({edge.node->twin, edge.data});
  }
  return copy;
}

void Graph::index_copies(bool deep) {
  for (const auto &node : nodes_) {
    copies_.emplace(node->origin, node.get());
    if (!deep) continue;
    for (const auto &child : node->children) {
      child->index_copies(true);
      copies_.merge(child->copies_);
      child->copies_.clear();
    }
  }
}

Node *Graph::copy_of(uint64_t of, bool deep) {
  if (!of) return nullptr;
  auto found = copies_.find(of);
  if (found == copies_.end() && copies_.empty()) {
    index_copies(deep);
    found = copies_.find(of);
  }
  return found == copies_.end() ? nullptr : found->second;
}

unsigned Graph::depth() const {
  unsigned deepest = 0;
  for (const auto &node : nodes_)
    for (const auto &child : node->children)
      if ((deepest = std::max(deepest, child->depth())) >= kDeepest) return deepest + 1;
  return deepest + 1;
}

CUresult Graph::check_room(const Graph &child) const {
  unsigned deep = child.depth();
  for (const Graph *at = this; at && deep <= kDeepest; deep++)
    at = at->parent ? at->parent->graph : nullptr;
  if (deep <= kDeepest) return CUDA_SUCCESS;
  return refuse(CUDA_ERROR_NOT_SUPPORTED, "graphs lie in one another more than %u deep", kDeepest);
}

bool Graph::holds_memory_nodes() const {
  if (memory_nodes) return true;
  for (const auto &node : nodes_)
    for (const auto &child : node->children)
      if (child->holds_memory_nodes()) return true;
  return false;
}

bool Graph::sort(std::vector<Node *> *sorted) const {
  sorted->clear();
  sorted->reserve(nodes_.size());
  for (const auto &node : nodes_) {
    node->index = static_cast<uint32_t>(node->before.size());
    if (node->before.empty()) sorted->push_back(node.get());
  }
  for (size_t at = 0; at < sorted->size(); at++)
    for (const Edge &edge : (*sorted)[at]->after)
      if (--edge.node->index == 0) sorted->push_back(edge.node);
  if (sorted->size() != nodes_.size()) return false;
  for (uint32_t i = 0; i < sorted->size(); i++) (*sorted)[i]->index = i;
  return true;
}

void Graph::forget() {
  gone = true;
  Handles &handles = driver()->handles;
  if (handle()) handles.remove<Graph>(handle());
  for (const auto &node : nodes_) {
    if (node->handle()) handles.remove<Node>(node->handle());
    node->graph = nullptr;
    for (const auto &child : node->children) child->forget();
  }
}

CUresult find_graph(CUgraph handle, std::shared_ptr<Graph> *graph) {
  *graph = driver()->handles.find<Graph>(handle);
  if (*graph) return CUDA_SUCCESS;
  return refuse(CUDA_ERROR_INVALID_VALUE, "%p is no graph", static_cast<void *>(handle));
}

CUresult find_node(CUgraphNode handle, std::shared_ptr<Node> *node) {
  *node = driver()->handles.find<Node>(handle);
  if (*node && (*node)->graph) return CUDA_SUCCESS;
  return refuse(CUDA_ERROR_INVALID_VALUE, "%p is no node of a graph", static_cast<void *>(handle));
}

CUresult find_edges(const Graph &graph, const CUgraphNode *handles, const CUgraphEdgeData *data,
                    size_t count, std::vector<Edge> *edges) {
  if (count && !handles) return refuse(CUDA_ERROR_INVALID_VALUE, "the nodes are NULL");
  edges->clear();
  for (size_t i = 0; i < count; i++) {
    std::shared_ptr<Node> node;
    if (CUresult bad = find_node(handles[i], &node)) return bad;
    if (node->graph != &graph)
      return refuse(CUDA_ERROR_INVALID_VALUE, "a node belongs to another graph");
    edges->push_back({node.get(), data ? data[i] : CUgraphEdgeData{}});
  }
  return CUDA_SUCCESS;
}

}  // namespace softdev::driver
