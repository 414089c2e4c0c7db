// mma and wmma.mma of f16, bf16, tf32 and 8-bit floating point.
#include "execute/ops/families.h"
#include "execute/ops/matrix/matrix_single.h"

namespace softdev::SOFTDEV_ISA {
namespace {

constexpr unsigned kMaxDepth = 64;  // a sparse product of 8-bit elements

// .satfinite, which PTX had before version 6.5: no infinity, 0 for NaN.
SOFTDEV_INLINE void finish(const MmaForm &form, float (*acc)[kEdge]) {
  finish(acc);
  if (!form.saturate) return;
  const float most = form.half_d ? 65504.0f : __FLT_MAX__;
  for (unsigned g = 0; g < kEdge; ++g) {
    for (unsigned n = 0; n < kEdge; ++n) {
      float x = acc[g][n];
      acc[g][n] = x != x ? 0.0f : x > most ? most : x < -most ? -most : x;
    }
  }
}

#ifdef SOFTDEV_PERMUTES
// Four vectors of four quarters each: rows become columns.
SOFTDEV_INLINE void turn_quarters(__m512 *v) {
  const __m512 a = _mm512_shuffle_f32x4(v[0], v[1], 0x44);
  const __m512 b = _mm512_shuffle_f32x4(v[0], v[1], 0xee);
  const __m512 c = _mm512_shuffle_f32x4(v[2], v[3], 0x44);
  const __m512 d = _mm512_shuffle_f32x4(v[2], v[3], 0xee);
  v[0] = _mm512_shuffle_f32x4(a, c, 0x88);
  v[1] = _mm512_shuffle_f32x4(a, c, 0xdd);
  v[2] = _mm512_shuffle_f32x4(b, d, 0x88);
  v[3] = _mm512_shuffle_f32x4(b, d, 0xdd);
}

// Two registers of B, side by side, as 16 floats for each k; columns in the order of C.
template <class Row>
SOFTDEV_INLINE void get_two_b(const uint8_t *left, const uint8_t *right, float *to) {
  static constexpr TurnedOver kByColumn(kColumnAt);
  const __m512i low = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
  const __m512i high = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  const Block l = Block::load(left).turned(kByColumn), r = Block::load(right).turned(kByColumn);
  for (unsigned half = 0; half < 2; ++half) {
    for (const __m512i &order : {low, high}) {
      const __m512i two = _mm512_permutex2var_epi64(l.rows(half), order, r.rows(half));
      _mm512_store_ps(to, Row::widen(_mm512_castsi512_si256(two)));
      _mm512_store_ps(to + 16, Row::widen(_mm512_extracti64x4_epi64(two, 1)));
      to += 32;
    }
  }
}

// The shape of nearly all wmma: C has two blocks by two, of f32. A whole row of it is one vector.
template <class Row>
SOFTDEV_INLINE void multiply_square(Warp &w, const MmaForm &form, const MmaLists &lists) {
  constexpr unsigned kRows = 2 * kEdge, kBlock = kEdge * kEdge;
  alignas(64) float a[2 * kMaxBlocks * kBlock], b[kMaxBlocks * 2 * kBlock];
  for (unsigned block = 0; block < 2u * form.depth; ++block) {
    const Block rows = Block::load(slot<uint8_t>(w, lists.a[block]));
    float *to = a + block * kBlock;
    for (unsigned half = 0; half < 2; ++half, to += 32) {
      _mm512_store_ps(to, Row::widen(_mm512_castsi512_si256(rows.rows(half))));
      _mm512_store_ps(to + 16, Row::widen(_mm512_extracti64x4_epi64(rows.rows(half), 1)));
    }
  }
  for (unsigned block = 0; block < form.depth; ++block)
    get_two_b<Row>(slot<uint8_t>(w, lists.b[block]), slot<uint8_t>(w, lists.b[form.depth + block]),
                   b + block * 2 * kBlock);
  // Four registers of C and D hold the rows of a pair of blocks: its even and odd columns.
  auto place = [&](const uint32_t *list, unsigned rows, unsigned part, unsigned half) {
    return slot<float>(w, list[(part / 2 * 2 + rows) * 2 + part % 2]) + half * 16;
  };
  __m512 sum[kRows];
  for (unsigned rows = 0; rows < 2; ++rows) {
    for (unsigned half = 0; half < 2; ++half) {
      __m512 *four = sum + rows * kEdge + half * 4;
      for (unsigned part = 0; part < 4; ++part)
        four[part] = _mm512_load_ps(place(lists.c, rows, part, half));
      turn_quarters(four);
    }
  }
  const float *from = a, *across = b;
  for (unsigned block = 0; block < form.depth; ++block, from += 2 * kBlock) {
#pragma GCC unroll 8
    for (unsigned k = 0; k < kEdge; ++k, across += 16) {
      const __m512 row = _mm512_load_ps(across);
      for (unsigned g = 0; g < kRows; ++g)
        sum[g] = _mm512_fmadd_ps(_mm512_set1_ps(from[g * kEdge + k]), row, sum[g]);
    }
  }
  const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(0x7fffffff));
  for (unsigned rows = 0; rows < 2; ++rows) {
    for (unsigned half = 0; half < 2; ++half) {
      __m512 *four = sum + rows * kEdge + half * 4;
      for (unsigned g = 0; g < 4; ++g)
        four[g] =
            _mm512_mask_mov_ps(four[g], _mm512_cmp_ps_mask(four[g], four[g], _CMP_UNORD_Q), nan);
      turn_quarters(four);
      for (unsigned part = 0; part < 4; ++part)
        _mm512_store_ps(place(lists.d, rows, part, half), four[part]);
    }
  }
}
#endif

template <class RowA, class RowB>
const Ins *mma(Warp &w, const Ins *i) {
  if (!gather(w, i, kFullMask)) return nullptr;
  const auto form = unpack_form<MmaForm>(i->imm);
  const MmaLists lists(i, form);
#ifdef SOFTDEV_PERMUTES
  if constexpr (std::is_same_v<RowA, RowB> && RowB::kDepth == kEdge) {
    if (form.rows == 2 && form.columns == 2 && !form.half_c && !form.half_d && !form.saturate &&
        !form.sparse && w.mask == kFullMask) {
      multiply_square<RowA>(w, form, lists);
      return go_on(w, i + 1);
    }
  }
#endif
  constexpr unsigned kDepth = RowB::kDepth, kBlock = kEdge * kDepth;
  const unsigned blocks = form.rows * form.columns;
  alignas(64) float a[kMaxRows * kEdge * kMaxDepth];
  alignas(64) float b[kMaxDepth * kEdge];
  alignas(64) float acc[kMaxBlocks * kEdge][kEdge];
  get_a<RowA>(BlocksOfA(w, i, form, lists), form.rows * form.depth, a);
  for (unsigned block = 0; block < blocks; ++block) {
    if (form.half_c)
      get_half_block(w, lists.c[block], acc + block * kEdge);
    else
      get_single_block(w, lists.c + 2 * block, acc + block * kEdge);
  }
  for (unsigned column = 0; column < form.columns; ++column) {
    for (unsigned block = 0; block < form.depth; ++block)
      get_b<RowB>(slot<uint8_t>(w, lists.b[column * form.depth + block]), b + block * kBlock);
    auto *to = acc + column * form.rows * kEdge;
    unsigned row = 0;
#ifdef SOFTDEV_PERMUTES
    // With 32 vector registers.
    for (; row + 2 <= form.rows; row += 2)
      multiply<2, kDepth>(a + row * kBlock, form.rows * kBlock, b, form.depth, to + row * kEdge);
#endif
    for (; row < form.rows; ++row)
      multiply<1, kDepth>(a + row * kBlock, form.rows * kBlock, b, form.depth, to + row * kEdge);
  }
  // D may be the registers of the sources: nothing is written before all is read.
  for (unsigned block = 0; block < blocks; ++block) {
    auto *from = acc + block * kEdge;
    finish(form, from);
    if (form.half_d)
      put_half_block(w, lists.d[block], from);
    else
      put_single_block(w, lists.d + 2 * block, from);
  }
  return i + 1;
}

// ---- m8n8k4 of f16: four products at once, each on the lanes 4 * q ... and 16 + 4 * q ...

// Where element e of an accumulator on lane l (0 to 7) of a product lies: of f16 a row, of f32
// squares of two.
struct Place {
  unsigned row, column;
  Place(bool half, unsigned l, unsigned e)
      : row(half ? l : (l & 1) + (e & 2) + (l & 4)),
        column(half ? e : (e & 4) + (l & 2) + (e & 1)) {}
};

const Ins *mma_quads(Warp &w, const Ins *i) {
  if (!gather(w, i, kFullMask)) return nullptr;
  const auto form = unpack_form<MmaForm>(i->imm);
  const MmaLists lists(i, form);
  alignas(64) uint32_t d[kEdge][kLanes] = {};
  auto half_at = [&](const uint32_t *list, unsigned lane, unsigned e) {
    return widen<F16Format>(
        static_cast<uint16_t>(slot<uint32_t>(w, list[e / 2])[lane] >> (e & 1) * 16));
  };
  for (unsigned product = 0; product < 4; ++product) {
    float a[kEdge][4], b[4][kEdge], acc[kEdge][kEdge];
    for (unsigned l = 0; l < kEdge; ++l) {
      unsigned lane = product * 4 + (l & 3) + (l & 4) * 4;
      for (unsigned e = 0; e < 4; ++e) {
        (form.column_a ? a[(l & 4) + e][l & 3] : a[l][e]) = half_at(lists.a, lane, e);
        (form.row_b ? b[l & 3][(l & 4) + e] : b[e][l]) = half_at(lists.b, lane, e);
      }
      for (unsigned e = 0; e < kEdge; ++e) {
        Place at(form.half_c, l, e);
        acc[at.row][at.column] =
            form.half_c ? half_at(lists.c, lane, e) : slot<float>(w, lists.c[e])[lane];
      }
    }
    for (auto &row : acc)
      for (unsigned k = 0; k < 4; ++k)
        for (unsigned n = 0; n < kEdge; ++n) row[n] += a[&row - acc][k] * b[k][n];
    finish(form, acc);
    for (unsigned l = 0; l < kEdge; ++l) {
      unsigned lane = product * 4 + (l & 3) + (l & 4) * 4;
      for (unsigned e = 0; e < kEdge; ++e) {
        Place at(form.half_d, l, e);
        float value = acc[at.row][at.column];
        if (form.half_d)
          d[e / 2][lane] |= uint32_t{nearest<F16Format>(value)} << (e & 1) * 16;
        else
          d[e][lane] = bit_cast<uint32_t>(value);
      }
    }
  }
  for (unsigned r = 0; r < form.d_registers(); ++r) put(w, lists.d[r], d[r]);
  return i + 1;
}

}  // namespace

Handler select_mma_single(const Ir &ir) {
  if (ir.op == Op::MmaQuads) return mma_quads;
  if (ir.op != Op::Mma) return nullptr;
  const auto form = unpack_form<MmaForm>(ir.offset);
  switch (form.a) {
    case Element::F16:
      return mma<HalfRow, HalfRow>;
    case Element::BF16:
      return mma<BrainRow, BrainRow>;
    case Element::TF32:
      return mma<Tf32Row, Tf32Row>;
    case Element::E4M3:
      return form.b == Element::E4M3 ? mma<E4M3Row, E4M3Row> : mma<E4M3Row, E5M2Row>;
    case Element::E5M2:
      return form.b == Element::E4M3 ? mma<E5M2Row, E4M3Row> : mma<E5M2Row, E5M2Row>;
    default:
      return nullptr;
  }
}

}  // namespace softdev::SOFTDEV_ISA
