// How a session ends: what ends it, who is told, and what is given back.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "base/log.h"
#include "memory/offers.h"
#include "session/session.h"

namespace outboard {

namespace {

// Sessions whose threads are stuck in the driver: they stay until the process is replaced.
void keep_forever(std::shared_ptr<Session> session) {
  static std::mutex mutex;
  static auto *const stuck = new std::vector<std::shared_ptr<Session>>;
  std::lock_guard lock(mutex);
  stuck->push_back(std::move(session));
}

}  // namespace

void Session::watch_peer(int fd) {
  {
    std::lock_guard lock(end_mutex_);
    peer_fds_.push_back(fd);
  }
  wake_reaper();
}

// After something has come of the connection to the guest. Whether that was its end: another one
// may be in its place now, or the session with it in another process.
bool Session::hung_up() {
  std::unique_lock lock(end_mutex_);
  over_.wait(lock, [this] { return !committing_ && !arriving_; });
  if (moved_) return true;
  pollfd now{fd_, POLLRDHUP, 0};
  return poll(&now, 1, 0) > 0;
}

void Session::wake_reaper() {
  const uint64_t one = 1;
  if (write(wake_fd_, &one, sizeof one) < 0) return;
}

// Until the guest hangs up, or the session is over for another reason.
void Session::watch() {
  // The sessions of a program end one after the other: for so long its own end may take.
  constexpr int kMilliseconds = 500;
  for (;;) {
    std::vector<pollfd> events = {{fd_, POLLRDHUP, 0}, {wake_fd_, POLLIN, 0}};
    {
      std::lock_guard lock(end_mutex_);
      for (int fd : peer_fds_) events.push_back({fd, POLLRDHUP, 0});
    }
    if (poll(events.data(), events.size(), -1) < 0) continue;
    if (ending_.load()) return;
    if (events[0].revents) {
      if (!hung_up() || (!has_moved() && comes_back())) continue;
      return;
    }
    uint64_t wakes;
    if (events[1].revents && read(wake_fd_, &wakes, sizeof wakes) < 0) continue;
    if (ending_.load()) return;
    const auto over = [](const pollfd &event) { return event.revents != 0; };
    if (std::none_of(events.begin() + 2, events.end(), over)) continue;
    if (poll(events.data(), 1, kMilliseconds) <= 0) {
      end(EndReason::kStopped, "the session of another device of the program is over");
    }
    return;
  }
}

void Session::goodbye() {
  said_goodbye_ = true;
  reconnection_.give_up();
  wake_reaper();
}

// Until when a guest that has been away since then is waited for: who ends a connection is there
// still, and comes soon or never.
std::chrono::steady_clock::time_point Session::away_until(
    std::chrono::steady_clock::time_point since) const {
  constexpr std::chrono::milliseconds kEnded{5000};
  const auto grace = reconnection_.grace();
  return since + (reconnection_.silent() ? grace : std::min(grace, kEnded));
}

// Tells whether the guest is away, and until when it is waited for, where that was not told yet.
// What is told last is so. Any thread.
void Session::tell_away() {
  std::lock_guard lock(away_mutex_);
  const std::chrono::steady_clock::time_point none{}, since = away_since_.load();
  const auto until = since == none ? none : away_until(since);
  if (until == told_until_) return;
  told_until_ = until;
  if (!on_away_) return;
  if (since == none) return on_away_(std::nullopt);
  const auto now = std::chrono::steady_clock::now();
  const auto whole = [](auto time) {
    return std::max(std::chrono::milliseconds(0),
                    std::chrono::ceil<std::chrono::milliseconds>(time));
  };
  on_away_(Away{whole(now - since), whole(until - now)});
}

// The connection was cut. False when the guest has said goodbye, or has not come back in time.
bool Session::comes_back() {
  if (!reconnection_.resumes() || reconnection_.given_up()) return false;
  const uint64_t before = reconnection_.resumptions();
  // It may have come back since.
  pollfd now{fd_, POLLRDHUP, 0};
  if (poll(&now, 1, 0) == 0) return true;
  auto cut = away_since_.load();
  if (cut == std::chrono::steady_clock::time_point{}) {
    cut = std::chrono::steady_clock::now();
    away_since_.store(cut);
    log_line(LogLevel::kInfo, id_, "the connection was cut: the guest may come back");
  } else {
    log_line(LogLevel::kInfo, id_, "the guest was away before the session came here");
  }
  while (!ending_.load() && !reconnection_.given_up()) {
    tell_away();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        away_until(cut) - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      // One that is just becoming another process's is not ended here.
      if (has_moved()) return false;
      end(EndReason::kClosed, "the guest's connection was cut, and it has not come back in time");
      continue;
    }
    pollfd woken{wake_fd_, POLLIN, 0};
    uint64_t wakes;
    if (poll(&woken, 1, static_cast<int>(left.count())) > 0 &&
        read(wake_fd_, &wakes, sizeof wakes) < 0)
      return false;
    if (reconnection_.resumptions() != before) {
      away_since_.store({});
      tell_away();
      return true;
    }
  }
  return false;
}

// Streams that wait for one value after another go on by one in each round.
void Session::satisfy_waits() {
  constexpr int kRounds = 500;
  for (int round = 0; round < kRounds && !stream_waits_.empty() && !objects_.done(); round++) {
    stream_waits_.satisfy(memory_, device_->scrubber());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// The first reason given stands.
void Session::end(EndReason reason, const std::string &message) {
  {
    std::lock_guard lock(end_mutex_);
    if (ended_) return;
    // Nobody ends what is another process's, or is just becoming that.
    if (committing_ || (moved_ && reason != EndReason::kMoved)) return;
    ended_ = true;
    reason_ = reason;
    end_message_ = message;
  }
  ending_.store(true);
  reconnection_.give_up();
  answers_.hurry();
  if (memory_.lender()) memory_.lender()->hurry();
  // Wakes a leader that waits for the guest.
  if (reason != EndReason::kMoved) shutdown(fd_, SHUT_RD);
  wake_reaper();
}

void Session::violation(const std::string &what) {
  outboard::count(counters_->violations);
  end(EndReason::kViolation, what);
}

void Session::stop(const std::string &message) { end(EndReason::kStopped, message); }

void Session::say_end() {
  std::string sentence;
  EndReason reason;
  {
    std::lock_guard lock(end_mutex_);
    if (told_) return;
    told_ = true;
    reason = reason_;
    sentence = end_message_;
  }
  if (reason == EndReason::kClosed || reason == EndReason::kMoved) return;
  if (reason == EndReason::kViolation) sentence = "protocol violation: " + sentence;
  answers_.end(reason == EndReason::kViolation ? CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
                                               : CUDA_ERROR_DEVICE_UNAVAILABLE,
               sentence);
  shutdown(fd_, SHUT_WR);
}

// A socket closed with unread bytes in it resets the connection, and the guest may lose our last
// words. So the rest is read, for a moment.
void Session::linger() {
  const timeval limit{.tv_sec = 0, .tv_usec = 200000};
  setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  char sink[4096];
  while (std::chrono::steady_clock::now() < until) {
    if (recv(fd_, sink, sizeof sink, 0) <= 0) break;
  }
}

// By the leader, last of all.
void Session::finish() {
  {
    std::lock_guard lock(parking_mutex_);
    parking_ = Parking::kOver;
    leader_.store(0);
    parking_changed_.notify_all();
  }
  if (trace_) trace_->taken();
  say_end();
  if (memory_.lender()) memory_.lender()->close();
  satisfy_waits();
  threads_.dismiss();
  threads_.wait_alone();
  const bool clean = release();
  std::lock_guard lock(end_mutex_);
  released_ = true;
  reusable_ = clean;
  over_.notify_all();
}

CUresult Session::reset(bool over) {
  // Of the guest nothing is taken up before the reset is done: it cannot write them any more.
  if (!over) satisfy_waits();
  gate_.close_current_group();
  CUresult first = driver().cuCtxSynchronize();
  gate_.settle();
  if (over) {
    std::lock_guard lock(end_mutex_);
    at_rest_ = true;
    over_.notify_all();
  }
  threads_.wait_alone();
  stream_marks_.end();
  host_functions_.forget();
  stream_waits_.clear();
  upload_staging_.release();
  late_areas_.release();
  if (over) {
    Offers::own().withdraw_all(id_);
    // They have nothing of the device, and outlive a reset.
    links_.clear();
  }
  libraries_.release();
  {
    // The slot has memory for the next one.
    std::lock_guard lock(handles_mutex_);
    has_slots_handle_ = false;
  }
  graphs_.clear();
  keep_first(first, objects_.release());
  moved_events_.clear();
  recipes_.clear();
  load_log_.clear();
  keep_first(first, pages_.release());
  keep_first(first, textures_.release());
  keep_first(first, arrays_.release());
  keep_first(first, memory_.release(over));
  count_memory();
  keep_first(first, loaded_.unload(driver()));
  keep_first(first, expected_.unload(driver()));
  module_count_ = 0;
  image_room_.clear();
  counters_->module_memory = 0;
  pending_images_.clear();
  const CUresult limits = device_->restore_limits(stacks_.put_back());
  if (over) {
    // What kernels have used keeps its size as long as the context is there.
    worn_ = limits == CUDA_ERROR_INVALID_VALUE;
    if (!worn_) keep_first(first, limits);
  } else if (limits != CUDA_SUCCESS) {
    // All else is gone; a context of its own, which a reset would begin anew, there is not.
    log_line(
        LogLevel::kWarn, id_,
        "a reset leaves the sizes of heap or printf buffer, which kernels have used, as they are");
  }
  memory_.set_beside(0);
  for (uint8_t each = 0; each < kHindranceCount; each++) reconsider(Hindrance{each});
  keep_first(unclean_, first);
  return first;
}

// Whether the device is clean.
bool Session::release() {
  reset(true);
  region_.reset();
  host_functions_.finish();
  if (PagePorter *const porter = device_->page_porter()) keep_first(unclean_, porter->rest());
  gate_.finish();
  answers_.skip_output();
  if (unclean_ != CUDA_SUCCESS) {
    std::lock_guard lock(end_mutex_);
    if (reason_ == EndReason::kClosed) reason_ = EndReason::kDevice;
    end_message_ += "; the device's context is given up: " + driver().describe(unclean_);
    return false;
  }
  device_->detour_holds().scrub();
  device_->hold_words().scrub();
  device_->upload_chunks().scrub();
  device_->download_chunks().scrub();
  // The last one is gone with the session: none is ever another tenant's.
  device_->warm_cublas();
  if (worn_) {
    log_line(LogLevel::kInfo, id_,
             "kernels have used the heap or printed, which fixes the sizes of these: the next "
             "session gets a new process");
  }
  return !worn_;
}

// Sees the session to its end, whatever its threads are stuck in. What is held then gets quota
// tokens and turns as before, or whoever has none left would hang up to run what it has put in
// front of the gate. What has got none when patience is over ends with the process.
SessionEnd Session::reap() {
  watch();
  Offers::own().end_all(id_);
  if (on_closing_ && !has_moved()) on_closing_();
  left_alone_.store(true);
  answers_.hurry();
  host_functions_.open();
  SessionEnd report;
  bool released;
  std::chrono::milliseconds patience;
  {
    std::unique_lock lock(end_mutex_);
    const auto began = std::chrono::steady_clock::now();
    const bool now = reason_ == EndReason::kStopped || reason_ == EndReason::kLimit;
    patience = now ? stop_patience_ : patience_;
    // Once the device is at rest, what is left to do has an end.
    if (over_.wait_until(lock, began + patience, [this] { return released_ || at_rest_; })) {
      patience = patience_;
    }
    released = over_.wait_until(lock, began + patience, [this] { return released_; });
    report = {reason_, end_message_, released && reusable_, used_.list(),
              libraries_.learnt().kept()};
  }
  if (released) {
    {
      // Its thread has ended, or will: nobody parks any more.
      std::lock_guard lock(departure_mutex_);
      departure_.reset();
    }
    threads_.join();
  } else {
    // The leader may be stuck, too, and the thread of a move.
    say_end();
    const auto seconds = std::chrono::duration<double>(patience).count();
    char text[128];
    snprintf(text, sizeof text, "%sits work on the device did not end within %g seconds",
             report.message.empty() ? "" : "; ", seconds);
    report.message += text;
    if (report.reason == EndReason::kClosed) report.reason = EndReason::kDevice;
    threads_.abandon();
    keep_forever(shared_from_this());
  }
  const bool moved = report.reason == EndReason::kMoved;
  if (!moved && report.reason != EndReason::kClosed && report.reason != EndReason::kDevice)
    linger();
  if (!moved) shutdown(fd_, SHUT_RDWR);
  if (!report.reusable) device_->spoil();
  gate_.leave();
  if (released) device_->yield();
  // A context that kernels have worn is no trouble of anybody's.
  const bool trouble = !released || unclean_ != CUDA_SUCCESS;
  log_line(trouble ? LogLevel::kWarn : LogLevel::kInfo, id_, "session over: " + report.message);
  return report;
}

}  // namespace outboard
