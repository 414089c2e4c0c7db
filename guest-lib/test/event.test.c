// Streams and events: what is known to be done without asking, and what the server tells.
#include "streams/event.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/stats.h"
#include "check.h"
#include "guest_calls.h"
#include "session.h"
#include "streams/stream.h"

#define MIB (1ull << 20)

static const struct server_hook no_hook;

static uint64_t round_trips(void) { return atomic_load(&guest_stats->round_trips); }

#define COSTS(trips, call, expected)                   \
  do {                                                 \
    uint64_t before = round_trips();                   \
    assert_int_equal((call), (expected));              \
    assert_int_equal(round_trips() - before, (trips)); \
  } while (0)

static CUstream stream_with(unsigned flags) {
  CUstream stream;
  assert_int_equal(cuStreamCreate(&stream, flags), CUDA_SUCCESS);
  return stream;
}

static CUevent new_event(void) {
  CUevent event;
  assert_int_equal(cuEventCreate(&event, 0), CUDA_SUCCESS);
  return event;
}

static CUdeviceptr memory;
static void work_on(CUstream stream) {
  if (!memory) assert_int_equal(cuMemAlloc_v2(&memory, 64), CUDA_SUCCESS);
  assert_int_equal(cuMemsetD8Async(memory, 1, 1, stream), CUDA_SUCCESS);
}

static void settled_work_is_not_asked_for_again(void **state) {
  (void)state;
  session_start(64 * MIB, no_hook);
  CUstream a = stream_with(0), b = stream_with(CU_STREAM_NON_BLOCKING);
  COSTS(0, cuStreamSynchronize(a), CUDA_SUCCESS);  // nothing was ever put on it
  work_on(a);
  work_on(b);
  COSTS(1, cuStreamSynchronize(a), CUDA_SUCCESS);
  COSTS(0, cuStreamSynchronize(a), CUDA_SUCCESS);
  COSTS(0, cuStreamQuery(a), CUDA_SUCCESS);
  COSTS(1, cuStreamQuery(b), CUDA_SUCCESS);
  COSTS(0, cuStreamSynchronize(b), CUDA_SUCCESS);
  COSTS(1, cuCtxSynchronize(), CUDA_SUCCESS);
  COSTS(0, cuCtxSynchronize(), CUDA_SUCCESS);
  COSTS(0, cuStreamSynchronize(NULL), CUDA_SUCCESS);
  work_on(a);
  COSTS(1, cuCtxSynchronize(), CUDA_SUCCESS);
  COSTS(0, cuStreamSynchronize(a), CUDA_SUCCESS);
}

// The legacy default stream waits for the streams that block on it, and only for those.
static void the_legacy_stream_covers_blocking_ones(void **state) {
  (void)state;
  session_start(64 * MIB, no_hook);
  CUstream a = stream_with(0), b = stream_with(CU_STREAM_NON_BLOCKING);
  work_on(a);
  COSTS(1, cuStreamSynchronize(NULL), CUDA_SUCCESS);
  COSTS(0, cuStreamSynchronize(NULL), CUDA_SUCCESS);
  work_on(a);
  COSTS(1, cuStreamSynchronize(CU_STREAM_LEGACY), CUDA_SUCCESS);
  work_on(b);
  COSTS(0, cuStreamSynchronize(NULL), CUDA_SUCCESS);
  COSTS(1, cuStreamSynchronize(b), CUDA_SUCCESS);
  // A synchronous copy on it settles all when nothing else runs.
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  work_on(a);
  char byte;
  COSTS(1, cuMemcpyDtoH_v2(&byte, memory, 1), CUDA_SUCCESS);
  COSTS(0, cuCtxSynchronize(), CUDA_SUCCESS);
  COSTS(0, cuStreamSynchronize(a), CUDA_SUCCESS);
  work_on(b);
  work_on(NULL);
  COSTS(1, cuMemcpyDtoH_v2(&byte, memory, 1), CUDA_SUCCESS);
  COSTS(1, cuCtxSynchronize(), CUDA_SUCCESS);  // `b` was not waited for
}

static void per_thread_streams(void **state) {
  (void)state;
  session_start(64 * MIB, no_hook);
  unsigned long long legacy, mine, again;
  assert_int_equal(cuStreamGetId(NULL, &legacy), CUDA_SUCCESS);
  assert_int_equal(cuStreamGetId(CU_STREAM_PER_THREAD, &mine), CUDA_SUCCESS);
  assert_int_equal(cuStreamGetId_ptsz(NULL, &again), CUDA_SUCCESS);
  assert_int_not_equal(mine, legacy);
  assert_int_equal(mine, again);
  // A reset ends it, and it is made anew.
  assert_int_equal(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
  session_enter();
  assert_int_equal(cuStreamGetId_ptsz(NULL, &again), CUDA_SUCCESS);
  assert_int_not_equal(again, mine);
}

static void *use_my_stream(void *unused) {
  (void)unused;
  session_enter();
  CHECK(cuMemsetD8Async_ptsz(memory, 1, 1, NULL) == CUDA_SUCCESS);
  CUcontext before, context;
  CHECK(cuCtxGetCurrent(&before) == CUDA_SUCCESS);
  unsigned long long here, there, again;
  CHECK(cuStreamGetId_ptsz(NULL, &here) == CUDA_SUCCESS);
  CHECK(cuCtxCreate_v2(&context, 0, 0) == CUDA_SUCCESS);
  CHECK(cuStreamGetId_ptsz(NULL, &there) == CUDA_SUCCESS && there != here);
  CHECK(cuCtxSetCurrent(before) == CUDA_SUCCESS);
  CHECK(cuStreamGetId_ptsz(NULL, &again) == CUDA_SUCCESS && again == here);
  return NULL;
}

static void a_thread_takes_its_streams_along(void **state) {
  (void)state;
  struct server *server = session_start(64 * MIB, no_hook);
  work_on(NULL);
  for (uint64_t i = 1; i <= 20; i++) {
    pthread_t thread;
    pthread_create(&thread, NULL, use_my_stream, NULL);
    pthread_join(thread, NULL);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    assert_int_equal(server_count(server, WIRE_cuStreamCreateWithPriority), 2 * i);
    assert_int_equal(server_count(server, WIRE_cuStreamDestroy_v2), 2 * i);
  }
}

static void events_and_streams_of_other_contexts(void **state) {
  (void)state;
  session_start(64 * MIB, no_hook);
  CUstream here = stream_with(0);
  CUevent of_here = new_event();
  CUcontext context;
  assert_int_equal(cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
  CUevent of_there = new_event();
  assert_int_equal(cuEventRecord(of_there, here), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(cuEventRecord(of_here, here), CUDA_SUCCESS);
  assert_int_equal(cuEventRecord(of_here, NULL), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(cuEventRecord(of_there, NULL), CUDA_SUCCESS);
  assert_int_equal(cuStreamWaitEvent(here, of_there, 0), CUDA_SUCCESS);
  float time;
  assert_int_equal(cuEventElapsedTime_v2(&time, of_here, of_there), CUDA_ERROR_INVALID_HANDLE);
}

static void events(void **state) {
  (void)state;
  session_start(64 * MIB, no_hook);
  CUstream a = stream_with(0);
  CUevent event = new_event(), other = new_event();
  float time;
  COSTS(0, cuEventQuery(event), CUDA_SUCCESS);  // never recorded: nothing to wait for
  COSTS(0, cuEventSynchronize(event), CUDA_SUCCESS);
  COSTS(0, cuEventElapsedTime_v2(&time, event, other), CUDA_ERROR_INVALID_HANDLE);
  work_on(a);
  COSTS(0, cuEventRecord(event, a), CUDA_SUCCESS);
  COSTS(1, cuEventSynchronize(event), CUDA_SUCCESS);
  COSTS(0, cuEventSynchronize(event), CUDA_SUCCESS);
  COSTS(0, cuEventQuery(event), CUDA_SUCCESS);
  // It covered the stream up to there.
  COSTS(0, cuStreamSynchronize(a), CUDA_SUCCESS);
  work_on(a);
  COSTS(0, cuEventQuery(event), CUDA_SUCCESS);
  assert_int_equal(cuEventRecord(event, a), CUDA_SUCCESS);
  COSTS(1, cuEventQuery(event), CUDA_SUCCESS);
  // Synchronising its stream settles an event.
  assert_int_equal(cuEventRecord(other, a), CUDA_SUCCESS);
  COSTS(1, cuStreamSynchronize(a), CUDA_SUCCESS);
  COSTS(0, cuEventQuery(other), CUDA_SUCCESS);
  COSTS(1, cuEventElapsedTime_v2(&time, event, other), CUDA_SUCCESS);
  CUevent untimed;
  assert_int_equal(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  assert_int_equal(cuEventRecord(untimed, a), CUDA_SUCCESS);
  COSTS(0, cuEventElapsedTime_v2(&time, event, untimed), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(cuEventCreate(&untimed, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuEventCreate(&untimed, 0x100), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuEventDestroy_v2(event), CUDA_SUCCESS);
  assert_int_equal(cuEventDestroy_v2(event), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(cuEventRecord(event, a), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(cuEventQuery((CUevent)a), CUDA_ERROR_INVALID_HANDLE);
}

// ---- pushed completions
// --------------------------------------------------------------------------

static _Atomic uint64_t watched, watched_handle;
static _Bool not_ready(struct server *server, const struct wire_header *h, void *context) {
  (void)context;
  if (h->op != WIRE_cuEventQuery && h->op != WIRE_cuStreamQuery) return 0;
  const struct wire_cuEventQuery *q = (const void *)h;
  server_reply(server, q->request.request, CUDA_ERROR_NOT_READY, 0);
  watched = q->request.request;
  watched_handle = q->hEvent;
  return 1;
}

static void push_done(struct server *server, uint64_t handle, uint64_t request) {
  struct wire_done done = {{WIRE_DONE, 0, sizeof done}, handle, request};
  server_send(server, &done, sizeof done);
}

static void polling_costs_nothing(void **state) {
  (void)state;
  struct server *server = session_start(64 * MIB, (struct server_hook){not_ready, NULL});
  CUstream a = stream_with(CU_STREAM_NON_BLOCKING);
  CUevent event = new_event();
  for (int round = 0; round < 3; round++) {
    work_on(a);
    assert_int_equal(cuEventRecord(event, a), CUDA_SUCCESS);
    COSTS(1, cuEventQuery(event), CUDA_ERROR_NOT_READY);
    server_wait(server, WIRE_cuEventQuery, (uint64_t)round + 1);
    for (int i = 0; i < 100; i++) COSTS(0, cuEventQuery(event), CUDA_ERROR_NOT_READY);
    // What was asked before, or of another, says nothing about this one.
    push_done(server, watched_handle, watched - 1);
    push_done(server, 0x5000001000001, watched);
    COSTS(0, cuEventQuery(event), CUDA_ERROR_NOT_READY);
    COSTS(0, cuEventQuery(event), CUDA_ERROR_NOT_READY);
    push_done(server, watched_handle, watched);
    uint64_t before = round_trips();
    while (cuEventQuery(event) == CUDA_ERROR_NOT_READY) {
    }
    assert_int_equal(round_trips(), before);
    COSTS(0, cuEventQuery(event), CUDA_SUCCESS);
  }
}

static void polling_a_stream_costs_nothing(void **state) {
  (void)state;
  struct server *server = session_start(64 * MIB, (struct server_hook){not_ready, NULL});
  CUstream streams[] = {stream_with(0), NULL};
  for (uint64_t i = 0; i < 2; i++) {
    work_on(streams[i]);
    COSTS(1, cuStreamQuery(streams[i]), CUDA_ERROR_NOT_READY);
    server_wait(server, WIRE_cuStreamQuery, 2 * i + 1);
    COSTS(0, cuStreamQuery(streams[i]), CUDA_ERROR_NOT_READY);
    // More work: the answer to the earlier question does not count.
    work_on(streams[i]);
    push_done(server, watched_handle, watched);
    COSTS(1, cuStreamQuery(streams[i]), CUDA_ERROR_NOT_READY);
    server_wait(server, WIRE_cuStreamQuery, 2 * i + 2);
    COSTS(0, cuStreamQuery(streams[i]), CUDA_ERROR_NOT_READY);
    push_done(server, watched_handle, watched);
    while (cuStreamQuery(streams[i]) == CUDA_ERROR_NOT_READY) {
    }
    COSTS(0, cuStreamQuery(streams[i]), CUDA_SUCCESS);
    COSTS(0, cuStreamSynchronize(streams[i]), CUDA_SUCCESS);
  }
}

// The server's word may come for what has just been destroyed, in another thread.
static void *read_on(void *stop) {
  while (!atomic_load((_Atomic _Bool *)stop)) answer_poll(session_here());
  return NULL;
}

static void completions_of_destroyed_handles(void **state) {
  (void)state;
  struct server *server = session_start(64 * MIB, (struct server_hook){not_ready, NULL});
  _Atomic _Bool stop = 0;
  pthread_t thread;
  pthread_create(&thread, NULL, read_on, &stop);
  work_on(NULL);
  for (uint64_t i = 1; i <= 500; i++) {
    CUevent event = new_event();
    CUstream stream = stream_with(0);
    work_on(stream);
    assert_int_equal(cuEventRecord(event, stream), CUDA_SUCCESS);
    cuEventQuery(event);
    server_wait(server, WIRE_cuEventQuery, i);
    push_done(server, watched_handle, watched);
    push_done(server, (uint64_t)(uintptr_t)stream, watched);
    assert_int_equal(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
    cuEventQuery(event);  // its stream is gone
    server_wait(server, WIRE_cuEventQuery, i);
    assert_int_equal(cuEventDestroy_v2(event), CUDA_SUCCESS);
  }
  atomic_store(&stop, 1);
  pthread_join(thread, NULL);
}

static void *query(void *event) {
  session_enter();
  for (int i = 0; i < 300; i++) {
    CUresult result = cuEventQuery(event);
    CHECK(result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY);
  }
  return NULL;
}

static _Bool sometimes_ready(struct server *server, const struct wire_header *h, void *context) {
  (void)context;
  if (h->op != WIRE_cuEventQuery) return 0;
  const struct wire_cuEventQuery *q = (const void *)h;
  _Bool ready = q->request.request % 3 == 0;
  server_reply(server, q->request.request, ready ? 0 : CUDA_ERROR_NOT_READY, 0);
  if (!ready) push_done(server, q->hEvent, q->request.request);
  return 1;
}

static void one_event_polled_by_several_threads(void **state) {
  (void)state;
  session_start(64 * MIB, (struct server_hook){sometimes_ready, NULL});
  CUevent event = new_event();
  pthread_t threads[3];
  work_on(NULL);
  assert_int_equal(cuEventRecord(event, NULL), CUDA_SUCCESS);
  for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, query, event);
  for (int i = 0; i < 100; i++) {
    work_on(NULL);
    assert_int_equal(cuEventRecord(event, NULL), CUDA_SUCCESS);
  }
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
}

static void contexts_take_their_own_along(void **state) {
  (void)state;
  session_start(64 * MIB, no_hook);
  CUstream kept = stream_with(0);
  CUcontext context;
  assert_int_equal(cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
  CUstream stream = stream_with(0);
  CUevent event = new_event();
  assert_int_equal(cuCtxDestroy_v2(context), CUDA_SUCCESS);
  unsigned flags;
  assert_int_equal(cuStreamGetFlags(kept, &flags), CUDA_SUCCESS);
  assert_int_equal(cuStreamGetFlags(stream, &flags), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(settled_work_is_not_asked_for_again),
      cmocka_unit_test(the_legacy_stream_covers_blocking_ones),
      cmocka_unit_test(per_thread_streams),
      cmocka_unit_test(a_thread_takes_its_streams_along),
      cmocka_unit_test(events_and_streams_of_other_contexts),
      cmocka_unit_test(events),
      cmocka_unit_test(polling_costs_nothing),
      cmocka_unit_test(polling_a_stream_costs_nothing),
      cmocka_unit_test(completions_of_destroyed_handles),
      cmocka_unit_test(one_event_polled_by_several_threads),
      cmocka_unit_test(contexts_take_their_own_along),
  };
  RUN_ONE_TEST(tests, argc, argv);
}
