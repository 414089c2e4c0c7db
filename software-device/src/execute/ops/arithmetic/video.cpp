// Video instructions: arithmetic on bytes and halves of words, saturated, then combined with or
// merged into a third operand.
#include "execute/lanes.h"
#include "execute/ops/families.h"

namespace softdev::SOFTDEV_ISA {
namespace {

int64_t extended(uint32_t bits, unsigned width, bool is_signed) {
  if (width == 32) return is_signed ? static_cast<int32_t>(bits) : int64_t{bits};
  uint32_t value = bits & ((1u << width) - 1);
  bool negative = is_signed && (value >> (width - 1));
  return negative ? int64_t{value} - (int64_t{1} << width) : int64_t{value};
}

struct Part {
  unsigned shift, width;
};
Part part_of(uint8_t which) {
  switch (which) {
    case kWholeWord:
      return {0, 32};
    case kHalf0:
    case kHalf1:
      return {16u * (which - kHalf0), 16};
    default:
      return {8u * (which - kByte0), 8};
  }
}
int64_t select(uint32_t word, uint8_t which, bool is_signed) {
  Part part = part_of(which);
  return extended(word >> part.shift, part.width, is_signed);
}

int64_t clamped(__int128 value, unsigned width, bool is_signed) {
  __int128 most = (static_cast<__int128>(1) << (width - is_signed)) - 1;
  __int128 least = is_signed ? -most - 1 : 0;
  return static_cast<int64_t>(value < least ? least : value > most ? most : value);
}

bool holds(unsigned compare, int64_t a, int64_t b) {
  switch (static_cast<Compare>(compare + static_cast<unsigned>(Compare::Eq))) {
    case Compare::Eq:
      return a == b;
    case Compare::Ne:
      return a != b;
    case Compare::Lt:
      return a < b;
    case Compare::Le:
      return a <= b;
    case Compare::Gt:
      return a > b;
    default:
      return a >= b;
  }
}

__int128 operate(VideoOp op, const VideoOptions &o, int64_t a, int64_t b) {
  switch (op) {
    case VideoOp::Add:
      return a + b;
    case VideoOp::Sub:
      return a - b;
    case VideoOp::AbsDiff:
      return a < b ? b - a : a - b;
    case VideoOp::Min:
      return a < b ? a : b;
    case VideoOp::Max:
      return a > b ? a : b;
    case VideoOp::Average:
      return (a + b + (a + b >= 0 ? 1 : 0)) >> 1;
    case VideoOp::Set:
      return holds(o.compare, a, b);
    default: {
      int64_t count = o.wrap ? b & 31 : b > 32 ? 32 : b;
      return op == VideoOp::ShiftLeft
                 ? static_cast<__int128>(a) * (static_cast<__int128>(1) << count)
                 : static_cast<__int128>(a >> count);
    }
  }
}

uint32_t scalar(VideoOp op, const VideoOptions &o, uint32_t a, uint32_t b, uint32_t c) {
  int64_t x = select(a, static_cast<uint8_t>(o.select_a), o.signed_a);
  int64_t y = select(b, static_cast<uint8_t>(o.select_b), o.signed_b);
  Part to = part_of(o.select_d);
  __int128 wide = operate(op, o, x, y);
  auto result = static_cast<uint32_t>(wide);
  if (o.sat) result = static_cast<uint32_t>(clamped(wide, to.width, o.signed_d));
  if (to.width < 32) {
    uint32_t mask = ((1u << to.width) - 1) << to.shift;
    return (c & ~mask) | ((result << to.shift) & mask);
  }
  if (o.second == 0) return result;
  if (o.second == 1) return result + c;
  int64_t r = extended(result, 32, o.signed_d), z = extended(c, 32, o.signed_d);
  return (r < z) == (o.second == 2) ? result : c;
}

uint32_t multiply_add(const VideoOptions &o, uint32_t a, uint32_t b, uint32_t c) {
  int64_t x = select(a, static_cast<uint8_t>(o.select_a), o.signed_a);
  int64_t y = select(b, static_cast<uint8_t>(o.select_b), o.signed_b);
  bool is_signed = o.signed_a || o.signed_b || o.negate_ab || o.negate_c;
  __int128 sum = static_cast<__int128>(x) * y;
  if (o.negate_ab) sum = -sum;
  int64_t z = extended(o.negate_c ? ~c : c, 32, is_signed);
  sum += z + (o.plus_one || o.negate_c ? 1 : 0);
  auto result = static_cast<int64_t>(sum >> o.shift);
  if (!o.sat) return static_cast<uint32_t>(result);
  __int128 value = is_signed ? static_cast<__int128>(result)
                             : static_cast<__int128>(static_cast<uint64_t>(result));
  return static_cast<uint32_t>(clamped(value, 32, is_signed));
}

uint32_t parallel(VideoOp op, const VideoOptions &o, uint32_t a, uint32_t b, uint32_t c) {
  unsigned parts = o.parts, width = 32 / parts;
  uint64_t both = uint64_t{b} << 32 | a;
  uint32_t result = o.second ? c : 0;
  for (unsigned i = 0; i < parts; ++i) {
    auto element = [&](uint16_t selectors, bool is_signed) {
      unsigned which = (selectors >> (4 * i)) & 15;
      return extended(static_cast<uint32_t>(both >> (which * width)), width, is_signed);
    };
    __int128 wide =
        operate(op, o, element(o.select_a, o.signed_a), element(o.select_b, o.signed_b));
    auto value = static_cast<uint32_t>(wide);
    if (o.sat) value = static_cast<uint32_t>(clamped(wide, width, o.signed_d));
    bool chosen = (o.select_d >> i) & 1;
    if (o.second) {
      if (chosen) result += value;
      continue;
    }
    uint32_t mask = ((1u << width) - 1) << (i * width);
    result |= chosen ? (value << (i * width)) & mask : c & mask;
  }
  return result;
}

const Ins *video(Warp &w, const Ins *i) {
  uint32_t *d = slot<uint32_t>(w, i->d);
  const uint32_t *a = slot<uint32_t>(w, i->a), *b = slot<uint32_t>(w, i->b);
  const uint32_t *c = slot<uint32_t>(w, i->c);
  auto options = bit_cast<VideoOptions>(i->imm);
  auto op = static_cast<VideoOp>(i->mode);
  running(w.mask, [&](unsigned l) {
    d[l] = options.parts > 1            ? parallel(op, options, a[l], b[l], c[l])
           : op == VideoOp::MultiplyAdd ? multiply_add(options, a[l], b[l], c[l])
                                        : scalar(op, options, a[l], b[l], c[l]);
  });
  return i + 1;
}

}  // namespace

Handler select_video(const Ir &ir) { return ir.op == Op::Video ? video : nullptr; }

}  // namespace softdev::SOFTDEV_ISA
