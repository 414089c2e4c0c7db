// What stands behind the handles that the guest minted, one table per kind. The guest chooses the
// numbers, so every one is checked; an index outside the limit is refused before anything grows.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "wire.h"

namespace outboard {

template <class T, unsigned kKind>
class HandleTable {
 public:
  // Free, and not the same number as the last one that lived at that index.
  bool can_mint(uint64_t handle) const {
    if (!addresses(handle)) return false;
    const uint32_t index = wire_handle_index(handle);
    if (index >= slots_.size()) return true;
    const Slot &slot = slots_[index];
    return !slot.live && (!slot.used || slot.generation != wire_handle_generation(handle));
  }

  // `handle` can be minted.
  void keep(uint64_t handle, T object) {
    const uint32_t index = wire_handle_index(handle);
    if (index >= slots_.size()) slots_.resize(index + 1);
    slots_[index] = {std::move(object), wire_handle_generation(handle), true, true};
  }

  // Null when the handle is not live.
  T *find(uint64_t handle) {
    const uint32_t index = wire_handle_index(handle);
    if (wire_handle_kind(handle) != kKind || index >= slots_.size()) return nullptr;
    Slot &slot = slots_[index];
    if (!slot.live || slot.generation != wire_handle_generation(handle)) return nullptr;
    return &slot.object;
  }

  bool take(uint64_t handle, T *object) {
    T *found = find(handle);
    if (!found) return false;
    *object = std::move(*found);
    *found = T{};
    slots_[wire_handle_index(handle)].live = false;
    return true;
  }

  template <class F>
  void each(F f) {
    for (Slot &slot : slots_) {
      if (slot.live) f(slot.object);
    }
  }

  // Forgets those for which `f` says so.
  template <class F>
  void drop_if(F f) {
    for (Slot &slot : slots_) {
      if (slot.live && f(slot.object)) {
        slot.object = T{};
        slot.live = false;
      }
    }
  }

  void clear() {
    drop_if([](T &) { return true; });
  }

 private:
  struct Slot {
    T object{};
    uint32_t generation = 0;
    bool used = false;
    bool live = false;
  };

  static bool addresses(uint64_t handle) {
    return wire_handle_kind(handle) == kKind && wire_handle_index(handle) < WIRE_HANDLE_INDEX_MAX;
  }

  std::vector<Slot> slots_;
};

}  // namespace outboard
