// Barriers in shared memory (mbarrier): counters of arrivals and of bytes, phase after phase.
//
// An object is one 64-bit word. The state that an arrival returns is the word as it was before.
//   bits 0-19 arrivals still pending, 20-39 arrivals of a phase, 40-60 bytes still expected
//   (signed), 61 the phase's parity, 62-63 a mark that tells an object from other memory
// Blocks that share it run on one worker, so no access needs to be atomic.
#include <cstring>

#include "schedule/grid.h"

namespace softdev {
namespace {

enum : int { kBadObject = 719 };
constexpr uint64_t kCounts = 0xfffff;
constexpr uint64_t kParity = uint64_t{1} << 61;
constexpr uint64_t kMark = uint64_t{1} << 62;
constexpr int64_t kMostBytes = (1 << 20) - 1;
constexpr const char *kTooManyBytes = "an mbarrier counts at most 2^20 - 1 bytes";

struct Object {
  uint32_t pending = 0, expected = 0;
  int32_t bytes = 0;
  bool parity = false;

  static bool is_one(uint64_t word) { return word >> 62 == 1; }
  static Object unpack(uint64_t word) {
    Object object;
    object.pending = static_cast<uint32_t>(word & kCounts);
    object.expected = static_cast<uint32_t>(word >> 20 & kCounts);
    object.bytes = static_cast<int32_t>(static_cast<int64_t>(word << 3) >> 43);
    object.parity = word & kParity;
    return object;
  }
  uint64_t pack() const {
    return kMark | (parity ? kParity : 0) |
           (static_cast<uint64_t>(static_cast<uint32_t>(bytes) & 0x1fffff) << 40) |
           uint64_t{expected} << 20 | pending;
  }
  // Ends the phase if nothing is missing.
  bool settle() {
    if (pending || bytes) return false;
    parity = !parity;
    pending = expected;
    return true;
  }
};

// Whoever waits at a try_wait looks again.
void wake(Cta &cta) {
  if (!cta.mbarrier_waits) return;
  cta.mbarrier_waits = 0;
  for (Warp &warp : cta.warps)
    for (uint32_t i = 0; i < warp.group_count; ++i)
      if (warp.groups[i].state == GroupState::AtMbarrier) warp.groups[i].state = GroupState::Ready;
}

// What an operation needs of one lane's object; nullptr after a fault.
uint64_t *find(Warp &warp, const Ins *ins, uint64_t address, unsigned lane, Cta **owner,
               bool must_be_one) {
  *owner = shared_owner(warp, address, 8);
  if (!*owner || address % 8)
    return memory_fault(warp, ins, Space::Generic, address, 8, true, lane), nullptr;
  auto *word = reinterpret_cast<uint64_t *>(address);
  if (must_be_one && !Object::is_one(*word))
    return fault(warp, ins, kBadObject, "there is no initialised mbarrier at this address"),
           nullptr;
  return word;
}

template <MbarrierMode mode>
const Ins *run_update(Warp &warp, const Ins *ins) {
  const auto *addresses = reinterpret_cast<const uint64_t *>(warp.regs + ins->a);
  const auto *operands = reinterpret_cast<const uint32_t *>(warp.regs + ins->b);
  constexpr bool kExpects = mode == MbarrierMode::ExpectTx ||
                            mode == MbarrierMode::ArriveExpectTx ||
                            mode == MbarrierMode::DropExpectTx;
  constexpr bool kDrops = mode == MbarrierMode::Drop || mode == MbarrierMode::DropExpectTx;
  constexpr bool kArrives =
      kDrops || mode == MbarrierMode::Arrive || mode == MbarrierMode::ArriveExpectTx;
  for (uint32_t left = warp.mask; left; left &= left - 1) {
    auto lane = static_cast<unsigned>(__builtin_ctz(left));
    Cta *owner = nullptr;
    uint64_t *word = find(warp, ins, addresses[lane], lane, &owner, mode != MbarrierMode::Init);
    if (!word) return nullptr;
    uint32_t operand = operands[lane];
    Object object;
    if (mode == MbarrierMode::Init) {
      if (operand == 0 || operand > kCounts)
        return fault(warp, ins, kBadObject, "an mbarrier expects 1 to 2^20 - 1 arrivals");
      object.pending = object.expected = operand;
      *word = object.pack();
      continue;
    }
    if (mode == MbarrierMode::Inval) {
      *word = 0;
      continue;
    }
    if (mode == MbarrierMode::Touch) continue;
    const uint64_t before = *word;
    object = Object::unpack(before);
    int64_t bytes = object.bytes;
    if (kExpects) bytes += operand;
    if (mode == MbarrierMode::CompleteTx) bytes -= operand;
    if (bytes > kMostBytes || bytes < -kMostBytes)
      return fault(warp, ins, kBadObject, kTooManyBytes);
    object.bytes = static_cast<int32_t>(bytes);
    if (kArrives) {
      uint32_t count = kExpects ? 1 : operand;
      if (count == 0 || count > object.pending)
        return fault(warp, ins, kBadObject, "more arrivals at an mbarrier than it expects");
      if (kDrops) object.expected -= count < object.expected ? count : object.expected;
      object.pending -= count;
      if (ins->d != kNone) reinterpret_cast<uint64_t *>(warp.regs + ins->d)[lane] = before;
    }
    bool ended = object.settle();
    *word = object.pack();
    if (ended) wake(*owner);
  }
  return ins + 1;
}

template <MbarrierMode mode>
const Ins *run_wait(Warp &warp, const Ins *ins) {
  constexpr bool kByParity = mode == MbarrierMode::TestParity || mode == MbarrierMode::TryParity;
  const auto *addresses = reinterpret_cast<const uint64_t *>(warp.regs + ins->a);
  uint32_t over = 0;
  for (uint32_t left = warp.mask; left; left &= left - 1) {
    auto lane = static_cast<unsigned>(__builtin_ctz(left));
    Cta *owner = nullptr;
    const uint64_t *word = find(warp, ins, addresses[lane], lane, &owner, true);
    if (!word) return nullptr;
    bool asked = kByParity ? reinterpret_cast<const uint32_t *>(warp.regs + ins->b)[lane] & 1
                           : reinterpret_cast<const uint64_t *>(warp.regs + ins->b)[lane] & kParity;
    bool now = *word & kParity;
    over |= static_cast<uint32_t>(asked != now) << lane;
  }
  auto *result = reinterpret_cast<uint32_t *>(warp.regs + ins->d);
  *result = (*result & ~warp.mask) | over;
  uint32_t waiting = warp.mask & ~over;
  if (!waiting) return ins + 1;
  if (mode == MbarrierMode::TestWait || mode == MbarrierMode::TestParity) {
    warp.budget -= 64;  // most likely in a loop
    return ins + 1;
  }
  park(warp, ins, waiting, GroupState::AtMbarrier);
  ++warp.cta->mbarrier_waits;
  if (!over) return resume(warp);
  warp.mask = over;
  return ins + 1;
}

}  // namespace

bool complete_bytes(Warp &warp, const Ins *ins, uint64_t address, uint32_t bytes, unsigned lane) {
  Cta *owner = nullptr;
  uint64_t *word = find(warp, ins, address, lane, &owner, true);
  if (!word) return false;
  Object object = Object::unpack(*word);
  int64_t left = int64_t{object.bytes} - bytes;
  if (left < -kMostBytes) return fault(warp, ins, kBadObject, kTooManyBytes), false;
  object.bytes = static_cast<int32_t>(left);
  bool ended = object.settle();
  *word = object.pack();
  if (ended) wake(*owner);
  return true;
}

// A try_wait may give up at any time, and does when it would keep others from getting on.
bool Cta::end_waits() {
  if (!mbarrier_waits) return false;
  mbarrier_waits = 0;
  for (Warp &warp : warps) {
    for (uint32_t i = 0; i < warp.group_count; ++i) {
      Group group = warp.groups[i];
      if (group.state != GroupState::AtMbarrier) continue;
      auto *result = reinterpret_cast<uint32_t *>(group.frame->registers + group.pc->d);
      *result &= ~group.mask;
      warp.groups[i] = warp.groups[--warp.group_count];
      insert_group(warp, group.frame, group.pc + 1, group.mask);
      i = kNone;  // the order has changed: begin again
    }
  }
  return true;
}

Handler select_mbarrier(const Ir &ir) {
  switch (static_cast<MbarrierMode>(ir.mode)) {
#define UPDATE(mode)       \
  case MbarrierMode::mode: \
    return run_update<MbarrierMode::mode>
#define WAIT(mode)         \
  case MbarrierMode::mode: \
    return run_wait<MbarrierMode::mode>
    UPDATE(Init);
    UPDATE(Inval);
    UPDATE(ExpectTx);
    UPDATE(CompleteTx);
    UPDATE(Arrive);
    UPDATE(ArriveExpectTx);
    UPDATE(Drop);
    UPDATE(DropExpectTx);
    UPDATE(Touch);
    WAIT(TestWait);
    WAIT(TestParity);
    WAIT(TryWait);
    WAIT(TryParity);
#undef UPDATE
#undef WAIT
  }
  return nullptr;
}

}  // namespace softdev
