// The ring that traces are written into, and what the library writes there.
#include "base/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/stats.h"
#include "check.h"
#include "guest_calls.h"
#include "log_capture.h"
#include "session.h"

static char folder[64];
static char path[128];

static const char *file_in(const char *name) {
  if (!*folder) {
    strcpy(folder, "/tmp/outboard-trace-XXXXXX");
    assert_non_null(mkdtemp(folder));
  }
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static void remove_file(const char *name) { unlink(file_in(name)); }

static int clean(void **state) {
  (void)state;
  if (*folder) rmdir(folder);
  return 0;
}

static void write_one(struct trace_ring *ring, uint64_t a) {
  const struct trace_record record = {
      .at = trace_now(), .kind = TRACE_SEND, .a = a, .b = ~a, .c = a * 3};
  trace_ring_put(ring, &record);
}

// ---- the ring ----------------------------------------------------------------------------------

static void a_new_file(void **state) {
  (void)state;
  struct trace_ring ring;
  assert_int_equal(trace_ring_open(&ring, file_in("ring"), TRACE_BYTES_LEAST, TRACE_SERVER), 0);
  const struct trace_header *header = ring.header;
  struct stat status;
  assert_int_equal(stat(path, &status), 0);
  assert_int_equal(header->record_count, TRACE_BYTES_LEAST / 64);
  assert_int_equal(memcmp(&header->magic, "OBTRACE1", 8), 0);
  assert_int_equal(header->version, 1);
  assert_int_equal(header->role, TRACE_SERVER);
  assert_int_equal(header->record_size, sizeof(struct trace_record));
  assert_int_equal(header->record_count & (header->record_count - 1), 0);
  assert_int_equal(header->records_at + header->record_count * 64, status.st_size);
  assert_int_equal(header->strings_at + header->strings_size, header->records_at);
  assert_int_equal(header->process, getpid());
  assert_true(strlen(header->clock) > 30);
  assert_int_equal(header->head, 0);
  // All of it is there: a disk that fills up later is not noticed.
  assert_true((uint64_t)status.st_blocks * 512 >= (uint64_t)status.st_size);
  trace_ring_close(&ring);
  remove_file("ring");
}

static void the_last_ones_stay(void **state) {
  (void)state;
  struct trace_ring ring;
  assert_int_equal(trace_ring_open(&ring, file_in("ring"), TRACE_BYTES_LEAST, TRACE_GUEST), 0);
  uint64_t count = ring.header->record_count, written = count * 3 + 5;
  for (uint64_t i = 1; i <= written; i++) write_one(&ring, i);
  assert_int_equal(ring.header->head, written);
  assert_int_equal(ring.header->dropped, 0);
  for (uint64_t i = 0; i < count; i++) {
    const struct trace_record *record = &ring.records[i];
    assert_int_equal(record->state % 2, 0);
    uint64_t number = record->state / 2;
    assert_int_equal((number - 1) % count, i);
    assert_true(number > written - count && number <= written);
    assert_int_equal(record->a, number);
  }
  trace_ring_close(&ring);
  remove_file("ring");
}

static void an_end_after_it_was_overwritten(void **state) {
  (void)state;
  struct trace_ring ring;
  assert_int_equal(trace_ring_open(&ring, file_in("ring"), TRACE_BYTES_LEAST, TRACE_GUEST), 0);
  uint64_t number = 0;
  struct trace_record *record = trace_ring_claim(&ring, &number);
  assert_non_null(record);
  trace_ring_publish(record, number);
  assert_true(trace_ring_again(record, number));
  trace_ring_publish(record, number);
  for (uint64_t i = 0; i < ring.header->record_count; i++) write_one(&ring, i);
  assert_false(trace_ring_again(record, number));
  assert_int_equal(record->state, (ring.header->record_count + 1) * 2);
  trace_ring_close(&ring);
  remove_file("ring");
}

// A thread that stands still in the middle of a record keeps its place, and nothing is mixed.
static void a_writer_that_stands_still(void **state) {
  (void)state;
  struct trace_ring ring;
  assert_int_equal(trace_ring_open(&ring, file_in("ring"), TRACE_BYTES_LEAST, TRACE_GUEST), 0);
  uint64_t number = 0, count = ring.header->record_count;
  struct trace_record *record = trace_ring_claim(&ring, &number);
  record->a = 77;
  for (uint64_t i = 0; i < count * 2; i++) write_one(&ring, i);
  assert_int_equal(ring.header->dropped, 2);
  assert_int_equal(record->state, number * 2 + 1);
  assert_int_equal(record->a, 77);
  trace_ring_publish(record, number);
  write_one(&ring, 1);  // takes the place behind it
  for (uint64_t i = 0; i < count; i++) write_one(&ring, i);
  assert_int_equal(ring.header->dropped, 2);
  assert_true(record->state > number * 2 && record->state % 2 == 0);
  trace_ring_close(&ring);
  remove_file("ring");
}

#define WRITERS 8
#define EACH 20000

static void *write_many(void *argument) {
  for (uint64_t i = 0; i < EACH; i++) write_one(argument, i);
  return NULL;
}

static void many_writers(void **state) {
  (void)state;
  struct trace_ring ring;
  assert_int_equal(trace_ring_open(&ring, file_in("ring"), TRACE_BYTES_LEAST, TRACE_GUEST), 0);
  pthread_t threads[WRITERS];
  for (int i = 0; i < WRITERS; i++) pthread_create(&threads[i], NULL, write_many, &ring);
  for (int i = 0; i < WRITERS; i++) pthread_join(threads[i], NULL);
  assert_int_equal(ring.header->head, WRITERS * EACH);
  uint64_t whole = 0;
  for (uint64_t i = 0; i < ring.header->record_count; i++) {
    const struct trace_record *record = &ring.records[i];
    assert_int_equal(record->state % 2, 0);
    assert_int_equal(record->b, ~record->a);
    assert_int_equal(record->c, record->a * 3);
    whole += record->state / 2 > ring.header->head - ring.header->record_count;
  }
  // Of those that should be there, only ones that were given up are missing.
  assert_true(whole + ring.header->dropped >= ring.header->record_count);
  trace_ring_close(&ring);
  remove_file("ring");
}

static void strings_until_there_is_no_room(void **state) {
  (void)state;
  struct trace_ring ring;
  assert_int_equal(trace_ring_open(&ring, file_in("ring"), TRACE_BYTES_LEAST, TRACE_GUEST), 0);
  assert_int_equal(trace_ring_string(&ring, "one", 3), 1);
  assert_int_equal(trace_ring_string(&ring, "", 0), 2);
  assert_int_equal(trace_ring_string(&ring, "three", 5), 3);
  assert_int_equal(ring.header->strings_used, 8 + 4 + 12);
  assert_memory_equal(ring.strings + 16, "three", 5);
  static char long_one[1000];
  uint32_t last = 3, added;
  while ((added = trace_ring_string(&ring, long_one, sizeof long_one))) last = added;
  assert_int_equal(ring.names, last);
  assert_int_equal(ring.header->strings_lost, 1);
  assert_true(ring.header->strings_used <= ring.header->strings_size);
  assert_true(ring.header->strings_used + 1004 > ring.header->strings_size);
  trace_ring_close(&ring);
  remove_file("ring");
}

static void files_that_cannot_be(void **state) {
  (void)state;
  struct trace_ring ring, other;
  assert_int_equal(trace_ring_open(&ring, "/no/such/folder/x", 1 << 20, TRACE_GUEST), ENOENT);
  assert_int_equal(trace_ring_open(&ring, "/dev/null", 1 << 20, TRACE_GUEST), EINVAL);
  assert_int_equal(trace_ring_open(&ring, file_in("ring"), 1 << 20, TRACE_GUEST), 0);
  write_one(&ring, 7);
  assert_int_equal(trace_ring_open(&other, path, 1 << 20, TRACE_GUEST), EBUSY);
  assert_int_equal(ring.records[0].a, 7);
  trace_ring_close(&ring);
  // An old file begins again.
  assert_int_equal(trace_ring_open(&ring, path, 1 << 20, TRACE_GUEST), 0);
  assert_int_equal(ring.header->head, 0);
  assert_int_equal(ring.records[0].a, 0);
  trace_ring_close(&ring);
  // No room on the disk, or as much as a process may write.
  signal(SIGXFSZ, SIG_IGN);
  const struct rlimit limit = {100000, 100000};
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
  assert_int_equal(trace_ring_open(&ring, path, 1 << 20, TRACE_GUEST), EFBIG);
  struct stat status;
  assert_int_equal(stat(path, &status), 0);
  assert_int_equal(status.st_size, 0);
  remove_file("ring");
}

// ---- the library -------------------------------------------------------------------------------

struct found {
  struct trace_header header;
  struct trace_record records[4096];
  char names[4096][64];
};

static struct found found;

static void read_back(const char *name) {
  int fd = open(file_in(name), O_RDONLY);
  assert_true(fd >= 0);
  assert_int_equal(pread(fd, &found.header, sizeof found.header, 0), sizeof found.header);
  assert_true(found.header.head <= 4096);
  ssize_t size = (ssize_t)(found.header.head * 64);
  assert_int_equal(pread(fd, found.records, (size_t)size, (off_t)found.header.records_at), size);
  uint64_t at = 0;
  for (uint32_t number = 1; at < found.header.strings_used; number++) {
    uint32_t length;
    assert_int_equal(pread(fd, &length, 4, (off_t)(found.header.strings_at + at)), 4);
    assert_true(length < 64);
    assert_int_equal(
        pread(fd, found.names[number], length, (off_t)(found.header.strings_at + at + 4)), length);
    found.names[number][length] = 0;
    at += 4 + ((length + 3) & ~3u);
  }
  close(fd);
}

static uint64_t count_of(enum trace_kind kind, const char *name) {
  uint64_t count = 0;
  for (uint64_t i = 0; i < found.header.head; i++)
    count += found.records[i].kind == kind && strcmp(found.names[found.records[i].name], name) == 0;
  return count;
}

static const struct trace_record *first_of(enum trace_kind kind, const char *name) {
  for (uint64_t i = 0; i < found.header.head; i++)
    if (found.records[i].kind == kind && strcmp(found.names[found.records[i].name], name) == 0)
      return &found.records[i];
  fail_msg("no %s", name);
  return NULL;
}

static void off_without_a_file(void **state) {
  (void)state;
  int version;
  assert_true(trace_on());  // nobody has looked yet
  errno = EDOM;
  assert_int_equal(cuDriverGetVersion(&version), CUDA_SUCCESS);
  assert_false(trace_on());
  assert_int_equal(errno, EDOM);
}

static void calls_before_cuinit(void **state) {
  (void)state;
  setenv("OUTBOARD_TRACE", file_in("trace"), 1);
  int version;
  CUcontext context;
  errno = EDOM;
  assert_int_equal(cuDriverGetVersion(&version), CUDA_SUCCESS);
  assert_int_equal(cuCtxGetCurrent(&context), CUDA_ERROR_NOT_INITIALIZED);
  assert_int_equal(errno, EDOM);
  read_back("trace");
  assert_int_equal(found.header.role, TRACE_GUEST);
  assert_int_equal(found.header.head, 2);
  assert_int_equal(found.records[0].kind, TRACE_CALL);
  assert_string_equal(found.names[found.records[0].name], "cuDriverGetVersion");
  assert_string_equal(found.names[found.records[1].name], "cuCtxGetCurrent");
  assert_int_equal(found.records[1].result, CUDA_ERROR_NOT_INITIALIZED);
  assert_int_equal(found.records[0].thread, getpid());
  assert_true(found.records[0].at + found.records[0].duration <= found.records[1].at);
  remove_file("trace");
}

static void a_session(void **state) {
  (void)state;
  setenv("OUTBOARD_TRACE", file_in("trace"), 1);
  struct server *server = session_start(1 << 24, (struct server_hook){0});
  CUdeviceptr memory;
  char bytes[256] = {1};
  assert_int_equal(cuMemAlloc_v2(&memory, sizeof bytes), CUDA_SUCCESS);
  assert_int_equal(cuMemcpyHtoD_v2(memory, bytes, sizeof bytes), CUDA_SUCCESS);
  assert_int_equal(cuMemcpyDtoH_v2(bytes, memory, sizeof bytes), CUDA_SUCCESS);
  read_back("trace");
  assert_int_equal(count_of(TRACE_CALL, "cuMemcpyHtoD_v2"), 1);
  assert_int_equal(count_of(TRACE_CALL, "cuMemcpyDtoH_v2"), 1);
  const struct trace_record *upload = first_of(TRACE_CALL, "cuMemcpyHtoD_v2");
  const struct trace_record *download = first_of(TRACE_CALL, "cuMemcpyDtoH_v2");
  const struct trace_record *wait = first_of(TRACE_WAIT, "Download");
  const struct trace_record *reply = first_of(TRACE_RECEIVE, "reply");
  assert_int_equal(upload->a, upload->b);
  assert_true(upload->a > 0);
  assert_int_equal(download->a, upload->a + 1);
  assert_int_equal(wait->b, download->a);
  assert_int_equal(reply->c, download->a);
  assert_true(wait->at >= download->at);
  assert_true(wait->at + wait->duration <= download->at + download->duration);
  assert_true(reply->at >= wait->at && reply->at <= wait->at + wait->duration);
  // Batches carry each command once, in order.
  uint64_t next = 1, bytes_sent = 0;
  for (uint64_t i = 0; i < found.header.head; i++) {
    if (found.records[i].kind != TRACE_SEND) continue;
    assert_int_equal(found.records[i].b, next);
    next = found.records[i].c + 1;
    bytes_sent += found.records[i].a;
  }
  assert_int_equal(next, download->a + 1);
  struct stats *counted = guest_stats;
  assert_int_equal(bytes_sent, counted->bytes_sent);
  (void)server;
  remove_file("trace");
}

static void a_child_has_its_own_file(void **state) {
  (void)state;
  setenv("OUTBOARD_TRACE", file_in("trace"), 1);
  int version;
  assert_int_equal(cuDriverGetVersion(&version), CUDA_SUCCESS);
  pid_t child = fork();
  if (child == 0) {
    cuDriverGetVersion(&version);
    cuDriverGetVersion(&version);
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  cuDriverGetVersion(&version);
  read_back("trace");
  assert_int_equal(found.header.process, getpid());
  assert_int_equal(found.header.head, 2);
  remove_file("trace");
  char name[32];
  snprintf(name, sizeof name, "trace.%d", child);
  read_back(name);
  assert_int_equal(found.header.process, child);
  assert_int_equal(found.header.head, 2);
  assert_int_equal(found.records[0].thread, child);
  remove_file(name);
}

static void the_process_in_the_name(void **state) {
  (void)state;
  setenv("OUTBOARD_TRACE", file_in("%p.trace"), 1);
  int version;
  assert_int_equal(cuDriverGetVersion(&version), CUDA_SUCCESS);
  char name[32];
  snprintf(name, sizeof name, "%d.trace", getpid());
  read_back(name);
  assert_int_equal(found.header.head, 1);
  remove_file(name);
}

static void bad_values_are_said_and_change_nothing(void **state) {
  (void)state;
  int version;
  setenv("OUTBOARD_TRACE", "/no/such/folder/x", 1);
  setenv("OUTBOARD_TRACE_SIZE", "much", 1);
  assert_int_equal(cuDriverGetVersion(&version), CUDA_SUCCESS);
  assert_false(trace_on());
  log_capture("error");
  trace_report();
  const char *log = log_captured();
  assert_non_null(strstr(log, "OUTBOARD_TRACE=\"/no/such/folder/x\": No such file"));
  assert_non_null(strstr(log, "OUTBOARD_TRACE_SIZE=\"much\" is not understood"));
  trace_report();
  assert_string_equal(log_captured(), "");
}

static void a_size(void **state) {
  (void)state;
  setenv("OUTBOARD_TRACE", file_in("trace"), 1);
  setenv("OUTBOARD_TRACE_SIZE", "1M", 1);
  int version;
  assert_int_equal(cuDriverGetVersion(&version), CUDA_SUCCESS);
  struct stat status;
  assert_int_equal(stat(path, &status), 0);
  assert_true(status.st_size >= 1 << 20 && status.st_size < 2 << 20);
  remove_file("trace");
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_new_file),
      cmocka_unit_test(the_last_ones_stay),
      cmocka_unit_test(an_end_after_it_was_overwritten),
      cmocka_unit_test(a_writer_that_stands_still),
      cmocka_unit_test(many_writers),
      cmocka_unit_test(strings_until_there_is_no_room),
      cmocka_unit_test(files_that_cannot_be),
      cmocka_unit_test(off_without_a_file),
      cmocka_unit_test(calls_before_cuinit),
      cmocka_unit_test(a_session),
      cmocka_unit_test(a_child_has_its_own_file),
      cmocka_unit_test(the_process_in_the_name),
      cmocka_unit_test(bad_values_are_said_and_change_nothing),
      cmocka_unit_test(a_size),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, NULL, clean);
}
