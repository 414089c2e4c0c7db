#include "session/graphs.h"

#include "base/session_limits.h"

namespace outboard {

std::shared_ptr<GraphNodes> Graphs::make(CUresult *result) {
  if (!has_room(1)) {
    *result = CUDA_ERROR_OUT_OF_MEMORY;
    return nullptr;
  }
  CUgraph graph = nullptr;
  *result = driver_.cuGraphCreate(&graph, 0);
  if (*result != CUDA_SUCCESS) return nullptr;
  ++taken_;
  // What it counts for is given back with it.
  auto end = [this](GraphNodes *nodes) {
    driver_.cuGraphDestroy(nodes->graph);
    taken_ -= nodes->taken;
    delete nodes;
  };
  std::shared_ptr<GraphNodes> made(new GraphNodes, end);
  made->graph = graph;
  made->graphs.push_back(graph);
  return made;
}

GraphExec *Graphs::begin(uint64_t handle, std::shared_ptr<GraphNodes> of) {
  execs_.keep(handle, {std::move(of), nullptr, nullptr, {}, 0, 0, {}, {}});
  return execs_.find(handle);
}

bool Graphs::end(uint64_t handle) {
  GraphExec exec;
  if (!execs_.take(handle, &exec)) return false;
  // What is under way of it goes on.
  if (exec.object) driver_.cuGraphExecDestroy(exec.object);
  taken_ -= exec.taken;
  return true;
}

std::shared_ptr<GraphNodes> Graphs::find_base(uint64_t handle) {
  const std::shared_ptr<GraphNodes> *found = bases_.find(handle);
  return found ? *found : nullptr;
}

std::shared_ptr<GraphNodes> Graphs::make_base(uint64_t handle, CUresult *result) {
  std::shared_ptr<GraphNodes> made = make(result);
  if (made) bases_.keep(handle, made);
  return made;
}

bool Graphs::forget_base(uint64_t handle) {
  std::shared_ptr<GraphNodes> base;
  return bases_.take(handle, &base);
}

bool Graphs::take(GraphExec &exec) {
  const uint64_t more = exec.of->taken;
  if (!has_room(more)) return false;
  exec.taken += more;
  taken_ += more;
  return true;
}

bool Graphs::grow(GraphExec &exec, uint32_t node, uint64_t weight) {
  const uint64_t first = exec.of->nodes[node].weight;
  const auto found = exec.grown.find(node);
  const uint64_t before = found == exec.grown.end() ? first : found->second;
  if (weight <= before) return true;
  if (!has_room(weight - before)) return false;
  exec.grown[node] = weight;
  exec.taken += weight - before;
  taken_ += weight - before;
  return true;
}

void Graphs::resize(GraphExec &exec, uint32_t node, uint64_t blocks) {
  const auto [now, first] = exec.resized.try_emplace(node, exec.of->nodes[node].blocks);
  exec.blocks += blocks - now->second;
  now->second = blocks;
}

bool Graphs::has_room(uint64_t more) const {
  return more <= session_limits.graph_nodes && taken_ <= session_limits.graph_nodes - more;
}

void Graphs::unloaded(const Module *module) {
  execs_.each([module](GraphExec &exec) {
    if (exec.of->modules.count(module)) exec.of->stale = true;
  });
  bases_.each([module](std::shared_ptr<GraphNodes> &base) {
    if (base->modules.count(module)) base->stale = true;
  });
}

void Graphs::clear() {
  execs_.each([this](GraphExec &exec) {
    if (exec.object) driver_.cuGraphExecDestroy(exec.object);
    taken_ -= exec.taken;
  });
  execs_.clear();
  bases_.clear();
}

}  // namespace outboard
