// Bit counts, fields, permutations.
#include <type_traits>

#include "execute/lanes.h"
#include "execute/ops/families.h"

namespace softdev::SOFTDEV_ISA {
namespace {

const Ins *popc32(Warp &w, const Ins *i) {
  return map1<uint32_t, uint32_t>(w, i, [](uint32_t a) {
    a -= (a >> 1) & 0x55555555u;
    a = (a & 0x33333333u) + ((a >> 2) & 0x33333333u);
    return (((a + (a >> 4)) & 0x0f0f0f0fu) * 0x01010101u) >> 24;
  });
}
const Ins *popc64(Warp &w, const Ins *i) {
  return map1<uint32_t, uint64_t>(
      w, i, [](uint64_t a) { return static_cast<uint32_t>(__builtin_popcountll(a)); });
}
const Ins *clz32(Warp &w, const Ins *i) {
  return map1<uint32_t, uint32_t>(
      w, i, [](uint32_t a) { return a ? static_cast<uint32_t>(__builtin_clz(a)) : 32u; });
}
const Ins *clz64(Warp &w, const Ins *i) {
  return map1<uint32_t, uint64_t>(
      w, i, [](uint64_t a) { return a ? static_cast<uint32_t>(__builtin_clzll(a)) : 64u; });
}

// The position of the highest bit that differs from the sign; all ones when there is none.
template <class T, bool shift_amount>
const Ins *bfind(Warp &w, const Ins *i) {
  return map1<uint32_t, T>(w, i, [](T a) {
    using U = std::make_unsigned_t<T>;
    constexpr int kWidth = sizeof(T) * 8;
    U value = static_cast<U>(a);
    if (std::is_signed_v<T> && a < 0) value = static_cast<U>(~value);
    if (value == 0) return 0xffffffffu;
    int position = 63 - __builtin_clzll(uint64_t{value});
    return static_cast<uint32_t>(shift_amount ? kWidth - 1 - position : position);
  });
}

SOFTDEV_INLINE uint32_t reversed(uint32_t a) {
  a = ((a >> 1) & 0x55555555u) | ((a & 0x55555555u) << 1);
  a = ((a >> 2) & 0x33333333u) | ((a & 0x33333333u) << 2);
  a = ((a >> 4) & 0x0f0f0f0fu) | ((a & 0x0f0f0f0fu) << 4);
  return __builtin_bswap32(a);
}
const Ins *brev32(Warp &w, const Ins *i) {
  return map1<uint32_t, uint32_t>(w, i, [](uint32_t a) { return reversed(a); });
}
const Ins *brev64(Warp &w, const Ins *i) {
  return map1<uint64_t, uint64_t>(w, i, [](uint64_t a) {
    return uint64_t{reversed(static_cast<uint32_t>(a))} << 32 |
           reversed(static_cast<uint32_t>(a >> 32));
  });
}

// bfe d, a, position, length: 8 bits of both count.
template <class T>
const Ins *bfe(Warp &w, const Ins *i) {
  return map3<T, T, uint32_t, uint32_t>(w, i, [](T a, uint32_t position, uint32_t length) {
    using U = std::make_unsigned_t<T>;
    constexpr uint32_t kWidth = sizeof(T) * 8;
    position &= 0xff;
    length &= 0xff;
    U sign = 0;
    if (std::is_signed_v<T> && length) {
      uint32_t last = position + length - 1;
      last = last < kWidth - 1 ? last : kWidth - 1;
      sign = (static_cast<U>(a) >> last) & 1;
    }
    U value = position < kWidth ? static_cast<U>(a) >> position : 0;
    uint32_t have = position < kWidth ? kWidth - position : 0;
    uint32_t bits = length < have ? length : have;
    U mask = bits >= kWidth ? ~U{0} : (U{1} << bits) - 1;
    U high = length >= kWidth && bits >= kWidth ? 0 : ~mask;
    return static_cast<T>((value & mask) | (sign ? high : 0));
  });
}

// bfi d, a, b, position, length: a goes into b.
template <class T>
const Ins *bfi(Warp &w, const Ins *i) {
  const T *a = slot<T>(w, i->a), *b = slot<T>(w, i->b);
  const uint32_t *c = slot<uint32_t>(w, i->c), *e = slot<uint32_t>(w, i->e);
  return each<T>(w, i, [=](unsigned l) {
    constexpr uint32_t kWidth = sizeof(T) * 8;
    uint32_t position = c[l] & 0xff, length = e[l] & 0xff;
    T field = length >= kWidth ? static_cast<T>(~T{0}) : static_cast<T>((T{1} << length) - 1);
    T mask = position >= kWidth ? T{0} : static_cast<T>(field << position);
    T moved = position >= kWidth ? T{0} : static_cast<T>(a[l] << position);
    return static_cast<T>((moved & mask) | (b[l] & ~mask));
  });
}

// fns: the position of the offset-th set bit of a mask, counted from `base` up, or down for
// negative offsets; all ones when there is none.
const Ins *find_nth(Warp &w, const Ins *i) {
  return map3<uint32_t, uint32_t, uint32_t, int32_t>(
      w, i, [](uint32_t mask, uint32_t base, int32_t offset) {
        if (base > 31) return 0xffffffffu;
        if (offset == 0) return (mask >> base) & 1 ? base : 0xffffffffu;
        int step = offset > 0 ? 1 : -1;
        int64_t left = offset > 0 ? offset : -int64_t{offset};
        for (int at = static_cast<int>(base); at >= 0 && at < 32; at += step)
          if (((mask >> at) & 1) && --left == 0) return static_cast<uint32_t>(at);
        return 0xffffffffu;
      });
}

template <bool clamp>
const Ins *bmsk(Warp &w, const Ins *i) {
  return map2<uint32_t, uint32_t, uint32_t>(w, i, [](uint32_t position, uint32_t width) {
    if (!clamp) {
      position &= 31;
      width &= 31;
    }
    uint32_t field = width >= 32 ? 0xffffffffu : (1u << width) - 1;
    return position >= 32 ? 0u : field << position;
  });
}
template <bool clamp, bool is_signed>
const Ins *szext(Warp &w, const Ins *i) {
  return map2<uint32_t, uint32_t, uint32_t>(w, i, [](uint32_t a, uint32_t width) {
    if (!clamp) width &= 31;
    if (width >= 32) return a;
    uint32_t mask = (1u << width) - 1;
    uint32_t sign = is_signed && width ? (a >> (width - 1)) & 1 : 0;
    return (a & mask) | (sign ? ~mask : 0u);
  });
}

// prmt: eight bytes of {b, a}, four selectors; bit 3 of a selector repeats the sign.
const Ins *prmt(Warp &w, const Ins *i) {
  uint8_t mode = i->mode;
  return map3<uint32_t, uint32_t, uint32_t, uint32_t>(
      w, i, [=](uint32_t a, uint32_t b, uint32_t c) {
        uint64_t bytes = uint64_t{b} << 32 | a;
        uint32_t result = 0;
        for (unsigned k = 0; k < 4; ++k) {
          unsigned low = c & 3, from;
          bool sign = false;
          switch (mode) {
            case 0:
              from = (c >> (4 * k)) & 7;
              sign = (c >> (4 * k)) & 8;
              break;
            case 1:
              from = low + k;
              break;  // f4e
            case 2:
              from = (low + 8 - k) & 7;
              break;  // b4e
            case 3:
              from = low;
              break;  // rc8
            case 4:
              from = k < low ? low : k;
              break;  // ecl
            case 5:
              from = k < low ? k : low;
              break;  // ecr
            default:
              from = (c & 1) * 2 + (k & 1);
              break;  // rc16
          }
          uint32_t byte = static_cast<uint32_t>(bytes >> (8 * from)) & 0xff;
          if (sign) byte = byte & 0x80 ? 0xff : 0;
          result |= byte << (8 * k);
        }
        return result;
      });
}

const Ins *lop3(Warp &w, const Ins *i) {
  uint32_t t[8];
  for (unsigned k = 0; k < 8; ++k) t[k] = (i->imm >> k) & 1 ? 0xffffffffu : 0;
  return map3<uint32_t, uint32_t, uint32_t, uint32_t>(
      w, i, [=](uint32_t a, uint32_t b, uint32_t c) {
        return (~a & ~b & ~c & t[0]) | (~a & ~b & c & t[1]) | (~a & b & ~c & t[2]) |
               (~a & b & c & t[3]) | (a & ~b & ~c & t[4]) | (a & ~b & c & t[5]) |
               (a & b & ~c & t[6]) | (a & b & c & t[7]);
      });
}
// The tables that compilers use most.
template <unsigned table>
const Ins *lop3_of(Warp &w, const Ins *i) {
  return map3<uint32_t, uint32_t, uint32_t, uint32_t>(w, i, [](uint32_t a, uint32_t b, uint32_t c) {
    if constexpr (table == 0x96) return a ^ b ^ c;
    if constexpr (table == 0xe8) return (a & b) | (c & (a | b));
    if constexpr (table == 0xca) return (a & b) | (~a & c);
    if constexpr (table == 0xea) return (a & b) | c;
    return 0u;
  });
}

// shf: the 64 bits {b, a} shifted; l gives the upper half, r the lower.
template <bool left, bool clamp>
const Ins *funnel(Warp &w, const Ins *i) {
  return map3<uint32_t, uint32_t, uint32_t, uint32_t>(w, i, [](uint32_t a, uint32_t b, uint32_t c) {
    uint32_t n = clamp ? (c < 32 ? c : 32) : c & 31;
    uint64_t both = uint64_t{b} << 32 | a;
    return static_cast<uint32_t>(left ? (both << n) >> 32 : both >> n);
  });
}

}  // namespace

Handler select_bits(const Ir &ir) {
  switch (ir.op) {
    case Op::Popc:
      return ir.type2 == Type::B32 ? popc32 : ir.type2 == Type::B64 ? popc64 : nullptr;
    case Op::Clz:
      return ir.type2 == Type::B32 ? clz32 : ir.type2 == Type::B64 ? clz64 : nullptr;
    case Op::Brev:
      return ir.type == Type::B32 ? brev32 : ir.type == Type::B64 ? brev64 : nullptr;
    case Op::Bfind:
      switch (ir.type2) {
        case Type::U32:
          return ir.high ? bfind<uint32_t, true> : bfind<uint32_t, false>;
        case Type::S32:
          return ir.high ? bfind<int32_t, true> : bfind<int32_t, false>;
        case Type::U64:
          return ir.high ? bfind<uint64_t, true> : bfind<uint64_t, false>;
        case Type::S64:
          return ir.high ? bfind<int64_t, true> : bfind<int64_t, false>;
        default:
          return nullptr;
      }
    case Op::Bfe:
      switch (ir.type) {
        case Type::U32:
          return bfe<uint32_t>;
        case Type::S32:
          return bfe<int32_t>;
        case Type::U64:
          return bfe<uint64_t>;
        case Type::S64:
          return bfe<int64_t>;
        default:
          return nullptr;
      }
    case Op::Bfi:
      return ir.type == Type::B32 ? bfi<uint32_t> : ir.type == Type::B64 ? bfi<uint64_t> : nullptr;
    case Op::Fns:
      return find_nth;
    case Op::Bmsk:
      return ir.high ? bmsk<true> : bmsk<false>;
    case Op::Szext:
      if (ir.type == Type::S32) return ir.high ? szext<true, true> : szext<false, true>;
      return ir.high ? szext<true, false> : szext<false, false>;
    case Op::Prmt:
      return prmt;
    case Op::Lop3:
      switch (ir.offset) {
        case 0x96:
          return lop3_of<0x96>;
        case 0xe8:
          return lop3_of<0xe8>;
        case 0xca:
          return lop3_of<0xca>;
        case 0xea:
          return lop3_of<0xea>;
        default:
          return lop3;
      }
    case Op::FunnelLeft:
      return ir.high ? funnel<true, true> : funnel<true, false>;
    case Op::FunnelRight:
      return ir.high ? funnel<false, true> : funnel<false, false>;
    default:
      return nullptr;
  }
}

}  // namespace softdev::SOFTDEV_ISA
