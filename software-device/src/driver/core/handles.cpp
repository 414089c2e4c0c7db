#include "core/handles.h"

#include <mutex>
#include <new>

namespace softdev::driver {

uint64_t Handles::add(Kind kind, std::shared_ptr<Object> object) {
  std::unique_lock guard(mutex_);
  Table &table = tables_[static_cast<size_t>(kind)];
  uint32_t index;
  if (table.free.empty()) {
    if (table.slots.size() > kMask) throw std::bad_alloc();
    index = static_cast<uint32_t>(table.slots.size());
    table.slots.emplace_back();
  } else {
    index = table.free.back();
    table.free.pop_back();
  }
  Slot &slot = table.slots[index];
  slot.generation = (slot.generation + 1) & kMask;
  uint64_t handle = static_cast<uint64_t>(kind) << kKindShift |
                    static_cast<uint64_t>(slot.generation) << kGenerationShift |
                    static_cast<uint64_t>(index) << kIndexShift;
  object->handle_ = handle;
  slot.object = std::move(object);
  return handle;
}

bool Handles::matches(const Slot &slot, uint64_t handle) {
  return slot.object && slot.generation == ((handle >> kGenerationShift) & kMask) &&
         (handle & ((1 << kIndexShift) - 1)) == 0;
}

std::shared_ptr<Object> Handles::look_up(Kind kind, uint64_t handle) const {
  if (handle >> kKindShift != static_cast<uint64_t>(kind)) return nullptr;
  uint32_t index = (handle >> kIndexShift) & kMask;
  std::shared_lock guard(mutex_);
  const std::vector<Slot> &slots = tables_[static_cast<size_t>(kind)].slots;
  if (index >= slots.size() || !matches(slots[index], handle)) return nullptr;
  return slots[index].object;
}

std::shared_ptr<Object> Handles::take(Kind kind, uint64_t handle) {
  if (handle >> kKindShift != static_cast<uint64_t>(kind)) return nullptr;
  uint32_t index = (handle >> kIndexShift) & kMask;
  std::unique_lock guard(mutex_);
  Table &table = tables_[static_cast<size_t>(kind)];
  if (index >= table.slots.size() || !matches(table.slots[index], handle)) return nullptr;
  std::shared_ptr<Object> object = std::move(table.slots[index].object);
  table.free.push_back(index);
  return object;
}

}  // namespace softdev::driver
