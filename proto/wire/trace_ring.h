// The file that a process records what happens into: a ring in mapped memory, so that it survives
// any end of the process and needs no exit hook. The guest library writes one per process, the
// executor one per session; monitor/src/trace reads both.
//
// Little endian. A header, strings, then records; of many records the last ones stay. Writers take
// no locks and make no system calls: a record is claimed by counting `head` up, marked as being
// written, filled and marked as whole. One that a writer died in, or is being written, is left out
// by readers.
#ifndef OUTBOARD_TRACE_RING_H
#define OUTBOARD_TRACE_RING_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TRACE_MAGIC 0x314543415254424full  // "OBTRACE1" as bytes
// Raised when a change would let a reader misread. Append-only additions do not.
#define TRACE_VERSION 1
#define TRACE_BYTES_DEFAULT (64ull << 20)
#define TRACE_BYTES_LEAST (64ull << 10)
#define TRACE_BYTES_MOST (16ull << 30)
#define TRACE_NO_NAME 0u

enum trace_role { TRACE_GUEST = 1, TRACE_SERVER = 2 };

// What a record tells; who writes it; what a, b and c are. `sequence`: of a command, as both sides
// count them from 1.
enum trace_kind {
  TRACE_CALL = 1,     // guest: a CUDA call; commands posted in it: first and last sequence, or 0
  TRACE_SEND = 2,     // guest: a batch going out; bytes, first and last sequence
  TRACE_WAIT = 3,     // guest: a caller waits; request, sequence; name: of the command
  TRACE_RECEIVE = 4,  // guest: a frame came; bytes, request, sequence of the command it answers
  TRACE_ATTACH = 5,   // both: how the session began; name: of the step; detail, as the step has it
  TRACE_TAKE = 6,     // server: commands taken up in one go; how many, first and last sequence
  TRACE_COMMAND = 7,  // server: one that answers, moves data or takes long; sequence, bytes,
                      // when its answer was ready (or 0)
  TRACE_HELD = 8,     // server: work held by the gate; group, stream, predicted nanoseconds
  TRACE_GROUP = 9,    // server: work measured on the device; group, stream, first sequence;
                      // result: how many sequences further its last one is
  TRACE_USE = 10,     // server: part of a group; group, launches, blocks; name: of the kernel
};

// The time when something began that has not ended yet.
#define TRACE_OPEN UINT64_MAX

struct trace_record {
  uint64_t state;     // number of the record, from 1, times two; odd while it is written
  uint64_t at;        // nanoseconds of CLOCK_MONOTONIC
  uint64_t duration;  // 0: a moment; TRACE_OPEN
  uint16_t kind;
  uint16_t pad;
  uint32_t thread;
  uint32_t name;  // of a string
  int32_t result;
  uint64_t a, b, c;
};

struct trace_header {
  uint64_t magic;
  uint32_t version;
  uint32_t role;
  uint64_t strings_at;  // offsets into the file
  uint64_t strings_size;
  uint64_t records_at;
  uint64_t record_count;  // a power of two
  uint64_t record_size;
  uint64_t head;          // records ever claimed
  uint64_t dropped;       // records given up, because their place was still being written
  uint64_t strings_used;  // bytes; each string is u32 length, then text, padded to 4
  uint64_t strings_lost;  // strings that there was no room for
  uint64_t process;
  uint64_t session;    // 0: not known (yet)
  uint64_t monotonic;  // both clocks at one moment
  uint64_t realtime;
  char clock[64];  // files with the same text here have the same CLOCK_MONOTONIC; empty: not known
  char host[64];
  char program[64];
};

// One process's hold on it.
struct trace_ring {
  struct trace_header *header;
  struct trace_record *records;
  unsigned char *strings;
  uint64_t mask;
  uint64_t size;   // of the mapping
  uint32_t names;  // strings so far, numbered from 1
  int fd;
};

// Makes `path` a new ring for `size` bytes of records, rounded down to a power of two, and some
// more for strings. Room for all is reserved on the disk: a full one must not be noticed later. 0,
// or an errno value: EBUSY when another process still writes it.
int trace_ring_open(struct trace_ring *ring, const char *path, uint64_t size, enum trace_role role);
// Unmaps it; the file stays.
void trace_ring_close(struct trace_ring *ring);

// Adds a string and returns its number; TRACE_NO_NAME when there is no room. One thread at a time.
uint32_t trace_ring_string(struct trace_ring *ring, const char *text, uint64_t length);

// Whoever reads the file meanwhile sees the mark before what is written behind it. The thread
// sanitizer, which knows no fences, needs none: nobody reads in its process.
static inline void trace_ring_marked(void) {
#ifndef __SANITIZE_THREAD__
  __atomic_thread_fence(__ATOMIC_RELEASE);
#endif
}

// Claims a record and marks it as being written. NULL when its place is still being written by a
// thread that is a whole ring behind.
static inline struct trace_record *trace_ring_claim(struct trace_ring *ring, uint64_t *number) {
  uint64_t count = __atomic_add_fetch(&ring->header->head, 1, __ATOMIC_RELAXED);
  struct trace_record *record = &ring->records[(count - 1) & ring->mask];
  uint64_t before = __atomic_load_n(&record->state, __ATOMIC_RELAXED);
  if (before & 1 || before > count * 2 ||
      !__atomic_compare_exchange_n(&record->state, &before, count * 2 + 1, 0, __ATOMIC_ACQUIRE,
                                   __ATOMIC_RELAXED)) {
    __atomic_fetch_add(&ring->header->dropped, 1, __ATOMIC_RELAXED);
    return 0;
  }
  trace_ring_marked();
  *number = count;
  return record;
}

// Takes a record that was written before once more. False when another one has taken its place.
static inline int trace_ring_again(struct trace_record *record, uint64_t number) {
  uint64_t before = number * 2;
  if (!__atomic_compare_exchange_n(&record->state, &before, number * 2 + 1, 0, __ATOMIC_ACQUIRE,
                                   __ATOMIC_RELAXED))
    return 0;
  trace_ring_marked();
  return 1;
}

static inline void trace_ring_publish(struct trace_record *record, uint64_t number) {
  __atomic_store_n(&record->state, number * 2, __ATOMIC_RELEASE);
}

// All of a record but its `state`.
static inline void trace_ring_fill(struct trace_record *record, const struct trace_record *what) {
  record->at = what->at;
  record->duration = what->duration;
  record->kind = what->kind;
  record->pad = 0;
  record->thread = what->thread;
  record->name = what->name;
  record->result = what->result;
  record->a = what->a;
  record->b = what->b;
  record->c = what->c;
}

static inline void trace_ring_put(struct trace_ring *ring, const struct trace_record *what) {
  uint64_t number;
  struct trace_record *record = trace_ring_claim(ring, &number);
  if (!record) return;
  trace_ring_fill(record, what);
  trace_ring_publish(record, number);
}

uint64_t trace_now(void);

#ifdef __cplusplus
}
static_assert(sizeof(struct trace_record) == 64, "trace_record");
static_assert(sizeof(struct trace_header) == 312, "trace_header");
#else
_Static_assert(sizeof(struct trace_record) == 64, "trace_record");
_Static_assert(sizeof(struct trace_header) == 312, "trace_header");
#endif

#endif
