#include "memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "guest_calls.h"
#include "log.h"
#include "stream.h"
#include "wire.h"

// Addresses are handed out in granules, the unit the server maps. Allocations of a granule or more
// get granules of their own; smaller ones share a granule in units of 512 bytes, as the vendor's
// driver aligns them.
#define UNIT 512
#define UNITS_PER_GRANULE (WIRE_GRANULE / UNIT)
#define SMALL_MAX (WIRE_GRANULE / 2)
#define PITCH_ALIGN 512

struct block {
  uint64_t address;
  int device;
  uint64_t granules;
  uint64_t size;        // of a large block's only allocation; 0 when freed
  uint64_t context;     // likewise
  struct small *small;  // not NULL: shared by small allocations
  struct block *next_small;
};

struct small {
  unsigned free_units;
  uint16_t first_free;                // no free unit is before this one
  uint32_t sizes[UNITS_PER_GRANULE];  // bytes asked for, at the unit where it starts
  uint64_t contexts[UNITS_PER_GRANULE];
  uint8_t units[UNITS_PER_GRANULE];  // 0 free, 1 starts an allocation, 2 continues one
};

// Freed, but work sent before may still use it: given back once that is known to be done.
struct leaving {
  uint64_t address;
  uint64_t sequence;
};

struct extent {
  uint64_t first, count;  // granules
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t base, end, limit;
static uint64_t mapped;         // bytes the server has under the window
static uint64_t leaving_bytes;  // of them, in granules whose every allocation is leaving
static struct block **blocks;   // by granule of the window; every granule of a block points at it
static uint64_t fresh;          // granules from here on are free
static struct extent *extents;  // granules free before `fresh`, by address
static size_t extent_count, extent_room;
static struct block *small_blocks;
static struct block *spare;  // of small_blocks, one that is empty; or NULL
static struct leaving *leaving_queue;
static size_t leaving_first, leaving_count, leaving_room;

static struct variable { uint64_t address, size; } * variables;
static _Atomic size_t variable_count;  // read without the lock, to see that there are none
static size_t variable_room;

void memory_start(uint64_t window_base, uint64_t window_size, uint64_t memory_limit) {
  base = window_base;
  end = window_base + window_size;
  limit = memory_limit & ~(uint64_t)(WIRE_GRANULE - 1);
  // One pointer per granule, touched where it is used: 4 MiB of addresses for a window of 1 TiB.
  free(blocks);
  blocks = calloc(window_size / WIRE_GRANULE, sizeof *blocks);
  if (!blocks) limit = 0;
}

static _Bool grow(void *array, size_t *room, size_t count, size_t element) {
  if (count < *room) return 1;
  size_t wanted = *room ? *room * 2 : 64;
  void *grown = realloc(*(void **)array, wanted * element);
  if (!grown) return 0;
  *(void **)array = grown;
  *room = wanted;
  return 1;
}

// ---- granules of the window --------------------------------------------------------------------

static _Bool take_granules(uint64_t count, uint64_t *first) {
  for (size_t i = 0; i < extent_count; i++) {
    if (extents[i].count < count) continue;
    *first = extents[i].first;
    extents[i].first += count;
    extents[i].count -= count;
    if (!extents[i].count)
      memmove(&extents[i], &extents[i + 1], (--extent_count - i) * sizeof *extents);
    return 1;
  }
  if (count > (end - base) / WIRE_GRANULE - fresh) return 0;
  *first = fresh;
  fresh += count;
  return 1;
}

static void give_granules(uint64_t first, uint64_t count) {
  size_t i = 0;
  while (i < extent_count && extents[i].first < first) i++;
  _Bool joins_before = i > 0 && extents[i - 1].first + extents[i - 1].count == first;
  _Bool joins_after = i < extent_count && first + count == extents[i].first;
  if (joins_before && joins_after) {
    extents[i - 1].count += count + extents[i].count;
    memmove(&extents[i], &extents[i + 1], (--extent_count - i) * sizeof *extents);
  } else if (joins_before) {
    extents[i - 1].count += count;
  } else if (joins_after) {
    extents[i].first = first;
    extents[i].count += count;
  } else if (grow(&extents, &extent_room, extent_count, sizeof *extents)) {
    memmove(&extents[i + 1], &extents[i], (extent_count - i) * sizeof *extents);
    extents[i] = (struct extent){first, count};
    extent_count++;
  } else {
    return;  // these addresses are not used again: there are plenty
  }
  struct extent *last = &extents[extent_count - 1];
  if (last->first + last->count == fresh) {
    fresh = last->first;
    extent_count--;
  }
}

static struct block *block_at(uint64_t address) {
  if (address < base || address >= end || !blocks) return NULL;
  return blocks[(address - base) / WIRE_GRANULE];
}

static CUresult new_block(uint64_t granules, struct block **out) {
  uint64_t bytes = granules * WIRE_GRANULE;
  if (bytes > limit || mapped > limit - bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  uint64_t first;
  struct block *block = calloc(1, sizeof *block);
  if (!block || !take_granules(granules, &first)) {
    free(block);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  block->address = base + first * WIRE_GRANULE;
  block->granules = granules;
  block->device = context_current()->device;
  CUresult result = put_MemoryMap(block->address, bytes, device_get(block->device)->server_ordinal);
  if (result) {
    give_granules(first, granules);
    free(block);
    return result;
  }
  mapped += bytes;
  for (uint64_t i = 0; i < granules; i++) blocks[first + i] = block;
  *out = block;
  return CUDA_SUCCESS;
}

// Nothing uses the block any more. `tell`: the server still has memory under it.
static void end_block(struct block *block, _Bool tell) {
  uint64_t bytes = block->granules * WIRE_GRANULE;
  uint64_t first = (block->address - base) / WIRE_GRANULE;
  if (tell) put_MemoryUnmap(block->address, bytes);
  mapped -= bytes;
  for (uint64_t i = 0; i < block->granules; i++) blocks[first + i] = NULL;
  give_granules(first, block->granules);
  if (block->small) {
    struct block **link = &small_blocks;
    while (*link != block) link = &(*link)->next_small;
    *link = block->next_small;
    if (block == spare) spare = NULL;
    free(block->small);
  }
  free(block);
}

// ---- small allocations -------------------------------------------------------------------------

// A run of `units` free ones in `small`, or -1.
static int find_units(struct small *small, unsigned units) {
  if (small->free_units < units) return -1;
  unsigned run = 0;
  for (unsigned i = small->first_free; i < UNITS_PER_GRANULE; i++) {
    run = small->units[i] ? 0 : run + 1;
    if (run == units) return (int)(i + 1 - units);
  }
  return -1;
}

static CUresult allocate_small(uint64_t size, uint64_t *address) {
  unsigned units = (unsigned)((size + UNIT - 1) / UNIT);
  struct block *block = small_blocks;
  int at = -1, device = context_current()->device;
  for (; block; block = block->next_small)
    if (block->device == device && (at = find_units(block->small, units)) >= 0) break;
  if (at < 0) {
    struct small *small = calloc(1, sizeof *small);
    if (!small) return CUDA_ERROR_OUT_OF_MEMORY;
    small->free_units = UNITS_PER_GRANULE;
    CUresult result = new_block(1, &block);
    if (result) {
      free(small);
      return result;
    }
    block->small = small;
    block->next_small = small_blocks;
    small_blocks = block;
    at = 0;
  }
  if (block == spare) spare = NULL;
  struct small *small = block->small;
  memset(small->units + at, 2, units);
  small->units[at] = 1;
  small->sizes[at] = (uint32_t)size;
  small->contexts[at] = context_current_handle();
  small->free_units -= units;
  while (small->first_free < UNITS_PER_GRANULE && small->units[small->first_free])
    small->first_free++;
  *address = block->address + (uint64_t)at * UNIT;
  return CUDA_SUCCESS;
}

static void free_units(struct block *block, unsigned at) {
  struct small *small = block->small;
  unsigned i = at;
  do {
    small->units[i++] = 0;
    small->free_units++;
  } while (i < UNITS_PER_GRANULE && small->units[i] == 2);
  if (at < small->first_free) small->first_free = (uint16_t)at;
}

// ---- freeing -----------------------------------------------------------------------------------

// The allocation at `address` is used by no work any more.
static void release(uint64_t address) {
  struct block *block = block_at(address);
  if (!block) return;
  if (!block->small) {
    leaving_bytes -= block->granules * WIRE_GRANULE;
    end_block(block, 1);
    return;
  }
  free_units(block, (unsigned)((address - block->address) / UNIT));
  // One empty block stays, so that a program that allocates and frees in turn does not map and
  // unmap each time.
  if (block->small->free_units < UNITS_PER_GRANULE) return;
  if (spare) end_block(spare, 1);
  spare = block;
}

static void release_settled(void) {
  uint64_t settled = context_settled_sequence();
  while (leaving_count && leaving_queue[leaving_first].sequence <= settled) {
    release(leaving_queue[leaving_first].address);
    leaving_first++;
    leaving_count--;
  }
  if (!leaving_count) leaving_first = 0;
}

static CUresult retire(uint64_t address) {
  struct block *block = block_at(address);
  if (!block) return CUDA_ERROR_INVALID_VALUE;
  if (block->small) {
    unsigned at = (unsigned)((address - block->address) / UNIT);
    if (address % UNIT || block->small->units[at] != 1 || !block->small->sizes[at])
      return CUDA_ERROR_INVALID_VALUE;
    block->small->sizes[at] = 0;
  } else {
    if (address != block->address || !block->size) return CUDA_ERROR_INVALID_VALUE;
    block->size = 0;
    leaving_bytes += block->granules * WIRE_GRANULE;
  }
  if (leaving_first && leaving_first + leaving_count == leaving_room) {
    memmove(leaving_queue, leaving_queue + leaving_first, leaving_count * sizeof *leaving_queue);
    leaving_first = 0;
  }
  if (!grow(&leaving_queue, &leaving_room, leaving_first + leaving_count, sizeof *leaving_queue))
    return CUDA_ERROR_OUT_OF_MEMORY;
  leaving_queue[leaving_first + leaving_count++] = (struct leaving){address, batch_sequence()};
  release_settled();
  return CUDA_SUCCESS;
}

static CUresult allocate_now(uint64_t size, uint64_t *address) {
  if (size <= SMALL_MAX) return allocate_small(size, address);
  if (size > limit) return CUDA_ERROR_OUT_OF_MEMORY;
  struct block *block;
  CUresult result = new_block((size + WIRE_GRANULE - 1) / WIRE_GRANULE, &block);
  if (result) return result;
  block->size = size;
  block->context = context_current_handle();
  *address = block->address;
  return CUDA_SUCCESS;
}

static CUresult allocate(uint64_t size, CUdeviceptr *out) {
  if (!out || !size) return CUDA_ERROR_INVALID_VALUE;
  uint64_t address;
  pthread_mutex_lock(&lock);
  release_settled();
  CUresult result = allocate_now(size, &address);
  if (result == CUDA_ERROR_OUT_OF_MEMORY && (leaving_count || spare)) {
    // What was freed counts as free: wait until nothing uses it any more, as freeing does locally.
    result = leaving_count ? context_synchronize() : CUDA_SUCCESS;
    release_settled();
    if (spare) end_block(spare, 1);
    if (!result) result = allocate_now(size, &address);
  }
  if (result == CUDA_ERROR_OUT_OF_MEMORY)
    log_warn("out of memory: %llu bytes wanted, %llu of %llu MiB in use", (unsigned long long)size,
             (unsigned long long)(mapped >> 20), (unsigned long long)(limit >> 20));
  pthread_mutex_unlock(&lock);
  if (!result) *out = address;
  return result;
}

static CUresult deallocate(CUdeviceptr address) {
  if (!address) return CUDA_SUCCESS;
  pthread_mutex_lock(&lock);
  CUresult result = retire(address);
  pthread_mutex_unlock(&lock);
  return result;
}

// ---- what others ask ---------------------------------------------------------------------------

static _Bool find_locked(uint64_t address, struct allocation *found) {
  struct block *block = block_at(address);
  if (block && !block->small && block->size && address - block->address < block->size) {
    *found = (struct allocation){block->address, block->size, block->context};
    return 1;
  }
  if (block && block->small) {
    unsigned at = (unsigned)((address - block->address) / UNIT);
    while (at && block->small->units[at] == 2) at--;
    uint64_t start = block->address + (uint64_t)at * UNIT;
    if (block->small->units[at] == 1 && address - start < block->small->sizes[at]) {
      *found = (struct allocation){start, block->small->sizes[at], block->small->contexts[at]};
      return 1;
    }
  }
  for (size_t i = 0; i < variable_count; i++) {
    if (address - variables[i].address >= variables[i].size) continue;
    *found = (struct allocation){variables[i].address, variables[i].size, 0};
    return 1;
  }
  return 0;
}

_Bool memory_find(uint64_t address, struct allocation *found) {
  pthread_mutex_lock(&lock);
  _Bool there = find_locked(address, found);
  pthread_mutex_unlock(&lock);
  return there;
}

CUresult memory_check(uint64_t address, uint64_t size) {
  if (!size) return CUDA_SUCCESS;
  struct allocation found;
  if (!memory_find(address, &found) || size > found.size - (address - found.address)) {
    log_debug("0x%llx + %llu bytes is not device memory of this program",
              (unsigned long long)address, (unsigned long long)size);
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

_Bool memory_is_device(const void *pointer) {
  uint64_t address = (uint64_t)(uintptr_t)pointer;
  if (address >= base && address < end) return 1;
  struct allocation found;
  return variable_count && memory_find(address, &found);
}

void memory_add_variable(uint64_t address, uint64_t size) {
  pthread_mutex_lock(&lock);
  size_t count = variable_count;
  if (grow(&variables, &variable_room, count, sizeof *variables)) {
    variables[count] = (struct variable){address, size};
    variable_count = count + 1;
  }
  pthread_mutex_unlock(&lock);
}

void memory_remove_variable(uint64_t address) {
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < variable_count; i++)
    if (variables[i].address == address) {
      variables[i] = variables[--variable_count];
      break;
    }
  pthread_mutex_unlock(&lock);
}

void memory_forget_all(void) {
  pthread_mutex_lock(&lock);
  for (uint64_t i = 0; i < fresh; i++)
    if (blocks[i]) end_block(blocks[i], 0);
  leaving_count = leaving_first = 0;
  leaving_bytes = 0;
  variable_count = 0;
  pthread_mutex_unlock(&lock);
}

void memory_destroy_of(uint64_t context) {
  pthread_mutex_lock(&lock);
  for (uint64_t i = 0; i < fresh; i++) {
    struct block *block = blocks[i];
    if (!block || block->address != base + i * WIRE_GRANULE) continue;
    if (!block->small) {
      if (block->size && block->context == context) retire(block->address);
      continue;
    }
    for (unsigned u = 0; blocks[i] == block && u < UNITS_PER_GRANULE; u++)
      if (block->small->units[u] == 1 && block->small->sizes[u] &&
          block->small->contexts[u] == context)
        retire(block->address + (uint64_t)u * UNIT);
  }
  pthread_mutex_unlock(&lock);
}

// ---- entry points ------------------------------------------------------------------------------

CUresult guest_cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize) {
  return allocate(bytesize, dptr);
}

CUresult guest_cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes,
                                  size_t Height, unsigned int ElementSizeBytes) {
  if (!pPitch || !WidthInBytes || !Height) return CUDA_ERROR_INVALID_VALUE;
  if (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16)
    return CUDA_ERROR_INVALID_VALUE;
  uint64_t pitch = (WidthInBytes + PITCH_ALIGN - 1) & ~(uint64_t)(PITCH_ALIGN - 1), bytes;
  if (pitch < WidthInBytes || __builtin_mul_overflow(pitch, Height, &bytes))
    return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = allocate(bytes, dptr);
  if (!result) *pPitch = pitch;
  return result;
}

// Memory the guest hands out is usable at once, in any stream: what "stream-ordered" promises and
// more. Freed memory is not used again before all work sent so far is done.
CUresult guest_cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream,
                               int per_thread) {
  uint64_t wire;
  CUresult result = stream_resolve(hStream, per_thread, &wire);
  return result ? result : allocate(bytesize, dptr);
}

CUresult guest_cuMemFree_v2(CUdeviceptr dptr) { return deallocate(dptr); }

CUresult guest_cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream, int per_thread) {
  uint64_t wire;
  CUresult result = stream_resolve(hStream, per_thread, &wire);
  if (result) return result;
  return dptr ? deallocate(dptr) : CUDA_ERROR_INVALID_VALUE;
}

CUresult guest_cuMemGetInfo_v2(size_t *free, size_t *total) {
  if (!free || !total) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&lock);
  release_settled();
  *free = limit - mapped + leaving_bytes + (spare ? WIRE_GRANULE : 0);
  *total = limit;
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}

CUresult guest_cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr) {
  struct allocation found;
  if (!memory_find(dptr, &found)) return CUDA_ERROR_NOT_FOUND;
  if (pbase) *pbase = found.address;
  if (psize) *psize = found.size;
  return CUDA_SUCCESS;
}
