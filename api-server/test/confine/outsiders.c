// What a slot's process that was taken over would do to others by system calls that no file rule
// sees, one line each. outsiders PID FILE, which can be read and not written.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <mqueue.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { kFchmodat2 = 452, kFileSetattr = 469 };

// sched_setattr and file_setattr, which the C library does not have.
struct scheduling {
  uint32_t size, policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime, deadline, period;
};

struct attributes {
  uint64_t flags;
  uint32_t extent, extents, project, copied_extent;
};

static void say(const char *name, long result) {
  printf("%s: %s\n", name, result >= 0 ? "done" : strerror(errno));
}

static void reach_for_threads(pid_t other) {
  const struct sched_param lowest = {0};
  struct scheduling idle = {.size = sizeof idle, .policy = SCHED_OTHER, .nice = 19};
  cpu_set_t cpus;
  say("processors", sched_getaffinity(0, sizeof cpus, &cpus));
  say("processors of another", sched_setaffinity(other, sizeof cpus, &cpus));
  // The kernel takes the lower half of the register.
  say("processors of another in 64 bits",
      syscall(SYS_sched_setaffinity, (int64_t)other | INT64_C(1) << 32, sizeof cpus, &cpus));
  say("processors of its own", sched_setaffinity(0, sizeof cpus, &cpus));
  say("sched_setparam", sched_setparam(other, &lowest));
  say("sched_setattr", syscall(SYS_sched_setattr, other, &idle, 0));
  say("sched_setscheduler", sched_setscheduler(other, SCHED_IDLE, &lowest));
  say("real time", sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){1}));
}

// By a descriptor that was opened only for reading.
static void reach_for_file(const char *file) {
  const int fd = open(file, O_RDONLY);
  int flags = FS_NOATIME_FL;
  struct fsxattr more = {.fsx_xflags = FS_XFLAG_NOATIME};
  struct attributes attributes = {0};
  say("open", fd);
  say("fchmod", fchmod(fd, 0644));
  say("fchown", fchown(fd, getuid(), getgid()));
  say("fsetxattr", fsetxattr(fd, "user.outboard", "1", 1, 0));
  say("fremovexattr", fremovexattr(fd, "user.outboard"));
  say("flags", ioctl(fd, FS_IOC_SETFLAGS, &flags));
  say("more flags", ioctl(fd, FS_IOC_FSSETXATTR, &more));
  say("file_setattr", syscall(kFileSetattr, AT_FDCWD, file, &attributes, sizeof attributes, 0));
  say("lease", fcntl(fd, F_SETLEASE, F_WRLCK));
  say("lease in 64 bits", syscall(SYS_fcntl, fd, INT64_C(1) << 32 | F_SETLEASE, F_RDLCK));
  say("lock", flock(fd, LOCK_EX | LOCK_NB));
  say("times", futimens(fd, NULL));
  say("utimensat", utimensat(AT_FDCWD, file, NULL, 0));
  say("utimes", utimes(file, NULL));
  say("futimesat", futimesat(AT_FDCWD, file, NULL));
  const int folder = open("/usr", O_RDONLY | O_DIRECTORY);
  say("word of changes", fcntl(folder, F_NOTIFY, DN_CREATE));
  say("inotify", inotify_init1(IN_CLOEXEC));
#ifdef SYS_inotify_init
  say("inotify of old", syscall(SYS_inotify_init));
#endif
  say("fanotify", fanotify_init(FAN_CLASS_NOTIF | FAN_REPORT_FID, O_RDONLY));
}

// The kernel sends them when there is something to read.
static void send_signals(pid_t other) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0) return;
  const struct f_owner_ex owner = {F_OWNER_PID, other};
  int process = other;
  say("owner", fcntl(ends[0], F_SETOWN, other));
  say("owner, a thread", fcntl(ends[0], F_SETOWN_EX, &owner));
  say("owner, by ioctl", ioctl(ends[0], FIOSETOWN, &process));
  say("owner of a socket", ioctl(ends[0], SIOCSPGRP, &process));
  say("signal", fcntl(ends[0], F_SETSIG, SIGKILL));
}

int main(int argc, char **argv) {
  if (argc != 3) return 1;
  const pid_t other = (pid_t)atoi(argv[1]);
  const char *file = argv[2];
  const struct rlimit high = {RLIM_INFINITY, RLIM_INFINITY};
  struct rlimit own;
  say("limit of another", prlimit(other, RLIMIT_CPU, &high, NULL));
  say("priority of another", setpriority(PRIO_PROCESS, (id_t)other, 1));
  reach_for_threads(other);
  reach_for_file(file);
  send_signals(other);
  say("chmod", chmod(file, 0600));
  say("fchmodat", fchmodat(AT_FDCWD, file, 0600, 0));
  say("fchmodat2", syscall(kFchmodat2, AT_FDCWD, file, 0600, 0));
  say("chown", chown(file, getuid(), getgid()));
  say("fchownat", fchownat(AT_FDCWD, file, getuid(), getgid(), 0));
  say("setxattr", setxattr(file, "user.outboard", "1", 1, 0));
  const int memory = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
  say("shmget", memory);
  shmctl(memory, IPC_RMID, NULL);
  const int queue = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
  say("msgget", queue);
  msgctl(queue, IPC_RMID, NULL);
  const int semaphores = semget(IPC_PRIVATE, 1, IPC_CREAT | 0600);
  say("semget", semaphores);
  semctl(semaphores, 0, IPC_RMID);
  say("mq_open", mq_open("/outboard-confine", O_CREAT | O_RDWR, 0600, NULL));
  say("mq_unlink", syscall(SYS_mq_unlink, "outboard-confine"));
  unsigned long context = 0;
  say("io_setup", syscall(SYS_io_setup, 1, &context));
  say("add_key", syscall(SYS_add_key, "user", "outboard", "1", 1, -2));
  say("unshare", unshare(CLONE_NEWUSER));
  say("limit of its own", prlimit(0, RLIMIT_NOFILE, NULL, &own));
  printf("descriptors: %llu\n", (unsigned long long)own.rlim_max);
  getrlimit(RLIMIT_NPROC, &own);
  printf("threads: %llu\n", (unsigned long long)own.rlim_max);
  return 0;
}
