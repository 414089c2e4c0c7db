#include "libraries/learnt_calls.h"

#include <cstring>

namespace outboard {

namespace {

struct Head {
  uint64_t key;
  uint32_t function;
  uint32_t bytes;
};
static_assert(sizeof(Head) == 16);

// FNV-1a.
uint64_t hash_of(const std::string &text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char each : text) hash = (hash ^ static_cast<uint8_t>(each)) * 0x100000001b3;
  return hash;
}

size_t bytes_of(const LearntCalls::Call &call) { return sizeof(Head) + call.arguments.size() * 8; }

}  // namespace

LearntCalls::LearntCalls(const std::string &maker) : maker_(hash_of(maker)) {}

void LearntCalls::add(uint64_t key, uint32_t function, std::span<const uint8_t> arguments) {
  if (!key || arguments.size() > kMostArguments || arguments.size() % 8 != 0) return;
  std::lock_guard lock(mutex_);
  if (!keys_.insert(key).second) return;
  Call call{key, function, std::vector<uint64_t>(arguments.size() / 8)};
  if (!arguments.empty()) memcpy(call.arguments.data(), arguments.data(), arguments.size());
  bytes_ += bytes_of(call);
  calls_.push_back(std::move(call));
  while (bytes_ > kMostBytes - sizeof maker_) {
    bytes_ -= bytes_of(calls_.front());
    keys_.erase(calls_.front().key);
    calls_.pop_front();
  }
}

void LearntCalls::take(std::span<const uint8_t> kept) {
  uint64_t maker = 0;
  if (kept.size() < sizeof maker || kept.size() > kMostBytes) return;
  memcpy(&maker, kept.data(), sizeof maker);
  if (maker != maker_) return;
  kept = kept.subspan(sizeof maker);
  while (kept.size() >= sizeof(Head)) {
    Head head;
    memcpy(&head, kept.data(), sizeof head);
    kept = kept.subspan(sizeof head);
    if (head.bytes > kept.size()) return;
    add(head.key, head.function, kept.first(head.bytes));
    kept = kept.subspan(head.bytes);
  }
}

void LearntCalls::is_used() {
  std::lock_guard lock(mutex_);
  used_ = true;
}

std::vector<LearntCalls::Call> LearntCalls::all() const {
  std::lock_guard lock(mutex_);
  return {calls_.begin(), calls_.end()};
}

std::vector<uint8_t> LearntCalls::kept() const {
  std::lock_guard lock(mutex_);
  std::vector<uint8_t> out;
  if (!used_) return out;
  const auto put = [&out](const void *bytes, size_t size) {
    const auto *from = static_cast<const uint8_t *>(bytes);
    out.insert(out.end(), from, from + size);
  };
  out.reserve(sizeof maker_ + bytes_);
  put(&maker_, sizeof maker_);
  for (const Call &call : calls_) {
    const Head head{call.key, call.function, static_cast<uint32_t>(call.arguments.size() * 8)};
    put(&head, sizeof head);
    put(call.arguments.data(), head.bytes);
  }
  return out;
}

}  // namespace outboard
