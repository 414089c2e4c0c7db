#include "graphs/memory.h"

#include <algorithm>

#include "core/driver.h"
#include "core/log.h"

namespace softdev::driver {
namespace {

// How many nodes are looked at for one that frees what can be taken again.
constexpr size_t kMostVisited = 4096;

struct Books {
  std::mutex launches;
  // Never held while something waits for the device.
  std::mutex mutex;
  std::map<uint64_t, std::weak_ptr<GraphAllocation>> all;     // by address
  std::map<uint64_t, std::shared_ptr<GraphAllocation>> live;  // held by nobody else, maybe
  std::map<int, GraphMemoryUse> use;                          // by device
};

Books &books() {
  static auto *the_books = new Books;
  return *the_books;
}

void count(int device, int64_t bytes) {
  std::lock_guard guard(books().mutex);
  GraphMemoryUse &use = books().use[device];
  use.now += static_cast<uint64_t>(bytes);
  use.high = std::max(use.high, use.now);
}

// Whether `target` comes before one of the edges' nodes, or is one.
bool comes_before(const std::vector<Edge> &before, const Node *target) {
  static uint64_t marks = 0;
  uint64_t mark = ++marks;
  std::vector<Node *> open;
  auto visit = [&](Node *node) {
    if (node->visited == mark) return;
    node->visited = mark;
    open.push_back(node);
  };
  for (const Edge &edge : before) visit(edge.node);
  for (size_t i = 0; i < open.size() && i < kMostVisited; i++) {
    if (open[i] == target) return true;
    for (const Edge &edge : open[i]->before) visit(edge.node);
  }
  return false;
}

// An allocation that the graph has freed, ahead of where it is wanted.
GraphAllocationRef take_again(Graph *graph, int device, uint64_t size,
                              const std::vector<Edge> &before) {
  for (auto at = graph->freed.begin(); at != graph->freed.end(); ++at) {
    std::shared_ptr<Node> node = at->lock();
    if (!node || !node->graph) continue;
    const auto &task = static_cast<const FreeTask &>(*node->task);
    if (task.allocation->device != device || task.allocation->size != size) continue;
    if (!comes_before(before, node.get())) continue;
    GraphAllocationRef found = task.allocation;
    graph->freed.erase(at);
    return found;
  }
  return nullptr;
}

}  // namespace

std::mutex &graph_memory_mutex() { return books().launches; }

GraphAllocationRef GraphAllocation::make(int device, uint64_t size, uint64_t context) {
  uint64_t region = 0;
  uint64_t address = driver()->memory.reserve_device(device, size, context, &region);
  if (!address) return nullptr;
  GraphAllocationRef made(new GraphAllocation(device, address, size, region));
  std::lock_guard guard(books().mutex);
  books().all[address] = made;
  return made;
}

GraphAllocationRef GraphAllocation::find(uint64_t address) {
  std::lock_guard guard(books().mutex);
  auto found = books().all.find(address);
  return found == books().all.end() ? nullptr : found->second.lock();
}

GraphAllocation::~GraphAllocation() {
  {
    std::lock_guard guard(books().mutex);
    auto found = books().all.find(address);
    if (found != books().all.end() && found->second.expired()) books().all.erase(found);
  }
  for (int visitor : visitors_) driver()->device(visitor)->close_peer(device);
  if (backed_) count(device, -static_cast<int64_t>(size));
  Memory &memory = driver()->memory;
  auto region =
      memory.remove(address, [this](const Region &candidate) { return candidate.id == region_; });
  if (region) memory.destroy(std::move(region), [] {});
}

void GraphAllocation::set_live(bool live) {
  live_ = live;
  GraphAllocationRef gone;  // ends behind the lock
  std::lock_guard guard(books().mutex);
  if (live) {
    books().live[address] = books().all[address].lock();
  } else if (auto found = books().live.find(address); found != books().live.end()) {
    gone = std::move(found->second);
    books().live.erase(found);
  }
}

void GraphAllocation::open_to(int visitor) {
  if (visitor == device || !visitors_.insert(visitor).second) return;
  driver()->device(visitor)->open_peer(device);
}

bool GraphAllocation::back() {
  if (backed_) return true;
  if (!driver()->memory.back(address, region_)) return false;
  backed_ = true;
  count(device, static_cast<int64_t>(size));
  return true;
}

CUresult check_allocation(const CUDA_MEM_ALLOC_NODE_PARAMS &params) {
  const CUmemPoolProps &pool = params.poolProps;
  if (!params.bytesize) return refuse(CUDA_ERROR_INVALID_VALUE, "nothing is to be allocated");
  if (pool.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      pool.location.type != CU_MEM_LOCATION_TYPE_DEVICE || !driver()->device(pool.location.id))
    return refuse(CUDA_ERROR_INVALID_VALUE, "graphs allocate pinned memory of a device");
  if (pool.handleTypes != CU_MEM_HANDLE_TYPE_NONE)
    return refuse(CUDA_ERROR_INVALID_VALUE, "memory of graphs cannot be shared by handle");
  if (params.accessDescCount && !params.accessDescs) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < params.accessDescCount; i++) {
    const CUmemAccessDesc &access = params.accessDescs[i];
    if (access.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        !driver()->device(access.location.id) || access.flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
      return refuse(CUDA_ERROR_INVALID_VALUE, "access is given to devices, to read and write");
  }
  return CUDA_SUCCESS;
}

CUresult add_allocation(Graph *graph, const std::shared_ptr<Context> &context,
                        const CUDA_MEM_ALLOC_NODE_PARAMS &params, const std::vector<Edge> &before,
                        Node **node) {
  if (graph->parent) return refuse(CUDA_ERROR_NOT_SUPPORTED, "an embedded graph cannot allocate");
  int device = params.poolProps.location.id;
  uint64_t size = round_up(params.bytesize, params.bytesize > kGranule ? kGranule : 512);
  if (size < params.bytesize) return CUDA_ERROR_OUT_OF_MEMORY;
  GraphAllocationRef allocation = take_again(graph, device, size, before);
  if (!allocation) allocation = GraphAllocation::make(device, size, context->handle());
  if (!allocation)
    return refuse(CUDA_ERROR_OUT_OF_MEMORY, "there are no addresses for %zu bytes",
                  params.bytesize);
  auto task = std::make_shared<AllocateTask>(context, allocation);
  task->properties = params.poolProps;
  task->access.assign(params.accessDescs, params.accessDescs + params.accessDescCount);
  task->bytes = params.bytesize;
  if (CUresult bad = graph->add(CU_GRAPH_NODE_TYPE_MEM_ALLOC, task, before, node)) return bad;
  for (const CUmemAccessDesc &access : task->access) allocation->open_to(access.location.id);
  graph->balance[allocation.get()]++;
  return CUDA_SUCCESS;
}

CUresult add_free(Graph *graph, const std::shared_ptr<Context> &context, uint64_t address,
                  const std::vector<Edge> &before, Node **node) {
  if (graph->parent) return refuse(CUDA_ERROR_NOT_SUPPORTED, "an embedded graph cannot free");
  GraphAllocationRef allocation = GraphAllocation::find(address);
  if (!allocation)
    return refuse(CUDA_ERROR_INVALID_VALUE, "0x%llx is no allocation of a graph",
                  static_cast<unsigned long long>(address));
  auto known = graph->balance.find(allocation.get());
  if (known != graph->balance.end() && known->second <= 0)
    return refuse(CUDA_ERROR_INVALID_VALUE, "the graph frees 0x%llx already",
                  static_cast<unsigned long long>(address));
  auto task = std::make_shared<FreeTask>(context, allocation);
  if (CUresult bad = graph->add(CU_GRAPH_NODE_TYPE_MEM_FREE, task, before, node)) return bad;
  if (known != graph->balance.end()) graph->freed.push_back((*node)->self());
  graph->balance[allocation.get()]--;
  return CUDA_SUCCESS;
}

CUresult free_graph_memory(uint64_t address, bool *known, GraphAllocationRef *freed) {
  GraphAllocationRef allocation = GraphAllocation::find(address);
  *known = allocation != nullptr;
  if (!allocation) return CUDA_SUCCESS;
  std::lock_guard guard(graph_memory_mutex());
  if (!allocation->live())
    return refuse(CUDA_ERROR_INVALID_VALUE, "the graph's memory at 0x%llx is not allocated now",
                  static_cast<unsigned long long>(address));
  allocation->set_live(false);
  *freed = std::move(allocation);
  return CUDA_SUCCESS;
}

CUresult trim_graph_memory(int device) {
  std::vector<GraphAllocationRef> all;  // ends behind the locks
  std::lock_guard launches(graph_memory_mutex());
  driver()->device(device)->drain();
  {
    std::lock_guard guard(books().mutex);
    for (const auto &[address, allocation] : books().all)
      if (GraphAllocationRef held = allocation.lock()) all.push_back(std::move(held));
  }
  for (const GraphAllocationRef &allocation : all) {
    if (allocation->device != device || allocation->live_ || !allocation->backed_) continue;
    driver()->memory.unback(allocation->address, allocation->region_);
    allocation->backed_ = false;
    count(device, -static_cast<int64_t>(allocation->size));
  }
  return CUDA_SUCCESS;
}

GraphMemoryUse graph_memory_use(int device) {
  std::lock_guard guard(books().mutex);
  return books().use[device];
}

void reset_graph_memory_high(int device) {
  std::lock_guard guard(books().mutex);
  books().use[device].high = books().use[device].now;
}

}  // namespace softdev::driver
