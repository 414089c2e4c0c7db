#include "wire/sender.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace outboard {

Sender::Sender(int fd, Counters &counters) : fd_(fd), counters_(counters) { wait_shortly(); }

// A blocked send wakes up now and then, to see whether it should still wait.
void Sender::wait_shortly() {
  const timeval limit{.tv_sec = 0, .tv_usec = 500000};
  setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

void Sender::begin_anew() {
  std::lock_guard lock(mutex_);
  broken_ = false;
  silence_ = {};
  wait_shortly();
}

void Sender::leave() {
  std::lock_guard lock(mutex_);
  broken_ = true;
}

bool Sender::send(iovec *parts, int count, int descriptor) {
  std::lock_guard lock(mutex_);
  if (broken_) return false;
  if (!send_rest(parts, count, descriptor)) {
    broken_ = true;  // perhaps in the middle of a frame: nothing more can follow
    shutdown(fd_, SHUT_RDWR);
  }
  return !broken_;
}

bool Sender::send_rest(iovec *parts, int count, int descriptor) {
  alignas(cmsghdr) char beside[CMSG_SPACE(sizeof descriptor)] = {};
  uint64_t total = 0;
  while (count > 0) {
    if (parts->iov_len == 0) {
      ++parts;
      --count;
      continue;
    }
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = static_cast<size_t>(count);
    if (descriptor >= 0) [[unlikely]] {
      message.msg_control = beside;
      message.msg_controllen = sizeof beside;
      cmsghdr *head = CMSG_FIRSTHDR(&message);
      *head = {CMSG_LEN(sizeof descriptor), SOL_SOCKET, SCM_RIGHTS};
      memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
    }
    const ssize_t sent = count == 1 && descriptor < 0
                             ? ::send(fd_, parts->iov_base, parts->iov_len, MSG_NOSIGNAL)
                             : sendmsg(fd_, &message, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if ((errno == EAGAIN || errno == EWOULDBLOCK) && !hurried_.load(std::memory_order_relaxed) &&
          !silence_is_long(&silence_, fd_, limit_ms_)) {
        continue;
      }
      return false;
    }
    descriptor = -1;
    total += static_cast<uint64_t>(sent);
    size_t taken = static_cast<size_t>(sent);
    while (count > 0 && taken >= parts->iov_len) {
      taken -= parts->iov_len;
      ++parts;
      --count;
    }
    if (count > 0) {
      parts->iov_base = static_cast<uint8_t *>(parts->iov_base) + taken;
      parts->iov_len -= taken;
    }
  }
  count_alone(counters_.bytes_out, total);
  return true;
}

bool Sender::push(uint16_t op, void *frame, size_t size, const void *payload, size_t length) {
  const size_t padding = -length & 7;
  *static_cast<wire_header *>(frame) = {op, 0, static_cast<uint32_t>(size + length + padding)};
  iovec parts[3] = {{frame, size},
                    {const_cast<void *>(payload), length},
                    {const_cast<uint8_t *>(kPadding), padding}};
  return send(parts, length == 0 ? 1 : padding == 0 ? 2 : 3);
}

}  // namespace outboard
