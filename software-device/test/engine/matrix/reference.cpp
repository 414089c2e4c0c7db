#include "reference.h"

#include <bit>
#include <cfenv>
#include <cmath>

#include "../instructions/reference.h"

namespace matrix {

const Format f16{"f16", 16, 5, true}, bf16{"bf16", 16, 8, true}, tf32{"tf32", 32, 8, true},
    f64{"f64", 64, 11, true}, f32{"f32", 32, 8, true}, e4m3{"e4m3", 8, 4, true},
    e5m2{"e5m2", 8, 5, true}, s8{"s8", 8, 0, true}, u8{"u8", 8, 0, false}, s4{"s4", 4, 0, true},
    u4{"u4", 4, 0, false}, b1{"b1", 1, 0, false}, s32{"s32", 32, 0, true};

double value(const Format &format, uint64_t bits) {
  if (&format == &f64) return std::bit_cast<double>(bits);
  if (&format == &f32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  // Its low bits are not part of the number.
  if (&format == &tf32) return std::bit_cast<float>(static_cast<uint32_t>(bits) >> 13 << 13);
  if (&format == &f16) return harness::SmallFormat::f16().value(bits);
  if (&format == &bf16) return harness::SmallFormat::bf16().value(bits);
  if (format.exponent == 0) {
    auto all = static_cast<int64_t>(bits);
    bool negative = format.is_signed && (bits >> (format.bits - 1)) & 1;
    return static_cast<double>(negative ? all - (int64_t{1} << format.bits) : all);
  }
  int mantissa_bits = 7 - format.exponent, magnitude = static_cast<int>(bits & 0x7f);
  int exponent = magnitude >> mantissa_bits, fraction = magnitude & ((1 << mantissa_bits) - 1);
  int bias = (1 << (format.exponent - 1)) - 1;
  double sign = bits & 0x80 ? -1 : 1;
  if (&format == &e5m2 && exponent == 31) return fraction ? std::nan("") : sign * HUGE_VAL;
  if (&format == &e4m3 && magnitude == 0x7f) return std::nan("");
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - mantissa_bits);
  return sign * std::ldexp(fraction + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

uint64_t rounded(const Format &format, __float128 exact) {
  if (&format == &f64) return std::bit_cast<uint64_t>(static_cast<double>(exact));
  auto single = static_cast<float>(exact);
  if (&format == &f16)
    return harness::SmallFormat::f16().round(static_cast<long double>(single), FE_TONEAREST);
  return std::isnan(single) ? 0x7fffffffu : std::bit_cast<uint32_t>(single);
}

uint64_t random_element(const Format &format, std::mt19937 &random, bool special) {
  uint64_t any = (uint64_t{random()} << 32) | random();
  uint64_t mask = format.bits == 64 ? ~uint64_t{0} : (uint64_t{1} << format.bits) - 1;
  if (format.exponent == 0) return any & mask;
  if (format.bits == 8) {
    if (!special && &format == &e4m3) return (any & 0x7f) == 0x7f ? 0 : any & mask;
    if (!special && &format == &e5m2) return (any & 0x7f) >= 0x7c ? 0 : any & mask;
    return any & mask;
  }
  if (special && random() % 4 == 0) return any & mask;
  if (random() % 16 == 0) return any & 1 ? uint64_t{1} << (format.bits - 1) : 0;
  double x = std::ldexp(static_cast<double>(static_cast<int32_t>(any)), -31) *
             std::ldexp(1.0, static_cast<int>(random() % 12) - 6);
  if (&format == &f64) return std::bit_cast<uint64_t>(x);
  auto single = std::bit_cast<uint32_t>(static_cast<float>(x));
  if (&format == &bf16) return single >> 16;
  if (&format == &f16) return harness::SmallFormat::f16().round(x, FE_TONEAREST);
  return single;
}

Dense random_dense(unsigned rows, unsigned columns, const Format &format, std::mt19937 &random,
                   bool special) {
  Dense dense(rows, columns);
  for (uint64_t &bits : dense.at) bits = random_element(format, random, special);
  return dense;
}

// ---- the layouts, section by section

Position place_a(const Format &format, const Shape &shape, unsigned lane, unsigned i) {
  unsigned group = lane >> 2, thread = lane % 4;
  bool small = shape.m == 8;
  switch (format.bits) {
    case 16:
      if (shape.k == 8) return {i < 2 ? group : group + 8, thread * 2 + (i & 1)};
      return {i < 2 || (4 <= i && i < 6) ? group : group + 8,
              thread * 2 + (i & 1) + (i < 4 ? 0 : 8)};
    case 32:
      if (shape.k == 4) return {i == 0 ? group : group + 8, thread};
      return {i == 0 || i == 2 ? group : group + 8, i < 2 ? thread : thread + 4};
    case 64:
      if (small) return {group, thread};
      if (shape.k == 4) return {i == 0 ? group : group + 8, thread};
      if (shape.k == 8) return {i == 0 || i == 2 ? group : group + 8, i < 2 ? thread : thread + 4};
      return {i % 2 == 0 ? group : group + 8, i % 2 == 0 ? i * 2 + thread : i * 2 - 2 + thread};
    case 8:
      if (small) return {group, thread * 4 + i};
      if (shape.k == 16) return {i < 4 ? group : group + 8, thread * 4 + (i & 3)};
      return {i < 4 || (8 <= i && i < 12) ? group : group + 8,
              thread * 4 + (i & 3) + (i < 8 ? 0 : 16)};
    case 4:
      if (small) return {group, thread * 8 + i};
      if (shape.k == 32) return {i < 8 ? group : group + 8, thread * 8 + (i & 7)};
      return {i < 8 || (16 <= i && i < 24) ? group : group + 8,
              thread * 8 + (i & 7) + (i < 16 ? 0 : 32)};
    default:
      if (small) return {group, thread * 32 + i};
      if (shape.k == 128) return {i < 32 ? group : group + 8, thread * 32 + (i & 31)};
      return {i < 32 || (64 <= i && i < 96) ? group : group + 8,
              i < 64 ? thread * 32 + (i & 31) : thread * 32 + (i & 31) + 128};
  }
}

Position place_b(const Format &format, const Shape &, unsigned lane, unsigned i) {
  unsigned group = lane >> 2, thread = lane % 4;
  switch (format.bits) {
    case 16:
      return {thread * 2 + (i & 1) + i / 2 * 8, group};
    case 32:
    case 64:
      return {thread + 4 * i, group};
    case 8:
      return {thread * 4 + (i & 3) + i / 4 * 16, group};
    case 4:
      return {thread * 8 + (i & 7) + i / 8 * 32, group};
    default:
      return {thread * 32 + (i & 31) + i / 32 * 128, group};
  }
}

Position place_c(const Format &, const Shape &shape, unsigned lane, unsigned i) {
  unsigned group = lane >> 2, thread = lane % 4;
  if (shape.m == 8) return {group, thread * 2 + i};
  return {i < 2 ? group : group + 8, thread * 2 + (i & 1)};
}

// ---- the product

namespace {

uint64_t integer_sum(int64_t c, int64_t products, bool saturate) {
  int64_t sum = c + products;
  if (saturate && sum > INT32_MAX) sum = INT32_MAX;
  if (saturate && sum < INT32_MIN) sum = INT32_MIN;
  return static_cast<uint32_t>(sum);
}

}  // namespace

Dense product(const Format &a_format, const Dense &a, const Format &b_format, const Dense &b,
              const Format &c_format, const Dense &c, const Format &d_format, bool saturate,
              BitOp op, int rounding) {
  Dense d(a.rows, b.columns);
  for (unsigned row = 0; row < a.rows; ++row) {
    for (unsigned column = 0; column < b.columns; ++column) {
      uint64_t &result = d(row, column);
      if (a_format.exponent == 0) {
        int64_t sum = 0;
        for (unsigned k = 0; k < a.columns; ++k) {
          uint64_t x = a(row, k), y = b(k, column);
          if (op == BitOp::Xor)
            sum += static_cast<int64_t>(x ^ y);
          else if (op == BitOp::And)
            sum += static_cast<int64_t>(x & y);
          else
            sum +=
                static_cast<int64_t>(value(a_format, x)) * static_cast<int64_t>(value(b_format, y));
        }
        result = integer_sum(static_cast<int64_t>(value(c_format, c(row, column))), sum, saturate);
      } else if (&a_format == &f64) {
        int before = std::fegetround();
        std::fesetround(rounding);
        volatile double sum = value(f64, c(row, column));
        for (unsigned k = 0; k < a.columns; ++k)
          sum = std::fma(value(f64, a(row, k)), value(f64, b(k, column)), sum);
        std::fesetround(before);
        result = std::bit_cast<uint64_t>(static_cast<double>(sum));
      } else {
        auto sum = static_cast<float>(value(c_format, c(row, column)));
        for (unsigned k = 0; k < a.columns; ++k)
          sum = static_cast<float>(static_cast<__float128>(value(a_format, a(row, k))) *
                                       value(b_format, b(k, column)) +
                                   sum);
        if (saturate && std::isnan(sum)) sum = 0;
        if (saturate) {
          float most = &d_format == &f16 ? 65504.0f : 0x1.fffffep127f;
          sum = std::fmin(std::fmax(sum, -most), most);
        }
        result = rounded(d_format, sum);
      }
    }
  }
  return d;
}

}  // namespace matrix
