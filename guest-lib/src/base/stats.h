// What a program's run cost, kept in a file that is mapped when OUTBOARD_STATS names one, so that
// the figures survive any end of the process and no exit hook is needed.
#ifndef OUTBOARD_STATS_H
#define OUTBOARD_STATS_H

#include <stdatomic.h>
#include <stdint.h>

#define STATS_MAGIC 0x3153544154534f42ull  // "BOSTATS1" as bytes
#define STATS_VERSION 3
#define STATS_CALLS 1024

// Where a run was when a phase ended.
struct stats_mark {
  _Atomic uint64_t calls, commands, round_trips, bytes_sent, bytes_received, image_bytes;
};

// The run's phases: until the session is there; until the first call that starts work; until the
// end of the last call that starts work or waits for the server. What follows is tear-down.
enum stats_phase { PHASE_ATTACH, PHASE_SET_UP, PHASE_STEADY, PHASE_COUNT };

// What the calls of one name have cost together, counted only while the file is there. Time is that
// of the caller; bytes are those of commands and replies.
struct stats_timed {
  _Atomic uint64_t ns, round_trips, bytes_sent, bytes_received;
};

// Little endian; every field 8 bytes; readers check magic and version. Counts since attach.
struct stats {
  uint64_t magic;
  uint64_t version;
  uint64_t call_count;              // entries in use in `by_call` and `timed`
  _Atomic uint64_t calls;           // driver calls the program made
  _Atomic uint64_t unsupported;     // of them, calls we do not serve
  _Atomic uint64_t commands;        // frames sent
  _Atomic uint64_t round_trips;     // times a caller waited for an answer; attaching is one
  _Atomic uint64_t bytes_sent;      // of frames
  _Atomic uint64_t bytes_received;  // of replies, downloads and output
  _Atomic uint64_t attach_ns;       // from connect to Welcome
  _Atomic uint64_t batches;         // send calls; depends on timing
  _Atomic uint64_t
      image_bytes;  // of bytes_sent, program images: as large as the compiler made them
  _Atomic uint64_t cached_parts;  // of uploads, that the server had kept
  _Atomic uint64_t cached_bytes;  // in them: those that were not sent
  struct stats_mark phases[PHASE_COUNT];
  _Atomic uint64_t by_call[STATS_CALLS];  // in the order of proto/generated/calls.json
  struct stats_timed timed[STATS_CALLS];
};

// Never NULL: private memory when no file is wanted.
extern struct stats *_Atomic guest_stats;

// Maps the file, makes it if there is none, and goes on counting there. Returns 0, or an errno
// value.
int stats_open(const char *path);

// Whether anybody will read the counters. That is not known before the first attach, so that they
// are kept until then. Without a file they are left alone, so that threads do not wait for each
// other's writes to them.
extern _Atomic _Bool stats_wanted;

static inline void stats_add(_Atomic uint64_t *counter, uint64_t amount) {
  if (__builtin_expect(atomic_load_explicit(&stats_wanted, memory_order_relaxed), 0))
    atomic_fetch_add_explicit(counter, amount, memory_order_relaxed);
}

// ---- of single calls, while they are watched (watch.h)

// What a thread has sent and received so far.
struct stats_own {
  uint64_t round_trips, bytes_sent, bytes_received;
};
// Returns the calling thread's, which it changes as it goes.
struct stats_own *stats_mine(void);

struct stats_span {
  uint64_t began;
  struct stats_own own;
};

// To be called around each call of the program; `call` is its number.
void stats_call_begin(struct stats_span *span, int call);
void stats_call_end(const struct stats_span *span, int call);
// Notes where the run is, as the end of a phase. A later call for the same phase replaces that.
void stats_phase_end(enum stats_phase phase);

#endif
