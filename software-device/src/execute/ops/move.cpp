// Moves, selections, packing, and addresses of local and shared memory.
#include "execute/lanes.h"
#include "execute/ops/families.h"

namespace softdev::SOFTDEV_ISA {
namespace {

template <class T>
const Ins *move(Warp &w, const Ins *i) {
  return map1<T, T>(w, i, [](T a) { return a; });
}
template <class D, class A>
const Ins *resize(Warp &w, const Ins *i) {
  return map1<D, A>(w, i, [](A a) { return static_cast<D>(a); });
}

template <class T>
const Ins *select(Warp &w, const Ins *i) {
  uint32_t c = predicate(w, i->c);
  if (i->flags & kNegateC) c = ~c;
  const T *a = slot<T>(w, i->a), *b = slot<T>(w, i->b);
  return each<T>(w, i, [=](unsigned l) { return (c & kBit[l]) ? a[l] : b[l]; });
}
template <class T>
const Ins *select_by_int(Warp &w, const Ins *i) {
  return map3<T, T, T, int32_t>(w, i, [](T a, T b, int32_t c) { return c >= 0 ? a : b; });
}
template <class T, bool ftz>
const Ins *select_by_float(Warp &w, const Ins *i) {
  return map3<T, T, T, float>(w, i,
                              [](T a, T b, float c) { return maybe_flush<ftz>(c) >= 0 ? a : b; });
}
template <bool ftz>
Handler pick_select_by_float(unsigned size) {
  return size == 2   ? select_by_float<uint16_t, ftz>
         : size == 4 ? select_by_float<uint32_t, ftz>
         : size == 8 ? select_by_float<uint64_t, ftz>
                     : nullptr;
}

// {a, b} -> d, the first element lowest
template <class D, class E>
const Ins *pack(Warp &w, const Ins *i) {
  D *d = slot<D>(w, i->d);
  alignas(64) D v[kLanes] = {};
  for (unsigned k = 0; k < i->count; ++k) {
    // Elements of one byte lie in 16-bit slots.
    using S = std::conditional_t<sizeof(E) == 1, uint16_t, E>;
    const S *e = slot<S>(w, i->list[k]);
    unsigned shift = k * sizeof(E) * 8;
    SOFTDEV_LANES v[l] =
        static_cast<D>(v[l] | static_cast<D>(static_cast<D>(static_cast<E>(e[l])) << shift));
  }
  blend(d, v, w.mask);
  return i + 1;
}
template <class A, class E>
const Ins *unpack(Warp &w, const Ins *i) {
  alignas(64) A a[kLanes];
  std::memcpy(a, slot<A>(w, i->a), sizeof a);
  for (unsigned k = 0; k < i->count; ++k) {
    if (i->list[k] == kNone) continue;
    using S = std::conditional_t<sizeof(E) == 1, uint16_t, E>;
    S *e = slot<S>(w, i->list[k]);
    unsigned shift = k * sizeof(E) * 8;
    alignas(64) S v[kLanes];
    SOFTDEV_LANES v[l] = static_cast<S>(static_cast<E>(a[l] >> shift));
    blend(e, v, w.mask);
  }
  return i + 1;
}

const Ins *local_address(Warp &w, const Ins *i) {
  uint64_t base =
      reinterpret_cast<uint64_t>(w.local) + w.frame->local + static_cast<uint64_t>(i->imm);
  uint64_t stride = w.local_stride;
  return each<uint64_t>(w, i, [=](unsigned l) { return base + l * stride; });
}
const Ins *from_shared(Warp &w, const Ins *i) {
  uint64_t base = reinterpret_cast<uint64_t>(w.shared);
  return map1<uint64_t, uint64_t>(w, i, [=](uint64_t a) { return base + a; });
}
const Ins *to_shared(Warp &w, const Ins *i) {
  uint64_t base = reinterpret_cast<uint64_t>(w.shared);
  return map1<uint64_t, uint64_t>(w, i, [=](uint64_t a) { return a - base; });
}

template <Space space>
const Ins *is_space(Warp &w, const Ins *i) {
  const uint64_t *a = slot<uint64_t>(w, i->a);
  uint32_t result = 0;
  running(w.mask, [&](unsigned l) {
    uint64_t stack = reinterpret_cast<uint64_t>(w.local) + uint64_t{l} * w.local_stride;
    bool shared = a[l] - reinterpret_cast<uint64_t>(w.shared) < w.shared_size;
    bool local = a[l] - stack < w.local_stride;
    bool parameter = a[l] - reinterpret_cast<uint64_t>(w.parameters) < w.parameter_bytes;
    bool yes =
        space == Space::Shared          ? shared
        : space == Space::Local         ? local
        : space == Space::Param         ? parameter
        : space == Space::SharedCluster ? shared_by_cluster(w, a[l], 1)
        : space == Space::Constant
            ? is_constant(w, a[l])
            : !local && !parameter && !shared_by_cluster(w, a[l], 1) && !is_constant(w, a[l]);
    result |= static_cast<uint32_t>(yes) << l;
  });
  set_predicate(w, i->d, result);
  return i + 1;
}

template <class D>
Handler pick_resize(const Ir &ir) {
  switch (type_size(ir.type2)) {
    case 2:
      return ir.sign ? resize<D, int16_t> : resize<D, uint16_t>;
    case 4:
      return ir.sign ? straight<resize<D, int32_t>> : straight<resize<D, uint32_t>>;
    case 8:
      return straight<resize<D, uint64_t>>;
    default:
      return nullptr;
  }
}

}  // namespace

Handler select_move(const Ir &ir) {
  unsigned size = slot_size(ir.type);
  switch (ir.op) {
    case Op::Move:
      return size == 2   ? move<uint16_t>
             : size == 4 ? straight<move<uint32_t>>
             : size == 8 ? straight<move<uint64_t>>
                         : nullptr;
    case Op::Resize:
      return size == 2   ? pick_resize<uint16_t>(ir)
             : size == 4 ? pick_resize<uint32_t>(ir)
                         : pick_resize<uint64_t>(ir);
    case Op::Select:
      if (ir.type == Type::F16x2 || ir.type == Type::BF16x2) return nullptr;
      return size == 2   ? select<uint16_t>
             : size == 4 ? straight<select<uint32_t>>
             : size == 8 ? straight<select<uint64_t>>
                         : nullptr;
    case Op::SelectByInt:
      if (ir.type2 == Type::S32 && ir.ftz) return nullptr;
      if (ir.type2 == Type::S32)
        return size == 2   ? select_by_int<uint16_t>
               : size == 4 ? select_by_int<uint32_t>
               : size == 8 ? select_by_int<uint64_t>
                           : nullptr;
      return ir.ftz ? pick_select_by_float<true>(size) : pick_select_by_float<false>(size);
    case Op::Pack:
      switch (size * 16 + ir.memory_size) {
        case 2 * 16 + 1:
          return pack<uint16_t, uint8_t>;
        case 4 * 16 + 1:
          return pack<uint32_t, uint8_t>;
        case 4 * 16 + 2:
          return pack<uint32_t, uint16_t>;
        case 8 * 16 + 2:
          return pack<uint64_t, uint16_t>;
        case 8 * 16 + 4:
          return pack<uint64_t, uint32_t>;
        default:
          return nullptr;
      }
    case Op::Unpack:
      switch (size * 16 + ir.memory_size) {
        case 2 * 16 + 1:
          return unpack<uint16_t, uint8_t>;
        case 4 * 16 + 1:
          return unpack<uint32_t, uint8_t>;
        case 4 * 16 + 2:
          return unpack<uint32_t, uint16_t>;
        case 8 * 16 + 2:
          return unpack<uint64_t, uint16_t>;
        case 8 * 16 + 4:
          return unpack<uint64_t, uint32_t>;
        default:
          return nullptr;
      }
    case Op::LocalAddress:
      return local_address;
    case Op::FromShared:
      return from_shared;
    case Op::ToShared:
      return to_shared;
    case Op::IsSpace:
      switch (ir.space) {
        case Space::Shared:
          return is_space<Space::Shared>;
        case Space::SharedCluster:
          return is_space<Space::SharedCluster>;
        case Space::Constant:
          return is_space<Space::Constant>;
        case Space::Local:
          return is_space<Space::Local>;
        case Space::Param:
          return is_space<Space::Param>;
        case Space::Global:
          return is_space<Space::Global>;
        default:
          return nullptr;
      }
    default:
      return nullptr;
  }
}

}  // namespace softdev::SOFTDEV_ISA
