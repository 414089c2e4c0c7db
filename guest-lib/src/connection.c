#include "connection.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "answer.h"
#include "log.h"

int connection_fd = -1;

// An eventfd that ends the wait of a sender, and whether one waits. There is one sender at a time.
static int reader_left = -1;
static _Atomic _Bool send_waits;

static int64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

// 0, or an errno value.
static int wait_for(int fd, short events, int64_t deadline) {
  for (;;) {
    int64_t left = deadline - now_ms();
    if (left < 0) left = 0;
    struct pollfd p = {.fd = fd, .events = events};
    int ready = poll(&p, 1, (int)left);
    if (ready > 0) return 0;
    if (ready == 0) return ETIMEDOUT;
    if (errno != EINTR) return errno;
  }
}

// A full backlog makes a connect that does not block fail at once, so this one blocks.
static int connect_path(const char *path, int64_t deadline) {
  int64_t left = deadline - now_ms();
  if (left < 1) left = 1;
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strcpy(address.sun_path, path);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -errno;
  struct timeval limit = {.tv_sec = left / 1000, .tv_usec = left % 1000 * 1000};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  int status;
  do status = connect(fd, (struct sockaddr *)&address, sizeof address);
  while (status != 0 && errno == EINTR);
  if (status != 0) {
    int error = errno == EAGAIN ? ETIMEDOUT : errno;
    close(fd);
    return -error;
  }
  limit = (struct timeval){0};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  return fd;
}

static int connect_address(const struct addrinfo *address, int64_t deadline) {
  int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -errno;
  int error = 0;
  if (connect(fd, address->ai_addr, address->ai_addrlen) != 0) {
    error = errno;
    if (error == EINPROGRESS) {
      error = wait_for(fd, POLLOUT, deadline);
      socklen_t size = sizeof error;
      if (error == 0) getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    }
  }
  if (error) {
    close(fd);
    return -error;
  }
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  // A server that vanished without a word is noticed within a minute or so.
  int idle = 30, interval = 10, count = 3;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
  return fd;
}

int connection_adopt(int fd) {
  if (reader_left < 0) reader_left = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (reader_left < 0) return errno;
  connection_fd = fd;
  return 0;
}

void connection_reader_left(void) {
  if (atomic_load(&send_waits)) eventfd_write(reader_left, 1);
}

static const char advice[] = "Is `outboard serve` running there?";

// The socket, or -1 after logging what was tried.
static int connect_server(const struct server_name *server, int64_t deadline) {
  if (!*server->port) {
    int fd = connect_path(server->host, deadline);
    if (fd < 0) log_error("no connection to unix:%s: %s. %s", server->host, strerror(-fd), advice);
    return fd < 0 ? -1 : fd;
  }
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
  int status = getaddrinfo(server->host, server->port, &hints, &found);
  if (status != 0) {
    log_error("server %s:%s cannot be found: %s", server->host, server->port, gai_strerror(status));
    return -1;
  }
  int fd = -1;
  for (struct addrinfo *a = found; a && fd < 0; a = a->ai_next) {
    fd = connect_address(a, deadline);
    if (fd < 0)
      log_error("no connection to %s:%s: %s. %s", server->host, server->port, strerror(-fd),
                advice);
  }
  freeaddrinfo(found);
  return fd < 0 ? -1 : fd;
}

int connection_open(const struct config *config) {
  int64_t begin = now_ms();
  for (int i = 0; i < config->server_count; i++) {
    // Each server has its part of the time, so that one that is silent leaves some to the others.
    int64_t deadline = begin + (int64_t)config->connect_timeout_ms * (i + 1) / config->server_count;
    const struct server_name *server = &config->servers[i];
    int fd = connect_server(server, deadline);
    if (fd < 0) continue;
    int error = connection_adopt(fd);
    if (error) {
      log_error("no file descriptor is left: %s", strerror(error));
      close(fd);
      return -1;
    }
    log_info("connected to %s:%s", *server->port ? server->host : "unix",
             *server->port ? server->port : server->host);
    return 0;
  }
  return -1;
}

void connection_close(void) {
  if (connection_fd >= 0) close(connection_fd);
  connection_fd = -1;
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
  struct pollfd polled[2] = {{.fd = connection_fd, .events = POLLOUT | POLLIN},
                             {.fd = reader_left, .events = POLLIN}};
  if (poll(polled, 1, -1) < 0) return errno == EINTR ? 0 : errno;
  if (polled[0].revents & POLLOUT || !(polled[0].revents & POLLIN) || answer_poll()) return 0;
  // Another thread reads, so only room for more output is of interest here, until it stops: the
  // server may take nothing before it has got rid of what it sends.
  polled[0].events = POLLOUT;
  atomic_store(&send_waits, 1);
  int error = 0;
  if (answer_is_being_read() && poll(polled, 2, -1) < 0 && errno != EINTR) error = errno;
  atomic_store(&send_waits, 0);
  eventfd_t count;
  eventfd_read(reader_left, &count);
  return error;
}

int connection_send(struct iovec *parts, int count) {
  int unreadable = 0;
  while (count) {
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
    ssize_t sent = sendmsg(connection_fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      advance(&parts, &count, (size_t)sent);
      continue;
    }
    switch (errno) {
      case EINTR:
        continue;
      case EFAULT: {
        // The frame's header may be out already, so its length must be kept.
        unreadable = 1;
        size_t chunk = parts->iov_len < sizeof zeros ? parts->iov_len : sizeof zeros;
        sent = send(connection_fd, zeros, chunk, MSG_DONTWAIT | MSG_NOSIGNAL);
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
  int64_t deadline = now_ms() + timeout_ms;
  const char *at = bytes;
  while (size) {
    int error = wait_for(connection_fd, POLLOUT, deadline);
    if (error) return error;
    ssize_t sent = send(connection_fd, at, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR || errno == EAGAIN) continue;
      return errno;
    }
    at += sent;
    size -= (size_t)sent;
  }
  return 0;
}

int connection_read(void *bytes, size_t size, int timeout_ms) {
  int64_t deadline = now_ms() + timeout_ms;
  char *at = bytes;
  while (size) {
    int error = timeout_ms < 0 ? 0 : wait_for(connection_fd, POLLIN, deadline);
    if (error) return error;
    ssize_t got = recv(connection_fd, at, size, timeout_ms < 0 ? 0 : MSG_DONTWAIT);
    if (got == 0) return ECONNRESET;
    if (got < 0) {
      if (errno == EINTR || errno == EAGAIN) continue;
      return errno;
    }
    at += got;
    size -= (size_t)got;
  }
  return 0;
}
