#include "session/departure.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>

#include "base/log.h"
#include "images/variable_names.h"
#include "session/session.h"
#include "wire_calls.h"

namespace outboard {

namespace {

constexpr size_t kPiece = WIRE_BULK_MAX;

template <class T>
T as(const std::vector<uint8_t> &frame) {
  T value{};
  if (!frame.empty()) memcpy(&value, frame.data(), std::min(sizeof value, frame.size()));
  return value;
}

// Of changes, those that are asked for.
bool is_question(uint16_t op) {
  return op == WIRE_cuCtxSetLimit || op == WIRE_LimitSet || op == WIRE_cuFuncSetAttribute;
}

std::string hex(uint64_t number) {
  char text[32];
  snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(number));
  return text;
}

}  // namespace

Departure::Departure(Session &session, int link, Done done)
    : s_(session),
      link_(link, [&session] { return session.is_left_alone(); }),
      done_(std::move(done)) {
  thread_ = std::thread([this] { run(); });
}

Departure::~Departure() { thread_.join(); }

bool Departure::over() const {
  constexpr int kLooks = 50;
  for (int i = 0; i < kLooks && told_.load() && !over_.load(); i++)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return over_.load();
}

bool Departure::refuse(const std::string &why) {
  if (why_.empty()) why_ = why;
  return false;
}

void Departure::run() {
  pthread_setname_np(pthread_self(), "outboard-move");
  s_.device().bind();
  s_.load_log().hold();
  const bool moved = go();
  if (moved) area_.reset();
  if (!moved && why_.empty()) why_ = link_.why();
  s_.load_log().go_on();
  const uint64_t stopped_ns = s_.stopped_ns();
  told_.store(true);
  // It is told before the session's end can be.
  if (moved) done_(true, {}, stopped_ns);
  s_.unpark(moved);
  if (!moved) done_(false, why_, stopped_ns);
  // A driver gives pinned memory back when all work has ended, which may wait for what the guest
  // sends next.
  area_.reset();
  over_.store(true);
}

bool Departure::go() {
  if (hindered() || !link_.hand(s_.fd_)) return false;
  // Most of it while the session runs.
  if (!open_area() || !replay() || !memory_ahead() || !kept(s_.answers_.sent_so_far(), false))
    return false;
  since_ = std::chrono::steady_clock::now();
  if (!s_.await_parked(&why_)) return false;
  took("rest");
  if (hindered() || !replay() || !take_expected()) return false;
  took("modules");
  if (!objects() || !changes()) return false;
  took("objects");
  if (!memory()) return false;
  took("memory");
  if (!coming_images() || !states() || !stream() || !barrier() || !commit()) return false;
  took("state");
  log_line(LogLevel::kInfo, s_.id(), "it stood still for " + parts_);
  return true;
}

void Departure::took(const char *what) {
  const auto now = std::chrono::steady_clock::now();
  char text[64];
  snprintf(text, sizeof text, "%s%s %.1f ms", parts_.empty() ? "" : ", ", what,
           std::chrono::duration<double, std::milli>(now - std::exchange(since_, now)).count());
  parts_ += text;
}

bool Departure::hindered() {
  if (s_.heap_is_fixed()) s_.hinder(Hindrance::kDeviceHeap);
  const uint64_t bits = s_.count().hindrances.load();
  for (uint8_t each = 0; each < kHindranceCount; each++) {
    if ((bits & bit_of(Hindrance{each})) == 0) continue;
    refuse(std::string("the session has ") + hindrance_about(Hindrance{each}));
    return true;
  }
  return false;
}

// ---- modules -----------------------------------------------------------------------------------

// Has the target load and unload what this session has since the last call.
bool Departure::replay() {
  for (;;) {
    LoadLog::Step step{};
    LoadLog::Load load;
    bool noted = true;
    const bool found =
        s_.load_log().look(steps_, [&](const LoadLog::Step &one, const LoadLog::Load &what) {
          step = one;
          load = what;
          if (!one.unload && what.image && what.library) noted = note_variables(what, one.load);
        });
    if (s_.load_log().begun_anew()) return refuse("the program resets its context");
    if (!found) return true;
    if (!noted) return false;
    if (!load.image)
      return refuse(std::string("the session has ") + hindrance_about(Hindrance::kManyObjects));
    ++steps_;
    if (step.unload ? !unload(load, step.load) : !this->load(load, step.load)) return false;
  }
}

bool Departure::note_variables(const LoadLog::Load &load, uint32_t number) {
  std::string why;
  const std::vector<std::string> names = variable_names(*load.image, &why);
  if (!why.empty()) return refuse(why);
  std::vector<Placed> &list = variables_[number];
  for (const std::string &name : names) {
    CUdeviceptr address = 0;
    size_t size = 0;
    if (s_.driver().cuLibraryGetGlobal(&address, &size, load.library, name.c_str()) ==
            CUDA_SUCCESS &&
        size > 0) {
      list.push_back({name, address, size});
    }
  }
  return true;
}

// Bytes `from` to `to`.
bool Departure::send_image(const Image &image, const Hash &hash, uint64_t from, uint64_t to) {
  for (uint64_t at = from; at < to; at += kPiece) {
    wire_ModulePiece piece{};
    piece.header.op = WIRE_ModulePiece;
    piece.hash0 = hash[0];
    piece.hash1 = hash[1];
    piece.hash2 = hash[2];
    piece.hash3 = hash[3];
    piece.total = image.size();
    piece.offset = at;
    piece.length = std::min<uint64_t>(kPiece, to - at);
    if (!link_.post(&piece, sizeof piece, image.data() + at, piece.length)) return false;
  }
  return true;
}

bool Departure::expect(const LoadLog::Load &load, const std::string &name,
                       std::vector<uint8_t> *reply) {
  wire_ModuleExpect q{};
  q.request.header.op = WIRE_ModuleExpect;
  q.index = *load.expected;
  q.hash0 = load.hash[0];
  q.hash1 = load.hash[1];
  q.hash2 = load.hash[2];
  q.hash3 = load.hash[3];
  q.total = load.image->size();
  q.name_size = static_cast<uint32_t>(name.size());
  return link_.ask(&q, sizeof q, name.data(), name.size(), reply);
}

bool Departure::open(const LoadLog::Load &load, std::vector<uint8_t> *reply) {
  wire_ModuleOpen q{};
  q.request.header.op = WIRE_ModuleOpen;
  q.module = load.handle;
  q.hash0 = load.hash[0];
  q.hash1 = load.hash[1];
  q.hash2 = load.hash[2];
  q.hash3 = load.hash[3];
  q.total = load.image->size();
  q.options_size = static_cast<uint32_t>(load.options.size());
  return link_.ask(&q, sizeof q, load.options.data(), load.options.size(), reply);
}

bool Departure::load(const LoadLog::Load &load, uint32_t number) {
  loads_[number] = load;
  for (bool sent = false;; sent = true) {
    std::vector<uint8_t> reply;
    if (!(load.expected ? expect(load, {}, &reply) : open(load, &reply))) return false;
    const uint32_t state = load.expected ? as<wire_ModuleExpect_reply>(reply).state
                                         : as<wire_ModuleOpen_reply>(reply).state;
    const int32_t result = as<wire_reply>(reply).result;
    if (result != CUDA_SUCCESS || state == WIRE_MODULE_REFUSED ||
        (sent && state == WIRE_MODULE_WANTED))
      return refuse("the other GPU does not load a module that the session has (CUDA error " +
                    std::to_string(result) + ")");
    if (state == WIRE_MODULE_LOADED) return compare(load, number);
    if (!send_image(*load.image, load.hash, 0, load.image->size())) return false;
  }
}

bool Departure::unload(const LoadLog::Load &load, uint32_t number) {
  if (load.expected) {
    wire_ModuleTake take{};
    take.header.op = WIRE_ModuleTake;
    take.module = load.handle;
    take.index = *load.expected;
    if (!link_.post(&take, sizeof take)) return false;
  }
  wire_ModuleUnload q{};
  q.header.op = WIRE_ModuleUnload;
  q.module = load.handle;
  variables_.erase(number);
  loads_.erase(number);
  return link_.post(&q, sizeof q);
}

// Whether the target has the module's variables where they are here.
bool Departure::compare(const LoadLog::Load &load, uint32_t number) {
  for (const auto &[name, wanted, wanted_size] : variables_[number]) {
    std::vector<uint8_t> reply;
    uint64_t address = 0, size = 0;
    if (load.expected) {
      if (!expect(load, name, &reply)) return false;
      address = as<wire_ModuleExpect_reply>(reply).address;
      size = as<wire_ModuleExpect_reply>(reply).size;
    } else {
      wire_ModuleGlobal q{};
      q.request.header.op = WIRE_ModuleGlobal;
      q.module = load.handle;
      q.name_size = static_cast<uint32_t>(name.size());
      if (!link_.ask(&q, sizeof q, name.data(), name.size(), &reply)) return false;
      address = as<wire_ModuleGlobal_reply>(reply).address;
      size = as<wire_ModuleGlobal_reply>(reply).size;
    }
    if (as<wire_reply>(reply).result != CUDA_SUCCESS || size != wanted_size)
      return refuse("the other GPU's module lacks its variable " + name);
    if (address != wanted)
      return refuse("the variable " + name + " would lie at " + hex(address) +
                    " on the other GPU instead of " + hex(wanted) +
                    ", and kernels may have kept its address");
  }
  return true;
}

// Those that the guest has taken, of modules that were loaded before it asked. The others are as
// they were loaded.
bool Departure::take_expected() {
  for (const auto &[number, load] : loads_) {
    if (!load.expected) continue;
    const uint64_t handle = s_.load_log().handle(number);
    if (handle == 0) {
      variables_.erase(number);
      continue;
    }
    wire_ModuleTake take{};
    take.header.op = WIRE_ModuleTake;
    take.module = handle;
    take.index = *load.expected;
    if (!link_.post(&take, sizeof take)) return false;
    for (const auto &[name, address, size] : variables_[number]) {
      // With that it becomes memory that the session may use.
      wire_ModuleGlobal q{};
      q.request.header.op = WIRE_ModuleGlobal;
      q.module = handle;
      q.name_size = static_cast<uint32_t>(name.size());
      std::vector<uint8_t> reply;
      if (!link_.ask(&q, sizeof q, name.data(), name.size(), &reply)) return false;
    }
  }
  return true;
}

// ---- objects -----------------------------------------------------------------------------------

bool Departure::objects() {
  bool sent = true;
  std::vector<uint64_t> copy;
  s_.recipes().each_object([&](uint64_t handle, std::span<const uint8_t> frame) {
    if (!sent) return;
    Stream stream;
    CUevent event;
    bool is_there = false;
    switch (wire_handle_kind(handle)) {
      case WIRE_KIND_STREAM:
        is_there = s_.objects().peek(handle, &stream);
        break;
      case WIRE_KIND_EVENT:
        is_there = s_.objects().peek(handle, &event);
        break;
      case WIRE_KIND_FUNCTION:
        is_there = s_.objects().find_function(handle) != nullptr;
        break;
      default:  // modules are there already
        break;
    }
    if (!is_there) return;
    copy.resize(frame.size() / sizeof(uint64_t));
    memcpy(copy.data(), frame.data(), frame.size());
    sent = link_.post(copy.data(), frame.size());
  });
  return sent;
}

// What has failed here fails there as well.
bool Departure::changes() {
  if (!barrier()) return false;
  link_.bear_faults(true);
  bool sent = true;
  std::vector<uint64_t> copy;
  s_.recipes().each_change([&](std::span<const uint8_t> frame) {
    if (!sent || frame.empty()) return;
    copy.resize(frame.size() / sizeof(uint64_t));
    memcpy(copy.data(), frame.data(), frame.size());
    std::vector<uint8_t> reply;
    wire_header head;
    memcpy(&head, frame.data(), sizeof head);
    sent = is_question(head.op) ? link_.ask(copy.data(), frame.size(), nullptr, 0, &reply)
                                : link_.post(copy.data(), frame.size());
  });
  if (!sent || !barrier()) return false;
  link_.bear_faults(false);
  return true;
}

bool Departure::barrier() {
  wire_Echo q{};
  q.request.header.op = WIRE_Echo;
  std::vector<uint8_t> reply;
  return link_.ask(&q, sizeof q, nullptr, 0, &reply);
}

// ---- what is left ------------------------------------------------------------------------------

bool Departure::coming_images() {
  bool sent = true;
  s_.pending_images().each([&](const Hash &hash, const PendingImage &pending) {
    for (const auto &[start, end] : pending.present())
      sent = sent && send_image(*pending.image(), hash, start, end);
  });
  return sent;
}

bool Departure::state(uint32_t kind, const void *bytes, size_t size) {
  for (size_t at = 0; at < size; at += kPiece) {
    wire_MoveState q{};
    q.header.op = WIRE_MoveState;
    q.kind = kind;
    q.length = std::min(kPiece, size - at);
    if (!link_.post(&q, sizeof q, static_cast<const uint8_t *>(bytes) + at, q.length)) return false;
  }
  return true;
}

bool Departure::states() {
  const std::vector<uint8_t> unread = s_.receiver_.unread();
  std::vector<MovedEvents::Event> events;
  s_.objects().each_event([&](uint64_t handle, CUevent object) {
    events.push_back({handle, object});
  });
  const std::vector<wire_moved_event> times = s_.moved_events_.times(events);
  const std::vector<uint64_t> returned = s_.host_functions().returned_early();
  std::vector<uint64_t> counters(kCounterCount);
  memcpy(counters.data(), &s_.count(), kCounterCount * sizeof(uint64_t));
  const uint8_t printed = 1;
  return state(WIRE_MOVE_UNREAD, unread.data(), unread.size()) &&
         state(WIRE_MOVE_EVENTS, times.data(), times.size() * sizeof times[0]) &&
         state(WIRE_MOVE_RETURNED, returned.data(), returned.size() * sizeof returned[0]) &&
         state(WIRE_MOVE_COUNTERS, counters.data(), counters.size() * sizeof counters[0]) &&
         state(WIRE_MOVE_PRINTED, &printed, s_.printing_is_fixed() ? sizeof printed : 0) &&
         region() && keys();
}

// No copy to or from it is under way, as all is at rest.
bool Departure::region() {
  if (!s_.region_) return true;
  const uint64_t announced = s_.region_->announced();
  wire_MoveState q{};
  q.header.op = WIRE_MoveState;
  q.kind = WIRE_MOVE_REGION;
  q.length = sizeof announced;
  return link_.post(&q, sizeof q, &announced, sizeof announced, s_.region_->descriptor());
}

// Of a connection by TLS. From here on nothing is sent to the guest, or both processes would use
// the same keys: all work has ended, and its leader is parked.
bool Departure::keys() {
  if (!s_.records_ || s_.answers_.stream().cut) return true;
  const std::span<const uint8_t> unopened = s_.records_->unopened();
  std::vector<uint8_t> bytes;
  bytes.reserve(Records::kStateBytes + unopened.size());  // no copies of keys stay behind
  if (!s_.records_->save(&bytes)) return refuse("the guest has ended TLS");
  bytes.insert(bytes.end(), unopened.begin(), unopened.end());
  const bool sent = state(WIRE_MOVE_TLS, bytes.data(), bytes.size());
  explicit_bzero(bytes.data(), bytes.size());
  return sent;
}

// What was sent to the guest, in case it has not received it, up to that count at least.
bool Departure::kept(uint64_t until, bool stopped) {
  if (!s_.reconnection_.resumes()) return true;
  std::vector<uint8_t> piece(kPiece);
  while (kept_ < until) {
    wire_moved_kept head{kept_};
    const size_t size = s_.answers_.copy_kept(&head.from, piece.data() + sizeof head,
                                              kPiece - sizeof head, stopped);
    if (size == 0) break;
    memcpy(piece.data(), &head, sizeof head);
    kept_ = head.from + size;
    if (!state(WIRE_MOVE_KEPT, piece.data(), sizeof head + size)) return false;
  }
  return true;
}

// Of a connection that is kept over cuts. Nobody reads or sends any more. A connection on which the
// guest comes back from here on is closed with the session: it comes again.
bool Departure::stream() {
  if (!s_.reconnection_.resumes()) return true;
  if (s_.reconnection_.given_up()) return refuse("the session ends");
  if (!kept(UINT64_MAX, true)) return false;
  const Sender::Stream sent = s_.answers_.stream();
  wire_moved_stream came{};
  came.received = s_.receiver_.received();
  came.sent = sent.kept.sent;
  came.cut_at = sent.cut ? sent.cut_at : 0;
  came.away_ms = s_.away_ms();
  came.epoch = s_.reconnection_.epoch();
  came.flags =
      (sent.cut ? WIRE_STREAM_CUT : 0) | (s_.reconnection_.silent() ? WIRE_STREAM_SILENT : 0);
  wire_MoveState q{};
  q.header.op = WIRE_MoveState;
  q.kind = WIRE_MOVE_STREAM;
  q.length = sizeof came;
  return link_.post(&q, sizeof q, &came, sizeof came, s_.fd_);
}

bool Departure::commit() {
  wire_MoveCommit q{};
  q.request.header.op = WIRE_MoveCommit;
  q.sequence = s_.sequence_;
  q.posted = s_.posted_count_;
  q.last_call = s_.host_functions().last_call();
  q.async = s_.answers_.unreported();
  q.idle_owed = s_.idle_owed_;
  if (!s_.begin_commit()) return refuse("the session ends");
  std::vector<uint8_t> reply;
  const bool answered = link_.ask_finally(&q, sizeof q, &reply);
  const bool moved = answered && as<wire_reply>(reply).result == CUDA_SUCCESS;
  s_.end_commit(moved);
  if (answered && !moved)
    refuse("the other GPU failed (CUDA error " + std::to_string(as<wire_reply>(reply).result) +
           ")");
  return moved;
}

}  // namespace outboard
