#include "wire/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "abi_descriptor.h"
#include "setup/dial.h"
#include "setup/log.h"
#include "silence.h"
#include "wire/answer.h"
#include "wire/comeback.h"
#include "wire/decode.h"
#include "wire/region.h"

struct connection {
  // An eventfd, one more than its number, that ends the wait of a sender, and whether one waits.
  // There is one sender at a time.
  int reader_left;
  _Atomic _Bool awaited;
  // Whoever waits looks, and several threads may wait for one session.
  struct silence silence;
  pthread_mutex_t silence_lock;
  struct tls *tls;              // or NULL
  struct descriptor_mark mark;  // of the socket
};
static int limit_ms = 60000;  // as it was when there was one thread

_Bool connection_make(struct session *session) {
  if (session->connection) return 1;
  if (!session_part(session->connection)) return 0;
  pthread_mutex_init(&session->connection->silence_lock, NULL);
  return 1;
}

int connection_adopt(struct session *session, int fd) {
  struct connection *connection = session->connection;
  if (!connection->reader_left)
    connection->reader_left = 1 + descriptor_above(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!connection->reader_left) return errno;
  session->socket = 1 + fd;
  connection->mark = descriptor_mark_of(fd);
  return 0;
}

_Bool connection_is_there(const struct session *session) {
  return session->socket && descriptor_is(connection_fd(session), session->connection->mark);
}

void connection_reader_left(struct session *session) {
  struct connection *connection = session->connection;
  if (atomic_load(&connection->awaited)) eventfd_write(connection->reader_left - 1, 1);
}

static struct server_name connected;

const struct server_name *connection_server(void) { return &connected; }

int connection_open(struct session *session, const struct config *config) {
  const struct server_name *server;
  struct tls *tls;
  int fd = dial(config, &server, &tls);
  if (fd < 0) return -fd;
  int error = connection_adopt(session, fd);
  if (error) {
    log_error("no file descriptor is left: %s", strerror(error));
    tls_close(tls);
    close(fd);
    return error;
  }
  session->connection->tls = tls;
  connected = *server;
  limit_ms = (int)config->network_timeout_ms;
  char where[SERVER_TEXT];
  server_write(server, where);
  log_info("connected to %s", where);
  return 0;
}

void connection_close_of(struct session *session) {
  if (!session->socket) return;
  comeback_goodbye(session);
  close(connection_fd(session));
  session->socket = 0;
  tls_close(session->connection->tls);
  session->connection->tls = NULL;
}

void connection_begin_anew(struct session *session) {
  struct connection *connection = session->connection;
  pthread_mutex_lock(&connection->silence_lock);
  connection->silence = (struct silence){0};
  pthread_mutex_unlock(&connection->silence_lock);
}

void connection_close(void) {
  for (struct session *session = sessions; session < sessions + SESSIONS_MAX; session++)
    connection_close_of(session);
}

void connection_shut_down(void) {
  for (struct session *session = sessions; session < sessions + SESSIONS_MAX; session++)
    if (session->socket) shutdown(connection_fd(session), SHUT_RDWR);
}

_Bool connection_is_silent(struct session *session) {
  pthread_mutex_lock(&session->connection->silence_lock);
  _Bool silent = silence_is_long(&session->connection->silence, connection_fd(session), limit_ms);
  pthread_mutex_unlock(&session->connection->silence_lock);
  return silent;
}

int connection_look_ms(void) { return silence_look_ms(limit_ms); }

void connection_watch(struct session *session) {
  int look = connection_look_ms();
  struct timeval limit = {.tv_sec = look / 1000, .tv_usec = look % 1000 * 1000};
  // Not one of a Unix socket, whose other end is on this machine. Each session has a server of its
  // own.
  int domain = AF_UNIX;
  socklen_t size = sizeof domain;
  getsockopt(connection_fd(session), SOL_SOCKET, SO_DOMAIN, &domain, &size);
  if (domain != AF_UNIX)
    setsockopt(connection_fd(session), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
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
static int wait_to_send(struct session *session) {
  struct connection *connection = session->connection;
  struct pollfd polled[2] = {{.fd = connection_fd(session), .events = POLLOUT | POLLIN},
                             {.fd = connection->reader_left - 1, .events = POLLIN}};
  int ready = poll(polled, 1, connection_look_ms());
  if (ready < 0) return errno == EINTR ? 0 : errno;
  if (ready == 0) return connection_is_silent(session) ? ETIMEDOUT : 0;
  if (polled[0].revents & POLLOUT || !(polled[0].revents & POLLIN) || answer_poll(session))
    return 0;
  // Another thread reads, so only room for more output is of interest here, until it stops: the
  // server may take nothing before it has got rid of what it sends.
  polled[0].events = POLLOUT;
  atomic_store(&connection->awaited, 1);
  int error = 0;
  if (answer_is_being_read(session)) {
    ready = poll(polled, 2, connection_look_ms());
    if (ready < 0 && errno != EINTR) error = errno;
    if (ready == 0 && connection_is_silent(session)) error = ETIMEDOUT;
  }
  atomic_store(&connection->awaited, 0);
  eventfd_t count;
  eventfd_read(connection->reader_left - 1, &count);
  return error;
}

// All records, whatever the socket takes at a time. 0, or an errno value.
static int send_records(struct session *session, struct iovec *records, int count) {
  while (count) {
    struct msghdr message = {.msg_iov = records, .msg_iovlen = (size_t)count};
    ssize_t sent = sendmsg(connection_fd(session), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      advance(&records, &count, (size_t)sent);
      continue;
    }
    if (errno == EINTR) continue;
    int error = errno == EAGAIN ? wait_to_send(session) : errno;
    if (error) return error;
  }
  return 0;
}

static int send_sealed(struct session *session, struct iovec *parts, int count) {
  const void *ours = parts->iov_base;  // the batch
  const struct iovec *const first = parts;
  _Bool unreadable = 0;
  while (count) {
    if (parts == first) ours = parts->iov_base;
    struct iovec *records;
    int sealed = tls_seal(session->connection->tls, &parts, &count, ours, &unreadable,
                          comeback_keeps(session), &records);
    int error = sealed ? send_records(session, records, sealed) : EPROTO;
    // What was sealed is kept, so it is sent again with other keys.
    if (error && !comeback_await(session)) return error;
  }
  return unreadable ? EFAULT : 0;
}

static int send_plain(struct session *session, struct iovec *parts, int count) {
  int unreadable = 0;
  while (count) {
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
    ssize_t sent = sendmsg(connection_fd(session), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      if (session->comeback) comeback_keep(session, parts, count, (size_t)sent);
      advance(&parts, &count, (size_t)sent);
      continue;
    }
    int error = errno;
    if (error == EFAULT) {
      // What of the message can be read goes out as it is: the frame's header, or it is out
      // already. So its length must be kept.
      unreadable = 1;
      struct iovec part = *parts;
      sent = send(connection_fd(session), part.iov_base, part.iov_len, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent < 0 && errno == EFAULT) {
        part.iov_base = (void *)(uintptr_t)zeros;
        if (part.iov_len > sizeof zeros) part.iov_len = sizeof zeros;
        sent =
            send(connection_fd(session), part.iov_base, part.iov_len, MSG_DONTWAIT | MSG_NOSIGNAL);
      }
      if (sent >= 0) {
        if (session->comeback) comeback_keep(session, &part, 1, (size_t)sent);
        advance(&parts, &count, (size_t)sent);
        continue;
      }
      error = errno;
    }
    if (error == EINTR) continue;
    if (error == EAGAIN) error = wait_to_send(session);
    if (error && !comeback_await(session)) return error;
  }
  return unreadable ? EFAULT : 0;
}

int connection_send(struct session *session, struct iovec *parts, int count) {
  int (*send)(struct session *, struct iovec *, int) =
      session->connection->tls ? send_sealed : send_plain;
  if (!session->comeback) return send(session, parts, count);
  int error = comeback_begin_sending(session);
  if (error) return error;
  error = send(session, parts, count);
  comeback_end_sending(session);
  return error;
}

int connection_replace(struct session *session, int fd, struct tls *tls) {
  int error = connection_is_there(session) ? 0 : EBADF;
  if (!error && dup3(fd, connection_fd(session), O_CLOEXEC) < 0) error = errno;
  close(fd);
  if (error) {
    tls_close(tls);
    return error;
  }
  tls_close(session->connection->tls);
  session->connection->tls = tls;
  session->connection->mark = descriptor_mark_of(connection_fd(session));
  connection_begin_anew(session);
  connection_watch(session);
  return 0;
}

static int seal_kept(struct session *session, const uint8_t *run, size_t size) {
  struct iovec part = {.iov_base = (void *)(uintptr_t)run, .iov_len = size}, *parts = &part;
  int count = 1, error = 0;
  for (_Bool unreadable; count && !error;) {
    struct iovec *records;
    int sealed = tls_seal(session->connection->tls, &parts, &count, part.iov_base, &unreadable,
                          NULL, &records);
    error = sealed ? send_records(session, records, sealed) : EPROTO;
  }
  return error;
}

int connection_send_kept(struct session *session, uint64_t from) {
  const uint8_t *run;
  size_t size;
  while ((size = comeback_kept(session, from, &run))) {
    if (session->connection->tls) {
      int error = seal_kept(session, run, size);
      if (error) return error;
      from += size;
      continue;
    }
    ssize_t sent = send(connection_fd(session), run, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      from += (uint64_t)sent;
      continue;
    }
    int error = errno == EINTR ? 0 : errno == EAGAIN ? wait_to_send(session) : errno;
    if (error) return error;
  }
  return 0;
}

void connection_send_now(struct session *session, const void *bytes, size_t size) {
  struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size}, *parts = &part;
  struct iovec *sent = parts;
  int count = 1;
  if (session->connection->tls) {
    _Bool unreadable;
    count = tls_seal(session->connection->tls, &parts, &count, bytes, &unreadable, NULL, &sent);
  }
  struct msghdr message = {.msg_iov = sent, .msg_iovlen = (size_t)count};
  if (count) sendmsg(connection_fd(session), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

int connection_write(struct session *session, const void *bytes, size_t size, int timeout_ms) {
  return dial_write(connection_fd(session), session->connection->tls, bytes, size, timeout_ms);
}

int connection_read(struct session *session, void *bytes, size_t size, int timeout_ms) {
  return dial_read(connection_fd(session), session->connection->tls, bytes, size, timeout_ms);
}

_Bool connection_has_more(struct session *session) {
  struct tls *tls = session->connection->tls;
  return tls && tls_has(tls);
}

ssize_t connection_receive(struct session *session, struct decode *decode, int flags) {
  struct tls *tls = session->connection->tls;
  size_t size;
  void *to = decode_want(decode, &size);
  if (!size) return 0;
  if (!tls) {
    ssize_t got = region_receive(session, connection_fd(session), to, size, flags);
    if (got > 0 && session->comeback) comeback_received(session, (size_t)got);
    return got;
  }
  const uint8_t *at;
  ssize_t got = tls_receive(tls, connection_fd(session), flags, &at);
  if (got <= 0) return got;
  if ((size_t)got > size) got = (ssize_t)size;
  if (!decode_put(decode, at, (size_t)got, tls_ahead(tls))) {
    errno = EFAULT;
    return -1;
  }
  tls_took(tls, (size_t)got);
  if (session->comeback) comeback_received(session, (size_t)got);
  return got;
}
