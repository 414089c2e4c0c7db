#include "session/migration.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "base/local_socket.h"
#include "base/log.h"
#include "base/session_limits.h"
#include "session/session.h"

namespace outboard {

namespace {

// Times between two events that are no further from now have a sum.
constexpr int64_t kMostNs = INT64_MAX / 4;

// How often a leader that waits for its guest is woken until it has heard of it.
constexpr std::chrono::milliseconds kWakeAgain{5};

// A call that waits in the kernel with a time limit, as the receiver's, returns; others go on.
void prepare_wakes() {
  static const bool once = [] {
    struct sigaction action {};
    action.sa_handler = [](int) {};
    action.sa_flags = SA_RESTART;
    return sigaction(SIGURG, &action, nullptr) == 0;
  }();
  (void)once;
}

// The end of a sentence.
std::string within(std::chrono::milliseconds patience) {
  char text[64];
  snprintf(text, sizeof text, " within %g seconds",
           std::chrono::duration<double>(patience).count());
  return text;
}

template <class T>
std::vector<T> list_of(const std::vector<uint8_t> &bytes) {
  std::vector<T> list(bytes.size() / sizeof(T));
  if (!list.empty()) memcpy(list.data(), bytes.data(), list.size() * sizeof(T));
  return list;
}

}  // namespace

// For each thread of the session's, any of which may lead: one that was made by one of the driver's
// may have all signals blocked.
void can_be_woken() {
  sigset_t wakes;
  sigemptyset(&wakes);
  sigaddset(&wakes, SIGURG);
  pthread_sigmask(SIG_UNBLOCK, &wakes, nullptr);
}

Arrival::~Arrival() {
  if (!tls.empty()) explicit_bzero(tls.data(), tls.size());
  close_fd(connection);
  kept_end(&sent.kept);
}

static bool is_connection(int fd) {
  int type = 0;
  socklen_t size = sizeof type;
  return fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

// Parts come one behind the other; where some are left out, what was before them counts no more.
bool Arrival::take_kept(std::span<const uint8_t> bytes) {
  wire_moved_kept head;
  if (stream || bytes.size() <= sizeof head) return false;
  memcpy(&head, bytes.data(), sizeof head);
  bytes = bytes.subspan(sizeof head);
  if (head.from < sent.kept.sent || head.from > UINT64_MAX / 2) return false;
  if (!sent.kept.ring && !kept_begin(&sent.kept)) return false;
  if (head.from != sent.kept.sent) kept_from = sent.kept.sent = head.from;
  kept_add(&sent.kept, bytes.data(), bytes.size());
  return true;
}

bool Arrival::take_region(const Driver &driver, std::span<const uint8_t> bytes, int descriptor) {
  uint64_t announced;
  if (region || bytes.size() != sizeof announced) {
    close_fd(descriptor);
    return false;
  }
  memcpy(&announced, bytes.data(), sizeof announced);
  region = Region::adopt(driver, descriptor, announced);
  return region != nullptr;
}

bool Arrival::take_stream(std::span<const uint8_t> bytes, int descriptor) {
  wire_moved_stream came;
  if (stream || bytes.size() != sizeof came || !is_connection(descriptor)) {
    close_fd(descriptor);
    return false;
  }
  close_fd(std::exchange(connection, descriptor));
  memcpy(&came, bytes.data(), sizeof came);
  stream = came;
  if (!sent.kept.ring && !kept_begin(&sent.kept)) return false;
  sent.cut = came.flags & WIRE_STREAM_CUT;
  sent.cut_at = came.cut_at;
  return true;
}

bool Arrival::stream_is_whole() const {
  if (!stream) return false;
  const uint64_t begin = stream->sent - std::min<uint64_t>(stream->sent, KEPT_BYTES);
  return sent.kept.sent == stream->sent && kept_from <= begin && stream->cut_at <= stream->sent &&
         stream->received >= unread.size();
}

// ---- the session that goes ---------------------------------------------------------------------

void Session::move(int link, Departure::Done done) {
  prepare_wakes();
  std::lock_guard lock(departure_mutex_);
  const char *why = nullptr;
  if (departure_ && !departure_->over())
    why = "it is being moved already, or work on the device keeps what its last move has used";
  else if (is_left_alone())
    why = "the session ends";
  else if (arrives())
    why = "it has not arrived here yet";
  if (why) {
    close(link);
    return done(false, why, 0);
  }
  departure_ = std::make_unique<Departure>(*this, link, std::move(done));
}

// For the leader, between two commands, when it is wanted. Where it waits for the guest, others may
// come to lead meanwhile: they come here, too.
void Session::park() {
  {
    std::lock_guard lock(parking_mutex_);
    if (look_) {
      (*look_)();
      look_ = nullptr;
      park_wanted_.store(parking_ == Parking::kWanted);
      parking_changed_.notify_all();
      return;
    }
    if (parking_ == Parking::kWanted && stopped_at_ == std::chrono::steady_clock::time_point{})
      stopped_at_ = std::chrono::steady_clock::now();
  }
  const std::string why = come_to_rest();
  if (!ThreadPool::leads()) return;
  std::unique_lock lock(parking_mutex_);
  if (parking_ != Parking::kWanted) return;
  cannot_park_ = why;
  parking_ = Parking::kParked;
  parking_changed_.notify_all();
  parking_changed_.wait(lock, [this] { return parking_ != Parking::kParked; });
}

// Waits until all work has ended, and all is told that is to be told of it. What work waits for is
// the guest's to send, so its commands are carried out as long as it waits for any. Returns why it
// does not come to rest; empty: it has.
std::string Session::come_to_rest() {
  constexpr int kLookMilliseconds = 1;
  close_group();
  while (!objects_.all_done() || host_functions_.pending()) {
    if (ending_.load()) return "the session ends";
    if (std::chrono::steady_clock::now() > park_until_)
      return "its work on the device did not end" + within(rest_patience_);
    await_orphans();
    // Of a guest that is away nothing comes before it is back.
    const bool away = receiver_.away();
    pollfd guest{away ? receiver_.offered_fd() : fd_, POLLIN, 0};
    if (!waits_for_guest() && stream_waits_.empty()) {
      poll(nullptr, 0, kLookMilliseconds);
    } else if ((!away && (receiver_.available() > 0 || receiver_.waiting())) ||
               poll(&guest, 1, kLookMilliseconds) > 0) {
      if (!next_frame() || !ThreadPool::leads()) return "the session ends";
    }
  }
  transfers_.settle(UINT64_MAX, nullptr, true);
  stream_marks_.end();
  answers_.output();
  if (!threads_.wait_alone(park_until_))
    return "what it waits for did not come" + within(rest_patience_);
  gate_.settle();
  if (driver().cuCtxSynchronize() != CUDA_SUCCESS) return "the device's context has failed";
  // Elsewhere they would be carried out again.
  if (carried_pages_.any_taken()) return "commands about its pages were carried out early";
  return {};
}

// Streams that were destroyed with work on them cannot be asked: only a wait for the whole device
// tells, and that may have no end. So another thread waits, also beyond the move.
void Session::await_orphans() {
  const uint64_t orphans = objects_.orphans();
  if (orphans == 0 || orphans_awaited_.exchange(true)) return;
  run([this, orphans] {
    driver().cuCtxSynchronize();
    objects_.forget_orphans(orphans);
    orphans_awaited_.store(false);
  });
}

// For the thread that moves the session, while it runs: has the leader do something short between
// two commands. False where it does not come to that within the time that it would have to park.
bool Session::look(const std::function<void()> &what) {
  std::unique_lock lock(parking_mutex_);
  const auto until = std::chrono::steady_clock::now() + rest_patience_;
  if (parking_ == Parking::kOver) return false;
  look_ = &what;
  park_wanted_.store(true);
  while (look_ && parking_ != Parking::kOver && std::chrono::steady_clock::now() < until) {
    if (const pthread_t leader = leader_.load()) pthread_kill(leader, SIGURG);
    parking_changed_.wait_for(lock, kWakeAgain);
  }
  const bool looked = look_ == nullptr;
  look_ = nullptr;
  park_wanted_.store(false);
  return looked;
}

// The same. False where the leader does not park: *why.
bool Session::await_parked(std::string *why) {
  std::unique_lock lock(parking_mutex_);
  if (parking_ == Parking::kOver) {
    *why = "the session ends";
    return false;
  }
  park_until_ = std::chrono::steady_clock::now() + rest_patience_;
  parking_ = Parking::kWanted;
  park_wanted_.store(true);
  while (parking_ == Parking::kWanted) {
    if (const pthread_t leader = leader_.load()) pthread_kill(leader, SIGURG);
    parking_changed_.wait_for(lock, kWakeAgain);
    if (parking_ == Parking::kWanted &&
        std::chrono::steady_clock::now() > park_until_ + rest_patience_) {
      *why = away_ms() ? "its guest is away, in the middle of a command: its connection was cut"
                       : "one of its commands did not end" + within(2 * rest_patience_);
      return false;
    }
  }
  if (parking_ == Parking::kParked && cannot_park_.empty()) return true;
  *why = parking_ == Parking::kParked ? cannot_park_ : "the session ends";
  return false;
}

// ---- a guest that is away ----------------------------------------------------------------------

// For how long, in whole milliseconds; 0: it is not known to be.
uint64_t Session::away_ms() const {
  const auto since = away_since_.load();
  if (since == std::chrono::steady_clock::time_point{}) return 0;
  const auto passed =
      std::chrono::ceil<std::chrono::milliseconds>(std::chrono::steady_clock::now() - since);
  return static_cast<uint64_t>(std::max<int64_t>(1, passed.count()));
}

// For who it was with the session before: a connection that is there says that it is not.
void Session::has_been_away(uint64_t ms) {
  pollfd now{fd_, POLLRDHUP, 0};
  if (ms == 0 || poll(&now, 1, 0) == 0) return;
  const auto passed = std::min<uint64_t>(ms, static_cast<uint64_t>(reconnection_.grace().count()));
  away_since_.store(std::chrono::steady_clock::now() - std::chrono::milliseconds(passed));
  tell_away();
}

// For how long it stands still.
uint64_t Session::stopped_ns() {
  std::lock_guard lock(parking_mutex_);
  if (stopped_at_ == std::chrono::steady_clock::time_point{}) return 0;
  return static_cast<uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now() - stopped_at_).count());
}

// The leader goes on; of a session that has moved, to its end.
void Session::unpark(bool moved) {
  if (moved) end(EndReason::kMoved, "it has moved");
  std::lock_guard lock(parking_mutex_);
  park_wanted_.store(false);
  if (parking_ != Parking::kOver) parking_ = Parking::kNot;
  parking_changed_.notify_all();
  stopped_at_ = {};
}

// From here on only the other process's answer, or its end, says where the session is. False: it
// ends.
bool Session::begin_commit() {
  std::lock_guard lock(end_mutex_);
  if (ended_ || left_alone_.load()) return false;
  committing_ = true;
  return true;
}

void Session::end_commit(bool moved) {
  std::lock_guard lock(end_mutex_);
  committing_ = false;
  moved_ = moved;
  if (moved) answers_.leave();
  over_.notify_all();
}

bool Session::has_moved() {
  std::unique_lock lock(end_mutex_);
  over_.wait(lock, [this] { return !committing_; });
  return moved_;
}

// ---- the session that arrives ------------------------------------------------------------------

// The guest's connection, before anything else.
bool Session::take_connection() {
  for (;;) {
    pollfd link{fd_, POLLIN, 0};
    if (poll(&link, 1, -1) < 0) continue;
    char carrier;
    if (receive_message(fd_, &carrier, sizeof carrier, &arrival_->connection)) break;
    end(EndReason::kClosed, "the session that was to move here has not come");
    return false;
  }
  if (is_connection(arrival_->connection)) return true;
  violation("the session that was to move here has brought no connection");
  return false;
}

bool Session::take_state(uint32_t kind, std::span<const uint8_t> bytes) {
  std::vector<uint8_t> *to = nullptr;
  uint64_t most = 0;
  switch (kind) {
    case WIRE_MOVE_UNREAD:
      to = &arrival_->unread;
      most = session_limits.read_ahead_bytes + (uint64_t{1} << 20);
      break;
    case WIRE_MOVE_EVENTS:
      to = &arrival_->events;
      most = session_limits.events * sizeof(wire_moved_event);
      break;
    case WIRE_MOVE_RETURNED:
      to = &arrival_->returned;
      most = session_limits.host_functions * sizeof(uint64_t);
      break;
    case WIRE_MOVE_COUNTERS:
      to = &arrival_->counters;
      most = kCounterCount * sizeof(uint64_t);
      break;
    case WIRE_MOVE_TLS:
      to = &arrival_->tls;
      most = Records::kStateBytes + Records::kMostUnopened;
      to->reserve(most);  // no copies of keys stay behind
      break;
    case WIRE_MOVE_PRINTED:
      to = &arrival_->printed;
      most = 1;
      break;
    case WIRE_MOVE_KEPT:
      return keeps_over_cuts() && arrival_->take_kept(bytes);
    case WIRE_MOVE_STREAM:
      return keeps_over_cuts() && arrival_->take_stream(bytes, receiver_.take_descriptor());
    case WIRE_MOVE_REGION:
      return arrival_->take_region(driver(), bytes, receiver_.take_descriptor());
    default:
      return false;
  }
  if (to->size() + bytes.size() > most) return false;
  to->insert(to->end(), bytes.begin(), bytes.end());
  return true;
}

void Session::has_arrived() {
  std::lock_guard lock(end_mutex_);
  arriving_ = false;
  over_.notify_all();
}

void Session::arrive(const wire_MoveCommit &in_place) {
  const wire_MoveCommit q = in_place;  // what was not read elsewhere takes its place
  const auto refuse = [&](CUresult result) { answers_.send(q.request.request, result); };
  if (receiver_.available() > 0) return violation("more comes behind a MoveCommit");
  if (keeps_over_cuts() && !arrival_->stream_is_whole())
    return violation("of a connection that is kept over cuts not all has come");
  // Of who does not wait for the answer to a question another thread may still use the region.
  if (!threads_.wait_alone(std::chrono::steady_clock::now() + rest_patience_))
    return violation("a MoveCommit comes while a question is open");
  // A source that is at rest has sent nothing that waits for anything else.
  for (const auto until = std::chrono::steady_clock::now() + rest_patience_;
       !objects_.all_done();) {
    if (std::chrono::steady_clock::now() > until)
      return violation("a MoveCommit comes while work is under way");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CUresult result = driver().cuCtxSynchronize();
  if (result != CUDA_SUCCESS) return refuse(result);
  // Events that are not here are left out.
  std::vector<wire_moved_event> times;
  std::vector<CUevent> objects;
  for (const wire_moved_event &moved : list_of<wire_moved_event>(arrival_->events)) {
    if (moved.ns < -kMostNs || moved.ns > kMostNs)
      return violation("an event was recorded at no time that makes sense");
    CUevent object;
    if (!objects_.peek(moved.event, &object)) continue;
    times.push_back(moved);
    objects.push_back(object);
  }
  result = moved_events_.keep(times, objects);
  if (result != CUDA_SUCCESS) return refuse(result);
  if (!arrival_->tls.empty()) {
    const std::span<const uint8_t> all = arrival_->tls;
    const size_t state = std::min(all.size(), Records::kStateBytes);
    try {
      records_ = std::make_unique<Records>(all.first(state), all.subspan(state));
    } catch (const Error &error) {
      return violation(error.what());
    }
  }
  const std::unique_ptr<Arrival> arrival = std::move(arrival_);
  {
    std::lock_guard lock(end_mutex_);
    if (ended_) return;
    arriving_ = true;
  }
  // Nothing may wait from here on: whoever hands in another connection of the guest waits for it.
  if (!answers_.arrived(q.request.request)) {
    has_arrived();
    return violation("whoever commits the move takes no answers");
  }
  // From here on it is here, whatever becomes of whoever had it.
  dup3(arrival->connection, fd_, O_CLOEXEC);
  region_ = std::move(arrival->region);
  const std::optional<wire_moved_stream> &stream = arrival->stream;
  const uint64_t received = stream ? stream->received : arrival->unread.size();
  receiver_.begin_anew(received, std::move(arrival->unread), records_.get());
  answers_.begin_anew(q.async, records_.get(), stream ? &arrival->sent : nullptr);
  if (stream) {
    reconnection_.begin(stream->epoch, stream->flags & WIRE_STREAM_SILENT);
    has_been_away(stream->away_ms);
  }
  sequence_ = q.sequence;
  posted_count_ = q.posted;
  idle_owed_ = true;
  if (!arrival->printed.empty()) has_printed_.store(true);
  host_functions_.begin_anew(q.last_call, list_of<uint64_t>(arrival->returned));
  const std::vector<uint64_t> before = list_of<uint64_t>(arrival->counters);
  if (!before.empty()) {
    Counters was{};  // an older process has fewer
    memcpy(static_cast<void *>(&was), before.data(),
           std::min(sizeof was, before.size() * sizeof(uint64_t)));
    // What it has done; what it has, is counted here.
    for (auto counter : {&Counters::commands, &Counters::round_trips, &Counters::bytes_in,
                         &Counters::bytes_out, &Counters::launches, &Counters::uploads,
                         &Counters::downloads, &Counters::memory_mapped_peak, &Counters::modules,
                         &Counters::faults, &Counters::violations, &Counters::cached_uploads,
                         &Counters::cached_bytes, &Counters::libraries_refused}) {
      (counters_.get()->*counter).store((was.*counter).load());
    }
  }
  log_line(LogLevel::kInfo, id_, "the session has arrived from another process");
  has_arrived();
  // Whoever looks whether the guest hangs up looks at the link still, and keeps it open.
  wake_reaper();
  if (on_arrived_) on_arrived_();
}

}  // namespace outboard
