#include "base/stats.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "abi_descriptor.h"
#include "base/call.h"
#include "guest_calls.h"
#include "setup/clock.h"

static struct stats private_stats;
struct stats *_Atomic guest_stats = &private_stats;
_Atomic _Bool stats_wanted = 1;

_Static_assert(CALL_COUNT <= STATS_CALLS, "a counter for every call");

// So that the file can be read without knowing which release wrote it. A disk that is full leaves
// them out.
static void put_names(int fd) {
  off_t at = sizeof(struct stats);
  for (int call = 0; call < CALL_COUNT; call++) {
    const struct iovec parts[2] = {{(void *)call_names[call], strlen(call_names[call])},
                                   {(void *)"\n", 1}};
    ssize_t put = pwritev(fd, parts, 2, at);
    if (put < 0) return;
    at += put;
  }
}

int stats_open(const char *path) {
  int fd = descriptor_above(open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (fd < 0) return errno;
  if (ftruncate(fd, sizeof(struct stats)) != 0) {
    int error = errno;
    close(fd);
    return error;
  }
  struct stats *mapped =
      mmap(NULL, sizeof(struct stats), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) {
    int error = errno;
    close(fd);
    return error;
  }
  // A file from an earlier run starts again from nothing; what was counted before the file was
  // opened (the first calls of this process) moves along.
  *mapped = *guest_stats;
  mapped->magic = STATS_MAGIC;
  mapped->version = STATS_VERSION;
  mapped->call_count = CALL_COUNT;
  put_names(fd);
  close(fd);
  guest_stats = mapped;
  return 0;
}

// ---- of single calls ---------------------------------------------------------------------------

struct stats_own *stats_mine(void) {
  static __thread struct stats_own mine;
  return &mine;
}

void stats_phase_end(enum stats_phase phase) {
  struct stats *stats = guest_stats;
  struct stats_mark *mark = &stats->phases[phase];
  mark->calls = stats->calls;
  mark->commands = stats->commands;
  mark->round_trips = stats->round_trips;
  mark->bytes_sent = stats->bytes_sent;
  mark->bytes_received = stats->bytes_received;
  mark->image_bytes = stats->image_bytes;
}

void stats_call_begin(struct stats_span *span, int call) {
  if (call_traits[call] & CALL_STARTS_WORK && !guest_stats->phases[PHASE_SET_UP].calls)
    stats_phase_end(PHASE_SET_UP);
  span->own = *stats_mine();
  span->began = clock_ns();
}

void stats_call_end(const struct stats_span *span, int call) {
  const struct stats_own *own = stats_mine();
  struct stats_timed *timed = &guest_stats->timed[call];
  stats_add(&timed->ns, clock_ns() - span->began);
  stats_add(&timed->round_trips, own->round_trips - span->own.round_trips);
  stats_add(&timed->bytes_sent, own->bytes_sent - span->own.bytes_sent);
  stats_add(&timed->bytes_received, own->bytes_received - span->own.bytes_received);
  if (call_traits[call] & (CALL_STARTS_WORK | CALL_WAITS)) stats_phase_end(PHASE_STEADY);
}
