#include "wire/sender.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>
#include <utility>

#include "wire/parts.h"

namespace outboard {

Sender::Sender(int fd, Counters &counters, Reconnection &reconnection, Records *records)
    : fd_(fd), counters_(counters), reconnection_(reconnection), records_(records) {
  wait_shortly();
  reconnection_.on_restart(
      [this](int fresh, uint64_t received, const Reconnection::Answer &answer, Records *records) {
        return restart(fresh, received, answer, records);
      });
  if (reconnection_.resumes() && !kept_begin(&kept_)) throw std::bad_alloc();
}

// A blocked send wakes up now and then, to see whether it should still wait.
void Sender::wait_shortly() {
  const timeval limit{.tv_sec = 0, .tv_usec = 500000};
  setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

void Sender::begin_anew(Records *records, Stream *stream) {
  std::lock_guard lock(mutex_);
  records_ = records;
  broken_ = false;
  silence_ = {};
  wait_shortly();
  if (!stream) return;
  std::swap(kept_, stream->kept);
  cut_ = stream->cut;
  cut_at_ = stream->cut_at;
}

// Held, unless whoever sends meanwhile does so for longer than a moment.
std::unique_lock<std::mutex> Sender::lock_soon() {
  constexpr int kLooks = 100;
  std::unique_lock lock(mutex_, std::try_to_lock);
  for (int i = 0; i < kLooks && !lock; i++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    lock.try_lock();
  }
  return lock;
}

size_t Sender::copy_kept(uint64_t *from, uint8_t *to, size_t most, bool alone) {
  const std::unique_lock lock = alone ? std::unique_lock(mutex_) : lock_soon();
  if (!lock) return 0;
  const uint64_t begin = kept_.sent - std::min<uint64_t>(kept_.sent, KEPT_BYTES);
  *from = std::max(*from, begin);
  size_t copied = 0;
  for (uint64_t at = *from; at < kept_.sent && copied < most;) {
    const uint8_t *run;
    const size_t size = std::min(kept_run(&kept_, at, &run), most - copied);
    memcpy(to + copied, run, size);
    copied += size;
    at += size;
  }
  return copied;
}

Sender::Stream Sender::stream() {
  std::lock_guard lock(mutex_);
  return {{nullptr, kept_.sent}, cut_, cut_at_};
}

uint64_t Sender::sent_so_far() {
  const std::unique_lock lock = lock_soon();
  return lock ? kept_.sent : 0;
}

void Sender::leave() {
  std::lock_guard lock(mutex_);
  broken_ = true;
}

// Who is gone has no need of it.
bool Sender::push_at_once(uint16_t op, void *frame, size_t size) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return false;
  *static_cast<wire_header *>(frame) = {op, 0, static_cast<uint32_t>(size)};
  const ssize_t sent = ::send(fd_, frame, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0) return errno != EAGAIN && errno != EWOULDBLOCK;
  return static_cast<size_t>(sent) == size;
}

Sender::~Sender() { kept_end(&kept_); }

bool Sender::send(iovec *parts, int count, int descriptor, const iovec *spent) {
  std::unique_lock lock(mutex_);
  if (broken_) return false;
  if (cut_) [[unlikely]] {
    await_room(lock);
    if (cut_) return keep_for_later(parts, count);
  }
  // Sealing changes what is spent, so all is kept before.
  const bool sealed = records_ != nullptr;
  if (sealed && kept_.ring) keep(parts, count, SIZE_MAX);
  if (sealed ? send_sealed(parts, count, spent) : send_rest(parts, count, descriptor)) return true;
  if (reconnection_.resumes() && !reconnection_.given_up()) {
    cut_ = true;
    cut_at_ = kept_.sent;
    return sealed || keep_for_later(parts, count);
  }
  broken_ = true;  // perhaps in the middle of a frame: nothing more can follow
  shutdown(fd_, SHUT_RDWR);
  return false;
}

// After an error of the socket: whether to call again.
bool Sender::goes_on() const {
  if (errno == EINTR) return true;
  return (errno == EAGAIN || errno == EWOULDBLOCK) && !hurried_.load(std::memory_order_relaxed);
}

// A descriptor never goes along: that takes a Unix socket, and TLS comes over none.
bool Sender::send_sealed(iovec *parts, int count, const iovec *spent) {
  for (int i = 0; i < count; i++) count_alone(counters_.bytes_out, parts[i].iov_len);
  for (advance(parts, count, 0); count > 0;) {
    const std::span<iovec> sealed = records_->seal(parts, count, spent);
    if (sealed.empty() || !send_records(sealed)) return false;
  }
  return true;
}

bool Sender::send_records(std::span<iovec> records) {
  iovec *parts = records.data();
  for (int count = static_cast<int>(records.size()); count > 0;) {
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = static_cast<size_t>(count);
    const ssize_t sent = sendmsg(fd_, &message, MSG_NOSIGNAL);
    if (sent >= 0) {
      advance(parts, count, static_cast<size_t>(sent));
    } else if (!goes_on() || silence_is_long(&silence_, fd_, limit_ms_)) {
      return false;
    }
  }
  return true;
}

// `parts` and `count` are what is left of them.
bool Sender::send_rest(iovec *&parts, int &count, int descriptor) {
  alignas(cmsghdr) char beside[CMSG_SPACE(sizeof descriptor)] = {};
  uint64_t total = 0;
  for (advance(parts, count, 0); count > 0;) {
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
      if (goes_on() && !silence_is_long(&silence_, fd_, limit_ms_)) continue;
      return false;
    }
    descriptor = -1;
    total += static_cast<uint64_t>(sent);
    const auto taken = static_cast<size_t>(sent);
    if (kept_.ring) keep(parts, count, taken);
    advance(parts, count, taken);
  }
  count_alone(counters_.bytes_out, total);
  return true;
}

void Sender::keep(const iovec *parts, int count, size_t size) {
  for (; count > 0 && size > 0; ++parts, --count) {
    const size_t part = std::min(size, parts->iov_len);
    kept_add(&kept_, parts->iov_base, part);
    size -= part;
  }
}

bool Sender::keep_for_later(iovec *parts, int count) {
  keep(parts, count, SIZE_MAX);
  return true;
}

// What is sent while the guest is away has half of what is kept; the other half is for what it had
// not received before. Who may not wait goes on, and where it is too much, the guest is not taken
// back.
void Sender::await_room(std::unique_lock<std::mutex> &lock) {
  constexpr auto kLook = std::chrono::milliseconds(100);
  while (cut_ && kept_.sent - cut_at_ > KEPT_BYTES / 2 && !reconnection_.given_up() && may_wait_())
    restarted_.wait_for(lock, kLook);
}

// What was counted before.
bool Sender::seal_again(const uint8_t *at, size_t size) {
  iovec part{const_cast<uint8_t *>(at), size}, *parts = &part;
  for (int count = 1; count > 0;) {
    const std::span<iovec> sealed = records_->seal(parts, count);
    if (sealed.empty() || !send_records(sealed)) return false;
  }
  return true;
}

bool Sender::send_again(const uint8_t *at, size_t size) {
  if (records_) return seal_again(at, size);
  while (size > 0) {
    const ssize_t sent = ::send(fd_, at, size, MSG_NOSIGNAL);
    if (sent >= 0) {
      at += sent;
      size -= static_cast<size_t>(sent);
    } else if (!goes_on() || silence_is_long(&silence_, fd_, limit_ms_)) {
      return false;
    }
  }
  return true;
}

bool Sender::restart(int fd, uint64_t received, const Reconnection::Answer &answer,
                     Records *records) {
  std::lock_guard lock(mutex_);
  if (broken_ || !kept_reaches(&kept_, received)) {
    reconnection_.give_up();
    return false;
  }
  // Nobody sends, and who else has the number waits for what comes.
  for (const int option : {SO_SNDTIMEO, SO_RCVTIMEO}) {
    timeval limit;
    socklen_t size = sizeof limit;
    if (getsockopt(fd_, SOL_SOCKET, option, &limit, &size) == 0)
      setsockopt(fd, SOL_SOCKET, option, &limit, size);
  }
  if (dup3(fd, fd_, O_CLOEXEC) < 0) return false;
  records_ = records;
  silence_ = {};
  if (!cut_) cut_at_ = kept_.sent;
  cut_ = true;
  // Where that fails it is cut again, as whoever reads will find out.
  bool whole = send_again(answer.data(), answer.size());
  while (whole && received < kept_.sent) {
    const uint8_t *run;
    const size_t size = kept_run(&kept_, received, &run);
    whole = send_again(run, size);
    received += size;
  }
  if (!whole) return true;
  cut_ = false;
  restarted_.notify_all();
  return true;
}

bool Sender::push(uint16_t op, void *frame, size_t size, const void *payload, size_t length,
                  bool spent) {
  const size_t padding = -length & 7;
  *static_cast<wire_header *>(frame) = {op, 0, static_cast<uint32_t>(size + length + padding)};
  iovec parts[3] = {{frame, size},
                    {const_cast<void *>(payload), length},
                    {const_cast<uint8_t *>(kPadding), padding}};
  return send(parts, length == 0 ? 1 : padding == 0 ? 2 : 3, -1, spent ? &parts[1] : nullptr);
}

}  // namespace outboard
