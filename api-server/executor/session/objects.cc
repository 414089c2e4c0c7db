#include "session/objects.h"

#include <utility>

#include "base/session_limits.h"
#include "memory/offers.h"

namespace outboard {

namespace {

// With more streams than this a synchronisation waits aside at once, instead of asking each of
// them whether there is anything to wait for.
constexpr unsigned kFewStreams = 16;

}  // namespace

void Objects::keep(uint64_t handle, CUstream stream) {
  unsigned flags = 0;
  driver_.cuStreamGetFlags(stream, &flags);
  streams_.keep(handle, {stream, (flags & CU_STREAM_NON_BLOCKING) == 0});
  ++stream_count_;
}

void Objects::keep(uint64_t handle, CUevent event) {
  events_.keep(handle, event);
  ++event_count_;
}

bool Objects::peek(uint64_t handle, Stream *stream) {
  if (handle <= 1) {
    *stream = {reinterpret_cast<CUstream>(handle), true};
    return true;
  }
  const Stream *found = streams_.find(handle);
  if (found) *stream = *found;
  return found;
}

bool Objects::find(uint64_t handle, Stream *stream) {
  if (!peek(handle, stream)) return false;
  pages_.order(stream->object,
               stream->legacy() ? pages_.seen_by_legacy() : streams_.find(handle)->seen_pages);
  return true;
}

bool Objects::find(uint64_t handle, CUstream *stream) {
  Stream found;
  if (!find(handle, &found)) return false;
  *stream = found.object;
  return true;
}

bool Objects::find(uint64_t handle, CUevent *event) {
  const CUevent *found = events_.find(handle);
  if (found) *event = *found;
  return found;
}

bool Objects::find(uint64_t handle, CUfunction *function) {
  const Function *found = functions_.find(handle);
  if (found) *function = found->object;
  return found;
}

bool Objects::take(uint64_t handle, CUstream *stream) {
  if (!find(handle, stream)) return false;
  Stream taken;
  if (!streams_.take(handle, &taken)) return false;
  --stream_count_;
  return true;
}

bool Objects::take(uint64_t handle, CUevent *event) {
  if (!events_.take(handle, event)) return false;
  --event_count_;
  if (exported_events_.erase(handle)) [[unlikely]]
    Offers::own().withdraw(session_, handle);
  return true;
}

CUresult Objects::destroy(CUstream stream) {
  if (!done(stream)) orphans_.fetch_add(1);
  gate_.stream_goes(stream);
  return driver_.cuStreamDestroy_v2(stream);
}

bool Objects::after_waits(void *object, std::function<void()> then) {
  std::lock_guard lock(pins_mutex_);
  const auto pinned = pins_.find(object);
  if (pinned == pins_.end()) return false;
  pinned->second.then = std::move(then);
  return true;
}

CUresult Objects::retire(CUstream stream) {
  upload_staging_.leave(stream);
  if (after_waits(stream, [this, stream] { destroy(stream); })) return CUDA_SUCCESS;
  return destroy(stream);
}

CUresult Objects::retire(CUevent event) {
  if (after_waits(event, [this, event] { driver_.cuEventDestroy_v2(event); })) return CUDA_SUCCESS;
  return driver_.cuEventDestroy_v2(event);
}

void Objects::drop_functions_of(const Module *module) {
  functions_.drop_if([module](const Function &f) { return f.module == module; });
}

CUresult Objects::release() {
  CUresult first = CUDA_SUCCESS;
  events_.each([&](CUevent event) { keep_first(first, driver_.cuEventDestroy_v2(event)); });
  streams_.each([&](const Stream &s) { keep_first(first, driver_.cuStreamDestroy_v2(s.object)); });
  for (uint64_t event : exported_events_) Offers::own().withdraw(session_, event);
  exported_events_.clear();
  events_.clear();
  streams_.clear();
  functions_.clear();
  stream_count_ = 0;
  event_count_ = 0;
  return first;
}

void Objects::pin(void *object) {
  std::lock_guard lock(pins_mutex_);
  ++pins_[object].count;
}

void Objects::unpin(void *object) {
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

bool Objects::done() { return stream_count_ <= kFewStreams && all_done(); }

bool Objects::all_done() {
  if (orphans_.load() != 0 || !done(CUstream{nullptr})) return false;
  bool all = true;
  streams_.each([&](const Stream &s) { all = all && done(s); });
  return all;
}

bool Objects::quiet(const Stream &stream) {
  if (!done(stream)) return false;
  if (!stream.blocking) return true;
  if (!stream.legacy()) return done(CUstream{nullptr});
  if (stream_count_ > kFewStreams) return false;
  bool all = true;
  streams_.each([&](const Stream &s) { all = all && (!s.blocking || done(s)); });
  return all;
}

bool Objects::take_side_stream() {
  if (side_streams_.fetch_add(1) < session_limits.side_streams) return true;
  side_streams_.fetch_sub(1);
  return false;
}

}  // namespace outboard
