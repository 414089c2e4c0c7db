#include "wire/move_link.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/local_socket.h"
#include "wire/parts.h"

namespace outboard {

namespace {

// How often who waits looks up.
constexpr int kLookMilliseconds = 200;
// Answers are no longer than frames.
constexpr size_t kMostAnswer = 256 << 10;

constexpr char kGone[] = "the process that it was to move to has ended";

}  // namespace

MoveLink::MoveLink(int fd, std::function<bool()> stop, std::chrono::milliseconds patience)
    : fd_(fd), stop_(std::move(stop)), patience_(patience) {
  fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) | O_NONBLOCK);
}

MoveLink::~MoveLink() {
  close(fd_);
  close_fd(descriptor_);
}

bool MoveLink::fail(std::string why) {
  if (why_.empty()) why_ = std::move(why);
  return false;
}

bool MoveLink::hand(int descriptor) {
  const char carrier = 0;
  return send_message(fd_, &carrier, sizeof carrier, descriptor) || fail(kGone);
}

// Until one of the events. What comes is taken up whatever is waited for, or both ends would wait.
bool MoveLink::wait(short events, Moment until) {
  for (;;) {
    pollfd watched{fd_, static_cast<short>(events | POLLIN), 0};
    const int found = poll(&watched, 1, kLookMilliseconds);
    if (found < 0 && errno != EINTR) return fail(std::string("poll: ") + strerror(errno));
    if (found > 0 && (watched.revents & (POLLIN | POLLHUP | POLLERR)) && !receive()) return false;
    if (!final_ && stop_()) return fail("the session ends");
    if (!final_ && std::chrono::steady_clock::now() > until && reply_.empty())
      return fail("the process that it was to move to does not answer");
    if (found > 0 && (watched.revents & events)) return true;
  }
}

bool MoveLink::receive() {
  uint8_t bytes[4096];
  const ssize_t got = receive_some(fd_, bytes, sizeof bytes, &descriptor_);
  if (got < 0) return errno == EAGAIN || errno == EINTR || fail(kGone);
  if (got == 0) return fail(kGone);
  inbox_.insert(inbox_.end(), bytes, bytes + got);
  size_t at = 0;
  while (take(&at)) {
  }
  inbox_.erase(inbox_.begin(), inbox_.begin() + static_cast<ptrdiff_t>(at));
  return why_.empty();
}

// One frame of those that have come. False when none is whole, or it ends the move.
bool MoveLink::take(size_t *at) {
  wire_header head;
  if (inbox_.size() - *at < sizeof head) return false;
  const uint8_t *frame = inbox_.data() + *at;
  memcpy(&head, frame, sizeof head);
  if (head.size < sizeof head || head.size % 8 || head.size > kMostAnswer)
    return fail("the process that it was to move to answers what makes no sense");
  if (inbox_.size() - *at < head.size) return false;
  *at += head.size;
  if (head.op == WIRE_REPLY && head.size >= sizeof(wire_reply)) {
    wire_reply reply;
    memcpy(&reply, frame, sizeof reply);
    if (reply.request == wanted_) reply_.assign(frame, frame + head.size);
  } else if (head.op == WIRE_FAULT && head.size >= sizeof(wire_fault) && !bears_faults_) {
    wire_fault fault;
    memcpy(&fault, frame, sizeof fault);
    return fail("the other GPU refuses what the session has (command " + std::to_string(fault.op) +
                ": CUDA error " + std::to_string(fault.result) + ")");
  } else if (head.op == WIRE_END && head.size >= sizeof(wire_end)) {
    wire_end end;
    memcpy(&end, frame, sizeof end);
    const size_t length = std::min<size_t>(end.length, head.size - sizeof end);
    return fail("the process that it was to move to has ended it: " +
                std::string(reinterpret_cast<const char *>(frame) + sizeof end, length));
  }
  return true;
}

bool MoveLink::send(iovec *parts, int count, int descriptor) {
  if (!why_.empty()) return false;
  alignas(cmsghdr) char beside[CMSG_SPACE(sizeof descriptor)] = {};
  const Moment until = patient();
  for (advance(parts, count, 0); count > 0;) {
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = static_cast<size_t>(count);
    if (descriptor >= 0) {
      message.msg_control = beside;
      message.msg_controllen = sizeof beside;
      cmsghdr *head = CMSG_FIRSTHDR(&message);
      *head = {CMSG_LEN(sizeof descriptor), SOL_SOCKET, SCM_RIGHTS};
      memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
    }
    const ssize_t sent = sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) return fail(kGone);
      if (!wait(POLLOUT, until)) return false;
      continue;
    }
    descriptor = -1;
    advance(parts, count, static_cast<size_t>(sent));
  }
  return true;
}

bool MoveLink::post(void *frame, size_t size, const void *payload, size_t length, int descriptor) {
  static constexpr uint8_t kZeros[8] = {};
  auto *head = static_cast<wire_header *>(frame);
  const size_t padding = -length & 7;
  head->flags = 0;
  head->size = static_cast<uint32_t>(size + length + padding);
  iovec parts[3] = {{frame, size},
                    {const_cast<void *>(payload), length},
                    {const_cast<uint8_t *>(kZeros), padding}};
  return send(parts, 3, descriptor);
}

bool MoveLink::ask(void *frame, size_t size, const void *tail, size_t length,
                   std::vector<uint8_t> *reply) {
  return begin_ask(frame, size, tail, length) && end_ask(reply);
}

bool MoveLink::begin_ask(void *frame, size_t size, const void *tail, size_t length) {
  static_cast<wire_request *>(frame)->request = wanted_ = ++requests_;
  reply_.clear();
  return post(frame, size, tail, length);
}

bool MoveLink::is_answered(bool *answered) {
  if (!receive()) return false;
  *answered = !reply_.empty();
  return true;
}

bool MoveLink::end_ask(std::vector<uint8_t> *reply) {
  const Moment until = patient();
  while (reply_.empty()) {
    if (!wait(POLLIN, until)) {
      if (reply_.empty()) return false;
      break;
    }
  }
  *reply = std::move(reply_);
  return true;
}

bool MoveLink::ask_finally(void *frame, size_t size, std::vector<uint8_t> *reply) {
  final_ = true;
  return ask(frame, size, nullptr, 0, reply);
}

}  // namespace outboard
