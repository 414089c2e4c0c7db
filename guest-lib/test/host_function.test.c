// Functions that streams call: in order, on one thread, whoever reads the socket.
#include "streams/host_function.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/stats.h"
#include "check.h"
#include "driver/hooks.h"
#include "guest_calls.h"
#include "session.h"
#include "setup/config.h"
#include "streams/stream.h"
#include "wire/batch.h"
#include "wire/connection.h"
#include "wire/enter.h"
#include "wire/sender.h"

#define MIB (1ull << 20)
#define MOST 1024

// The server's streams: each function posted is called at once, the next when the last returned.
static struct {
  uint64_t functions[MOST];
  uint32_t kinds[MOST];
  unsigned count, next;
  uint64_t waiting[8];  // requests of synchronisations, answered when nothing is left
  unsigned waits;
  _Bool running, held;
  int32_t status;
} script;

static void push_call(struct server *server, uint64_t function, uint64_t number, int32_t status) {
  struct wire_call call = {{WIRE_CALL, 0, sizeof call}, function, number, status, 0};
  server_send(server, &call, sizeof call);
}

static void go_on(struct server *server) {
  if (script.running || script.held) return;
  if (script.next < script.count) {
    script.running = 1;
    push_call(server, script.functions[script.next], 100 + script.next, script.status);
    script.next++;
    return;
  }
  for (unsigned i = 0; i < script.waits; i++) server_reply(server, script.waiting[i], 0, 0);
  script.waits = 0;
}

static _Bool streams(struct server *server, const struct wire_header *h, void *context) {
  (void)context;
  switch (h->op) {
    case WIRE_HostFunction: {
      const struct wire_HostFunction *q = (const void *)h;
      CHECK(script.count < MOST);
      script.functions[script.count] = q->function;
      script.kinds[script.count++] = q->kind;
      go_on(server);
      return 0;
    }
    case WIRE_HostFunctionDone:
      CHECK(((const struct wire_HostFunctionDone *)h)->call == 99 + script.next);
      script.running = 0;
      go_on(server);
      return 0;
    case WIRE_cuStreamSynchronize:
    case WIRE_cuCtxSynchronize:
      script.waiting[script.waits++] = ((const struct wire_request *)h)->request;
      go_on(server);
      return 1;
    default:
      return 0;
  }
}
static const struct server_hook hook = {streams, NULL};

static _Atomic unsigned called;
static unsigned order[MOST];
static pthread_t caller;
static void note(void *number) {
  unsigned n = atomic_load(&called);
  order[n] = (unsigned)(uintptr_t)number;
  if (n) CHECK(pthread_equal(caller, pthread_self()));
  caller = pthread_self();
  atomic_store(&called, n + 1);
}
static void *number(unsigned n) { return (void *)(uintptr_t)n; }
// Without a call of CUDA.
static void until_called(unsigned times) {
  while (atomic_load(&called) < times) usleep(100);
}

static void nobody_needs_to_wait_for_them(void **state) {
  (void)state;
  session_start(64 * MIB, hook);
  for (unsigned i = 0; i < 100; i++) {
    assert_int_equal(cuLaunchHostFunc(NULL, note, number(i)), CUDA_SUCCESS);
    if (i % 10 == 0) until_called(i + 1);
  }
  until_called(100);
  for (unsigned i = 0; i < 100; i++) assert_int_equal(order[i], i);
  assert_false(pthread_equal(caller, pthread_self()));
  assert_int_equal(atomic_load(&guest_stats->round_trips), 0);
}

static void whoever_waits_reads_for_them(void **state) {
  (void)state;
  session_start(64 * MIB, hook);
  for (unsigned i = 0; i < 100; i++) {
    for (unsigned k = 0; k < 5; k++)
      assert_int_equal(cuLaunchHostFunc(NULL, note, number(5 * i + k)), CUDA_SUCCESS);
    assert_int_equal(cuStreamSynchronize(NULL), CUDA_SUCCESS);
    assert_int_equal(atomic_load(&called), 5 * i + 5);
  }
  assert_int_equal(atomic_load(&guest_stats->round_trips), 100);
}

static void *wait_often(void *stream) {
  session_enter();
  for (int i = 0; i < 200; i++) {
    CHECK(cuLaunchHostFunc(stream, note, NULL) == CUDA_SUCCESS);
    if (i % 3) CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  }
  return NULL;
}

static void several_threads_wait(void **state) {
  (void)state;
  session_start(64 * MIB, hook);
  pthread_t threads[4];
  CUstream streams_of[4];
  for (int i = 0; i < 4; i++) {
    assert_int_equal(cuStreamCreate(&streams_of[i], CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    pthread_create(&threads[i], NULL, wait_often, streams_of[i]);
  }
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  until_called(800);
}

static CUresult inside[3];
static void calls_cuda(void *stream) {
  inside[0] = cuStreamQuery(stream);
  inside[1] = cuDeviceGetCount(&(int){0});
  inside[2] = cuLaunchHostFunc(stream, note, NULL);
}

static void functions_may_not_use_cuda(void **state) {
  (void)state;
  session_start(64 * MIB, hook);
  assert_int_equal(cuLaunchHostFunc(NULL, calls_cuda, NULL), CUDA_SUCCESS);
  assert_int_equal(cuStreamSynchronize(NULL), CUDA_SUCCESS);
  for (int i = 0; i < 3; i++) assert_int_equal(inside[i], CUDA_ERROR_NOT_PERMITTED);
  assert_int_equal(cuStreamQuery(NULL), CUDA_SUCCESS);
}

static CUstream told_stream;
static CUresult told_status;
static void told(CUstream stream, CUresult status, void *data) {
  told_stream = stream;
  told_status = status;
  note(data);
}

static void callbacks_are_told_of_stream_and_status(void **state) {
  (void)state;
  session_start(64 * MIB, hook);
  CUstream stream;
  assert_int_equal(cuStreamCreate(&stream, 0), CUDA_SUCCESS);
  assert_int_equal(cuStreamAddCallback(stream, told, NULL, 1), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuStreamAddCallback(stream, NULL, NULL, 0), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuLaunchHostFunc(stream, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuLaunchHostFunc((CUstream)0x1230, note, NULL), CUDA_ERROR_INVALID_HANDLE);
  script.status = CUDA_ERROR_ASSERT;
  assert_int_equal(cuStreamAddCallback(stream, told, number(3), 0), CUDA_SUCCESS);
  assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
  assert_ptr_equal(told_stream, stream);
  assert_int_equal(told_status, CUDA_ERROR_ASSERT);
  assert_int_equal(script.kinds[0], WIRE_FUNCTION_CALLBACK);
  assert_int_equal(order[0], 3);
  assert_int_equal(cuStreamAddCallback(CU_STREAM_PER_THREAD, told, NULL, 0), CUDA_SUCCESS);
  until_called(2);
  assert_ptr_equal(told_stream, CU_STREAM_PER_THREAD);
}

static _Atomic _Bool go;
static void wait_for_go(void *data) {
  while (!atomic_load(&go)) usleep(100);
  note(data);
}

static void a_long_function_keeps_nobody_waiting(void **state) {
  (void)state;
  struct server *server = session_start(64 * MIB, hook);
  CUdeviceptr memory;
  assert_int_equal(cuMemAlloc_v2(&memory, 4 * MIB), CUDA_SUCCESS);
  CUstream stream;
  assert_int_equal(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  assert_int_equal(cuLaunchHostFunc(stream, wait_for_go, NULL), CUDA_SUCCESS);
  server_wait(server, WIRE_HostFunction, 1);
  static char bytes[4 << 20];
  for (int i = 0; i < 10; i++) {
    memset(bytes, i, sizeof bytes);
    assert_int_equal(cuMemcpyHtoD_v2(memory, bytes, sizeof bytes), CUDA_SUCCESS);
    memset(bytes, 99, sizeof bytes);
    assert_int_equal(cuMemcpyDtoH_v2(bytes, memory, sizeof bytes), CUDA_SUCCESS);
    assert_int_equal(bytes[sizeof bytes - 1], i);
  }
  assert_int_equal(atomic_load(&called), 0);
  go = 1;
  assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
  assert_int_equal(atomic_load(&called), 1);
}

static void kept_functions_are_called_again(void **state) {
  (void)state;
  struct server *server = session_start(64 * MIB, hook);
  uint64_t one = host_function_keep(note, number(1)), two = host_function_keep(note, number(2));
  assert_true(one && two && one != two);
  assert_int_equal(host_function_keep(note, number(1)), one);
  script.held = 1;
  for (unsigned i = 0; i < 6; i++) {
    put_HostFunction(session_here(), 0, i % 2 ? two : one, WIRE_FUNCTION_KEPT);
    host_function_expect(session_here(), stream_last_sequence(session_here(), 0));
  }
  batch_send(session_here());
  server_wait(server, WIRE_HostFunction, 6);
  script.held = 0;
  assert_int_equal(cuMemsetD8Async(0, 0, 0, NULL), CUDA_SUCCESS);
  assert_int_equal(cuStreamSynchronize(NULL), CUDA_SUCCESS);
  assert_int_equal(atomic_load(&called), 6);
  for (unsigned i = 0; i < 6; i++) assert_int_equal(order[i], 1 + i % 2);
  // A reset ends them, after what is still to come.
  assert_int_equal(cuLaunchHostFunc(NULL, note, number(7)), CUDA_SUCCESS);
  assert_int_equal(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
  assert_int_equal(atomic_load(&called), 7);
  assert_int_not_equal(host_function_keep(note, number(1)), one);
}

// ---- a server that says what it should not -----------------------------------------------------

static void refused(struct server *server, uint64_t function) {
  push_call(server, function, 1, 0);
  while (!guest_is_lost()) {
    answer_poll(session_here());
    usleep(100);
  }
  assert_int_equal(cuStreamSynchronize(NULL), CUDA_ERROR_DEVICE_UNAVAILABLE);
  assert_int_equal(atomic_load(&called), 0);
}

static void a_call_of_nothing_ends_the_connection(void **state) {
  (void)state;
  refused(session_start(64 * MIB, hook), 1);
}

static void a_call_of_a_wild_number_ends_the_connection(void **state) {
  (void)state;
  struct server *server = session_start(64 * MIB, hook);
  host_function_keep(note, NULL);
  refused(server, 0x7fffffff);
}

static void a_call_of_an_old_number_ends_the_connection(void **state) {
  (void)state;
  struct server *server = session_start(64 * MIB, hook);
  refused(server, host_function_keep(note, NULL) + (1ull << 32));
}

static void a_second_call_ends_the_connection(void **state) {
  (void)state;
  struct server *server = session_start(64 * MIB, hook);
  assert_int_equal(cuLaunchHostFunc(NULL, note, NULL), CUDA_SUCCESS);
  until_called(1);
  atomic_store(&called, 0);
  refused(server, script.functions[0]);
}

static void the_end_of_the_connection_releases_those_who_wait(void **state) {
  (void)state;
  struct server *server = session_start(64 * MIB, hook);
  script.held = 1;
  assert_int_equal(cuLaunchHostFunc(NULL, note, NULL), CUDA_SUCCESS);
  server_wait(server, WIRE_HostFunction, 1);
  server_close(server);
  while (cuLaunchHostFunc(NULL, note, NULL) == CUDA_SUCCESS) usleep(100);
  assert_int_equal(cuLaunchHostFunc(NULL, note, NULL), CUDA_ERROR_DEVICE_UNAVAILABLE);
  host_function_drain();
}

// ---- several devices ---------------------------------------------------------------------------

// A connection of the thread's session whose other end's machine is gone: all that is sent there is
// dropped. Returns that end.
static int connect_to_nobody(void) {
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof address;
  assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
  assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
  assert_int_equal(listen(listener, 1), 0);
  static struct config config = {.server_count = 1,
                                 .servers = {{.host = "127.0.0.1"}},
                                 .connect_timeout_ms = 10000,
                                 .network_timeout_ms = 1000};
  char *port = config.servers[0].port;
  snprintf(port, sizeof config.servers[0].port, "%d", ntohs(address.sin_port));
  assert_int_equal(connection_open(session_here(), &config), 0);
  int end = accept(listener, NULL, NULL);
  assert_true(end >= 0);
  close(listener);
  struct sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
  const struct sock_fprog filter = {1, &nothing};
  assert_int_equal(setsockopt(end, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter), 0);
  return end;
}

static void a_busy_device_hides_no_silent_one(void **state) {
  (void)state;
  session_start(64 * MIB, hook);
  CHECK(sessions_make(2));
  session_count = 2;
  session_use(&sessions[1]);
  int end = connect_to_nobody();
  assert_int_equal(sender_start(session_here()), 0);
  assert_int_equal(host_function_post(session_here(), 0, note, NULL), CUDA_SUCCESS);
  batch_send(session_here());
  // The thread that waits for that function is woken by others all the time.
  const time_t limit = time(NULL) + 30;
  for (unsigned i = 1; i < MOST && !guest_is_lost() && time(NULL) < limit; i++) {
    CUresult result = cuLaunchHostFunc(NULL, note, NULL);
    CHECK(result == CUDA_SUCCESS || guest_is_lost());
    while (atomic_load(&called) < i && !guest_is_lost()) usleep(100);
    usleep(50000);
  }
  assert_true(guest_is_lost());
  close(end);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nobody_needs_to_wait_for_them),
      cmocka_unit_test(whoever_waits_reads_for_them),
      cmocka_unit_test(several_threads_wait),
      cmocka_unit_test(functions_may_not_use_cuda),
      cmocka_unit_test(callbacks_are_told_of_stream_and_status),
      cmocka_unit_test(a_long_function_keeps_nobody_waiting),
      cmocka_unit_test(kept_functions_are_called_again),
      cmocka_unit_test(a_call_of_nothing_ends_the_connection),
      cmocka_unit_test(a_call_of_a_wild_number_ends_the_connection),
      cmocka_unit_test(a_call_of_an_old_number_ends_the_connection),
      cmocka_unit_test(a_second_call_ends_the_connection),
      cmocka_unit_test(the_end_of_the_connection_releases_those_who_wait),
      cmocka_unit_test(a_busy_device_hides_no_silent_one),
  };
  RUN_ONE_TEST(tests, argc, argv);
}
