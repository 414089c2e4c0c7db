#include "graph/allocation.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "graph/task.h"
#include "guest_calls.h"
#include "memory/limit.h"
#include "memory/memory.h"
#include "memory/peer.h"
#include "memory/window.h"
#include "session/device.h"
#include "session/session.h"
#include "setup/device_description.h"
#include "streams/recorder.h"
#include "wire/order.h"

#define UNIT 512

struct graph_allocation {
  struct holding holding;  // first: the window's files know it by that
  unsigned references;
  int device;
  uint64_t size;  // as counted; what is mapped are granules
  uint64_t context, id;
  _Bool live;        // a launch has allocated it, and nothing has freed it since
  _Bool mapped;      // there is memory under it: from when a graph that names it is instantiated
  _Bool counted;     // ... and it was launched
  uint8_t sessions;  // whose devices its node gives access, a bit each
  struct graph_allocation *next;
};

static struct graph_allocation *all;
static _Atomic unsigned count;  // of them
static struct { uint64_t now, high; } use[DEVICES_MAX];

// ---- for the window ----------------------------------------------------------------------------

static _Bool find_in(struct holding *holding, uint64_t address, struct allocation *found) {
  const struct graph_allocation *allocation = (struct graph_allocation *)holding;
  if (address - holding->address >= allocation->size) return 0;
  *found = (struct allocation){.kind = ALLOCATION_PLAIN,
                               .device = allocation->device,
                               .address = holding->address,
                               .size = allocation->size,
                               .context = allocation->context,
                               .id = allocation->id,
                               .access = ACCESS_ALL,
                               .borrowers = holding->borrowers};
  return 1;
}

static void lose(struct session *session, struct graph_allocation *allocation) {
  if (allocation->counted) use[allocation->device].now -= allocation->size;
  if (allocation->mapped) memory_discharge(session, allocation->holding.size);
  allocation->counted = allocation->mapped = 0;
}

static void forget(struct session *session, struct holding *holding) {
  lose(session, (struct graph_allocation *)holding);
}

static _Bool opens(const struct holding *holding, struct session *borrower) {
  const struct graph_allocation *allocation = (const struct graph_allocation *)holding;
  return allocation->mapped && !sessions_have(allocation->sessions, borrower);
}

static const struct holding_kind kind = {find_in, forget, opens};

// ---- life --------------------------------------------------------------------------------------

static struct graph_allocation *make(int device, uint64_t size, uint64_t context) {
  struct graph_allocation *made = calloc(1, sizeof *made);
  uint64_t bytes = (size + window_block() - 1) & ~(window_block() - 1), address;
  if (!made) return NULL;
  pthread_mutex_lock(&memory_lock);
  _Bool taken = bytes >= size && window_take(bytes, window_block(), &address);
  if (taken) {
    made->holding = (struct holding){
        .address = address, .size = bytes, .session = session_of_device(device), .kind = &kind};
    made->id = memory_next_id();
    made->references = 1;
    made->device = device;
    made->size = size;
    made->context = context;
    window_put(&made->holding);
  }
  pthread_mutex_unlock(&memory_lock);
  if (!taken) {
    free(made);
    return NULL;
  }
  made->next = all;
  all = made;
  atomic_fetch_add(&count, 1);
  return made;
}

static struct graph_allocation *find(uint64_t address) {
  for (struct graph_allocation *at = all; at; at = at->next)
    if (at->holding.address == address) return at;
  return NULL;
}

struct graph_allocation *graph_allocation_ref(struct graph_allocation *allocation) {
  allocation->references++;
  return allocation;
}

// Takes away the memory under an allocation, which no work uses any more.
static void unback(struct graph_allocation *allocation) {
  if (!allocation->mapped) return;
  struct session *session = allocation->holding.session;
  struct thread_session before = session_switch(session);
  peer_end_all(&allocation->holding);
  put_MemoryUnmap(session, allocation->holding.address, allocation->holding.size);
  lose(session, allocation);
  session_back(before);
}

// Waits until no work uses memory of the session, on its device or a peer's.
static CUresult settle(struct session *session) {
  CUresult result = session_synchronize(session);
  if (sessions_many()) sessions_settle(session->borrowers);
  return result;
}

void graph_allocation_unref(struct graph_allocation *allocation) {
  if (--allocation->references) return;
  if (allocation->mapped) settle(allocation->holding.session);
  pthread_mutex_lock(&memory_lock);
  unback(allocation);
  window_remove(&allocation->holding);
  window_give(allocation->holding.address, allocation->holding.size);
  pthread_mutex_unlock(&memory_lock);
  struct graph_allocation **link = &all;
  while (*link != allocation) link = &(*link)->next;
  *link = allocation->next;
  atomic_fetch_sub(&count, 1);
  free(allocation);
}

struct session *graph_allocation_session(const struct graph_allocation *allocation) {
  return session_of_device(allocation->device);
}

uint64_t graph_allocation_address(const struct graph_allocation *allocation) {
  return allocation->holding.address;
}

// What a launch has left allocated may have no other reference.
void graph_allocation_set_live(struct graph_allocation *allocation, _Bool live) {
  if (allocation->live == live) return;
  allocation->live = live;
  if (live)
    allocation->references++;
  else
    graph_allocation_unref(allocation);
}

_Bool graph_allocation_is_live(const struct graph_allocation *allocation) {
  return allocation->live;
}

static CUresult map(struct session *session, struct graph_allocation *allocation) {
  uint64_t bytes = allocation->holding.size;
  if (!memory_charge(session, bytes)) {
    CUresult result = memory_make_room(session);
    if (result) return result;
    if (!memory_charge(session, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  CUresult result = put_MemoryMap(session, allocation->holding.address, bytes,
                                  device_get(allocation->device)->server_ordinal);
  if (result) {
    memory_discharge(session, bytes);
    return result;
  }
  allocation->mapped = 1;
  allocation->holding.loan = 0;
  peer_lend_to_all(&allocation->holding);
  peer_lend_to(&allocation->holding, allocation->sessions);
  return CUDA_SUCCESS;
}

// Takes away the memory of what is not live.
static CUresult trim(int device) {
  CUresult result = settle(session_of_device(device));
  if (result) return result;
  pthread_mutex_lock(&memory_lock);
  for (struct graph_allocation *at = all; at; at = at->next)
    if (at->device == device && !at->live) unback(at);
  pthread_mutex_unlock(&memory_lock);
  return CUDA_SUCCESS;
}

CUresult graph_allocation_map(struct graph_allocation *allocation) {
  if (allocation->mapped) return CUDA_SUCCESS;
  struct session *session = allocation->holding.session;
  struct thread_session before = session_switch(session);
  pthread_mutex_lock(&memory_lock);
  CUresult result = map(session, allocation);
  pthread_mutex_unlock(&memory_lock);
  // Other graphs may have memory that they do not use.
  if (result == CUDA_ERROR_OUT_OF_MEMORY && !(result = trim(allocation->device))) {
    pthread_mutex_lock(&memory_lock);
    result = map(session, allocation);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) memory_log_shortage(session, allocation->holding.size);
    pthread_mutex_unlock(&memory_lock);
  }
  session_back(before);
  return result;
}

void graph_allocation_count(struct graph_allocation *allocation) {
  if (allocation->counted) return;
  allocation->counted = 1;
  use[allocation->device].now += allocation->size;
  if (use[allocation->device].now > use[allocation->device].high)
    use[allocation->device].high = use[allocation->device].now;
}

CUresult graph_memory_free(uint64_t address) {
  if (!atomic_load_explicit(&count, memory_order_relaxed)) return GRAPH_MEMORY_NONE;
  CUresult result = GRAPH_MEMORY_NONE;
  graphs_lock();
  struct graph_allocation *allocation = find(address);
  if (allocation) {
    result = allocation->live ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    graph_allocation_set_live(allocation, 0);
  }
  graphs_unlock();
  return result;
}

// ---- nodes -------------------------------------------------------------------------------------

static CUresult check(const CUDA_MEM_ALLOC_NODE_PARAMS *params) {
  const CUmemPoolProps *pool = &params->poolProps;
  if (!params->bytesize || pool->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      pool->location.type != CU_MEM_LOCATION_TYPE_DEVICE || !device_exists(pool->location.id) ||
      pool->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
    return CUDA_ERROR_INVALID_VALUE;
  if (params->accessDescCount && !params->accessDescs) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < params->accessDescCount; i++) {
    const CUmemAccessDesc *access = &params->accessDescs[i];
    if (access->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        !device_exists(access->location.id) || access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
      return CUDA_ERROR_INVALID_VALUE;
    if (access->location.id != pool->location.id &&
        !device_peer(access->location.id, pool->location.id))
      return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  }
  return CUDA_SUCCESS;
}

CUresult task_allocate(const CUDA_MEM_ALLOC_NODE_PARAMS *params, uint64_t context,
                       struct task **made) {
  CUresult result = check(params);
  if (result) return result;
  struct task *task = task_new(CU_GRAPH_NODE_TYPE_MEM_ALLOC, context);
  if (!task) return CUDA_ERROR_OUT_OF_MEMORY;
  struct allocate_task *allocate = &task->allocate;
  allocate->properties = params->poolProps;
  allocate->bytes = params->bytesize;
  if (params->accessDescCount) {
    size_t bytes = params->accessDescCount * sizeof *allocate->access;
    allocate->access = malloc(bytes);
    if (!allocate->access) {
      task_unref(task);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memcpy(allocate->access, params->accessDescs, bytes);
    allocate->access_count = params->accessDescCount;
  }
  *made = task;
  return CUDA_SUCCESS;
}

CUresult task_free(uint64_t address, uint64_t context, struct task **made) {
  struct graph_allocation *allocation = find(address);
  if (!allocation) return CUDA_ERROR_INVALID_VALUE;
  struct task *task = task_new(CU_GRAPH_NODE_TYPE_MEM_FREE, context);
  if (!task) return CUDA_ERROR_OUT_OF_MEMORY;
  task->freed = graph_allocation_ref(allocation);
  *made = task;
  return CUDA_SUCCESS;
}

// Returns an allocation that the graph has freed ahead of where one is wanted, with a reference;
// NULL when there is none.
static struct graph_allocation *take_again(struct graph *graph, int device, uint64_t size,
                                           const struct graph_edges *before) {
  for (size_t i = 0; i < graph->freed_count; i++) {
    struct graph_node *node = graph->freed[i];
    if (!node->graph) continue;
    struct graph_allocation *allocation = node->task->freed;
    if (allocation->device != device || allocation->size != size ||
        !graph_comes_before(graph, before, node))
      continue;
    graph_allocation_ref(allocation);
    graph->freed[i] = graph->freed[--graph->freed_count];
    graph_node_unref(node);
    return allocation;
  }
  return NULL;
}

static struct graph_balance *balance_of(struct graph *graph, struct graph_allocation *allocation,
                                        _Bool make_one) {
  for (size_t i = 0; i < graph->balance_count; i++)
    if (graph->balance[i].allocation == allocation) return &graph->balance[i];
  if (!make_one) return NULL;
  struct graph_balance *grown = realloc(graph->balance, (graph->balance_count + 1) * sizeof *grown);
  if (!grown) return NULL;
  graph->balance = grown;
  grown[graph->balance_count] = (struct graph_balance){graph_allocation_ref(allocation), 0};
  return &grown[graph->balance_count++];
}

// Lets the devices that the node names reach it.
static CUresult open_to(struct graph_allocation *allocation, const struct allocate_task *task) {
  CUresult result = CUDA_SUCCESS;
  struct session *owner = allocation->holding.session;
  for (size_t i = 0; i < task->access_count && !result; i++) {
    struct session *borrower = session_of_device(task->access[i].location.id);
    if (borrower == owner || sessions_have(allocation->sessions, borrower)) continue;
    result = peer_join(borrower, owner);
    if (!result) allocation->sessions |= session_bit(borrower);
  }
  if (result || !allocation->mapped) return result;
  pthread_mutex_lock(&memory_lock);
  peer_lend_to(&allocation->holding, allocation->sessions);
  pthread_mutex_unlock(&memory_lock);
  return CUDA_SUCCESS;
}

CUresult graph_add_allocation(struct graph *graph, struct task *task,
                              const struct graph_edges *before, struct graph_node **node) {
  if (graph->parent) return CUDA_ERROR_NOT_SUPPORTED;
  int device = task->allocate.properties.location.id;
  uint64_t bytes = task->allocate.bytes, unit = bytes > WIRE_GRANULE ? WIRE_GRANULE : UNIT;
  uint64_t size = (bytes + unit - 1) & ~(unit - 1);
  if (size < bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  struct graph_allocation *allocation = take_again(graph, device, size, before);
  if (!allocation) allocation = make(device, size, task->context);
  if (!allocation) return CUDA_ERROR_OUT_OF_MEMORY;
  task->allocate.allocation = allocation;  // with the reference
  CUresult result = open_to(allocation, &task->allocate);
  if (result) return result;
  struct graph_balance *balance = balance_of(graph, allocation, 1);
  result = balance ? graph_add(graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC, task, before, node)
                   : CUDA_ERROR_OUT_OF_MEMORY;
  if (!result) balance->left++;
  return result;
}

CUresult graph_add_free(struct graph *graph, struct task *task, const struct graph_edges *before,
                        struct graph_node **node) {
  if (graph->parent) return CUDA_ERROR_NOT_SUPPORTED;
  struct graph_balance *known = balance_of(graph, task->freed, 0);
  if (known && known->left <= 0) return CUDA_ERROR_INVALID_VALUE;
  const _Bool own = known != NULL;
  struct graph_balance *balance = known ? known : balance_of(graph, task->freed, 1);
  struct graph_node **grown =
      realloc(graph->freed, (graph->freed_count + 1) * sizeof(struct graph_node *));
  if (grown) graph->freed = grown;
  if (!balance || !grown) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = graph_add(graph, CU_GRAPH_NODE_TYPE_MEM_FREE, task, before, node);
  if (result) return result;
  balance->left--;
  if (own) {
    (*node)->references++;
    graph->freed[graph->freed_count++] = *node;
  }
  return CUDA_SUCCESS;
}

// ---- entry points ------------------------------------------------------------------------------

CUresult guest_cuDeviceGraphMemTrim(CUdevice device) {
  if (!device_exists(device)) return CUDA_ERROR_INVALID_DEVICE;
  graphs_lock();
  CUresult result = trim(device);
  graphs_unlock();
  return result;
}

// What is used and what is reserved is the same: memory is not kept for graphs that are gone.
CUresult guest_cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr,
                                            void *value) {
  if (!device_exists(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  _Bool now =
      attr == CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT || attr == CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT;
  if (!now && attr != CU_GRAPH_MEM_ATTR_USED_MEM_HIGH &&
      attr != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
    return CUDA_ERROR_INVALID_VALUE;
  graphs_lock();
  *(cuuint64_t *)value = now ? use[device].now : use[device].high;
  graphs_unlock();
  return CUDA_SUCCESS;
}

CUresult guest_cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr,
                                            void *value) {
  if (!device_exists(device)) return CUDA_ERROR_INVALID_DEVICE;
  // The high-water marks can be set, and to 0 only.
  if (!value ||
      (attr != CU_GRAPH_MEM_ATTR_USED_MEM_HIGH && attr != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) ||
      *(cuuint64_t *)value != 0)
    return CUDA_ERROR_INVALID_VALUE;
  graphs_lock();
  use[device].high = use[device].now;
  graphs_unlock();
  return CUDA_SUCCESS;
}
