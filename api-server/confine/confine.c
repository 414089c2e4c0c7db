// outboard-confine [--read PATH | --write PATH | --run PATH]... -- PROGRAM [ARGUMENT]...
//
// Puts itself under Landlock and a filter of system calls, and becomes the program, whose threads
// all start under them. From then on there are only these files, no process can be made and no
// socket but those within the machine, no TCP connection opened or listened for with a socket that
// came from elsewhere, no process outside traced, read, scheduled or sent a signal, and no rights
// gained or given. Shared memory of System V is not there either. Descriptors that were inherited
// or are handed over stay what they are.
//
// --version prints what the kernel offers; that fails where it offers nothing.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <seccomp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// linux/landlock.h of Debian 12 ends with ABI 2; these are facts of the kernel's interface.
struct ruleset {
  uint64_t files;
  uint64_t net;     // from ABI 4
  uint64_t scoped;  // from ABI 6
};

struct path_beneath {
  uint64_t allowed;
  int32_t parent;
} __attribute__((packed));

enum { kRuleset = 0, kVersion = 1, kPathBeneath = 1 };

static const uint64_t kExecute = 1 << 0;
static const uint64_t kWriteFile = 1 << 1;
static const uint64_t kReadFile = 1 << 2;
static const uint64_t kReadDir = 1 << 3;
static const uint64_t kOfDirs = 0x1ff0;     // removing and making what is in them
static const uint64_t kRefer = 1 << 13;     // ABI 2
static const uint64_t kTruncate = 1 << 14;  // ABI 3
static const uint64_t kIoctl = 1 << 15;     // ABI 5
static const uint64_t kTcp = 3;             // bind, connect
static const uint64_t kSignals = 2;

// Newer than the headers of Debian 12; the same on every architecture.
enum { kFchmodat2 = 452, kSetxattrat = 463, kRemovexattrat = 466, kFileSetattr = 469 };

// Of commands and of numbers of processes the kernel takes the lower half of the register.
static const uint64_t kLowerHalf = UINT32_MAX;
// What an ioctl's number says of who understands it.
static const uint64_t kIoctlType = 0xff00;

// What root keeps: other people's files, as far as the rules have them, locked memory, priorities,
// limits. With the rest it could read processes that it cannot trace.
static int is_kept(int capability) {
  return capability == CAP_DAC_OVERRIDE || capability == CAP_DAC_READ_SEARCH ||
         capability == CAP_IPC_LOCK || capability == CAP_SYS_NICE || capability == CAP_SYS_RESOURCE;
}

// Who may not drop them has none.
static void drop_capabilities(void) {
  for (int capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; capability++) {
    if (!is_kept(capability)) prctl(PR_CAPBSET_DROP, capability);
  }
}

static int fail(const char *what) {
  fprintf(stderr, "outboard-confine: %s: %s\n", what, strerror(errno));
  return 126;
}

static int allow(int rules, const char *path, uint64_t rights) {
  const int fd = open(path, O_PATH | O_CLOEXEC);
  // What is not there needs no rule.
  if (fd < 0) return errno == ENOENT || errno == ENOTDIR || errno == EACCES ? 0 : -1;
  struct stat about;
  int result = fstat(fd, &about);
  if (result == 0) {
    if (!S_ISDIR(about.st_mode)) rights &= ~(kReadDir | kOfDirs | kRefer);
    const struct path_beneath rule = {rights, fd};
    result = (int)syscall(SYS_landlock_add_rule, rules, kPathBeneath, &rule, 0);
  }
  close(fd);
  return result;
}

// No process but this one: a child would outlive it, with all it holds, when the monitor ends it.
// Threads are made by clone, and by clone3 only where there is one: what that is to make cannot be
// seen here.
static int close_processes(scmp_filter_ctx filter) {
  const uint32_t refuse = SCMP_ACT_ERRNO(EPERM);
  int result = seccomp_rule_add(filter, refuse, SCMP_SYS(fork), 0);
  if (result == 0) result = seccomp_rule_add(filter, refuse, SCMP_SYS(vfork), 0);
  if (result == 0) {
    result = seccomp_rule_add(filter, refuse, SCMP_SYS(clone), 1,
                              SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
  }
  if (result == 0) {
    result = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
  }
  return result;
}

// Landlock knows TCP and nothing else: UDP, and what becomes TCP on the way (MPTCP, SMC), have
// sockets of their own, and so have the hypervisor and the kernel's cryptography. None is needed,
// as connections are handed over; a driver uses Unix sockets and netlink. io_uring would make
// sockets by itself: without it, as on kernels that have none, Node takes its threads.
static int close_network(scmp_filter_ctx filter) {
  const uint32_t refuse = SCMP_ACT_ERRNO(EACCES);
  int result = 0;
  for (unsigned family = 0; result == 0 && family < AF_NETLINK; family++) {
    if (family == AF_UNIX) continue;
    result = seccomp_rule_add(filter, refuse, SCMP_SYS(socket), 1, SCMP_A0(SCMP_CMP_EQ, family));
  }
  // Also numbers that have more than 32 bits, of which the kernel would look at the lower ones.
  if (result == 0) {
    result =
        seccomp_rule_add(filter, refuse, SCMP_SYS(socket), 1, SCMP_A0(SCMP_CMP_GT, AF_NETLINK));
  }
  // Of netlink there are addresses of interfaces and events of devices; not who is connected to
  // whom, and what else is answered to everybody.
  for (int protocol = NETLINK_ROUTE + 1; result == 0 && protocol < NETLINK_KOBJECT_UEVENT;
       protocol++) {
    result = seccomp_rule_add(filter, refuse, SCMP_SYS(socket), 2, SCMP_A0(SCMP_CMP_EQ, AF_NETLINK),
                              SCMP_A2(SCMP_CMP_EQ, protocol));
  }
  if (result == 0) {
    result = seccomp_rule_add(filter, refuse, SCMP_SYS(socket), 2, SCMP_A0(SCMP_CMP_EQ, AF_NETLINK),
                              SCMP_A2(SCMP_CMP_GT, NETLINK_KOBJECT_UEVENT));
  }
  // TIPC makes pairs, too, whose ends can send elsewhere.
  if (result == 0) {
    result =
        seccomp_rule_add(filter, refuse, SCMP_SYS(socketpair), 1, SCMP_A0(SCMP_CMP_NE, AF_UNIX));
  }
  if (result == 0) {
    result = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(io_uring_setup), 0);
  }
  return result;
}

// Commands of fcntl and ioctl that reach others through a file opened only for reading: leases, for
// which everybody who opens it waits, signals to whom one names, and marks of files such as "can
// not be changed". Those of ioctl are refused by type, as file systems have some of their own;
// devices of NVIDIA have none of these.
static int close_commands(scmp_filter_ctx filter) {
  const uint32_t refuse = SCMP_ACT_ERRNO(EPERM);
  static const unsigned kFcntl[] = {F_SETLEASE, F_NOTIFY, F_SETOWN, F_SETOWN_EX, F_SETSIG};
  static const unsigned kIoctl[] = {FIOSETOWN, SIOCSPGRP};
  static const unsigned char kTypes[] = {'f', 'v', 'X', 0x94 /* btrfs */, 0xf5 /* f2fs */};
  int result = 0;
  for (size_t i = 0; result == 0 && i < sizeof kFcntl / sizeof *kFcntl; i++) {
    result = seccomp_rule_add(filter, refuse, SCMP_SYS(fcntl), 1,
                              SCMP_A1(SCMP_CMP_MASKED_EQ, kLowerHalf, kFcntl[i]));
  }
  for (size_t i = 0; result == 0 && i < sizeof kIoctl / sizeof *kIoctl; i++) {
    result = seccomp_rule_add(filter, refuse, SCMP_SYS(ioctl), 1,
                              SCMP_A1(SCMP_CMP_MASKED_EQ, kLowerHalf, kIoctl[i]));
  }
  for (size_t i = 0; result == 0 && i < sizeof kTypes; i++) {
    result = seccomp_rule_add(filter, refuse, SCMP_SYS(ioctl), 1,
                              SCMP_A1(SCMP_CMP_MASKED_EQ, kIoctlType, (uint64_t)kTypes[i] << 8));
  }
  return result;
}

// What reaches others without a file being opened for writing: limits and priorities of processes,
// rights, owners, marks and times of files, shared memory, queues and keys that stay behind,
// watches, of which a user has few and which see what others do, asynchronous input and output, of
// which the machine has little, namespaces in which one would have rights. Whose thread a number
// names cannot be seen here: a thread chooses processors for itself alone, and how it is scheduled
// is left as it is. Neither Node nor the executor asks for more, and who does for its threads
// (pthread_setaffinity_np) is told that it may not.
static int close_detours(scmp_filter_ctx filter) {
  const uint32_t refuse = SCMP_ACT_ERRNO(EPERM);
  static const int kCalls[] = {
      SCMP_SYS(setpriority),
      SCMP_SYS(ioprio_set),
      SCMP_SYS(sched_setscheduler),
      SCMP_SYS(sched_setparam),
      SCMP_SYS(sched_setattr),
      SCMP_SYS(chmod),
      SCMP_SYS(fchmod),
      SCMP_SYS(fchmodat),
      kFchmodat2,
      SCMP_SYS(chown),
      SCMP_SYS(fchown),
      SCMP_SYS(lchown),
      SCMP_SYS(fchownat),
      SCMP_SYS(setxattr),
      SCMP_SYS(fsetxattr),
      SCMP_SYS(lsetxattr),
      kSetxattrat,
      SCMP_SYS(removexattr),
      SCMP_SYS(fremovexattr),
      SCMP_SYS(lremovexattr),
      kRemovexattrat,
      kFileSetattr,
      SCMP_SYS(utime),
      SCMP_SYS(utimes),
      SCMP_SYS(futimesat),
      SCMP_SYS(inotify_init),
      SCMP_SYS(inotify_init1),
      SCMP_SYS(fanotify_init),
      SCMP_SYS(shmget),
      SCMP_SYS(msgget),
      SCMP_SYS(semget),
      SCMP_SYS(mq_open),
      SCMP_SYS(mq_unlink),
      SCMP_SYS(io_setup),
      SCMP_SYS(add_key),
      SCMP_SYS(request_key),
      SCMP_SYS(keyctl),
      SCMP_SYS(unshare),
      SCMP_SYS(setns),
  };
  int result = seccomp_rule_add(filter, refuse, SCMP_SYS(prlimit64), 1, SCMP_A0(SCMP_CMP_NE, 0));
  if (result == 0) {
    result =
        seccomp_rule_add(filter, refuse, SCMP_SYS(sched_setaffinity), 1, SCMP_A0(SCMP_CMP_NE, 0));
  }
  // With no path it is the open file's own, as the caches set it when something is used.
  if (result == 0) {
    result = seccomp_rule_add(filter, refuse, SCMP_SYS(utimensat), 1, SCMP_A1(SCMP_CMP_NE, 0));
  }
  for (size_t i = 0; result == 0 && i < sizeof kCalls / sizeof *kCalls; i++)
    result = seccomp_rule_add(filter, refuse, kCalls[i], 0);
  return result;
}

// Descriptors on their way in messages count for the user, against the limit of who sends: with
// half as many, slots cannot leave the monitor none to hand over.
static int halve_descriptors(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) < 0) return -1;
  if (limit.rlim_max == RLIM_INFINITY) return 0;
  limit.rlim_max = limit.rlim_max / 2;
  if (limit.rlim_cur > limit.rlim_max) limit.rlim_cur = limit.rlim_max;
  return setrlimit(RLIMIT_NOFILE, &limit);
}

// Threads count for the user, too, against the limit of who makes one; but not root's.
static int halve_threads(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NPROC, &limit) < 0) return -1;
  if (limit.rlim_cur == RLIM_INFINITY) return 0;
  limit.rlim_cur = limit.rlim_cur / 2;
  limit.rlim_max = limit.rlim_cur;
  return setrlimit(RLIMIT_NPROC, &limit);
}

static int refuse_calls(void) {
  const scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
  if (!filter) return -ENOMEM;
  int result = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
  if (result == 0) result = close_processes(filter);
  if (result == 0) result = close_network(filter);
  if (result == 0) result = close_commands(filter);
  if (result == 0) result = close_detours(filter);
  if (result == 0) result = seccomp_load(filter);
  seccomp_release(filter);
  return result;
}

int main(int argc, char **argv) {
  const long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, kVersion);
  if (abi < 1) return fail("the kernel has no Landlock");
  if (prctl(PR_GET_SECCOMP) < 0) return fail("the kernel has no filters of system calls (seccomp)");
  if (argc == 2 && strcmp(argv[1], "--version") == 0) {
    printf("Landlock %ld, seccomp\n", abi);
    return 0;
  }
  uint64_t files = kExecute | kWriteFile | kReadFile | kReadDir | kOfDirs;
  if (abi >= 2) files |= kRefer;
  if (abi >= 3) files |= kTruncate;
  if (abi >= 5) files |= kIoctl;
  const struct ruleset all = {files, abi >= 4 ? kTcp : 0, abi >= 6 ? kSignals : 0};
  const size_t size = abi >= 6 ? sizeof all : abi >= 4 ? 2 * sizeof files : sizeof files;
  const int rules = (int)syscall(SYS_landlock_create_ruleset, &all, size, kRuleset);
  if (rules < 0) return fail("landlock_create_ruleset");
  int at = 1;
  for (; at + 1 < argc && strcmp(argv[at], "--") != 0; at += 2) {
    uint64_t rights;
    if (strcmp(argv[at], "--read") == 0) {
      rights = kReadFile | kReadDir;
    } else if (strcmp(argv[at], "--write") == 0) {
      rights = files & ~kExecute;
    } else if (strcmp(argv[at], "--run") == 0) {
      rights = kReadFile | kExecute;
    } else {
      errno = EINVAL;
      return fail(argv[at]);
    }
    if (allow(rules, argv[at + 1], rights) < 0) return fail(argv[at + 1]);
  }
  if (at + 1 >= argc) {
    errno = EINVAL;
    return fail("no program");
  }
  if (halve_descriptors() < 0) return fail("limit of descriptors");
  if (halve_threads() < 0) return fail("limit of threads");
  drop_capabilities();
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) return fail("no_new_privs");
  if (syscall(SYS_landlock_restrict_self, rules, 0) < 0) return fail("landlock_restrict_self");
  close(rules);
  errno = -refuse_calls();
  if (errno != 0) return fail("seccomp");
  execv(argv[at + 1], argv + at + 1);
  return fail(argv[at + 1]);
}
