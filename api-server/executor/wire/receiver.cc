#include "wire/receiver.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/error.h"
#include "base/local_socket.h"

namespace outboard {

void Receiver::Free::operator()(uint8_t *p) const { free(p); }

Receiver::Receiver(int fd, std::span<const uint8_t> leftover, Counters &counters,
                   Reconnection &reconnection, Records *records)
    : fd_(fd),
      reconnection_(reconnection),
      records_(records),
      received_(leftover.size()),
      counters_(counters) {
  if (leftover.size() > kSize) {
    throw Error("OB_INTERNAL", "more bytes arrived before the session than a guest may send");
  }
  buffer_.reset(static_cast<uint8_t *>(aligned_alloc(64, kSize)));
  if (!buffer_) throw std::bad_alloc();
  if (!leftover.empty()) memcpy(buffer_.get(), leftover.data(), leftover.size());
  tail_ = leftover.size();
  wait_shortly();
}

Receiver::~Receiver() { close_fd(descriptor_); }

// A wait looks up now and then, to see whether there is still a network.
void Receiver::wait_shortly() {
  const int look = silence_look_ms(limit_ms_);
  const timeval limit{.tv_sec = look / 1000, .tv_usec = look % 1000 * 1000};
  setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

// After a call that waits: whether to call again, on another connection where the guest has come
// back. ETIMEDOUT when the network is given up.
bool Receiver::goes_on(ssize_t got) {
  if (got > 0) return false;
  if (got < 0) {
    if (errno == EINTR) {
      interrupted_ = interrupt_ && interrupt_->load();
      return !interrupted_;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!silence_is_long(&silence_, fd_, limit_ms_)) return true;
      errno = ETIMEDOUT;
    }
  }
  const int error = got < 0 ? errno : ENOTCONN;
  if (!reconnection_.await(received_, error, interrupt_, &interrupted_)) {
    away_ = interrupted_;
    return false;
  }
  away_ = false;
  silence_ = {};
  return true;
}

void Receiver::arrived(ssize_t got) {
  received_ += static_cast<uint64_t>(got);
  count_alone(counters_.bytes_in, static_cast<uint64_t>(got));
}

// A frame moves only when it does not fit behind what was consumed.
void Receiver::make_room(size_t need) {
  if (head_ == tail_) {
    head_ = tail_ = 0;
  } else if (head_ + need > kSize) {
    memmove(buffer_.get(), data(), available());
    tail_ -= head_;
    head_ = 0;
  }
}

// Of the connection's bytes, in the clear.
ssize_t Receiver::take(const iovec *parts, int count, int flags) {
  if (records_) return records_->receive(fd_, parts, count, flags);
  if (collects_) [[unlikely]]
    return receive_parts(fd_, parts, count, flags, &descriptor_);
  if (count == 1) return recv(fd_, parts->iov_base, parts->iov_len, flags);
  msghdr message{};
  message.msg_iov = const_cast<iovec *>(parts);
  message.msg_iovlen = static_cast<size_t>(count);
  return recvmsg(fd_, &message, flags);
}

bool Receiver::receive(int flags) {
  const size_t space = std::min(kSize - tail_, space_);
  if (!spilled_.empty()) [[unlikely]] {
    tail_ += take_spilled(buffer_.get() + tail_, space);
    return true;
  }
  const iovec part{buffer_.get() + tail_, space};
  ssize_t got;
  do {
    got = take(&part, 1, flags);
  } while (flags & MSG_DONTWAIT ? got < 0 && errno == EINTR : goes_on(got));
  if (got == 0) errno = ENOTCONN;
  if (got <= 0) return false;
  space_ = kSize;
  tail_ += static_cast<size_t>(got);
  arrived(got);
  return true;
}

bool Receiver::fill(size_t need) {
  make_room(need);
  while (available() < need) {
    if (!receive(0)) return false;
  }
  return true;
}

bool Receiver::fill(size_t need, const std::atomic<bool> &interrupt) {
  interrupted_ = false;
  interrupt_ = &interrupt;
  const bool filled = fill(need);
  interrupt_ = nullptr;
  return filled;
}

bool Receiver::nothing_readable() {
  make_room(kFrameSpace);
  return !receive(MSG_DONTWAIT) && (errno == EAGAIN || errno == EWOULDBLOCK);
}

size_t Receiver::take_spilled(uint8_t *to, size_t most) {
  const size_t size = std::min(most, spilled_.size() - unspilled_);
  memcpy(to, spilled_.data() + unspilled_, size);
  unspilled_ += size;
  if (unspilled_ == spilled_.size()) {
    std::vector<uint8_t>().swap(spilled_);
    unspilled_ = 0;
  }
  return size;
}

bool Receiver::read_ahead() {
  if (tail_ < kSize && spilled_.empty())
    return receive(MSG_DONTWAIT) || errno == EAGAIN || errno == EWOULDBLOCK;
  const size_t before = spilled_.size();
  if (!has_room()) return false;
  spilled_.resize(before + kSize);
  const iovec part{spilled_.data() + before, kSize};
  ssize_t got;
  do {
    got = take(&part, 1, MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  const bool none = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  spilled_.resize(before + (got > 0 ? static_cast<size_t>(got) : 0));
  if (got > 0) arrived(got);
  return got > 0 || none;
}

bool Receiver::look_ahead(size_t offset, void *to, size_t size) const {
  const size_t spilled = spilled_.size() - unspilled_;
  if (offset > available() + spilled || size > available() + spilled - offset) return false;
  auto *at = static_cast<uint8_t *>(to);
  const size_t here = offset < available() ? std::min(size, available() - offset) : 0;
  if (here) memcpy(at, data() + offset, here);
  if (here < size)
    memcpy(at + here, spilled_.data() + unspilled_ + (offset + here - available()), size - here);
  return true;
}

void Receiver::shorten(size_t offset, const void *bytes, size_t fixed, size_t size) {
  const auto *from = static_cast<const uint8_t *>(bytes);
  for (size_t at = offset; at < offset + fixed; at++) {
    uint8_t &byte =
        at < available() ? buffer_.get()[head_ + at] : spilled_[unspilled_ + at - available()];
    byte = *from++;
  }
  size_t left = size - fixed;
  const size_t rest = offset + fixed;
  if (rest < available()) {
    uint8_t *const to = buffer_.get() + head_ + rest;
    const size_t here = std::min(left, available() - rest);
    memmove(to, to + here, available() - rest - here);
    tail_ -= here;
    left -= here;
  }
  if (left == 0) return;
  const auto first = spilled_.begin() + static_cast<ptrdiff_t>(unspilled_ + rest - available());
  spilled_.erase(first, first + static_cast<ptrdiff_t>(left));
  if (unspilled_ < spilled_.size()) return;
  spilled_.clear();
  unspilled_ = 0;
}

std::vector<uint8_t> Receiver::unread() const {
  std::vector<uint8_t> bytes(data(), data() + available());
  bytes.insert(bytes.end(), spilled_.begin() + static_cast<ptrdiff_t>(unspilled_), spilled_.end());
  if (records_) {
    const std::span<const uint8_t> opened = records_->opened();
    bytes.insert(bytes.end(), opened.begin(), opened.end());
  }
  return bytes;
}

void Receiver::begin_anew(uint64_t received, std::vector<uint8_t> unread, Records *records) {
  records_ = records;
  received_ = received;
  collects_ = false;
  head_ = 0;
  tail_ = std::min(unread.size(), kSize);
  if (tail_ > 0) memcpy(buffer_.get(), unread.data(), tail_);
  spilled_ = std::move(unread);
  unspilled_ = tail_;
  if (unspilled_ == spilled_.size()) {
    std::vector<uint8_t>().swap(spilled_);
    unspilled_ = 0;
  }
  space_ = kSize;
  silence_ = {};
  wait_shortly();
}

bool Receiver::payload(void *to, size_t length, size_t padded) {
  auto *at = static_cast<uint8_t *>(to);
  const size_t here = std::min(available(), padded);
  if (here > 0) memcpy(at, data(), here);  // of nothing, `to` may be null
  consume(here);
  size_t left = padded - here;
  if (left == 0) return true;
  // The buffer is empty now. What follows the payload lands in it with the same call.
  at += here;
  head_ = tail_ = 0;
  if (!spilled_.empty()) [[unlikely]] {
    const size_t taken = take_spilled(at, left);
    at += taken;
    left -= taken;
    if (left == 0) return true;
  }
  const size_t beyond = length >= kLargePayload ? kAfterBulk : kSize;
  while (left > 0) {
    const iovec parts[2] = {{at, left}, {buffer_.get(), beyond}};
    const ssize_t got = take(parts, 2, 0);
    if (goes_on(got)) continue;
    if (got == 0) errno = ENOTCONN;
    if (got <= 0) return false;
    arrived(got);
    const size_t mine = std::min(left, static_cast<size_t>(got));
    at += mine;
    left -= mine;
    tail_ = static_cast<size_t>(got) - mine;
  }
  if (tail_ == 0) space_ = beyond;
  return true;
}

bool Receiver::discard(size_t bytes) {
  while (bytes > 0) {
    const size_t here = std::min(available(), bytes);
    consume(here);
    bytes -= here;
    if (bytes > 0 && !fill(1)) return false;
  }
  return true;
}

}  // namespace outboard
