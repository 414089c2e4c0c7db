// Values that go from lane to lane: shfl, vote, match, redux, elect.
#include <type_traits>

#include "execute/lanes.h"
#include "execute/ops/families.h"

namespace softdev::SOFTDEV_ISA {
namespace {

// The lanes that the running ones name. ins->guard is the slot of the member masks.
uint32_t named_members(Warp &w, const Ins *i) {
  const uint32_t *members = slot<uint32_t>(w, i->guard);
  uint32_t all = 0;
  running(w.mask, [&](unsigned l) { all |= members[l]; });
  return all;
}

// shfl: c holds the clamp (bits 0-4) and the segment mask (bits 8-12).
template <ShuffleMode mode>
const Ins *shuffle(Warp &w, const Ins *i) {
  if (!gather(w, i, named_members(w, i))) return nullptr;
  alignas(64) uint32_t a[kLanes], d[kLanes];
  std::memcpy(a, slot<uint32_t>(w, i->a), sizeof a);
  const uint32_t *b = slot<uint32_t>(w, i->b), *c = slot<uint32_t>(w, i->c);
  uint32_t valid = 0;
  for (unsigned l = 0; l < kLanes; ++l) {
    uint32_t lane = l, operand = b[l] & 31, clamp = c[l] & 31, segment = (c[l] >> 8) & 31;
    uint32_t limit = (lane & segment) | (clamp & ~segment);
    uint32_t first = lane & segment;
    uint32_t from;
    bool in_range;
    switch (mode) {
      case ShuffleMode::Up:
        from = lane - operand;
        in_range = static_cast<int32_t>(from) >= static_cast<int32_t>(limit);
        break;
      case ShuffleMode::Down:
        from = lane + operand;
        in_range = from <= limit;
        break;
      case ShuffleMode::Bfly:
        from = lane ^ operand;
        in_range = from <= limit;
        break;
      default:
        from = first | (operand & ~segment);
        in_range = from <= limit;
        break;
    }
    if (!in_range) from = lane;
    d[l] = a[from & 31];
    valid |= static_cast<uint32_t>(in_range) << l;
  }
  blend(slot<uint32_t>(w, i->d), d, w.mask);
  if (i->e != kNone) set_predicate(w, i->e, valid);
  return i + 1;
}

template <VoteMode mode>
const Ins *vote(Warp &w, const Ins *i) {
  if (!gather(w, i, named_members(w, i))) return nullptr;
  uint32_t votes = predicate(w, i->a);
  if (i->flags & kNegateA) votes = ~votes;
  votes &= w.mask;
  const uint32_t *members = slot<uint32_t>(w, i->guard);
  uint32_t result = 0;
  alignas(64) uint32_t ballots[kLanes];
  for (unsigned l = 0; l < kLanes; ++l) {
    uint32_t asked = members[l] & w.mask, yes = votes & asked;
    bool answer = mode == VoteMode::All   ? yes == asked
                  : mode == VoteMode::Any ? yes != 0
                                          : yes == asked || yes == 0;
    result |= static_cast<uint32_t>(answer) << l;
    ballots[l] = yes;
  }
  if (mode == VoteMode::Ballot)
    blend(slot<uint32_t>(w, i->d), ballots, w.mask);
  else
    set_predicate(w, i->d, result);
  return i + 1;
}

template <class T, bool all>
const Ins *match(Warp &w, const Ins *i) {
  if (!gather(w, i, named_members(w, i))) return nullptr;
  alignas(64) T a[kLanes];
  std::memcpy(a, slot<T>(w, i->a), sizeof a);
  const uint32_t *members = slot<uint32_t>(w, i->guard);
  alignas(64) uint32_t d[kLanes] = {};
  uint32_t agree = 0;
  running(w.mask, [&](unsigned l) {
    uint32_t asked = members[l] & w.mask, same = 0;
    running(asked, [&](unsigned k) { same |= static_cast<uint32_t>(a[k] == a[l]) << k; });
    bool everyone = same == asked;
    d[l] = all ? (everyone ? asked : 0) : same;
    agree |= static_cast<uint32_t>(everyone) << l;
  });
  blend(slot<uint32_t>(w, i->d), d, w.mask);
  if (i->e != kNone) set_predicate(w, i->e, agree);
  return i + 1;
}

template <class T, AtomicOp op>
const Ins *redux(Warp &w, const Ins *i) {
  if (!gather(w, i, named_members(w, i))) return nullptr;
  alignas(64) T a[kLanes], d[kLanes] = {};
  std::memcpy(a, slot<T>(w, i->a), sizeof a);
  const uint32_t *members = slot<uint32_t>(w, i->guard);
  for (uint32_t todo = w.mask; todo;) {
    uint32_t asked = members[__builtin_ctz(todo)] & w.mask;
    if (!asked) asked = todo & (0 - todo);
    bool first = true;
    T result = 0;
    running(asked, [&](unsigned l) {
      using U = std::make_unsigned_t<T>;
      if (first)
        result = a[l];
      else
        result = op == AtomicOp::Add ? static_cast<T>(static_cast<U>(result) + static_cast<U>(a[l]))
                 : op == AtomicOp::Min ? (a[l] < result ? a[l] : result)
                 : op == AtomicOp::Max ? (a[l] > result ? a[l] : result)
                 : op == AtomicOp::And ? (result & a[l])
                 : op == AtomicOp::Or  ? (result | a[l])
                                       : (result ^ a[l]);
      first = false;
    });
    running(asked, [&](unsigned l) { d[l] = result; });
    todo &= ~asked;
  }
  blend(slot<T>(w, i->d), d, w.mask);
  return i + 1;
}

// .f32: numbers are preferred to NaNs, unless `nan` asks for them; -0 is less than 0.
template <bool largest, bool nan>
const Ins *redux_single(Warp &w, const Ins *i) {
  if (!gather(w, i, named_members(w, i))) return nullptr;
  alignas(64) float a[kLanes], d[kLanes] = {};
  std::memcpy(a, slot<float>(w, i->a), sizeof a);
  const uint32_t *members = slot<uint32_t>(w, i->guard);
  for (uint32_t todo = w.mask; todo;) {
    uint32_t asked = members[__builtin_ctz(todo)] & w.mask;
    if (!asked) asked = todo & (0 - todo);
    bool any = false, spoiled = false;
    float result = 0;
    running(asked, [&](unsigned l) {
      if (a[l] != a[l]) {
        spoiled = true;
        return;
      }
      bool further = largest ? a[l] > result : a[l] < result;
      if (a[l] == result) further = std::signbit(a[l]) != largest;
      if (!any || further) result = a[l];
      any = true;
    });
    if (!any || (nan && spoiled)) result = bit_cast<float>(uint32_t{0x7fffffff});
    running(asked, [&](unsigned l) { d[l] = result; });
    todo &= ~asked;
  }
  blend(slot<float>(w, i->d), d, w.mask);
  return i + 1;
}

const Ins *elect(Warp &w, const Ins *i) {
  if (!gather(w, i, named_members(w, i))) return nullptr;
  const uint32_t *members = slot<uint32_t>(w, i->guard);
  alignas(64) uint32_t d[kLanes] = {};
  uint32_t elected = 0;
  running(w.mask, [&](unsigned l) {
    uint32_t asked = members[l] & w.mask;
    d[l] = asked ? static_cast<uint32_t>(__builtin_ctz(asked)) : l;
    elected |= static_cast<uint32_t>(d[l] == l) << l;
  });
  blend(slot<uint32_t>(w, i->d), d, w.mask);
  if (i->e != kNone) set_predicate(w, i->e, elected);
  return i + 1;
}

template <class T>
Handler pick_redux(const Ir &ir, bool arithmetic, bool bitwise) {
  switch (static_cast<AtomicOp>(ir.mode)) {
    case AtomicOp::Add:
      return arithmetic ? redux<T, AtomicOp::Add> : nullptr;
    case AtomicOp::Min:
      return arithmetic ? redux<T, AtomicOp::Min> : nullptr;
    case AtomicOp::Max:
      return arithmetic ? redux<T, AtomicOp::Max> : nullptr;
    case AtomicOp::And:
      return bitwise ? redux<T, AtomicOp::And> : nullptr;
    case AtomicOp::Or:
      return bitwise ? redux<T, AtomicOp::Or> : nullptr;
    case AtomicOp::Xor:
      return bitwise ? redux<T, AtomicOp::Xor> : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace

Handler select_exchange(const Ir &ir) {
  switch (ir.op) {
    case Op::Shuffle:
      switch (static_cast<ShuffleMode>(ir.mode)) {
        case ShuffleMode::Up:
          return shuffle<ShuffleMode::Up>;
        case ShuffleMode::Down:
          return shuffle<ShuffleMode::Down>;
        case ShuffleMode::Bfly:
          return shuffle<ShuffleMode::Bfly>;
        default:
          return shuffle<ShuffleMode::Idx>;
      }
    case Op::Vote:
      switch (static_cast<VoteMode>(ir.mode)) {
        case VoteMode::All:
          return vote<VoteMode::All>;
        case VoteMode::Any:
          return vote<VoteMode::Any>;
        case VoteMode::Uni:
          return vote<VoteMode::Uni>;
        default:
          return vote<VoteMode::Ballot>;
      }
    case Op::Match:
      if (ir.type2 == Type::B64) return ir.mode ? match<uint64_t, true> : match<uint64_t, false>;
      return ir.mode ? match<uint32_t, true> : match<uint32_t, false>;
    case Op::Redux:
      switch (ir.type) {
        case Type::U32:
          return pick_redux<uint32_t>(ir, true, false);
        case Type::S32:
          return pick_redux<int32_t>(ir, true, false);
        case Type::B32:
          return pick_redux<uint32_t>(ir, false, true);
        case Type::F32: {
          bool largest = ir.mode == static_cast<uint8_t>(AtomicOp::Max);
          if (!largest && ir.mode != static_cast<uint8_t>(AtomicOp::Min)) return nullptr;
          if (ir.nan) return largest ? redux_single<true, true> : redux_single<false, true>;
          return largest ? redux_single<true, false> : redux_single<false, false>;
        }
        default:
          return nullptr;
      }
    case Op::Elect:
      return elect;
    default:
      return nullptr;
  }
}

}  // namespace softdev::SOFTDEV_ISA
