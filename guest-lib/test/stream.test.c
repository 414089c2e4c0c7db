// Values that streams wait for and write, and attributes: what is refused here, and what is sent.
// Room in streams: who waits for it.
#include "streams/stream.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "check.h"
#include "guest_calls.h"
#include "session.h"
#include "session/session.h"
#include "streams/room.h"

#define MIB (1ull << 20)

static struct wire_value sent[WIRE_VALUES_MAX];
static uint32_t sent_count, attributes_sent;
static uint32_t last_attribute;
static _Bool keep(struct server *server, const struct wire_header *h, void *context) {
  (void)server;
  (void)context;
  if (h->op == WIRE_StreamValues) {
    const struct wire_StreamValues *q = (const void *)h;
    sent_count = q->values_size / (uint32_t)sizeof *sent;
    memcpy(sent, q + 1, q->values_size);
  } else if (h->op == WIRE_StreamAttribute) {
    last_attribute = ((const struct wire_StreamAttribute *)h)->attribute;
    attributes_sent++;
  }
  return 0;
}

static void values_are_checked_and_sent(void **state) {
  (void)state;
  session_start(64 * MIB, (struct server_hook){keep, NULL});
  CUdeviceptr at;
  assert_int_equal(cuMemAlloc_v2(&at, 64), CUDA_SUCCESS);
  const CUresult invalid = CUDA_ERROR_INVALID_VALUE;
  assert_int_equal(cuStreamWriteValue32_v2(NULL, at + 2, 1, 0), invalid);
  assert_int_equal(cuStreamWriteValue64_v2(NULL, at + 4, 1, 0), invalid);
  assert_int_equal(cuStreamWriteValue64_v2(NULL, 0, 1, 0), invalid);
  assert_int_equal(cuStreamWriteValue32_v2(NULL, at - 4, 1, 0), invalid);
  assert_int_equal(cuStreamWriteValue32_v2(NULL, at, 1, 2), invalid);
  assert_int_equal(cuStreamWaitValue32_v2(NULL, at, 1, 4), invalid);
  assert_int_equal(cuStreamWaitValue32_v2(NULL, at, 1, CU_STREAM_WAIT_VALUE_FLUSH),
                   CUDA_ERROR_NOT_SUPPORTED);
  assert_int_equal(cuStreamWaitValue32_v2((CUstream)0x1230, at, 1, 0), CUDA_ERROR_INVALID_HANDLE);
  // What nothing can end.
  assert_int_equal(cuStreamWaitValue32_v2(NULL, at, 0, CU_STREAM_WAIT_VALUE_AND), invalid);
  assert_int_equal(cuStreamWaitValue64_v2(NULL, at, UINT64_MAX, CU_STREAM_WAIT_VALUE_NOR), invalid);
  assert_int_equal(cuStreamWaitValue64_v2(NULL, at + 8, 1ull << 40, CU_STREAM_WAIT_VALUE_AND),
                   CUDA_SUCCESS);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  assert_int_equal(sent_count, 1);
  assert_int_equal(sent[0].operation, CU_STREAM_MEM_OP_WAIT_VALUE_64);
  assert_int_equal(sent[0].flags, CU_STREAM_WAIT_VALUE_AND);
  assert_int_equal(sent[0].address, at + 8);
  assert_int_equal(sent[0].value, 1ull << 40);

  CUstreamBatchMemOpParams list[3];
  memset(list, 0, sizeof list);
  list[0].operation = CU_STREAM_MEM_OP_BARRIER;
  list[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  list[1].writeValue.address = at;
  list[1].writeValue.value64 = 0x500000006;  // only 32 bits of it count
  list[2].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  list[2].waitValue.address = at + 4;
  assert_int_equal(cuStreamBatchMemOp_v2(NULL, 3, list, 1), invalid);
  assert_int_equal(cuStreamBatchMemOp_v2(NULL, 0, list, 0), invalid);
  assert_int_equal(cuStreamBatchMemOp_v2(NULL, 257, list, 0), invalid);
  assert_int_equal(cuStreamBatchMemOp_v2(NULL, 3, NULL, 0), invalid);
  assert_int_equal(cuStreamBatchMemOp_v2(NULL, 3, list, 0), CUDA_SUCCESS);
  assert_int_equal(cuStreamBatchMemOp(NULL, 1, list, 0), CUDA_SUCCESS);  // nothing to send
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  assert_int_equal(sent_count, 2);
  assert_int_equal(sent[0].value, 6);
  assert_int_equal(sent[1].operation, CU_STREAM_MEM_OP_WAIT_VALUE_32);
  list[0].operation = CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES;
  assert_int_equal(cuStreamBatchMemOp_v2(NULL, 3, list, 0), CUDA_ERROR_NOT_SUPPORTED);
  list[0].operation = (CUstreamBatchMemOpType)77;
  assert_int_equal(cuStreamBatchMemOp_v2(NULL, 3, list, 0), invalid);
}

static void attributes_are_kept_and_copied(void **state) {
  (void)state;
  session_start(64 * MIB, (struct server_hook){keep, NULL});
  CUstream a, b;
  assert_int_equal(cuStreamCreate(&a, 0), CUDA_SUCCESS);
  assert_int_equal(cuStreamCreate(&b, 0), CUDA_SUCCESS);
  CUstreamAttrValue value;
  assert_int_equal(cuStreamGetAttribute(a, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, &value),
                   CUDA_SUCCESS);
  assert_int_equal(value.memSyncDomainMap.remote, 1);
  assert_int_equal(cuStreamGetAttribute(a, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value),
                   CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuStreamSetAttribute(a, CU_LAUNCH_ATTRIBUTE_PRIORITY, NULL),
                   CUDA_ERROR_INVALID_VALUE);
  memset(&value, 0, sizeof value);
  value.syncPolicy = (CUsynchronizationPolicy)9;
  const CUstreamAttrID policy = CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY;
  assert_int_equal(cuStreamSetAttribute(a, policy, &value), CUDA_ERROR_INVALID_VALUE);
  value.syncPolicy = CU_SYNC_POLICY_YIELD;
  assert_int_equal(cuStreamSetAttribute(a, policy, &value), CUDA_SUCCESS);
  memset(&value, 0, sizeof value);
  value.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
  assert_int_equal(cuStreamSetAttribute(a, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, &value),
                   CUDA_SUCCESS);
  assert_int_equal(cuStreamCopyAttributes(b, a), CUDA_SUCCESS);
  assert_int_equal(cuStreamCopyAttributes(NULL, b), CUDA_SUCCESS);
  assert_int_equal(cuStreamCopyAttributes(b, b), CUDA_SUCCESS);
  assert_int_equal(cuStreamDestroy_v2(a), CUDA_SUCCESS);
  assert_int_equal(cuStreamCopyAttributes(b, a), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(cuStreamGetAttribute(CU_STREAM_LEGACY, policy, &value), CUDA_SUCCESS);
  assert_int_equal(value.syncPolicy, CU_SYNC_POLICY_YIELD);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  // How to wait is not the server's business.
  assert_int_equal(attributes_sent, 3);
  assert_int_equal(last_attribute, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN);
  CUgreenCtx green = (CUgreenCtx)1;
  CUcontext context;
  assert_int_equal(cuStreamGetCtx_v2(b, &context, &green), CUDA_SUCCESS);
  assert_null(green);
}

// ---- room ------------------------------------------------------------------------------------

// Event records that the server has been sent and has not said to be passed, and the most there
// were. It tells of a mark when it is allowed to.
static _Atomic unsigned put_there, most_there, marks;
static _Atomic _Bool held;
static uint64_t held_places[64], held_stream;
static unsigned held_marks;

static void pass(struct server *server, uint64_t stream, uint64_t place) {
  struct wire_passed passed = {{WIRE_PASSED, 0, sizeof passed}, stream, place};
  put_there = 0;
  server_send(server, &passed, sizeof passed);
}

static _Bool count_records(struct server *server, const struct wire_header *h, void *context) {
  (void)context;
  if (h->op == WIRE_cuEventRecord) {
    unsigned now = ++put_there;
    if (now > most_there) most_there = now;
  } else if (h->op == WIRE_StreamMark) {
    const struct wire_StreamMark *mark = (const void *)h;
    marks++;
    held_stream = mark->stream;
    if (held)
      held_places[held_marks++ % 64] = mark->place;
    else
      pass(server, mark->stream, mark->place);
  }
  return 0;
}

static CUevent recorded;
static CUstream filled;
static _Atomic unsigned records;
static _Atomic CUresult last_result;
static void *fill(void *count) {
  session_enter();
  for (unsigned i = 0; i < *(const unsigned *)count && !last_result; i++) {
    last_result = cuEventRecord(recorded, filled);
    if (!last_result) records++;
  }
  return NULL;
}

static struct server *begin_with_room(unsigned operations) {
  struct server *server = session_start(64 * MIB, (struct server_hook){count_records, NULL});
  sessions[0].stream_operations = operations;
  assert_int_equal(cuStreamCreate(&filled, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  assert_int_equal(cuEventCreate(&recorded, 0), CUDA_SUCCESS);
  return server;
}

// A thread puts more on the stream than there is room for. Returns when it waits.
static const unsigned more_than_fits = 40;
static pthread_t begin_to_fill(struct server *server) {
  held = 1;
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, fill, (void *)&more_than_fits), 0);
  server_wait(server, WIRE_StreamMark, 3);
  return thread;
}

// Says that the last mark is passed, and the following ones; all is put there then.
static void let_it_end(struct server *server, pthread_t thread) {
  held = 0;
  pass(server, held_stream, held_places[held_marks - 1]);
  pthread_join(thread, NULL);
  assert_int_equal(records, more_than_fits);
  assert_int_equal(last_result, CUDA_SUCCESS);
}

static void no_stream_gets_more_than_it_has_room_for(void **state) {
  (void)state;
  begin_with_room(18);
  unsigned count = 1000;
  fill(&count);
  assert_int_equal(last_result, CUDA_SUCCESS);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  assert_in_range(most_there, 1, 18);
  assert_in_range(marks, 1000 / 18, 1000);
}

static void who_fills_a_stream_waits_and_others_do_not(void **state) {
  (void)state;
  struct server *server = begin_with_room(18);
  const pthread_t thread = begin_to_fill(server);
  // What is asked for by others is carried out meanwhile.
  CUstream other;
  assert_int_equal(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(cuEventRecord(recorded, other), CUDA_SUCCESS);
    assert_int_equal(cuStreamSynchronize(other), CUDA_SUCCESS);
  }
  assert_in_range(records, 1, 18);
  let_it_end(server, thread);
}

static void who_waits_for_room_hears_that_the_connection_is_lost(void **state) {
  (void)state;
  struct server *server = begin_with_room(18);
  const pthread_t thread = begin_to_fill(server);
  server_close(server);
  pthread_join(thread, NULL);
  assert_int_equal(last_result, CUDA_ERROR_DEVICE_UNAVAILABLE);
}

// More than was put there cannot have been passed.
static void marks_that_make_no_sense_give_no_room(void **state) {
  (void)state;
  struct server *server = begin_with_room(18);
  pass(server, (uint64_t)(uintptr_t)filled, UINT64_MAX);
  pass(server, 0x2000009000009, 3);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  const pthread_t thread = begin_to_fill(server);
  assert_in_range(records, 1, 18);
  let_it_end(server, thread);
}

// Threads in calls that have found room and have put nothing there yet.
#define BETWEEN 2
static pthread_barrier_t found, go_on;
static void *find_room(void *unused) {
  (void)unused;
  session_enter();
  const CUresult result = stream_await_room(sessions, (uint64_t)(uintptr_t)filled);
  pthread_barrier_wait(&found);
  pthread_barrier_wait(&go_on);
  return (void *)(uintptr_t)stream_leave_room(result);
}

static void room_that_one_thread_has_found_no_other_has(void **state) {
  (void)state;
  begin_with_room(16);
  const uint64_t wire = (uint64_t)(uintptr_t)filled;
  pthread_t threads[BETWEEN];
  pthread_barrier_init(&found, NULL, BETWEEN + 1);
  pthread_barrier_init(&go_on, NULL, BETWEEN + 1);
  for (int i = 0; i < BETWEEN; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, find_room, NULL), 0);
  pthread_barrier_wait(&found);
  assert_false(room_for_query(sessions, wire));
  pthread_barrier_wait(&go_on);
  for (int i = 0; i < BETWEEN; i++) {
    void *result;
    pthread_join(threads[i], &result);
    assert_null(result);
  }
  // They have given it back, as they put nothing there.
  assert_true(room_for_query(sessions, wire));
  stream_leave_room(CUDA_SUCCESS);
}

static void calls_that_fail_keep_no_room(void **state) {
  (void)state;
  begin_with_room(18);
  char byte;
  for (int i = 0; i < 3; i++) {
    assert_int_equal(cuMemcpyHtoDAsync_v2(1, &byte, 1, filled), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(stream_room_taken, 0);
    assert_int_equal(cuMemsetD8Async(1, 0, 1, filled), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(stream_room_taken, 0);
    assert_int_equal(cuLaunchHostFunc(filled, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(stream_room_taken, 0);
    assert_int_not_equal(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, filled, NULL, NULL),
                         CUDA_SUCCESS);
    assert_int_equal(stream_room_taken, 0);
  }
}

static void however_many_threads_fill_it(void **state) {
  (void)state;
  begin_with_room(18);
  pthread_t threads[32];
  unsigned count = 100;
  for (int i = 0; i < 32; i++) assert_int_equal(pthread_create(&threads[i], NULL, fill, &count), 0);
  for (int i = 0; i < 32; i++) pthread_join(threads[i], NULL);
  assert_int_equal(last_result, CUDA_SUCCESS);
  assert_int_equal(records, 3200);
  assert_in_range(most_there, 1, 18);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_are_checked_and_sent),
      cmocka_unit_test(attributes_are_kept_and_copied),
      cmocka_unit_test(no_stream_gets_more_than_it_has_room_for),
      cmocka_unit_test(who_fills_a_stream_waits_and_others_do_not),
      cmocka_unit_test(who_waits_for_room_hears_that_the_connection_is_lost),
      cmocka_unit_test(marks_that_make_no_sense_give_no_room),
      cmocka_unit_test(room_that_one_thread_has_found_no_other_has),
      cmocka_unit_test(calls_that_fail_keep_no_room),
      cmocka_unit_test(however_many_threads_fill_it),
  };
  RUN_ONE_TEST(tests, argc, argv);
}
