// Entry points: graphs, their edges, and what is in them.
#include "entry/graphs/graphs.h"

#include <cstdio>

#include "abi_descriptor.h"
#include "graphs/dot.h"

using namespace softdev::driver;

namespace {

// An array without room is a mistake; none at all only asks for the count.
bool has_room(const CUgraphNode *nodes, const size_t *count) { return count && (!nodes || *count); }

// Fills an array that the program has sized, and says how many there are. What is left of it is
// NULL. `items` gives handles in order.
template <class Items>
CUresult tell_nodes(const Items &items, CUgraphNode *nodes, size_t *count) {
  if (!has_room(nodes, count)) return CUDA_ERROR_INVALID_VALUE;
  if (nodes)
    for (size_t i = 0; i < *count; i++) nodes[i] = i < items.size() ? items[i] : nullptr;
  if (!nodes || items.size() < *count) *count = items.size();
  return CUDA_SUCCESS;
}

CUresult nodes_of(CUgraph handle, CUgraphNode *nodes, size_t *count, bool roots) {
  return locked([&]() -> CUresult {
    std::shared_ptr<Graph> graph;
    if (CUresult bad = find_graph(handle, &graph)) return bad;
    std::vector<CUgraphNode> all;
    for (const auto &node : graph->nodes())
      if (!roots || node->before.empty()) all.push_back(as_handle<CUgraphNode>(*node));
    return tell_nodes(all, nodes, count);
  });
}

CUresult neighbours(CUgraphNode handle, std::vector<Edge> Node::*which, CUgraphNode *nodes,
                    CUgraphEdgeData *data, size_t *count) {
  return locked([&]() -> CUresult {
    std::shared_ptr<Node> node;
    if (CUresult bad = find_node(handle, &node)) return bad;
    if ((data && !nodes) || !has_room(nodes, count)) return CUDA_ERROR_INVALID_VALUE;
    const std::vector<Edge> &edges = (*node).*which;
    std::vector<CUgraphNode> all;
    for (const Edge &edge : edges) {
      if (nodes && !data && !is_plain(edge.data))
        return refuse(CUDA_ERROR_LOSSY_QUERY, "an edge has ports or a type");
      all.push_back(as_handle<CUgraphNode>(*edge.node));
    }
    for (size_t i = 0; data && i < *count && i < edges.size(); i++) data[i] = edges[i].data;
    return tell_nodes(all, nodes, count);
  });
}

CUresult edges_of(CUgraph handle, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data,
                  size_t *count) {
  return locked([&]() -> CUresult {
    std::shared_ptr<Graph> graph;
    if (CUresult bad = find_graph(handle, &graph)) return bad;
    if (!has_room(from, count) || !from != !to || (data && !from)) return CUDA_ERROR_INVALID_VALUE;
    if (!from) {
      *count = graph->edge_count();
      return CUDA_SUCCESS;
    }
    size_t at = 0;
    for (const auto &node : graph->nodes())
      for (const Edge &edge : node->before) {
        if (at >= *count) return CUDA_SUCCESS;
        if (!data && !is_plain(edge.data))
          return refuse(CUDA_ERROR_LOSSY_QUERY, "an edge has ports or a type");
        from[at] = as_handle<CUgraphNode>(*edge.node);
        to[at] = as_handle<CUgraphNode>(*node);
        if (data) data[at] = edge.data;
        at++;
      }
    for (size_t i = at; i < *count; i++) from[i] = to[i] = nullptr;
    *count = at;
    return CUDA_SUCCESS;
  });
}

// Calls `act(graph, starts, ends)` with the two sides of some edges; a start has the edge's data.
template <class Act>
CUresult with_edges(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to,
                    const CUgraphEdgeData *data, size_t count, Act act) {
  return locked([&]() -> CUresult {
    std::shared_ptr<Graph> graph;
    if (CUresult bad = find_graph(handle, &graph)) return bad;
    std::vector<Edge> starts, ends;
    if (CUresult bad = find_edges(*graph, from, data, count, &starts)) return bad;
    if (CUresult bad = find_edges(*graph, to, nullptr, count, &ends)) return bad;
    return act(*graph, starts, ends);
  });
}

CUresult add_edges(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to,
                   const CUgraphEdgeData *data, size_t count) {
  auto act = [&](Graph &graph, const std::vector<Edge> &starts,
                 const std::vector<Edge> &ends) -> CUresult {
    for (size_t i = 0; i < count; i++)
      if (CUresult bad = graph.connect(starts[i].node, ends[i].node, starts[i].data)) {
        while (i-- > 0) graph.disconnect(starts[i].node, ends[i].node, &starts[i].data);
        return bad;
      }
    return CUDA_SUCCESS;
  };
  return with_edges(handle, from, to, data, count, act);
}

CUresult remove_edges(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to,
                      const CUgraphEdgeData *data, size_t count) {
  auto act = [&](Graph &graph, const std::vector<Edge> &starts,
                 const std::vector<Edge> &ends) -> CUresult {
    if (graph.memory_nodes && count)
      return refuse(CUDA_ERROR_NOT_SUPPORTED, "edges of a graph that allocates cannot be removed");
    for (size_t i = 0; i < count; i++)
      if (CUresult bad =
              graph.disconnect(starts[i].node, ends[i].node, data ? &starts[i].data : nullptr)) {
        // What was removed comes back, if at the end.
        while (i-- > 0) graph.connect(starts[i].node, ends[i].node, starts[i].data);
        return bad;
      }
    return CUDA_SUCCESS;
  };
  return with_edges(handle, from, to, data, count, act);
}

}  // namespace

extern "C" {

CUresult cuGraphCreate(CUgraph *handle, unsigned int flags) {
  return locked([&] {
    if (!handle || flags) return CUDA_ERROR_INVALID_VALUE;
    auto graph = std::make_shared<Graph>();
    driver()->handles.add(graph);
    *handle = as_handle<CUgraph>(*graph);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphDestroy(CUgraph handle) {
  std::shared_ptr<Graph> graph;  // ends behind the lock: user objects may go with it
  return locked([&]() -> CUresult {
    if (CUresult bad = find_graph(handle, &graph)) return bad;
    if (graph->parent)
      return refuse(CUDA_ERROR_INVALID_VALUE, "the graph belongs to a node of another graph");
    graph->forget();
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphClone(CUgraph *handle, CUgraph original) {
  return locked([&]() -> CUresult {
    std::shared_ptr<Graph> graph;
    if (CUresult bad = find_graph(original, &graph)) return bad;
    if (!handle) return CUDA_ERROR_INVALID_VALUE;
    if (graph->holds_memory_nodes())
      return refuse(CUDA_ERROR_NOT_SUPPORTED, "a graph that allocates cannot be cloned");
    auto copy = graph->clone(true);
    driver()->handles.add(copy);
    *handle = as_handle<CUgraph>(*copy);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphNodeFindInClone(CUgraphNode *found, CUgraphNode original, CUgraph clone) {
  return locked([&]() -> CUresult {
    std::shared_ptr<Node> node;
    std::shared_ptr<Graph> graph;
    if (!found) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult bad = find_node(original, &node)) return bad;
    if (CUresult bad = find_graph(clone, &graph)) return bad;
    Node *copy = graph->copy_of(node->handle(), false);
    if (!copy) return refuse(CUDA_ERROR_INVALID_VALUE, "the graph has no copy of the node");
    *found = as_handle<CUgraphNode>(*copy);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
  return nodes_of(graph, nodes, count, false);
}
CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
  return nodes_of(graph, nodes, count, true);
}
CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count) {
  return edges_of(graph, from, to, nullptr, count);
}
CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to,
                            CUgraphEdgeData *data, size_t *count) {
  return edges_of(graph, from, to, data, count);
}
CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *nodes, size_t *count) {
  return neighbours(node, &Node::before, nodes, nullptr, count);
}
CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *data,
                                       size_t *count) {
  return neighbours(node, &Node::before, nodes, data, count);
}
CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *nodes, size_t *count) {
  return neighbours(node, &Node::after, nodes, nullptr, count);
}
CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *nodes,
                                         CUgraphEdgeData *data, size_t *count) {
  return neighbours(node, &Node::after, nodes, data, count);
}
CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                size_t count) {
  return add_edges(graph, from, to, nullptr, count);
}
CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                   const CUgraphEdgeData *data, size_t count) {
  return add_edges(graph, from, to, data, count);
}
CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                   size_t count) {
  return remove_edges(graph, from, to, nullptr, count);
}
CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                      const CUgraphEdgeData *data, size_t count) {
  return remove_edges(graph, from, to, data, count);
}

CUresult cuGraphDebugDotPrint(CUgraph handle, const char *path, unsigned int flags) {
  constexpr unsigned known = (CU_GRAPH_DEBUG_DOT_FLAGS_CONDITIONAL_NODE_PARAMS << 1) - 1;
  std::string text;
  CUresult result = locked([&]() -> CUresult {
    std::shared_ptr<Graph> graph;
    if (CUresult bad = find_graph(handle, &graph)) return bad;
    if (!path || (flags & ~known)) return CUDA_ERROR_INVALID_VALUE;
    text = dot_of(*graph, flags);
    return CUDA_SUCCESS;
  });
  if (result) return result;
  FILE *file = stream_above(path, "w");
  if (!file) return refuse(CUDA_ERROR_OPERATING_SYSTEM, "%s cannot be written", path);
  bool written = fwrite(text.data(), 1, text.size(), file) == text.size();
  if (fclose(file) != 0 || !written)
    return refuse(CUDA_ERROR_OPERATING_SYSTEM, "%s cannot be written", path);
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType *type) {
  return locked([&]() -> CUresult {
    std::shared_ptr<Node> node;
    if (CUresult bad = find_node(handle, &node)) return bad;
    if (!type) return CUDA_ERROR_INVALID_VALUE;
    *type = node->type;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphDestroyNode(CUgraphNode handle) {
  std::shared_ptr<Node> node;
  return locked([&]() -> CUresult {
    if (CUresult bad = find_node(handle, &node)) return bad;
    if (node->graph->memory_nodes)
      return refuse(CUDA_ERROR_NOT_SUPPORTED, "nodes of a graph that allocates cannot be removed");
    node->graph->remove(node.get());
    return CUDA_SUCCESS;
  });
}

}  // extern "C"
