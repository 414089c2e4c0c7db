#include "graphs/dot.h"

#include <cstdarg>
#include <cstdio>

#include "graphs/memory.h"
#include "graphs/tasks.h"
#include "streams/host_function.h"
#include "streams/launch.h"
#include "streams/transfer.h"
#include "streams/values.h"

namespace softdev::driver {
namespace {

const char *name_of(CUgraphNodeType type) {
  static constexpr const char *names[] = {
      "KERNEL",       "MEMCPY",       "MEMSET",           "HOST",           "GRAPH",     "EMPTY",
      "EVENT_WAIT",   "EVENT_RECORD", "EXT_SEMAS_SIGNAL", "EXT_SEMAS_WAIT", "MEM_ALLOC", "MEM_FREE",
      "BATCH_MEM_OP", "CONDITIONAL"};
  return static_cast<size_t>(type) < std::size(names) ? names[type] : "?";
}

// Which flag asks for the parameters of a node.
unsigned flag_of(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return CU_GRAPH_DEBUG_DOT_FLAGS_MEMCPY_NODE_PARAMS;
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS;
    case CU_GRAPH_NODE_TYPE_HOST:
      return CU_GRAPH_DEBUG_DOT_FLAGS_HOST_NODE_PARAMS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return CU_GRAPH_DEBUG_DOT_FLAGS_EVENT_NODE_PARAMS;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return CU_GRAPH_DEBUG_DOT_FLAGS_MEM_ALLOC_NODE_PARAMS;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return CU_GRAPH_DEBUG_DOT_FLAGS_MEM_FREE_NODE_PARAMS;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return CU_GRAPH_DEBUG_DOT_FLAGS_BATCH_MEM_OP_NODE_PARAMS;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return CU_GRAPH_DEBUG_DOT_FLAGS_CONDITIONAL_NODE_PARAMS;
    default:
      return 0;
  }
}

class Writer {
 public:
  explicit Writer(unsigned flags) : flags_(flags) {}

  std::string write(const Graph &graph) {
    text_ = "digraph dot {\n";
    write_graph(graph);
    text_ += "}\n";
    return std::move(text_);
  }

 private:
  bool wants(unsigned flag) const { return flags_ & (flag | CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE); }

  void put(const char *format, ...) __attribute__((format(printf, 2, 3))) {
    char line[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    text_ += line;
  }

  void put_name(const std::string &name) {
    for (char c : name) {
      if (c == '"' || c == '\\') text_ += '\\';
      text_ += c;
    }
  }

  // Nodes are called by the number of their graph and their own in it.
  void write_graph(const Graph &graph) {
    unsigned number = graphs_++;
    put("subgraph cluster_%u {\nlabel=\"graph_%u\" graph[style=\"dashed\"];\n", number, number);
    uint32_t index = 0;
    for (const auto &node : graph.nodes()) node->index = index++;
    for (const auto &node : graph.nodes()) {
      put("\"graph_%u_node_%u\"[style=\"%s\" shape=\"%s\" label=\"%u\\n%s", number, node->index,
          node->type == CU_GRAPH_NODE_TYPE_KERNEL ? "bold" : "solid",
          node->type == CU_GRAPH_NODE_TYPE_KERNEL ? "octagon" : "rectangle", node->index,
          name_of(node->type));
      write_details(*node);
      text_ += "\"];\n";
      for (const auto &child : node->children) {
        unsigned first = graphs_;
        write_graph(*child);
        if (!child->nodes().empty())
          put("\"graph_%u_node_%u\" -> \"graph_%u_node_0\" [style=\"dotted\"];\n", number,
              node->index, first);
      }
    }
    for (const auto &node : graph.nodes())
      for (const Edge &edge : node->after) {
        put("\"graph_%u_node_%u\" -> \"graph_%u_node_%u\"", number, node->index, number,
            edge.node->index);
        if (!is_plain(edge.data))
          put(" [label=\"port %u, type %u\"]", edge.data.from_port, edge.data.type);
        text_ += ";\n";
      }
    text_ += "}\n";
  }

  void write_details(const Node &node) {
    if (wants(CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES))
      put("\\nhandle 0x%llx", static_cast<unsigned long long>(node.handle()));
    if (wants(CU_GRAPH_DEBUG_DOT_FLAGS_EXTRA_TOPO_INFO))
      put("\\n%zu in, %zu out", node.before.size(), node.after.size());
    if (!node.task) return;
    if (node.type == CU_GRAPH_NODE_TYPE_KERNEL) {
      const auto &task = static_cast<const KernelTask &>(*node.task);
      text_ += "\\n";
      put_name(task.prepared.kernel->name());
      if (wants(CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_ATTRIBUTES))
        for (const CUlaunchAttribute &attribute : task.attributes)
          put("\\nattribute %d", attribute.id);
    }
    if (wants(flag_of(node.type))) write_parameters(*node.task);
  }

  void write_parameters(const Task &task) {
    switch (task.type()) {
      case CU_GRAPH_NODE_TYPE_KERNEL: {
        const Launch &launch = static_cast<const KernelTask &>(task).prepared;
        put("\\n%u x %u x %u blocks of %u x %u x %u, %u bytes of shared memory", launch.grid.x,
            launch.grid.y, launch.grid.z, launch.block.x, launch.block.y, launch.block.z,
            launch.dynamic_shared);
        break;
      }
      case CU_GRAPH_NODE_TYPE_MEMCPY: {
        const auto &copy = static_cast<const CopyTask &>(task);
        put("\\n0x%llx to 0x%llx\\n%zu x %zu x %zu",
            static_cast<unsigned long long>(copy.from.address),
            static_cast<unsigned long long>(copy.to.address), copy.box.width, copy.box.height,
            copy.box.depth);
        break;
      }
      case CU_GRAPH_NODE_TYPE_MEMSET: {
        const auto &fill = static_cast<const FillTask &>(task);
        put("\\n0x%llx\\n%zu x %zu bytes of 0x%x", static_cast<unsigned long long>(fill.to.address),
            fill.box.width, fill.box.height, fill.pattern);
        break;
      }
      case CU_GRAPH_NODE_TYPE_HOST: {
        const auto &host = static_cast<const HostTask &>(task);
        put("\\n%p(%p)", reinterpret_cast<void *>(host.function), host.data);
        break;
      }
      case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        put("\\nevent 0x%llx",
            static_cast<unsigned long long>(static_cast<const EventTask &>(task).event->handle()));
        break;
      case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
        const auto &allocate = static_cast<const AllocateTask &>(task);
        put("\\n%llu bytes at 0x%llx", static_cast<unsigned long long>(allocate.bytes),
            static_cast<unsigned long long>(allocate.allocation->address));
        break;
      }
      case CU_GRAPH_NODE_TYPE_MEM_FREE:
        put("\\n0x%llx", static_cast<unsigned long long>(
                             static_cast<const FreeTask &>(task).allocation->address));
        break;
      case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        put("\\n%zu values", static_cast<const ValuesTask &>(task).values.size());
        break;
      default:
        break;
    }
  }

  const unsigned flags_;
  unsigned graphs_ = 0;
  std::string text_;
};

}  // namespace

std::string dot_of(const Graph &graph, unsigned flags) { return Writer(flags).write(graph); }

}  // namespace softdev::driver
