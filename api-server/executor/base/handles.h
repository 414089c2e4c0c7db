// What stands behind the handles that the guest minted: a table for each kind. The guest chooses
// the numbers, so each is checked, and an index beyond the limit is refused before the table grows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "wire.h"

namespace outboard {

template <class T, unsigned kKind>
class HandleTable {
 public:
  // Whether the handle may be given to an object: it is of this kind, its index is free, and it is
  // not the same number as the last one with that index.
  bool can_mint(uint64_t handle) const {
    if (!addresses(handle)) return false;
    const uint32_t index = wire_handle_index(handle);
    if (index >= entries_.size()) return true;
    const Entry &entry = entries_[index];
    return !entry.live && (!entry.used || entry.generation != wire_handle_generation(handle));
  }

  // Puts an object behind a handle for which can_mint holds.
  void keep(uint64_t handle, T object) {
    const uint32_t index = wire_handle_index(handle);
    if (index >= entries_.size()) entries_.resize(index + 1);
    if (!entries_[index].live) ++live_;
    entries_[index] = {std::move(object), wire_handle_generation(handle), true, true};
  }

  // Returns the object behind a handle; null when there is none.
  T *find(uint64_t handle) {
    const uint32_t index = wire_handle_index(handle);
    if (wire_handle_kind(handle) != kKind || index >= entries_.size()) return nullptr;
    Entry &entry = entries_[index];
    if (!entry.live || entry.generation != wire_handle_generation(handle)) return nullptr;
    return &entry.object;
  }

  // Moves the object behind a handle to *object, and frees the handle. False when there is none.
  bool take(uint64_t handle, T *object) {
    T *found = find(handle);
    if (!found) return false;
    *object = std::move(*found);
    *found = T{};
    entries_[wire_handle_index(handle)].live = false;
    --live_;
    return true;
  }

  // Calls `f` with each object.
  template <class F>
  void each(F f) {
    for (Entry &entry : entries_) {
      if (entry.live) f(entry.object);
    }
  }

  // Calls `f` with each handle and its object.
  template <class F>
  void each_handle(F f) {
    for (size_t index = 0; index < entries_.size(); index++) {
      Entry &entry = entries_[index];
      if (entry.live) f(wire_handle(kKind, entry.generation, index), entry.object);
    }
  }

  // Forgets each object for which `f` returns true, and frees its handle.
  template <class F>
  void drop_if(F f) {
    for (Entry &entry : entries_) {
      if (entry.live && f(entry.object)) {
        entry.object = T{};
        entry.live = false;
        --live_;
      }
    }
  }

  // Whether there is no object.
  bool empty() const { return live_ == 0; }

  // Forgets all objects.
  void clear() {
    drop_if([](T &) { return true; });
  }

 private:
  struct Entry {
    T object{};
    uint32_t generation = 0;
    bool used = false;
    bool live = false;
  };

  static bool addresses(uint64_t handle) {
    return wire_handle_kind(handle) == kKind && wire_handle_index(handle) < WIRE_HANDLE_INDEX_MAX;
  }

  std::vector<Entry> entries_;
  size_t live_ = 0;
};

}  // namespace outboard
