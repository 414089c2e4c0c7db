// Graphs: built by hand, captured, launched, changed.
#include <algorithm>

#include "world.h"

namespace sequences {
namespace {

using Found = std::pair<const unsigned, Graph>;

bool several_devices(const World &world) { return world.contexts.size() > 1; }

// One that nodes may be added to: what was captured has more than one end. Its other nodes may be
// of another device.
Found *open_graph(World &world) {
  const bool any = several_devices(world) && world.choices.once_in(4);
  Found *found = world.graphs.pick(world.choices, [&](const Graph &graph) {
    return (any || graph.strand == world.strand) && !graph.captured;
  });
  if (found) found->second.wide |= found->second.strand != world.strand;
  return found;
}

Found *some_graph(World &world) {
  return world.graphs.pick(world.choices,
                           [&](const Graph &graph) { return graph.strand == world.strand; });
}

std::pair<const unsigned, Exec> *some_exec(World &world) {
  return world.execs.pick(world.choices,
                          [&](const Exec &exec) { return exec.strand == world.strand; });
}

void begin(World &world, Line &line) {
  const auto mode = static_cast<CUstreamCaptureMode>(world.choices.of({0, 1, 2, 2, 2, 7}));
  // Calls that wait are not allowed from then on, and what they would wait for must be done.
  // The capture of another stream may forbid that.
  if (CALL(world, cuStreamSynchronize)(world.here().stream) && !world.capturing()) return;
  line.arg(world.strand).arg(mode);
  line.result(CALL(world, cuStreamBeginCapture_v2)(world.here().stream, mode));
}

void end(World &world, Line &line) {
  if (!world.capturing() && !world.choices.once_in(8)) return;
  CUgraph graph = nullptr;
  line.arg(world.strand);
  const CUresult result = line.result(CALL(world, cuStreamEndCapture)(world.here().stream, &graph));
  if (!world.capturing())
    std::erase_if(world.memory.live, [&](const auto &one) {
      return one.second.strand == world.strand && one.second.kind == Memory::kCapture;
    });
  if (result || !graph) return;
  size_t nodes = 0, edges = 0;
  line.out(CALL(world, cuGraphGetNodes)(graph, nullptr, &nodes)).out(nodes);
  line.out(CALL(world, cuGraphGetEdges_v2)(graph, nullptr, nullptr, nullptr, &edges)).out(edges);
  Graph made = {graph, world.strand, true, true, std::vector<CUgraphNode>(nodes), nullptr};
  CALL(world, cuGraphGetNodes)(graph, made.nodes.data(), &nodes);
  line.out("g" + std::to_string(world.graphs.add(made)));
}

void status(World &world, Line &line) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  size_t dependencies = 0;
  line.arg(world.strand);
  if (!line.result(CALL(world, cuStreamGetCaptureInfo_v2)(world.here().stream, &status, &id,
                                                          nullptr, nullptr, &dependencies)))
    line.out(status).out(status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? dependencies : 0);
}

void create(World &world, Line &line) {
  if (world.graphs.live.size() > 12) return;
  CUgraph graph = nullptr;
  const unsigned flags = world.choices.once_in(10);
  if (!line.arg(flags).result(CALL(world, cuGraphCreate)(&graph, flags)))
    line.out("g" +
             std::to_string(world.graphs.add({graph, world.strand, false, false, {}, nullptr})));
}

// Nodes that touch memory come one behind the other: what runs at once has no one result.
std::vector<CUgraphNode> dependencies(World &world, Graph &graph, Line &line) {
  std::vector<CUgraphNode> given;
  if (graph.last) given.push_back(graph.last);
  for (const CUgraphNode node : graph.nodes)
    if (node != graph.last && given.size() < 4 && world.choices.once_in(4)) given.push_back(node);
  if (!given.empty() && world.choices.once_in(30)) given.push_back(given[0]);
  line.arg(given.size());
  return given;
}

void keep(World &world, CUdeviceptr address) {
  for (auto &[number, memory] : world.memory.live)
    if (address - memory.address < memory.size) memory.kept = true;
}

// `add` is given where the node goes and what it comes after; it writes its own part of the line.
template <class Add>
void add_node(World &world, Line &line, Graph &graph, Add add) {
  const auto given = dependencies(world, graph, line);
  CUgraphNode node = nullptr;
  if (line.result(add(&node, given.data(), given.size()))) return;
  line.out("n" + std::to_string(graph.nodes.size()));
  graph.nodes.push_back(node);
  graph.last = node;
}

CUDA_MEMSET_NODE_PARAMS some_fill(World &world, Line &line) {
  Choices &choices = world.choices;
  const Range to = range(world, false);
  keep(world, to.address);
  CUDA_MEMSET_NODE_PARAMS fill = {};
  fill.dst = to.address;
  fill.elementSize = choices.of<unsigned>({1, 2, 4, 4, 3});
  fill.value = choices.below(256);
  fill.width = count(world, std::min<size_t>(to.room, 512), fill.elementSize);
  fill.height = choices.of<size_t>({1, 1, 1, 3, 0});
  fill.pitch = choices.of<size_t>({512, 1024, 0, 100});
  line.arg(to.text).arg(fill.elementSize).arg(fill.value).arg(fill.width).arg(fill.height);
  line.arg(fill.pitch);
  return fill;
}

// Along one line: copy_steps() has the others.
CUDA_MEMCPY3D some_copy(World &world, Line &line) {
  Choices &choices = world.choices;
  const Range from = range(world, false), to = range(world, false);
  keep(world, from.address);
  keep(world, to.address);
  CUDA_MEMCPY3D copy = {};
  const unsigned kind = choices.below(4);
  size_t size = count(world, std::min(from.room, to.room));
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from.address, copy.dstDevice = to.address;
  if (kind == 0) copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = world.here().source.data();
  // What copies from the target takes is what other nodes, or the work before, have left there.
  if (kind == 0 && choices.once_in(3)) copy.srcHost = world.here().target.data();
  if (kind == 3) copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = world.here().source.data();
  if (kind == 1 || kind == 3)
    copy.dstMemoryType = CU_MEMORYTYPE_HOST, copy.dstHost = world.here().target.data();
  size = kind == 2 ? apart(from, to, size) : std::min(size, kHostBytes);
  // Nodes that copy nothing are not to be changed in a graph that can be launched.
  size = std::max<size_t>(size, 1);
  copy.WidthInBytes = size, copy.Height = copy.Depth = 1;
  copy.srcPitch = copy.dstPitch = size, copy.srcHeight = copy.dstHeight = 1;
  line.arg(kind).arg(to.text).arg(from.text).arg(size);
  line.arg(copy.srcHost == world.here().target.data() ? "target" : "source");
  return copy;
}

CUcontext current(World &world) {
  CUcontext context = nullptr;
  CALL(world, cuCtxGetCurrent)(&context);
  return context;
}

void add_fill(World &world, Line &line) {
  Found *found = open_graph(world);
  if (!found) return;
  line.arg(found->first);
  const CUgraph graph = found->second.handle;
  add_node(
      world, line, found->second, [&](CUgraphNode *node, const CUgraphNode *given, size_t count) {
        const auto fill = some_fill(world, line);
        return CALL(world, cuGraphAddMemsetNode)(node, graph, given, count, &fill, current(world));
      });
}

void add_copy(World &world, Line &line) {
  Found *found = open_graph(world);
  if (!found) return;
  line.arg(found->first);
  const CUgraph graph = found->second.handle;
  add_node(
      world, line, found->second, [&](CUgraphNode *node, const CUgraphNode *given, size_t count) {
        const auto copy = some_copy(world, line);
        return CALL(world, cuGraphAddMemcpyNode)(node, graph, given, count, &copy, current(world));
      });
}

void add_kernel(World &world, Line &line) {
  Found *found = open_graph(world);
  const auto function = world.functions.pick(
      world.choices, [&](const Function &of) { return of.device == world.here().device; });
  Range part = range(world, false);
  if (!found || !function || part.room < 16) return;
  keep(world, part.address);
  CUdeviceptr pointer = (part.address + 3) & ~CUdeviceptr{3};
  unsigned elements = world.choices.below(static_cast<uint32_t>(part.room / 4 - 1)), factor = 3;
  void *values[] = {&pointer, &elements, &factor};
  CUDA_KERNEL_NODE_PARAMS params = {};
  params.func = function->second.handle;
  params.gridDimX = elements / 64 + 1, params.gridDimY = params.gridDimZ = 1;
  params.blockDimX = world.choices.of<unsigned>({64, 64, 64, 0, 2000});
  params.blockDimY = params.blockDimZ = 1;
  params.kernelParams = values;
  line.arg(found->first);
  const CUgraph graph = found->second.handle;
  add_node(world, line, found->second,
           [&](CUgraphNode *node, const CUgraphNode *given, size_t count) {
             line.arg(function->first).arg(part.text).arg(elements).arg(params.blockDimX);
             return CALL(world, cuGraphAddKernelNode_v2)(node, graph, given, count, &params);
           });
}

void add_host(World &world, Line &line) {
  Found *found = open_graph(world);
  if (!found) return;
  line.arg(found->first);
  CUDA_HOST_NODE_PARAMS params = {};
  params.fn = [](void *strand) { static_cast<Strand *>(strand)->host_calls += 100000; };
  params.userData = &world.here();
  const CUgraph graph = found->second.handle;
  add_node(world, line, found->second,
           [&](CUgraphNode *node, const CUgraphNode *given, size_t count) {
             return CALL(world, cuGraphAddHostNode)(node, graph, given, count, &params);
           });
}

void add_event(World &world, Line &line) {
  Found *found = open_graph(world);
  const auto event = world.events.pick(world.choices);
  if (!found || !event) return;
  const bool records = world.choices.once_in(2);
  line.arg(found->first).arg(event->first).arg(records);
  const CUgraph graph = found->second.handle;
  add_node(
      world, line, found->second, [&](CUgraphNode *node, const CUgraphNode *given, size_t count) {
        return records
                   ? CALL(world, cuGraphAddEventRecordNode)(node, graph, given, count,
                                                            event->second)
                   : CALL(world, cuGraphAddEventWaitNode)(node, graph, given, count, event->second);
      });
}

void add_child(World &world, Line &line) {
  Found *found = open_graph(world), *child = some_graph(world);
  // As large as the sum of both: not again and again.
  if (!found || !child || found->second.nodes.size() + child->second.nodes.size() > 30) return;
  line.arg(found->first).arg(child->first);
  found->second.wide |= child->second.wide;
  const CUgraph graph = found->second.handle, of = child->second.handle;
  add_node(world, line, found->second,
           [&](CUgraphNode *node, const CUgraphNode *given, size_t count) {
             return CALL(world, cuGraphAddChildGraphNode)(node, graph, given, count, of);
           });
}

void add_empty(World &world, Line &line) {
  Found *found = open_graph(world);
  if (!found) return;
  line.arg(found->first);
  const CUgraph graph = found->second.handle;
  add_node(world, line, found->second,
           [&](CUgraphNode *node, const CUgraphNode *given, size_t count) {
             return CALL(world, cuGraphAddEmptyNode)(node, graph, given, count);
           });
}

void describe(World &world, Line &line) {
  Found *found = some_graph(world);
  if (!found || found->second.nodes.empty()) return;
  const Graph &graph = found->second;
  const unsigned index = world.choices.below(static_cast<uint32_t>(graph.nodes.size()));
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_KERNEL;
  size_t before = 0, after = 0, roots = 0;
  line.arg(found->first).arg(index);
  if (line.result(CALL(world, cuGraphNodeGetType)(graph.nodes[index], &type))) return;
  line.out(type);
  line.out(
      CALL(world, cuGraphNodeGetDependencies_v2)(graph.nodes[index], nullptr, nullptr, &before));
  line.out(
      CALL(world, cuGraphNodeGetDependentNodes_v2)(graph.nodes[index], nullptr, nullptr, &after));
  line.out(CALL(world, cuGraphGetRootNodes)(graph.handle, nullptr, &roots));
  line.out(before).out(after).out(roots);
}

void set_node(World &world, Line &line) {
  Found *found = some_graph(world);
  if (!found || found->second.nodes.empty()) return;
  const Graph &graph = found->second;
  const unsigned index = world.choices.below(static_cast<uint32_t>(graph.nodes.size()));
  line.arg(found->first).arg(index);
  const auto fill = some_fill(world, line);
  line.result(CALL(world, cuGraphMemsetNodeSetParams)(graph.nodes[index], &fill));
}

// A node of what is executable, and of a graph that may be the one it was made of.
struct Chosen {
  std::pair<const unsigned, Exec> *exec = nullptr;
  Found *graph = nullptr;
  CUgraphNode node = nullptr;
};
Chosen some_node(World &world, Line &line) {
  Chosen chosen = {some_exec(world), some_graph(world)};
  if (!chosen.exec || !chosen.graph || chosen.graph->second.nodes.empty()) return {};
  const auto &nodes = chosen.graph->second.nodes;
  const unsigned index = world.choices.below(static_cast<uint32_t>(nodes.size()));
  chosen.node = nodes[index];
  line.arg(chosen.exec->first).arg(chosen.graph->first).arg(index);
  return chosen;
}

void set_fill(World &world, Line &line) {
  const Chosen chosen = some_node(world, line);
  if (!chosen.node) return;
  const auto fill = some_fill(world, line);
  line.result(CALL(world, cuGraphExecMemsetNodeSetParams)(chosen.exec->second.handle, chosen.node,
                                                          &fill, current(world)));
}

void set_copy(World &world, Line &line) {
  const Chosen chosen = some_node(world, line);
  if (!chosen.node) return;
  const auto copy = some_copy(world, line);
  line.result(CALL(world, cuGraphExecMemcpyNodeSetParams)(chosen.exec->second.handle, chosen.node,
                                                          &copy, current(world)));
}

void set_host(World &world, Line &line) {
  const Chosen chosen = some_node(world, line);
  if (!chosen.node) return;
  CUDA_HOST_NODE_PARAMS params = {};
  params.fn = [](void *strand) { static_cast<Strand *>(strand)->host_calls += 10000000; };
  params.userData = &world.here();
  line.result(
      CALL(world, cuGraphExecHostNodeSetParams)(chosen.exec->second.handle, chosen.node, &params));
}

void set_event(World &world, Line &line) {
  const auto event = world.events.pick(world.choices);
  const Chosen chosen = event ? some_node(world, line) : Chosen{};
  if (!chosen.node) return;
  const bool records = world.choices.once_in(2);
  line.arg(event->first).arg(records);
  line.result(records ? CALL(world, cuGraphExecEventRecordNodeSetEvent)(chosen.exec->second.handle,
                                                                        chosen.node, event->second)
                      : CALL(world, cuGraphExecEventWaitNodeSetEvent)(chosen.exec->second.handle,
                                                                      chosen.node, event->second));
}

void set_child(World &world, Line &line) {
  Found *child = some_graph(world);
  const Chosen chosen = child ? some_node(world, line) : Chosen{};
  if (!chosen.node) return;
  line.arg(child->first);
  chosen.exec->second.wide |= child->second.wide;
  line.result(CALL(world, cuGraphExecChildGraphNodeSetParams)(chosen.exec->second.handle,
                                                              chosen.node, child->second.handle));
}

void prioritise(World &world, Line &line) {
  Found *found = some_graph(world);
  if (!found || found->second.nodes.empty()) return;
  const auto &nodes = found->second.nodes;
  const unsigned index = world.choices.below(static_cast<uint32_t>(nodes.size()));
  CUlaunchAttributeValue value = {};
  value.priority = world.choices.of({0, -1, -3});
  line.arg(found->first).arg(index).arg(static_cast<unsigned>(-value.priority));
  line.result(CALL(world, cuGraphKernelNodeSetAttribute)(nodes[index], CU_LAUNCH_ATTRIBUTE_PRIORITY,
                                                         &value));
}

void enable(World &world, Line &line) {
  const Chosen chosen = some_node(world, line);
  if (!chosen.node) return;
  const CUgraphExec exec = chosen.exec->second.handle;
  const unsigned enabled = world.choices.below(2);
  line.arg(enabled);
  line.result(CALL(world, cuGraphNodeSetEnabled)(exec, chosen.node, enabled));
  unsigned is = 7;
  line.out(CALL(world, cuGraphNodeGetEnabled)(exec, chosen.node, &is)).out(is);
}

void link_nodes(World &world, Line &line) {
  Found *found = some_graph(world);
  if (!found || found->second.nodes.size() < 2) return;
  const Graph &graph = found->second;
  const auto some = [&] { return world.choices.below(static_cast<uint32_t>(graph.nodes.size())); };
  const unsigned from = some(), to = some();
  line.arg(found->first).arg(from).arg(to);
  line.result(CALL(world, cuGraphAddDependencies_v2)(graph.handle, &graph.nodes[from],
                                                     &graph.nodes[to], nullptr, 1));
}

void clone(World &world, Line &line) {
  Found *found = some_graph(world);
  if (!found || world.graphs.live.size() > 12) return;
  Graph copy = found->second;
  line.arg(found->first);
  if (line.result(CALL(world, cuGraphClone)(&copy.handle, found->second.handle))) return;
  for (CUgraphNode &node : copy.nodes) {
    const bool last = node == copy.last;
    CUgraphNode twin = nullptr;
    line.out(CALL(world, cuGraphNodeFindInClone)(&twin, node, copy.handle));
    node = twin;
    if (last) copy.last = twin;
  }
  line.out("g" + std::to_string(world.graphs.add(copy)));
}

void destroy(World &world, Line &line) {
  Found *found = some_graph(world);
  if (!found) return;
  const unsigned number = found->first;
  if (!line.arg(number).result(CALL(world, cuGraphDestroy)(found->second.handle)))
    world.graphs.live.erase(number);
}

void instantiate(World &world, Line &line) {
  Found *found = some_graph(world);
  if (!found || world.execs.live.size() > 12) return;
  const unsigned long long flags = world.choices.of<unsigned long long>({0, 0, 0, 1, 8, 64});
  CUgraphExec exec = nullptr;
  line.arg(found->first).arg(flags);
  const Graph &graph = found->second;
  if (!line.result(CALL(world, cuGraphInstantiateWithFlags)(&exec, graph.handle, flags)))
    line.out("x" + std::to_string(world.execs.add({exec, graph.strand, graph.wide})));
}

// For what uses memory of several strands.
void wait_for_all(World &world) {
  if (several_devices(world)) {
    for (unsigned device = 0; device < world.contexts.size(); device++) world.wait_for(device);
  } else {
    CALL(world, cuCtxSynchronize)();
  }
}

void launch(World &world, Line &line) {
  const bool any = several_devices(world) && world.choices.once_in(3);
  const auto found = any ? world.execs.pick(world.choices) : some_exec(world);
  if (!found) return;
  const Exec &exec = found->second;
  const bool wide = exec.wide || exec.strand != world.strand;
  if (wide && several_devices(world) && world.any_capturing()) return;
  if (wide) wait_for_all(world);
  line.arg(found->first).arg(world.strand);
  line.result(CALL(world, cuGraphLaunch)(exec.handle, world.here().stream));
  if (wide) wait_for_all(world);
}

void update(World &world, Line &line) {
  const auto exec = some_exec(world);
  Found *graph = some_graph(world);
  if (!exec || !graph) return;
  CUgraphExecUpdateResultInfo info = {};
  line.arg(exec->first).arg(graph->first);
  const CUresult result =
      CALL(world, cuGraphExecUpdate_v2)(exec->second.handle, graph->second.handle, &info);
  line.result(result);
  line.out(info.result);
  exec->second.wide |= graph->second.wide;
}

void exec_destroy(World &world, Line &line) {
  const auto found = some_exec(world);
  if (!found) return;
  const unsigned number = found->first;
  if (!line.arg(number).result(CALL(world, cuGraphExecDestroy)(found->second.handle)))
    world.execs.live.erase(number);
}

}  // namespace

const std::vector<Entry> &graph_steps() {
  static const std::vector<Entry> steps = {
      {"cuStreamBeginCapture", 3, begin},
      {"cuStreamEndCapture", 6, end},
      {"cuStreamGetCaptureInfo", 2, status},
      {"cuGraphCreate", 2, create},
      {"cuGraphAddMemsetNode", 3, add_fill},
      {"cuGraphAddMemcpyNode", 3, add_copy},
      {"cuGraphAddKernelNode", 3, add_kernel},
      {"cuGraphAddHostNode", 1, add_host},
      {"cuGraphAddEventNode", 1, add_event},
      {"cuGraphAddChildGraphNode", 1, add_child},
      {"cuGraphAddEmptyNode", 1, add_empty},
      {"cuGraphNodeGetType", 1, describe},
      {"cuGraphMemsetNodeSetParams", 1, set_node},
      {"cuGraphExecMemcpyNodeSetParams", 1, set_copy},
      {"cuGraphExecMemsetNodeSetParams", 1, set_fill},
      {"cuGraphExecHostNodeSetParams", 1, set_host},
      {"cuGraphExecEventNodeSetEvent", 1, set_event},
      {"cuGraphExecChildGraphNodeSetParams", 1, set_child},
      {"cuGraphKernelNodeSetAttribute", 1, prioritise},
      {"cuGraphNodeSetEnabled", 2, enable},
      {"cuGraphAddDependencies", 1, link_nodes},
      {"cuGraphClone", 1, clone},
      {"cuGraphDestroy", 1, destroy},
      {"cuGraphInstantiate", 4, instantiate},
      {"cuGraphLaunch", 8, launch},
      {"cuGraphExecUpdate", 2, update},
      {"cuGraphExecDestroy", 1, exec_destroy},
  };
  return steps;
}

}  // namespace sequences
