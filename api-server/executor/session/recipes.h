// What would make a session's objects again on another device: for each handle the frame that
// minted it, and the frames that have changed objects or the context since. Dispatch keeps them,
// before it carries a command out; so whether there is an object, the tables of objects say, and a
// frame whose object was not made stands for nothing. The leader's.
//
// A frame of a handle lies where the one before it with the same index lay: a guest that makes and
// ends objects again and again costs no memory.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "wire.h"

namespace outboard {

class Recipes {
 public:
  // What a change is of: of several with the same, the last one holds.
  struct Change {
    uint64_t op, first, second;
    auto operator<=>(const Change &) const = default;
  };

  // `on_full` is called when the first frame was not kept for want of room.
  explicit Recipes(std::function<void()> on_full) : on_full_(std::move(on_full)) {}

  // Keeps the frame that mints a handle: all of its bytes, which lie behind the header. A handle
  // that nobody may mint is passed over.
  void made(uint64_t handle, const wire_header *frame);
  // Forgets the frame of a handle, if it has one.
  void ended(uint64_t handle);
  // Keeps the frame of a change.
  void changed(const Change &change, const wire_header *frame);

  // Returns the frame that minted a handle; empty when it is not kept. Valid until the next change
  // of this object.
  std::span<const uint8_t> of(uint64_t handle) const;
  // Calls `f(handle, frame)` with each handle whose frame is kept, in the order in which they were
  // minted.
  template <class F>
  void each_object(F f) const {
    for (const Entry *entry : in_order()) f(entry->handle, entry->frame.bytes());
  }
  // Calls `f(frame)` with each change that is kept, in the order in which they were made.
  template <class F>
  void each_change(F f) const {
    for (const auto &[order, change] : order_) f(changes_.at(change).frame.bytes());
  }

  // Whether all was kept: they take at most session_limits.recipe_bytes.
  bool whole() const { return whole_; }
  // Returns how many bytes they take.
  size_t bytes() const { return bytes_; }
  void clear();

 private:
  // Bytes that are replaced in place where the new ones fit.
  class Frame {
   public:
    std::span<const uint8_t> bytes() const { return {bytes_.get(), size_}; }
    size_t room() const { return room_; }
    void set(const wire_header *frame);
    void forget() { size_ = 0; }

   private:
    std::unique_ptr<uint8_t[]> bytes_;
    uint32_t size_ = 0;
    uint32_t room_ = 0;
  };
  struct Entry {
    uint64_t handle = 0;
    uint64_t order = 0;
    Frame frame;
  };
  struct Changed {
    uint64_t order;
    Frame frame;
  };

  std::vector<const Entry *> in_order() const;
  bool has_room(size_t more);
  bool set(Frame &to, const wire_header *frame);

  const std::function<void()> on_full_;
  std::array<std::vector<Entry>, WIRE_KIND_COUNT> made_;  // by kind and index
  std::map<Change, Changed> changes_;
  std::map<uint64_t, Change> order_;
  uint64_t changes_made_ = 0;
  uint64_t objects_made_ = 0;
  size_t bytes_ = 0;
  bool whole_ = true;
};

}  // namespace outboard
