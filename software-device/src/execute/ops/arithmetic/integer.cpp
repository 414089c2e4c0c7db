// Integer arithmetic and logic.
#include "execute/lanes.h"
#include "execute/ops/families.h"

namespace softdev::SOFTDEV_ISA {
namespace {

template <class T>
struct Signed;
template <>
struct Signed<uint16_t> {
  using type = int16_t;
};
template <>
struct Signed<uint32_t> {
  using type = int32_t;
};
template <>
struct Signed<uint64_t> {
  using type = int64_t;
};
template <class T>
using signed_of = typename Signed<T>::type;

template <class T>
const Ins *add(Warp &w, const Ins *i) {
  return map2<T, T, T>(w, i, [](T a, T b) { return static_cast<T>(a + b); });
}
template <class T>
const Ins *sub(Warp &w, const Ins *i) {
  return map2<T, T, T>(w, i, [](T a, T b) { return static_cast<T>(a - b); });
}
int32_t saturated(int64_t x) {
  return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : static_cast<int32_t>(x);
}
const Ins *add_sat(Warp &w, const Ins *i) {
  return map2<int32_t, int32_t, int32_t>(
      w, i, [](int32_t a, int32_t b) { return saturated(int64_t{a} + b); });
}
const Ins *sub_sat(Warp &w, const Ins *i) {
  return map2<int32_t, int32_t, int32_t>(
      w, i, [](int32_t a, int32_t b) { return saturated(int64_t{a} - b); });
}
template <class T>
const Ins *negate(Warp &w, const Ins *i) {
  return map1<T, T>(w, i, [](T a) { return static_cast<T>(T{0} - a); });
}
template <class T>  // unsigned: |INT_MIN| wraps
const Ins *absolute(Warp &w, const Ins *i) {
  return map1<T, T>(
      w, i, [](T a) { return static_cast<signed_of<T>>(a) < 0 ? static_cast<T>(T{0} - a) : a; });
}
template <class T>
const Ins *minimum(Warp &w, const Ins *i) {
  return map2<T, T, T>(w, i, [](T a, T b) { return a < b ? a : b; });
}
template <class T>
const Ins *maximum(Warp &w, const Ins *i) {
  return map2<T, T, T>(w, i, [](T a, T b) { return a > b ? a : b; });
}
template <class T>
const Ins *bit_and(Warp &w, const Ins *i) {
  return map2<T, T, T>(w, i, [](T a, T b) { return static_cast<T>(a & b); });
}
template <class T>
const Ins *bit_or(Warp &w, const Ins *i) {
  return map2<T, T, T>(w, i, [](T a, T b) { return static_cast<T>(a | b); });
}
template <class T>
const Ins *bit_xor(Warp &w, const Ins *i) {
  return map2<T, T, T>(w, i, [](T a, T b) { return static_cast<T>(a ^ b); });
}
template <class T>
const Ins *bit_not(Warp &w, const Ins *i) {
  return map1<T, T>(w, i, [](T a) { return static_cast<T>(~a); });
}
template <class T>
const Ins *c_not(Warp &w, const Ins *i) {
  return map1<T, T>(w, i, [](T a) { return static_cast<T>(a == 0); });
}

// Shift counts above the width give 0, or the sign.
template <class T>
const Ins *shift_left(Warp &w, const Ins *i) {
  constexpr uint32_t kWidth = sizeof(T) * 8;
  return map2<T, T, uint32_t>(w, i, [](T a, uint32_t n) {
    return static_cast<T>(n >= kWidth ? T{0} : static_cast<T>(a << (n & (kWidth - 1))));
  });
}
template <class T>
const Ins *shift_right(Warp &w, const Ins *i) {
  constexpr uint32_t kWidth = sizeof(T) * 8;
  return map2<T, T, uint32_t>(w, i, [](T a, uint32_t n) {
    return static_cast<T>(n >= kWidth ? T{0} : static_cast<T>(a >> (n & (kWidth - 1))));
  });
}
template <class T>
const Ins *shift_right_signed(Warp &w, const Ins *i) {
  constexpr uint32_t kWidth = sizeof(T) * 8;
  return map2<T, T, uint32_t>(
      w, i, [](T a, uint32_t n) { return static_cast<T>(a >> (n >= kWidth ? kWidth - 1 : n)); });
}

// Division by zero has no exception on a GPU: all bits set, and the remainder is the dividend.
template <class T>
const Ins *divide(Warp &w, const Ins *i) {
  T *d = slot<T>(w, i->d);
  const T *a = slot<T>(w, i->a), *b = slot<T>(w, i->b);
  running(w.mask, [&](unsigned l) {
    if (b[l] == 0)
      d[l] = static_cast<T>(~T{0});
    else if constexpr (static_cast<T>(-1) < 0)
      d[l] = b[l] == -1 ? static_cast<T>(uint64_t{0} - static_cast<uint64_t>(int64_t{a[l]}))
                        : static_cast<T>(a[l] / b[l]);
    else
      d[l] = static_cast<T>(a[l] / b[l]);
  });
  return i + 1;
}
template <class T>
const Ins *remainder(Warp &w, const Ins *i) {
  T *d = slot<T>(w, i->d);
  const T *a = slot<T>(w, i->a), *b = slot<T>(w, i->b);
  running(w.mask, [&](unsigned l) {
    if (b[l] == 0)
      d[l] = a[l];
    else if constexpr (static_cast<T>(-1) < 0)
      d[l] = b[l] == -1 ? T{0} : static_cast<T>(a[l] % b[l]);
    else
      d[l] = static_cast<T>(a[l] % b[l]);
  });
  return i + 1;
}

template <class T, bool max>
const Ins *extreme_pair(Warp &w, const Ins *i) {
  return map2<uint32_t, uint32_t, uint32_t>(w, i, [](uint32_t a, uint32_t b) {
    T a0 = static_cast<T>(a), a1 = static_cast<T>(a >> 16);
    T b0 = static_cast<T>(b), b1 = static_cast<T>(b >> 16);
    T r0 = (a0 < b0) != max ? a0 : b0, r1 = (a1 < b1) != max ? a1 : b1;
    return static_cast<uint32_t>(static_cast<uint16_t>(r0)) |
           static_cast<uint32_t>(static_cast<uint16_t>(r1)) << 16;
  });
}
// min.relu, max.relu: negative results become 0.
template <bool max>
const Ins *extreme_relu(Warp &w, const Ins *i) {
  return map2<int32_t, int32_t, int32_t>(w, i, [](int32_t a, int32_t b) {
    int32_t r = (a < b) != max ? a : b;
    return r > 0 ? r : 0;
  });
}
template <bool max>
const Ins *extreme_pair_relu(Warp &w, const Ins *i) {
  return map2<uint32_t, uint32_t, uint32_t>(w, i, [](uint32_t a, uint32_t b) {
    auto one = [](int16_t x, int16_t y) {
      int16_t r = (x < y) != max ? x : y;
      return static_cast<uint32_t>(r > 0 ? r : 0);
    };
    return one(static_cast<int16_t>(a), static_cast<int16_t>(b)) |
           one(static_cast<int16_t>(a >> 16), static_cast<int16_t>(b >> 16)) << 16;
  });
}
const Ins *add_pair(Warp &w, const Ins *i) {
  return map2<uint32_t, uint32_t, uint32_t>(w, i, [](uint32_t a, uint32_t b) {
    return ((a + b) & 0xffffu) | ((a & 0xffff0000u) + (b & 0xffff0000u));
  });
}

template <class T>
const Ins *sum_of_differences(Warp &w, const Ins *i) {
  return map3<T, T, T, T>(w, i, [](T a, T b, T c) {
    uint64_t x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    return static_cast<T>(static_cast<uint64_t>(c) + (a < b ? y - x : x - y));
  });
}

// The carry flag of a lane is a bit of a predicate. A subtraction is the addition of the
// complement: the flag is set when nothing was borrowed. Compiled 128-bit divisions read it by
// addc.
template <class T, bool subtract>
const Ins *add_carry(Warp &w, const Ins *i) {
  T *d = slot<T>(w, i->d);
  const T *a = slot<T>(w, i->a), *b = slot<T>(w, i->b);
  uint32_t in = i->guard != kNone ? predicate(w, i->guard) : subtract ? ~0u : 0u, out = 0;
  running(w.mask, [&](unsigned l) {
    T carry = static_cast<T>((in >> l) & 1), result;
    T addend = subtract ? static_cast<T>(~b[l]) : b[l];
    bool first = __builtin_add_overflow(a[l], addend, &result);
    bool second = __builtin_add_overflow(result, carry, &result);
    d[l] = result;
    out |= static_cast<uint32_t>(first || second) << l;
  });
  if (i->e != kNone) set_predicate(w, i->e, out);
  return i + 1;
}

#define BY_WIDTH(f)                 \
  switch (type_size(ir.type)) {     \
    case 2:                         \
      return f<uint16_t>;           \
    case 4:                         \
      return straight<f<uint32_t>>; \
    case 8:                         \
      return straight<f<uint64_t>>; \
    default:                        \
      return nullptr;               \
  }
#define BY_TYPE(f)        \
  switch (ir.type) {      \
    case Type::U16:       \
      return f<uint16_t>; \
    case Type::S16:       \
      return f<int16_t>;  \
    case Type::U32:       \
      return f<uint32_t>; \
    case Type::S32:       \
      return f<int32_t>;  \
    case Type::U64:       \
      return f<uint64_t>; \
    case Type::S64:       \
      return f<int64_t>;  \
    default:              \
      return nullptr;     \
  }

bool is_integer(Type type) {
  switch (type) {
    case Type::U16:
    case Type::S16:
    case Type::U32:
    case Type::S32:
    case Type::U64:
    case Type::S64:
      return true;
    default:
      return false;
  }
}
bool is_signed(Type type) { return type == Type::S16 || type == Type::S32 || type == Type::S64; }
bool is_untyped(Type type) { return type == Type::B16 || type == Type::B32 || type == Type::B64; }

Handler select_logic(const Ir &ir) {
  if (!is_untyped(ir.type) && !is_integer(ir.type)) return nullptr;
  switch (ir.op) {
    case Op::And:
      BY_WIDTH(bit_and)
    case Op::Or:
      BY_WIDTH(bit_or)
    case Op::Xor:
      BY_WIDTH(bit_xor)
    case Op::Not:
      BY_WIDTH(bit_not)
    case Op::Cnot:
      BY_WIDTH(c_not)
    case Op::Shl:
      BY_WIDTH(shift_left)
    case Op::Shr:
      if (!is_signed(ir.type)) BY_WIDTH(shift_right)
      switch (ir.type) {
        case Type::S16:
          return shift_right_signed<int16_t>;
        case Type::S32:
          return straight<shift_right_signed<int32_t>>;
        default:
          return shift_right_signed<int64_t>;
      }
    default:
      return nullptr;
  }
}

}  // namespace

Handler select_integer(const Ir &ir) {
  if (ir.type == Type::U16x2 || ir.type == Type::S16x2) {
    bool is_signed_pair = ir.type == Type::S16x2;
    if (ir.sat || ir.ftz || ir.nan || ir.xorsign || ir.round != Round::None) return nullptr;
    if (ir.relu)
      return !is_signed_pair    ? nullptr
             : ir.op == Op::Min ? extreme_pair_relu<false>
             : ir.op == Op::Max ? extreme_pair_relu<true>
                                : nullptr;
    if (ir.op == Op::Add) return add_pair;
    if (ir.op == Op::Min)
      return is_signed_pair ? extreme_pair<int16_t, false> : extreme_pair<uint16_t, false>;
    if (ir.op == Op::Max)
      return is_signed_pair ? extreme_pair<int16_t, true> : extreme_pair<uint16_t, true>;
    return nullptr;
  }
  if (Handler handler = select_logic(ir)) return handler;
  if (!is_integer(ir.type)) return nullptr;
  if (ir.ftz || ir.nan || ir.xorsign || ir.approx || ir.round != Round::None) return nullptr;
  if (ir.relu)
    return ir.type != Type::S32 ? nullptr
           : ir.op == Op::Min   ? extreme_relu<false>
           : ir.op == Op::Max   ? extreme_relu<true>
                                : nullptr;
  if (ir.sat) {
    if (ir.type != Type::S32) return nullptr;
    return ir.op == Op::Add ? add_sat : ir.op == Op::Sub ? sub_sat : nullptr;
  }
  switch (ir.op) {
    case Op::Add:
      BY_WIDTH(add)
    case Op::Sub:
      BY_WIDTH(sub)
    case Op::Neg:
      if (!is_signed(ir.type)) return nullptr;
      BY_WIDTH(negate)
    case Op::Abs:
      if (!is_signed(ir.type)) return nullptr;
      BY_WIDTH(absolute)
    case Op::Min:
      BY_TYPE(minimum)
    case Op::Max:
      BY_TYPE(maximum)
    case Op::Div:
      BY_TYPE(divide)
    case Op::Rem:
      BY_TYPE(remainder)
    case Op::Sad:
      BY_TYPE(sum_of_differences)
    case Op::AddCarry:
      if (ir.type == Type::U32 || ir.type == Type::S32) return add_carry<uint32_t, false>;
      return type_size(ir.type) == 8 ? add_carry<uint64_t, false> : nullptr;
    case Op::SubCarry:
      if (ir.type == Type::U32 || ir.type == Type::S32) return add_carry<uint32_t, true>;
      return type_size(ir.type) == 8 ? add_carry<uint64_t, true> : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace softdev::SOFTDEV_ISA
