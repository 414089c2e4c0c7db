#include "wire/reconnection.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "wire.h"

namespace outboard {

Reconnection::Reconnection(int fd, std::chrono::milliseconds grace, bool begun)
    : fd_(fd), grace_(grace), resumes_(begun && grace.count() != 0) {
  if (grace.count() == 0) return;
  event_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (event_ < 0) {
    throw Error("OB_INTERNAL",
                std::string("no file descriptors for a session: ") + strerror(errno));
  }
}

Reconnection::~Reconnection() {
  if (offered_) close(offered_->fd);
  if (event_ >= 0) close(event_);
}

static void tell(int event) {
  const uint64_t one = 1;
  while (write(event, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

bool Reconnection::offer(int fd, uint64_t received, uint32_t epoch,
                         std::unique_ptr<Records> records) {
  std::lock_guard lock(mutex_);
  if (!resumes() || given_up_.load() || epoch <= epoch_) return false;
  epoch_ = epoch;
  // The one before was never read from: its guest has given it up.
  if (offered_) close(offered_->fd);
  offered_ = Offered{fd, received, std::move(records)};
  // Whoever reads sees its end, behind all that has come.
  shutdown(fd_, SHUT_RDWR);
  tell(event_);
  return true;
}

// A connection that nobody has taken is closed: its guest comes again, where the session is now, or
// learns that there is none.
void Reconnection::give_up() {
  {
    std::lock_guard lock(mutex_);
    given_up_.store(true);
    if (const auto offered = std::exchange(offered_, std::nullopt)) close(offered->fd);
  }
  if (event_ >= 0) tell(event_);
}

uint32_t Reconnection::epoch() {
  std::lock_guard lock(mutex_);
  return epoch_;
}

void Reconnection::begin(uint32_t epoch, bool silent) {
  std::lock_guard lock(mutex_);
  epoch_ = epoch;
  silent_.store(silent);
  resumes_.store(true);
}

std::optional<Reconnection::Offered> Reconnection::next() {
  std::lock_guard lock(mutex_);
  uint64_t count;
  if (!given_up_.load() && read(event_, &count, sizeof count) < 0 && errno != EAGAIN) return {};
  return std::exchange(offered_, std::nullopt);
}

bool Reconnection::take(uint64_t received) {
  std::optional<Offered> offered = next();
  if (!offered) return false;
  const bool taken =
      restart_(offered->fd, offered->received, resumed_answer(received), offered->records.get());
  close(offered->fd);
  if (!taken) return false;
  if (use_) use_(std::move(offered->records));
  silent_.store(false);
  resumptions_.fetch_add(1);
  if (resumed_) resumed_();
  return true;
}

bool Reconnection::await(uint64_t received, int error, const std::atomic<bool> *interrupt,
                         bool *interrupted) {
  if (!resumes()) {
    errno = error;
    return false;
  }
  if (error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH) {
    silent_.store(true);
    shutdown(fd_, SHUT_RDWR);  // so that whoever watches it sees it end
    if (silence_) silence_();
  }
  while (!given_up_.load()) {
    if (take(received)) return true;
    *interrupted = interrupt && interrupt->load();
    if (*interrupted) return false;
    pollfd offered{event_, POLLIN, 0};
    poll(&offered, 1, -1);
  }
  errno = silent_.load() ? ETIMEDOUT : error;
  return false;
}

Reconnection::Answer resumed_answer(uint64_t received) {
  // Behind the preface (proto/control.proto): Answer.resumed, 9 bytes, in it the fixed64
  // `received`.
  Reconnection::Answer bytes{};
  const uint32_t version = WIRE_PROTOCOL, length = 11;
  memcpy(bytes.data(), WIRE_PREFACE_MAGIC, 8);
  memcpy(bytes.data() + 8, &version, sizeof version);
  memcpy(bytes.data() + 12, &length, sizeof length);
  const uint8_t tags[3] = {5 << 3 | 2, 9, 1 << 3 | 1};
  memcpy(bytes.data() + 16, tags, sizeof tags);
  memcpy(bytes.data() + 19, &received, sizeof received);
  return bytes;
}

}  // namespace outboard
