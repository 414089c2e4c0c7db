// Graphs of a session: what nodes were sent, and the executable graphs made of them. The leader's.
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

// Arrays that nodes copy to or from, by the number of the node.
using GraphArrays = std::map<uint32_t, wire_graph_arrays>;

// Nodes in the driver's graph, by the numbers that the guest knows them by.
struct GraphNodes {
  struct Node {
    CUgraphNode handle;
    uint32_t type;   // CUgraphNodeType
    uint32_t graph;  // that it is in
    uint64_t weight;
  };

  CUgraph graph = nullptr;
  std::vector<CUgraph> graphs;  // `graph`, and those embedded in it
  std::vector<Node> nodes;
  std::set<const Module *> modules;  // whose kernels are in it
  GraphArrays arrays;
  uint64_t blocks = 0;  // of all kernels, once each
  uint64_t taken = 1;   // what it counts for: itself, nodes and handles of conditions
  bool complete = false;
  bool stale = false;  // a module has been unloaded
};

struct GraphExec {
  std::shared_ptr<GraphNodes> of;
  CUgraphExec object = nullptr;  // null: not complete, or refused
  KernelCost *cost = nullptr;
  GraphArrays arrays;  // those of its own nodes, as they are now
  // What it counts for beside its nodes, which others were made of, too; and nodes whose
  // parameters have become longer here.
  uint64_t taken = 0;
  std::map<uint32_t, uint64_t> grown;
};

class Graphs {
 public:
  explicit Graphs(const Driver &driver) : driver_(driver) {}

  bool can_mint(uint64_t handle) const { return execs_.can_mint(handle); }
  GraphExec *find(uint64_t handle) { return execs_.find(handle); }
  // `handle` can be minted.
  GraphExec *begin(uint64_t handle, std::shared_ptr<GraphNodes> of);
  bool end(uint64_t handle);

  // A graph that conditions were made for; made when first asked for, if it can be minted. Null:
  // the driver refuses, and says why.
  std::shared_ptr<GraphNodes> find_base(uint64_t handle);
  bool can_mint_base(uint64_t handle) const { return bases_.can_mint(handle); }
  std::shared_ptr<GraphNodes> make_base(uint64_t handle, CUresult *result);
  bool forget_base(uint64_t handle);
  std::shared_ptr<GraphNodes> make(CUresult *result);

  // Room for so many more nodes, graphs or handles of conditions. A node counts once more for each
  // so many bytes that it travels as: a driver keeps its edges and parameters.
  static constexpr uint64_t kNodeBytes = 256;
  bool has_room(uint64_t more) const;
  void add(GraphNodes &nodes, uint64_t more) {
    nodes.taken += more;
    taken_ += more;
  }
  // For one more graph of the same nodes; false when there is no room for it.
  bool take(GraphExec &exec);
  // For a node that is to have parameters of this weight; false when there is no room for them.
  bool grow(GraphExec &exec, uint32_t node, uint64_t weight);

  void unloaded(const Module *module);
  // Ends all. No work is under way.
  void clear();

 private:
  const Driver &driver_;
  HandleTable<GraphExec, WIRE_KIND_GRAPH_EXEC> execs_;
  HandleTable<std::shared_ptr<GraphNodes>, WIRE_KIND_GRAPH> bases_;
  uint64_t taken_ = 0;
};

}  // namespace outboard
