#include "session/load_log.h"

#include <utility>

#include "base/session_limits.h"

namespace outboard {

uint32_t LoadLog::loaded(Load load) {
  std::unique_lock lock(mutex_);
  if (steps_.size() >= session_limits.loads) {
    const bool first = std::exchange(whole_, false);
    lock.unlock();
    if (first) on_full_();
    return kNone;
  }
  const auto number = static_cast<uint32_t>(loads_.size());
  loads_.push_back(std::move(load));
  steps_.push_back({number, false});
  return number;
}

void LoadLog::taken(uint32_t load, uint64_t handle) {
  std::lock_guard lock(mutex_);
  if (load < loads_.size()) loads_[load].handle = handle;
}

// What was loaded last of all and is unloaded leaves nothing behind.
void LoadLog::unloading(uint32_t number) {
  std::unique_lock lock(mutex_);
  if (number >= loads_.size()) return;
  Load &load = loads_[number];
  load.library = nullptr;
  if (!held_ && !steps_.back().unload && steps_.back().load == number) {
    steps_.pop_back();
    if (number + 1 == loads_.size())
      loads_.pop_back();
    else
      load = {};
    return;
  }
  unloaded_bytes_ += load.image->size() + load.options.size();
  if (steps_.size() < session_limits.loads && unloaded_bytes_ <= session_limits.unloaded_bytes) {
    steps_.push_back({number, true});
    return;
  }
  load.image.reset();
  std::vector<uint8_t>().swap(load.options);
  const bool first = std::exchange(whole_, false);
  lock.unlock();
  if (first) on_full_();
}

void LoadLog::clear() {
  std::lock_guard lock(mutex_);
  loads_.clear();
  steps_.clear();
  unloaded_bytes_ = 0;
  whole_ = true;
  begun_anew_ = true;
}

void LoadLog::hold() {
  std::lock_guard lock(mutex_);
  held_ = true;
  begun_anew_ = false;
}

void LoadLog::go_on() {
  std::lock_guard lock(mutex_);
  held_ = false;
}

bool LoadLog::look(size_t place, const std::function<void(const Step &, const Load &)> &f) {
  std::lock_guard lock(mutex_);
  if (place >= steps_.size()) return false;
  f(steps_[place], loads_[steps_[place].load]);
  return true;
}

uint64_t LoadLog::handle(uint32_t load) const {
  std::lock_guard lock(mutex_);
  return load < loads_.size() ? loads_[load].handle : 0;
}

bool LoadLog::begun_anew() const {
  std::lock_guard lock(mutex_);
  return begun_anew_;
}

bool LoadLog::whole() const {
  std::lock_guard lock(mutex_);
  return whole_;
}

}  // namespace outboard
