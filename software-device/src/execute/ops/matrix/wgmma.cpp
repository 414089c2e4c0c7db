// wgmma: products of matrices that lie in shared memory, of which a descriptor says how, as the ISA
// calls them canonical: blocks of eight rows of 16 bytes.
#include "execute/access.h"
#include "execute/ops/families.h"
#include "execute/ops/matrix/matrix_integer.h"
#include "execute/ops/matrix/matrix_single.h"

namespace softdev::SOFTDEV_ISA {
namespace {

enum : int { kBadMatrix = 715 };
constexpr unsigned kDeep = 2;  // blocks along k
constexpr unsigned kMine = 2;  // ... and along m, of each of the four warps
constexpr unsigned kWarps = 4;
constexpr unsigned kMostColumns = 32;
constexpr unsigned kBlockBytes = kEdge * kRowBytes;

// Where the four parts of the list begin.
struct WgmmaLists {
  const uint32_t *d, *a, *c;
  WgmmaLists(const Ins *i, const WgmmaForm &form)
      : d(i->list), a(d + form.d_registers()), c(a + form.a_registers) {}
};

// A matrix in shared memory. Blocks along m or n are counted by `outer`, along k by `inner`.
class SharedMatrix {
 public:
  SharedMatrix(uint64_t descriptor, bool turned)
      : start_(part(descriptor, 0)),
        leading_(part(descriptor, 16)),
        stride_(part(descriptor, 32)),
        base_(static_cast<uint32_t>(descriptor >> 49 & 7)),
        turned_(turned) {
    static constexpr uint8_t kSpans[] = {kRowBytes, 128, 64, 32};
    span_ = kSpans[descriptor >> 62];
  }
  // Patterns begin at multiples of their length: else the ISA does not say what is swizzled.
  bool has_base() const { return base_ != 0; }

  // Row after row of a block, as registers have it; after a fault false.
  bool load(Warp &w, const Ins *i, unsigned outer, unsigned inner, uint8_t *to) const {
    uint32_t at = start_;
    if (turned_) {
      const unsigned side = span_ / kRowBytes;  // blocks that lie side by side
      if (side == 1)
        at += outer * stride_ + inner * leading_;
      else
        at += outer % side * kRowBytes + outer / side * leading_ + inner * stride_;
    } else {
      at += outer * stride_ + inner * (span_ == kRowBytes ? leading_ : kRowBytes);
    }
    for (unsigned g = 0; g < kEdge; ++g, at += span_) {
      const uint32_t place = at ^ ((at >> 7 & (span_ / kRowBytes - 1)) << 4);
      if (w.shared_size < kRowBytes || place > w.shared_size - kRowBytes)
        return range_fault(w, i, Space::Shared, place, kRowBytes, false, first_lane(w)), false;
      std::memcpy(to + g * kRowBytes, w.shared + place, kRowBytes);
    }
    if (turned_) Block::load(to).turned().store(to);
    return true;
  }

  static unsigned first_lane(const Warp &w) { return static_cast<unsigned>(__builtin_ctz(w.mask)); }

 private:
  static uint32_t part(uint64_t descriptor, unsigned bit) {
    return static_cast<uint32_t>(descriptor >> bit & 0x3fff) << 4;
  }
  uint32_t start_, leading_, stride_, base_;
  unsigned span_;
  bool turned_;
};

// What an instruction multiplies: A's blocks of this warp, and whether D is added to.
struct Operands {
  WgmmaForm form;
  WgmmaLists lists;
  SharedMatrix b;
  bool adds;
  const uint8_t *a[kDeep * kMine];
  alignas(64) uint8_t shared_a[kDeep * kMine][kBlockBytes];

  Operands(Warp &w, const Ins *i)
      : form(unpack_form<WgmmaForm>(i->imm)),
        lists(i, form),
        b(slot<uint64_t>(w, i->b)[SharedMatrix::first_lane(w)], form.turn_b),
        adds(((predicate(w, i->e) >> SharedMatrix::first_lane(w)) & 1) != form.drop_d) {}

  bool load_a(Warp &w, const Ins *i) {
    if (b.has_base()) return fault(w, i, kBadMatrix, kNoBase), false;
    if (form.a_registers) {
      for (unsigned block = 0; block < kDeep * kMine; ++block)
        a[block] = slot<uint8_t>(w, lists.a[block]);
      return true;
    }
    const SharedMatrix matrix(slot<uint64_t>(w, i->a)[SharedMatrix::first_lane(w)], form.turn_a);
    if (matrix.has_base()) return fault(w, i, kBadMatrix, kNoBase), false;
    for (unsigned block = 0; block < kDeep * kMine; ++block) {
      const unsigned row = w.index % kWarps * kMine + block % kMine;
      if (!matrix.load(w, i, row, block / kMine, shared_a[block])) return false;
      a[block] = shared_a[block];
    }
    return true;
  }
  static constexpr const char *kNoBase =
      "the matrix has a base offset, with which this device swizzles nothing";
};

template <class RowA, class RowB>
const Ins *wgmma_single(Warp &w, const Ins *i) {
  if (!gather(w, i, kFullMask)) return nullptr;
  Operands operands(w, i);
  if (!operands.load_a(w, i)) return nullptr;
  const WgmmaForm &form = operands.form;
  constexpr unsigned kDepth = RowB::kDepth, kBlock = kEdge * kDepth;
  alignas(64) float a[kDeep * kMine * kBlock], b[kDeep * kBlock];
  alignas(64) float acc[kMostColumns * kMine * kEdge][kEdge];
  alignas(64) uint8_t raw[kBlockBytes];
  get_a<RowA>(operands.a, kDeep * kMine, a);
  if (form.negate)
    for (float &value : a) value = -value;
  const unsigned blocks = form.columns * kMine;
  for (unsigned block = 0; block < blocks; ++block) {
    auto *to = acc + block * kEdge;
    if (!operands.adds)
      std::memset(to, 0, sizeof(float) * kEdge * kEdge);
    else if (form.half_d)
      get_half_block(w, operands.lists.c[block], to);
    else
      get_single_block(w, operands.lists.c + 2 * block, to);
  }
  for (unsigned column = 0; column < form.columns; ++column) {
    for (unsigned block = 0; block < kDeep; ++block) {
      if (!operands.b.load(w, i, column, block, raw)) return nullptr;
      get_b<RowB>(raw, b + block * kBlock);
    }
    auto *to = acc + column * kMine * kEdge;
#ifdef SOFTDEV_PERMUTES
    multiply<kMine, kDepth>(a, kMine * kBlock, b, kDeep, to);  // with 32 vector registers
#else
    for (unsigned row = 0; row < kMine; ++row)
      multiply<1, kDepth>(a + row * kBlock, kMine * kBlock, b, kDeep, to + row * kEdge);
#endif
  }
  for (unsigned block = 0; block < blocks; ++block) {
    auto *from = acc + block * kEdge;
    finish(from);
    if (form.half_d)
      put_half_block(w, operands.lists.d[block], from);
    else
      put_single_block(w, operands.lists.d + 2 * block, from);
  }
  return i + 1;
}

template <class RowA, class RowB>
const Ins *wgmma_integer(Warp &w, const Ins *i) {
  if (!gather(w, i, kFullMask)) return nullptr;
  Operands operands(w, i);
  if (!operands.load_a(w, i)) return nullptr;
  const WgmmaForm &form = operands.form;
  constexpr unsigned kDepth = kDeep * RowB::kDepth;
  alignas(64) int16_t a[kMine * kEdge * kDepth], b[kDepth * kEdge];
  alignas(64) int32_t acc[kMostColumns * kMine][kEdge][kEdge], products[kEdge][kEdge];
  alignas(64) uint8_t raw[kBlockBytes];
  for (unsigned block = 0; block < kDeep * kMine; ++block)
    widen_a<RowA>(operands.a[block], block % kMine, block / kMine, kDepth, a);
  const unsigned blocks = form.columns * kMine;
  for (unsigned block = 0; block < blocks; ++block) {
    if (operands.adds)
      get_block(w, operands.lists.c + 2 * block, acc[block]);
    else
      std::memset(acc[block], 0, sizeof acc[block]);
  }
  for (unsigned column = 0; column < form.columns; ++column) {
    for (unsigned block = 0; block < kDeep; ++block) {
      if (!operands.b.load(w, i, column, block, raw)) return nullptr;
      widen_b<RowB>(raw, block, b);
    }
    for (unsigned row = 0; row < kMine; ++row) {
      multiply(a + row * kEdge * kDepth, kDepth, b, kDepth, products);
      accumulate(form.saturate, products, acc[column * kMine + row]);
    }
  }
  for (unsigned block = 0; block < blocks; ++block)
    put_block(w, operands.lists.d + 2 * block, acc[block]);
  return i + 1;
}

}  // namespace

Handler select_wgmma(const Ir &ir) {
  if (ir.op != Op::Wgmma) return nullptr;
  const auto form = unpack_form<WgmmaForm>(ir.offset);
  const bool other = form.a != form.b;
  switch (form.a) {
    case Element::F16:
      return wgmma_single<HalfRow, HalfRow>;
    case Element::BF16:
      return wgmma_single<BrainRow, BrainRow>;
    case Element::TF32:
      return wgmma_single<Tf32Row, Tf32Row>;
    case Element::E4M3:
      return other ? wgmma_single<E4M3Row, E5M2Row> : wgmma_single<E4M3Row, E4M3Row>;
    case Element::E5M2:
      return other ? wgmma_single<E5M2Row, E4M3Row> : wgmma_single<E5M2Row, E5M2Row>;
    case Element::S8:
      return other ? wgmma_integer<ByteRow<int8_t>, ByteRow<uint8_t>>
                   : wgmma_integer<ByteRow<int8_t>, ByteRow<int8_t>>;
    case Element::U8:
      return other ? wgmma_integer<ByteRow<uint8_t>, ByteRow<int8_t>>
                   : wgmma_integer<ByteRow<uint8_t>, ByteRow<uint8_t>>;
    default:
      return nullptr;
  }
}

}  // namespace softdev::SOFTDEV_ISA
