// Children are told from the process that the driver was started in, whatever made them.
#include "abi_process.h"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host.h"

static pid_t by_fork(void) { return fork(); }
// Of which no handler of pthread_atfork hears.
static pid_t by_clone(void) { return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }

// What `look` returns in a child.
static int in_child(pid_t (*make)(void), int (*look)(void)) {
  const pid_t child = make();
  if (child == 0) _exit(look());
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status);
}

static int is_child(void) { return abi_process_is_child(); }

// It has a driver of its own then, and its child none.
static int begins_again(void) {
  abi_process_begin();
  return !abi_process_is_child() && in_child(by_clone, is_child) == 1 ? 7 : 8;
}

// First: nothing has begun.
static void there_is_no_parent_without_a_driver(void **state) {
  (void)state;
  assert_false(abi_process_is_child());
  assert_int_equal(in_child(by_fork, is_child), 0);
  assert_int_equal(in_child(by_clone, is_child), 0);
}

static void children_are_told(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    abi_process_begin();
    assert_false(abi_process_is_child());
    assert_int_equal(in_child(by_fork, is_child), 1);
    assert_int_equal(in_child(by_clone, is_child), 1);
    assert_int_equal(in_child(by_fork, begins_again), 7);
    assert_int_equal(in_child(by_clone, begins_again), 7);
    assert_false(abi_process_is_child());
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(there_is_no_parent_without_a_driver),
      cmocka_unit_test(children_are_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
