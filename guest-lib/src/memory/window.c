#include "memory/window.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "session/session.h"

struct extent {
  uint64_t first, count;  // granules
};

// A part of the window that addresses are taken from.
struct space {
  uint64_t first, end;     // granules
  uint64_t fresh;          // granules from here on are free
  struct extent *extents;  // granules free before `fresh`, by address, none side by side
  size_t extent_count, extent_room;
};

unsigned window_shift = 21;
static uint64_t base, end;
static uint64_t host_base;         // the host's part begins here
static struct holding **holdings;  // by granule
static struct space device, host;

static void space_start(struct space *space, uint64_t first, uint64_t last) {
  space->first = space->fresh = first;
  space->end = last;
  space->extent_count = 0;
}

void window_start(uint64_t window_base, uint64_t window_size, uint64_t host_size,
                  uint64_t granule) {
  window_shift = (unsigned)__builtin_ctzll(granule);
  base = window_base;
  end = window_base + window_size;
  // One pointer per granule, touched where it is used: 4 MiB of addresses for a window of 1 TiB
  // in granules of 2 MiB.
  free(holdings);
  holdings = calloc(window_size >> window_shift, sizeof *holdings);
  if (!holdings) end = base;
  if (!holdings) host_size = 0;
  host_base = end - host_size;
  space_start(&device, 0, (host_base - base) >> window_shift);
  space_start(&host, device.end, (end - base) >> window_shift);
}

_Bool window_has(uint64_t address) { return address >= base && address < end; }
_Bool window_in_host_part(uint64_t address) { return address >= host_base && address < end; }

static uint64_t address_of(uint64_t granule) { return base + (granule << window_shift); }
static uint64_t granule_of(uint64_t address) { return (address - base) >> window_shift; }

// The first granule not before `first` whose address is aligned.
static uint64_t aligned(uint64_t first, uint64_t alignment) {
  uint64_t over = address_of(first) & (alignment - 1);
  return over ? first + ((alignment - over) >> window_shift) : first;
}

static void insert(struct space *space, size_t at, uint64_t first, uint64_t count) {
  // Without memory these addresses are not used again: there are plenty.
  if (!grow(&space->extents, &space->extent_room, space->extent_count, sizeof *space->extents))
    return;
  struct extent *place = &space->extents[at];
  memmove(place + 1, place, (space->extent_count - at) * sizeof *place);
  *place = (struct extent){first, count};
  space->extent_count++;
}

static void erase(struct space *space, size_t at) {
  struct extent *place = &space->extents[at];
  memmove(place, place + 1, (--space->extent_count - at) * sizeof *place);
}

// How many extents begin at or before a granule.
static size_t extents_until(const struct space *space, uint64_t granule) {
  size_t low = 0, high = space->extent_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (space->extents[middle].first <= granule)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// Takes [first, first + count) out of the extent it lies in.
static void carve(struct space *space, size_t at, uint64_t first, uint64_t count) {
  struct extent *extent = &space->extents[at];
  uint64_t before = first - extent->first, after = extent->count - before - count;
  if (!before && !after) {
    erase(space, at);
  } else if (!before) {
    extent->first += count;
    extent->count = after;
  } else {
    extent->count = before;
    if (after) insert(space, at + 1, first + count, after);
  }
}

static void take_fresh(struct space *space, uint64_t first, uint64_t count) {
  if (first > space->fresh) insert(space, space->extent_count, space->fresh, first - space->fresh);
  space->fresh = first + count;
}

static _Bool take(struct space *space, uint64_t size, uint64_t alignment, uint64_t *address) {
  uint64_t count = size >> window_shift;
  if (!count || count > space->end - space->first) return 0;
  for (size_t i = 0; i < space->extent_count; i++) {
    const struct extent *extent = &space->extents[i];
    if (extent->count < count) continue;
    uint64_t first = aligned(extent->first, alignment);
    if (first - extent->first > extent->count - count) continue;
    carve(space, i, first, count);
    *address = address_of(first);
    return 1;
  }
  uint64_t first = aligned(space->fresh, alignment);
  if (first > space->end || count > space->end - first) return 0;
  take_fresh(space, first, count);
  *address = address_of(first);
  return 1;
}

_Bool window_take(uint64_t size, uint64_t alignment, uint64_t *address) {
  return take(&device, size, alignment, address);
}

_Bool window_take_host(uint64_t size, uint64_t *address) {
  return take(&host, size, window_granule(), address);
}

_Bool window_take_at(uint64_t address, uint64_t size) {
  struct space *space = &device;
  if (!window_has(address) || address & (window_granule() - 1) || !size) return 0;
  uint64_t first = granule_of(address), count = size >> window_shift;
  if (first >= space->end || count > space->end - first) return 0;
  if (first >= space->fresh) {
    take_fresh(space, first, count);
    return 1;
  }
  size_t i = extents_until(space, first);
  if (!i) return 0;
  const struct extent *extent = &space->extents[i - 1];
  if (first + count > extent->first + extent->count) return 0;
  carve(space, i - 1, first, count);
  return 1;
}

void window_give(uint64_t address, uint64_t size) {
  struct space *space = window_in_host_part(address) ? &host : &device;
  struct extent *extents = space->extents;
  uint64_t first = granule_of(address), count = size >> window_shift;
  size_t i = extents_until(space, first);
  _Bool joins_before = i > 0 && extents[i - 1].first + extents[i - 1].count == first;
  _Bool joins_after = i < space->extent_count && first + count == extents[i].first;
  if (joins_before && joins_after) {
    extents[i - 1].count += count + extents[i].count;
    erase(space, i);
  } else if (joins_before) {
    extents[i - 1].count += count;
  } else if (joins_after) {
    extents[i].first = first;
    extents[i].count += count;
  } else {
    insert(space, i, first, count);
  }
  if (!space->extent_count) return;
  struct extent *last = &space->extents[space->extent_count - 1];
  if (last->first + last->count == space->fresh) {
    space->fresh = last->first;
    space->extent_count--;
  }
}

void window_put(struct holding *holding) {
  uint64_t first = granule_of(holding->address);
  for (uint64_t i = 0; i < holding->size >> window_shift; i++) holdings[first + i] = holding;
}

void window_remove(const struct holding *holding) {
  uint64_t first = granule_of(holding->address);
  for (uint64_t i = 0; i < holding->size >> window_shift; i++) holdings[first + i] = NULL;
}

struct holding *window_at(uint64_t address) {
  return window_has(address) ? holdings[granule_of(address)] : NULL;
}

static void each_in(struct session *session, const struct space *space,
                    void (*visit)(struct holding *holding, void *context), void *context) {
  for (uint64_t i = space->first; i < space->fresh;) {
    struct holding *holding = holdings[i];
    i += holding ? holding->size >> window_shift : 1;
    if (holding && (holding->session == session || holding->session == NULL))
      visit(holding, context);
  }
}

void window_each(struct session *session, void (*visit)(struct holding *holding, void *context),
                 void *context) {
  each_in(session, &device, visit, context);
  each_in(session, &host, visit, context);
}
