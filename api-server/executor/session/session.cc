#include "session/session.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/session_limits.h"
#include "dispatch.h"
#include "session/learnt.h"
#include "session/loading.h"

namespace outboard {

namespace {

void set_option(int fd, int level, int option, int value) {
  setsockopt(fd, level, option, &value, sizeof value);  // a socket pair lacks those of TCP
}

void prepare_socket(int fd) {
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  // A guest machine that vanishes without a word is noticed after a minute.
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  const int seconds = silence_limit_ms() / 1000;
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, std::max(1, seconds / 2));
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, std::max(1, seconds / 6));
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

}  // namespace

std::shared_ptr<Session> Session::start(std::shared_ptr<Device> device, SessionOptions options) {
  if (device->spoiled()) {
    throw Error("OB_INTERNAL", "the device's context is beyond repair; open it in a new process");
  }
  if (!device->claim()) throw Error("OB_INTERNAL", "the device already serves a session");
  const int fd = fcntl(options.fd, F_DUPFD_CLOEXEC, 3);
  const int wake_fd = eventfd(0, EFD_CLOEXEC);
  std::vector<ExpectedModule> expected = std::move(options.expected);
  const std::vector<uint8_t> learnt = std::move(options.learnt);
  std::shared_ptr<Session> session;
  try {
    if (fd < 0 || wake_fd < 0) {
      throw Error("OB_INTERNAL",
                  std::string("no file descriptors for a session: ") + strerror(errno));
    }
    prepare_socket(fd);
    device->bind();
    session.reset(new Session(device, std::move(options), fd, wake_fd));
  } catch (...) {
    if (fd >= 0) close(fd);
    if (wake_fd >= 0) close(wake_fd);
    device->yield();
    throw;
  }
  session->libraries_.learnt().take(learnt);
  session->threads_.start();
  if (!expected.empty()) load_expected(*session, std::move(expected));
  if (!learnt.empty()) tell_learnt(*session);
  std::thread([session]() mutable {
    pthread_setname_np(pthread_self(), "outboard-reaper");
    const std::function<void(const SessionEnd &)> on_end = session->on_end_;
    const SessionEnd end = session->reap();
    session.reset();  // whoever is told finds nothing of it left
    if (on_end) on_end(end);
  }).detach();
  return session;
}

Session::Session(std::shared_ptr<Device> device, SessionOptions options, int fd, int wake_fd)
    : device_(std::move(device)),
      counters_(Counters::map()),
      id_(options.id),
      program_{options.tenant, options.group},
      patience_(options.patience),
      stop_patience_(std::min(options.stop_patience, options.patience)),
      rest_patience_(options.rest_patience),
      module_limit_(options.module_limit),
      on_used_(std::move(options.on_used)),
      on_away_(std::move(options.on_away)),
      on_closing_(std::move(options.on_closing)),
      on_end_(std::move(options.on_end)),
      fd_(fd),
      wake_fd_(wake_fd),
      trace_(Trace::open(options.trace, id_)),
      reconnection_(fd, options.grace, !options.arrives),
      records_(options.tls ? std::make_unique<Records>(options.tls->state, options.tls->unopened)
                           : nullptr),
      receiver_(fd, options.leftover, *counters_, reconnection_, records_.get()),
      answers_(fd, *counters_, reconnection_, records_.get(), trace_.get(), Output::installed(),
               ending_),
      threads_(
          [this] {
            device_->bind();
            can_be_woken();
          },
          [this] { lead(); }),
      memory_(device_->driver(), device_->ordinal(), device_->scrubber(), device_->window_base(),
              device_->window_size(),
              {options.memory_limit, options.pinned_limit, device_->granularity()},
              {.waits_for_guest = [this] { return waits_for_guest(); },
               .resting = [this] { return objects_.all_done(); },
               .awaited = [this](uint64_t address,
                                 uint64_t size) { return stream_waits_.within(address, size); }}),
      stacks_(*device_, memory_, options.stack_limit, id_),
      arrays_(device_->driver(), memory_, device_->scrubber(),
              [this](std::function<void()> job) {
                run([job = std::move(job), keeps = std::make_shared<Keeps>(*this)] { job(); });
              }),
      textures_(device_->driver()),
      upload_staging_(device_->driver(), device_->upload_chunks()),
      late_areas_(device_->driver()),
      upload_cache_(options.upload_cache),
      kept_uploads_(options.upload_cache && device_->upload_store()
                        ? device_->upload_store()->of(options.tenant)
                        : nullptr),
      transfers_(device_->driver()),
      pages_(device_->driver(), device_->page_porter()),
      host_functions_(
          device_->driver(),
          [this](uint64_t function, uint64_t call, CUresult status) {
            call_guest(function, call, status);
          },
          device_->page_porter(), device_->stream_operations()),
      carried_pages_(device_->page_porter(), memory_, answers_),
      watchman_(receiver_, host_functions_, carried_pages_),
      stream_marks_(
          device_->driver(), [this] { device_->bind(); },
          [this](uint64_t stream, uint64_t place) { answers_.passed(stream, place); }),
      gate_(
          device_->driver(), device_->context(), device_->quota_page(), device_->hold_words(),
          device_->turn_page(), device_->slot(), id_, limited(options.gate, options),
          [this] { device_->bind(); }, trace_.get()),
      libraries_(*device_, gate_),
      objects_(device_->driver(), id_, pages_, gate_, upload_staging_),
      graphs_(device_->driver()),
      recipes_([this] { hinder(Hindrance::kManyObjects); }),
      load_log_([this] { hinder(Hindrance::kManyObjects); }),
      image_room_(options.image_limit ? options.image_limit : device_->image_bytes()),
      moved_events_(device_->driver()),
      arrival_(options.arrives ? std::make_unique<Arrival>() : nullptr),
      on_arrived_(std::move(options.on_arrived)) {
  answers_.may_wait([] { return !ThreadPool::leads(); });
  if (PagePorter *const porter = device_->page_porter())
    porter->on_ran([this](uint64_t ns) { gate_.ran_beside(ns); });
  if (arrival_) receiver_.collect_descriptors();
  reconnection_.on_resumed([this] {
    away_since_.store({});
    log_line(LogLevel::kInfo, id_, "the guest has come back: the session goes on");
    tell_away();
    wake_reaper();
  });
  reconnection_.on_records([this](std::unique_ptr<Records> records) {
    receiver_.use(records.get());
    records_ = std::move(records);
  });
  reconnection_.on_silence([this] { wake_reaper(); });
  if (program_.group) hinder(Hindrance::kSeveralGpus);
  if (trace_) hinder(Hindrance::kRecording);
  Sharer sharer{id_, options.tenant, {}, fd_};
  CUdevice ordinal = 0;
  driver().cuDeviceGet(&ordinal, device_->ordinal());
  driver().cuDeviceGetUuid_v2(&sharer.device, ordinal);
  memory_.set_sharer(sharer);
  if (program_.group && device_->has_peers()) {
    memory_.set_lender(
        std::make_shared<Lender>(driver(), program_, [device = device_.get()] { device->bind(); }));
  }
}

// A launch that takes too long ends the session.
GateOptions Session::limited(GateOptions gate, const SessionOptions &options) {
  gate.most_kernel_ns =
      static_cast<uint64_t>(std::chrono::nanoseconds(options.most_kernel).count());
  gate.overdue = [this, sentence = options.kernel_sentence](const std::string &kernel) {
    end(EndReason::kLimit, sentence + ": " + kernel);
  };
  gate.slipped = [this] { violation("a kernel has written words by which the session is held"); };
  return gate;
}

bool Session::resume(int fd, uint64_t received, uint32_t epoch,
                     const std::optional<SessionOptions::Tls> &tls) {
  prepare_socket(fd);
  {
    // Whoever it came from may know that it is here before it is done.
    std::unique_lock lock(end_mutex_);
    over_.wait(lock, [this] { return !arriving_; });
  }
  return reconnection_.offer(fd, received, epoch,
                             tls ? std::make_unique<Records>(tls->state, tls->unopened) : nullptr);
}

Session::~Session() {
  close(fd_);
  close(wake_fd_);
}

// ---- the leader's loop -------------------------------------------------------------------------

void Session::lead() {
  leader_.store(pthread_self(), std::memory_order_relaxed);
  if (arrival_ && arrival_->connection < 0 && !take_connection()) return finish();
  while (!ending_.load(std::memory_order_relaxed)) {
    if (park_wanted_.load(std::memory_order_relaxed)) [[unlikely]] {
      park();
      if (!ThreadPool::leads()) return;
      continue;
    }
    if (!next_frame()) break;
    if (!ThreadPool::leads()) return;
  }
  finish();
}

// Takes one frame and carries it out. False when none will follow.
bool Session::next_frame() {
  if (receiver_.available() == 0) all_is_taken_up();
  wire_header head;
  if (!await_header(&head)) return receiver_.interrupted();
  const size_t fixed = bulk_body_size(head.op);
  if (!fixed && head.size > WIRE_FRAME_MAX) {
    return malformed(head.op,
                     "a frame of " + std::to_string(head.size) + " bytes is larger than allowed");
  }
  // The payload of a bulk frame is its handler's to receive.
  const size_t need = fixed && head.size > fixed ? fixed : head.size;
  close_group_before_wait(need);
  if (!receiver_.fill(std::max(need, sizeof head), park_wanted_))
    return receiver_.interrupted() || ended_within(head.op);
  FrameReader in(receiver_.data(), need);
  receiver_.consume(need);
  payload_left_ = head.size - need;
  take_up(head.op);
  const Trace::Command traced(trace_.get(), head.op, sequence_, fixed ? head.size : 0);
  carry_out(head.op, in);
  if (!ThreadPool::leads()) return true;
  if (in.failed()) return malformed(head.op, in.why());
  return discard_payload() || ended_within(head.op);
}

// For handlers of bulk frames, which are called by the above.
bool Session::payload(void *to, size_t length) {
  const size_t padded = payload_left_;
  payload_left_ = 0;
  const bool watched = watched_;
  watch_ends();
  if (receiver_.payload(to, length, padded)) {
    if (watched) [[unlikely]]
      watch_begins();
    return true;
  }
  end(EndReason::kClosed, "the connection ended in the middle of a payload");
  return false;
}

// ---- on the way of a frame ---------------------------------------------------------------------

// Nothing lies in the receiver any more. Where nothing comes, either, a guest that has posted
// something is told so.
void Session::all_is_taken_up() {
  if (trace_) [[unlikely]]
    trace_->taken();
  if (!idle_owed_ || !nothing_comes()) return;
  idle_owed_ = false;
  answers_.idle();
  close_group();
}

// Whether the guest has sent nothing more, nor does so in a moment: what it posted last is often
// followed by a question, and saying that we are idle in between costs both sides more than a look.
bool Session::nothing_comes() {
  constexpr int kLooks = 10;
  for (int i = 0; i < kLooks; i++) {
    if (!receiver_.nothing_readable()) return false;
    sched_yield();
  }
  return true;
}

// A frame of which only the beginning is there may never come whole: what was launched before it is
// measured meanwhile.
void Session::close_group_before_wait(size_t need) {
  size_t there = receiver_.available();
  while (there != 0 && there < need) {
    if (nothing_comes()) return close_group();
    // What has come may be only a part again; at the end, nothing has.
    if (receiver_.available() == there) return;
    there = receiver_.available();
  }
}

// A connection that is no more, for people; `between`: two frames; `said`: that it would end.
static std::string how_it_ended(int error, bool between, bool said) {
  switch (error) {
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
      return "network lost: nothing comes from the guest's machine any more";
    case EBADMSG:
      return "a record of TLS was changed, cut, left out or sent twice on the way";
    default:
      if (!between) return "the connection ended in the middle of a frame";
      // Also of a guest that ends and has not read all that it was sent; unless it says so before.
      if (error == ECONNRESET && !said)
        return "the guest's connection was reset: its process has ended, or something in between "
               "broke it off";
      return "the guest closed the connection";
  }
}

bool Session::await_header(wire_header *head) {
  close_group_before_wait(sizeof *head);
  if (!receiver_.fill(sizeof *head, park_wanted_)) {
    if (receiver_.interrupted()) return false;
    end(EndReason::kClosed, how_it_ended(errno, receiver_.available() == 0, said_goodbye_));
    return false;
  }
  memcpy(head, receiver_.data(), sizeof *head);
  return true;
}

// Whether launches before and after such a command may be measured together.
static bool goes_between_launches(uint16_t op) {
  return op == WIRE_Launch || op == WIRE_LaunchWith || op == WIRE_cuEventRecord ||
         op == WIRE_StreamMark || op == WIRE_LatePayload || op == WIRE_HostFunctionDone;
}

// Whether a command brings what must be there before a function's return, which comes behind it, is
// heard: nobody reads beyond it.
static bool comes_before_return(uint16_t op) {
  return op == WIRE_LatePayload || op == WIRE_PagesUpload;
}

// One more command is taken up. Unless it may come between launches, the group of launches before
// it ends here.
void Session::take_up(uint16_t op) {
  ++sequence_;
  count_alone(counters_->commands);
  idle_owed_ = false;
  if (!goes_between_launches(op)) {
    if (comes_before_return(op))
      gate_.close_current_group();
    else
      close_group();
  } else if (op == WIRE_cuEventRecord || op == WIRE_StreamMark) {
    gate_.tell_all_with_driver();
  }
}

// Between commands: the open group of launches ends.
void Session::close_group() {
  if (host_functions_.pending()) [[unlikely]]
    watch_begins();
  gate_.close_current_group();
  watch_ends();
}

// Whether a command may put something in a stream that holds it until the guest ends that.
static bool holds_for_guest(uint16_t op) {
  return op == WIRE_HostFunction || op == WIRE_LateUpload;
}

// Of a command that is one about pages: whether it was carried out before its turn.
bool Session::was_carried(uint16_t op) {
  if (!carried_pages_.took(sequence_, &left_of_pages_)) return false;
  if (!left_of_pages_.empty()) return false;
  if (op != WIRE_PagesUpload) {
    count_alone(counters_->downloads);
    return true;
  }
  count_alone(counters_->uploads);
  posted(op, CUDA_SUCCESS);
  return true;
}

// A driver may keep it waiting in any command, and for a function of the guest. While one is
// pending, or becomes so, somebody watches.
void Session::carry_out(uint16_t op, FrameReader &in) {
  if (carried_pages_.any_taken() && was_carried(op)) [[unlikely]]
    return;
  if (host_functions_.pending() || holds_for_guest(op)) [[unlikely]] {
    if (!comes_before_return(op)) watch_begins();
  }
  adopt_variables();
  dispatch(*this, in);
  if (ThreadPool::leads()) watch_ends();
}

// Drops the payload that its handler has not received. False when the connection has ended.
bool Session::discard_payload() {
  if (!payload_left_ || ending_.load(std::memory_order_relaxed)) return true;
  return receiver_.discard(std::exchange(payload_left_, 0));
}

// Frames with which a session ends. False, for next_frame.
bool Session::malformed(uint16_t op, const std::string &why) {
  violation(std::string("malformed ") + op_name(op) + ": " + why);
  return false;
}
bool Session::ended_within(uint16_t op) {
  end(EndReason::kClosed, std::string("the connection ended in the middle of a ") + op_name(op));
  return false;
}

Region *Session::open_region() {
  int family = 0;
  socklen_t size = sizeof family;
  if (getsockopt(fd_, SOL_SOCKET, SO_DOMAIN, &family, &size) < 0 || family != AF_UNIX) {
    return nullptr;
  }
  region_ = Region::make(driver(), arrives() ? Region::For::kMove : Region::For::kGuest);
  return region_.get();
}

// Whether any stream waits, or may come to wait, for a function of the guest or for a download.
bool Session::waits_for_guest() {
  return host_functions_.pending() || device_->detour_holds().any();
}

// ---- results and answers -----------------------------------------------------------------------

void Session::posted_aside(uint16_t op, std::function<CUresult()> work) {
  if (!waits_for_guest()) return posted(op, work());
  posted(op, CUDA_SUCCESS);
  const auto keeps = std::make_shared<Keeps>(*this);
  run([this, op, keeps, work = std::move(work), posted_number = posted_count_] {
    const CUresult result = work();
    if (result != CUDA_SUCCESS) answers_.fault(op, result, posted_number);
  });
}

// What was downloaded before the function's turn is there when the guest calls it. The thread is
// the driver's, which may not ask it.
void Session::call_guest(uint64_t function, uint64_t call, CUresult status) {
  if (!transfers_.pending()) return answers_.call(function, call, status);
  run([=, this] {
    transfers_.settle(UINT64_MAX);
    answers_.call(function, call, status);
  });
}

// ---- waiting -----------------------------------------------------------------------------------

void Session::answer_query(uint64_t request, CUresult result) {
  if (transfers_.pending()) {
    const uint64_t sequence = sequence_;
    hand_over();
    transfers_.settle(sequence);
  }
  answers_.synchronised(request, result);
}

void Session::watch(uint64_t handle, uint64_t request, CUevent event, bool own) {
  if (watches_.fetch_add(1) >= session_limits.queries) {
    if (own) driver().cuEventDestroy_v2(event);
    return violation("more queries are waited for than a guest may");
  }
  if (!own) objects_.pin(event);
  run([this, handle, request, event, own, sequence = sequence_] {
    driver().cuEventSynchronize(event);
    if (own) {
      driver().cuEventDestroy_v2(event);
    } else {
      objects_.unpin(event);
    }
    transfers_.settle(sequence);
    watches_.fetch_sub(1);  // before the guest may ask again
    answers_.done(handle, request);
  });
}

// ---- limits ------------------------------------------------------------------------------------

bool Session::has_room(size_t count, size_t most, const char *what) {
  if (count < most) return true;
  if (!room_refused_) {
    log_line(LogLevel::kWarn, id_,
             "refused: a session may have " + std::to_string(most) + " " + what + " at a time");
  }
  room_refused_ = true;
  return false;
}
template <>
bool Session::has_room<CUstream>() {
  return has_room(objects_.stream_count(), session_limits.streams, "streams");
}
template <>
bool Session::has_room<CUevent>() {
  return has_room(objects_.event_count(), session_limits.events, "events");
}
template <>
bool Session::has_room<CUmodule>() {
  return has_room(module_count_.load(), session_limits.modules, "modules");
}
template <>
bool Session::has_room<CUarray>() {
  if (arrays_.count() >= session_limits.arrays) arrays_.drain();
  return has_room(arrays_.count(), session_limits.arrays, "arrays");
}
template <>
bool Session::has_room<CUtexObject>() {
  return has_room(textures_.count(), session_limits.textures, "textures and surfaces");
}

void Session::count_memory() {
  const uint64_t mapped = memory_.mapped();
  counters_->memory_mapped.store(mapped, std::memory_order_relaxed);
  counters_->pinned_memory.store(memory_.pinned(), std::memory_order_relaxed);
  if (mapped > counters_->memory_mapped_peak.load(std::memory_order_relaxed)) {
    counters_->memory_mapped_peak.store(mapped, std::memory_order_relaxed);
  }
}

}  // namespace outboard
