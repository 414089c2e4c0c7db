// The way out and back: order, full buffers, large payloads, what leaves when, threads, and how it
// all ends.
#include "wire/batch.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/stats.h"
#include "check.h"
#include "log_capture.h"
#include "session.h"
#include "wire/enter.h"

#define MIB (1ull << 20)

static const struct server_hook no_hook;

static CUdeviceptr allocate(uint64_t size) {
  CUdeviceptr address;
  CHECK(cuMemAlloc_v2(&address, size) == CUDA_SUCCESS);
  return address;
}

static void fill(uint8_t *bytes, uint64_t size, uint32_t seed) {
  for (uint64_t i = 0; i < size; i++) bytes[i] = (uint8_t)((seed * 2654435761u + i * 40503u) >> 11);
}

static _Bool filled(const uint8_t *bytes, uint64_t size, uint32_t seed) {
  for (uint64_t i = 0; i < size; i++)
    if (bytes[i] != (uint8_t)((seed * 2654435761u + i * 40503u) >> 11)) return 0;
  return 1;
}

static uint64_t batches(void) { return atomic_load(&guest_stats->batches); }

// ---- order -------------------------------------------------------------------------------------

static uint64_t next_value;
static _Bool check_order(struct server *server, const struct wire_header *h, void *context) {
  (void)server, (void)context;
  if (h->op == WIRE_cuMemsetD32Async)
    CHECK(((const struct wire_cuMemsetD32Async *)h)->ui == next_value++);
  return 0;
}

static _Bool check_padding(struct server *server, const struct wire_header *h, void *context) {
  (void)server, (void)context;
  if (h->op == WIRE_cuEventCreate) CHECK(((const struct wire_cuEventCreate *)h)->pad0 == 0);
  return 0;
}

// Nothing of the program's memory is sent but what it copies, also where it was freed before.
static void padding_is_nothing_of_the_programs(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {  // only from the second time on is large memory the heap's
    char *secret = malloc(2 * MIB);
    CHECK(secret);
    memset(secret, 0x5a, 2 * MIB);
    __asm__ volatile("" : : "r"(secret) : "memory");
    free(secret);
  }
  struct server *server = session_start(64 * MIB, (struct server_hook){check_padding, NULL});
  for (int i = 0; i < 200; i++) {
    CUevent event;
    assert_int_equal(cuEventCreate(&event, 0), CUDA_SUCCESS);
  }
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  assert_int_equal(server_count(server, WIRE_cuEventCreate), 200);
}

// More than two buffers and the sockets hold, so that the caller has to wait for room.
static void full_buffers_keep_the_order(void **state) {
  (void)state;
  struct server *server = session_start(64 * MIB, (struct server_hook){check_order, NULL});
  CUdeviceptr memory = allocate(4);
  const unsigned count = 40000;
  server_pause(server);
  for (unsigned i = 0; i < count; i++) {
    if (i == 2000) server_resume(server);
    assert_int_equal(cuMemsetD32_v2(memory, i, 1), CUDA_SUCCESS);
  }
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  assert_int_equal(server_count(server, WIRE_cuMemsetD32Async), count);
  assert_true(batches() < count / 4);
}

static void payloads_of_all_sizes(void **state) {
  (void)state;
  struct server *server = session_start(64 * MIB, no_hook);
  static const uint64_t sizes[] = {1,     7,     8,       9,   4096,    16383,      16384,
                                   16385, 65537, MIB - 1, MIB, MIB + 1, 5 * MIB + 3};
  CUdeviceptr memory = allocate(8 * MIB);
  uint8_t *bytes = malloc(8 * MIB), *back = malloc(8 * MIB);
  for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    fill(bytes, sizes[i], i);
    uint64_t at = memory + i;  // no alignment is owed
    assert_int_equal(cuMemcpyHtoD_v2(at, bytes, sizes[i]), CUDA_SUCCESS);
    memset(bytes, 0, sizes[i]);  // the source is the program's again
    memset(back, 0, sizes[i] + 1);
    assert_int_equal(cuMemcpyDtoH_v2(back, at, sizes[i]), CUDA_SUCCESS);
    assert_true(filled(back, sizes[i], i));
    assert_int_equal(back[sizes[i]], 0);
  }
  // 1 MiB at most in one frame.
  assert_int_equal(server_count(server, WIRE_Upload), sizeof sizes / sizeof *sizes + 1 + 5);
  free(bytes);
  free(back);
}

static uint16_t seen[16];
static int seen_count;
static _Bool note(struct server *server, const struct wire_header *h, void *context) {
  (void)server, (void)context;
  if (seen_count < 16) seen[seen_count++] = h->op;
  return 0;
}

// A large payload goes around the batch, but not past what was in it.
static void large_payloads_keep_the_order(void **state) {
  (void)state;
  session_start(64 * MIB, (struct server_hook){note, NULL});
  static uint8_t bytes[100000];
  CUdeviceptr memory = allocate(sizeof bytes);
  cuMemsetD8_v2(memory, 1, 10);
  assert_int_equal(cuMemcpyHtoD_v2(memory, bytes, sizeof bytes), CUDA_SUCCESS);
  cuMemsetD16_v2(memory, 1, 10);
  assert_int_equal(cuMemcpyHtoD_v2(memory, bytes, 10), CUDA_SUCCESS);
  cuMemsetD32_v2(memory, 1, 10);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  static const uint16_t expected[] = {
      WIRE_MemoryMap, WIRE_cuMemsetD8Async,  WIRE_Upload,           WIRE_cuMemsetD16Async,
      WIRE_Upload,    WIRE_cuMemsetD32Async, WIRE_cuCtxSynchronize,
  };
  assert_int_equal(seen_count, 7);
  assert_memory_equal(seen, expected, sizeof expected);
}

// ---- what leaves when --------------------------------------------------------------------------

static void nobody_needs_to_wait_for_it_to_leave(void **state) {
  (void)state;
  struct server *server = session_start(64 * MIB, no_hook);
  CUdeviceptr memory = allocate(4);
  server_wait(server, WIRE_MemoryMap, 1);
  for (unsigned i = 1; i <= 200; i++) {
    cuMemsetD32_v2(memory, i, 1);
    server_wait(server, WIRE_cuMemsetD32Async, i);
  }
}

static void what_nobody_waits_for_stays_while_the_server_works(void **state) {
  (void)state;
  struct server *server = session_start(64 * MIB, no_hook);
  server_send_idle(server, 0);
  CUdeviceptr memory = allocate(4);
  server_wait(server, WIRE_MemoryMap, 1);
  assert_int_equal(batches(), 1);
  for (unsigned i = 0; i < 100; i++) cuMemsetD32_v2(memory, i, 1);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  assert_int_equal(server_count(server, WIRE_cuMemsetD32Async), 100);
  assert_int_equal(batches(), 2);
  // An answer says as well that everything was taken up.
  cuMemsetD32_v2(memory, 0, 1);
  server_wait(server, WIRE_cuMemsetD32Async, 101);
  assert_int_equal(batches(), 3);
  for (unsigned i = 0; i < 50; i++) cuMemsetD32_v2(memory, i, 1);
  assert_int_equal(batches(), 3);
  server_send(server, &(struct wire_header){WIRE_IDLE, 0, 8}, 8);
  server_wait(server, WIRE_cuMemsetD32Async, 151);
  assert_int_equal(batches(), 4);
}

static pthread_barrier_t barrier;
#define POLLED_ROUNDS 3000

static void *poll_a_little(void *unused) {
  (void)unused;
  for (int round = 0; round < POLLED_ROUNDS; round++) {
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 4; i++) answer_poll(session_here());
  }
  return NULL;
}

// The thread that sends on idle relies on whoever reads, and that one may stop before the server
// says that it is idle.
static void it_leaves_whoever_reads(void **state) {
  (void)state;
  struct server *server = session_start(64 * MIB, no_hook);
  CUdeviceptr memory = allocate(4);
  server_wait(server, WIRE_MemoryMap, 1);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  server_send_idle(server, 0);
  pthread_barrier_init(&barrier, NULL, 2);
  pthread_t thread;
  pthread_create(&thread, NULL, poll_a_little, NULL);
  const struct wire_done done = {{WIRE_DONE, 0, sizeof done}, 1, 1};
  const struct wire_header idle = {WIRE_IDLE, 0, sizeof idle};
  for (uint64_t round = 0; round < POLLED_ROUNDS; round++) {
    cuMemsetD32_v2(memory, 1, 1);  // leaves at once
    server_wait(server, WIRE_cuMemsetD32Async, 2 * round + 1);
    cuMemsetD32_v2(memory, 1, 1);  // stays until the server is idle
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 3; i++) server_send(server, &done, sizeof done);
    server_send(server, &idle, sizeof idle);
    server_wait(server, WIRE_cuMemsetD32Async, 2 * round + 2);
    server_send(server, &idle, sizeof idle);
  }
  pthread_join(thread, NULL);
}

// ---- both ends full ----------------------------------------------------------------------------

// The server sends a download while we send an upload: neither may wait for the other.
static void both_sockets_full(void **state) {
  (void)state;
  session_start(64 * MIB, no_hook);
  CUdeviceptr memory = allocate(16 * MIB), other = allocate(16 * MIB);
  uint8_t *pinned, *bytes = malloc(16 * MIB);
  assert_int_equal(cuMemHostAlloc((void **)&pinned, 16 * MIB, 0), CUDA_SUCCESS);
  fill(bytes, 16 * MIB, 1);
  assert_int_equal(cuMemcpyHtoD_v2(memory, bytes, 16 * MIB), CUDA_SUCCESS);
  for (uint32_t round = 0; round < 3; round++) {
    assert_int_equal(cuMemcpyDtoHAsync_v2(pinned, memory, 16 * MIB, NULL), CUDA_SUCCESS);
    fill(bytes, 16 * MIB, round + 2);
    assert_int_equal(cuMemcpyHtoD_v2(other, bytes, 16 * MIB), CUDA_SUCCESS);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    assert_true(filled(pinned, 16 * MIB, round + 1));
    CUdeviceptr swap = memory;
    memory = other;
    other = swap;
  }
  free(bytes);
}

static uint64_t late_download, late_length;
static _Bool answer_late(struct server *server, const struct wire_header *h, void *context) {
  (void)context;
  if (h->op == WIRE_Download) {
    const struct wire_Download *q = (const void *)h;
    late_download = q->request.request;
    late_length = q->length;
    return 1;
  }
  if (h->op != WIRE_cuStreamSynchronize) return 0;
  // Answers the reading thread, which then stops reading, and takes nothing until the data is out.
  server_reply(server, ((const struct wire_request *)h)->request, 0, 0);
  server_data(server, late_download, 0, server_memory(server), late_length);
  server_reply(server, late_download, 0, 0);
  return 1;
}

#define ROUNDS 60

static void *wait_for_stream(void *stream) {
  session_enter();
  for (int round = 0; round < ROUNDS; round++) {
    pthread_barrier_wait(&barrier);
    CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    pthread_barrier_wait(&barrier);
  }
  return NULL;
}

static void a_sender_reads_when_the_reader_has_left(void **state) {
  (void)state;
  session_start(64 * MIB, (struct server_hook){answer_late, NULL});
  CUstream stream;
  assert_int_equal(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  CUdeviceptr memory = allocate(4 * MIB);
  uint8_t *pinned;
  static uint8_t bytes[4 * MIB];
  assert_int_equal(cuMemHostAlloc((void **)&pinned, MIB, 0), CUDA_SUCCESS);
  pthread_barrier_init(&barrier, NULL, 2);
  pthread_t thread;
  pthread_create(&thread, NULL, wait_for_stream, stream);
  for (int round = 0; round < ROUNDS; round++) {
    assert_int_equal(cuMemcpyDtoHAsync_v2(pinned, memory, MIB, stream), CUDA_SUCCESS);
    pthread_barrier_wait(&barrier);
    assert_int_equal(cuMemcpyHtoD_v2(memory, bytes, sizeof bytes), CUDA_SUCCESS);
    pthread_barrier_wait(&barrier);
  }
  pthread_join(thread, NULL);
}

// ---- memory that cannot be read ----------------------------------------------------------------

static void an_unreadable_source(void **state) {
  (void)state;
  struct server *server = session_start(64 * MIB, no_hook);
  const uint64_t size = 3 * MIB;
  CUdeviceptr memory = allocate(size);
  uint8_t *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(bytes, 5, size);
  log_capture("error");
  // Also where it is in the bytes that the frame's header goes out with.
  const uint64_t places[] = {MIB / 2, 4096, 0};
  for (unsigned i = 0; i < sizeof places / sizeof *places; i++) {
    mprotect(bytes + places[i], 4096, PROT_NONE);
    assert_int_equal(cuMemcpyHtoD_v2(memory, bytes, size), CUDA_ERROR_INVALID_VALUE);
    assert_non_null(strstr(log_captured(), "not readable memory"));
    mprotect(bytes + places[i], 4096, PROT_READ | PROT_WRITE);
  }
  // The stream of frames is whole, and the session goes on.
  assert_int_equal(cuMemcpyHtoD_v2(memory, bytes, size), CUDA_SUCCESS);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  assert_memory_equal(server_memory(server) + (memory - WIRE_WINDOW_BASE), bytes, size);
}

// Parts begin where the memory ends, or beside that: what comes has nowhere to go, in the bytes
// that came with a part's frame or behind them. The copy fails, and the session goes on.
static void an_unwritable_destination(void **state) {
  (void)state;
  session_start(64 * MIB, no_hook);
  const uint64_t most = 4 * MIB;
  CUdeviceptr memory = allocate(most);
  uint8_t *source = malloc(most);
  for (uint64_t i = 0; i < most; i++) source[i] = (uint8_t)(i * 7 + i / 4096);
  assert_int_equal(cuMemcpyHtoD_v2(memory, source, most), CUDA_SUCCESS);
  uint8_t *bytes = mmap(NULL, 2 * most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  uint8_t *end = bytes + most;
  log_capture("error");
  for (int protection = PROT_NONE; protection <= PROT_READ; protection++)
    for (uint64_t size = MIB; size <= most; size += MIB)
      for (uint64_t border = 0; border < size; border += MIB / 2)
        for (int beside = -1; beside <= 1; beside++) {
          if (border == 0 && beside > 0) continue;
          // So many bytes have a place.
          uint64_t there = border + (uint64_t)beside;
          uint8_t *to = end - (int64_t)there;
          mprotect(end, most, PROT_READ | PROT_WRITE);
          memset(bytes, 0, most);
          mprotect(end, most, protection);
          if (beside < 0 && border == 0) {
            to = end;  // none at all
            there = 0;
          }
          assert_int_equal(cuMemcpyDtoH_v2(to, memory, size), CUDA_ERROR_INVALID_VALUE);
          assert_non_null(strstr(log_captured(), "is not writable memory"));
          assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
        }
  mprotect(end, most, PROT_READ | PROT_WRITE);
  assert_int_equal(cuMemcpyDtoH_v2(bytes, memory, most), CUDA_SUCCESS);
  assert_memory_equal(bytes, source, most);
  assert_string_equal(log_captured(), "");
  munmap(bytes, 2 * most);
  free(source);
}

// ---- threads -----------------------------------------------------------------------------------

static void *work(void *argument) {
  uint32_t me = (uint32_t)(uintptr_t)argument;
  const uint64_t size = 300000;
  session_enter();
  CUstream stream;
  CHECK(cuStreamCreate(&stream, 0) == CUDA_SUCCESS);
  CUdeviceptr memory = allocate(2 * size);
  uint8_t *bytes = malloc(size), *pinned;
  CHECK(cuMemHostAlloc((void **)&pinned, size, 0) == CUDA_SUCCESS);
  for (uint32_t round = 0; round < 40; round++) {
    uint64_t part = 1 + (me * 7919 + round * 104729) % size;
    uint32_t seed = me * 1000 + round;
    fill(bytes, part, seed);
    CHECK(cuMemcpyHtoDAsync_v2(memory, bytes, part, stream) == CUDA_SUCCESS);
    CHECK(cuMemcpyDtoDAsync_v2(memory + size, memory, part, stream) == CUDA_SUCCESS);
    memset(bytes, 0, part);
    memset(pinned, 0, part);
    if (round % 2) {
      CHECK(cuMemcpyDtoHAsync_v2(pinned, memory + size, part, stream) == CUDA_SUCCESS);
      CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS);
      CHECK(filled(pinned, part, seed));
    } else {
      CHECK(cuMemcpyDtoH_v2(bytes, memory + size, part) == CUDA_SUCCESS);
      CHECK(filled(bytes, part, seed));
    }
    for (int i = 0; i < 20; i++) CHECK(cuMemsetD8Async(memory, 1, 16, stream) == CUDA_SUCCESS);
    CUevent event;
    CHECK(cuEventCreate(&event, 0) == CUDA_SUCCESS);
    CHECK(cuEventRecord(event, stream) == CUDA_SUCCESS);
    CHECK(cuEventSynchronize(event) == CUDA_SUCCESS);
    CHECK(cuEventDestroy_v2(event) == CUDA_SUCCESS);
  }
  free(bytes);
  return NULL;
}

// Handles in use on the server: creation must find its index free, as the executor insists.
static struct { uint64_t handle; } taken[2][4096];
static _Bool check_handles(struct server *server, const struct wire_header *h, void *context) {
  (void)server, (void)context;
  const struct wire_cuEventCreate *q = (const void *)h;
  uint64_t *slot =
      &taken[h->op == WIRE_cuStreamDestroy_v2 || h->op == WIRE_cuStreamCreateWithPriority]
            [wire_handle_index(q->phEvent) % 4096]
                .handle;
  if (h->op == WIRE_cuEventCreate || h->op == WIRE_cuStreamCreateWithPriority) {
    CHECK(*slot == 0);
    *slot = q->phEvent;
  } else if (h->op == WIRE_cuEventDestroy_v2 || h->op == WIRE_cuStreamDestroy_v2) {
    CHECK(*slot == q->phEvent);
    *slot = 0;
  }
  return 0;
}

static void threads_do_not_disturb_each_other(void **state) {
  (void)state;
  session_start(64 * MIB, (struct server_hook){check_handles, NULL});
  pthread_t threads[4];
  for (uintptr_t i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, (void *)(i + 1));
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
}

static void *create_and_destroy(void *unused) {
  (void)unused;
  session_enter();
  for (int i = 0; i < 2000; i++) {
    CUevent event;
    CUstream stream;
    CHECK(cuEventCreate(&event, 0) == CUDA_SUCCESS);
    CHECK(cuStreamCreate(&stream, 0) == CUDA_SUCCESS);
    CHECK(cuEventDestroy_v2(event) == CUDA_SUCCESS);
    CHECK(cuStreamDestroy_v2(stream) == CUDA_SUCCESS);
  }
  return NULL;
}

static void handles_are_free_on_the_server_too(void **state) {
  (void)state;
  session_start(64 * MIB, (struct server_hook){check_handles, NULL});
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, create_and_destroy, NULL);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
}

// ---- errors ------------------------------------------------------------------------------------

static int32_t reply_result, reply_async;
static _Bool answer_with_error(struct server *server, const struct wire_header *h, void *context) {
  (void)context;
  if (h->op != WIRE_cuCtxSynchronize && h->op != WIRE_Download) return 0;
  server_reply(server, ((const struct wire_request *)h)->request, reply_result, reply_async);
  reply_async = 0;
  return 1;
}

static void an_error_of_posted_work_surfaces_once(void **state) {
  (void)state;
  session_start(64 * MIB, (struct server_hook){answer_with_error, NULL});
  CUdeviceptr memory = allocate(64);
  reply_async = CUDA_ERROR_INVALID_VALUE;
  cuMemsetD8_v2(memory, 1, 1);
  assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  cuMemsetD8_v2(memory, 1, 1);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
}

static void an_error_a_gpu_does_not_survive_stays(void **state) {
  (void)state;
  session_start(64 * MIB, (struct server_hook){answer_with_error, NULL});
  CUdeviceptr memory = allocate(64);
  reply_result = CUDA_ERROR_ILLEGAL_ADDRESS;
  assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  reply_result = 0;
  assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  assert_int_equal(cuMemsetD8_v2(memory, 1, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
  assert_int_equal(cuMemFree_v2(memory), CUDA_ERROR_ILLEGAL_ADDRESS);
  int count;
  assert_int_equal(cuDeviceGetCount(&count), CUDA_SUCCESS);
  // Only a reset heals it.
  assert_int_equal(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
  session_enter();
  memory = allocate(64);
  assert_int_equal(cuMemsetD8_v2(memory, 1, 1), CUDA_SUCCESS);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
}

static void a_deferred_download_that_fails(void **state) {
  (void)state;
  session_start(64 * MIB, (struct server_hook){answer_with_error, NULL});
  CUdeviceptr memory = allocate(64);
  void *pinned;
  assert_int_equal(cuMemHostAlloc(&pinned, 64, 0), CUDA_SUCCESS);
  reply_result = CUDA_ERROR_NOT_PERMITTED;
  assert_int_equal(cuMemcpyDtoHAsync_v2(pinned, memory, 64, NULL), CUDA_SUCCESS);
  assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_NOT_PERMITTED);
}

static void *synchronize(void *result) {
  session_enter();
  *(CUresult *)result = cuCtxSynchronize();
  return NULL;
}

static _Bool keep_silent(struct server *server, const struct wire_header *h, void *context) {
  (void)server, (void)context;
  return h->op == WIRE_cuCtxSynchronize;
}

// Everybody who waits gets the end, and so does every call from then on.
static void check_the_end(struct server *server, CUresult expected, const char *says,
                          void (*finish)(struct server *)) {
  CUresult results[3];
  pthread_t threads[3];
  CUdeviceptr memory = allocate(64), other;
  log_capture("error");
  for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, synchronize, &results[i]);
  server_wait(server, WIRE_cuCtxSynchronize, 3);
  finish(server);
  for (int i = 0; i < 3; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(results[i], expected);
  }
  const char *log = log_captured();
  if (!strstr(log, says)) fail_msg("the log does not say \"%s\": %s", says, log);
  assert_null(strstr(strchr(log, '\n') + 1, "error:"));  // once
  uint8_t byte;
  static uint8_t bytes[100000];
  assert_int_equal(cuMemcpyDtoH_v2(&byte, memory, 1), expected);
  assert_int_equal(cuMemcpyHtoD_v2(memory, &byte, 1), expected);
  assert_int_equal(cuMemcpyHtoD_v2(memory, bytes, 64), expected);
  assert_int_equal(cuMemAlloc_v2(&other, 1), expected);
  assert_int_equal(cuCtxSynchronize(), expected);
}

static void close_it(struct server *server) { server_close(server); }

static void the_server_dies(void **state) {
  (void)state;
  struct server *server = session_start(64 * MIB, (struct server_hook){keep_silent, NULL});
  check_the_end(server, CUDA_ERROR_DEVICE_UNAVAILABLE, "connection to the server is lost",
                close_it);
}

static void end_it(struct server *server) {
  struct {
    struct wire_end end;
    char sentence[24];
  } frame = {{{WIRE_END, 0, sizeof frame}, CUDA_ERROR_LAUNCH_TIMEOUT, 20}, "time is up, he said."};
  server_send(server, &frame, sizeof frame);
  server_close(server);
}

static void the_server_ends_the_session(void **state) {
  (void)state;
  struct server *server = session_start(64 * MIB, (struct server_hook){keep_silent, NULL});
  check_the_end(server, CUDA_ERROR_LAUNCH_TIMEOUT,
                "the server ended the session: time is up, he said.", end_it);
}

static void send_nonsense(struct server *server) { server_send(server, "HTTP/1.1 400 Bad", 16); }

static void the_server_speaks_nonsense(void **state) {
  (void)state;
  struct server *server = session_start(64 * MIB, (struct server_hook){keep_silent, NULL});
  check_the_end(server, CUDA_ERROR_DEVICE_UNAVAILABLE, "impossible size or unknown flags",
                send_nonsense);
}

static _Bool answer_too_little(struct server *server, const struct wire_header *h, void *context) {
  (void)context;
  if (h->op != WIRE_cuEventElapsedTime_v2) return 0;
  struct wire_reply reply = {
      {WIRE_REPLY, 0, sizeof reply}, ((const struct wire_request *)h)->request, 0, 0};
  server_send(server, &reply, sizeof reply);
  return 1;
}

static void a_success_without_its_results(void **state) {
  (void)state;
  session_start(64 * MIB, (struct server_hook){answer_too_little, NULL});
  CUevent event;
  float time;
  assert_int_equal(cuEventCreate(&event, 0), CUDA_SUCCESS);
  assert_int_equal(cuEventRecord(event, NULL), CUDA_SUCCESS);
  log_capture("error");
  assert_int_equal(cuEventElapsedTime_v2(&time, event, event), CUDA_ERROR_DEVICE_UNAVAILABLE);
  assert_non_null(strstr(log_captured(), "a reply that is too short"));
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(padding_is_nothing_of_the_programs),
      cmocka_unit_test(full_buffers_keep_the_order),
      cmocka_unit_test(payloads_of_all_sizes),
      cmocka_unit_test(large_payloads_keep_the_order),
      cmocka_unit_test(nobody_needs_to_wait_for_it_to_leave),
      cmocka_unit_test(what_nobody_waits_for_stays_while_the_server_works),
      cmocka_unit_test(it_leaves_whoever_reads),
      cmocka_unit_test(both_sockets_full),
      cmocka_unit_test(a_sender_reads_when_the_reader_has_left),
      cmocka_unit_test(an_unreadable_source),
      cmocka_unit_test(an_unwritable_destination),
      cmocka_unit_test(threads_do_not_disturb_each_other),
      cmocka_unit_test(handles_are_free_on_the_server_too),
      cmocka_unit_test(an_error_of_posted_work_surfaces_once),
      cmocka_unit_test(an_error_a_gpu_does_not_survive_stays),
      cmocka_unit_test(a_deferred_download_that_fails),
      cmocka_unit_test(the_server_dies),
      cmocka_unit_test(the_server_ends_the_session),
      cmocka_unit_test(the_server_speaks_nonsense),
      cmocka_unit_test(a_success_without_its_results),
  };
  RUN_ONE_TEST(tests, argc, argv);
}
