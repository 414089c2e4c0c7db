// What the files that manage shared pages have in common: the ranges, and the lock that all of this
// is used under (pages.h).
#ifndef OUTBOARD_PAGES_INTERNAL_H
#define OUTBOARD_PAGES_INTERNAL_H

#include <pthread.h>
#include <stdint.h>

#include "pages/pages.h"
#include "session/session.h"
#include "wire.h"

#define PAGE ((uint64_t)WIRE_PAGE)

enum state {
  FRESH,   // open; changed if it was ever touched
  DIRTY,   // open; changed by the host
  CLEAN,   // readable; the same on both sides
  AWAY,    // closed; the device has it
  COMING,  // closed; on its way here
  MERGED,  // open while the device may change it; the range's twin tells what either has changed
};

// What of a range devices have, where that is not all: a variable, and where it lies on each
// session's device; 0: nowhere.
struct extent {
  uint64_t begin, end;
  uint64_t at[SESSIONS_MAX];
  struct extent *next;
};

struct range {
  uint64_t address;
  struct session *session;  // whose device has it
  uint8_t borrowers;        // sessions whose devices reach it there, a bit each
  char *view;               // always open
  uint32_t count;
  // Pages outside [first, last) are away or coming.
  uint32_t first, last;
  uint32_t next, ahead;  // page behind the last fetch, and how many that one brought
  uint32_t next_write, ahead_write;
  struct range *next_open;  // of those that have open pages
  struct extent *extents;   // of a range outside the window
  struct session *home;     // the session whose device has it at these addresses
  // Pinned host memory, whose pages may be MERGED (merged.c).
  _Bool pinned;
  _Bool own;         // the program's own, registered: MERGED always, and never protected
  _Bool read_only;   // to the device
  _Bool seen;        // nothing that runs may have changed it since it was looked at,
  uint64_t seen_at;  // in this generation
  uint64_t begin, end;
  char *twin;          // of MERGED pages, what both sides had last
  uint32_t merged;     // pages
  uint32_t users;      // threads that look at it without the lock
  uint64_t exchanges;  // times that MERGED pages were sent or closed
  struct range *next_merged;
  uint8_t states[];
};

extern pthread_mutex_t pages_lock;
extern pthread_cond_t pages_arrived;  // what was COMING has come, or a range has a user less
extern uint64_t pages_generation;     // counts what may have changed pages on the device

// ---- page_ranges.c ----

// The range that holds an address, or NULL; visits all.
struct range *pages_find(uint64_t address);
void pages_each(void (*visit)(struct range *range));

// ---- pages.c ----

// Pages of one state, from `at` on.
uint32_t pages_run(const struct range *range, uint32_t at, uint32_t end);
_Bool pages_protect(struct range *range, uint32_t from, uint32_t to, int protection);
void pages_note_open(struct range *range, uint32_t from, uint32_t to);
void pages_forget_open(struct range *range);
// Sends what is changed of [from, to) and closes it, or leaves it readable.
void pages_push(struct range *range, uint32_t from, uint32_t to, _Bool keep);
// What the host has at `from` is what the device is to have at `address`; pages_send_gathered sends
// what was gathered of that.
void pages_send(struct session *session, uint64_t address, const char *from, uint64_t bytes);
void pages_send_gathered(struct session *session);
// Everything comes, and is open as one.
void pages_open_whole(struct range *range);

// ---- merged.c ----

// Makes pages MERGED that are the same on both sides. False when there is no memory for the twin.
_Bool merged_begin(struct range *range, uint32_t from, uint32_t to);
// Sends all of the program's own range: what the device has there is not known.
void merged_push_first(struct session *session, struct range *range);
// They are so no more, whatever they become.
void merged_end(struct range *range, uint32_t from, uint32_t to);
// Sends what the host has changed of those.
void merged_push(struct session *session, struct range *range, uint32_t from, uint32_t to);
// The same of all of the program's own ranges, before work that may touch any of them.
void merged_push_all(struct session *session);
// Something runs that may change MERGED pages: they are looked at from time to time, by a thread
// that merged_start makes.
void merged_watch(void);
void merged_start(void);
// The range goes.
void merged_forget(struct range *range);
// Brings pages as the device has them now to `into`; with hashes, those that differ, which
// `changed` then names. False when they do not come.
_Bool merged_bring(struct session *session, uint64_t address, uint64_t bytes,
                   const uint64_t *hashes, char *into, uint64_t changed[4], _Bool *settled);

#endif
