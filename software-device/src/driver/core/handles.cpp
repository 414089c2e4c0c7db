#include "core/handles.h"

#include <mutex>
#include <new>

namespace softdev::driver {

uint64_t Handles::add(Kind kind, std::shared_ptr<Object> object) {
  std::unique_lock guard(mutex_);
  uint32_t index;
  if (free_.empty()) {
    if (slots_.size() > kMask) throw std::bad_alloc();
    index = static_cast<uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    index = free_.back();
    free_.pop_back();
  }
  Slot &slot = slots_[index];
  slot.generation = (slot.generation + 1) & kMask;
  slot.kind = kind;
  uint64_t handle = static_cast<uint64_t>(kind) << kKindShift |
                    static_cast<uint64_t>(slot.generation) << kGenerationShift |
                    static_cast<uint64_t>(index) << kIndexShift;
  object->handle_ = handle;
  slot.object = std::move(object);
  return handle;
}

bool Handles::matches(const Slot &slot, Kind kind, uint64_t handle) {
  return slot.object && slot.kind == kind &&
         slot.generation == ((handle >> kGenerationShift) & kMask) &&
         (handle & ((1 << kIndexShift) - 1)) == 0;
}

std::shared_ptr<Object> Handles::look_up(Kind kind, uint64_t handle) const {
  if (handle >> kKindShift != static_cast<uint64_t>(kind)) return nullptr;
  uint32_t index = (handle >> kIndexShift) & kMask;
  std::shared_lock guard(mutex_);
  if (index >= slots_.size() || !matches(slots_[index], kind, handle)) return nullptr;
  return slots_[index].object;
}

std::shared_ptr<Object> Handles::take(Kind kind, uint64_t handle) {
  if (handle >> kKindShift != static_cast<uint64_t>(kind)) return nullptr;
  uint32_t index = (handle >> kIndexShift) & kMask;
  std::unique_lock guard(mutex_);
  if (index >= slots_.size() || !matches(slots_[index], kind, handle)) return nullptr;
  std::shared_ptr<Object> object = std::move(slots_[index].object);
  slots_[index].kind = Kind::kNone;
  free_.push_back(index);
  return object;
}

}  // namespace softdev::driver
