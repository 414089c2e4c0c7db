#include "memory/host_block.h"

#include <stdlib.h>
#include <string.h>

#include "guest_calls.h"
#include "memory/internal.h"
#include "memory/window.h"
#include "pages/backing.h"
#include "session/device.h"
#include "session/session.h"
#include "wire.h"

static unsigned pages_per_block(void) { return (unsigned)(window_block() / WIRE_PAGE); }
// Larger allocations get blocks of their own.
static uint64_t small_max(void) { return window_block() / 2; }

struct host_block {
  struct holding holding;
  const void *owner;
  // By session: how many allocations its device reaches. While it is 0, the device has nothing
  // there.
  unsigned mapped[SESSIONS_MAX];
  _Bool stale[SESSIONS_MAX];  // the device may have there what a former allocation left
  _Bool small;
  unsigned used;  // pages, of a block of small allocations
  struct host_block *next_small;
  uint8_t taken[];  // each page of those
};

_Atomic unsigned host_blocks;
static struct host_block *small_blocks;

static _Bool find(struct holding *holding, uint64_t address, struct allocation *found) {
  (void)holding;
  return host_find_allocation(address, found);
}

static void forget(struct session *session, struct holding *holding) {
  struct host_block *block = (struct host_block *)holding;
  if (!block->mapped[session->number]) return;
  host_forget_block(session, block);
  block->mapped[session->number] = 0;
  block->stale[session->number] = 0;
  memory_discharge_pinned(session, holding->size);
}

static const struct holding_kind kind = {find, forget, NULL};

static struct host_block *block_at(uint64_t address) {
  struct holding *holding = window_in_host_part(address) ? window_at(address) : NULL;
  return holding && holding->kind == &kind ? (struct host_block *)holding : NULL;
}

uint64_t host_block_address(const struct host_block *block) { return block->holding.address; }

uint64_t host_block_round(uint64_t size) {
  return (size + WIRE_PAGE - 1) & ~(uint64_t)(WIRE_PAGE - 1);
}

char *host_block_view(uint64_t address) { return backing_view(address); }

const void *host_block_owner(uint64_t address) {
  const struct host_block *block = block_at(address);
  return block ? block->owner : NULL;
}

static struct host_block *make(uint64_t size, _Bool small) {
  struct host_block *block = calloc(1, sizeof *block + (small ? pages_per_block() : 0));
  uint64_t bytes = (size + window_block() - 1) & ~(window_block() - 1), address;
  if (!block || bytes < size || !window_take_host(bytes, &address)) {
    free(block);
    return NULL;
  }
  block->holding = (struct holding){.address = address, .size = bytes, .kind = &kind};
  block->small = small;
  window_put(&block->holding);
  host_blocks++;
  return block;
}

static void end(struct host_block *block) {
  if (block->small) {
    struct host_block **link = &small_blocks;
    while (*link != block) link = &(*link)->next_small;
    *link = block->next_small;
  }
  window_remove(&block->holding);
  window_give(block->holding.address, block->holding.size);
  host_blocks--;
  free(block);
}

static void give(struct host_block *block, uint64_t address, uint64_t bytes) {
  if (block->small) {
    unsigned at = (unsigned)((address - block->holding.address) / WIRE_PAGE);
    memset(block->taken + at, 0, bytes / WIRE_PAGE);
    block->used -= (unsigned)(bytes / WIRE_PAGE);
    if (block->used) return;
  }
  end(block);
}

struct host_block *host_block_make(uint64_t size, const void *owner) {
  struct host_block *block = make(size, 0);
  if (block) block->owner = owner;
  return block;
}

// Returns the first of `pages` free pages in a row, or -1.
static int find_pages(const struct host_block *block, unsigned pages) {
  if (pages_per_block() - block->used < pages) return -1;
  unsigned run = 0;
  for (unsigned i = 0; i < pages_per_block(); i++) {
    run = block->taken[i] ? 0 : run + 1;
    if (run == pages) return (int)(i + 1 - pages);
  }
  return -1;
}

static struct host_block *take_small(size_t size, uint64_t *address) {
  unsigned pages = (unsigned)(host_block_round(size) / WIRE_PAGE);
  struct host_block *block = small_blocks;
  int at = -1;
  while (block && (at = find_pages(block, pages)) < 0) block = block->next_small;
  if (!block) {
    block = make(window_block(), 1);
    if (!block) return NULL;
    block->next_small = small_blocks;
    small_blocks = block;
    at = 0;
  }
  memset(block->taken + at, 1, pages);
  block->used += pages;
  *address = block->holding.address + (uint64_t)at * WIRE_PAGE;
  return block;
}

struct host_block *host_block_take(size_t size, uint64_t *address) {
  struct host_block *block;
  if (size <= small_max()) {
    block = take_small(size, address);
  } else {
    block = make(size, 0);
    if (block) *address = block->holding.address;
  }
  if (block && !backing_open(*address, host_block_round(size))) {
    give(block, *address, host_block_round(size));
    block = NULL;
  }
  if (!block) *address = 0;
  return block;
}

void host_block_release(struct host_block *block, uint64_t address, size_t size) {
  if (!block->owner) backing_close(address, host_block_round(size));
  give(block, address, host_block_round(size));
}

_Bool host_block_is_stale(struct session *session, const struct host_block *block) {
  return block->stale[session->number];
}

CUresult host_block_map(struct host_block *block) {
  struct session *session = session_here();
  unsigned *mapped = &block->mapped[session->number];
  if (!*mapped) {
    const struct holding *at = &block->holding;
    if (!memory_charge_pinned(session, at->size)) return CUDA_ERROR_OUT_OF_MEMORY;
    uint32_t device = device_get(device_here())->server_ordinal;
    CUresult result = memory_pinned_is_apart(session)
                          ? put_PinnedMap(session, at->address, at->size, device)
                          : put_MemoryMap(session, at->address, at->size, device);
    if (result) {
      memory_discharge_pinned(session, at->size);
      return result;
    }
  }
  ++*mapped;
  return CUDA_SUCCESS;
}

void host_block_unmap(struct session *session, struct host_block *block) {
  block->stale[session->number] = --block->mapped[session->number] != 0;
  if (block->mapped[session->number]) return;
  put_MemoryUnmap(session, block->holding.address, block->holding.size);
  memory_discharge_pinned(session, block->holding.size);
}
