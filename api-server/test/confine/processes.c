// Whether processes and threads can be made here, one line each.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void say(const char *name, long result) {
  printf("%s: %s\n", name, result >= 0 ? "made" : strerror(errno));
  fflush(stdout);
}

static void made(const char *name, long process) {
  if (process == 0) _exit(0);
  say(name, process);
  if (process > 0) waitpid((pid_t)process, NULL, 0);
}

static void *nothing(void *argument) { return argument; }

int main(void) {
  // By number: aarch64 has none of them.
#ifdef SYS_fork
  made("fork", syscall(SYS_fork));
#endif
  made("clone", syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  // Its arguments lie in memory: struct clone_args, as it was at first.
  unsigned long long arguments[8] = {[4] = SIGCHLD};
  made("clone3", syscall(SYS_clone3, arguments, sizeof arguments));
  pthread_t thread;
  errno = pthread_create(&thread, NULL, nothing, NULL);
  say("thread", errno == 0 ? 0 : -1);
  return errno == 0 ? pthread_join(thread, NULL) : 1;
}
