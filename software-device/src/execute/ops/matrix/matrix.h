// Fragments of matrices in the registers of a warp. What a block is tells translate/matrix.h.
#pragma once

#include "execute/lanes.h"
#include "translate/matrix.h"

namespace softdev::SOFTDEV_ISA {
namespace {

constexpr unsigned kEdge = 8;       // rows of a block, and columns of one of C
constexpr unsigned kRowBytes = 16;  // of a block's row, in 32-bit registers
constexpr unsigned kMaxBlocks = 4;  // of C in one instruction, and along k
constexpr unsigned kMaxRows = 4;    // blocks of A or B along m or n

// The columns of C are kept evens first: so the two registers of a block lie side by side.
constexpr unsigned column_place(unsigned column) { return (column & 1) * 4 + column / 2; }
constexpr unsigned kColumnAt[kEdge] = {0, 2, 4, 6, 1, 3, 5, 7};

// Where the four parts of an mma's list begin.
struct MmaLists {
  const uint32_t *d, *a, *b, *c, *metadata;
  MmaLists(const Ins *i, const MmaForm &form)
      : d(i->list),
        a(d + form.d_registers()),
        b(a + form.a_registers),
        c(b + form.b_registers),
        metadata(c + form.c_registers()) {}
};

// The running lanes of a register become those of v.
template <class T>
SOFTDEV_INLINE void put(Warp &w, uint32_t to, const T *v) {
  T *d = slot<T>(w, to);
  if (w.mask == kFullMask)
    std::memcpy(d, v, kLanes * sizeof(T));
  else
    blend(d, v, w.mask);
}

// The blocks of A: its registers, or what a sparse A is when its zeros are put back.
//
// A block's row of 16 bytes is then every second unit of 32: of each four units two are there, and
// four bits of metadata say which. A unit has 16 bits; of 8-bit and smaller elements it has 8. (So
// tf32 comes in pairs of units, as its metadata says, and nibbles in pairs of elements.) A word of
// metadata has the bits of 8 units' pairs: of two rows, g and g + 8, when units have 16 bits; else
// of one. Words of one row of blocks lie on neighbouring lanes of four.
class BlocksOfA {
 public:
  SOFTDEV_INLINE BlocksOfA(Warp &w, const Ins *i, const MmaForm &form, const MmaLists &lists) {
    if (!form.sparse) {
      for (unsigned r = 0; r < form.a_registers; ++r) at_[r] = slot<uint8_t>(w, lists.a[r]);
      return;
    }
    expand(w, i, form, lists);
  }
  const uint8_t *operator[](unsigned block) const { return at_[block]; }

 private:
  void expand(Warp &w, const Ins *i, const MmaForm &form, const MmaLists &lists) {
    const bool wide = element_bits(form.a) >= 16;
    const unsigned unit = wide ? 2 : 1, pairs = kRowBytes / 2 / unit;
    const uint32_t *metadata = slot<uint32_t>(w, *lists.metadata);
    std::memset(dense_, 0, sizeof dense_);
    for (unsigned block = 0; block < 2u * form.depth; ++block) at_[block] = dense_[block];
    for (unsigned deep = 0; deep < form.depth / 2u; ++deep)
      for (unsigned half = 0; half < 2; ++half) {
        const uint8_t *from = slot<uint8_t>(w, lists.a[deep * 2 + half]);
        for (unsigned g = 0; g < kEdge; ++g) {
          unsigned lane =
              wide ? i->mode * (form.depth / 2u) + deep : i->mode * form.depth + deep * 2 + half;
          uint32_t bits = metadata[g * 4 + lane] >> (wide ? half * 16 : 0);
          for (unsigned pair = 0; pair < pairs; ++pair, bits >>= 4)
            for (unsigned e = 0; e < 2; ++e) {
              unsigned to = (pair * 4 + ((bits >> e * 2) & 3)) * unit;
              std::memcpy(
                  dense_[(deep * 2 + to / kRowBytes) * 2 + half] + g * kRowBytes + to % kRowBytes,
                  from + g * kRowBytes + (pair * 2 + e) * unit, unit);
            }
        }
      }
  }

  const uint8_t *at_[2 * kMaxBlocks];
  alignas(32) uint8_t dense_[2 * kMaxBlocks][kLanes * 4];
};

// A block of C in two registers of T (f32, s32, f64), and back.
template <class T>
SOFTDEV_INLINE void get_block(Warp &w, const uint32_t *c, T (*acc)[kEdge]) {
  const T *even = slot<T>(w, c[0]), *odd = slot<T>(w, c[1]);
  for (unsigned g = 0; g < kEdge; ++g) {
    std::memcpy(acc[g], even + 4 * g, 4 * sizeof(T));
    std::memcpy(acc[g] + 4, odd + 4 * g, 4 * sizeof(T));
  }
}
template <class T>
SOFTDEV_INLINE void put_block(Warp &w, const uint32_t *d, const T (*acc)[kEdge]) {
  alignas(64) T even[kLanes], odd[kLanes];
  for (unsigned g = 0; g < kEdge; ++g) {
    std::memcpy(even + 4 * g, acc[g], 4 * sizeof(T));
    std::memcpy(odd + 4 * g, acc[g] + 4, 4 * sizeof(T));
  }
  put(w, d[0], even);
  put(w, d[1], odd);
}

}  // namespace
}  // namespace softdev::SOFTDEV_ISA
