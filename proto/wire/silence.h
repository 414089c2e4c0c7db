// Whether the network between guest and server is gone while bytes are on their way, as either side
// asks its kernel now and then while it waits. By itself TCP goes on for a quarter of an hour, and
// keepalive says nothing while something is unacknowledged. TCP_USER_TIMEOUT would end the wait,
// but also that for a peer that is alive and takes nothing (a guest in a debugger, a GPU that is
// busy): probes of a shut window are answered, and it does not care.
#ifndef OUTBOARD_SILENCE_H
#define OUTBOARD_SILENCE_H

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

struct silence {
  int64_t since;  // milliseconds; 0: the peer was heard of when it was last asked about
};

// OUTBOARD_NETWORK_TIMEOUT, seconds from 1 to 3600: how long a silence may last.
static inline int silence_limit_ms(void) {
  const char *text = secure_getenv("OUTBOARD_NETWORK_TIMEOUT");
  long seconds = text ? strtol(text, NULL, 10) : 0;
  return seconds >= 1 && seconds <= 3600 ? (int)seconds * 1000 : 60000;
}

// How long to wait before asking again.
static inline int silence_look_ms(int limit_ms) { return limit_ms < 20000 ? limit_ms / 4 : 5000; }

// 1 when bytes have been sent again, or a shut window was asked about, and nothing has been heard
// for as long as the limit. 0 for what is no TCP connection.
static inline int silence_is_long(struct silence *silence, int fd, int limit_ms) {
  struct tcp_info info;
  socklen_t size = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return 0;
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  int64_t now = (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
  int unanswered = info.tcpi_retransmits > 0 || info.tcpi_probes > 0;
  if (!unanswered || (silence->since && (int64_t)info.tcpi_last_ack_recv < now - silence->since)) {
    silence->since = unanswered ? now : 0;
    return 0;
  }
  if (!silence->since) silence->since = now;
  return now - silence->since >= limit_ms;
}

#endif
