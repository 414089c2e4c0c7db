// What a slot's process that was taken over would do to others by system calls that no file rule
// sees, one line each. outsiders PID FILE
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { kFchmodat2 = 452 };

static void say(const char *name, long result) {
  printf("%s: %s\n", name, result >= 0 ? "done" : strerror(errno));
}

int main(int argc, char **argv) {
  if (argc != 3) return 1;
  const pid_t other = (pid_t)atoi(argv[1]);
  const char *file = argv[2];
  const struct rlimit high = {RLIM_INFINITY, RLIM_INFINITY};
  struct rlimit own;
  say("limit of another", prlimit(other, RLIMIT_CPU, &high, NULL));
  say("priority of another", setpriority(PRIO_PROCESS, (id_t)other, 1));
  say("chmod", chmod(file, 0600));
  say("fchmodat", fchmodat(AT_FDCWD, file, 0600, 0));
  say("fchmodat2", syscall(kFchmodat2, AT_FDCWD, file, 0600, 0));
  say("chown", chown(file, getuid(), getgid()));
  say("fchownat", fchownat(AT_FDCWD, file, getuid(), getgid(), 0));
  say("setxattr", setxattr(file, "user.outboard", "1", 1, 0));
  say("shmget", shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600));
  say("msgget", msgget(IPC_PRIVATE, IPC_CREAT | 0600));
  say("semget", semget(IPC_PRIVATE, 1, IPC_CREAT | 0600));
  say("add_key", syscall(SYS_add_key, "user", "outboard", "1", 1, -2));
  say("unshare", unshare(CLONE_NEWUSER));
  say("limit of its own", prlimit(0, RLIMIT_NOFILE, NULL, &own));
  printf("descriptors: %llu\n", (unsigned long long)own.rlim_max);
  return 0;
}
