// bench-link PORT MICROSECONDS MEGABITS: a network between this machine and itself. Listens, prints
// its port, and passes every connection on to PORT with half of a round trip's MICROSECONDS each
// way and at most so many megabits per second. A new connection carries nothing for one round trip
// more, as TCP's handshake takes. Ends with its standard input.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "figure.h"

// What is on its way in one direction. A piece is small, so that a fast link is smooth.
#define PIECE (16u << 10)
#define PIECES 8192u

struct piece {
  uint64_t due;  // nanoseconds
  uint32_t size;
  char bytes[PIECE];
};

struct direction {
  int from, to;
  uint64_t handshake;  // nanoseconds that the first bytes wait longer
  uint32_t filled, sent;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  struct piece pieces[PIECES];
};

static uint64_t one_way;
static double nanoseconds_per_byte;

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void *receiver(void *argument) {
  struct direction *way = argument;
  uint64_t out = 0;  // when the last byte has left this end
  for (;;) {
    pthread_mutex_lock(&way->lock);
    while (way->filled - way->sent == PIECES) pthread_cond_wait(&way->changed, &way->lock);
    pthread_mutex_unlock(&way->lock);
    struct piece *piece = &way->pieces[way->filled % PIECES];
    ssize_t got = recv(way->from, piece->bytes, PIECE, 0);
    if (got < 0 && errno == EINTR) continue;
    piece->size = got > 0 ? (uint32_t)got : 0;
    uint64_t at = now() + way->handshake;
    way->handshake = 0;
    if (at > out) out = at;
    out += (uint64_t)(piece->size * nanoseconds_per_byte);
    piece->due = out + one_way;
    pthread_mutex_lock(&way->lock);
    way->filled++;
    pthread_cond_signal(&way->changed);
    pthread_mutex_unlock(&way->lock);
    if (got <= 0) return NULL;
  }
}

static void *sender(void *argument) {
  struct direction *way = argument;
  prctl(PR_SET_TIMERSLACK, 1);
  for (;;) {
    pthread_mutex_lock(&way->lock);
    while (way->filled == way->sent) pthread_cond_wait(&way->changed, &way->lock);
    pthread_mutex_unlock(&way->lock);
    struct piece *piece = &way->pieces[way->sent % PIECES];
    struct timespec due = {(time_t)(piece->due / 1000000000u), (long)(piece->due % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR) {
    }
    if (piece->size == 0) {
      shutdown(way->to, SHUT_WR);
      return NULL;
    }
    for (uint32_t done = 0; done < piece->size;) {
      ssize_t sent = send(way->to, piece->bytes + done, piece->size - done, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0) {
        // Whoever sends to a closed connection is told so by its own end.
        shutdown(way->from, SHUT_RDWR);
        return NULL;
      }
      done += (uint32_t)sent;
    }
    pthread_mutex_lock(&way->lock);
    way->sent++;
    pthread_cond_signal(&way->changed);
    pthread_mutex_unlock(&way->lock);
  }
}

static void pass(int from, int to, uint64_t handshake) {
  // Never freed: connections are few, and the process ends soon.
  struct direction *way = calloc(1, sizeof *way);
  if (!way) FAIL("no memory for a connection");
  *way = (struct direction){.from = from, .to = to, .handshake = handshake};
  pthread_mutex_init(&way->lock, NULL);
  pthread_cond_init(&way->changed, NULL);
  pthread_t thread;
  if (pthread_create(&thread, NULL, receiver, way) || pthread_create(&thread, NULL, sender, way))
    FAIL("no thread for a connection");
}

static int onward(const char *port) {
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                .sin_port = htons((uint16_t)atoi(port))};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address))
    FAIL("nothing listens on port %s: %s", port, strerror(errno));
  return fd;
}

static void at_once(int fd) {
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

int main(int argc, char **argv) {
  if (argc != 4) FAIL("usage: bench-link PORT MICROSECONDS MEGABITS");
  uint64_t round_trip = (uint64_t)(atof(argv[2]) * 1000);
  one_way = round_trip / 2;
  nanoseconds_per_byte = 8000 / atof(argv[3]);
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  if (listener < 0 || bind(listener, (struct sockaddr *)&address, size) || listen(listener, 64) ||
      getsockname(listener, (struct sockaddr *)&address, &size))
    FAIL("the link cannot listen: %s", strerror(errno));
  printf("%d\n", ntohs(address.sin_port));
  fflush(stdout);
  for (;;) {
    struct pollfd polled[2] = {{.fd = listener, .events = POLLIN}, {.fd = 0, .events = POLLIN}};
    if (poll(polled, 2, -1) < 0) FAIL("poll: %s", strerror(errno));
    if (polled[1].revents) return 0;
    int fd = accept(listener, NULL, NULL);
    if (fd < 0) continue;
    int to = onward(argv[1]);
    at_once(fd);
    at_once(to);
    pass(fd, to, round_trip);
    pass(to, fd, 0);
  }
}
