#include "session/host_functions.h"

#include "base/session_limits.h"

namespace outboard {

// After each change, with the lock held. Those of graphs are never spare: any launch may call them.
// What waited for any may only now be going on when they have been let go.
void HostFunctions::note_pending() {
  pending_.store(open_ || spare_.size() < all_.size() || running_ > 0, std::memory_order_relaxed);
}

HostFunctions::Record *HostFunctions::take(uint64_t function, bool kept) {
  std::lock_guard lock(mutex_);
  if (spare_.empty()) {
    if (all_.size() >= session_limits.host_functions) return nullptr;
    all_.push_back(std::make_unique<Record>());
    spare_.push_back(all_.back().get());
  }
  Record *const record = spare_.back();
  spare_.pop_back();
  *record = {this, function, kept, false, false, {}};
  note_pending();
  return record;
}

void HostFunctions::give(Record *record) {
  std::lock_guard lock(mutex_);
  spare_.push_back(record);
  note_pending();
}

// Before the function is in its stream, where it may be called at once.
bool HostFunctions::attend(Record *record) {
  return record->attended = porter_ && porter_->stand_by(stream_operations_);
}

void HostFunctions::queued(Record *record, bool attended, CUresult result) {
  const bool is_there = result == CUDA_SUCCESS;
  if (attended) porter_->settled(stream_operations_, is_there);
  if (!is_there) give(record);
}

CUresult HostFunctions::add_callback(CUstream stream, Record *record) {
  return driver_.cuStreamAddCallback(
      stream,
      [](CUstream, CUresult status, void *data) { run(static_cast<Record *>(data), status); },
      record, 0);
}

CUresult HostFunctions::call(CUstream stream, uint64_t function, wire_function kind) {
  Record *const record = take(function, kind == WIRE_FUNCTION_KEPT);
  if (!record) return CUDA_ERROR_OUT_OF_MEMORY;
  const bool attended = attend(record);
  const CUresult result =
      kind == WIRE_FUNCTION_CALLBACK || kind == WIRE_FUNCTION_STEP
          ? add_callback(stream, record)
          : driver_.cuLaunchHostFunc(
                stream, [](void *data) { run(static_cast<Record *>(data), CUDA_SUCCESS); }, record);
  queued(record, attended, result);
  return result;
}

CUresult HostFunctions::call_late(CUstream stream, uint64_t function, std::span<uint8_t> area) {
  Record *const record = take(function, false);
  if (!record) return CUDA_ERROR_OUT_OF_MEMORY;
  record->late = true;
  record->area = area;
  const bool attended = attend(record);
  const CUresult result = add_callback(stream, record);
  queued(record, attended, result);
  return result;
}

void HostFunctions::call_now(uint64_t function, CUresult status) {
  std::unique_lock lock(mutex_);
  if (calls_.size() >= session_limits.host_functions)
    return;  // of a guest that never returns from any
  const uint64_t call = ++last_call_;
  calls_.insert({call, Call{{}, false}});
  lock.unlock();
  push_(function, call, status);
}

bool HostFunctions::node(uint64_t function, CUDA_HOST_NODE_PARAMS *parameters) {
  Record *const record = take(function, true);
  if (!record) return false;
  parameters->fn = [](void *data) { run(static_cast<Record *>(data), CUDA_SUCCESS); };
  parameters->userData = record;
  return true;
}

// One porter stands by for all functions of a graph, until it has ended: it keeps nobody waiting.
void HostFunctions::release_behind(CUstream stream, CUresult launched) {
  const auto release = [](void *porter) { static_cast<PagePorter *>(porter)->release_one(); };
  if (launched != CUDA_SUCCESS ||
      driver_.cuLaunchHostFunc(stream, release, porter_) != CUDA_SUCCESS)
    return porter_->settled(stream_operations_, false);
  porter_->settled(stream_operations_, true);
}

// On a thread of the driver.
void HostFunctions::run(Record *record, CUresult status) {
  HostFunctions &owner = *record->owner;
  const uint64_t function = record->function;
  const Call made{record->area, record->attended};
  if (record->late && made.area.empty() && status == CUDA_SUCCESS)
    status = CUDA_ERROR_OUT_OF_MEMORY;
  std::unique_lock lock(owner.mutex_);
  if (!record->kept) owner.spare_.push_back(record);
  if (!owner.open_) ++owner.running_;
  owner.note_pending();
  if (owner.open_) return;
  const uint64_t call = ++owner.last_call_;
  owner.calls_.insert({call, made});
  lock.unlock();
  owner.push_(function, call, status);
  lock.lock();
  owner.changed_.wait(lock, [&] { return owner.open_ || !owner.calls_.contains(call); });
  --owner.running_;
  owner.note_pending();
  if (owner.running_ == 0 && owner.open_) owner.changed_.notify_all();
}

// With the lock held. False when there was no such call.
bool HostFunctions::end(uint64_t call) {
  const auto at = calls_.find(call);
  if (at == calls_.end()) return false;
  if (at->second.attended) porter_->release_one();
  calls_.erase(at);
  return true;
}

bool HostFunctions::done(uint64_t call) {
  {
    std::lock_guard lock(mutex_);
    if (early_.erase(call)) return true;
    if (!end(call)) return false;
  }
  changed_.notify_all();
  return true;
}

bool HostFunctions::area_of(uint64_t call, std::span<uint8_t> *area, bool *returned) {
  std::lock_guard lock(mutex_);
  const auto at = calls_.find(call);
  *returned = at == calls_.end();
  *area = *returned ? std::span<uint8_t>() : at->second.area;
  return !*returned || early_.contains(call);
}

void HostFunctions::done_early(uint64_t call) {
  {
    std::lock_guard lock(mutex_);
    if (!end(call)) return;
    early_.insert(call);
  }
  changed_.notify_all();
}

uint64_t HostFunctions::last_call() {
  std::lock_guard lock(mutex_);
  return last_call_;
}

std::vector<uint64_t> HostFunctions::returned_early() {
  std::lock_guard lock(mutex_);
  return {early_.begin(), early_.end()};
}

void HostFunctions::begin_anew(uint64_t last_call, std::span<const uint64_t> returned_early) {
  std::lock_guard lock(mutex_);
  last_call_ = last_call;
  early_.insert(returned_early.begin(), returned_early.end());
}

void HostFunctions::forget() {
  std::lock_guard lock(mutex_);
  spare_.clear();
  all_.clear();
  note_pending();
}

void HostFunctions::open() {
  {
    std::lock_guard lock(mutex_);
    open_ = true;
    if (porter_) porter_->release_all();
    note_pending();
  }
  changed_.notify_all();
}

void HostFunctions::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return open_ && running_ == 0; });
}

}  // namespace outboard
