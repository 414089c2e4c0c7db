#include "session/watchman.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <system_error>

#include "base/log.h"
#include "wire_calls.h"

namespace outboard {

namespace {

// How long the leader carries out a command until it is taken to wait: between one look and two.
constexpr timespec kBetweenLooks{.tv_sec = 0, .tv_nsec = 200'000};
// As long as one stands by whose function is not in its stream yet, the leader may be about to put
// it there; then it is taken to wait for what waits for that.
constexpr int kUntilLetGo = 100;  // milliseconds
// After so many looks without a command it sleeps until there is one.
constexpr unsigned kLooksUntilSleep = 10;

void set_event(int event) {
  const uint64_t one = 1;
  while (write(event, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void clear_event(int event) {
  uint64_t times;
  while (::read(event, &times, sizeof times) < 0 && errno == EINTR) {
  }
}

}  // namespace

Watchman::Watchman(Receiver &receiver, HostFunctions &functions, CarriedPages &pages)
    : receiver_(receiver), functions_(functions), pages_(pages) {}

Watchman::~Watchman() {
  over_.store(true);
  if (thread_.joinable()) {
    set_event(wake_);
    set_event(stop_);
    thread_.join();
  }
  if (wake_ >= 0) close(wake_);
  if (stop_ >= 0) close(stop_);
}

void Watchman::carrying(size_t payload, uint64_t sequence) {
  if (!thread_.joinable()) [[unlikely]] {
    if (wake_ < 0) wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (stop_ < 0) stop_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_ < 0 || stop_ < 0) return;
    try {
      thread_ = std::thread([this] { watch(); });
    } catch (const std::system_error &) {
      return;  // the next command tries again
    }
  }
  payload_ = payload;
  sequence_ = sequence;
  turn_.fetch_add(1);
  state_.store(kCarrying);
  if (asleep_.load()) set_event(wake_);
}

void Watchman::reading() {
  uint32_t state = kCarrying;
  if (state_.compare_exchange_strong(state, kReading) || state == kReading) return;
  set_event(stop_);
  state_.wait(kTaken);
}

void Watchman::watch() {
  pthread_setname_np(pthread_self(), "outboard-watch");
  unsigned idle = 0;
  while (!over_.load()) {
    const uint64_t turn = turn_.load();
    uint32_t state = kCarrying;
    if (turn == seen_turn_ && state_.compare_exchange_strong(state, kTaken)) {
      read();
      clear_event(stop_);
      state_.store(kReading);
      state_.notify_all();
      idle = 0;
      continue;
    }
    idle = turn == seen_turn_ ? idle + 1 : 0;
    seen_turn_ = turn;
    nap(idle >= kLooksUntilSleep);
  }
}

void Watchman::nap(bool long_one) {
  pollfd wake{wake_, POLLIN, 0};
  if (!long_one) {
    ppoll(&wake, 1, &kBetweenLooks, nullptr);
  } else {
    asleep_.store(true);
    if (turn_.load() == seen_turn_ && !over_.load()) poll(&wake, 1, -1);
    asleep_.store(false);
  }
  if (wake.revents) clear_event(wake_);
}

// Until the leader wants to read.
void Watchman::read() {
  pollfd watched[2] = {{stop_, POLLIN, 0}, {receiver_.fd(), POLLIN, 0}};
  seen_ = payload_;
  seen_until_ = sequence_;
  pages_.begin();
  // -1: nothing more can be taken up, only the end of the leader's command is waited for.
  if (!look()) watched[1].fd = -1;
  uint32_t stood = 0;
  for (;;) {
    // What lies in records already makes nothing readable.
    const bool waiting = watched[1].fd == receiver_.fd() && receiver_.waiting();
    const int ready = poll(watched, 2, waiting ? 0 : kUntilLetGo);
    if (ready < 0) continue;
    if (watched[0].revents) return;
    if (ready == 0 && !waiting) stood = functions_.let_go(stood);
    if (!watched[1].revents && !waiting) continue;
    if (watched[1].fd == receiver_.offered_fd()) {
      // A guest that has come back goes on where it was; one that never will is the leader's.
      watched[1].fd = receiver_.resume() ? receiver_.fd() : -1;
    } else if (!receiver_.read_ahead()) {
      watched[1].fd = receiver_.has_room() ? receiver_.offered_fd() : -1;
    } else if (!look()) {
      watched[1].fd = -1;
    }
  }
}

// Of a LatePayload that is all there. Without its bytes it stays: they may be more than there is
// room for. False where it makes no sense, which the leader will find out.
bool Watchman::take_payload(const wire_header &head) {
  wire_LatePayload frame;
  if (head.size < sizeof frame || !receiver_.look_ahead(seen_, &frame, sizeof frame)) return false;
  std::span<uint8_t> area;
  bool returned;
  if (frame.length > head.size - sizeof frame || !functions_.area_of(frame.call, &area, &returned))
    return false;
  if (!returned) {
    if (frame.offset > area.size() || frame.length > area.size() - frame.offset) return false;
    uint8_t *const to = area.data() + frame.offset;
    if (!receiver_.look_ahead(seen_ + sizeof frame, to, frame.length)) return false;
  }
  const uint32_t size = head.size;
  frame.header.size = sizeof frame;
  frame.length = 0;
  receiver_.shorten(seen_, &frame, sizeof frame, size);
  seen_ += sizeof frame;
  ++seen_until_;
  return true;
}

// False when there is nothing more to look for.
bool Watchman::look() {
  wire_HostFunctionDone frame;
  for (;;) {
    if (!receiver_.look_ahead(seen_, &frame.header, sizeof frame.header)) return true;
    const wire_header &head = frame.header;
    // The leader will find out what is wrong with it.
    if (head.size < sizeof head || head.size % 8) return false;
    const bool pages = CarriedPages::concerns(head.op);
    if ((pages || head.op == WIRE_LatePayload) && !receiver_.is_ahead(seen_ + head.size))
      return true;
    // What the function has written must be there before its return is heard of.
    if (pages && !pages_.pass(receiver_, seen_, head, seen_until_ + 1)) return false;
    // Bytes that a stream waits for.
    if (head.op == WIRE_LatePayload) {
      if (!take_payload(head)) return false;
      continue;
    }
    if (head.op == WIRE_HostFunctionDone && head.size == sizeof frame) {
      if (!receiver_.look_ahead(seen_, &frame, sizeof frame)) return true;
      functions_.done_early(frame.call);
    }
    seen_ += head.size;
    ++seen_until_;
  }
}

}  // namespace outboard
