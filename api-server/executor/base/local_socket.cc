#include "base/local_socket.h"

#include <pthread.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>

namespace outboard {

namespace {

sockaddr_un name_of(const char *kind, const LocalListener::Place &place, socklen_t *size) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const int length = snprintf(name.sun_path + 1, sizeof name.sun_path - 1,
                              "outboard-%s-%016" PRIx64 "%016" PRIx64, kind, place[0], place[1]);
  *size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(length));
  return name;
}

bool same_user(int connection) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.uid == geteuid();
}

}  // namespace

LocalListener::LocalListener(const char *kind, const char *thread, std::function<void(int)> serve)
    : kind_(kind), thread_(thread), serve_(std::move(serve)) {
  if (getrandom(place_.data(), sizeof place_, 0) != sizeof place_) place_ = {};
}

bool LocalListener::listen() {
  if (listening_) return true;
  if (place_[0] == 0 && place_[1] == 0) return false;  // there was no randomness for a name
  const int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (listener < 0) return false;
  socklen_t size;
  const sockaddr_un name = name_of(kind_, place_, &size);
  if (bind(listener, reinterpret_cast<const sockaddr *>(&name), size) < 0 ||
      ::listen(listener, 64) < 0) {
    close(listener);
    return false;
  }
  listening_ = true;
  std::thread([this, listener] {
    pthread_setname_np(pthread_self(), thread_);
    for (;;) {
      const int connection = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) continue;
      if (same_user(connection)) {
        serve_(connection);
      } else {
        close(connection);
      }
    }
  }).detach();
  return true;
}

int connect_local(const char *kind, const LocalListener::Place &place, int seconds) {
  const int connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (connection < 0) return -1;
  set_patience(connection, seconds);
  socklen_t size;
  const sockaddr_un name = name_of(kind, place, &size);
  if (connect(connection, reinterpret_cast<const sockaddr *>(&name), size) == 0 &&
      same_user(connection)) {
    return connection;
  }
  close(connection);
  return -1;
}

void set_patience(int connection, int seconds) {
  const timeval patience{.tv_sec = seconds, .tv_usec = 0};
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

bool send_message(int connection, const void *bytes, size_t size, int fd) {
  iovec part{const_cast<void *>(bytes), size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  return sendmsg(connection, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(size);
}

// As recvmsg returns. *fd is the descriptor that came with it, or -1.
static ssize_t receive(int connection, const iovec *parts, int count, int flags, int *fd) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = const_cast<iovec *>(parts);
  message.msg_iovlen = static_cast<size_t>(count);
  message.msg_control = control;
  // Not with the padding, in which a second one has room: nobody would close that.
  message.msg_controllen = CMSG_LEN(sizeof(int));
  const ssize_t got = recvmsg(connection, &message, flags | MSG_CMSG_CLOEXEC);
  *fd = -1;
  if (got < 0) return got;
  for (cmsghdr *h = CMSG_FIRSTHDR(&message); h; h = CMSG_NXTHDR(&message, h)) {
    if (h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS) {
      memcpy(fd, CMSG_DATA(h), sizeof *fd);
    }
  }
  return got;
}

bool receive_message(int connection, void *bytes, size_t size, int *fd) {
  int came;
  const iovec part{bytes, size};
  const bool whole = receive(connection, &part, 1, 0, &came) == static_cast<ssize_t>(size);
  if (whole && fd) {
    *fd = came;
  } else {
    close_fd(came);
  }
  return whole;
}

ssize_t receive_some(int connection, void *bytes, size_t size, int *fd) {
  const iovec part{bytes, size};
  return receive_parts(connection, &part, 1, MSG_DONTWAIT, fd);
}

ssize_t receive_parts(int connection, const iovec *parts, int count, int flags, int *fd) {
  int came;
  const ssize_t got = receive(connection, parts, count, flags, &came);
  if (came >= 0) close_fd(std::exchange(*fd, came));
  return got;
}

void close_fd(int fd) {
  if (fd >= 0) close(fd);
}

}  // namespace outboard
