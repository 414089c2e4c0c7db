// Launches, and calls that wait for an answer; microseconds each.
#include <string.h>

#include "measure.h"
#include "raw.h"
#include "session.h"

#define RAW_CALL_MOST (64u << 10)
static char scratch[RAW_CALL_MOST];

// ---- launches ----------------------------------------------------------------------------------

// The raw side: as many bytes, in one stream, until the peer has them all.
static double raw_stream(int fd, uint64_t bytes, int count) {
  struct raw_request request = {.count = 1, .in = bytes, .out = 0};
  raw_ask(fd, request);
  double start = now_us();
  for (uint64_t left = bytes; left;) {
    size_t part = left < sizeof scratch ? left : sizeof scratch;
    raw_send(fd, scratch, part);
    left -= part;
  }
  raw_finished(fd);
  return (now_us() - start) / count;
}

void measure_launch(const struct plan *plan) {
  struct session session = session_open(4096);
  int fd = plan->port ? raw_connect(plan->port) : -1;
  for (int i = 0; i < plan->count; i++) session_launch(&session);
  CHECK(cuCtxSynchronize());
  for (int r = 0; r < plan->repetitions; r++) {
    struct cost before = cost_now();
    double start = now_us();
    for (int i = 0; i < plan->count; i++) session_launch(&session);
    double returned = now_us();
    CHECK(cuCtxSynchronize());
    double done = now_us();
    figure("launch-returned", "cuda", (returned - start) / plan->count);
    figure("launch-done", "cuda", (done - start) / plan->count);
    if (fd >= 0)
      figure("launch-done", "raw", raw_stream(fd, cost_now().sent - before.sent, plan->count));
  }
}

// ---- round trips -------------------------------------------------------------------------------

static double raw_ping(int fd, uint64_t count, uint64_t in, uint64_t out) {
  struct raw_request request = {.count = count, .in = in, .out = out};
  raw_ask(fd, request);
  double start = now_us();
  for (uint64_t i = 0; i < count; i++) {
    raw_send(fd, scratch, in);
    raw_receive(fd, scratch, out);
  }
  double done = now_us();
  raw_finished(fd);
  return (done - start) / (double)count;
}

// The raw side sends and receives, for each call, as many bytes as the call did.
static void measure_round_trip(const struct plan *plan, void (*call)(struct session *session)) {
  struct session session = session_open(4096);
  int fd = plan->port ? raw_connect(plan->port) : -1;
  uint64_t count = (uint64_t)plan->count;
  for (uint64_t i = 0; i < count; i++) call(&session);
  struct cost before = cost_now();
  for (uint64_t i = 0; i < count; i++) call(&session);
  struct cost after = cost_now();
  uint64_t in = (after.sent - before.sent) / count,
           out = (after.received - before.received) / count;
  if (fd >= 0) {
    if (after.round_trips - before.round_trips != count)
      FAIL("%s: not one round trip a call, but %g", plan->name,
           (double)(after.round_trips - before.round_trips) / plan->count);
    if (in > sizeof scratch || out > sizeof scratch) FAIL("%s: the call is too large", plan->name);
    raw_ping(fd, count, in, out);
  }
  for (int r = 0; r < plan->repetitions; r++) {
    double start = now_us();
    for (uint64_t i = 0; i < count; i++) call(&session);
    figure(plan->name, "cuda", (now_us() - start) / plan->count);
    if (fd >= 0) figure(plan->name, "raw", raw_ping(fd, count, in, out));
  }
}

// Asks the driver something and gives the device nothing to do.
static void call_occupancy(struct session *session) {
  size_t shared;
  CHECK(cuOccupancyAvailableDynamicSMemPerBlock(&shared, session->kernel, 1, 32));
}

// What a loop of kernels does that looks at nothing but whether they are done.
static void call_synchronise(struct session *session) {
  session_launch(session);
  CHECK(cuCtxSynchronize());
}

// What a loop of kernels does that checks for convergence.
static void call_read(struct session *session) {
  unsigned result;
  session_launch(session);
  CHECK(cuMemcpyDtoH_v2(&result, session->memory, sizeof result));
}

// A result of some size; the device has nothing to do.
static void call_small_read(struct session *session) {
  static char result[4096];
  CHECK(cuMemcpyDtoH_v2(result, session->memory, sizeof result));
}

void measure_call(const struct plan *plan) { measure_round_trip(plan, call_occupancy); }
void measure_synchronise(const struct plan *plan) { measure_round_trip(plan, call_synchronise); }
void measure_read(const struct plan *plan) { measure_round_trip(plan, call_read); }
void measure_small_read(const struct plan *plan) { measure_round_trip(plan, call_small_read); }

// ---- attach ------------------------------------------------------------------------------------

// From before cuInit until the first result is there, in milliseconds. Once a process can attach
// only once, repetitions are the caller's business.
void measure_attach(const struct plan *plan) {
  unsigned sent = 0x5eed, result = 0;
  double start = now_us();
  struct session session = session_open(4096);
  CHECK(cuMemcpyHtoD_v2(session.memory, &sent, sizeof sent));
  session_launch(&session);
  CHECK(cuMemcpyDtoH_v2(&result, session.memory, sizeof result));
  figure(plan->name, "cuda", (now_us() - start) * 1e-3);
  if (result != sent) FAIL("attach: the first result is wrong");
  if (!plan->port) return;
  // The raw side: a connection, and as many round trips of the same mean size.
  struct cost cost = cost_now();
  if (!cost.round_trips) FAIL("attach: the guest library has counted no round trips");
  start = now_us();
  int fd = raw_connect(plan->port);
  raw_ping(fd, cost.round_trips, cost.sent / cost.round_trips, cost.received / cost.round_trips);
  figure(plan->name, "raw", (now_us() - start) * 1e-3);
}
