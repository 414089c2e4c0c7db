#include "session/recipes.h"

#include <algorithm>
#include <cstring>

#include "base/session_limits.h"

namespace outboard {

void Recipes::Frame::set(const wire_header *frame) {
  if (frame->size > room_) {
    bytes_ = std::make_unique<uint8_t[]>(frame->size);
    room_ = frame->size;
  }
  memcpy(bytes_.get(), frame, frame->size);
  size_ = frame->size;
}

// A session that has asked for too much once is not whole any more: what is missing is not known.
bool Recipes::has_room(size_t more) {
  if (more <= session_limits.recipe_bytes && bytes_ <= session_limits.recipe_bytes - more)
    return true;
  if (std::exchange(whole_, false)) on_full_();
  return false;
}

bool Recipes::set(Frame &to, const wire_header *frame) {
  const size_t more = frame->size > to.room() ? frame->size - to.room() : 0;
  if (!has_room(more)) return false;
  bytes_ += more;
  to.set(frame);
  return true;
}

void Recipes::made(uint64_t handle, const wire_header *frame) {
  const unsigned kind = wire_handle_kind(handle);
  const uint32_t index = wire_handle_index(handle);
  if (kind >= made_.size() || index >= WIRE_HANDLE_INDEX_MAX) return;
  std::vector<Entry> &entries = made_[kind];
  if (index >= entries.size()) {
    const size_t more = (index + 1 - entries.size()) * sizeof(Entry);
    if (!has_room(more)) return;
    bytes_ += more;
    entries.resize(index + 1);
  }
  Entry &entry = entries[index];
  entry.frame.forget();
  if (!set(entry.frame, frame)) return;
  entry.handle = handle;
  entry.order = objects_made_++;
}

void Recipes::ended(uint64_t handle) {
  const unsigned kind = wire_handle_kind(handle);
  const uint32_t index = wire_handle_index(handle);
  if (kind >= made_.size() || index >= made_[kind].size()) return;
  Entry &entry = made_[kind][index];
  if (entry.handle == handle) entry.frame.forget();
}

void Recipes::changed(const Change &change, const wire_header *frame) {
  const auto found = changes_.find(change);
  if (found == changes_.end()) {
    constexpr size_t kNode =
        sizeof(std::pair<Change, Changed>) + sizeof(std::pair<uint64_t, Change>);
    if (!has_room(kNode + frame->size)) return;
    bytes_ += kNode;
    Changed &made = changes_[change];
    made.order = changes_made_++;
    order_[made.order] = change;
    set(made.frame, frame);
    return;
  }
  Changed &before = found->second;
  if (!set(before.frame, frame)) return;
  // The last of all, now: its place in the order is its own.
  auto node = order_.extract(before.order);
  node.key() = before.order = changes_made_++;
  order_.insert(order_.end(), std::move(node));
}

std::span<const uint8_t> Recipes::of(uint64_t handle) const {
  const unsigned kind = wire_handle_kind(handle);
  const uint32_t index = wire_handle_index(handle);
  if (kind >= made_.size() || index >= made_[kind].size()) return {};
  const Entry &entry = made_[kind][index];
  return entry.handle == handle ? entry.frame.bytes() : std::span<const uint8_t>{};
}

std::vector<const Recipes::Entry *> Recipes::in_order() const {
  std::vector<const Entry *> list;
  for (const std::vector<Entry> &entries : made_) {
    for (const Entry &entry : entries) {
      if (!entry.frame.bytes().empty()) list.push_back(&entry);
    }
  }
  std::sort(list.begin(), list.end(),
            [](const Entry *a, const Entry *b) { return a->order < b->order; });
  return list;
}

void Recipes::clear() {
  for (std::vector<Entry> &entries : made_) std::vector<Entry>().swap(entries);
  changes_.clear();
  order_.clear();
  bytes_ = 0;
  whole_ = true;
}

}  // namespace outboard
