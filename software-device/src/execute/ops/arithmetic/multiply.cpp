// Integer multiplication in all its widths.
#include "execute/lanes.h"
#include "execute/ops/families.h"

namespace softdev::SOFTDEV_ISA {
namespace {

template <class T>
SOFTDEV_INLINE T low(T a, T b) {  // T unsigned; 16 bits would be promoted to int
  return static_cast<T>(static_cast<uint64_t>(a) * b);
}
SOFTDEV_INLINE uint16_t low(uint16_t a, uint16_t b) {
  return static_cast<uint16_t>(uint32_t{a} * b);
}
SOFTDEV_INLINE uint32_t low(uint32_t a, uint32_t b) { return a * b; }

SOFTDEV_INLINE uint16_t high(uint16_t a, uint16_t b) {
  return static_cast<uint16_t>((uint32_t{a} * b) >> 16);
}
SOFTDEV_INLINE int16_t high(int16_t a, int16_t b) {
  return static_cast<int16_t>((int32_t{a} * b) >> 16);
}
SOFTDEV_INLINE uint32_t high(uint32_t a, uint32_t b) {
  return static_cast<uint32_t>((uint64_t{a} * b) >> 32);
}
SOFTDEV_INLINE int32_t high(int32_t a, int32_t b) {
  return static_cast<int32_t>((int64_t{a} * b) >> 32);
}
SOFTDEV_INLINE uint64_t high(uint64_t a, uint64_t b) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(a) * b) >> 64);
}
SOFTDEV_INLINE int64_t high(int64_t a, int64_t b) {
  return static_cast<int64_t>((static_cast<__int128>(a) * b) >> 64);
}

template <class T>
const Ins *mul_low(Warp &w, const Ins *i) {
  return map2<T, T, T>(w, i, [](T a, T b) { return low(a, b); });
}
template <class T>
const Ins *mad_low(Warp &w, const Ins *i) {
  return map3<T, T, T, T>(w, i, [](T a, T b, T c) { return static_cast<T>(low(a, b) + c); });
}
template <class T>
const Ins *mul_high(Warp &w, const Ins *i) {
  return map2<T, T, T>(w, i, [](T a, T b) { return high(a, b); });
}
template <class T>
const Ins *mad_high(Warp &w, const Ins *i) {
  return map3<T, T, T, T>(w, i, [](T a, T b, T c) {
    return static_cast<T>(static_cast<uint64_t>(high(a, b)) + static_cast<uint64_t>(c));
  });
}
const Ins *mad_high_sat(Warp &w, const Ins *i) {
  return map3<int32_t, int32_t, int32_t, int32_t>(w, i, [](int32_t a, int32_t b, int32_t c) {
    int64_t sum = int64_t{high(a, b)} + c;
    return sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : static_cast<int32_t>(sum);
  });
}
template <class W, class T>
const Ins *mul_wide(Warp &w, const Ins *i) {
  return map2<W, T, T>(w, i, [](T a, T b) { return static_cast<W>(W{a} * W{b}); });
}
template <class W, class T, class U>
const Ins *mad_wide(Warp &w, const Ins *i) {
  return map3<U, T, T, U>(
      w, i, [](T a, T b, U c) { return static_cast<U>(static_cast<U>(W{a} * W{b}) + c); });
}

template <class T, bool take_high>
const Ins *mul24(Warp &w, const Ins *i) {
  return map2<T, T, T>(w, i, [](T a, T b) {
    int64_t x = static_cast<T>(static_cast<uint32_t>(a) << 8) >> 8;
    int64_t y = static_cast<T>(static_cast<uint32_t>(b) << 8) >> 8;
    return static_cast<T>((x * y) >> (take_high ? 16 : 0));
  });
}
template <class T, bool take_high, bool sat>
const Ins *mad24(Warp &w, const Ins *i) {
  return map3<T, T, T, T>(w, i, [](T a, T b, T c) {
    int64_t x = static_cast<T>(static_cast<uint32_t>(a) << 8) >> 8;
    int64_t y = static_cast<T>(static_cast<uint32_t>(b) << 8) >> 8;
    int64_t product = static_cast<T>((x * y) >> (take_high ? 16 : 0));
    int64_t sum = product + c;
    if (sat) sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
    return static_cast<T>(sum);
  });
}

template <class T, class U, bool take_high>
const Ins *mad_carry(Warp &w, const Ins *i) {
  U *d = slot<U>(w, i->d);
  const U *a = slot<U>(w, i->a), *b = slot<U>(w, i->b), *c = slot<U>(w, i->c);
  uint32_t in = i->guard == kNone ? 0 : predicate(w, i->guard), out = 0;
  running(w.mask, [&](unsigned l) {
    U product = take_high ? static_cast<U>(high(static_cast<T>(a[l]), static_cast<T>(b[l])))
                          : low(a[l], b[l]);
    U result;
    bool overflow = __builtin_add_overflow(product, c[l], &result);
    overflow |= __builtin_add_overflow(result, static_cast<U>((in >> l) & 1), &result);
    d[l] = result;
    out |= static_cast<uint32_t>(overflow) << l;
  });
  if (i->e != kNone) set_predicate(w, i->e, out);
  return i + 1;
}

template <class A, class B>
const Ins *dot4(Warp &w, const Ins *i) {
  return map3<uint32_t, uint32_t, uint32_t, uint32_t>(w, i, [](uint32_t a, uint32_t b, uint32_t c) {
    for (int k = 0; k < 4; ++k)
      c += static_cast<uint32_t>(int32_t{static_cast<A>(a >> (8 * k))} *
                                 int32_t{static_cast<B>(b >> (8 * k))});
    return c;
  });
}
// dp2a: two 16-bit parts of a, two bytes of the low or high half of b.
template <class A, class B, unsigned shift>
const Ins *dot2(Warp &w, const Ins *i) {
  return map3<uint32_t, uint32_t, uint32_t, uint32_t>(w, i, [](uint32_t a, uint32_t b, uint32_t c) {
    for (int k = 0; k < 2; ++k)
      c += static_cast<uint32_t>(int32_t{static_cast<A>(a >> (16 * k))} *
                                 int32_t{static_cast<B>(b >> (shift + 8 * k))});
    return c;
  });
}

Handler select_dot(const Ir &ir) {
  bool sa = ir.type2 == Type::S32, sb = ir.type3 == Type::S32;
  if (ir.op == Op::Dp4a)
    return sa ? (sb ? dot4<int8_t, int8_t> : dot4<int8_t, uint8_t>)
              : (sb ? dot4<uint8_t, int8_t> : dot4<uint8_t, uint8_t>);
  if (ir.high)
    return sa ? (sb ? dot2<int16_t, int8_t, 16> : dot2<int16_t, uint8_t, 16>)
              : (sb ? dot2<uint16_t, int8_t, 16> : dot2<uint16_t, uint8_t, 16>);
  return sa ? (sb ? dot2<int16_t, int8_t, 0> : dot2<int16_t, uint8_t, 0>)
            : (sb ? dot2<uint16_t, int8_t, 0> : dot2<uint16_t, uint8_t, 0>);
}

}  // namespace

Handler select_multiply(const Ir &ir) {
  if (ir.op == Op::Dp4a || ir.op == Op::Dp2a) return select_dot(ir);
  bool is_signed = ir.type == Type::S32;
  if (ir.op == Op::Mul24)
    return ir.high ? (is_signed ? mul24<int32_t, true> : mul24<uint32_t, true>)
                   : (is_signed ? mul24<int32_t, false> : mul24<uint32_t, false>);
  if (ir.op == Op::Mad24) {
    if (ir.sat) return mad24<int32_t, true, true>;
    return ir.high ? (is_signed ? mad24<int32_t, true, false> : mad24<uint32_t, true, false>)
                   : (is_signed ? mad24<int32_t, false, false> : mad24<uint32_t, false, false>);
  }
  if (ir.op == Op::MulWide) {
    switch (ir.type2) {
      case Type::U16:
        return mul_wide<uint32_t, uint16_t>;
      case Type::S16:
        return mul_wide<int32_t, int16_t>;
      case Type::U32:
        return straight<mul_wide<uint64_t, uint32_t>>;
      case Type::S32:
        return straight<mul_wide<int64_t, int32_t>>;
      default:
        return nullptr;
    }
  }
  if (ir.op == Op::MadWide) {
    switch (ir.type2) {
      case Type::U16:
        return mad_wide<uint32_t, uint16_t, uint32_t>;
      case Type::S16:
        return mad_wide<int32_t, int16_t, uint32_t>;
      case Type::U32:
        return straight<mad_wide<uint64_t, uint32_t, uint64_t>>;
      case Type::S32:
        return straight<mad_wide<int64_t, int32_t, uint64_t>>;
      default:
        return nullptr;
    }
  }
  bool low_only = ir.op == Op::Mul || ir.op == Op::Mad;
  bool mul = ir.op == Op::Mul || ir.op == Op::MulHigh;
  if (ir.op == Op::MadCarry) {
    switch (ir.type) {
      case Type::U32:
        return ir.high ? mad_carry<uint32_t, uint32_t, true> : mad_carry<uint32_t, uint32_t, false>;
      case Type::S32:
        return ir.high ? mad_carry<int32_t, uint32_t, true> : mad_carry<int32_t, uint32_t, false>;
      case Type::U64:
        return ir.high ? mad_carry<uint64_t, uint64_t, true> : mad_carry<uint64_t, uint64_t, false>;
      case Type::S64:
        return ir.high ? mad_carry<int64_t, uint64_t, true> : mad_carry<int64_t, uint64_t, false>;
      default:
        return nullptr;
    }
  }
  if (!low_only && ir.op != Op::MulHigh && ir.op != Op::MadHigh) return nullptr;
  if (low_only) {
    switch (ir.type) {
      case Type::U16:
      case Type::S16:
        return mul ? mul_low<uint16_t> : mad_low<uint16_t>;
      case Type::U32:
      case Type::S32:
        return mul ? straight<mul_low<uint32_t>> : straight<mad_low<uint32_t>>;
      case Type::U64:
      case Type::S64:
        return mul ? straight<mul_low<uint64_t>> : straight<mad_low<uint64_t>>;
      default:
        return nullptr;
    }
  }
  if (ir.sat) return ir.op == Op::MadHigh && is_signed ? mad_high_sat : nullptr;
  switch (ir.type) {
    case Type::U16:
      return mul ? mul_high<uint16_t> : mad_high<uint16_t>;
    case Type::S16:
      return mul ? mul_high<int16_t> : mad_high<int16_t>;
    case Type::U32:
      return mul ? mul_high<uint32_t> : mad_high<uint32_t>;
    case Type::S32:
      return mul ? mul_high<int32_t> : mad_high<int32_t>;
    case Type::U64:
      return mul ? mul_high<uint64_t> : mad_high<uint64_t>;
    case Type::S64:
      return mul ? mul_high<int64_t> : mad_high<int64_t>;
    default:
      return nullptr;
  }
}

}  // namespace softdev::SOFTDEV_ISA
