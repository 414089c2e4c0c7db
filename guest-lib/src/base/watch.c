#include "base/watch.h"

#include "base/ablation.h"
#include "setup/environment.h"

_Atomic unsigned guest_watch = WATCH_UNDECIDED;

static void decide(void) {
  unsigned bits = environment("OUTBOARD_STATS") ? WATCH_STATS : 0;
  if (trace_decide()) bits |= WATCH_TRACE;
  if (ablation_decide()) bits |= WATCH_ABLATION;
  atomic_store_explicit(&guest_watch, bits, memory_order_release);
}

void watch_again(void) { atomic_store(&guest_watch, WATCH_UNDECIDED); }

void watch_begin(struct watched *watched, int call) {
  if (watch_has(WATCH_UNDECIDED)) decide();
  watched->call = call;
  if (watch_has(WATCH_STATS)) stats_call_begin(&watched->stats, call);
  trace_call_begin(&watched->trace, call);
}

CUresult watch_end(const struct watched *watched, CUresult result) {
  trace_call_end(&watched->trace, result);
  if (watch_has(WATCH_STATS)) stats_call_end(&watched->stats, watched->call);
  return result;
}

void watch_posted(uint16_t op, uint64_t sequence, size_t bytes) {
  if (trace_on()) trace_posted(op, sequence);
  stats_mine()->bytes_sent += bytes;
}
