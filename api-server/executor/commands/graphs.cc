// Commands of graphs. A graph that is refused, for whatever reason, is one that cannot be launched;
// why, the guest is told like any error of a posted command.
#include <algorithm>

#include "commands/graph_records.h"
#include "dispatch.h"

namespace outboard {

namespace {

uint64_t blocks_of(const GraphRecords &records) {
  const wire_graph_kernel *q = records.kernel();
  return q ? blocks_of_grid(q->grid[0], q->grid[1], q->grid[2]) : 0;
}

uint64_t weight_of(const wire_graph_node &node) { return 1 + node.size / Graphs::kNodeBytes; }

// What a node copies to or from from now on.
void note_arrays(Session &s, const GraphRecords &records, uint32_t node, GraphArrays *arrays) {
  const wire_graph_arrays &of = records.arrays();
  if (of.to || of.from) {
    (*arrays)[node] = {of, s.arrays().number_of(of.to), s.arrays().number_of(of.from)};
  } else {
    arrays->erase(node);
  }
}

// No driver is to find an array that it has destroyed.
bool are_there(Session &s, const GraphArrays &arrays) {
  for (const auto &[node, known] : arrays) {
    if (s.arrays().number_of(known.of.to) != known.to_number ||
        s.arrays().number_of(known.of.from) != known.from_number) {
      return false;
    }
  }
  return true;
}

// Reads nodes into the driver's graph.
class Builder {
 public:
  Builder(Session &s, GraphNodes &nodes, std::span<const uint8_t> bytes)
      : s_(s), nodes_(nodes), records_(s, bytes) {}

  // `*why` is set when the bytes make no sense.
  CUresult run(const char **why) {
    CUresult result = CUDA_SUCCESS;
    while (const wire_graph_node *head = records_.next()) {
      if (result == CUDA_SUCCESS) result = add(*head);
      if (*why || records_.why()) break;
    }
    if (!*why) *why = why_ ? why_ : records_.why();
    return result;
  }

 private:
  CUresult add(const wire_graph_node &head) {
    if (head.graph >= nodes_.graphs.size()) return wrong("a node is of a graph that there is not");
    before_.clear();
    data_.clear();
    for (const wire_graph_edge &edge : records_.edges()) {
      if (edge.from >= nodes_.nodes.size() || nodes_.nodes[edge.from].graph != head.graph) {
        return wrong("an edge leads from a node that there is not");
      }
      before_.push_back(nodes_.nodes[edge.from].handle);
      data_.push_back({edge.from_port, edge.to_port, edge.type, {}});
    }
    CUgraphNodeParams params;
    if (CUresult result = records_.params(&params); result != CUDA_SUCCESS) return result;
    // A driver takes such a handle as it is.
    if (head.type == CU_GRAPH_NODE_TYPE_CONDITIONAL &&
        nodes_.conditions.count(params.conditional.handle) == 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const uint64_t weight = weight_of(head);
    const uint64_t more = weight + records_.bodies();
    if (!s_.graphs().has_room(more)) return CUDA_ERROR_OUT_OF_MEMORY;
    CUgraph empty = nullptr;
    if (head.type == CU_GRAPH_NODE_TYPE_GRAPH) {
      // Its nodes come behind it, into the copy that the node has.
      if (CUresult result = s_.driver().cuGraphCreate(&empty, 0); result != CUDA_SUCCESS) {
        return result;
      }
      params.graph.graph = empty;
      params.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE;
    }
    CUgraphNode node = nullptr;
    CUresult result = s_.driver().cuGraphAddNode_v2(
        &node, nodes_.graphs[head.graph], before_.data(), data_.data(), before_.size(), &params);
    if (empty) s_.driver().cuGraphDestroy(empty);
    if (result == CUDA_SUCCESS && records_.kernel()) result = finish_kernel(node);
    if (result != CUDA_SUCCESS) return result;
    if (head.type == CU_GRAPH_NODE_TYPE_GRAPH) {
      CUgraph child = nullptr;
      result = s_.driver().cuGraphChildGraphNodeGetGraph(node, &child);
      if (result != CUDA_SUCCESS) return result;
      nodes_.graphs.push_back(child);
    } else {
      for (uint32_t i = 0; i < records_.bodies(); i++) {
        nodes_.graphs.push_back(params.conditional.phGraph_out[i]);
      }
    }
    note_arrays(s_, records_, static_cast<uint32_t>(nodes_.nodes.size()), &nodes_.arrays);
    const uint64_t blocks = blocks_of(records_);
    nodes_.blocks += blocks;
    nodes_.nodes.push_back({node, head.type, head.graph, weight, blocks});
    s_.graphs().add(nodes_, more);
    return CUDA_SUCCESS;
  }

  CUresult finish_kernel(CUgraphNode node) {
    const wire_graph_kernel &q = *records_.kernel();
    const Function &function = *records_.function();
    nodes_.modules.insert(function.module);
    CUlaunchAttributeValue value{};
    CUresult result = CUDA_SUCCESS;
    const auto set = [&](CUlaunchAttributeID id) {
      if (result == CUDA_SUCCESS) {
        result = s_.driver().cuGraphKernelNodeSetAttribute(node, id, &value);
      }
    };
    if (q.cooperative) {
      value.cooperative = 1;
      set(CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
    }
    if (q.cluster[0]) {
      value = {};
      value.clusterDim = {q.cluster[0], q.cluster[1], q.cluster[2]};
      set(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
    }
    if (q.priority) {
      value = {};
      value.priority = q.priority;
      set(CU_LAUNCH_ATTRIBUTE_PRIORITY);
    }
    return result;
  }

  CUresult wrong(const char *why) {
    why_ = why;
    return CUDA_ERROR_INVALID_VALUE;
  }

  Session &s_;
  GraphNodes &nodes_;
  GraphRecords records_;
  std::vector<CUgraphNode> before_;
  std::vector<CUgraphEdgeData> data_;
  const char *why_ = nullptr;
};

// The payload, where records can be read; false when the connection is gone.
bool receive(Session &s, uint64_t length, std::vector<uint64_t> *words) {
  words->resize(length / 8 + 2);  // and the padding
  return s.payload(reinterpret_cast<uint8_t *>(words->data()), length);
}

std::span<const uint8_t> bytes_of(const std::vector<uint64_t> &words, uint64_t length) {
  return {reinterpret_cast<const uint8_t *>(words.data()), length};
}

CUresult instantiate(Session &s, GraphExec &exec) {
  exec.of->complete = true;
  exec.of->calls = std::ranges::any_of(
      exec.of->nodes, [](const auto &node) { return node.type == CU_GRAPH_NODE_TYPE_HOST; });
  exec.arrays = exec.of->arrays;
  exec.blocks = exec.of->blocks;
  if (!are_there(s, exec.arrays)) return CUDA_ERROR_INVALID_HANDLE;
  // Graphs that look alike share what was measured.
  exec.cost = s.gate().cost_of("[graph of " + std::to_string(exec.of->nodes.size()) + " nodes, " +
                               std::to_string(exec.of->blocks) + " blocks]");
  return s.driver().cuGraphInstantiateWithFlags(&exec.object, exec.of->graph, 0);
}

// Makes it one that cannot be launched.
void give_up(GraphExec &exec) { exec.of->stale = true; }

}  // namespace

void handle_GraphBuild(Session &s, const wire_GraphBuild &in_place) {
  const wire_GraphBuild q = in_place;  // receiving the payload overwrites the frame
  const auto posted = [&](CUresult result) { s.posted(WIRE_GraphBuild, result); };
  std::vector<uint64_t> words;
  if (!receive(s, q.length, &words)) return;
  GraphExec *exec = s.graphs().find(q.exec);
  if (!exec) {
    if (!s.graphs().can_mint(q.exec)) return s.violation("a graph's handle cannot be minted");
    CUresult result = CUDA_SUCCESS;
    std::shared_ptr<GraphNodes> nodes =
        q.base ? s.graphs().find_base(q.base) : s.graphs().make(&result);
    if (!nodes) return posted(q.base ? CUDA_ERROR_INVALID_HANDLE : result);
    exec = s.graphs().begin(q.exec, std::move(nodes));
  }
  GraphNodes &nodes = *exec->of;
  if (exec->object) return s.violation("nodes come for a graph that is complete");
  // Another one of the same nodes.
  const bool again = nodes.complete && q.length == 0 && q.last;
  if (nodes.complete && !again) return s.violation("nodes come for a graph that is complete");
  if (nodes.stale) return posted(CUDA_ERROR_INVALID_HANDLE);
  if (!again) {
    const char *why = nullptr;
    const CUresult result = Builder(s, nodes, bytes_of(words, q.length)).run(&why);
    if (why) return s.violation(why);
    if (result != CUDA_SUCCESS) {
      give_up(*exec);
      return posted(result);
    }
  }
  if (again && !s.graphs().take(*exec)) return posted(CUDA_ERROR_OUT_OF_MEMORY);
  posted(q.last ? instantiate(s, *exec) : CUDA_SUCCESS);
}

void handle_GraphLaunch(Session &s, const wire_GraphLaunch &q, Starts<Work::kKernel> work) {
  const auto posted = [&](CUresult result) { s.posted(WIRE_GraphLaunch, result); };
  GraphExec *exec = s.graphs().find(q.exec);
  CUstream stream;
  if (!exec || !exec->object || exec->of->stale || !are_there(s, exec->arrays) ||
      !s.objects().find(q.stream, &stream)) {
    return posted(CUDA_ERROR_INVALID_HANDLE);
  }
  count_alone(s.count().launches);
  s.answers().launched();
  Gate::Pass pass = work.launch(stream, *exec->cost, exec->blocks);
  const auto launch = [&] { return pass.started(pass->cuGraphLaunch(exec->object, stream)); };
  if (!exec->of->calls) return posted(launch());
  s.pages().mark();
  posted(s.host_functions().launch_graph(stream, launch));
}

void handle_GraphSet(Session &s, const wire_GraphSet &in_place) {
  const wire_GraphSet q = in_place;  // receiving the payload overwrites the frame
  std::vector<uint64_t> words;
  if (!receive(s, q.length, &words)) return;
  GraphExec *exec = s.graphs().find(q.exec);
  if (!exec || !exec->object || exec->of->stale) {
    return s.posted(WIRE_GraphSet, CUDA_ERROR_INVALID_HANDLE);
  }
  GraphRecords records(s, bytes_of(words, q.length));
  CUresult result = CUDA_SUCCESS;
  while (const wire_graph_node *head = records.next()) {
    CUgraphNodeParams params;
    if (head->graph >= exec->of->nodes.size() || exec->of->nodes[head->graph].type != head->type ||
        head->edges != 0) {
      return s.violation("new parameters come for a node that there is not");
    }
    CUresult changed = records.params(&params);
    if (changed == CUDA_SUCCESS && !s.graphs().grow(*exec, head->graph, weight_of(*head))) {
      changed = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (changed == CUDA_SUCCESS && records.bodies() == 0) {
      if (records.function()) exec->of->modules.insert(records.function()->module);
      changed = s.driver().cuGraphExecNodeSetParams(exec->object,
                                                    exec->of->nodes[head->graph].handle, &params);
      if (changed == CUDA_SUCCESS) {
        note_arrays(s, records, head->graph, &exec->arrays);
        Graphs::resize(*exec, head->graph, blocks_of(records));
      }
    }
    keep_first(result, changed);
  }
  if (records.why()) return s.violation(records.why());
  s.posted(WIRE_GraphSet, result);
}

void handle_GraphEnable(Session &s, const wire_GraphEnable &q) {
  GraphExec *exec = s.graphs().find(q.exec);
  if (!exec || !exec->object || exec->of->stale || !are_there(s, exec->arrays)) {
    return s.posted(WIRE_GraphEnable, CUDA_ERROR_INVALID_HANDLE);
  }
  if (q.node >= exec->of->nodes.size()) {
    return s.posted(WIRE_GraphEnable, CUDA_ERROR_INVALID_VALUE);
  }
  s.posted(WIRE_GraphEnable, s.driver().cuGraphNodeSetEnabled(
                                 exec->object, exec->of->nodes[q.node].handle, q.enabled != 0));
}

void handle_GraphDestroy(Session &s, const wire_GraphDestroy &q) {
  // It may be unknown: one whose nodes were refused before the first was sent.
  s.graphs().end(q.exec);
  s.posted(WIRE_GraphDestroy, CUDA_SUCCESS);
}

void handle_GraphCondition(Session &s, const wire_GraphCondition &q) {
  const uint64_t request = q.request.request;
  wire_GraphCondition_reply reply{};
  // The one flag has each launch begin with the value.
  CUresult result = q.flags > 1 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  std::shared_ptr<GraphNodes> base = s.graphs().find_base(q.graph);
  if (!base) {
    if (!s.graphs().can_mint_base(q.graph)) return s.violation("a graph's handle cannot be minted");
    base = s.graphs().make_base(q.graph, &result);
  }
  if (base && !s.graphs().has_room(1)) result = CUDA_ERROR_OUT_OF_MEMORY;
  if (result == CUDA_SUCCESS) {
    CUgraphConditionalHandle handle = 0;
    result = s.driver().cuGraphConditionalHandleCreate(&handle, base->graph, s.device().context(),
                                                       q.value, q.flags);
    if (result == CUDA_SUCCESS) {
      s.graphs().add(*base, 1);
      base->conditions.insert(handle);
    }
    reply.handle = handle;
  }
  s.answers().send(request, result, &reply.reply, sizeof reply);
}

void handle_GraphForget(Session &s, const wire_GraphForget &q) {
  s.graphs().forget_base(q.graph);
  s.posted(WIRE_GraphForget, CUDA_SUCCESS);
}

}  // namespace outboard
