// Which sockets can be made here, one line each: what a slot's process that was taken over would
// try.
#include <errno.h>
#include <linux/io_uring.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kMptcp = 262, kSmc = 43 };

static const struct {
  const char *name;
  int64_t family;  // as wide as a register, of which the kernel takes the lower half
  int type, protocol;
} kinds[] = {
    {"AF_INET TCP", AF_INET, SOCK_STREAM, 0},
    {"AF_INET UDP", AF_INET, SOCK_DGRAM, 0},
    {"AF_INET MPTCP", AF_INET, SOCK_STREAM, kMptcp},
    {"AF_INET6 TCP", AF_INET6, SOCK_STREAM, 0},
    {"AF_INET6 UDP", AF_INET6, SOCK_DGRAM, 0},
    {"AF_INET6 MPTCP", AF_INET6, SOCK_STREAM, kMptcp},
    {"AF_ALG", AF_ALG, SOCK_SEQPACKET, 0},
    {"AF_VSOCK", AF_VSOCK, SOCK_STREAM, 0},
    {"AF_SMC", kSmc, SOCK_STREAM, 0},
    {"AF_PACKET", AF_PACKET, SOCK_RAW, 0},
    {"AF_INET of 64 bits", AF_INET | INT64_C(1) << 32, SOCK_STREAM, 0},
    {"AF_UNIX", AF_UNIX, SOCK_STREAM, 0},
    {"netlink, routes", AF_NETLINK, SOCK_RAW, NETLINK_ROUTE},
    {"netlink, devices", AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT},
    {"netlink, sockets", AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG},
    {"netlink, processes", AF_NETLINK, SOCK_RAW, NETLINK_CONNECTOR},
    {"netlink, all else", AF_NETLINK, SOCK_RAW, NETLINK_GENERIC},
};

static void say(const char *name, long result) {
  printf("%s: %s\n", name, result >= 0 ? "made" : strerror(errno));
  if (result >= 0) close((int)result);
}

int main(void) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    say(kinds[i].name, syscall(SYS_socket, kinds[i].family, kinds[i].type, kinds[i].protocol));
  }
  int ends[2];
  say("pair", socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
  say("pair of TIPC", socketpair(AF_TIPC, SOCK_STREAM, 0, ends));
  struct io_uring_params parameters = {0};
  say("io_uring", syscall(SYS_io_uring_setup, 1, &parameters));
  return 0;
}
