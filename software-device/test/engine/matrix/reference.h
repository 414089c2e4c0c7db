// What matrix instructions should give, by the formulas of the PTX ISA: element by element, lane
// by lane.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace matrix {

struct Format {
  const char *name;
  int bits;      // of an element
  int exponent;  // bits of the exponent; 0: an integer
  bool is_signed;
};
extern const Format f16, bf16, tf32, f64, f32, e4m3, e5m2, s8, u8, s4, u4, b1, s32;

// The value of an element (integers too) and, of types that results have, its bits.
double value(const Format &format, uint64_t bits);
uint64_t rounded(const Format &format, __float128 exact);
// Bits of an element: numbers of moderate size, zeros, and if `special` also infinities, NaN and
// subnormal ones.
uint64_t random_element(const Format &format, std::mt19937 &random, bool special);

// Elements of a matrix, row by row, as bits.
struct Dense {
  unsigned rows, columns;
  std::vector<uint64_t> at;
  Dense(unsigned r, unsigned c) : rows(r), columns(c), at(r * c) {}
  uint64_t &operator()(unsigned r, unsigned c) { return at[r * columns + c]; }
  uint64_t operator()(unsigned r, unsigned c) const { return at[r * columns + c]; }
};
Dense random_dense(unsigned rows, unsigned columns, const Format &format, std::mt19937 &random,
                   bool special);

struct Shape {
  unsigned m, n, k;
  std::string name() const {
    return "m" + std::to_string(m) + "n" + std::to_string(n) + "k" + std::to_string(k);
  }
};

// Where element i of a lane's fragment is: mma's layouts.
struct Position {
  unsigned row, column;
};
Position place_a(const Format &format, const Shape &shape, unsigned lane, unsigned i);
Position place_b(const Format &format, const Shape &shape, unsigned lane, unsigned i);
Position place_c(const Format &format, const Shape &shape, unsigned lane, unsigned i);

enum class BitOp { None, Xor, And };
// d = a * b + c in the order of k. Results of type f16 are sums in single precision, rounded.
Dense product(const Format &a_format, const Dense &a, const Format &b_format, const Dense &b,
              const Format &c_format, const Dense &c, const Format &d_format, bool saturate,
              BitOp op, int rounding);

}  // namespace matrix
