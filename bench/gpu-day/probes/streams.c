// Queues, functions of the host, events, and what waiting costs.
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"

static atomic_int held = 1;
static atomic_int launched;

static void holds(void *unused) {
  (void)unused;
  while (atomic_load(&held)) sleep_us(1e3);
}

// Lets the stream go once no launch has returned for a second: the queue is full, and whoever
// launches is stuck.
static void *watches(void *blocked_at) {
  int seen = -1;
  while (atomic_load(&held)) {
    const int now = atomic_load(&launched);
    if (now == seen) {
      *(int *)blocked_at = now;
      atomic_store(&held, 0);
      return NULL;
    }
    seen = now;
    sleep_us(1e6);
  }
  return NULL;
}

// How many launches a stream takes that is held.
void probe_queue(char **rest) {
  const int most = rest[0] ? atoi(rest[0]) : 20000;
  probe_context();
  const CUfunction nothing = probe_function("nothing");
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  launch(nothing, stream, 0);
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuLaunchHostFunc(stream, holds, NULL));
  int blocked_at = 0;
  pthread_t watcher;
  if (pthread_create(&watcher, NULL, watches, &blocked_at)) fail("thread", "no thread");
  for (int i = 0; i < most && !blocked_at; i++) {
    launch(nothing, stream, 0);
    atomic_fetch_add(&launched, 1);
  }
  atomic_store(&held, 0);
  pthread_join(watcher, NULL);
  CHECK(cuStreamSynchronize(stream));
  if (blocked_at)
    say_number("launches until one blocks", blocked_at);
  else
    say_text("launches until one blocks", "more than were made");
  say_number("launches made", atomic_load(&launched));
}

static atomic_int inside, most_inside;

static void sleeps(void *unused) {
  (void)unused;
  const int now = atomic_fetch_add(&inside, 1) + 1;
  int most = atomic_load(&most_inside);
  while (now > most && !atomic_compare_exchange_weak(&most_inside, &most, now)) {
  }
  sleep_us(100e3);
  atomic_fetch_sub(&inside, 1);
}

// Functions of four streams: one by one, or side by side.
void probe_functions(char **rest) {
  (void)rest;
  probe_context();
  enum { kStreams = 4 };
  CUstream streams[kStreams];
  for (int i = 0; i < kStreams; i++) CHECK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
  const double begun = now_us();
  for (int i = 0; i < kStreams; i++) CHECK(cuLaunchHostFunc(streams[i], sleeps, NULL));
  CHECK(cuCtxSynchronize());
  say_number("four functions of 100 ms in four streams, ms", (now_us() - begun) / 1e3);
  say_number("functions at a time", atomic_load(&most_inside));
}

// Launches behind a function that sleeps, then a kernel that was never used.
void probe_behind(char **rest) {
  const int launches = rest[0] ? atoi(rest[0]) : 5000;
  probe_context();
  const CUfunction nothing = probe_function("nothing");
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  launch(nothing, stream, 0);
  CHECK(cuStreamSynchronize(stream));
  double begun = now_us();
  CHECK(cuLaunchHostFunc(stream, sleeps, NULL));
  for (int i = 0; i < launches; i++) launch(nothing, stream, 0);
  say_number("launches behind a function of 100 ms, returned after ms", (now_us() - begun) / 1e3);
  CHECK(cuStreamSynchronize(stream));
  say_number("done after ms", (now_us() - begun) / 1e3);
  CHECK(cuLaunchHostFunc(stream, sleeps, NULL));
  begun = now_us();
  CUmodule module;
  CUfunction fresh;
  CHECK(cuModuleLoadData(&module, probe_ptx));
  CHECK(cuModuleGetFunction(&fresh, module, "counts"));
  launch(fresh, stream, 10);
  say_number("a first kernel behind such a function, launched after ms", (now_us() - begun) / 1e3);
  CHECK(cuStreamSynchronize(stream));
  say_number("it ends after ms", (now_us() - begun) / 1e3);
}

// What two timed events around every launch cost.
void probe_events(char **rest) {
  (void)rest;
  probe_context();
  const CUfunction nothing = probe_function("nothing");
  enum { kLaunches = 500, kRuns = 7 };
  CUevent events[2];
  for (int i = 0; i < 2; i++) CHECK(cuEventCreate(&events[i], CU_EVENT_DEFAULT));
  double best[2] = {1e18, 1e18};
  for (int run = 0; run < 2 * kRuns; run++) {
    const int timed = run % 2;
    const double begun = now_us();
    for (int i = 0; i < kLaunches; i++) {
      if (timed) CHECK(cuEventRecord(events[0], NULL));
      launch(nothing, NULL, 0);
      if (timed) CHECK(cuEventRecord(events[1], NULL));
    }
    CHECK(cuCtxSynchronize());
    const double each = (now_us() - begun) / kLaunches;
    if (each < best[timed]) best[timed] = each;
  }
  say_number("a launch, us", best[0]);
  say_number("a launch between two events, us", best[1]);
}

static float event_time(CUfunction counts, unsigned turns) {
  CUevent from, to;
  float ms = 0;
  CHECK(cuEventCreate(&from, CU_EVENT_DEFAULT));
  CHECK(cuEventCreate(&to, CU_EVENT_DEFAULT));
  CHECK(cuEventRecord(from, NULL));
  launch(counts, NULL, turns);
  CHECK(cuEventRecord(to, NULL));
  CHECK(cuEventSynchronize(to));
  CHECK(cuEventElapsedTime(&ms, from, to));
  return ms;
}

static void busy(const char *library, const char *seconds) {
  execl("/proc/self/exe", "gpu-day-probe", "slices", library, "busy", seconds, (char *)NULL);
  _exit(127);
}

// Time between events of a kernel of 50 ms, alone and beside another busy process. MORE: `busy
// SECONDS` is the other.
void probe_slices(char **rest) {
  if (rest[0] && rest[1] && !strcmp(rest[0], "busy")) {
    probe_context();
    const CUfunction counts = probe_function("counts");
    const unsigned turns = turns_for_us(counts, 5e3);
    const double until = now_us() + atof(rest[1]) * 1e6;
    while (now_us() < until) {
      for (int i = 0; i < 4; i++) launch(counts, NULL, turns);
      CHECK(cuCtxSynchronize());
    }
    return;
  }
  const char *const library = rest[0];
  if (!library) fail("usage", "slices LIBRARY LIBRARY");
  // Before this process has a driver, which would not outlive a fork.
  int ready[2];
  if (pipe(ready)) fail("process", "no pipe");
  // Or the child would say again what is only buffered.
  fflush(stdout);
  const pid_t child = fork();
  if (child < 0) fail("process", "no other process");
  if (child == 0) {
    char go;
    close(ready[1]);
    if (read(ready[0], &go, 1) != 1) _exit(1);
    close(ready[0]);
    // Its answer is nobody's.
    if (!freopen("/dev/null", "w", stdout)) _exit(1);
    busy(library, "6");
  }
  close(ready[0]);
  probe_context();
  const CUfunction counts = probe_function("counts");
  const unsigned turns = turns_for_us(counts, 50e3);
  float alone = 1e9f, beside = 0;
  for (int i = 0; i < 5; i++) {
    const float ms = event_time(counts, turns);
    if (ms < alone) alone = ms;
  }
  if (write(ready[1], "g", 1) != 1) fail("process", "the other process is gone");
  sleep_us(2e6);
  for (int i = 0; i < 10; i++) {
    const float ms = event_time(counts, turns);
    if (ms > beside) beside = ms;
  }
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  say_number("a kernel alone, ms between events", alone);
  say_number("beside another busy process, ms between events", beside);
}

static double processor_us(void) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e6 +
         (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static void holds_so_long(void *us) { sleep_us(*(const double *)us); }

// Processor time of this process while it waits. MORE: seconds.
void probe_waiting(char **rest) {
  double us = (rest[0] ? atof(rest[0]) : 2) * 1e6;
  probe_context();
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  launch(probe_function("nothing"), stream, 0);
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuLaunchHostFunc(stream, holds_so_long, &us));
  const double begun = now_us(), used = processor_us();
  CHECK(cuStreamSynchronize(stream));
  say_number("waited ms", (now_us() - begun) / 1e3);
  say_number("processor time while waiting, percent",
             (processor_us() - used) / (now_us() - begun) * 100);
}
