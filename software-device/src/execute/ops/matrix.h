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
