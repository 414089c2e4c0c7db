// Pages of pinned memory that host and device may both change at any time: open to the program,
// with a twin that tells what either side has changed since both were the same. The program's own
// registered memory is always so; allocated memory where it is touched while work runs. Changes go
// to the device before work is posted, come after waits, and are exchanged from time to time while
// work runs. Where both sides change the same four bytes at once, either may win.
#include "pages/merged.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/own_memory.h"
#include "base/thread.h"
#include "guest_calls.h"
#include "page_hash.h"
#include "pages/fault.h"
#include "pages/internal.h"
#include "setup/log.h"
#include "wire/answer.h"
#include "wire/enter.h"
#include "wire/order.h"

// What the host changes is compared and sent in pieces of so many bytes.
#define PIECE 4u
// How often MERGED pages are looked at while work runs: soon, and less and less often while nothing
// changes; a program that waits for the work gets what has changed anyhow. For each page it takes
// so much longer.
#define PERIOD_LEAST_NS 2000000u
#define PERIOD_MOST_NS 50000000u
#define PERIOD_WAITING_NS 100000000u
#define PERIOD_PAGE_NS 20000u

_Atomic unsigned pages_merged;       // ranges with MERGED pages
static struct range *merged_ranges;  // those, by address
static pthread_cond_t work_begins = PTHREAD_COND_INITIALIZER;
// One looks at a time, and has the scratch. Taken before the pages' lock.
static pthread_mutex_t look_lock = PTHREAD_MUTEX_INITIALIZER;
static char *scratch;
static uint64_t changes;  // pages that were found changed, on either side

// ---- which pages -------------------------------------------------------------------------------

static _Bool make_twin(struct range *range) {
  if (range->twin) return 1;
  void *twin = mmap(NULL, range->count * PAGE, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (twin == MAP_FAILED) return 0;
  madvise(twin, range->count * PAGE, MADV_DONTFORK);
  madvise(twin, range->count * PAGE, MADV_DONTDUMP);
  range->twin = twin;
  return 1;
}

_Bool merged_begin(struct range *range, uint32_t from, uint32_t to) {
  if (!make_twin(range)) return 0;
  if (!range->own) memcpy(range->twin + from * PAGE, range->view + from * PAGE, (to - from) * PAGE);
  memset(range->states + from, MERGED, to - from);
  if (!range->merged) {
    struct range **link = &merged_ranges;
    while (*link && (*link)->address < range->address) link = &(*link)->next_merged;
    range->next_merged = *link;
    *link = range;
    atomic_fetch_add(&pages_merged, 1);
  }
  range->merged += to - from;
  range->seen = 0;
  return 1;
}

void merged_end(struct range *range, uint32_t from, uint32_t to) {
  range->exchanges++;
  range->merged -= to - from;
  if (range->merged) return;
  struct range **link = &merged_ranges;
  while (*link != range) link = &(*link)->next_merged;
  *link = range->next_merged;
  atomic_fetch_sub(&pages_merged, 1);
}

void merged_forget(struct range *range) {
  if (range->merged) merged_end(range, 0, range->merged);  // all of them, wherever they are
  if (range->twin) munmap(range->twin, range->count * PAGE);
  range->twin = NULL;
}

// Sets *begin and *end to which bytes of a page are the range's.
static void bounds(const struct range *range, uint32_t page, uint32_t *begin, uint32_t *end) {
  uint64_t at = range->address + page * PAGE;
  *begin = 0;
  *end = PAGE;
  if (!range->own) return;
  if (range->begin > at) *begin = (uint32_t)(range->begin - at);
  if (range->end < at + PAGE) *end = (uint32_t)(range->end - at);
}

// ---- to the device -----------------------------------------------------------------------------

// A run of at most so many bytes may be a flag which says that other bytes are there. It is sent
// after them.
#define ALONE 8u

struct reading {
  const char *view, *twin;
  char *now;
  size_t bytes;
  _Bool changed;
};
static void read_changed(void *data) {
  struct reading *r = data;
  r->changed = memcmp(r->view, r->twin, r->bytes) != 0;
  if (r->changed) memcpy(r->now, r->view, r->bytes);
}

// Reads memory that the program has closed, which a device could still read. What the program has
// unmapped counts as unchanged.
static void read_closed(struct reading *r) {
  r->changed = own_read(r->view, r->now, r->bytes) && memcmp(r->now, r->twin, r->bytes) != 0;
}

static void push_page(struct session *session, struct range *range, uint32_t page, uint32_t least) {
  uint32_t begin, end;
  bounds(range, page, &begin, &end);
  char *twin = range->twin + page * PAGE;
  char now[PAGE];  // what is sent and what is remembered is the same
  struct reading reading = {range->view + page * PAGE + begin, twin + begin, now + begin,
                            end - begin, 0};
  if (!range->own)
    read_changed(&reading);
  else if (!own_reach(read_changed, &reading))
    read_closed(&reading);
  if (!reading.changed) return;
  uint32_t run = end;
  for (uint32_t at = begin, next; at <= end; at = next) {
    next = (at & ~(PIECE - 1)) + PIECE;
    if (next > end) next = end + (at == end);
    _Bool changed = at < end && memcmp(now + at, twin + at, next - at) != 0;
    if (changed && run == end) run = at;
    if (changed || run == end) continue;
    if (at - run > least) {
      memcpy(twin + run, now + run, at - run);
      pages_send(session, range->address + page * PAGE + run, now + run, at - run);
      range->exchanges++;
      changes++;
    }
    run = end;
  }
}

void merged_push(struct session *session, struct range *range, uint32_t from, uint32_t to) {
  for (uint32_t page = from; page < to; page++)
    if (range->states[page] == MERGED) push_page(session, range, page, ALONE);
  for (uint32_t page = from; page < to; page++)
    if (range->states[page] == MERGED) push_page(session, range, page, 0);
}

// Does what merged_push does for MERGED pages side by side, while the program goes on: what is sent
// of them is what was there at one moment.
static void push_open(struct session *session, struct range *range, uint32_t from, uint32_t to) {
  size_t first = from * PAGE, bytes = (to - from) * PAGE;
  if (range->own) return merged_push(session, range, from, to);
  if (memcmp(range->view + first, range->twin + first, bytes) == 0) return;
  pages_protect(range, from, to, PROT_READ);
  merged_push(session, range, from, to);
  pages_protect(range, from, to, PROT_READ | PROT_WRITE);
}

// Does so with all MERGED pages of the session.
static void push_open_all(struct session *session) {
  for (struct range *range = merged_ranges; range; range = range->next_merged) {
    if (range->session != session) continue;
    for (uint32_t at = 0, end; at < range->count; at = end) {
      end = pages_run(range, at, range->count);
      if (range->states[at] == MERGED) push_open(session, range, at, end);
    }
  }
}

static void read_all(void *data) {
  const struct reading *r = data;
  memcpy(r->now, r->view, r->bytes);
}

void merged_push_first(struct session *session, struct range *range) {
  uint64_t first = range->begin - range->address, size = range->end - range->begin;
  struct reading reading = {range->view + first, NULL, range->twin + first, size, 0};
  fault_watch();
  if (!own_reach(read_all, &reading))
    log_warn("registered memory at %p is not there any more: the device has zeros instead",
             (const void *)reading.view);
  pages_send(session, range->begin, range->twin + first, size);
  pages_send_gathered(session);
}

void merged_push_all(struct session *session) {
  if (merged_ranges) fault_watch();
  for (struct range *range = merged_ranges; range; range = range->next_merged)
    if (range->session == session) merged_push(session, range, 0, range->count);
  if (merged_ranges) merged_watch();
}

// ---- to the host -------------------------------------------------------------------------------

_Bool merged_bring(struct session *session, uint64_t address, uint64_t bytes,
                   const uint64_t *hashes, char *into, uint64_t changed[4], _Bool *settled) {
  uint64_t pages = (address % PAGE + bytes + PAGE - 1) / PAGE;
  struct answer answer;
  answer_init(&answer);
  answer_into(&answer, into, bytes);
  CUresult result = ask_PagesChanged(session, address, bytes, hashes,
                                     hashes ? (uint32_t)(pages * sizeof *hashes) : 0, &answer);
  _Bool good = !answer.result && !guest_is_lost() && answer.reply;
  if (good) {
    const struct wire_PagesChanged_reply *reply = answer.reply;
    memcpy(changed,
           (uint64_t[4]){reply->changed0, reply->changed1, reply->changed2, reply->changed3},
           4 * sizeof *changed);
    *settled = reply->settled != 0;
    if (*settled) context_settled(session, answer.sequence);
  }
  // An error of earlier work is for the program's next synchronisation.
  if (result && !guest_is_lost()) guest_async_error(session, result);
  answer_free(&answer);
  return good;
}

// Returns what a word of the host becomes: it gets the bytes that only the device has changed.
static uint64_t blend(uint64_t host, uint64_t before, uint64_t device) {
  if (host == before) return device;
  uint64_t result = host;
  for (unsigned shift = 0; shift < 64; shift += 8) {
    uint64_t byte = 0xffull << shift;
    if (!((host ^ before) & byte)) result = (result & ~byte) | (device & byte);
  }
  return result;
}

// Merges `bytes` bytes of the device into those of the host: all come that the host has not
// changed. Whole words are written at once, so that a host that looks meanwhile sees no half of a
// number.
struct merging {
  char *view, *twin;
  const char *device;
  uint32_t bytes;
};
static void merge_words(void *data) {
  const struct merging *m = data;
  char *view = m->view, *twin = m->twin;
  for (uint32_t at = 0, next; at < m->bytes; at = next) {
    next = at + 1;
    if ((uintptr_t)(view + at) % 8 || m->bytes - at < 8) {
      if (m->device[at] != twin[at] && view[at] == twin[at]) view[at] = m->device[at];
      twin[at] = m->device[at];
      continue;
    }
    next = at + 8;
    uint64_t before, now;
    memcpy(&before, twin + at, 8);
    memcpy(&now, m->device + at, 8);
    if (now == before) continue;
    uint64_t *word = (uint64_t *)(void *)(view + at);
    uint64_t host = __atomic_load_n(word, __ATOMIC_RELAXED), wanted;
    do wanted = blend(host, before, now);
    while (wanted != host && !__atomic_compare_exchange_n(word, &host, wanted, 0, __ATOMIC_RELEASE,
                                                          __ATOMIC_RELAXED));
    memcpy(twin + at, &now, 8);
  }
}

// Merges into memory that the program has closed, where a device could still write.
static void merge_closed(const struct merging *m) {
  static atomic_flag said = ATOMIC_FLAG_INIT;
  char now[PAGE], twin[PAGE];
  memcpy(twin, m->twin, m->bytes);
  struct merging copy = {now, twin, m->device, m->bytes};
  _Bool there = own_read(m->view, now, m->bytes);
  if (there) merge_words(&copy);
  if (there && own_write(m->view, now, m->bytes))
    memcpy(m->twin, m->device, m->bytes);
  else if (!atomic_flag_test_and_set(&said))
    log_warn(
        "registered memory at %p cannot be written any more: what the device has written there "
        "is lost (said once)",
        (const void *)m->view);
}

static void merge(struct range *range, uint32_t page, const char *device, uint32_t begin,
                  uint32_t end) {
  const uint64_t at = page * PAGE + begin;
  struct merging merging = {range->view + at, range->twin + at, device, end - begin};
  if (!range->own)
    merge_words(&merging);
  else if (!own_reach(merge_words, &merging))
    merge_closed(&merging);
}

// Looks at MERGED pages [from, to) side by side. With the lock, which is given up meanwhile, unless
// `stay`. False when they changed hands meanwhile, or did not come.
static _Bool look_at(struct session *session, struct range *range, uint32_t from, uint32_t to,
                     _Bool stay, _Bool *settled) {
  uint64_t hashes[WIRE_PAGES_MAX], changed[4];
  uint32_t first, last, end;
  bounds(range, from, &first, &end);
  bounds(range, to - 1, &end, &last);
  fault_watch();
  push_open(session, range, from, to);
  pages_send_gathered(session);
  for (uint32_t page = from; page < to; page++) {
    uint32_t at = page == from ? first : 0, stop = page == to - 1 ? last : PAGE;
    hashes[page - from] = wire_page_hash(range->twin + page * PAGE + at, stop - at);
  }
  uint64_t exchanges = range->exchanges;
  uint64_t begin = range->address + from * PAGE + first;
  uint64_t bytes = (to - 1 - from) * PAGE + last - first;
  if (!stay) pthread_mutex_unlock(&pages_lock);
  _Bool came = merged_bring(session, begin, bytes, hashes, scratch, changed, settled);
  if (!stay) pthread_mutex_lock(&pages_lock);
  if (!came || exchanges != range->exchanges) return 0;
  fault_watch();
  // The program sees all of it or nothing, where there is another way to the pages than its own.
  _Bool any = changed[0] || changed[1] || changed[2] || changed[3];
  if (any && !range->own) pages_protect(range, from, to, PROT_NONE);
  for (uint32_t page = from; page < to; page++) {
    uint32_t i = page - from, at = page == from ? first : 0, stop = page == to - 1 ? last : PAGE;
    if (!(changed[i / 64] >> i % 64 & 1)) continue;
    changes++;
    merge(range, page, scratch + (page * PAGE + at - from * PAGE - first), at, stop);
  }
  if (any && !range->own) pages_protect(range, from, to, PROT_READ | PROT_WRITE);
  return 1;
}

static _Bool unseen(const struct range *range) {
  return !range->read_only && !(range->seen && range->seen_at == pages_generation);
}

// Makes the MERGED pages of allocated memory CLEAN, when no work is under way that could change
// them.
static void retire(struct session *session, struct range *range) {
  for (uint32_t at = 0, end; at < range->count && range->merged; at = end) {
    end = pages_run(range, at, range->count);
    if (range->states[at] != MERGED || !pages_protect(range, at, end, PROT_READ)) continue;
    merged_push(session, range, at, end);
    merged_end(range, at, end);
    memset(range->states + at, CLEAN, end - at);
  }
  pages_send_gathered(session);
}

static void look(struct session *session, struct range *range) {
  uint64_t generation = pages_generation;
  _Bool all = 1;
  range->users++;
  for (uint32_t at = 0, end; at < range->count && !guest_is_lost(); at = end) {
    end = pages_run(range, at, range->count);
    if (range->states[at] != MERGED) continue;
    if (end - at > WIRE_PAGES_MAX) end = at + WIRE_PAGES_MAX;
    _Bool settled = 0;
    unsigned attempt = 0;
    while (attempt < 8 && !look_at(session, range, at, end, attempt > 4, &settled)) {
      attempt++;
      settled = 0;
      if (range->states[at] != MERGED || guest_is_lost()) break;
      end = pages_run(range, at, end);
    }
    all = all && settled;
  }
  range->users--;
  if (!range->users) pthread_cond_broadcast(&pages_arrived);
  if (!all || generation != pages_generation) return;
  range->seen = 1;
  range->seen_at = generation;
  if (!range->own) retire(session, range);
}

void pages_look_all(struct session *session) {
  pthread_mutex_lock(&look_lock);
  if (!scratch) scratch = malloc(WIRE_PAGES_MAX * PAGE);
  pthread_mutex_lock(&pages_lock);
  uint64_t address = 0;
  while (scratch) {
    struct range *range = merged_ranges;
    while (range && (range->address < address || range->session != session || !unseen(range)))
      range = range->next_merged;
    if (!range) break;
    address = range->address + 1;
    look(session, range);
  }
  pthread_mutex_unlock(&pages_lock);
  pthread_mutex_unlock(&look_lock);
}

void pages_push_all(struct session *session) {
  pthread_mutex_lock(&pages_lock);
  push_open_all(session);
  pages_send_gathered(session);
  pthread_mutex_unlock(&pages_lock);
}

// ---- while work runs ---------------------------------------------------------------------------

static void pause_for(uint64_t ns) {
  const struct timespec time = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
  nanosleep(&time, NULL);
}

// Pages that are to be looked at, in all sessions, with the lock; the look; whether somebody waits
// for a server.
static uint64_t unseen_pages(void) {
  uint64_t pages = 0;
  for (const struct range *range = merged_ranges; range; range = range->next_merged)
    if (unseen(range)) pages += range->merged;
  return pages;
}
static void look_everywhere(void) {
  for (struct session *session = sessions; pages_merged && session < sessions_end(); session++)
    pages_look_all(session);
}
static _Bool somebody_waits(void) {
  for (struct session *session = sessions; session < sessions_end(); session++)
    if (answers_expected(session)) return 1;
  return 0;
}

static void *watch(void *unused) {
  (void)unused;
  uint64_t period = PERIOD_LEAST_NS;
  _Bool busy = 0;  // the last time, something had changed
  pthread_mutex_lock(&pages_lock);
  while (!guest_is_lost()) {
    uint64_t before = changes, pages = unseen_pages();
    if (!pages) {
      pthread_cond_wait(&work_begins, &pages_lock);
      period = PERIOD_LEAST_NS;
      busy = 0;
      continue;
    }
    pthread_mutex_unlock(&pages_lock);
    uint64_t pause = somebody_waits() && !busy ? PERIOD_WAITING_NS : period;
    pause_for(pause + pages * PERIOD_PAGE_NS);
    look_everywhere();
    pthread_mutex_lock(&pages_lock);
    busy = changes != before;
    if (busy)
      period = PERIOD_LEAST_NS;
    else if (period < PERIOD_MOST_NS)
      period += period / 2;
  }
  pthread_mutex_unlock(&pages_lock);
  return NULL;
}

void merged_start(void) {
  static _Bool started;
  if (started) return;
  started = 1;
  const int error = thread_start(watch, NULL);
  if (error) log_warn("no thread that looks at pinned memory while work runs: %s", strerror(error));
}

void merged_watch(void) { pthread_cond_signal(&work_begins); }
