#include "window.h"

#include <stdlib.h>
#include <string.h>

#include "wire.h"

struct extent {
  uint64_t first, count;  // granules
};

static uint64_t base, end;
static struct holding **holdings;  // by granule
static uint64_t fresh;             // granules from here on are free
static struct extent *extents;     // granules free before `fresh`, by address, none side by side
static size_t extent_count, extent_room;

void window_start(uint64_t window_base, uint64_t window_size) {
  base = window_base;
  end = window_base + window_size;
  // One pointer per granule, touched where it is used: 4 MiB of addresses for a window of 1 TiB.
  extent_count = 0;
  fresh = 0;
  free(holdings);
  holdings = calloc(window_size / WIRE_GRANULE, sizeof *holdings);
  if (!holdings) end = base;
}

_Bool window_has(uint64_t address) { return address >= base && address < end; }

static uint64_t granules(void) { return (end - base) / WIRE_GRANULE; }
static uint64_t address_of(uint64_t granule) { return base + granule * WIRE_GRANULE; }
static uint64_t granule_of(uint64_t address) { return (address - base) / WIRE_GRANULE; }

// The first granule not before `first` whose address is aligned.
static uint64_t aligned(uint64_t first, uint64_t alignment) {
  uint64_t over = address_of(first) & (alignment - 1);
  return over ? first + (alignment - over) / WIRE_GRANULE : first;
}

static void insert(size_t at, uint64_t first, uint64_t count) {
  if (extent_count == extent_room) {
    size_t wanted = extent_room ? extent_room * 2 : 64;
    struct extent *grown = realloc(extents, wanted * sizeof *extents);
    if (!grown) return;  // these addresses are not used again: there are plenty
    extents = grown;
    extent_room = wanted;
  }
  memmove(&extents[at + 1], &extents[at], (extent_count - at) * sizeof *extents);
  extents[at] = (struct extent){first, count};
  extent_count++;
}

static void erase(size_t at) {
  memmove(&extents[at], &extents[at + 1], (--extent_count - at) * sizeof *extents);
}

// How many extents begin at or before a granule.
static size_t extents_until(uint64_t granule) {
  size_t low = 0, high = extent_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (extents[middle].first <= granule)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// Takes [first, first + count) out of the extent it lies in.
static void carve(size_t at, uint64_t first, uint64_t count) {
  struct extent *extent = &extents[at];
  uint64_t before = first - extent->first, after = extent->count - before - count;
  if (!before && !after) {
    erase(at);
  } else if (!before) {
    extent->first += count;
    extent->count = after;
  } else {
    extent->count = before;
    if (after) insert(at + 1, first + count, after);
  }
}

static void take_fresh(uint64_t first, uint64_t count) {
  if (first > fresh) insert(extent_count, fresh, first - fresh);
  fresh = first + count;
}

_Bool window_take(uint64_t size, uint64_t alignment, uint64_t *address) {
  uint64_t count = size / WIRE_GRANULE;
  if (!count || count > granules()) return 0;
  for (size_t i = 0; i < extent_count; i++) {
    if (extents[i].count < count) continue;
    uint64_t first = aligned(extents[i].first, alignment);
    if (first - extents[i].first > extents[i].count - count) continue;
    carve(i, first, count);
    *address = address_of(first);
    return 1;
  }
  uint64_t first = aligned(fresh, alignment);
  if (first > granules() || count > granules() - first) return 0;
  take_fresh(first, count);
  *address = address_of(first);
  return 1;
}

_Bool window_take_at(uint64_t address, uint64_t size) {
  if (!window_has(address) || address % WIRE_GRANULE || !size || size > end - address) return 0;
  uint64_t first = granule_of(address), count = size / WIRE_GRANULE;
  if (first >= fresh) {
    take_fresh(first, count);
    return 1;
  }
  size_t i = extents_until(first);
  if (!i || first + count > extents[i - 1].first + extents[i - 1].count) return 0;
  carve(i - 1, first, count);
  return 1;
}

void window_give(uint64_t address, uint64_t size) {
  uint64_t first = granule_of(address), count = size / WIRE_GRANULE;
  size_t i = extents_until(first);
  _Bool joins_before = i > 0 && extents[i - 1].first + extents[i - 1].count == first;
  _Bool joins_after = i < extent_count && first + count == extents[i].first;
  if (joins_before && joins_after) {
    extents[i - 1].count += count + extents[i].count;
    erase(i);
  } else if (joins_before) {
    extents[i - 1].count += count;
  } else if (joins_after) {
    extents[i].first = first;
    extents[i].count += count;
  } else {
    insert(i, first, count);
  }
  if (!extent_count) return;
  struct extent *last = &extents[extent_count - 1];
  if (last->first + last->count == fresh) {
    fresh = last->first;
    extent_count--;
  }
}

void window_put(struct holding *holding) {
  uint64_t first = granule_of(holding->address);
  for (uint64_t i = 0; i < holding->size / WIRE_GRANULE; i++) holdings[first + i] = holding;
}

void window_remove(const struct holding *holding) {
  uint64_t first = granule_of(holding->address);
  for (uint64_t i = 0; i < holding->size / WIRE_GRANULE; i++) holdings[first + i] = NULL;
}

struct holding *window_at(uint64_t address) {
  return window_has(address) ? holdings[granule_of(address)] : NULL;
}

void window_each(void (*visit)(struct holding *holding, void *context), void *context) {
  for (uint64_t i = 0; i < fresh;) {
    struct holding *holding = holdings[i];
    i += holding ? holding->size / WIRE_GRANULE : 1;
    if (holding) visit(holding, context);
  }
}
