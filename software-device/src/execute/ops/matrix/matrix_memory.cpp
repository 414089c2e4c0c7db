// Matrices from and to memory: ldmatrix, stmatrix, wmma.load, wmma.store; and movmatrix.
#include "execute/access.h"
#include "execute/ops/families.h"
#include "execute/ops/matrix/matrix.h"
#include "execute/ops/matrix/matrix_block.h"

namespace softdev::SOFTDEV_ISA {
namespace {

constexpr uint8_t kRead = kReadable, kWrite = kWritable;

// The memory that one instruction uses.
struct Access {
  Warp &w;
  const Ins *ins;
  Space space;
  uint8_t flag;

  // `bytes` at an address that is a multiple of `align`, a power of two; nullptr: not allowed.
  SOFTDEV_INLINE uint8_t *at(uint64_t address, unsigned bytes, unsigned align,
                             unsigned lane) const {
    if (address & (align - 1)) return nullptr;
    if (space == Space::Shared)
      return address < w.shared_size && w.shared_size - address >= bytes ? w.shared + address
                                                                         : nullptr;
    bool good = range_in_window(w, address, bytes, use_of(space, flag == kWrite));
    if (good || memory_allowed(w, space, address, bytes, flag, lane))
      return reinterpret_cast<uint8_t *>(address);
    return nullptr;
  }
  // at() gave nullptr.
  const Ins *fault(uint64_t address, unsigned bytes, unsigned align, unsigned lane) const {
    uint64_t bad = address;
    if (!(address & (align - 1)))
      while (bad + align < address + bytes && at(bad, align, align, lane)) bad += align;
    return memory_fault(w, ins, space, bad, align, flag == kWrite, lane);
  }
};

// ---- rows of 16 bytes at an address of a lane each

// Whether rows of shared memory at all 32 addresses are good; `at` becomes the addresses.
template <class A>
SOFTDEV_INLINE bool all_rows_in_shared(const Warp &w, const A *address, A offset, A *at) {
  A highest = 0, low = 0;
  SOFTDEV_LANES {
    at[l] = static_cast<A>(address[l] + offset);
    highest = at[l] > highest ? at[l] : highest;
    low |= at[l];
  }
  return w.shared_size >= kRowBytes && highest <= w.shared_size - kRowBytes &&
         !(low & (kRowBytes - 1));
}

template <Space space, class A, bool transposed>
const Ins *load_rows(Warp &w, const Ins *i) {
  if (!gather(w, i, kFullMask)) return nullptr;
  const A *address = slot<A>(w, i->a);
  if (space == Space::Shared && i->count == 4 && w.mask == kFullMask) {
    // Nearly always: every lane has a row, and all are good.
    alignas(64) A at[kLanes];
    if (all_rows_in_shared(w, address, static_cast<A>(i->imm), at)) {
      for (unsigned m = 0; m < 4; ++m) {
        const Block block = Block::gather([&](unsigned r) { return w.shared + at[m * kEdge + r]; });
        (transposed ? block.turned() : block).store(slot<uint8_t>(w, i->list[m]));
      }
      return i + 1;
    }
  }
  const Access access{w, i, space, kRead};
  alignas(64) uint8_t rows[kMaxBlocks][kLanes * 4] = {};
  uint32_t given = w.mask & static_cast<uint32_t>((uint64_t{1} << i->count * kEdge) - 1);
  for (uint32_t left = given; left; left &= left - 1) {
    auto l = static_cast<unsigned>(__builtin_ctz(left));
    A at = static_cast<A>(address[l] + static_cast<A>(i->imm));
    const uint8_t *from = access.at(at, kRowBytes, kRowBytes, l);
    if (!from) return access.fault(at, kRowBytes, kRowBytes, l);
    std::memcpy(rows[0] + l * kRowBytes, from, kRowBytes);
  }
  for (unsigned m = 0; m < i->count; ++m) {
    if constexpr (transposed) Block::load(rows[m]).turned().store(rows[m]);
    put(w, i->list[m], reinterpret_cast<const uint32_t *>(rows[m]));
  }
  return i + 1;
}

template <Space space, class A, bool transposed>
const Ins *store_rows(Warp &w, const Ins *i) {
  if (!gather(w, i, kFullMask)) return nullptr;
  const A *address = slot<A>(w, i->a);
  const Access access{w, i, space, kWrite};
  for (unsigned m = 0; m < i->count; ++m) {
    alignas(64) uint16_t from[kEdge * kEdge];
    const Block block = Block::load(slot<uint8_t>(w, i->list[m]));
    (transposed ? block.turned() : block).store(from);
    for (unsigned r = 0; r < kEdge; ++r) {
      unsigned l = m * kEdge + r;
      if (!((w.mask >> l) & 1)) continue;
      A at = static_cast<A>(address[l] + static_cast<A>(i->imm));
      uint8_t *to = access.at(at, kRowBytes, kRowBytes, l);
      if (!to) return access.fault(at, kRowBytes, kRowBytes, l);
      std::memcpy(to, from + r * kEdge, kRowBytes);
    }
  }
  return i + 1;
}

const Ins *move_matrix(Warp &w, const Ins *i) {
  if (!gather(w, i, kFullMask)) return nullptr;
  alignas(64) uint32_t turned[kLanes];
  Block::load(slot<uint8_t>(w, i->a)).turned().store(turned);
  put(w, i->d, turned);
  return i + 1;
}

// ---- fragments of wmma: one address for all lanes, and the distance of rows (or columns)

constexpr unsigned kMaxSlot = kLanes * 8;

// The registers of a fragment, before they are written or after they were read.
using Image = uint8_t[kHalfRegisters][kMaxSlot];

// Where the element in row x (B: column x) and column y (B: row y) is, in elements of T.
template <class T>
SOFTDEV_INLINE T *place(const FragmentForm &form, Image &image, unsigned x, unsigned y) {
  constexpr unsigned kDepth = sizeof(T) == 8 ? 4 : kRowBytes / sizeof(T);
  unsigned depth = form.matrix == FragmentForm::C ? kEdge : kDepth;
  unsigned across = x / kEdge, block = y / depth, g = x % kEdge;
  T *at;
  if (form.matrix == FragmentForm::C && sizeof(T) >= 4) {
    at = reinterpret_cast<T *>(image[2 * (block * form.rows + across) + (y & 1)]);
    return at + 4 * g + y % kEdge / 2;
  }
  bool b = form.matrix == FragmentForm::B;
  at = reinterpret_cast<T *>(image[b ? across * form.columns + block : block * form.rows + across]);
  return at + g * depth + y % depth;
}

// One line of the memory: row or column `line` of the matrix.
template <bool load, class T>
SOFTDEV_INLINE void copy_line(const FragmentForm &form, Image &image, uint8_t *memory,
                              unsigned line, unsigned length) {
  // Whether elements that lie side by side in memory do so in a register, too.
  if (form.along && (form.matrix != FragmentForm::C || sizeof(T) == 2)) {
    constexpr unsigned kBytes = sizeof(T) == 8 ? 2 * kRowBytes : kRowBytes;
    for (unsigned at = 0; at < length; at += kBytes / sizeof(T)) {
      void *in_image = place<T>(form, image, line, at);
      void *in_memory = memory + at * sizeof(T);
      std::memcpy(load ? in_image : in_memory, load ? in_memory : in_image, kBytes);
    }
    return;
  }
  if (form.along && sizeof(T) >= 4) {
    // Accumulators: even and odd columns are in two registers.
    for (unsigned at = 0; at < length; at += kEdge) {
      T *even = place<T>(form, image, line, at), *odd = place<T>(form, image, line, at + 1);
      T side[kEdge];
      if (load) {
        std::memcpy(side, memory + at * sizeof(T), sizeof side);
        for (unsigned t = 0; t < 4; ++t) {
          even[t] = side[2 * t];
          odd[t] = side[2 * t + 1];
        }
      } else {
        for (unsigned t = 0; t < 4; ++t) {
          side[2 * t] = even[t];
          side[2 * t + 1] = odd[t];
        }
        std::memcpy(memory + at * sizeof(T), side, sizeof side);
      }
    }
    return;
  }
  for (unsigned e = 0; e < length; ++e) {
    void *in_image = form.along ? place<T>(form, image, line, e) : place<T>(form, image, e, line);
    void *in_memory = memory + e * sizeof(T);
    std::memcpy(load ? in_image : in_memory, load ? in_memory : in_image, sizeof(T));
  }
}

// Eight lines of 16-bit elements that lie across the rows of blocks: the blocks are turned over.
template <bool load>
SOFTDEV_INLINE void turn_lines(const FragmentForm &form, Image &image, uint8_t *const *lines,
                               unsigned first) {
  for (unsigned x = 0; x < form.rows * kEdge; x += kEdge) {
    auto *block = place<uint16_t>(form, image, x, first);
    if (load) {
      Block::gather([&](unsigned l) { return lines[l] + x * sizeof(uint16_t); })
          .turned()
          .store(block);
    } else {
      alignas(64) uint16_t side[kEdge * kEdge];
      Block::load(block).turned().store(side);
      for (unsigned l = 0; l < kEdge; ++l)
        std::memcpy(lines[l] + x * sizeof(uint16_t), side + l * kEdge, kRowBytes);
    }
  }
}

// A or B of 16-bit elements, straight into its registers, when all of the memory is good: what
// programs do most. False when it must be done line by line.
SOFTDEV_INLINE bool load_halves(Warp &w, const Ins *i, const FragmentForm &form,
                                const Access &access, uint64_t base, uint64_t stride,
                                unsigned lane) {
  const unsigned x_blocks = form.rows, y_blocks = form.columns;
  const unsigned lines = (form.along ? x_blocks : y_blocks) * kEdge;
  const unsigned bytes = (form.along ? y_blocks : x_blocks) * kRowBytes;
  // A stride that is negative, or beyond everything, is left to the general way.
  if (w.mask != kFullMask || stride > UINT32_MAX || (base | stride) & 3) return false;
  const uint64_t span = (lines - 1) * stride + bytes;
  if (span > UINT32_MAX || (form.narrow && base + span > UINT32_MAX)) return false;
  const uint8_t *from = access.at(base, static_cast<unsigned>(span), 4, lane);
  if (!from) return false;
  for (unsigned x = 0; x < x_blocks; ++x) {
    for (unsigned y = 0; y < y_blocks; ++y) {
      const uint8_t *first =
          from + (form.along ? x : y) * kEdge * stride + (form.along ? y : x) * kRowBytes;
      Block block = Block::gather([&](unsigned g) { return first + g * stride; });
      if (!form.along) block = block.turned();
      // A fragment may have its registers twice; nobody may read them.
      unsigned r = form.matrix == FragmentForm::B ? x * y_blocks + y : y * x_blocks + x;
      for (; r < form.registers; r += x_blocks * y_blocks)
        if (i->list[r] != kNone) block.store(slot<uint8_t>(w, i->list[r]));
    }
  }
  return true;
}

template <bool load>
const Ins *fragment(Warp &w, const Ins *i) {
  if (!gather(w, i, kFullMask)) return nullptr;
  const auto form = unpack_form<FragmentForm>(i->imm);
  const Access access{w, i, form.space, load ? kRead : kWrite};
  const unsigned bits = element_bits(form.element);
  const unsigned slot_bytes = bits == 64 ? kMaxSlot : kMaxSlot / 2;
  auto lane = static_cast<unsigned>(__builtin_ctz(w.mask));
  const uint64_t offset = slot<uint64_t>(w, i->c)[lane];
  const uint64_t base = form.narrow ? slot<uint32_t>(w, i->a)[lane] + static_cast<uint32_t>(offset)
                                    : slot<uint64_t>(w, i->a)[lane] + offset;
  const uint64_t stride = uint64_t{slot<uint32_t>(w, i->b)[lane]} * bits / 8;
  if (load && bits == 16 && form.matrix != FragmentForm::C &&
      load_halves(w, i, form, access, base, stride, lane))
    return i + 1;
  const unsigned x_count = form.rows * kEdge;
  const unsigned y_count =
      form.columns * (form.matrix == FragmentForm::C ? kEdge : block_depth(form.element));
  const unsigned lines = form.along ? x_count : y_count;
  unsigned length = form.along ? y_count : x_count;
  // Elements smaller than a byte are moved by whole rows of a block: as bytes.
  const unsigned bytes = length * bits / 8;
  if (bits < 8) length = bytes;
  const unsigned align = bits == 64 ? 8 : 4;

  alignas(64) Image image;
  if (!load)
    for (unsigned r = 0; r < form.registers; ++r)
      std::memcpy(image[r], slot<uint32_t>(w, i->list[r]), slot_bytes);
  uint8_t *eight[kEdge];
  for (unsigned line = 0; line < lines; ++line) {
    uint64_t address = base + line * stride;
    if (form.narrow) address = static_cast<uint32_t>(address);
    uint8_t *memory = access.at(address, bytes, align, lane);
    if (!memory) return access.fault(address, bytes, align, lane);
    switch (bits) {
      case 64:
        copy_line<load, uint64_t>(form, image, memory, line, length);
        break;
      case 32:
        copy_line<load, uint32_t>(form, image, memory, line, length);
        break;
      case 16:
        eight[line % kEdge] = memory;
        if (form.along)
          copy_line<load, uint16_t>(form, image, memory, line, length);
        else if (line % kEdge == kEdge - 1)
          turn_lines<load>(form, image, eight, line - (kEdge - 1));
        break;
      default:
        copy_line<load, uint8_t>(form, image, memory, line, length);
        break;
    }
  }
  if (!load) return i + 1;
  unsigned different = form.rows * form.columns;
  if (form.matrix == FragmentForm::C && bits >= 32) different *= 2;
  for (unsigned r = 0; r < form.registers; ++r) {
    const uint8_t *from = image[r % different];
    if (i->list[r] == kNone) continue;
    if (bits == 64)
      put(w, i->list[r], reinterpret_cast<const uint64_t *>(from));
    else
      put(w, i->list[r], reinterpret_cast<const uint32_t *>(from));
  }
  return i + 1;
}

template <Space space, class A>
Handler pick_rows(const Ir &ir) {
  if (ir.op == Op::MatrixLoad)
    return ir.mode ? load_rows<space, A, true> : load_rows<space, A, false>;
  return ir.mode ? store_rows<space, A, true> : store_rows<space, A, false>;
}

}  // namespace

Handler select_matrix_memory(const Ir &ir) {
  bool narrow = ir.type2 == Type::U32;
  switch (ir.op) {
    case Op::MatrixLoad:
    case Op::MatrixStore:
      if (ir.space == Space::Shared)
        return narrow ? pick_rows<Space::Shared, uint32_t>(ir)
                      : pick_rows<Space::Shared, uint64_t>(ir);
      return narrow ? nullptr : pick_rows<Space::Generic, uint64_t>(ir);
    case Op::MatrixMove:
      return move_matrix;
    case Op::FragmentLoad:
      return fragment<true>;
    case Op::FragmentStore:
      return fragment<false>;
    default:
      return nullptr;
  }
}

}  // namespace softdev::SOFTDEV_ISA
