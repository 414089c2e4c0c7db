#include "memory/memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "guest_calls.h"
#include "memory/internal.h"
#include "memory/peer.h"
#include "memory/pool_hooks.h"
#include "memory/share_end.h"
#include "memory/window.h"
#include "pages/backing.h"
#include "pages/page_ranges.h"
#include "pages/pages.h"
#include "session/context.h"
#include "session/device.h"
#include "session/session.h"
#include "wire.h"
#include "wire/enter.h"
#include "wire/order.h"

// Allocations of more than half of window_block() get granules of their own; smaller ones share a
// block of that size in units of 512 bytes, as the vendor's driver aligns them.
#define UNIT 512
static unsigned units_per_block(void) { return (unsigned)(window_block() / UNIT); }
static uint64_t small_max(void) { return window_block() / 2; }

// What is known of an allocation beside its address.
struct record {
  uint64_t size;  // as asked for; 0 when freed
  uint64_t context;
  uint64_t pool;
  uint64_t id : 63;
  uint64_t shared : 1;  // it has a share name
};

struct block {
  struct holding holding;
  int device;  // that it was allocated for; managed memory may be another's now
  enum allocation_kind kind;
  struct record record;  // of a large block's only allocation
  struct small *small;   // not NULL: shared by small allocations
  struct block *next_small;
};

struct small {
  unsigned free_units, leaving_units;
  unsigned first_free;      // no free unit is before this one
  uint8_t *units;           // 0 free, 1 starts an allocation, 2 continues one
  struct record records[];  // at the unit where it starts; `units` lies behind them
};

static struct small *make_small(void) {
  const size_t count = units_per_block();
  struct small *small =
      calloc(1, sizeof *small + count * (sizeof *small->records + sizeof *small->units));
  if (!small) return NULL;
  small->free_units = (unsigned)count;
  small->units = (uint8_t *)(small->records + count);
  return small;
}

pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *small_blocks;

void memory_start(uint64_t window_base, uint64_t window_size, uint64_t granule) {
  // A quarter for pinned memory: addresses are plenty.
  const uint64_t block = granule > WIRE_GRANULE ? granule : WIRE_GRANULE;
  window_start(window_base, window_size, window_size / 4 & ~(block - 1), granule);
  backing_start(window_base, window_size);
  for (struct session *session = sessions; session < sessions_end(); session++)
    budget_round(session);
}

uint64_t memory_next_id(void) {
  static uint64_t last;
  return ++last;
}

// ---- blocks ------------------------------------------------------------------------------------

static const struct holding_kind block_kind;

static struct block *block_at(uint64_t address) {
  struct holding *holding = window_at(address);
  return holding && holding->kind == &block_kind ? (struct block *)holding : NULL;
}

// Lends managed memory to all devices that can reach it.
static void open_managed(struct block *block) {
  peer_lend_to_joined(&block->holding);
  if (block->holding.borrowers) pages_open_to(block->holding.address, block->holding.borrowers);
}

static CUresult new_block(struct session *session, uint64_t bytes, int device,
                          enum allocation_kind kind, struct block **out) {
  uint64_t address;
  struct block *block = calloc(1, sizeof *block);
  if (!block || !memory_charge(session, bytes)) {
    free(block);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  if (window_take(bytes, window_block(), &address)) {
    result = kind == ALLOCATION_MANAGED ? pages_share(session, address, bytes) : CUDA_SUCCESS;
    if (!result)
      result = put_MemoryMap(session, address, bytes, device_get(device)->server_ordinal);
    if (result) {
      pages_unshare(address);
      window_give(address, bytes);
    }
  }
  if (result) {
    memory_discharge(session, bytes);
    free(block);
    return result;
  }
  block->holding =
      (struct holding){.address = address, .size = bytes, .session = session, .kind = &block_kind};
  block->device = device;
  block->kind = kind;
  window_put(&block->holding);
  if (kind == ALLOCATION_PLAIN) peer_lend_to_all(&block->holding);
  if (kind == ALLOCATION_MANAGED) open_managed(block);
  *out = block;
  return CUDA_SUCCESS;
}

// Ends a block that nothing uses any more. `tell` says that the server has memory under it, which
// it is told to take away.
static void end_block(struct session *session, struct block *block, _Bool tell) {
  peer_end_all(&block->holding);
  if (block->kind == ALLOCATION_MANAGED) pages_unshare(block->holding.address);
  if (tell) put_MemoryUnmap(session, block->holding.address, block->holding.size);
  memory_discharge(session, block->holding.size);
  window_remove(&block->holding);
  window_give(block->holding.address, block->holding.size);
  if (block->small) {
    struct block **link = &small_blocks;
    while (*link != block) link = &(*link)->next_small;
    *link = block->next_small;
    if (block == session->spare) session->spare = NULL;
    free(block->small);
  }
  free(block);
}

// ---- small allocations -------------------------------------------------------------------------

// Returns where a run of `units` free units begins, or -1.
static int find_units(struct small *small, unsigned units) {
  if (small->free_units < units) return -1;
  unsigned run = 0;
  for (unsigned i = small->first_free; i < units_per_block(); i++) {
    run = small->units[i] ? 0 : run + 1;
    if (run == units) return (int)(i + 1 - units);
  }
  return -1;
}

// Changes how many units of a block are free, and how many are leaving. While units are leaving and
// all others are free, the block counts as leaving.
static void count_units(struct session *session, struct small *small, int freed, int left) {
  _Bool before =
      small->leaving_units && small->free_units + small->leaving_units == units_per_block();
  small->free_units += (unsigned)freed;
  small->leaving_units += (unsigned)left;
  _Bool after =
      small->leaving_units && small->free_units + small->leaving_units == units_per_block();
  if (after != before)
    memory_count_leaving(session, after ? (int64_t)window_block() : -(int64_t)window_block());
}

static CUresult allocate_small(struct session *session, uint64_t size, int device,
                               enum allocation_kind kind, const struct record *record,
                               uint64_t *address) {
  unsigned units = (unsigned)((size + UNIT - 1) / UNIT);
  struct block *block = small_blocks;
  int at = -1;
  for (; block; block = block->next_small)
    if (block->device == device && block->holding.session == session && block->kind == kind &&
        (at = find_units(block->small, units)) >= 0)
      break;
  if (at < 0) {
    struct small *small = make_small();
    if (!small) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = new_block(session, window_block(), device, kind, &block);
    if (result) {
      free(small);
      return result;
    }
    block->small = small;
    block->next_small = small_blocks;
    small_blocks = block;
    at = 0;
  }
  if (block == session->spare) session->spare = NULL;
  struct small *small = block->small;
  memset(small->units + at, 2, units);
  small->units[at] = 1;
  small->records[at] = *record;
  count_units(session, small, -(int)units, 0);
  while (small->first_free < units_per_block() && small->units[small->first_free])
    small->first_free++;
  *address = block->holding.address + (uint64_t)at * UNIT;
  return CUDA_SUCCESS;
}

static unsigned units_at(const struct small *small, unsigned at) {
  unsigned count = 1;
  while (at + count < units_per_block() && small->units[at + count] == 2) count++;
  return count;
}

static void free_units(struct session *session, struct small *small, unsigned at) {
  unsigned count = units_at(small, at);
  memset(small->units + at, 0, count);
  count_units(session, small, (int)count, -(int)count);
  if (at < small->first_free) small->first_free = at;
}

// ---- freeing -----------------------------------------------------------------------------------

// Releases an allocation in a block.
static void release(struct block *block, uint64_t address) {
  struct session *session = block->holding.session;
  if (!block->small) {
    memory_count_leaving(session, -(int64_t)block->holding.size);
    end_block(session, block, 1);
    return;
  }
  free_units(session, block->small, (unsigned)((address - block->holding.address) / UNIT));
  // One empty block stays, so that a program that allocates and frees in turn does not map and
  // unmap each time.
  if (block->small->free_units < units_per_block()) return;
  if (block->kind != ALLOCATION_PLAIN) return end_block(session, block, 1);
  struct block **spare = &session->spare;
  if (*spare) end_block(session, *spare, 1);
  *spare = block;
}

void memory_release(uint64_t address) {
  struct block *block = block_at(address);
  if (!block) return;
  struct thread_session before = session_switch(block->holding.session);
  release(block, address);
  session_back(before);
}

// The record of the live allocation that begins at an address, or NULL.
static struct record *record_at(uint64_t address) {
  struct block *block = block_at(address);
  if (!block) return NULL;
  struct record *record = &block->record;
  if (block->small) {
    unsigned at = (unsigned)((address - block->holding.address) / UNIT);
    if (address % UNIT || block->small->units[at] != 1) return NULL;
    record = &block->small->records[at];
  } else if (address != block->holding.address) {
    return NULL;
  }
  return record->size ? record : NULL;
}

// Ends the name by which other processes may open an allocation, where it has one.
static void unname(const struct block *block, struct record *record, uint64_t address) {
  if (!record->shared) return;
  record->shared = 0;
  block->holding.session->shared_count--;
  share_end(&block->holding, address, record->size);
}

_Bool memory_name(uint64_t address, uint64_t id) {
  struct record *record = record_at(address);
  if (!record || record->id != id) return 0;
  if (!record->shared) block_at(address)->holding.session->shared_count++;
  record->shared = 1;
  return 1;
}

CUresult memory_leave(uint64_t address, uint64_t *capacity) {
  struct record *record = record_at(address);
  if (!record) return CUDA_ERROR_INVALID_VALUE;
  struct block *block = block_at(address);
  // It may be freed on a stream of another device.
  struct session *session = block->holding.session;
  memory_pools->count_free(record->pool, record->size);
  unname(block, record, address);
  record->size = 0;
  if (block->small) {
    unsigned at = (unsigned)((address - block->holding.address) / UNIT);
    unsigned units = units_at(block->small, at);
    count_units(session, block->small, 0, (int)units);
    *capacity = (uint64_t)units * UNIT;
  } else {
    *capacity = block->holding.size;
    memory_count_leaving(session, (int64_t)block->holding.size);
  }
  return CUDA_SUCCESS;
}

void memory_return(struct session *session, uint64_t address, uint64_t size, uint64_t context,
                   uint64_t pool) {
  struct block *block = block_at(address);
  struct record record = {size, context, pool, memory_next_id(), 0};
  if (block->small) {
    unsigned at = (unsigned)((address - block->holding.address) / UNIT);
    count_units(session, block->small, 0, -(int)units_at(block->small, at));
    block->small->records[at] = record;
  } else {
    block->record = record;
    memory_count_leaving(session, -(int64_t)block->holding.size);
  }
}

static CUresult retire(struct session *session, uint64_t address) {
  // What a released context had is gone, though the server has it until somebody comes back for it.
  const struct record *record = record_at(address);
  if (record && guest_context_is_gone(record->context)) return CUDA_ERROR_INVALID_VALUE;
  if (!memory_room_to_leave(session)) return CUDA_ERROR_OUT_OF_MEMORY;
  uint64_t capacity;
  CUresult result = memory_leave(address, &capacity);
  if (!result) memory_release_later(session, address);
  return result;
}

CUresult memory_make_room(struct session *session) {
  CUresult result = CUDA_SUCCESS;
  if (memory_leaves(session)) {
    pthread_mutex_unlock(&memory_lock);
    result = context_synchronize(session);
    if (sessions_many()) sessions_settle(session->borrowers);
    pthread_mutex_lock(&memory_lock);
  }
  memory_release_settled(session);
  struct block *spare = session->spare;
  if (spare) end_block(session, spare, 1);
  return result;
}

// ---- allocating --------------------------------------------------------------------------------

uint64_t memory_capacity(uint64_t size) {
  uint64_t unit = size <= small_max() ? UNIT : window_granule();
  return (size + unit - 1) & ~(unit - 1);
}

static CUresult allocate(struct session *session, uint64_t size, int device, uint64_t context,
                         uint64_t pool, enum allocation_kind kind, uint64_t *address) {
  memory_release_settled(session);
  struct record record = {size, context, pool, memory_next_id(), 0};
  if (size <= small_max()) return allocate_small(session, size, device, kind, &record, address);
  if (size > memory_limit(session)) return CUDA_ERROR_OUT_OF_MEMORY;
  struct block *block;
  CUresult result = new_block(session, memory_capacity(size), device, kind, &block);
  if (result) return result;
  block->record = record;
  *address = block->holding.address;
  return CUDA_SUCCESS;
}

CUresult memory_allocate(struct session *session, uint64_t size, int device, uint64_t context,
                         uint64_t pool, uint64_t *address) {
  return allocate(session, size, device, context, pool, ALLOCATION_PLAIN, address);
}

CUresult memory_obtain(uint64_t size, enum allocation_kind kind, CUdeviceptr *out) {
  if (!out || !size) return CUDA_ERROR_INVALID_VALUE;
  uint64_t address, context = context_current_handle();
  int device = device_here();
  struct session *session = session_here();
  if (sessions_many() && kind == ALLOCATION_MANAGED) peer_join_all(session);
  pthread_mutex_lock(&memory_lock);
  CUresult result = allocate(session, size, device, context, 0, kind, &address);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    // What was freed counts as free: wait until nothing uses it any more, as freeing does locally.
    result = memory_make_room(session);
    if (!result) result = allocate(session, size, device, context, 0, kind, &address);
  }
  if (result == CUDA_ERROR_OUT_OF_MEMORY) memory_log_shortage(session, size);
  pthread_mutex_unlock(&memory_lock);
  if (!result) *out = address;
  return result;
}

CUresult memory_free(uint64_t address) {
  pthread_mutex_lock(&memory_lock);
  const struct holding *holding = window_at(address);
  if (holding) session_use(holding->session);
  struct session *session = session_here();
  _Bool near = memory_near_limit(session);
  CUresult result = retire(session, address);
  // The stacks of the next kernel may need what is free now.
  if (!result && near) guest_async_error(session, memory_make_room(session));
  pthread_mutex_unlock(&memory_lock);
  share_ends_await();
  return result;
}

// ---- from one device to another ----------------------------------------------------------------

// Moves a managed block, all of which is on the host, to a session. The caller holds the lock.
static CUresult move_block(struct session *session, struct block *block) {
  uint64_t address = block->holding.address, bytes = block->holding.size;
  struct session *from = block->holding.session;
  if (!memory_charge(session, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = put_MemoryMap(session, address, bytes,
                                  device_get(device_of_session(session))->server_ordinal);
  if (result) {
    memory_discharge(session, bytes);
    return result;
  }
  peer_end_all(&block->holding);
  block->holding.loan = 0;
  block->holding.session = session;
  pages_move(session, address);
  put_MemoryUnmap(from, address, bytes);
  memory_discharge(from, bytes);
  open_managed(block);
  return CUDA_SUCCESS;
}

// Returns the block at an address, if it is managed and the device of `session` does not reach it;
// else NULL.
static struct block *elsewhere(struct session *session, uint64_t address) {
  struct block *block = block_at(address);
  if (!block || block->kind != ALLOCATION_MANAGED) return NULL;
  const struct holding *holding = &block->holding;
  return holding->session == session || sessions_have(holding->borrowers, session) ? NULL : block;
}

CUresult memory_bring_managed(struct session *session, uint64_t address) {
  CUresult result = CUDA_SUCCESS;
  pthread_mutex_lock(&memory_lock);
  struct block *block = elsewhere(session, address);
  if (block) {
    uint64_t start = block->holding.address;
    unsigned borrowers = block->holding.borrowers;
    struct session *from = block->holding.session;
    struct thread_session before = session_switch(from);
    pthread_mutex_unlock(&memory_lock);
    result = context_synchronize(from);
    sessions_settle(borrowers);
    peer_join_all(session);
    if (!guest_is_lost()) pages_bring_all(start);
    session_back(before);
    pthread_mutex_lock(&memory_lock);
    block = elsewhere(session, address);
    if (block && !guest_is_lost()) {
      result = move_block(session, block);
      if (result == CUDA_ERROR_OUT_OF_MEMORY) memory_log_shortage(session, block->holding.size);
    }
  }
  pthread_mutex_unlock(&memory_lock);
  return result;
}

// ---- what is found in it -----------------------------------------------------------------------

static _Bool find_in_block(struct holding *holding, uint64_t address, struct allocation *found) {
  struct block *block = (struct block *)holding;
  struct record *record = &block->record;
  uint64_t start = holding->address;
  if (block->small) {
    unsigned at = (unsigned)((address - start) / UNIT);
    while (at && block->small->units[at] == 2) at--;
    if (block->small->units[at] != 1) return 0;
    record = &block->small->records[at];
    start += (uint64_t)at * UNIT;
  }
  if (address - start >= record->size) return 0;
  *found =
      (struct allocation){.kind = block->kind,
                          .device = block->device,
                          .address = start,
                          .size = record->size,
                          .context = record->context,
                          .pool = record->pool,
                          .id = record->id,
                          .access = ACCESS_ALL,
                          .borrowers = block->kind == ALLOCATION_PLAIN ? holding->borrowers : 0};
  return 1;
}

static void forget_block(struct session *session, struct holding *holding) {
  end_block(session, (struct block *)holding, 0);
}

static _Bool block_opens(const struct holding *holding, struct session *borrower) {
  (void)borrower;
  return ((const struct block *)holding)->kind == ALLOCATION_PLAIN;
}

static const struct holding_kind block_kind = {find_in_block, forget_block, block_opens};

static void forget(struct holding *holding, void *session) {
  if (holding->kind->forget) holding->kind->forget(session, holding);
}

void memory_forget_all(struct session *session) {
  pthread_mutex_lock(&memory_lock);
  window_each(session, forget, session);
  session->shared_count = 0;
  memory_forget_leaving(session);
  variables_forget_all(session);
  memory_pools->forget_all(session);
  pthread_mutex_unlock(&memory_lock);
}

// Frees what a context has in a block, which may end by that.
static void destroy_in(struct holding *holding, void *context) {
  uint64_t owner = *(uint64_t *)context, start = holding->address;
  struct block *block = block_at(start);
  if (!block) return;
  if (!block->small) {
    if (block->record.size && block->record.context == owner) retire(holding->session, start);
    return;
  }
  struct session *session = holding->session;  // the block may end here
  for (unsigned u = 0; block_at(start) == block && u < units_per_block(); u++) {
    const struct record *record = &block->small->records[u];
    if (block->small->units[u] == 1 && record->size && record->context == owner)
      retire(session, start + (uint64_t)u * UNIT);
  }
}

void memory_destroy_of(struct session *session, uint64_t context) {
  pthread_mutex_lock(&memory_lock);
  window_each(session, destroy_in, &context);
  pthread_mutex_unlock(&memory_lock);
  share_ends_await();
}

static void unname_in(struct holding *holding, void *unused) {
  (void)unused;
  const uint64_t start = holding->address;
  struct block *block = block_at(start);
  if (!block) return;
  if (!block->small) return unname(block, &block->record, start);
  for (unsigned u = 0; u < units_per_block(); u++)
    if (block->small->units[u] == 1)
      unname(block, &block->small->records[u], start + (uint64_t)u * UNIT);
}

void memory_unname_all(struct session *session) {
  pthread_mutex_lock(&memory_lock);
  if (session->shared_count) window_each(session, unname_in, NULL);
  pthread_mutex_unlock(&memory_lock);
  share_ends_await();
}

// ---- entry points ------------------------------------------------------------------------------

void memory_tell(struct session *session, uint64_t *unused, uint64_t *total) {
  pthread_mutex_lock(&memory_lock);
  memory_release_settled(session);
  *unused =
      (memory_unused(session) & ~(window_granule() - 1)) + (session->spare ? window_block() : 0);
  *total = memory_limit(session);
  pthread_mutex_unlock(&memory_lock);
}

CUresult guest_cuMemGetInfo_v2(size_t *free, size_t *total) {
  if (!free || !total) return CUDA_ERROR_INVALID_VALUE;
  memory_tell(session_here(), free, total);
  return CUDA_SUCCESS;
}
