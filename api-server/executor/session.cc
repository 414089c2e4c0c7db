#include "session.h"

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

#include "dispatch.h"
#include "error.h"
#include "log.h"
#include "read_ahead.h"

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

// Sessions whose threads are stuck in the driver: they stay until the process is replaced.
void keep_forever(std::shared_ptr<Session> session) {
  static std::mutex mutex;
  static auto *const stuck = new std::vector<std::shared_ptr<Session>>;
  std::lock_guard lock(mutex);
  stuck->push_back(std::move(session));
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
  if (session->output_) session->output_->skip();
  session->crew_.start();
  if (!expected.empty()) load_expected(*session, std::move(expected));
  std::thread([session]() mutable {
    pthread_setname_np(pthread_self(), "outboard-warden");
    const std::function<void(const SessionEnd &)> on_end = session->on_end_;
    const SessionEnd end = session->warden();
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
      module_limit_(options.module_limit),
      on_used_(std::move(options.on_used)),
      on_end_(std::move(options.on_end)),
      fd_(fd),
      wake_fd_(wake_fd),
      trace_(Trace::open(options.trace, id_)),
      receiver_(fd, options.leftover, *counters_),
      sender_(fd, *counters_),
      crew_([this] { device_->bind(); }, [this] { lead(); }),
      memory_(device_->driver(), device_->ordinal(), device_->scrubber(), device_->window_base(),
              device_->window_size(), {options.memory_limit, options.pinned_limit},
              {.held_up = [this] { return host_functions_.pending(); },
               .resting = [this] { return all_done(); },
               .awaited = [this](uint64_t address,
                                 uint64_t size) { return stream_waits_.within(address, size); }}),
      arrays_(device_->driver(), memory_, device_->scrubber(),
              [this](std::function<void()> job) { post(std::move(job)); }),
      textures_(device_->driver()),
      uploads_(device_->driver(), device_->uploads()),
      upload_cache_(options.upload_cache),
      kept_uploads_(options.upload_cache && device_->upload_store()
                        ? device_->upload_store()->of(options.tenant)
                        : nullptr),
      transfers_(device_->driver()),
      pages_(device_->driver()),
      output_(Output::installed()),
      host_functions_(device_->driver(),
                      [this](uint64_t function, uint64_t call, CUresult status) {
                        call_guest(function, call, status);
                      }),
      gate_(
          device_->driver(), device_->context(), device_->tokens(), id_,
          limited(options.gate, options), [this] { device_->bind(); }, trace_.get()),
      graphs_(device_->driver()),
      image_room_(options.image_limit ? options.image_limit : device_->image_bytes()) {
  Sharer sharer{id_, options.tenant, {}};
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
  return gate;
}

Session::~Session() {
  close(fd_);
  close(wake_fd_);
}

// ---- the leader's loop -------------------------------------------------------------------------

void Session::lead() {
  while (!ending_.load(std::memory_order_relaxed)) {
    if (!next_frame()) break;
    if (!Crew::leads()) return;
  }
  finish();
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

// A connection that is no more, for people; `between`: two frames.
static std::string how_it_ended(int error, bool between) {
  switch (error) {
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
      return "network lost: nothing comes from the guest's machine any more";
    default:
      return between ? "the guest closed the connection"
                     : "the connection ended in the middle of a frame";
  }
}

// Whether launches before and after such a command may be measured as if it were not there.
static bool goes_between_launches(uint16_t op) {
  return op == WIRE_Launch || op == WIRE_LaunchWith || op == WIRE_cuEventRecord;
}

// A frame of which only the beginning is there may never come whole: what was launched before it is
// measured meanwhile.
void Session::pause_before_wait(size_t need) {
  size_t there = receiver_.available();
  while (there != 0 && there < need) [[unlikely]] {
      if (nothing_comes()) return gate_.pause();
      // What has come may be only a part again; at the end, nothing has.
      if (receiver_.available() == there) return;
      there = receiver_.available();
    }
}

// Takes one frame and carries it out. False when none will follow.
bool Session::next_frame() {
  if (trace_ && receiver_.available() == 0) [[unlikely]]
    trace_->taken();
  if (idle_owed_ && receiver_.available() == 0 && nothing_comes()) {
    idle_owed_ = false;
    wire_header idle;
    sender_.push(WIRE_IDLE, &idle, sizeof idle);
    gate_.pause();
  }
  pause_before_wait(sizeof(wire_header));
  if (!receiver_.fill(sizeof(wire_header))) {
    end(EndReason::kClosed, how_it_ended(errno, receiver_.available() == 0));
    return false;
  }
  const wire_header head = *reinterpret_cast<const wire_header *>(receiver_.data());
  const size_t bulk = bulk_body_size(head.op);
  if (!bulk && head.size > WIRE_FRAME_MAX) {
    violation(std::string("malformed ") + op_name(head.op) + ": a frame of " +
              std::to_string(head.size) + " bytes is larger than allowed");
    return false;
  }
  const size_t need = bulk && head.size > bulk ? bulk : head.size;
  pause_before_wait(need);
  if (!receiver_.fill(std::max(need, sizeof head))) {
    end(EndReason::kClosed,
        std::string("the connection ended in the middle of a ") + op_name(head.op));
    return false;
  }
  FrameReader in(receiver_.data(), need);
  receiver_.consume(need);
  payload_left_ = head.size - need;
  ++sequence_;
  count_alone(counters_->commands);
  idle_owed_ = false;
  if (!goes_between_launches(head.op)) {
    gate_.pause();
  } else if (head.op == WIRE_cuEventRecord) {
    gate_.go_on();
  }
  const Trace::Command traced(trace_.get(), head.op, sequence_, bulk ? head.size : 0);
  {
    std::optional<ReadAhead> ahead;
    if (may_wait_for_device(head.op) && host_functions_.pending()) [[unlikely]]
      ahead.emplace(crew_, receiver_, host_functions_);
    adopt_variables(*this);
    dispatch(*this, in);
  }
  if (!Crew::leads()) return true;
  if (in.failed()) {
    violation(std::string("malformed ") + op_name(head.op) + ": " + in.why());
    return false;
  }
  if (payload_left_ && !ending_.load(std::memory_order_relaxed)) {
    const size_t rest = payload_left_;
    payload_left_ = 0;
    if (!receiver_.discard(rest)) {
      end(EndReason::kClosed,
          std::string("the connection ended in the middle of a ") + op_name(head.op));
      return false;
    }
  }
  return true;
}

bool Session::payload(void *to, size_t length) {
  const size_t padded = payload_left_;
  payload_left_ = 0;
  if (receiver_.payload(to, length, padded)) return true;
  end(EndReason::kClosed, "the connection ended in the middle of a payload");
  return false;
}

Region *Session::open_region() {
  int family = 0;
  socklen_t size = sizeof family;
  if (getsockopt(fd_, SOL_SOCKET, SO_DOMAIN, &family, &size) < 0 || family != AF_UNIX) {
    return nullptr;
  }
  region_ = Region::make(driver());
  return region_.get();
}

// ---- results and answers -----------------------------------------------------------------------

void Session::posted_aside(uint16_t op, std::function<CUresult()> work) {
  if (!host_functions_.pending()) return posted(op, work());
  posted(op, CUDA_SUCCESS);
  post([this, op, work = std::move(work), sequence = posted_count_] {
    const CUresult result = work();
    if (result != CUDA_SUCCESS) fault(op, result, sequence);
  });
}

void Session::fault(uint16_t op, CUresult result, uint64_t sequence) {
  int none = 0;
  async_.compare_exchange_strong(none, result);
  outboard::count(counters_->faults);
  wire_fault frame{};
  frame.result = result;
  frame.op = op;
  frame.sequence = sequence;
  sender_.push(WIRE_FAULT, &frame, sizeof frame);
}

void Session::fill(wire_reply *reply, uint64_t request, CUresult result) {
  if (trace_) [[unlikely]]
    Trace::answers();
  reply->request = request;
  reply->result = result;
  reply->async = async_.load(std::memory_order_relaxed) ? async_.exchange(0) : 0;
  outboard::count(counters_->round_trips);
}

void Session::answer(uint64_t request, CUresult result) {
  wire_reply reply;
  fill(&reply, request, result);
  sender_.push(WIRE_REPLY, &reply, sizeof reply);
}

void Session::answer(uint64_t request, CUresult result, wire_reply *reply, size_t size,
                     const void *tail, size_t tail_size) {
  fill(reply, request, result);
  sender_.push(WIRE_REPLY, reply, size, tail, tail_size);
}

void Session::synchronised(uint64_t request, CUresult result) {
  flush_output();
  answer(request, result);
}

bool Session::send_data(uint64_t request, uint64_t offset, const void *data, size_t length) {
  wire_data frame;
  frame.request = request;
  frame.offset = offset;
  frame.length = length;
  return sender_.push(WIRE_DATA, &frame, sizeof frame, data, length);
}

void Session::answer_with_data(uint64_t request, uint64_t offset, const void *data, size_t length) {
  const size_t padding = -length & 7;
  wire_data frame;
  frame.header = {WIRE_DATA, 0, static_cast<uint32_t>(sizeof frame + length + padding)};
  frame.request = request;
  frame.offset = offset;
  frame.length = length;
  wire_reply reply;
  reply.header = {WIRE_REPLY, 0, sizeof reply};
  fill(&reply, request, CUDA_SUCCESS);
  iovec parts[4] = {{&frame, sizeof frame},
                    {const_cast<void *>(data), length},
                    {const_cast<uint8_t *>(kPadding), padding},
                    {&reply, sizeof reply}};
  sender_.send(parts, 4);
}

void Session::send_placed(uint64_t request, uint64_t offset, size_t length, uint32_t slot,
                          bool last) {
  wire_placed frame{};
  frame.header = {WIRE_PLACED, 0, sizeof frame};
  frame.request = request;
  frame.offset = offset;
  frame.length = length;
  frame.slot = slot;
  wire_reply reply;
  reply.header = {WIRE_REPLY, 0, sizeof reply};
  if (last) fill(&reply, request, CUDA_SUCCESS);
  iovec parts[2] = {{&frame, sizeof frame}, {&reply, sizeof reply}};
  sender_.send(parts, last ? 2 : 1);
}

void Session::answer_with_descriptor(uint64_t request, wire_reply *reply, size_t size,
                                     int descriptor) {
  reply->header = {WIRE_REPLY, 0, static_cast<uint32_t>(size)};
  fill(reply, request, CUDA_SUCCESS);
  iovec part = {reply, size};
  sender_.send(&part, 1, descriptor);
}

void Session::push_done(uint64_t handle, uint64_t request) {
  flush_output();
  wire_done frame;
  frame.handle = handle;
  frame.request = request;
  sender_.push(WIRE_DONE, &frame, sizeof frame);
}

// What was downloaded before the function's turn is there when the guest calls it. The thread is
// the driver's, which may not ask it.
void Session::call_guest(uint64_t function, uint64_t call, CUresult status) {
  if (!transfers_.pending()) return push_call(function, call, status);
  post([=, this] {
    transfers_.settle(UINT64_MAX);
    push_call(function, call, status);
  });
}

void Session::push_call(uint64_t function, uint64_t call, CUresult status) {
  wire_call frame{};
  frame.function = function;
  frame.call = call;
  frame.status = status;
  sender_.push(WIRE_CALL, &frame, sizeof frame);
}

void Session::flush_output() {
  if (!output_ || !launched_.load(std::memory_order_relaxed)) return;
  std::lock_guard lock(output_mutex_);
  char text[16 << 10];
  while (const size_t length = output_->read(text, sizeof text)) {
    wire_output frame;
    frame.length = length;
    if (!sender_.push(WIRE_OUTPUT, &frame, sizeof frame, text, length)) break;
  }
  const std::string assertions = output_->take_assertions();
  for (size_t at = 0; at < assertions.size(); at += sizeof text) {
    const size_t length = std::min(sizeof text, assertions.size() - at);
    wire_output frame;
    frame.length = length;
    if (!sender_.push(WIRE_ERRORS, &frame, sizeof frame, assertions.data() + at, length)) break;
  }
}

// ---- the end -----------------------------------------------------------------------------------

// The first reason given stands.
void Session::end(EndReason reason, const std::string &message) {
  {
    std::lock_guard lock(end_mutex_);
    if (ended_) return;
    ended_ = true;
    reason_ = reason;
    end_message_ = message;
  }
  ending_.store(true);
  sender_.hurry();
  if (memory_.lender()) memory_.lender()->hurry();
  // Wakes a leader that waits for the guest.
  shutdown(fd_, SHUT_RD);
  const uint64_t one = 1;
  if (write(wake_fd_, &one, sizeof one) < 0) return;
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
  if (reason == EndReason::kClosed) return;
  if (reason == EndReason::kViolation) sentence = "protocol violation: " + sentence;
  wire_end frame{};
  frame.result = reason == EndReason::kViolation ? CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
                                                 : CUDA_ERROR_DEVICE_UNAVAILABLE;
  frame.length = static_cast<uint32_t>(sentence.size());
  sender_.push(WIRE_END, &frame, sizeof frame, sentence.data(), sentence.size());
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
  if (trace_) trace_->taken();
  say_end();
  if (memory_.lender()) memory_.lender()->close();
  satisfy_waits();
  crew_.dismiss();
  crew_.wait_alone();
  const bool clean = release();
  std::lock_guard lock(end_mutex_);
  released_ = true;
  reusable_ = clean;
  over_.notify_all();
}

CUresult Session::reset(bool over) {
  // Of the guest nothing is taken up before the reset is done: it cannot write them any more.
  if (!over) satisfy_waits();
  gate_.pause();
  CUresult first = driver().cuCtxSynchronize();
  gate_.settle();
  if (over) {
    std::lock_guard lock(end_mutex_);
    at_rest_ = true;
    over_.notify_all();
  }
  crew_.wait_alone();
  const auto keep_first = [&](CUresult result) {
    if (first == CUDA_SUCCESS) first = result;
  };
  host_functions_.forget();
  stream_waits_.clear();
  uploads_.release();
  if (over) {
    Offers::own().withdraw_all(id_);
    // They have nothing of the device, and outlive a reset.
    links_.clear();
  }
  graphs_.clear();
  events_.each([&](CUevent event) { keep_first(driver().cuEventDestroy_v2(event)); });
  streams_.each([&](Stream &s) { keep_first(driver().cuStreamDestroy_v2(s.object)); });
  keep_first(pages_.release());
  for (uint64_t event : exported_events_) Offers::own().withdraw(id_, event);
  exported_events_.clear();
  events_.clear();
  streams_.clear();
  functions_.clear();
  stream_count_ = 0;
  event_count_ = 0;
  keep_first(textures_.release());
  keep_first(arrays_.release());
  keep_first(memory_.release(over));
  count_memory();
  keep_first(loaded_.unload(driver()));
  keep_first(expected_.unload(driver()));
  module_count_ = 0;
  image_room_.clear();
  counters_->module_memory = 0;
  pending_images_.clear();
  const CUresult limits = device_->restore_limits();
  if (over) {
    // What kernels have used keeps its size as long as the context is there.
    worn_ = limits == CUDA_ERROR_INVALID_VALUE;
    if (!worn_) keep_first(limits);
  } else if (limits != CUDA_SUCCESS) {
    // All else is gone; a context of its own, which a reset would begin anew, there is not.
    log_line(
        LogLevel::kWarn, id_,
        "a reset leaves the sizes of heap or printf buffer, which kernels have used, as they are");
  }
  memory_.set_beside(0);
  if (unclean_ == CUDA_SUCCESS) unclean_ = first;
  return first;
}

// Whether the device is clean.
bool Session::release() {
  reset(true);
  region_.reset();
  host_functions_.finish();
  gate_.finish();
  if (output_) output_->skip();
  if (unclean_ != CUDA_SUCCESS) {
    std::lock_guard lock(end_mutex_);
    if (reason_ == EndReason::kClosed) reason_ = EndReason::kDevice;
    end_message_ += "; the device's context is given up: " + driver().describe(unclean_);
    return false;
  }
  device_->uploads().scrub();
  device_->downloads().scrub();
  if (worn_) {
    log_line(LogLevel::kInfo, id_,
             "kernels have used the heap or printed, which fixes the sizes of these: the next "
             "session gets a new process");
  }
  return !worn_;
}

// Sees the session to its end, whatever its threads are stuck in.
SessionEnd Session::warden() {
  watch();
  left_alone_.store(true);
  sender_.hurry();
  gate_.open();
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
    report = {reason_, end_message_, released && reusable_, used_.list()};
  }
  if (released) {
    crew_.join();
  } else {
    // The leader may be stuck, too.
    say_end();
    const auto seconds = std::chrono::duration<double>(patience).count();
    char text[128];
    snprintf(text, sizeof text, "%sits work on the device did not end within %g seconds",
             report.message.empty() ? "" : "; ", seconds);
    report.message += text;
    if (report.reason == EndReason::kClosed) report.reason = EndReason::kDevice;
    crew_.abandon();
    keep_forever(shared_from_this());
  }
  if (report.reason != EndReason::kClosed && report.reason != EndReason::kDevice) linger();
  shutdown(fd_, SHUT_RDWR);
  if (!report.reusable) device_->spoil();
  gate_.leave();
  if (released) device_->yield();
  // A context that kernels have worn is no trouble of anybody's.
  const bool trouble = !released || unclean_ != CUDA_SUCCESS;
  log_line(trouble ? LogLevel::kWarn : LogLevel::kInfo, id_, "session over: " + report.message);
  return report;
}

}  // namespace outboard
