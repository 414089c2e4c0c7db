#include "wire/connection.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "setup/dial.h"
#include "setup/log.h"
#include "silence.h"
#include "wire/answer.h"

int connection_numbers[SESSIONS_MAX];

// An eventfd that ends the wait of a sender, and whether one waits. There is one sender at a time.
static struct leaving {
  int number;  // one more than the descriptor
  _Atomic _Bool awaited;
} reader_left[SESSIONS_MAX];

int connection_adopt(int fd) {
  struct leaving *left = &reader_left[session_here()];
  if (!left->number) left->number = 1 + eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (!left->number) return errno;
  connection_numbers[session_here()] = 1 + fd;
  return 0;
}

void connection_reader_left(void) {
  struct leaving *left = &reader_left[session_here()];
  if (atomic_load(&left->awaited)) eventfd_write(left->number - 1, 1);
}

// Whoever waits looks, and several threads may wait for one session.
static struct silence silences[SESSIONS_MAX];
static pthread_mutex_t silences_lock = PTHREAD_MUTEX_INITIALIZER;
static int limit_ms = 60000;  // as it was when there was one thread

static struct server_name connected;

const struct server_name *connection_server(void) { return &connected; }

int connection_open(const struct config *config) {
  const struct server_name *server;
  int fd = dial(config, &server);
  if (fd < 0) return -fd;
  int error = connection_adopt(fd);
  if (error) {
    log_error("no file descriptor is left: %s", strerror(error));
    close(fd);
    return error;
  }
  connected = *server;
  limit_ms = (int)config->network_timeout_ms;
  log_info("connected to %s:%s", *server->port ? server->host : "unix",
           *server->port ? server->port : server->host);
  return 0;
}

void connection_close_of(unsigned session) {
  if (connection_numbers[session]) close(connection_fd_of(session));
  connection_numbers[session] = 0;
}

void connection_close(void) {
  for (unsigned session = 0; session < SESSIONS_MAX; session++) connection_close_of(session);
}

void connection_shut_down(void) {
  for (unsigned session = 0; session < SESSIONS_MAX; session++)
    if (connection_numbers[session]) shutdown(connection_fd_of(session), SHUT_RDWR);
}

_Bool connection_is_silent(void) {
  pthread_mutex_lock(&silences_lock);
  _Bool silent = silence_is_long(&silences[session_here()], connection_fd(), limit_ms);
  pthread_mutex_unlock(&silences_lock);
  return silent;
}

int connection_look_ms(void) { return silence_look_ms(limit_ms); }

void connection_watch(void) {
  int look = connection_look_ms();
  struct timeval limit = {.tv_sec = look / 1000, .tv_usec = look % 1000 * 1000};
  // Not one of a Unix socket, whose other end is on this machine. Each session has a server of its
  // own.
  int domain = AF_UNIX;
  socklen_t size = sizeof domain;
  getsockopt(connection_fd(), SOL_SOCKET, SO_DOMAIN, &domain, &size);
  if (domain != AF_UNIX) setsockopt(connection_fd(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

static const char zeros[64 << 10];

// Leaves out what was sent.
static void advance(struct iovec **part, int *count, size_t sent) {
  while (*count && sent >= (*part)->iov_len) {
    sent -= (*part)->iov_len;
    ++*part;
    --*count;
  }
  if (*count) {
    (*part)->iov_base = (char *)(*part)->iov_base + sent;
    (*part)->iov_len -= sent;
  }
}

// Until the socket takes more, reading what the server sends meanwhile. 0, or an errno value.
static int wait_to_send(void) {
  struct leaving *left = &reader_left[session_here()];
  struct pollfd polled[2] = {{.fd = connection_fd(), .events = POLLOUT | POLLIN},
                             {.fd = left->number - 1, .events = POLLIN}};
  int ready = poll(polled, 1, connection_look_ms());
  if (ready < 0) return errno == EINTR ? 0 : errno;
  if (ready == 0) return connection_is_silent() ? ETIMEDOUT : 0;
  if (polled[0].revents & POLLOUT || !(polled[0].revents & POLLIN) || answer_poll()) return 0;
  // Another thread reads, so only room for more output is of interest here, until it stops: the
  // server may take nothing before it has got rid of what it sends.
  polled[0].events = POLLOUT;
  atomic_store(&left->awaited, 1);
  int error = 0;
  if (answer_is_being_read()) {
    ready = poll(polled, 2, connection_look_ms());
    if (ready < 0 && errno != EINTR) error = errno;
    if (ready == 0 && connection_is_silent()) error = ETIMEDOUT;
  }
  atomic_store(&left->awaited, 0);
  eventfd_t count;
  eventfd_read(left->number - 1, &count);
  return error;
}

int connection_send(struct iovec *parts, int count) {
  int unreadable = 0;
  while (count) {
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
    ssize_t sent = sendmsg(connection_fd(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      advance(&parts, &count, (size_t)sent);
      continue;
    }
    switch (errno) {
      case EINTR:
        continue;
      case EFAULT: {
        // What of the message can be read goes out as it is: the frame's header, or it is out
        // already. So its length must be kept.
        unreadable = 1;
        sent = send(connection_fd(), parts->iov_base, parts->iov_len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EFAULT) {
          size_t chunk = parts->iov_len < sizeof zeros ? parts->iov_len : sizeof zeros;
          sent = send(connection_fd(), zeros, chunk, MSG_DONTWAIT | MSG_NOSIGNAL);
        }
        if (sent >= 0) {
          advance(&parts, &count, (size_t)sent);
          continue;
        }
        if (errno == EINTR) continue;
        if (errno != EAGAIN) return errno;
        __attribute__((fallthrough));
      }
      case EAGAIN: {
        int error = wait_to_send();
        if (error) return error;
        continue;
      }
      default:
        return errno;
    }
  }
  return unreadable ? EFAULT : 0;
}

int connection_write(const void *bytes, size_t size, int timeout_ms) {
  return dial_write(connection_fd(), bytes, size, timeout_ms);
}

int connection_read(void *bytes, size_t size, int timeout_ms) {
  return dial_read(connection_fd(), bytes, size, timeout_ms);
}
