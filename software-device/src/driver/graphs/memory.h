// Memory that graphs allocate. An allocation has its address from when its node is made; physical
// memory comes with the first launch and stays until it is trimmed, so that launches cost nothing.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "graphs/graph.h"
#include "streams/task.h"

namespace softdev::driver {

class GraphAllocation {
 public:
  // Empty when there are no addresses left.
  static std::shared_ptr<GraphAllocation> make(int device, uint64_t size, uint64_t context);
  // The one that begins at an address, or empty.
  static std::shared_ptr<GraphAllocation> find(uint64_t address);
  // May take the memory's lock: nobody who has a pin may let go of the last reference.
  ~GraphAllocation();

  const int device;
  const uint64_t address, size;

  // Under the lock of launches (graph_memory_mutex)
  // ------------------------------------------------ Whether a launch has allocated it and nothing
  // has freed it since.
  bool live() const { return live_; }
  void set_live(bool live);
  // Gives it physical memory. False when there is none.
  bool back();
  // Lets kernels of another device reach it as long as it lives, as cuMemPoolSetAccess does.
  void open_to(int device);

 private:
  friend CUresult trim_graph_memory(int device);
  GraphAllocation(int on, uint64_t at, uint64_t bytes, uint64_t region)
      : device(on), address(at), size(bytes), region_(region) {}

  const uint64_t region_;  // its number: addresses come back, numbers do not
  bool live_ = false, backed_ = false;
  std::set<int> visitors_;
};
using GraphAllocationRef = std::shared_ptr<GraphAllocation>;

// Held from when physical memory is given until the work that uses it is queued.
std::mutex &graph_memory_mutex();

class AllocateTask : public Task {
 public:
  AllocateTask(std::shared_ptr<Context> in, GraphAllocationRef what)
      : Task(std::move(in)), allocation(std::move(what)) {}
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_MEM_ALLOC; }
  Work operation(Uses) override { return std::make_shared<Operation>(context, Where::kInline); }

  const GraphAllocationRef allocation;
  CUmemPoolProps properties = {};  // as they were asked for
  std::vector<CUmemAccessDesc> access;
  uint64_t bytes = 0;
};

class FreeTask : public Task {
 public:
  FreeTask(std::shared_ptr<Context> in, GraphAllocationRef what)
      : Task(std::move(in)), allocation(std::move(what)) {}
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_MEM_FREE; }
  Work operation(Uses) override { return std::make_shared<Operation>(context, Where::kInline); }

  const GraphAllocationRef allocation;
};

// Nodes ------------------------------------------------------------------------------------------

// What an allocation node can be made of.
CUresult check_allocation(const CUDA_MEM_ALLOC_NODE_PARAMS &params);
// With the lock of graphs held. Takes an address again that the graph has freed before.
CUresult add_allocation(Graph *graph, const std::shared_ptr<Context> &context,
                        const CUDA_MEM_ALLOC_NODE_PARAMS &params, const std::vector<Edge> &before,
                        Node **node);
// CUDA_ERROR_INVALID_VALUE when it is no allocation of a graph, or this graph has freed it.
CUresult add_free(Graph *graph, const std::shared_ptr<Context> &context, uint64_t address,
                  const std::vector<Edge> &before, Node **node);

// Outside of graphs ------------------------------------------------------------------------------

// Frees what a launch has left. `*known` tells whether it is an allocation of a graph.
CUresult free_graph_memory(uint64_t address, bool *known, GraphAllocationRef *freed);

// Gives back the physical memory of what is not live. Waits for the device.
CUresult trim_graph_memory(int device);
struct GraphMemoryUse {
  uint64_t now = 0, high = 0;
};
GraphMemoryUse graph_memory_use(int device);
void reset_graph_memory_high(int device);

}  // namespace softdev::driver
