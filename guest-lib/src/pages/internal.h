// What the files that manage shared pages have in common: the ranges, and the lock of pages
// (pages.h). Everything here is called with that held, except where it says otherwise. Pages of a
// range, as [from, to), are counted from its beginning; addresses are the device's, and sizes are
// in bytes.
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

// A part of a range of which devices have only parts: a managed variable, at [begin, end), and the
// address at which each session's device has it; 0: it does not.
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
  _Bool seen;        // it was looked at when no work was under way
  uint64_t seen_at;  // the generation (pages_generation) in which that was
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

// Returns the range that holds an address, or NULL.
struct range *pages_find(uint64_t address);
// Visits all ranges, by address.
void pages_each(void (*visit)(struct range *range, void *context), void *context);

// ---- pages.c ----

// Returns where the run of pages ends, at `end` at the latest, that have the state of page `at`.
uint32_t pages_run(const struct range *range, uint32_t at, uint32_t end);
// Sets what the program may do with pages (PROT_READ and so on). False when the system refuses, as
// it does when a process's memory would be in too many pieces.
_Bool pages_protect(struct range *range, uint32_t from, uint32_t to, int protection);
// Notes that pages are open, and lists their range among those that have such pages.
void pages_note_open(struct range *range, uint32_t from, uint32_t to);
// Takes a range, of which no page is open, off that list.
void pages_forget_open(struct range *range);
// Sends what the host has changed of pages to the device that has the range. Closes the pages or,
// with `keep`, leaves them readable; the program's own memory stays open. What is short waits for
// pages_send_gathered.
void pages_push(struct range *range, uint32_t from, uint32_t to, _Bool keep);
// Sends `bytes` bytes at `from` to where the session's device has `address`. What is short is
// gathered first.
void pages_send(struct session *session, uint64_t address, const char *from, uint64_t bytes);
// Sends what was gathered. To be called before the lock is let go, or another session is sent
// anything.
void pages_send_gathered(struct session *session);
// Brings all pages of a range that the device has, and opens the range as one piece. While others
// are bringing some, the lock is let go.
void pages_open_whole(struct range *range);

// ---- merged.c ----

// Makes pages MERGED that are the same on both sides. False when there is no memory for the twin.
_Bool merged_begin(struct range *range, uint32_t from, uint32_t to);
// Sends all of a range of the program's own memory, of which it is not known what the device has.
void merged_push_first(struct session *session, struct range *range);
// Notes that pages are MERGED no more. The caller gives them another state.
void merged_end(struct range *range, uint32_t from, uint32_t to);
// Sends what the host has changed of the MERGED ones among pages; `session` is the range's.
void merged_push(struct session *session, struct range *range, uint32_t from, uint32_t to);
// Does so for all ranges of the session, before work that may touch any of them.
void merged_push_all(struct session *session);
// Tells the thread that looks at MERGED pages from time to time that work runs which may change
// them.
void merged_watch(void);
// Makes that thread, if there is none yet.
void merged_start(void);
// Ends what is kept here for a range that goes.
void merged_forget(struct range *range);
// Asks for what the device has now at `address`, on up to WIRE_PAGES_MAX pages, and puts it at
// `into`. With `hashes`, one for each page, only pages whose bytes have another hash come;
// `changed` has a bit for each page that came. *settled says whether no work was under way that
// could change them later. False when nothing came. May be called without the lock.
_Bool merged_bring(struct session *session, uint64_t address, uint64_t bytes,
                   const uint64_t *hashes, char *into, uint64_t changed[4], _Bool *settled);

#endif
