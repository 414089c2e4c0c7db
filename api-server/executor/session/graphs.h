// The graphs of a session: the nodes that were sent, and the executable graphs that are made of
// them. Used by the leader alone.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/driver.h"
#include "base/handles.h"
#include "images/module.h"
#include "wire_graph.h"

namespace outboard {

// The arrays that a node copies to or from. A handle can be minted again, so which of the session's
// arrays it was stands beside it.
struct NodeArrays {
  wire_graph_arrays of{};
  uint64_t to_number = 0, from_number = 0;  // Array::number
};
// By the number of the node.
using GraphArrays = std::map<uint32_t, NodeArrays>;

// A graph of the driver's, and its nodes under the numbers by which the guest knows them.
struct GraphNodes {
  struct Node {
    CUgraphNode handle;
    uint32_t type;    // CUgraphNodeType
    uint32_t graph;   // the place in `graphs` of the one that it is in
    uint64_t weight;  // for how many nodes it counts
    uint64_t blocks;  // of its kernel, if it is one
  };

  CUgraph graph = nullptr;
  std::vector<CUgraph> graphs;  // `graph`, and those that are embedded in it
  std::vector<Node> nodes;
  std::set<const Module *> modules;  // those whose kernels are in it
  GraphArrays arrays;
  std::set<CUgraphConditionalHandle> conditions;  // handles that were made for it
  uint64_t blocks = 0;                            // the blocks of all its kernels, once each
  uint64_t taken = 1;     // for how much it counts: itself, its nodes and handles of conditions
  bool calls = false;     // some node calls a function of the program
  bool complete = false;  // all its nodes have come
  bool stale = false;     // a module of one of its kernels has been unloaded
};

// An executable graph.
struct GraphExec {
  std::shared_ptr<GraphNodes> of;  // what it is made of; other executable graphs may be, too
  CUgraphExec object = nullptr;    // null: it is not complete, or the driver has refused it
  KernelCost *cost = nullptr;
  GraphArrays arrays;   // those of its nodes, as they are now
  uint64_t blocks = 0;  // the blocks of all its kernels, as they are now
  // For how much it counts beside `of`.
  uint64_t taken = 0;
  // For how much nodes count whose parameters have become longer here, and how many blocks those
  // have whose grids have changed.
  std::map<uint32_t, uint64_t> grown;
  std::map<uint32_t, uint64_t> resized;
};

class Graphs {
 public:
  explicit Graphs(const Driver &driver) : driver_(driver) {}

  // Whether there is no executable graph, and no graph that handles of conditions were made for.
  bool empty() const { return execs_.empty() && bases_.empty(); }
  bool can_mint(uint64_t handle) const { return execs_.can_mint(handle); }
  GraphExec *find(uint64_t handle) { return execs_.find(handle); }
  // Keeps an executable graph, which the driver has not made yet, under a handle that can be
  // minted.
  GraphExec *begin(uint64_t handle, std::shared_ptr<GraphNodes> of);
  // Destroys an executable graph. False when there is none of this handle.
  bool end(uint64_t handle);

  // A base is a graph that handles of conditions were made for before its nodes have come.
  //
  // Returns the base of a handle; null when there is none.
  std::shared_ptr<GraphNodes> find_base(uint64_t handle);
  bool can_mint_base(uint64_t handle) const { return bases_.can_mint(handle); }
  // Makes a base under a handle that can be minted. Null, with the reason in *result, when the
  // session may have no more or the driver refuses.
  std::shared_ptr<GraphNodes> make_base(uint64_t handle, CUresult *result);
  // Frees the handle. False when there is no such base.
  bool forget_base(uint64_t handle);
  // Makes a graph without nodes. Null as for make_base.
  std::shared_ptr<GraphNodes> make(CUresult *result);

  // A node counts once more for each so many bytes of its record, as a driver keeps its edges and
  // parameters.
  static constexpr uint64_t kNodeBytes = 256;
  // Whether the session may have so many more nodes, graphs and handles of conditions.
  bool has_room(uint64_t more) const;
  // Counts so many more for a graph; has_room has been asked.
  void add(GraphNodes &nodes, uint64_t more) {
    nodes.taken += more;
    taken_ += more;
  }
  // Counts an executable graph that is made of nodes which others are made of, too. False, with
  // nothing counted, when there is no room for it.
  bool take(GraphExec &exec);
  // Counts a node of an executable graph whose parameters get this weight. False, with nothing
  // counted, when there is no room for them.
  bool grow(GraphExec &exec, uint32_t node, uint64_t weight);
  // The kernel of this node of an executable graph has so many blocks from now on.
  static void resize(GraphExec &exec, uint32_t node, uint64_t blocks);

  // Marks the graphs as stale that have kernels of this module.
  void unloaded(const Module *module);
  // Destroys all graphs. No work is under way.
  void clear();

 private:
  const Driver &driver_;
  HandleTable<GraphExec, WIRE_KIND_GRAPH_EXEC> execs_;
  HandleTable<std::shared_ptr<GraphNodes>, WIRE_KIND_GRAPH> bases_;
  uint64_t taken_ = 0;
};

}  // namespace outboard
