// A graph: tasks, and the order between them. The lock of graphs guards all of them: the calls that
// build graphs are short, and one lock leaves no order of locks to get wrong.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "core/handles.h"
#include "cuda_driver.h"
#include "graphs/told.h"
#include "graphs/user_object.h"
#include "streams/task.h"

namespace softdev::driver {

class Graph;
class Node;
class Exec;
class GraphAllocation;
class Condition;

std::mutex &graphs_mutex();
class GraphsLock : public std::unique_lock<std::mutex> {
 public:
  GraphsLock() : std::unique_lock<std::mutex>(graphs_mutex()) {}
};

struct Edge {
  Node *node = nullptr;  // at the other end
  CUgraphEdgeData data = {};
};

inline bool is_plain(const CUgraphEdgeData &data) {
  return !data.from_port && !data.to_port && !data.type;
}

class Node : public Object {
 public:
  static constexpr Kind kKind = Kind::kGraphNode;
  Node(Graph *in, CUgraphNodeType as) : graph(in), type(as) {}

  Graph *graph;  // nullptr when the node has been destroyed
  const CUgraphNodeType type;
  TaskRef task;                                  // empty for empty nodes and child graphs
  std::vector<std::shared_ptr<Graph>> children;  // a child graph; the bodies of a condition
  std::vector<Edge> before, after;               // in the order in which they were added
  uint64_t origin = 0;                           // handle of the node that it is a copy of
  bool enabled = true;                           // of an executable graph
  Told told;

  std::shared_ptr<Node> self() const { return *place_; }

  // Scratch of whoever holds the lock and walks the graph.
  Node *twin = nullptr;
  uint64_t mark = 0, visited = 0;
  uint32_t index = 0;

 private:
  friend class Graph;
  std::list<std::shared_ptr<Node>>::iterator place_;
};

using Nodes = std::list<std::shared_ptr<Node>>;

class Graph : public Object, public std::enable_shared_from_this<Graph> {
 public:
  static constexpr Kind kKind = Kind::kGraph;
  // How deep graphs may lie in one another.
  static constexpr unsigned kDeepest = 64;

  // Unlocked: the user objects it held may be destroyed.
  ~Graph() override;

  const Nodes &nodes() const { return nodes_; }  // in the order in which they were added
  size_t edge_count() const { return edge_count_; }

  // Whether its nodes are, or are to be, known to the program by handles.
  bool named = true;
  bool gone = false;       // the program has destroyed it
  Node *parent = nullptr;  // the node that this graph is embedded in
  uint64_t origin = 0;     // handle of the graph that it is a copy of
  UserReferences user_objects;

  // Values that conditional nodes of this graph, or of those embedded in it, go by.
  std::map<CUgraphConditionalHandle, std::shared_ptr<Condition>> conditions;

  // Allocations tie a graph to one executable graph, and forbid copies of it.
  unsigned memory_nodes = 0;
  std::weak_ptr<Exec> exec;
  std::map<const GraphAllocation *, int> balance;  // allocated less freed, by its nodes
  std::list<std::weak_ptr<Node>> freed;            // nodes that free what it has allocated

  // Adds a node behind others of this graph. `data` may be nullptr.
  CUresult add(CUgraphNodeType type, TaskRef task, const std::vector<Edge> &before, Node **node);
  void remove(Node *node);
  CUresult connect(Node *from, Node *to, const CUgraphEdgeData &data);
  CUresult disconnect(Node *from, Node *to, const CUgraphEdgeData *data);

  // A copy, with copies of all that is embedded in it.
  std::shared_ptr<Graph> clone(bool with_names) const;
  // The node that is a copy of another one; searches embedded graphs, too, when `deep`.
  Node *copy_of(uint64_t origin, bool deep);

  // How many graphs lie in one another at most, this one counted. Stops above kDeepest.
  unsigned depth() const;
  // CUDA_ERROR_NOT_SUPPORTED when they would lie too deep in one another.
  CUresult check_room(const Graph &child) const;
  bool holds_memory_nodes() const;  // here or in an embedded graph

  // Nodes so that each comes behind those it depends on; false when there is no such order. Sets
  // their index.
  bool sort(std::vector<Node *> *sorted) const;

  // Takes away its handle and those of all in it.
  void forget();

 private:
  void index_copies(bool deep);

  Nodes nodes_;
  size_t edge_count_ = 0;
  std::unordered_map<uint64_t, Node *> copies_;  // made when first asked for
};

// With the lock of graphs held: CUDA_ERROR_INVALID_VALUE when there is no such thing.
CUresult find_graph(CUgraph handle, std::shared_ptr<Graph> *graph);
CUresult find_node(CUgraphNode handle, std::shared_ptr<Node> *node);
// Nodes of `graph` as ends of edges. `data` may be nullptr.
CUresult find_edges(const Graph &graph, const CUgraphNode *handles, const CUgraphEdgeData *data,
                    size_t count, std::vector<Edge> *edges);

}  // namespace softdev::driver
