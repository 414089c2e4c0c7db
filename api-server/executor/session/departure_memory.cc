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

// How often as long as the session has to come to rest the target may use none of its pieces.
constexpr int kRests = 12;

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
  if (!area_) {
    // Of a context that has failed every call says so.
    size_t free = 0, total = 0;
    const bool failed = s_.driver().cuMemGetInfo_v2(&free, &total) != CUDA_SUCCESS;
    return refuse(failed ? "the device's context has failed"
                         : "there is no pinned memory to move it through");
  }
  free_ = UINT64_MAX >> (64 - area_->pieces());
  return true;
}

// What the session has now is very likely what it has when it stops.
bool Departure::memory_ahead() {
  constexpr int kLooks = 3;
  for (int i = 0; i < kLooks; i++) {
    std::map<uint64_t, Memory::Mapping> mappings;
    if (!s_.look([&] { mappings = s_.memory().mappings(); })) return true;
    bool changed;
    if (!map_like(mappings, &changed) || !settled()) return false;
    if (!changed) break;
  }
  return true;
}

bool Departure::map_like(const std::map<uint64_t, Memory::Mapping> &mappings, bool *changed) {
  *changed = false;
  for (auto at = mapped_.begin(); at != mapped_.end();) {
    const auto [address, mapping] = *at;
    const auto wanted = mappings.find(address);
    if (wanted != mappings.end() && wanted->second == mapping) {
      ++at;
      continue;
    }
    *changed = true;
    wire_MemoryUnmap q{};
    q.header.op = WIRE_MemoryUnmap;
    q.address = address;
    q.size = mapping.size;
    if (!link_.post(&q, sizeof q)) return false;
    at = mapped_.erase(at);
  }
  for (const auto &[address, mapping] : mappings) {
    if (mapped_.contains(address)) continue;
    *changed = true;
    wire_MemoryMap q{};  // PinnedMap has the same fields
    static_assert(sizeof q == sizeof(wire_PinnedMap));
    q.header.op = mapping.pinned ? WIRE_PinnedMap : WIRE_MemoryMap;
    q.address = address;
    q.size = mapping.size;
    if (!link_.post(&q, sizeof q)) return false;
    mapped_[address] = mapping;
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
  for (const auto &[address, mapping] : mapped_)
    parts.push_back({address, address, mapping.size, true});
  for (const auto &[number, list] : variables_) {
    for (const auto &[name, address, size] : list) parts.push_back({address, address, size, false});
  }
  return contents(parts) && pieces();
}

// ---- what the program manages itself -----------------------------------------------------------

// A piece that can be read where it is mapped whole goes there; others, as those that are mapped
// nowhere, through addresses where nothing is.
bool Departure::pieces() {
  const std::vector<Memory::Placement> placements = s_.memory().placements();
  std::vector<Part> parts;
  for (const Memory::Piece &piece : s_.memory().pieces()) {
    wire_MemoryCreate q{};
    q.header.op = WIRE_MemoryCreate;
    q.memory = piece.handle;
    q.size = piece.size;
    q.shareable = piece.shareable;
    if (!link_.post(&q, sizeof q)) return false;
    const auto whole = std::ranges::find_if(placements, [&](const Memory::Placement &one) {
      return one.handle == piece.handle && one.size == piece.size && is_readable(one);
    });
    if (whole != placements.end())
      parts.push_back({whole->address, whole->address, whole->size, false});
    else if (!piece_aside(piece))
      return false;
  }
  for (const Memory::Placement &placement : placements)
    if (!place(placement)) return false;
  for (const Part &part : parts)
    if (!open_to_work(part.address, part.size, CU_MEM_ACCESS_FLAGS_PROT_READWRITE)) return false;
  if (!contents(parts) || !settled()) return false;
  for (const Memory::Placement &placement : placements)
    if (!open_like(placement)) return false;
  return true;
}

bool Departure::is_readable(const Memory::Placement &placement) {
  const uint64_t granule = s_.memory().granule();
  for (uint64_t at = 0; at < placement.size; at += granule) {
    uint64_t flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    if (s_.memory().access_at(placement.address + at, &flags) != CUDA_SUCCESS ||
        flags == CU_MEM_ACCESS_FLAGS_PROT_NONE)
      return false;
  }
  return true;
}

bool Departure::place(const Memory::Placement &placement) {
  wire_MemoryPlace q{};
  q.header.op = WIRE_MemoryPlace;
  q.address = placement.address;
  q.size = placement.size;
  q.offset = placement.offset;
  q.memory = placement.handle;
  return link_.post(&q, sizeof q);
}

bool Departure::open_to_work(uint64_t address, uint64_t size, uint64_t flags) {
  wire_MemoryAccess q{};
  q.header.op = WIRE_MemoryAccess;
  q.address = address;
  q.size = size;
  q.flags = static_cast<uint32_t>(flags);
  return link_.post(&q, sizeof q);
}

// To what it is open to here: granules that are alike together.
bool Departure::open_like(const Memory::Placement &placement) {
  const uint64_t granule = s_.memory().granule(), end = placement.address + placement.size;
  uint64_t from = placement.address, now = 0;
  for (uint64_t at = from; at <= end; at += granule) {
    uint64_t flags = UINT64_MAX;
    if (at < end && s_.memory().access_at(at, &flags) != CUDA_SUCCESS)
      return refuse("the driver does not say what kernels may do with the session's memory");
    if (at > from && flags != now) {
      if (!open_to_work(from, at - from, now)) return false;
      from = at;
    }
    now = flags;
  }
  return true;
}

bool Departure::piece_aside(const Memory::Piece &piece) {
  const uint64_t there = s_.memory().gap(piece.size);
  uint64_t here = 0;
  if (!there || s_.memory().view(piece, &here) != CUDA_SUCCESS)
    return refuse("memory that it manages itself cannot be read");
  const bool sent = place({there, piece.size, 0, piece.handle}) &&
                    open_to_work(there, piece.size, CU_MEM_ACCESS_FLAGS_PROT_READWRITE) &&
                    contents({{here, there, piece.size, false}}) && barrier();
  s_.memory().end_view(piece, here);
  if (!sent) return false;
  wire_MemoryDisplace q{};
  q.request.header.op = WIRE_MemoryDisplace;
  q.address = there;
  q.size = piece.size;
  std::vector<uint8_t> reply;
  return link_.ask(&q, sizeof q, nullptr, 0, &reply);
}

// ---- contents ----------------------------------------------------------------------------------

// As many pieces as there are are being read, sent or written at a time.
bool Departure::contents(const std::vector<Part> &parts) {
  struct Read {
    unsigned piece;
    Part part;
  };
  std::deque<Read> reads;
  size_t next = 0;
  uint64_t done = 0;  // of the next one
  used_at_ = std::chrono::steady_clock::now();
  for (;;) {
    if (s_.is_left_alone()) return refuse("the session ends");
    while (next < parts.size() && free_) {
      const Part &whole = parts[next];
      const Part part{whole.from + done, whole.address + done,
                      std::min(area_->piece_size(), whole.size - done), whole.zeroed};
      const unsigned piece = static_cast<unsigned>(std::countr_zero(free_));
      if (!area_->fetch(piece, part.from, part.size))
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
      if (next == parts.size()) return !asked_ || settle(true);
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
  const auto now = std::chrono::steady_clock::now();
  if (done) used_at_ = now;
  return !sent_ || now - used_at_ < kRests * s_.rest_patience_ ||
         refuse("the other GPU does not take its memory");
}

}  // namespace outboard
