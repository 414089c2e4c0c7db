// What the matrix instructions work on: packed into the immediate of an instruction.
//
// All fragments consist of blocks. A block of A is 8 rows of 16 bytes (of 32 for f64), one of B 8
// columns of as much, and a register of the fragment holds one of them: lane 4 * g + t has the
// bytes 4 * t ... of row (or column) g. So the slot of the register, its 32 lanes side by side, is
// the block row by row. A block of C or D is 8 x 8: in the registers 2 * j and 2 * j + 1 lane
// 4 * g + t has the columns 2 * t and 2 * t + 1 of row g; as f16 both are in one register.
// Blocks are counted down the rows of C first (A: rows, then k; B: k, then columns).
//
// That is what the PTX ISA says of mma's fragments (but m8n8k4 of f16, which has its own layout);
// those of wmma are the same, with the blocks of f16 there twice or four times, as PTX has more
// registers for them than they need.
#pragma once

#include <bit>
#include <cstdint>

#include "parse/syntax.h"

namespace softdev {

enum class Element : uint8_t {
  None,
  F16,
  BF16,
  TF32,
  F64,
  E4M3,
  E5M2,
  S8,
  U8,
  S4,
  U4,
  B1,
  F32,
  S32
};

constexpr unsigned element_bits(Element element) {
  switch (element) {
    case Element::F16:
    case Element::BF16:
      return 16;
    case Element::F64:
      return 64;
    case Element::E4M3:
    case Element::E5M2:
    case Element::S8:
    case Element::U8:
      return 8;
    case Element::S4:
    case Element::U4:
      return 4;
    case Element::B1:
      return 1;
    case Element::None:
      return 0;
    default:
      return 32;
  }
}
// How far a block of A or B reaches along k.
constexpr unsigned block_depth(Element element) {
  return element == Element::F64 ? 4 : 128 / element_bits(element);
}

// Registers of A and of B in wmma with f16, whatever the shape.
inline constexpr uint8_t kHalfRegisters = 8;

// mma, wmma.mma: d = a * b + c. The instruction's list: registers of d, a, b, c, and of the
// metadata when A is sparse (Ir::mode is the selector).
struct MmaForm {
  Element a = Element::None, b = Element::None;
  uint8_t rows = 1, columns = 1;  // blocks of C; m8n8k4 of f16: rows = 4
  uint8_t depth = 1;              // blocks of B along k; a sparse A has half as many
  uint8_t a_registers = 0, b_registers = 0;
  bool half_c : 1 = false, half_d : 1 = false;
  bool saturate : 1 = false;
  bool popc_and : 1 = false;  // b1: and instead of xor
  bool sparse : 1 = false;
  bool column_a : 1 = false, row_b : 1 = false;  // m8n8k4 of f16
  uint8_t padding : 1 = 0;

  unsigned c_registers() const { return rows * columns * (half_c ? 1u : 2u); }
  unsigned d_registers() const { return rows * columns * (half_d ? 1u : 2u); }
};

// wgmma: d = a * b, or d + a * b where a predicate says so. Each warp makes its 16 rows of D. The
// instruction's list: registers of d, of a if it is not in shared memory, and of d as a source.
struct WgmmaForm {
  Element a = Element::None, b = Element::None;
  uint8_t columns = 1;      // blocks of D along n
  uint8_t a_registers = 0;  // 4, or 0: in shared memory
  bool half_d : 1 = false;
  bool saturate : 1 = false;
  bool negate : 1 = false;                      // the products
  bool turn_a : 1 = false, turn_b : 1 = false;  // m or n lies side by side in memory, not k
  bool drop_d : 1 = false;                      // the predicate says the contrary
  uint8_t padding : 2 = 0;
  uint8_t unused[3] = {};

  unsigned d_registers() const { return 2 * columns * (half_d ? 1u : 2u); }
};

// wmma.load, wmma.store
struct FragmentForm {
  enum Matrix : uint8_t { A, B, C };
  Matrix matrix = A;
  Element element = Element::None;
  uint8_t rows = 1;     // blocks along m (A, C) or n (B)
  uint8_t columns = 1;  // blocks along k (A, B) or n (C)
  // Whether what lies side by side in memory is one row of a block: row-major A and C, column-major
  // B.
  bool along = true;
  uint8_t registers = 0;
  Space space = Space::Generic;
  bool narrow = false;  // the address has 32 bits
};

template <class Form>
int64_t pack_form(const Form &form) {
  static_assert(sizeof(Form) == sizeof(int64_t));
  return std::bit_cast<int64_t>(form);
}
template <class Form>
Form unpack_form(int64_t packed) {
  return std::bit_cast<Form>(packed);
}

}  // namespace softdev
