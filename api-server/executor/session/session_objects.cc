// Streams, events and functions of a session, and waiting for them.
#include "base/log.h"
#include "base/session_limits.h"
#include "session/session.h"

namespace outboard {

namespace {

// With more streams than this a synchronisation waits aside at once, instead of asking each of
// them whether there is anything to wait for.
constexpr unsigned kFewStreams = 16;

}  // namespace

template <>
bool Session::can_mint<CUstream>(uint64_t handle) const {
  return streams_.can_mint(handle);
}
template <>
bool Session::can_mint<CUevent>(uint64_t handle) const {
  return events_.can_mint(handle);
}
template <>
bool Session::can_mint<CUfunction>(uint64_t handle) const {
  return functions_.can_mint(handle);
}

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
  return has_room(stream_count_, session_limits.streams, "streams");
}
template <>
bool Session::has_room<CUevent>() {
  return has_room(event_count_, session_limits.events, "events");
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

void Session::keep(uint64_t handle, CUstream stream) {
  unsigned flags = 0;
  driver().cuStreamGetFlags(stream, &flags);
  streams_.keep(handle, {stream, (flags & CU_STREAM_NON_BLOCKING) == 0});
  ++stream_count_;
}

bool Session::peek(uint64_t handle, Stream *stream) {
  if (handle <= 1) {
    *stream = {reinterpret_cast<CUstream>(handle), true};
    return true;
  }
  const Stream *found = streams_.find(handle);
  if (found) *stream = *found;
  return found;
}

bool Session::find(uint64_t handle, Stream *stream) {
  if (!peek(handle, stream)) return false;
  pages_.order(stream->object,
               stream->legacy() ? pages_.seen_by_legacy() : streams_.find(handle)->seen_pages);
  return true;
}

bool Session::find(uint64_t handle, CUstream *stream) {
  Stream found;
  if (!find(handle, &found)) return false;
  *stream = found.object;
  return true;
}

bool Session::find(uint64_t handle, CUevent *event) {
  const CUevent *found = events_.find(handle);
  if (found) *event = *found;
  return found;
}

bool Session::find(uint64_t handle, CUfunction *function) {
  const Function *found = functions_.find(handle);
  if (found) *function = found->object;
  return found;
}

bool Session::take(uint64_t handle, CUstream *stream) {
  if (!find(handle, stream)) return false;
  Stream taken;
  if (!streams_.take(handle, &taken)) return false;
  --stream_count_;
  return true;
}

bool Session::take(uint64_t handle, CUevent *event) {
  if (!events_.take(handle, event)) return false;
  --event_count_;
  if (exported_events_.erase(handle)) [[unlikely]]
    Offers::own().withdraw(id_, handle);
  return true;
}

CUresult Session::destroy(CUstream stream) {
  if (!done(stream)) orphans_.fetch_add(1);
  gate_.stream_goes();
  return driver().cuStreamDestroy_v2(stream);
}

CUresult Session::retire(CUstream stream) {
  uploads_.leave(stream);
  {
    std::lock_guard lock(pins_mutex_);
    auto pinned = pins_.find(stream);
    if (pinned != pins_.end()) {
      pinned->second.then = [this, stream] { destroy(stream); };
      return CUDA_SUCCESS;
    }
  }
  return destroy(stream);
}

CUresult Session::retire(CUevent event) {
  {
    std::lock_guard lock(pins_mutex_);
    auto pinned = pins_.find(event);
    if (pinned != pins_.end()) {
      pinned->second.then = [this, event] { driver().cuEventDestroy_v2(event); };
      return CUDA_SUCCESS;
    }
  }
  return driver().cuEventDestroy_v2(event);
}

void Session::pin(void *object) {
  std::lock_guard lock(pins_mutex_);
  ++pins_[object].count;
}

void Session::unpin(void *object) {
  std::function<void()> then;
  {
    std::lock_guard lock(pins_mutex_);
    auto pinned = pins_.find(object);
    if (--pinned->second.count > 0) return;
    then = std::move(pinned->second.then);
    pins_.erase(pinned);
  }
  if (then) then();
}

bool Session::done() { return stream_count_ <= kFewStreams && all_done(); }

bool Session::all_done() {
  if (orphans_.load() != 0 || !done(CUstream{nullptr})) return false;
  bool all = true;
  streams_.each([&](const Stream &s) { all = all && done(s); });
  return all;
}

bool Session::quiet(const Stream &stream) {
  if (!done(stream)) return false;
  if (!stream.blocking) return true;
  if (!stream.legacy()) return done(CUstream{nullptr});
  if (stream_count_ > kFewStreams) return false;
  bool all = true;
  streams_.each([&](const Stream &s) { all = all && (!s.blocking || done(s)); });
  return all;
}

bool Session::take_side_stream() {
  if (side_streams_.fetch_add(1) < session_limits.side_streams) return true;
  side_streams_.fetch_sub(1);
  return false;
}

void Session::answer_query(uint64_t request, CUresult result) {
  if (transfers_.pending()) {
    const uint64_t sequence = sequence_;
    hand_over();
    transfers_.settle(sequence);
  }
  synchronised(request, result);
}

void Session::watch(uint64_t handle, uint64_t request, CUevent event, bool own) {
  if (watches_.fetch_add(1) >= session_limits.queries) {
    if (own) driver().cuEventDestroy_v2(event);
    return violation("more queries are waited for than a guest may");
  }
  if (!own) pin(event);
  post([this, handle, request, event, own, sequence = sequence_] {
    driver().cuEventSynchronize(event);
    if (own) {
      driver().cuEventDestroy_v2(event);
    } else {
      unpin(event);
    }
    transfers_.settle(sequence);
    watches_.fetch_sub(1);  // before the guest may ask again
    push_done(handle, request);
  });
}

}  // namespace outboard
