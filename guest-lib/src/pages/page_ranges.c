// The ranges of memory that host and device share: their beginning and their end.
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/grow.h"
#include "pages/backing.h"
#include "pages/fault.h"
#include "pages/internal.h"
#include "pages/page_variables.h"

static struct range **ranges;  // by address
static size_t range_count, range_room;
_Atomic unsigned pages_ranges;

struct range *pages_find(uint64_t address) {
  size_t low = 0, high = range_count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    struct range *range = ranges[middle];
    if (address < range->address)
      high = middle;
    else if (address - range->address >= range->count * PAGE)
      low = middle + 1;
    else
      return range;
  }
  return NULL;
}

void pages_each(void (*visit)(struct range *range, void *context), void *context) {
  for (size_t i = 0; i < range_count; i++) visit(ranges[i], context);
}

static _Bool insert(struct session *session, struct range *range) {
  if (!grow(&ranges, &range_room, range_count, sizeof *ranges)) return 0;
  range->session = range->home = session;
  size_t at = range_count++;
  for (; at && ranges[at - 1]->address > range->address; at--) ranges[at] = ranges[at - 1];
  ranges[at] = range;
  pages_ranges = (unsigned)range_count;
  return 1;
}

CUresult pages_share(struct session *session, uint64_t address, uint64_t size) {
  uint32_t count = (uint32_t)(size / PAGE);
  struct range *range = calloc(1, sizeof *range + count);
  if (!range) return CUDA_ERROR_OUT_OF_MEMORY;
  *range = (struct range){.address = address, .count = count};
  pthread_mutex_lock(&pages_lock);
  range->view = backing_open(address, size);
  _Bool shared = range->view && insert(session, range);
  if (shared) {
    pages_note_open(range, 0, count);
    fault_watch();
  } else if (range->view) {
    backing_close(address, size);
  }
  pthread_mutex_unlock(&pages_lock);
  if (shared) return CUDA_SUCCESS;
  free(range);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult pages_share_pinned(struct session *session, uint64_t address, uint64_t size, char *view,
                            _Bool fresh) {
  uint32_t count = (uint32_t)(size / PAGE);
  struct range *range = calloc(1, sizeof *range + count);
  if (!range) return CUDA_ERROR_OUT_OF_MEMORY;
  *range = (struct range){.address = address, .count = count, .view = view, .pinned = 1};
  memset(range->states, fresh ? FRESH : DIRTY, count);
  pthread_mutex_lock(&pages_lock);
  _Bool shared = insert(session, range);
  if (shared) {
    pages_note_open(range, 0, count);
    fault_watch();
    merged_start();
  }
  pthread_mutex_unlock(&pages_lock);
  if (shared) return CUDA_SUCCESS;
  free(range);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult pages_share_own(struct session *session, uint64_t address, uint64_t size, char *memory,
                         _Bool read_only) {
  uint64_t begin = address & ~(PAGE - 1), end = (address + size + PAGE - 1) & ~(PAGE - 1);
  uint32_t count = (uint32_t)((end - begin) / PAGE);
  struct range *range = calloc(1, sizeof *range + count);
  if (!range) return CUDA_ERROR_OUT_OF_MEMORY;
  *range = (struct range){.address = begin,
                          .count = count,
                          .view = memory - (address - begin),
                          .pinned = 1,
                          .own = 1,
                          .read_only = read_only,
                          .begin = address,
                          .end = address + size};
  pthread_mutex_lock(&pages_lock);
  _Bool shared = merged_begin(range, 0, count);
  if (shared && !insert(session, range)) {
    merged_forget(range);
    shared = 0;
  }
  if (shared) merged_start();
  if (shared) merged_push_first(session, range);
  pthread_mutex_unlock(&pages_lock);
  if (shared) return CUDA_SUCCESS;
  free(range);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

// Returns the range that has an address, once no touch is bringing pages of it and no thread looks
// at it without the lock. The lock is let go meanwhile.
static struct range *find_settled(uint64_t address) {
  struct range *range = pages_find(address);
  while (range && (range->users || memchr(range->states, COMING, range->count))) {
    pthread_cond_wait(&pages_arrived, &pages_lock);
    range = pages_find(address);
  }
  return range;
}

static void take_out(struct range *range) {
  pages_forget_open(range);
  size_t at = 0;
  while (ranges[at] != range) at++;
  memmove(&ranges[at], &ranges[at + 1], (--range_count - at) * sizeof *ranges);
  pages_ranges = (unsigned)range_count;
}

void pages_unshare(uint64_t address) {
  pthread_mutex_lock(&pages_lock);
  struct range *range = find_settled(address);
  if (range) {
    take_out(range);
    backing_close(range->address, range->count * PAGE);
    free(range);
  }
  pthread_mutex_unlock(&pages_lock);
}

void pages_unshare_pinned(uint64_t address) {
  pthread_mutex_lock(&pages_lock);
  struct range *range = find_settled(address);
  if (range) {
    if (!range->own) pages_protect(range, 0, range->count, PROT_READ | PROT_WRITE);
    take_out(range);
    merged_forget(range);
    free(range);
  }
  pthread_mutex_unlock(&pages_lock);
}

CUresult pages_share_variable(struct session *session, uint64_t address, uint64_t size) {
  uint64_t begin = address & ~(PAGE - 1), end = (address + size + PAGE - 1) & ~(PAGE - 1);
  if (!size || end <= begin || end - begin > UINT32_MAX) return CUDA_ERROR_NOT_SUPPORTED;
  uint32_t count = (uint32_t)((end - begin) / PAGE);
  struct extent *extent = malloc(sizeof *extent);
  if (!extent) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = CUDA_SUCCESS;
  pthread_mutex_lock(&pages_lock);
  struct range *range = find_settled(begin), *fresh = NULL;
  if (range && range == pages_find(end - 1)) {
    // Pages that are open lack the bytes of the new variable, so they are closed.
    pages_push(range, 0, range->count, 0);
    pages_send_gathered(range->session);
  } else if (range || pages_find(end - 1) || !(fresh = calloc(1, sizeof *range + count)) ||
             !(fresh->view = backing_open_outside(begin, end - begin))) {
    result = CUDA_ERROR_NOT_SUPPORTED;
  } else {
    range = fresh;
    range->address = begin;
    range->count = count;
    memset(range->states, AWAY, count);
    if (!insert(session, range)) {
      backing_close_outside(range->view, begin, end - begin);
      result = CUDA_ERROR_OUT_OF_MEMORY;
    }
  }
  if (!result) {
    *extent = (struct extent){.begin = address, .end = address + size, .next = range->extents};
    extent->at[session->number] = address;
    range->extents = extent;
    pages_variables++;
    fault_watch();
  } else {
    free(fresh);
    free(extent);
  }
  pthread_mutex_unlock(&pages_lock);
  return result;
}

void pages_unshare_variable(uint64_t address) {
  pthread_mutex_lock(&pages_lock);
  struct range *range = find_settled(address);
  if (range) {
    struct extent **link = &range->extents;
    while (*link && (*link)->begin != address) link = &(*link)->next;
    struct extent *gone = *link;
    if (gone) *link = gone->next;
    if (gone) pages_variables--;
    free(gone);
    if (!range->extents) {
      take_out(range);
      backing_close_outside(range->view, range->address, range->count * PAGE);
      free(range);
    }
  }
  pthread_mutex_unlock(&pages_lock);
}
