// setp, set, testp, and logic on predicates.
#include "execute/ops/families.h"
#include "execute/shapes.h"

namespace softdev::SOFTDEV_ISA {
namespace {

uint32_t combine(Boolean boolean, uint32_t a, uint32_t b) {
  switch (boolean) {
    case Boolean::And:
      return a & b;
    case Boolean::Or:
      return a | b;
    case Boolean::Xor:
      return a ^ b;
    default:
      return a;
  }
}

// p = cmp op c; q = !cmp op c
const Ins *finish_setp(Warp &w, const Ins *i, uint32_t result) {
  uint32_t other = ~result;
  if (i->flags & kHasCombine) {
    uint32_t c = predicate(w, i->c);
    if (i->flags & kNegateC) c = ~c;
    auto boolean = static_cast<Boolean>(i->mode);
    result = combine(boolean, result, c);
    other = combine(boolean, other, c);
  }
  set_predicate(w, i->d, result);
  if (i->flags & kHasSecond) set_predicate(w, i->e, other);
  return i + 1;
}

template <Compare compare, class T>
SOFTDEV_INLINE bool holds(T a, T b) {
  switch (compare) {
    case Compare::Eq:
      return a == b;
    case Compare::Ne:
      return a < b || a > b;  // ordered
    case Compare::Lt:
      return a < b;
    case Compare::Le:
      return a <= b;
    case Compare::Gt:
      return a > b;
    case Compare::Ge:
      return a >= b;
    case Compare::Gtu:
      return !(a <= b);
    case Compare::Geu:
      return !(a < b);
    case Compare::Equ:
      return !(a < b || a > b);
    case Compare::Neu:
      return !(a == b);
    case Compare::Ltu:
      return !(a >= b);
    case Compare::Leu:
      return !(a > b);
    case Compare::Num:
      return a == a && b == b;
    case Compare::Nan:
      return a != a || b != b;
    default:
      return false;
  }
}

#ifdef __AVX512DQ__
// Compilers make a vector of the lanes that hold, and a mask of that; here a comparison gives its
// mask at once.
template <Compare compare>
constexpr int integer_predicate() {
  switch (compare) {
    case Compare::Eq:
      return _MM_CMPINT_EQ;
    case Compare::Lt:
      return _MM_CMPINT_LT;
    case Compare::Le:
      return _MM_CMPINT_LE;
    case Compare::Gt:
      return _MM_CMPINT_NLE;
    case Compare::Ge:
      return _MM_CMPINT_NLT;
    default:
      return _MM_CMPINT_NE;
  }
}
template <Compare compare>
constexpr int float_predicate() {
  switch (compare) {
    case Compare::Eq:
      return _CMP_EQ_OQ;
    case Compare::Ne:
      return _CMP_NEQ_OQ;
    case Compare::Lt:
      return _CMP_LT_OQ;
    case Compare::Le:
      return _CMP_LE_OQ;
    case Compare::Gt:
      return _CMP_GT_OQ;
    case Compare::Ge:
      return _CMP_GE_OQ;
    case Compare::Equ:
      return _CMP_EQ_UQ;
    case Compare::Neu:
      return _CMP_NEQ_UQ;
    case Compare::Ltu:
      return _CMP_NGE_UQ;
    case Compare::Leu:
      return _CMP_NGT_UQ;
    case Compare::Gtu:
      return _CMP_NLE_UQ;
    case Compare::Geu:
      return _CMP_NLT_UQ;
    case Compare::Num:
      return _CMP_ORD_Q;
    default:
      return _CMP_UNORD_Q;
  }
}
// Of the 64 bytes at each place.
template <Compare compare, class T>
SOFTDEV_INLINE uint32_t compare_chunk(const T *a, const T *b) {
  if constexpr (std::is_same_v<T, float>) {
    return _mm512_cmp_ps_mask(_mm512_load_ps(a), _mm512_load_ps(b), float_predicate<compare>());
  } else if constexpr (std::is_same_v<T, double>) {
    return _mm512_cmp_pd_mask(_mm512_load_pd(a), _mm512_load_pd(b), float_predicate<compare>());
  } else {
    constexpr int kPredicate = integer_predicate<compare>();
    const __m512i x = _mm512_load_si512(a), y = _mm512_load_si512(b);
    if constexpr (sizeof(T) == 8)
      return std::is_signed_v<T> ? _mm512_cmp_epi64_mask(x, y, kPredicate)
                                 : _mm512_cmp_epu64_mask(x, y, kPredicate);
    else if constexpr (sizeof(T) == 4)
      return std::is_signed_v<T> ? _mm512_cmp_epi32_mask(x, y, kPredicate)
                                 : _mm512_cmp_epu32_mask(x, y, kPredicate);
    else
      return std::is_signed_v<T> ? _mm512_cmp_epi16_mask(x, y, kPredicate)
                                 : _mm512_cmp_epu16_mask(x, y, kPredicate);
  }
}
#endif

template <Compare compare, class T>
SOFTDEV_INLINE uint32_t compare_lanes(Warp &w, const Ins *i) {
  const T *a = slot<T>(w, i->a), *b = slot<T>(w, i->b);
#ifdef __AVX512DQ__
  constexpr unsigned kEach = 64 / sizeof(T);
  uint32_t mask = 0;
  for (unsigned l = 0; l < kLanes; l += kEach) mask |= compare_chunk<compare>(a + l, b + l) << l;
  return mask;
#else
  return lanes_where([=](unsigned l) { return holds<compare, T>(a[l], b[l]); });
#endif
}
template <Compare compare, class T>
__attribute__((noinline)) uint32_t compare_spread(Warp &w, const Ins *i) {
  if (w.rows) {
    spread(w, i->a, i->imm != 0);
    spread(w, i->b, 0);
  }
  return compare_lanes<compare, T>(w, i);
}
// Where a counts up, or is the same for all lanes, and b is the same (shapes.cpp): what holds for
// the first lane and the last one holds for those between them. i->imm is how far these are apart.
template <Compare compare, class T>
SOFTDEV_INLINE uint32_t compare_shaped(Warp &w, const Ins *i) {
  constexpr bool kEquality = compare == Compare::Eq || compare == Compare::Neu;
  const T a = slot<T>(w, i->a)[0], b = slot<T>(w, i->b)[0];
  const T last = static_cast<T>(static_cast<uint32_t>(a) + static_cast<uint32_t>(i->imm));
  const bool first_holds = holds<compare, T>(a, b), last_holds = holds<compare, T>(last, b);
  const bool between = kEquality && i->imm != 0 && b >= a && b <= last;
  if (__builtin_expect(w.rows && last >= a && first_holds == last_holds && !between, 1))
    return first_holds ? ~0u : 0u;
  return compare_spread<compare, T>(w, i);
}
template <Compare compare>
uint32_t compare_flushed(Warp &w, const Ins *i) {
  const float *a = slot<float>(w, i->a), *b = slot<float>(w, i->b);
  return lanes_where([=](unsigned l) { return holds<compare, float>(flush(a[l]), flush(b[l])); });
}

// 16-bit floating point is compared as single precision.
SOFTDEV_INLINE float half_value(uint16_t h) {
  uint32_t sign = (h & 0x8000u) << 16, exponent = (h >> 10) & 31, mantissa = h & 0x3ffu;
  if (exponent == 31) return bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  if (exponent) return bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return sign ? -magnitude : magnitude;
}
template <Compare compare, bool brain, bool ftz>
uint32_t compare_half(Warp &w, const Ins *i) {
  const uint16_t *a = slot<uint16_t>(w, i->a), *b = slot<uint16_t>(w, i->b);
  auto value = [](uint16_t h) {
    if (brain) return bit_cast<float>(uint32_t{h} << 16);
    if (ftz && !(h & 0x7c00u)) h &= 0x8000u;
    return half_value(h);
  };
  return lanes_where([=](unsigned l) { return holds<compare, float>(value(a[l]), value(b[l])); });
}

using Comparer = uint32_t (*)(Warp &, const Ins *);

template <Comparer comparer>
const Ins *setp(Warp &w, const Ins *i) {
  uint32_t result = comparer(w, i);
  if (__builtin_expect(i->flags & (kHasCombine | kHasSecond), 0)) return finish_setp(w, i, result);
  set_predicate(w, i->d, result);
  return i + 1;
}

// set: all ones, or 1.0; ins->count is the type of the result
const Ins *finish_set(Warp &w, const Ins *i, uint32_t result) {
  if (i->flags & kHasCombine) {
    uint32_t c = predicate(w, i->c);
    if (i->flags & kNegateC) c = ~c;
    result = combine(static_cast<Boolean>(i->mode), result, c);
  }
  auto type = static_cast<Type>(i->count);
  if (type_size(type) == 4) {
    uint32_t yes = type == Type::F32 ? 0x3f800000u : 0xffffffffu;
    return each<uint32_t>(w, i, [=](unsigned l) { return (result & kBit[l]) ? yes : 0u; });
  }
  uint16_t yes = type == Type::F16 ? 0x3c00 : type == Type::BF16 ? 0x3f80 : 0xffff;
  return each<uint16_t>(w, i, [=](unsigned l) { return (result & kBit[l]) ? yes : uint16_t{0}; });
}
template <Comparer comparer>
const Ins *set(Warp &w, const Ins *i) {
  return finish_set(w, i, comparer(w, i));
}

// What branch.cpp makes of a comparison and the branch that reads it.
template <Comparer comparer>
__attribute__((flatten)) const Ins *compare_and_branch(Warp &w, const Ins *i) {
  const uint32_t result = comparer(w, i);
  return branch(w, i, w.mask & (i->flags & kNegateGuard ? ~result : result));
}

template <Comparer comparer>
Handler wrap(const Ir &ir) {
  return ir.op == Op::Setp     ? straight<setp<comparer>>
         : ir.op == Op::Branch ? compare_and_branch<comparer>
                               : set<comparer>;
}

template <Compare compare, class T>
Handler wrap_integer(const Ir &ir) {
  if (!ir.shaped) return wrap<compare_lanes<compare, T>>(ir);
  if constexpr (sizeof(T) == 4) return wrap<compare_shaped<compare, T>>(ir);
  return nullptr;
}
template <class T>
Handler pick_integer(const Ir &ir) {
  switch (ir.compare) {
    case Compare::Eq:
      return wrap_integer<Compare::Eq, T>(ir);
    case Compare::Ne:
      return wrap_integer<Compare::Neu, T>(ir);
    case Compare::Lt:
      return wrap_integer<Compare::Lt, T>(ir);
    case Compare::Le:
      return wrap_integer<Compare::Le, T>(ir);
    case Compare::Gt:
      return wrap_integer<Compare::Gt, T>(ir);
    case Compare::Ge:
      return wrap_integer<Compare::Ge, T>(ir);
    default:
      return nullptr;
  }
}

template <template <Compare> class Of>
Handler pick_float(const Ir &ir) {
  switch (ir.compare) {
    case Compare::Eq:
      return wrap<Of<Compare::Eq>::run>(ir);
    case Compare::Ne:
      return wrap<Of<Compare::Ne>::run>(ir);
    case Compare::Lt:
      return wrap<Of<Compare::Lt>::run>(ir);
    case Compare::Le:
      return wrap<Of<Compare::Le>::run>(ir);
    case Compare::Gt:
      return wrap<Of<Compare::Gt>::run>(ir);
    case Compare::Ge:
      return wrap<Of<Compare::Ge>::run>(ir);
    case Compare::Equ:
      return wrap<Of<Compare::Equ>::run>(ir);
    case Compare::Neu:
      return wrap<Of<Compare::Neu>::run>(ir);
    case Compare::Ltu:
      return wrap<Of<Compare::Ltu>::run>(ir);
    case Compare::Leu:
      return wrap<Of<Compare::Leu>::run>(ir);
    case Compare::Gtu:
      return wrap<Of<Compare::Gtu>::run>(ir);
    case Compare::Geu:
      return wrap<Of<Compare::Geu>::run>(ir);
    case Compare::Num:
      return wrap<Of<Compare::Num>::run>(ir);
    case Compare::Nan:
      return wrap<Of<Compare::Nan>::run>(ir);
    default:
      return nullptr;
  }
}
template <Compare c>
struct Single {
  static uint32_t run(Warp &w, const Ins *i) { return compare_lanes<c, float>(w, i); }
};
template <Compare c>
struct Double {
  static uint32_t run(Warp &w, const Ins *i) { return compare_lanes<c, double>(w, i); }
};
template <Compare c>
struct Flushed {
  static uint32_t run(Warp &w, const Ins *i) { return compare_flushed<c>(w, i); }
};
template <bool brain, bool ftz>
struct HalfOf {
  template <Compare c>
  struct Of {
    static uint32_t run(Warp &w, const Ins *i) { return compare_half<c, brain, ftz>(w, i); }
  };
};

Handler pick_compare(const Ir &ir, Type type) {
  bool is_float = type == Type::F32 || type == Type::F16;
  if (is_float ? ir.shaped : ir.ftz) return nullptr;
  bool equality = ir.compare == Compare::Eq || ir.compare == Compare::Ne;
  switch (type) {
    case Type::B16:
      return equality ? pick_integer<uint16_t>(ir) : nullptr;
    case Type::B32:
      return equality ? pick_integer<uint32_t>(ir) : nullptr;
    case Type::B64:
      return equality ? pick_integer<uint64_t>(ir) : nullptr;
    case Type::U16:
      return pick_integer<uint16_t>(ir);
    case Type::S16:
      return pick_integer<int16_t>(ir);
    case Type::U32:
      return pick_integer<uint32_t>(ir);
    case Type::S32:
      return pick_integer<int32_t>(ir);
    case Type::U64:
      return pick_integer<uint64_t>(ir);
    case Type::S64:
      return pick_integer<int64_t>(ir);
    case Type::F32:
      return ir.ftz ? pick_float<Flushed>(ir) : pick_float<Single>(ir);
    case Type::F64:
      return pick_float<Double>(ir);
    case Type::F16:
      return ir.ftz ? pick_float<HalfOf<false, true>::Of>(ir)
                    : pick_float<HalfOf<false, false>::Of>(ir);
    case Type::BF16:
      return pick_float<HalfOf<true, false>::Of>(ir);
    default:
      return nullptr;
  }
}

// ---- testp

template <class T, class U, unsigned mantissa>
const Ins *test(Warp &w, const Ins *i) {
  const U *a = slot<U>(w, i->a);
  constexpr U kSign = U{1} << (sizeof(U) * 8 - 1);
  constexpr U kMantissa = (U{1} << mantissa) - 1;
  constexpr U kExponent = static_cast<U>(~(kSign | kMantissa));
  uint32_t result = 0;
  uint8_t mode = i->mode;
  running(w.mask, [&](unsigned l) {
    U exponent = a[l] & kExponent, fraction = a[l] & kMantissa;
    bool yes = false;
    switch (mode) {
      case 1:
        yes = exponent != kExponent;
        break;  // finite
      case 2:
        yes = exponent == kExponent && !fraction;
        break;  // infinite
      case 3:
        yes = !(exponent == kExponent && fraction);
        break;  // number
      case 4:
        yes = exponent == kExponent && fraction;
        break;  // notanumber
      case 5:
        yes = (exponent || !fraction) && exponent != kExponent;
        break;  // normal; zeros are
      default:
        yes = !exponent && fraction;
        break;  // subnormal
    }
    result |= static_cast<uint32_t>(yes) << l;
  });
  set_predicate(w, i->d, result);
  return i + 1;
}

// ---- predicates

uint32_t input(Warp &w, uint32_t offset, bool negate) {
  uint32_t value = predicate(w, offset);
  return negate ? ~value : value;
}
template <Boolean boolean>
const Ins *logic(Warp &w, const Ins *i) {
  uint32_t a = input(w, i->a, i->flags & kNegateA), b = input(w, i->b, i->flags & kNegateB);
  set_predicate(w, i->d, combine(boolean, a, b));
  return i + 1;
}
template <bool invert>
const Ins *copy(Warp &w, const Ins *i) {
  uint32_t a = input(w, i->a, i->flags & kNegateA);
  set_predicate(w, i->d, invert ? ~a : a);
  return i + 1;
}

}  // namespace

Handler select_compare(const Ir &ir) {
  bool known_result = ir.op != Op::Set || ir.type == Type::U32 || ir.type == Type::S32 ||
                      ir.type == Type::F32 || ir.type == Type::F16 || ir.type == Type::BF16 ||
                      ir.type == Type::U16 || ir.type == Type::S16;
  if (!known_result) return nullptr;
  switch (ir.op) {
    case Op::Setp:
    case Op::Branch:
      return pick_compare(ir, ir.type);
    case Op::Set:
      return pick_compare(ir, ir.type2);
    case Op::Testp:
      return ir.type == Type::F32   ? test<float, uint32_t, 23>
             : ir.type == Type::F64 ? test<double, uint64_t, 52>
                                    : nullptr;
    case Op::PredAnd:
      return logic<Boolean::And>;
    case Op::PredOr:
      return logic<Boolean::Or>;
    case Op::PredXor:
      return logic<Boolean::Xor>;
    case Op::PredNot:
      return copy<true>;
    case Op::PredMove:
      return copy<false>;
    default:
      return nullptr;
  }
}

}  // namespace softdev::SOFTDEV_ISA
