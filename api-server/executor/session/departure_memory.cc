// How the memory of a session that moves gets there: it is mapped and touched before the session
// stops; then its contents go through memory that both processes share, read here while what was
// read before is written there.
#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>

#include "session/departure.h"
#include "session/session.h"
#include "wire_calls.h"

namespace outboard {

namespace {

bool all_zero(const uint8_t *bytes, size_t size) {
  return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

constexpr uint64_t bit(unsigned piece) { return uint64_t{1} << piece; }

}  // namespace

// What the target shares; where it shares none, memory of this process's, which is sent.
bool Departure::open_area() {
  wire_RegionOpen q{};
  q.request.header.op = WIRE_RegionOpen;
  std::vector<uint8_t> bytes;
  if (!link_.ask(&q, sizeof q, nullptr, 0, &bytes)) return false;
  wire_RegionOpen_reply reply{};
  if (!bytes.empty()) memcpy(&reply, bytes.data(), std::min(sizeof reply, bytes.size()));
  const int descriptor = link_.take_descriptor();
  if (reply.reply.result == CUDA_SUCCESS && descriptor >= 0) {
    const uint64_t slots = uint64_t{reply.uploads} + reply.downloads;
    area_ =
        MoveArea::shared(s_.driver(), descriptor, reply.slot * slots, reply.slot, reply.uploads);
  }
  close_fd(descriptor);
  if (!area_) area_ = MoveArea::own(s_.driver());
  if (!area_) return refuse("there is no pinned memory to move it through");
  free_ = UINT64_MAX >> (64 - area_->pieces());
  return true;
}

// What the session has now is very likely what it has when it stops.
bool Departure::memory_ahead() {
  constexpr int kLooks = 3;
  for (int i = 0; i < kLooks; i++) {
    std::vector<std::pair<uint64_t, uint64_t>> mappings;
    if (!s_.look([&] { mappings = s_.memory().mappings(); })) return true;
    bool changed;
    if (!map_like(mappings, &changed) || !settled()) return false;
    if (!changed) break;
  }
  return true;
}

bool Departure::map_like(const std::vector<std::pair<uint64_t, uint64_t>> &mappings,
                         bool *changed) {
  *changed = false;
  std::map<uint64_t, uint64_t> wanted(mappings.begin(), mappings.end());
  for (auto at = mapped_.begin(); at != mapped_.end();) {
    const auto [address, size] = *at;
    const auto found = wanted.find(address);
    if (found != wanted.end() && found->second == size) {
      wanted.erase(found);
      ++at;
      continue;
    }
    *changed = true;
    wire_MemoryUnmap q{};
    q.header.op = WIRE_MemoryUnmap;
    q.address = address;
    q.size = size;
    if (!link_.post(&q, sizeof q)) return false;
    at = mapped_.erase(at);
  }
  for (const auto &[address, size] : wanted) {
    *changed = true;
    wire_MemoryMap q{};
    q.header.op = WIRE_MemoryMap;
    q.address = address;
    q.size = size;
    if (!link_.post(&q, sizeof q)) return false;
    mapped_[address] = size;
  }
  return true;
}

// Until the target has done all that it was told.
bool Departure::settled() {
  wire_cuCtxSynchronize q{};
  q.request.header.op = WIRE_cuCtxSynchronize;
  std::vector<uint8_t> reply;
  return link_.ask(&q, sizeof q, nullptr, 0, &reply);
}

bool Departure::memory() {
  bool changed;
  if (!map_like(s_.memory().mappings(), &changed) || !(changed ? settled() : barrier()))
    return false;
  std::vector<Part> parts;
  for (const auto &[address, size] : mapped_) parts.push_back({address, size, true});
  for (const auto &[number, list] : variables_) {
    for (const Placed &variable : list) parts.push_back({variable.address, variable.size, false});
  }
  return contents(parts);
}

// As many pieces as there are are being read, sent or written at a time.
bool Departure::contents(const std::vector<Part> &parts) {
  struct Read {
    unsigned piece;
    Part part;
  };
  std::deque<Read> reads;
  size_t next = 0;
  uint64_t done = 0;  // of the next one
  for (;;) {
    if (s_.is_left_alone()) return refuse("the session ends");
    while (next < parts.size() && free_) {
      const Part &whole = parts[next];
      const Part part{whole.address + done, std::min(area_->piece_size(), whole.size - done),
                      whole.zeroed};
      const unsigned piece = static_cast<unsigned>(std::countr_zero(free_));
      if (!area_->fetch(piece, part.address, part.size))
        return refuse("the device's memory cannot be read");
      free_ &= ~bit(piece);
      reads.push_back({piece, part});
      done += part.size;
      if (done == whole.size) {
        done = 0;
        ++next;
      }
    }
    if (reads.empty()) {
      if (next == parts.size()) return true;
      if (!settle(true)) return false;
      continue;
    }
    const auto [piece, part] = reads.front();
    reads.pop_front();
    const uint8_t *bytes = area_->wait(piece);
    if (!bytes) return refuse("the device's memory cannot be read");
    if (part.zeroed && all_zero(bytes, part.size))
      free_ |= bit(piece);
    else if (!send(piece, bytes, part))
      return false;
    if (!settle(false)) return false;
  }
}

bool Departure::send(unsigned piece, const uint8_t *bytes, const Part &part) {
  if (area_->is_shared()) {
    wire_RegionUpload q{};
    q.header.op = WIRE_RegionUpload;
    q.destination = part.address;
    q.length = part.size;
    q.slot = piece;
    sent_ |= bit(piece);
    return link_.post(&q, sizeof q);
  }
  wire_Upload q{};
  q.header.op = WIRE_Upload;
  q.destination = part.address;
  q.length = part.size;
  free_ |= bit(piece);
  return link_.post(&q, sizeof q, bytes, part.size);
}

// Learns which pieces the target has used. It is asked in time, so that the answer is there when
// pieces are wanted; `wait`: they are.
bool Departure::settle(bool wait) {
  if (!area_->is_shared()) return true;
  if (!asked_) {
    if (!wait && static_cast<unsigned>(std::popcount(sent_)) < area_->pieces() / 4) return true;
    wire_RegionSettle q{};
    q.request.header.op = WIRE_RegionSettle;
    asked_ = sent_;
    if (!link_.begin_ask(&q, sizeof q, nullptr, 0)) return false;
    if (!wait) return true;
  }
  bool answered = true;
  if (!wait && !link_.is_answered(&answered)) return false;
  if (!answered) return true;
  std::vector<uint8_t> bytes;
  if (!link_.end_ask(&bytes)) return false;
  wire_RegionSettle_reply reply{};
  if (!bytes.empty()) memcpy(&reply, bytes.data(), std::min(sizeof reply, bytes.size()));
  if (reply.reply.result != CUDA_SUCCESS) return refuse("the other process's memory has failed");
  const uint64_t done = asked_ & ~reply.busy;
  free_ |= done;
  sent_ &= ~done;
  asked_ = 0;
  return true;
}

}  // namespace outboard
