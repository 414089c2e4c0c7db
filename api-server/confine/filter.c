// confine-filter: writes the filter of system calls that outboard-confine has, as the initializers
// of an array of struct sock_filter. It is run once by the build, so that libseccomp is needed
// there and not where the server runs.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <seccomp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

// Newer than the headers of Debian 12; the same on every architecture.
enum { kFchmodat2 = 452, kSetxattrat = 463, kRemovexattrat = 466, kFileSetattr = 469 };

// Of commands and of numbers of processes the kernel takes the lower half of the register.
static const uint64_t kLowerHalf = UINT32_MAX;
// What an ioctl's number says of who understands it.
static const uint64_t kIoctlType = 0xff00;

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
  // How its memory is laid out was settled when it was started; to ask is open.
  if (result == 0) {
    result = seccomp_rule_add(filter, refuse, SCMP_SYS(personality), 1,
                              SCMP_A0(SCMP_CMP_NE, 0xffffffff));
  }
  // With no path it is the open file's own, as the caches set it when something is used.
  if (result == 0) {
    result = seccomp_rule_add(filter, refuse, SCMP_SYS(utimensat), 1, SCMP_A1(SCMP_CMP_NE, 0));
  }
  for (size_t i = 0; result == 0 && i < sizeof kCalls / sizeof *kCalls; i++)
    result = seccomp_rule_add(filter, refuse, kCalls[i], 0);
  return result;
}

static int add_rules(scmp_filter_ctx filter) {
  int result = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
  if (result == 0) result = close_processes(filter);
  if (result == 0) result = close_network(filter);
  if (result == 0) result = close_commands(filter);
  if (result == 0) result = close_detours(filter);
  return result;
}

static int write_steps(FILE *steps) {
  struct sock_filter step;
  rewind(steps);
  while (fread(&step, sizeof step, 1, steps) == 1)
    printf("{%u, %u, %u, %uu},\n", step.code, step.jt, step.jf, step.k);
  return ferror(steps) || ferror(stdout) || fflush(stdout) != 0 ? -EIO : 0;
}

int main(void) {
  // What the kernel of the machine that builds can do does not matter: version 3 of libseccomp's
  // interface has all that is asked for.
  int result = seccomp_api_set(3);
  const scmp_filter_ctx filter = result == 0 ? seccomp_init(SCMP_ACT_ALLOW) : NULL;
  FILE *const steps = tmpfile();
  if (result == 0 && (!filter || !steps)) result = -ENOMEM;
  if (result == 0) result = add_rules(filter);
  if (result == 0) result = seccomp_export_bpf(filter, fileno(steps));
  if (result == 0) result = write_steps(steps);
  if (filter) seccomp_release(filter);
  if (steps) fclose(steps);
  if (result == 0) return 0;
  fprintf(stderr, "confine-filter: %s\n", strerror(-result));
  return 1;
}
