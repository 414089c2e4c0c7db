// mma and wmma.mma of integers, bits and double precision.
//
// Integer products and their sum are exact; what is added to C wraps, or saturates where asked.
// Double precision is a chain of fused multiply-adds in the order of k.
#include "execute/ops/families.h"
#include "execute/ops/matrix/matrix_integer.h"
#include "execute/rounding.h"

namespace softdev::SOFTDEV_ISA {
namespace {

constexpr unsigned kMaxDepth = 128;  // a sparse product of nibbles
constexpr unsigned kMaxElements = 32 * 32 > 16 * kMaxDepth ? 32 * 32 : 16 * kMaxDepth;

template <class RowA, class RowB>
const Ins *mma_integer(Warp &w, const Ins *i) {
  if (!gather(w, i, kFullMask)) return nullptr;
  const auto form = unpack_form<MmaForm>(i->imm);
  const MmaLists lists(i, form);
  const unsigned depth = form.depth * RowB::kDepth;
  alignas(64) int16_t a[kMaxElements];
  alignas(64) int16_t b[kMaxDepth * kEdge];
  alignas(64) int32_t acc[kMaxBlocks][kEdge][kEdge], products[kEdge][kEdge];
  const BlocksOfA blocks_of_a(w, i, form, lists);
  for (unsigned block = 0; block < form.depth; ++block)
    for (unsigned r = 0; r < form.rows; ++r)
      widen_a<RowA>(blocks_of_a[block * form.rows + r], r, block, depth, a);
  for (unsigned block = 0; block < form.rows * form.columns; ++block)
    get_block(w, lists.c + 2 * block, acc[block]);
  for (unsigned column = 0; column < form.columns; ++column) {
    for (unsigned block = 0; block < form.depth; ++block)
      widen_b<RowB>(slot<uint8_t>(w, lists.b[column * form.depth + block]), block, b);
    for (unsigned row = 0; row < form.rows; ++row) {
      multiply(a + row * kEdge * depth, depth, b, depth, products);
      accumulate(form.saturate, products, acc[column * form.rows + row]);
    }
  }
  for (unsigned block = 0; block < form.rows * form.columns; ++block)
    put_block(w, lists.d + 2 * block, acc[block]);
  return i + 1;
}

// Bits: how many of a row's and a column's differ, or are both one.
const Ins *mma_bits(Warp &w, const Ins *i) {
  if (!gather(w, i, kFullMask)) return nullptr;
  const auto form = unpack_form<MmaForm>(i->imm);
  const MmaLists lists(i, form);
  alignas(64) int32_t acc[kMaxBlocks][kEdge][kEdge], products[kEdge][kEdge];
  for (unsigned r = 0; r < form.rows; ++r) {
    get_block(w, lists.c + 2 * r, acc[r]);
    std::memset(products, 0, sizeof products);
    for (unsigned block = 0; block < form.depth; ++block) {
      const uint8_t *a = slot<uint8_t>(w, lists.a[block * form.rows + r]);
      const uint8_t *b = slot<uint8_t>(w, lists.b[block]);
      for (unsigned g = 0; g < kEdge; ++g) {
        for (unsigned n = 0; n < kEdge; ++n) {
          uint64_t x[2], y[2];
          std::memcpy(x, a + g * kRowBytes, sizeof x);
          std::memcpy(y, b + kColumnAt[n] * kRowBytes, sizeof y);
          for (unsigned part = 0; part < 2; ++part)
            products[g][n] +=
                __builtin_popcountll(form.popc_and ? x[part] & y[part] : x[part] ^ y[part]);
        }
      }
    }
    accumulate(form.saturate, products, acc[r]);
  }
  for (unsigned r = 0; r < form.rows; ++r) put_block(w, lists.d + 2 * r, acc[r]);
  return i + 1;
}

// A row of C: acc += a * columns.
SOFTDEV_INLINE void multiply_row(const double *a, const double (*columns)[kEdge], double *acc) {
#if defined(__AVX2__) && defined(__FMA__)
  __m256d low = _mm256_load_pd(acc), high = _mm256_load_pd(acc + 4);
  for (unsigned k = 0; k < 4; ++k) {
    __m256d factor = _mm256_broadcast_sd(a + k);
    low = _mm256_fmadd_pd(factor, _mm256_load_pd(columns[k]), low);
    high = _mm256_fmadd_pd(factor, _mm256_load_pd(columns[k] + 4), high);
  }
  _mm256_store_pd(acc, low);
  _mm256_store_pd(acc + 4, high);
#else
  for (unsigned k = 0; k < 4; ++k)
    for (unsigned n = 0; n < kEdge; ++n) acc[n] = fused(a[k], columns[k][n], acc[n]);
#endif
}

template <bool directed>
const Ins *mma_double(Warp &w, const Ins *i) {
  if (!gather(w, i, kFullMask)) return nullptr;
  const auto form = unpack_form<MmaForm>(i->imm);
  const MmaLists lists(i, form);
  constexpr unsigned kDepth = 4;  // of a block
  alignas(64) double acc[kMaxBlocks][kEdge][kEdge];
  auto run = [&] {
    for (unsigned r = 0; r < form.rows; ++r) {
      get_block(w, lists.c + 2 * r, acc[r]);
      for (unsigned block = 0; block < form.depth; ++block) {
        const double *a = slot<double>(w, lists.a[block * form.rows + r]);
        const double *b = slot<double>(w, lists.b[block]);
        alignas(64) double columns[kDepth][kEdge];
        for (unsigned k = 0; k < kDepth; ++k)
          for (unsigned n = 0; n < kEdge; ++n) columns[k][n] = b[kColumnAt[n] * kDepth + k];
        for (unsigned g = 0; g < kEdge; ++g) multiply_row(a + g * kDepth, columns, acc[r][g]);
      }
    }
  };
  if constexpr (directed) {
    RoundingScope scope(static_cast<Round>(i->mode));
    run();
  } else {
    run();
  }
  for (unsigned r = 0; r < form.rows; ++r) put_block(w, lists.d + 2 * r, acc[r]);
  return i + 1;
}

template <class RowA, class S, class U>
Handler pick_integer(bool b_signed) {
  return b_signed ? mma_integer<RowA, S> : mma_integer<RowA, U>;
}

}  // namespace

Handler select_mma(const Ir &ir) {
  if (ir.op != Op::Mma) return nullptr;
  const auto form = unpack_form<MmaForm>(ir.offset);
  using S8 = ByteRow<int8_t>;
  using U8 = ByteRow<uint8_t>;
  using S4 = NibbleRow<true>;
  using U4 = NibbleRow<false>;
  switch (form.a) {
    case Element::S8:
      return pick_integer<S8, S8, U8>(form.b == Element::S8);
    case Element::U8:
      return pick_integer<U8, S8, U8>(form.b == Element::S8);
    case Element::S4:
      return pick_integer<S4, S4, U4>(form.b == Element::S4);
    case Element::U4:
      return pick_integer<U4, S4, U4>(form.b == Element::S4);
    case Element::B1:
      return mma_bits;
    case Element::F64:
      return is_directed(ir.round) ? mma_double<true> : mma_double<false>;
    default:
      return nullptr;
  }
}

}  // namespace softdev::SOFTDEV_ISA
