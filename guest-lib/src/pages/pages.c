#include "pages/pages.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "base/thread_role.h"
#include "guest_calls.h"
#include "pages/backing.h"
#include "pages/fault.h"
#include "pages/internal.h"
#include "pages/merged.h"
#include "pages/page_variables.h"
#include "setup/log.h"
#include "wire/answer.h"
#include "wire/enter.h"
#include "wire/order.h"

// How many bytes a touch brings when nothing is known about its neighbours, and how many at most
// when touches follow one another.
#define FETCH_LEAST (64u << 10)
#define FETCH_MOST (4u << 20)
// Runs longer than this travel from where they lie; shorter ones are gathered.
#define GATHER_MAX (16u << 10)
#define GATHER_BYTES (64u << 10)
#define GATHER_RUNS 256

pthread_mutex_t pages_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t pages_arrived = PTHREAD_COND_INITIALIZER;
uint64_t pages_generation;
static struct range *open_ranges;

// ---- states ------------------------------------------------------------------------------------

uint32_t pages_run(const struct range *range, uint32_t at, uint32_t end) {
  uint32_t to = at + 1;
  while (to < end && range->states[to] == range->states[at]) to++;
  return to;
}

void pages_note_open(struct range *range, uint32_t from, uint32_t to) {
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

void pages_forget_open(struct range *range) {
  struct range **link = &open_ranges;
  while (*link && *link != range) link = &(*link)->next_open;
  if (*link) *link = range->next_open;
  range->first = range->last = 0;
}

_Bool pages_protect(struct range *range, uint32_t from, uint32_t to, int protection) {
  if (mprotect((void *)(uintptr_t)(range->address + from * PAGE), (to - from) * PAGE, protection) ==
      0)
    return 1;
  log_debug("%u pages at 0x%llx cannot be protected: %s", to - from,
            (unsigned long long)(range->address + from * PAGE), strerror(errno));
  return 0;
}

// ---- to the device -----------------------------------------------------------------------------

// Short runs that are going to travel in one message: their bytes, with the table of runs behind.
static unsigned char gathered[GATHER_BYTES + GATHER_RUNS * sizeof(struct wire_page_run)];
static struct wire_page_run gathered_runs[GATHER_RUNS];
static uint32_t gathered_count;
static uint64_t gathered_bytes;

void pages_send_gathered(struct session *session) {
  if (!gathered_count) return;
  uint64_t table = gathered_count * sizeof *gathered_runs;
  memcpy(gathered + gathered_bytes, gathered_runs, table);
  put_PagesUpload(session, 0, gathered_count, gathered_bytes + table, gathered);
  gathered_count = 0;
  gathered_bytes = 0;
}

void pages_send(struct session *session, uint64_t address, const char *view, uint64_t bytes) {
  if (bytes <= GATHER_MAX) {
    if (gathered_count == GATHER_RUNS || gathered_bytes + bytes > GATHER_BYTES)
      pages_send_gathered(session);
    memcpy(gathered + gathered_bytes, view, bytes);
    gathered_bytes += bytes;
    gathered_runs[gathered_count++] = (struct wire_page_run){address, bytes};
    return;
  }
  while (bytes) {
    uint64_t part = bytes < WIRE_BULK_MAX ? bytes : WIRE_BULK_MAX;
    put_PagesUpload(session, address, 0, part, view);
    address += part;
    view += part;
    bytes -= part;
  }
}

static char *view_of(const struct range *range, uint64_t address) {
  return range->view + (address - range->address);
}

static void send_run(const struct range *range, uint32_t from, uint32_t to) {
  uint64_t begin = range->address + from * PAGE, end = range->address + to * PAGE;
  if (range->borrowers) range->session->pages_sent++;
  if (!range->extents) return pages_send(range->session, begin, view_of(range, begin), end - begin);
  for (const struct extent *e = range->extents; e; e = e->next) {
    uint64_t first = e->begin > begin ? e->begin : begin, last = e->end < end ? e->end : end;
    uint64_t there = e->at[range->session->number];
    if (first < last && there)
      pages_send(range->session, there + (first - e->begin), view_of(range, first), last - first);
  }
}

// Sends those of FRESH pages that were ever touched.
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

// Pages are closed before they are sent, so that nothing changes any more.
void pages_push(struct range *range, uint32_t from, uint32_t to, _Bool keep) {
  if (range->own) return merged_push(range->session, range, from, to);
  if (from < range->first) from = range->first;
  if (to > range->last) to = range->last;
  if (from >= to) return;
  if (!keep && !pages_protect(range, from, to, PROT_NONE)) {
    // There is a limit to how many pieces a process's memory may be in.
    from = range->first;
    to = range->last;
    pages_protect(range, 0, range->count, PROT_NONE);
  }
  for (uint32_t at = from, end; at < to; at = end) {
    end = pages_run(range, at, to);
    enum state state = range->states[at];
    if (state == AWAY || state == COMING) continue;
    if (state == MERGED) {
      merged_push(range->session, range, at, end);
      if (keep) continue;
      merged_end(range, at, end);
    }
    if (keep && state != CLEAN) pages_protect(range, at, end, PROT_READ);
    if (state == FRESH)
      send_fresh(range, at, end);
    else if (state == DIRTY)
      send_run(range, at, end);
    memset(range->states + at, keep ? CLEAN : AWAY, end - at);
  }
  if (!keep && from == range->first && to == range->last) pages_forget_open(range);
}

// Sends what the host has changed of a range that another session's device has, and that of
// `session` reaches there.
static void push_to_owner(struct session *session, struct range *range) {
  pages_send_gathered(session);
  pages_push(range, range->first, range->last, 0);
  pages_send_gathered(range->session);
}

// Returns a session that was sent pages which the device of `session` reaches there, and that is
// not known to have them yet; NULL when there is none.
static struct session *late_owner(struct session *session) {
  for (struct session *owner = sessions; sessions_many() && owner < sessions_end(); owner++)
    if (owner->pages_arrived != owner->pages_sent && sessions_have(owner->borrowers, session))
      return owner;
  return NULL;
}

// Waits until a session's device has the pages that were sent to it. The lock is let go meanwhile.
static void await_owner(struct session *owner) {
  const uint64_t until = owner->pages_sent;
  pthread_mutex_unlock(&pages_lock);
  struct answer answer;
  answer_init(&answer);
  CUresult result = ask_PagesFetch(owner, 0, 0, 0, &answer);
  answer_free(&answer);
  if (result && !guest_is_lost()) guest_async_error(owner, result);
  pthread_mutex_lock(&pages_lock);
  if (owner->pages_arrived < until) owner->pages_arrived = until;
}

// Touches that bring pages and were overtaken too often: no other work begins until they have them.
// Their lock is not held meanwhile, because what they wait for may be a function of the program.
static unsigned overtaken;

static void let_overtaken(void) {
  while (overtaken && !thread_role.awaited) pthread_cond_wait(&pages_arrived, &pages_lock);
}

static void push_all(struct session *session) {
  if (open_ranges) fault_watch();
  for (struct range **link = &open_ranges; *link;) {
    struct range *range = *link;  // which leaves the list when all of it is closed
    if (range->session == session)
      pages_push(range, range->first, range->last, 0);
    else if (sessions_have(range->borrowers, session))
      push_to_owner(session, range);
    if (*link == range) link = &range->next_open;
  }
  if (pages_merged) merged_push_all(session);
  pages_send_gathered(session);
}

_Bool pages_hand_over_all(struct session *session) {
  pthread_mutex_lock(&pages_lock);
  let_overtaken();
  pages_generation++;
  push_all(session);
  // Work of this session does not wait by itself for what was sent to others; and the host may
  // change more until it is there.
  for (struct session *owner; (owner = late_owner(session)) != NULL;) {
    await_owner(owner);
    push_all(session);
  }
  return 1;
}

void pages_handed_over(void) { pthread_mutex_unlock(&pages_lock); }

void pages_use_range(uint64_t address, uint64_t size, _Bool writes) {
  if (!size) return;
  if (pages_variables) pages_send_home(address);
  pthread_mutex_lock(&pages_lock);
  if (writes) let_overtaken();
  struct range *range = pages_find(address);
  if (range) {
    struct thread_session before = session_switch(range->session);
    pages_generation += writes;
    fault_watch();
    uint64_t from = (address - range->address) / PAGE;
    uint64_t to = (address - range->address + size + PAGE - 1) / PAGE;
    pages_push(range, (uint32_t)from, to < range->count ? (uint32_t)to : range->count, !writes);
    pages_send_gathered(range->session);
    if (writes && range->merged) merged_watch();
    session_back(before);
  }
  pthread_mutex_unlock(&pages_lock);
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

// Fills the second view at `into`. What does not come stays as it was, which the log says. A
// function that a stream calls sees what its stream has done: to wait for all work would be to wait
// for itself.
static void download_bytes(const struct range *range, uint64_t address, char *into,
                           uint64_t bytes) {
  _Bool wait = !thread_role.in_function;
  if (wait && range->borrowers) sessions_settle(range->borrowers);
  // A touch comes from anywhere.
  struct session *session = range->session;
  struct thread_session before = session_switch(session);
  struct answer answer;
  answer_init(&answer);
  answer_into(&answer, into, bytes);
  CUresult result = ask_PagesFetch(session, address, bytes, wait, &answer);
  answer_free(&answer);
  if (!answer.result && !guest_is_lost()) {
    // An error of earlier work is for the program's next synchronisation.
    if (result) guest_async_error(session, result);
    if (wait) context_settled(session, answer.sequence);
  } else {
    log_error("what the device has at 0x%llx does not come: the program sees what was there before",
              (unsigned long long)address);
  }
  session_back(before);
}

static void download(const struct range *range, uint32_t from, uint32_t pages) {
  uint64_t begin = range->address + from * PAGE, end = begin + pages * PAGE;
  if (!range->extents) return download_bytes(range, begin, view_of(range, begin), pages * PAGE);
  for (const struct extent *e = range->extents; e; e = e->next) {
    uint64_t first = e->begin > begin ? e->begin : begin, last = e->end < end ? e->end : end;
    uint64_t there = e->at[range->session->number];
    if (first < last && there)
      download_bytes(range, there + (first - e->begin), view_of(range, first), last - first);
  }
}

// Does the same with pinned memory, and does not wait for work. True when no work was under way.
static _Bool bring(const struct range *range, uint32_t from, uint32_t pages) {
  _Bool settled = 1;
  struct thread_session before = session_switch(range->session);
  for (uint32_t at = from, end = from + pages; at < end;) {
    uint32_t part = end - at < WIRE_PAGES_MAX ? end - at : WIRE_PAGES_MAX;
    uint64_t changed[4];
    _Bool now;
    if (!merged_bring(range->session, range->address + at * PAGE, part * PAGE, NULL,
                      range->view + at * PAGE, changed, &now))
      log_error("what the device has at 0x%llx does not come: the program sees what was there",
                (unsigned long long)(range->address + at * PAGE));
    else
      settled = settled && now;
    at += part;
  }
  session_back(before);
  return settled;
}

// The way out when the system allows a process no more pieces of memory: the range becomes one
// piece.
void pages_open_whole(struct range *range) {
  for (uint32_t at = 0, end; at < range->count; at = end) {
    if (range->states[at] == COMING) {
      pthread_cond_wait(&pages_arrived, &pages_lock);
      end = 0;
      continue;
    }
    end = pages_run(range, at, range->count);
    if (range->states[at] != AWAY) continue;
    if (!range->pinned)
      download(range, at, end - at);
    else if (!bring(range, at, end - at) && merged_begin(range, at, end))
      continue;
    memset(range->states + at, CLEAN, end - at);
  }
  for (uint32_t at = 0; at < range->count; at++)
    if (range->states[at] != MERGED) range->states[at] = DIRTY;
  pages_protect(range, 0, range->count, PROT_READ | PROT_WRITE);
  pages_note_open(range, 0, range->count);
}

void pages_bring_all(uint64_t address) {
  pthread_mutex_lock(&pages_lock);
  struct range *range = pages_find(address);
  if (range && !range->own) pages_open_whole(range);
  pthread_mutex_unlock(&pages_lock);
}

void pages_move(struct session *session, uint64_t address) {
  pthread_mutex_lock(&pages_lock);
  struct range *range = pages_find(address);
  if (range) {
    range->session = session;
    range->borrowers = 0;
  }
  pthread_mutex_unlock(&pages_lock);
}

void pages_open_to(uint64_t address, uint8_t sessions) {
  pthread_mutex_lock(&pages_lock);
  struct range *range = pages_find(address);
  if (range) range->borrowers = sessions;
  pthread_mutex_unlock(&pages_lock);
}

// Brings pages around `at`; the lock is given up meanwhile. `alone`: no work is to begin.
static void fetch(struct range *range, uint32_t at, _Bool alone) {
  uint32_t from = at, pages = fetch_size(range, &from);
  uint64_t began = pages_generation;
  range->next = from + pages;
  range->ahead = pages;
  memset(range->states + from, COMING, pages);
  _Bool settled = 1;
  overtaken += alone;
  pthread_mutex_unlock(&pages_lock);
  if (range->pinned)
    settled = bring(range, from, pages);
  else
    download(range, from, pages);
  pthread_mutex_lock(&pages_lock);
  overtaken -= alone;
  _Bool runs = !settled || pages_generation != began;
  if (range->pinned && runs && merged_begin(range, from, from + pages)) {
    // The device may go on changing it while the host has it.
    pages_note_open(range, from, from + pages);
    merged_watch();
    if (!pages_protect(range, from, from + pages, PROT_READ | PROT_WRITE)) pages_open_whole(range);
  } else if (pages_generation != began && !guest_is_lost()) {
    // Work began meanwhile that may change it.
    memset(range->states + from, AWAY, pages);
    range->ahead = 0;
  } else {
    memset(range->states + from, CLEAN, pages);
    pages_note_open(range, from, from + pages);
    if (!pages_protect(range, from, from + pages, PROT_READ)) pages_open_whole(range);
  }
  pthread_cond_broadcast(&pages_arrived);
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
  if (!pages_protect(range, at, to, PROT_READ | PROT_WRITE)) pages_open_whole(range);
}

_Bool pages_fault(uint64_t address, _Bool known, _Bool write) {
  if (guest_is_child() || !pages_ranges) return 0;
  pthread_mutex_lock(&pages_lock);
  struct range *range = pages_find(address);
  if (range && range->own) range = NULL;  // the device's addresses of it are not the program's
  _Bool ours = range != NULL;
  for (unsigned attempt = 0; range; attempt++) {
    uint32_t at = (uint32_t)((address - range->address) / PAGE);
    enum state state = range->states[at];
    if (state == FRESH || state == DIRTY || state == MERGED) break;  // opened by another thread
    if (state == CLEAN) {
      if (!known ? attempt == 0 : write) open_to_write(range, at);
      break;
    }
    // What somebody else waits for may come only after this function.
    if (state == COMING && !thread_role.in_function)
      pthread_cond_wait(&pages_arrived, &pages_lock);
    else
      fetch(range, at, attempt > 8);
    range = pages_find(address);
  }
  pthread_mutex_unlock(&pages_lock);
  return ours;
}
