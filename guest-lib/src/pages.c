#include "pages.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "answer.h"
#include "backing.h"
#include "enter.h"
#include "fault.h"
#include "guest_calls.h"
#include "host_function.h"
#include "log.h"
#include "stream.h"

#define PAGE 4096ull
// What a touch brings when nothing is known about its neighbours, and at most when touches follow
// one another.
#define FETCH_LEAST (64u << 10)
#define FETCH_MOST (4u << 20)
// Runs longer than this travel from where they lie; shorter ones are gathered.
#define GATHER_MAX (16u << 10)
#define GATHER_BYTES (64u << 10)
#define GATHER_RUNS 256

enum state {
  FRESH,   // open; changed if it was ever touched
  DIRTY,   // open; changed by the host
  CLEAN,   // readable; the same on both sides
  AWAY,    // closed; the device has it
  COMING,  // closed; on its way here
};

// What of a range the device has, where that is not all.
struct extent {
  uint64_t begin, end;
  struct extent *next;
};

struct range {
  uint64_t address;
  char *view;  // always open
  uint32_t count;
  // Pages outside [first, last) are away or coming.
  uint32_t first, last;
  uint32_t next, ahead;  // page behind the last fetch, and how many that one brought
  uint32_t next_write, ahead_write;
  struct range *next_open;  // of those that have open pages
  struct extent *extents;   // of a range outside the window
  uint8_t states[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
static struct range **ranges;  // by address
static size_t range_count, range_room;
_Atomic unsigned pages_ranges;
static struct range *open_ranges;
static uint64_t generation;  // counts what may have changed pages on the device

static struct range *find(uint64_t address) {
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

// ---- states ------------------------------------------------------------------------------------

// Pages of one state, from `at` on.
static uint32_t run_of(const struct range *range, uint32_t at, uint32_t end) {
  uint32_t to = at + 1;
  while (to < end && range->states[to] == range->states[at]) to++;
  return to;
}

static void note_open(struct range *range, uint32_t from, uint32_t to) {
  if (range->first == range->last) {
    range->first = from;
    range->last = to;
    range->next_open = open_ranges;
    open_ranges = range;
    return;
  }
  if (from < range->first) range->first = from;
  if (to > range->last) range->last = to;
}

static void forget_open(struct range *range) {
  struct range **link = &open_ranges;
  while (*link && *link != range) link = &(*link)->next_open;
  if (*link) *link = range->next_open;
  range->first = range->last = 0;
}

static _Bool protect(struct range *range, uint32_t from, uint32_t to, int protection) {
  if (mprotect((void *)(uintptr_t)(range->address + from * PAGE), (to - from) * PAGE, protection) ==
      0)
    return 1;
  log_debug("%u pages at 0x%llx cannot be protected: %s", to - from,
            (unsigned long long)(range->address + from * PAGE), strerror(errno));
  return 0;
}

// ---- to the device -----------------------------------------------------------------------------

// Short runs on their way into one message: their bytes, and behind them the table of runs.
static unsigned char gathered[GATHER_BYTES + GATHER_RUNS * sizeof(struct wire_page_run)];
static struct wire_page_run gathered_runs[GATHER_RUNS];
static uint32_t gathered_count;
static uint64_t gathered_bytes;

static void send_gathered(void) {
  if (!gathered_count) return;
  uint64_t table = gathered_count * sizeof *gathered_runs;
  memcpy(gathered + gathered_bytes, gathered_runs, table);
  put_PagesUpload(0, gathered_count, gathered_bytes + table, gathered);
  gathered_count = 0;
  gathered_bytes = 0;
}

static void send_bytes(const struct range *range, uint64_t address, uint64_t bytes) {
  const char *view = range->view + (address - range->address);
  if (bytes <= GATHER_MAX) {
    if (gathered_count == GATHER_RUNS || gathered_bytes + bytes > GATHER_BYTES) send_gathered();
    memcpy(gathered + gathered_bytes, view, bytes);
    gathered_bytes += bytes;
    gathered_runs[gathered_count++] = (struct wire_page_run){address, bytes};
    return;
  }
  while (bytes) {
    uint64_t part = bytes < WIRE_BULK_MAX ? bytes : WIRE_BULK_MAX;
    put_PagesUpload(address, 0, part, view);
    address += part;
    view += part;
    bytes -= part;
  }
}

static void send_run(const struct range *range, uint32_t from, uint32_t to) {
  uint64_t begin = range->address + from * PAGE, end = range->address + to * PAGE;
  if (!range->extents) return send_bytes(range, begin, end - begin);
  for (const struct extent *e = range->extents; e; e = e->next) {
    uint64_t first = e->begin > begin ? e->begin : begin, last = e->end < end ? e->end : end;
    if (first < last) send_bytes(range, first, last - first);
  }
}

// Of fresh pages, those that were touched.
static void send_fresh(struct range *range, uint32_t from, uint32_t to) {
  if (!backing_knows_data()) return send_run(range, from, to);
  uint64_t at = range->address + from * PAGE, end = range->address + to * PAGE;
  while (at < end) {
    uint64_t begin = at, stop = end;
    if (!backing_data(&begin, &stop)) return;
    send_run(range, (uint32_t)((begin - range->address) / PAGE),
             (uint32_t)((stop - range->address + PAGE - 1) / PAGE));
    at = stop;
  }
}

// Sends what is changed of [from, to) and closes it, or leaves it readable. The pages are closed
// first, so that nothing changes any more.
static void push(struct range *range, uint32_t from, uint32_t to, _Bool keep) {
  if (from < range->first) from = range->first;
  if (to > range->last) to = range->last;
  if (from >= to) return;
  if (!keep && !protect(range, from, to, PROT_NONE)) {
    // There is a limit to how many pieces a process's memory may be in.
    from = range->first;
    to = range->last;
    protect(range, 0, range->count, PROT_NONE);
  }
  for (uint32_t at = from, end; at < to; at = end) {
    end = run_of(range, at, to);
    enum state state = range->states[at];
    if (state == AWAY || state == COMING) continue;
    if (keep && state != CLEAN) protect(range, at, end, PROT_READ);
    if (state == FRESH)
      send_fresh(range, at, end);
    else if (state == DIRTY)
      send_run(range, at, end);
    memset(range->states + at, keep ? CLEAN : AWAY, end - at);
  }
  if (!keep && from == range->first && to == range->last) forget_open(range);
}

_Bool pages_hand_over_all(void) {
  pthread_mutex_lock(&lock);
  generation++;
  if (open_ranges) fault_watch();
  while (open_ranges) push(open_ranges, open_ranges->first, open_ranges->last, 0);
  send_gathered();
  return 1;
}

void pages_handed_over(void) { pthread_mutex_unlock(&lock); }

void pages_use_range(uint64_t address, uint64_t size, _Bool writes) {
  if (!size) return;
  pthread_mutex_lock(&lock);
  struct range *range = find(address);
  if (range) {
    generation += writes;
    fault_watch();
    uint64_t from = (address - range->address) / PAGE;
    uint64_t to = (address - range->address + size + PAGE - 1) / PAGE;
    push(range, (uint32_t)from, to < range->count ? (uint32_t)to : range->count, !writes);
    send_gathered();
  }
  pthread_mutex_unlock(&lock);
}

// ---- to the host -------------------------------------------------------------------------------

// How many pages from `at` on to bring: twice as many as before when the touches go forward.
static uint32_t fetch_size(struct range *range, uint32_t *at) {
  const uint32_t least = FETCH_LEAST / PAGE;
  uint32_t pages = least;
  if (*at == range->next && range->ahead)
    pages = range->ahead * 2 < FETCH_MOST / PAGE ? range->ahead * 2 : FETCH_MOST / PAGE;
  uint32_t from = *at;
  if (pages == least) {
    // The neighbours on both sides.
    from = *at / least * least;
    for (uint32_t i = *at; i > from; i--)
      if (range->states[i - 1] != AWAY) from = i;
    pages = *at / least * least + least - from;
  }
  uint32_t end = from + pages < range->count ? from + pages : range->count, to = *at + 1;
  while (to < end && range->states[to] == AWAY) to++;
  *at = from;
  return to - from;
}

// Fills the second view. What cannot be had stays as it was, and is said.
// A function that a stream calls sees what its stream has done; waiting for all work would be
// waiting for itself.
static void download_bytes(const struct range *range, uint64_t address, uint64_t bytes) {
  _Bool wait = !host_function_calls();
  struct answer answer;
  answer_init(&answer);
  answer_into(&answer, range->view + (address - range->address), bytes);
  CUresult result = ask_PagesFetch(address, bytes, wait, &answer);
  answer_free(&answer);
  if (!answer.result && !guest_is_lost()) {
    // An error of earlier work is for the program's next synchronisation.
    if (result) guest_async_error(result);
    if (wait) context_settled(answer.sequence);
  } else {
    log_error("what the device has at 0x%llx does not come: the program sees what was there before",
              (unsigned long long)address);
  }
}

static void download(const struct range *range, uint32_t from, uint32_t pages) {
  uint64_t begin = range->address + from * PAGE, end = begin + pages * PAGE;
  if (!range->extents) return download_bytes(range, begin, pages * PAGE);
  for (const struct extent *e = range->extents; e; e = e->next) {
    uint64_t first = e->begin > begin ? e->begin : begin, last = e->end < end ? e->end : end;
    if (first < last) download_bytes(range, first, last - first);
  }
}

// The system allows no more pieces: all pages come and open as one.
static void open_whole(struct range *range) {
  for (uint32_t at = 0, end; at < range->count; at = end) {
    if (range->states[at] == COMING) {
      pthread_cond_wait(&arrived, &lock);
      end = 0;
      continue;
    }
    end = run_of(range, at, range->count);
    if (range->states[at] != AWAY) continue;
    download(range, at, end - at);
    memset(range->states + at, CLEAN, end - at);
  }
  memset(range->states, DIRTY, range->count);
  protect(range, 0, range->count, PROT_READ | PROT_WRITE);
  note_open(range, 0, range->count);
}

// Brings pages around `at`; the lock is given up meanwhile, unless `stay`.
static void fetch(struct range *range, uint32_t at, _Bool stay) {
  uint32_t from = at, pages = fetch_size(range, &from);
  uint64_t began = generation;
  range->next = from + pages;
  range->ahead = pages;
  memset(range->states + from, COMING, pages);
  if (!stay) pthread_mutex_unlock(&lock);
  download(range, from, pages);
  if (!stay) pthread_mutex_lock(&lock);
  if (generation != began && !guest_is_lost()) {
    // Work began meanwhile that may change it.
    memset(range->states + from, AWAY, pages);
    range->ahead = 0;
  } else {
    memset(range->states + from, CLEAN, pages);
    note_open(range, from, from + pages);
    if (!protect(range, from, from + pages, PROT_READ)) open_whole(range);
  }
  pthread_cond_broadcast(&arrived);
}

// Opens a page for writing, and more behind it when writes go forward.
static void open_to_write(struct range *range, uint32_t at) {
  uint32_t pages = 1;
  if (at == range->next_write && range->ahead_write)
    pages = range->ahead_write * 2 < 256 ? range->ahead_write * 2 : 256;
  uint32_t to = at + 1;
  while (to < range->count && to - at < pages && range->states[to] == CLEAN) to++;
  range->next_write = to;
  range->ahead_write = to - at;
  memset(range->states + at, DIRTY, to - at);
  if (!protect(range, at, to, PROT_READ | PROT_WRITE)) open_whole(range);
}

_Bool pages_fault(uint64_t address, _Bool known, _Bool write) {
  if (guest_is_child() || !pages_ranges) return 0;
  pthread_mutex_lock(&lock);
  struct range *range = find(address);
  _Bool ours = range != NULL;
  for (unsigned attempt = 0; range; attempt++) {
    uint32_t at = (uint32_t)((address - range->address) / PAGE);
    enum state state = range->states[at];
    if (state == FRESH || state == DIRTY) break;  // opened by another thread
    if (state == CLEAN) {
      if (!known ? attempt == 0 : write) open_to_write(range, at);
      break;
    }
    // What somebody else waits for may come only after this function.
    if (state == COMING && !host_function_calls())
      pthread_cond_wait(&arrived, &lock);
    else
      fetch(range, at, attempt > 8);
    range = find(address);
  }
  pthread_mutex_unlock(&lock);
  return ours;
}

// ---- ranges ------------------------------------------------------------------------------------

static _Bool insert(struct range *range) {
  if (range_count == range_room) {
    size_t wanted = range_room ? range_room * 2 : 16;
    struct range **grown = realloc(ranges, wanted * sizeof *ranges);
    if (!grown) return 0;
    ranges = grown;
    range_room = wanted;
  }
  size_t at = range_count++;
  for (; at && ranges[at - 1]->address > range->address; at--) ranges[at] = ranges[at - 1];
  ranges[at] = range;
  pages_ranges = (unsigned)range_count;
  return 1;
}

CUresult pages_share(uint64_t address, uint64_t size) {
  uint32_t count = (uint32_t)(size / PAGE);
  struct range *range = calloc(1, sizeof *range + count);
  if (!range) return CUDA_ERROR_OUT_OF_MEMORY;
  *range = (struct range){.address = address, .count = count};
  pthread_mutex_lock(&lock);
  range->view = backing_open(address, size);
  _Bool shared = range->view && insert(range);
  if (shared) {
    note_open(range, 0, count);
    fault_watch();
  } else if (range->view) {
    backing_close(address, size);
  }
  pthread_mutex_unlock(&lock);
  if (shared) return CUDA_SUCCESS;
  free(range);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

// The range that a touch under way writes to must stay until it is there.
static struct range *find_settled(uint64_t address) {
  struct range *range = find(address);
  while (range && memchr(range->states, COMING, range->count)) {
    pthread_cond_wait(&arrived, &lock);
    range = find(address);
  }
  return range;
}

static void take_out(struct range *range) {
  forget_open(range);
  size_t at = 0;
  while (ranges[at] != range) at++;
  memmove(&ranges[at], &ranges[at + 1], (--range_count - at) * sizeof *ranges);
  pages_ranges = (unsigned)range_count;
}

void pages_unshare(uint64_t address) {
  pthread_mutex_lock(&lock);
  struct range *range = find_settled(address);
  if (range) {
    take_out(range);
    backing_close(range->address, range->count * PAGE);
    free(range);
  }
  pthread_mutex_unlock(&lock);
}

CUresult pages_share_variable(uint64_t address, uint64_t size) {
  uint64_t begin = address & ~(PAGE - 1), end = (address + size + PAGE - 1) & ~(PAGE - 1);
  if (!size || end <= begin || end - begin > UINT32_MAX) return CUDA_ERROR_NOT_SUPPORTED;
  uint32_t count = (uint32_t)((end - begin) / PAGE);
  struct extent *extent = malloc(sizeof *extent);
  if (!extent) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = CUDA_SUCCESS;
  pthread_mutex_lock(&lock);
  struct range *range = find_settled(begin), *fresh = NULL;
  if (range && range == find(end - 1)) {
    // What is open of it lacks the new one's bytes.
    push(range, 0, range->count, 0);
    send_gathered();
  } else if (range || find(end - 1) || !(fresh = calloc(1, sizeof *range + count)) ||
             !(fresh->view = backing_open_outside(begin, end - begin))) {
    result = CUDA_ERROR_NOT_SUPPORTED;
  } else {
    range = fresh;
    range->address = begin;
    range->count = count;
    memset(range->states, AWAY, count);
    if (!insert(range)) {
      backing_close_outside(range->view, begin, end - begin);
      result = CUDA_ERROR_OUT_OF_MEMORY;
    }
  }
  if (!result) {
    *extent = (struct extent){address, address + size, range->extents};
    range->extents = extent;
    fault_watch();
  } else {
    free(fresh);
    free(extent);
  }
  pthread_mutex_unlock(&lock);
  return result;
}

void pages_unshare_variable(uint64_t address) {
  pthread_mutex_lock(&lock);
  struct range *range = find_settled(address);
  if (range) {
    struct extent **link = &range->extents;
    while (*link && (*link)->begin != address) link = &(*link)->next;
    struct extent *gone = *link;
    if (gone) *link = gone->next;
    free(gone);
    if (!range->extents) {
      take_out(range);
      backing_close_outside(range->view, range->address, range->count * PAGE);
      free(range);
    }
  }
  pthread_mutex_unlock(&lock);
}
