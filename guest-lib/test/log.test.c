// The log: silent unless asked for, one line at a time, without side effects on the program.
#include "setup/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "guest_calls.h"
#include "log_capture.h"

static void say_all(void) {
  log_error("one");
  log_warn("two");
  log_info("three");
  log_debug("four");
  log_trace("five");
}

static int lines_of(const char *text) {
  int lines = 0;
  for (; *text; text++) lines += *text == '\n';
  return lines;
}

// Must be the first test: nothing has configured the log yet.
static void silent_by_default(void **state) {
  (void)state;
  assert_int_equal(log_level, LOG_OFF);
  int ends[2];
  assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
  int before = dup(2);
  dup2(ends[1], 2);
  say_all();
  dup2(before, 2);
  char byte;
  assert_int_equal(read(ends[0], &byte, 1), -1);
  assert_int_equal(errno, EAGAIN);
}

static void levels(void **state) {
  (void)state;
  static const char *const names[] = {"off", "error", "warn", "info", "debug", "trace"};
  for (int level = 0; level < 6; level++) {
    log_capture(names[level]);
    say_all();
    assert_int_equal(lines_of(log_captured()), level);
  }
}

static void a_line_says_who_and_when(void **state) {
  (void)state;
  log_capture("warn");
  log_warn("%s is %d", "x", 7);
  const char *line = log_captured();
  int h, m, s, us, pid;
  char rest[64];
  assert_int_equal(
      sscanf(line, "outboard %d:%d:%d.%6d %d warn: %63[^\n]", &h, &m, &s, &us, &pid, rest), 6);
  assert_int_equal(pid, getpid());
  assert_string_equal(rest, "x is 7");
}

static void long_lines_are_cut(void **state) {
  (void)state;
  static char text[5000];
  memset(text, 'y', sizeof text - 1);
  log_capture("error");
  log_error("%s", text);
  log_error("after");
  const char *log = log_captured();
  assert_int_equal(lines_of(log), 2);
  assert_true(strchr(log, '\n') - log < 1024);
  assert_non_null(strstr(log, "error: after\n"));
}

static void nothing_leads_a_terminal(void **state) {
  (void)state;
  log_capture("error");
  log_error("%s", "a\33[2Jb\r\nc\177d \302\233e \303\244 \342\200\223 \302");
  const char *log = log_captured();
  assert_int_equal(lines_of(log), 1);
  assert_non_null(strstr(log, "error: a?[2Jb??c?d ??e \303\244 \342\200\223 \302\n"));
}

static void errno_is_the_programs(void **state) {
  (void)state;
  log_capture("error");
  errno = EDOM;
  log_error("said");
  assert_int_equal(errno, EDOM);
  assert_null(log_configure("error:/dev/full"));
  log_error("cannot be written");
  assert_int_equal(errno, EDOM);
}

static void bad_values(void **state) {
  (void)state;
  log_capture("off");
  static const char *const bad[] = {"loud", "", "Error", "errorx", "2", ":/tmp/x", "warn "};
  for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
    log_level = LOG_OFF;
    const char *wrong = log_configure(bad[i]);
    assert_non_null(wrong);
    assert_non_null(strstr(wrong, "off, error, warn, info, debug or trace"));
    assert_int_equal(log_level, LOG_WARN);
  }
  log_level = LOG_OFF;
  assert_non_null(strstr(log_configure("info:/no/such/folder/log"), "cannot be opened"));
  assert_int_equal(log_level, LOG_WARN);
}

static void *write_lines(void *unused) {
  (void)unused;
  for (int i = 0; i < 100; i++) log_error("abcdefghij %d end", i);
  return NULL;
}

static void lines_of_threads_do_not_mix(void **state) {
  (void)state;
  pthread_t threads[4];
  log_capture("error");
  log_captured();
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, write_lines, NULL);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  const char *at = log_captured();
  assert_int_equal(lines_of(at), 400);
  for (; *at; at = strchr(at, '\n') + 1) {
    assert_int_equal(strncmp(at, "outboard ", 9), 0);
    assert_int_equal(strncmp(strchr(at, '\n') - 4, " end", 4), 0);
  }
}

static char told[200];
static void tell(void *data, CUlogLevel level, char *message, size_t length) {
  assert_int_equal(length, strlen(message));
  snprintf(data, sizeof told, "%d %s", (int)level, message);
}

static void programs_may_ask_for_lines(void **state) {
  (void)state;
  log_capture("off");
  CUlogIterator from;
  char text[400];
  assert_int_equal(guest_cuLogsCurrent(&from, 1), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(guest_cuLogsCurrent(&from, 0), CUDA_SUCCESS);
  CUlogsCallbackHandle handle, other;
  assert_int_equal(guest_cuLogsRegisterCallback(NULL, told, &handle), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(guest_cuLogsRegisterCallback(tell, told, &handle), CUDA_SUCCESS);
  assert_int_equal(guest_cuLogsRegisterCallback(tell, text, &other), CUDA_SUCCESS);
  assert_int_equal(guest_cuLogsUnregisterCallback(other), CUDA_SUCCESS);
  assert_int_equal(guest_cuLogsUnregisterCallback(other), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(guest_cuLogsUnregisterCallback(NULL), CUDA_ERROR_INVALID_VALUE);
  errno = EDOM;
  log_error("%d is wrong", 5);
  assert_int_equal(errno, EDOM);
  assert_string_equal(told, "0 [ERROR] 5 is wrong");
  log_warn("so-so");
  assert_string_equal(told, "1 [WARN] so-so");
  log_info("nothing");
  assert_string_equal(told, "1 [WARN] so-so");
  // Not written anywhere else.
  assert_string_equal(log_captured(), "");

  size_t size = 10;
  CUlogIterator at = from;
  assert_int_equal(guest_cuLogsDumpToMemory(&at, text, &size, 0), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(at, from);
  size = sizeof text;
  assert_int_equal(guest_cuLogsDumpToMemory(&at, text, &size, 0), CUDA_SUCCESS);
  assert_string_equal(text, "[ERROR] 5 is wrong\n[WARN] so-so\n");
  assert_int_equal(size, strlen(text));
  assert_int_equal(at, from + 2);
  size = sizeof text;
  assert_int_equal(guest_cuLogsDumpToMemory(&at, text, &size, 0), CUDA_SUCCESS);
  assert_int_equal(size, 0);

  assert_int_equal(guest_cuLogsUnregisterCallback(handle), CUDA_SUCCESS);
  // The last hundred stay, cut to a length.
  static char wide[700];
  memset(wide, 'w', sizeof wide - 1);
  for (int i = 0; i < 150; i++) log_warn("%d %s", i, wide);
  assert_string_equal(told, "1 [WARN] so-so");
  char path[] = "/tmp/outboard-kept-log-XXXXXX";
  close(mkstemp(path));
  assert_int_equal(guest_cuLogsDumpToFile(NULL, path, 0), CUDA_SUCCESS);
  static char whole[100000];
  int file = open(path, O_RDONLY);
  ssize_t length = read(file, whole, sizeof whole - 1);
  close(file);
  unlink(path);
  assert_int_equal(length, 100 * 512);
  whole[length] = 0;
  assert_int_equal(lines_of(whole), 100);
  assert_int_equal(strncmp(whole, "[WARN] 50 w", 11), 0);
  assert_int_equal(guest_cuLogsDumpToFile(NULL, "/no/such/folder/log", 0),
                   CUDA_ERROR_INVALID_VALUE);
}

// A program that writes nothing there would not know why it ends.
static void who_reads_the_log_may_go(void **state) {
  (void)state;
  int status;
  const pid_t child = fork();
  if (child == 0) {
    int ends[2];
    if (pipe(ends)) _exit(1);
    dup2(ends[1], 2);
    close(ends[0]);
    log_configure("info");
    errno = 42;
    log_error("nobody reads this");
    if (errno != 42) _exit(2);
    // The program's own signal waits on.
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    sigprocmask(SIG_BLOCK, &set, NULL);
    raise(SIGPIPE);
    log_error("nor this");
    sigpending(&set);
    _exit(sigismember(&set, SIGPIPE) ? 0 : 3);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(silent_by_default),
      cmocka_unit_test(levels),
      cmocka_unit_test(a_line_says_who_and_when),
      cmocka_unit_test(long_lines_are_cut),
      cmocka_unit_test(nothing_leads_a_terminal),
      cmocka_unit_test(errno_is_the_programs),
      cmocka_unit_test(bad_values),
      cmocka_unit_test(lines_of_threads_do_not_mix),
      cmocka_unit_test(programs_may_ask_for_lines),
      cmocka_unit_test(who_reads_the_log_may_go),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
