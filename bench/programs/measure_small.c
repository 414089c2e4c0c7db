// Copies of 4 KiB, and launches from several threads; microseconds each.
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "measure.h"
#include "raw.h"
#include "session.h"

#define SMALL 4096
#define THREADS 8

static char content[SMALL];

// ---- posted copies -----------------------------------------------------------------------------

// Until the last call returns, and the wait behind it: the server has all of them.
static double upload_all(const struct session *session, int count) {
  double start = now_us();
  for (int i = 0; i < count; i++) CHECK(cuMemcpyHtoD_v2(session->memory, content, SMALL));
  CHECK(cuCtxSynchronize());
  return (now_us() - start) / count;
}

static double raw_upload_all(int fd, int count) {
  struct raw_request request = {.count = 1, .in = (uint64_t)count * SMALL, .out = 0};
  raw_ask(fd, request);
  double start = now_us();
  for (int i = 0; i < count; i++) raw_send(fd, content, SMALL);
  raw_finished(fd);
  return (now_us() - start) / count;
}

void measure_small_upload(const struct plan *plan) {
  struct session session = session_open(SMALL);
  int fd = plan->port ? raw_connect(plan->port) : -1;
  upload_all(&session, plan->count);
  for (int r = 0; r < plan->repetitions; r++) {
    figure(plan->name, "cuda", upload_all(&session, plan->count));
    if (fd >= 0) figure(plan->name, "raw", raw_upload_all(fd, plan->count));
  }
}

// ---- threads -----------------------------------------------------------------------------------

struct worker {
  pthread_t thread;
  const struct session *session;
  CUstream stream;
  pthread_barrier_t *begin;
  int count;
};

static void *launch_all(void *given) {
  const struct worker *worker = given;
  CHECK(cuCtxSetCurrent(worker->session->context));
  pthread_barrier_wait(worker->begin);
  for (int i = 0; i < worker->count; i++) session_launch_on(worker->session, worker->stream);
  return NULL;
}

// The same number of launches in all, by so many threads, each into a stream of its own. What the
// threads themselves cost to make is not counted.
static double launch_by(struct worker *workers, int threads, int count) {
  pthread_barrier_t begin;
  pthread_barrier_init(&begin, NULL, (unsigned)threads + 1);
  for (int i = 0; i < threads; i++) {
    workers[i].count = count / threads;
    workers[i].begin = &begin;
    if (pthread_create(&workers[i].thread, NULL, launch_all, &workers[i]))
      FAIL("no thread could be made");
  }
  double start = now_us();
  pthread_barrier_wait(&begin);
  for (int i = 0; i < threads; i++) pthread_join(workers[i].thread, NULL);
  CHECK(cuCtxSynchronize());
  pthread_barrier_destroy(&begin);
  return (now_us() - start) / count;
}

// Against the same by one thread: what is shared must not make more threads slower.
void measure_threads(const struct plan *plan) {
  struct session session = session_open(SMALL);
  struct worker workers[THREADS];
  for (int i = 0; i < THREADS; i++) {
    workers[i].session = &session;
    CHECK(cuStreamCreate(&workers[i].stream, CU_STREAM_NON_BLOCKING));
  }
  launch_by(workers, THREADS, plan->count);
  for (int r = 0; r < plan->repetitions; r++) {
    figure(plan->name, "cuda", launch_by(workers, THREADS, plan->count));
    figure(plan->name, "raw", launch_by(workers, 1, plan->count));
  }
}
