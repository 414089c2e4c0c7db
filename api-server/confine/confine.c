// outboard-confine [--threads] [--read PATH | --write PATH | --run PATH]... -- PROGRAM
// [ARGUMENT]...
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
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// The filter, which confine-filter (filter.c) has made: an array of numbers, four for each step.
static const struct sock_filter kFilter[] = {
#include "confine_filter.inc"
};

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

// What root keeps: other people's files, as far as the rules have them, locked memory, priorities.
// With the rest it could read processes that it cannot trace, or take back what limits it, also
// that it is the first to go where memory is short.
static int is_kept(int capability) {
  return capability == CAP_DAC_OVERRIDE || capability == CAP_DAC_READ_SEARCH ||
         capability == CAP_IPC_LOCK || capability == CAP_SYS_NICE;
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

// A rule holds for the directory that is there now: it stays open in the program, or the kernel
// could make another of it, without the rule.
static int allow_threads(int rules, uint64_t files) {
  const int fd = open("/proc/self/task", O_PATH);
  if (fd < 0) return -1;
  const struct path_beneath rule = {(kReadFile | kReadDir | kWriteFile | kTruncate) & files, fd};
  return (int)syscall(SYS_landlock_add_rule, rules, kPathBeneath, &rule, 0);
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

// Refuses the calls that filter.c names. The kernel takes no more than a program of numbers.
static int refuse_calls(void) {
  struct sock_fprog program = {sizeof kFilter / sizeof *kFilter, (struct sock_filter *)kFilter};
  return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
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
  if (argc > 1 && strcmp(argv[at], "--threads") == 0) {
    if (allow_threads(rules, files) < 0) return fail("/proc/self/task");
    at++;
  }
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
  if (refuse_calls() < 0) return fail("seccomp");
  execv(argv[at + 1], argv + at + 1);
  return fail(argv[at + 1]);
}
