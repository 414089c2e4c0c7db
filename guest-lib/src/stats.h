// What a program's run cost, kept in a file that is mapped when OUTBOARD_STATS names one, so that
// the figures survive any end of the process and no exit hook is needed.
#ifndef OUTBOARD_STATS_H
#define OUTBOARD_STATS_H

#include <stdatomic.h>
#include <stdint.h>

#define STATS_MAGIC 0x3153544154534f42ull  // "BOSTATS1" as bytes
#define STATS_VERSION 1

// Little endian; every field 8 bytes; readers check magic and version. Counts since attach.
struct stats {
  uint64_t magic;
  uint64_t version;
  uint64_t call_count;              // entries in `by_call`
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
  _Atomic uint64_t by_call[512];  // in the order of proto/generated/calls.json
};

// Never NULL: private memory when no file is wanted.
extern struct stats *_Atomic guest_stats;

// Maps `path`, creating it. Returns 0, or an errno value.
int stats_open(const char *path);

static inline void stats_add(_Atomic uint64_t *counter, uint64_t amount) {
  atomic_fetch_add_explicit(counter, amount, memory_order_relaxed);
}

#endif
