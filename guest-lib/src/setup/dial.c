#include "setup/dial.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "abi_descriptor.h"
#include "setup/clock.h"
#include "setup/log.h"
#include "setup/wait.h"

// A full backlog makes a connect that does not block fail at once, so this one blocks.
static int connect_path(const char *path, int64_t deadline) {
  int64_t left = deadline - clock_ms();
  if (left < 1) left = 1;
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strcpy(address.sun_path, path);
  int fd = descriptor_above(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
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

static int connect_address(const struct addrinfo *address, int64_t deadline, int silence_s) {
  int fd =
      descriptor_above(socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
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
  // A server that vanished without a word is noticed while nothing is on its way, too.
  int idle = silence_s > 1 ? silence_s / 2 : 1, interval = silence_s > 5 ? silence_s / 6 : 1;
  int count = 3;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
  return fd;
}

static const char advice[] = "Is `outboard serve` running there?";

// The socket, or the negative of an errno value after logging what was tried; -EINTR: a signal
// ended the wait, of which nothing is logged.
static int connect_server(const struct server_name *server, int64_t deadline, int silence_s) {
  if (!*server->port) {
    int fd = connect_path(server->host, deadline);
    if (fd < 0) log_error("no connection to unix:%s: %s. %s", server->host, strerror(-fd), advice);
    return fd;
  }
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
  int status = getaddrinfo(server->host, server->port, &hints, &found);
  if (status != 0) {
    log_error("server %s:%s cannot be found: %s", server->host, server->port, gai_strerror(status));
    return -ENOENT;
  }
  int fd = -ENOENT;
  for (struct addrinfo *a = found; a && fd < 0 && fd != -EINTR; a = a->ai_next) {
    fd = connect_address(a, deadline, silence_s);
    if (fd < 0 && fd != -EINTR)
      log_error("no connection to %s:%s: %s. %s", server->host, server->port, strerror(-fd),
                advice);
  }
  freeaddrinfo(found);
  return fd;
}

int dial(const struct config *config, const struct server_name **which, struct tls **tls) {
  int64_t begin = clock_ms();
  for (int i = 0; i < config->server_count; i++) {
    // Each server has its part of the time, so that one that is silent leaves some to the others.
    int64_t deadline = begin + (int64_t)config->connect_timeout_ms * (i + 1) / config->server_count;
    const struct server_name *server = &config->servers[i];
    int fd = connect_server(server, deadline, (int)config->network_timeout_ms / 1000);
    *tls = NULL;
    int error = 0;
    if (fd >= 0 && server->tls && !(*tls = tls_open(fd, server, config, deadline, &error))) {
      close(fd);
      fd = -error;
    }
    if (fd >= 0) *which = server;
    if (fd >= 0 || fd == -EINTR) return fd;
  }
  return -ENOTCONN;
}

static int write_plain(int fd, const char *at, size_t size, int64_t deadline) {
  while (size) {
    int error = wait_for(fd, POLLOUT, deadline);
    if (error) return error;
    ssize_t sent = send(fd, at, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR || errno == EAGAIN) continue;
      return errno;
    }
    at += sent;
    size -= (size_t)sent;
  }
  return 0;
}

int dial_write(int fd, struct tls *tls, const void *bytes, size_t size, int timeout_ms) {
  const int64_t deadline = clock_ms() + timeout_ms;
  if (!tls) return write_plain(fd, bytes, size, deadline);
  struct iovec part = {(void *)(uintptr_t)bytes, size}, *parts = &part;
  int count = size != 0, error = 0;
  while (count && !error) {
    _Bool unreadable = 0;
    struct iovec *records;
    const int sealed = tls_seal(tls, &parts, &count, part.iov_base, &unreadable, NULL, &records);
    if (!sealed) error = EPROTO;
    for (int i = 0; i < sealed && !error; i++)
      error = write_plain(fd, records[i].iov_base, records[i].iov_len, deadline);
  }
  return error;
}

// As recv.
static ssize_t receive(int fd, struct tls *tls, void *to, size_t size) {
  if (!tls) return recv(fd, to, size, MSG_DONTWAIT);
  const uint8_t *at;
  ssize_t got = tls_receive(tls, fd, MSG_DONTWAIT, &at);
  if (got <= 0) return got;
  if ((size_t)got > size) got = (ssize_t)size;
  memcpy(to, at, (size_t)got);
  tls_took(tls, (size_t)got);
  return got;
}

int dial_read(int fd, struct tls *tls, void *bytes, size_t size, int timeout_ms) {
  int64_t deadline = timeout_ms < 0 ? -1 : clock_ms() + timeout_ms;
  char *at = bytes;
  while (size) {
    int error = tls && tls_has(tls) ? 0 : wait_for(fd, POLLIN, deadline);
    if (error) return error;
    ssize_t got = receive(fd, tls, at, size);
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
