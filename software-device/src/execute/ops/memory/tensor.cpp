// Copies of boxes of a tensor, and what kernels change of tensor maps. Each is done when it is
// issued, thread after thread, as bulk copies are. All addresses are generic here.
#include <algorithm>

#include "execute/ops/families.h"
#include "execute/ops/memory/reduce.h"
#include "tensor_map.h"

namespace softdev::SOFTDEV_ISA {
namespace {

enum : int { kBadMap = 715, kMisaligned = 716 };
constexpr unsigned kChunk = 16;  // bytes that swizzling moves
constexpr unsigned kSharedAlignment = 128;
constexpr unsigned kLongestRow = 256 * 8;
constexpr unsigned kWidePixels = 128;  // of im2col::w::128

// What one thread's copy is about.
struct Request {
  TensorMap map;
  TensorRequest wanted;
  int64_t at[kTensorRanks] = {};  // Rows: of dimension 0, then of dimension 1 four times
  uint16_t offsets[kTensorRanks - 2] = {};
  uint32_t halo() const { return wanted.mode >= TensorMode::Wide ? offsets[0] : 0; }
};

bool im2col(const TensorMap &map) { return map.kind != TensorKind::Tiled; }

uint32_t row_elements(const TensorMap &map) { return im2col(map) ? map.channels : map.box[0]; }
// Bytes of a row of the box in global memory, and how many of them are in a chunk of shared memory.
uint32_t row_bytes(const TensorMap &map) {
  return row_elements(map) * element_bits(map.element) / 8;
}
uint32_t chunk_bytes(const TensorMap &map) {
  return is_padded(map.element) ? kChunk * element_bits(map.element) / 8 : kChunk;
}
// How far the rows lie apart in shared memory.
uint32_t row_pitch(const TensorMap &map) {
  return std::max(row_bytes(map) / chunk_bytes(map) * kChunk, swizzle_span(map.swizzle));
}
uint32_t steps_in(const TensorMap &map, unsigned dimension) {
  return (map.box[dimension] + map.steps[dimension] - 1u) / map.steps[dimension];
}
uint64_t row_count(const Request &request) {
  const TensorMap &map = request.map;
  if (map.kind == TensorKind::Wide128) return kWidePixels;
  if (im2col(map)) return map.pixels + request.halo();
  if (request.wanted.mode == TensorMode::Rows) return kTensorRanks - 1;
  uint64_t rows = 1;
  for (unsigned d = 1; d < map.rank; ++d) rows *= steps_in(map, d);
  return rows;
}

TensorKind kind_for(TensorMode mode) {
  switch (mode) {
    case TensorMode::Im2col:
      return TensorKind::Im2col;
    case TensorMode::Wide:
      return TensorKind::Wide;
    case TensorMode::Wide128:
      return TensorKind::Wide128;
    default:
      return TensorKind::Tiled;
  }
}

// What is wrong with a map, or with its use for this instruction; nullptr: nothing.
const char *flaw(const TensorMap &map, const TensorRequest &request) {
  if (map.mark != TensorMap::kMark || map.rank < 1 || map.rank > kTensorRanks ||
      map.kind >= TensorKind::Count || map.element >= TensorElement::Count ||
      map.swizzle >= TensorSwizzle::Count || map.atom >= TensorAtom::Count)
    return "these 128 bytes are no tensor map of this device";
  if (map.rank != request.rank) return "the tensor map has another number of dimensions";
  if (map.kind != kind_for(request.mode)) {
    if (map.kind == TensorKind::Im2col) return "the tensor map is one for im2col";
    return im2col(map) ? "the tensor map is one for im2col::w, or for another number of pixels"
                       : "the tensor map is no one for im2col";
  }
  const uint64_t alignment = tensor_alignment(map.element);
  if (map.address % alignment)
    return alignment == 16 ? "the tensor's address is no multiple of 16"
                           : "the tensor's address is no multiple of 32";
  for (unsigned d = 0; d < map.rank; ++d) {
    if (map.steps[d] < 1 || map.steps[d] > 8) return "an element stride is not within 1 and 8";
    if (d && map.strides[d - 1] % alignment)
      return alignment == 16 ? "a stride of the tensor is no multiple of 16"
                             : "a stride of the tensor is no multiple of 32";
    if (!im2col(map) && (map.box[d] < 1 || map.box[d] > 256))
      return "a side of the box is not within 1 and 256";
  }
  if (request.mode == TensorMode::Rows && map.box[1] != 1)
    return "the box has more than one row, and this instruction copies four boxes of one";
  if (im2col(map) && (map.channels < 1 || map.channels > 256 || map.pixels < 1))
    return "the tensor map has a column of no pixels";
  if (map.atom != TensorAtom::Bytes16 && map.swizzle != TensorSwizzle::Bytes128)
    return "only 128 bytes are swizzled in other chunks than of 16 bytes";
  const uint32_t elements = row_elements(map), span = swizzle_span(map.swizzle);
  if ((uint64_t{map.last[0]} + 1) % element_unit(map.element))
    return "elements of so few bits make no whole row of the tensor";
  if (is_padded(map.element)) {
    if (elements != kPaddedRow) return "a row of padded elements is not of 128";
    if (span && map.swizzle != TensorSwizzle::Bytes128)
      return "padded elements are swizzled by 128 bytes only";
    if (map.element == TensorElement::U4Padded && request.way == TensorWay::Store)
      return "padded elements of 4 bits are loaded only";
    return nullptr;
  }
  const uint32_t row = row_bytes(map);
  if (row % kChunk || elements * element_bits(map.element) % 8)
    return "a row of the box is no multiple of 16 bytes";
  if (span && row > span) return "a row of the box is longer than what is swizzled";
  return nullptr;
}

// What is wrong with where a copy begins; nullptr: nothing.
const char *flaw(const Request &request) {
  if (request.at[0] % element_unit(request.map.element))
    return is_padded(request.map.element) ? "padded elements begin at multiples of 128"
                                          : "elements of 4 bits begin at multiples of 2";
  if (request.wanted.mode == TensorMode::Wide128 && request.halo())
    return "this device has no pixels behind those of im2col::w::128: no document says where they "
           "lie";
  return nullptr;
}

// f(address, skip, bytes) for each row of the box, in the order in which they lie in shared
// memory: `bytes` of them are in the tensor, at `address`, behind `skip` that are not. Ends early
// when f says no.
template <class F>
bool each_row(const Request &request, F f) {
  const TensorMap &map = request.map;
  const unsigned rank = map.rank;
  const int64_t bits = element_bits(map.element), wide = row_elements(map);
  const int64_t first = std::max<int64_t>(0, -request.at[0]);
  const int64_t end = std::min<int64_t>(wide, int64_t{map.last[0]} + 1 - request.at[0]);
  auto row = [&](const int64_t *at) {
    bool inside = first < end;
    uint64_t address = map.address + static_cast<uint64_t>((request.at[0] + first) * bits / 8);
    for (unsigned d = 1; d < rank; ++d) {
      inside &= at[d] >= 0 && at[d] <= map.last[d];
      address += static_cast<uint64_t>(at[d]) * map.strides[d - 1];
    }
    return inside ? f(address, static_cast<uint32_t>(first * bits / 8),
                      static_cast<uint32_t>((end - first) * bits / 8))
                  : f(address, 0u, 0u);
  };
  int64_t at[kTensorRanks], moved[kTensorRanks];
  std::copy(request.at, request.at + kTensorRanks, at);
  if (request.wanted.mode == TensorMode::Rows) {
    for (unsigned r = 1; r < kTensorRanks; ++r) {
      at[1] = request.at[r];
      if (!row(at)) return false;
    }
    return true;
  }
  if (!im2col(map)) {
    for (;;) {
      if (!row(at)) return false;
      unsigned d = 1;
      for (; d < rank; ++d) {
        at[d] += map.steps[d];
        if (at[d] < request.at[d] + map.box[d]) break;
        at[d] = request.at[d];
      }
      if (d >= rank) return true;
    }
  }
  // Pixels of the inner box, one row after the other, or of one row; then those of the next image.
  const unsigned image = rank - 1, inner = map.kind == TensorKind::Im2col ? image : 2;
  const uint16_t *offsets = request.offsets + (map.kind == TensorKind::Im2col ? 0 : 1);
  for (uint64_t left = row_count(request); left; --left) {
    std::copy(at, at + kTensorRanks, moved);
    for (unsigned d = 1; d < inner; ++d) moved[d] += offsets[d - 1];
    if (!row(moved)) return false;
    unsigned d = 1;
    for (; d < inner; ++d) {
      at[d] += map.steps[d];
      if (at[d] <= int64_t{map.last[d]} + map.upper[d - 1]) break;
      at[d] = map.lower[d - 1];
    }
    if (d == inner) ++at[image];
  }
  return true;
}

// The bits that number a chunk within its span change with those that number the line of 128 bytes.
uint64_t swizzled(uint64_t offset, const TensorMap &map) {
  if (map.swizzle == TensorSwizzle::None) return offset;
  const auto atom = static_cast<unsigned>(map.atom);
  const uint64_t bits = (uint64_t{1} << (static_cast<unsigned>(map.swizzle) - atom)) - 1;
  return offset ^ ((offset >> 7 & bits) << (4 + atom));
}

// Sixteen bytes of 6 bits and 2 that do not count, to 12 bytes.
void pack_six(const uint8_t *from, uint8_t *to) {
  for (unsigned group = 0; group < 4; ++group, from += 4, to += 3) {
    uint32_t value = 0;
    for (unsigned i = 0; i < 4; ++i) value |= static_cast<uint32_t>(from[i] & 63) << (6 * i);
    std::memcpy(to, &value, 3);
  }
}

// Between a row and where its chunks lie in shared memory, that begins at `base`.
template <bool loads>
void move_row(uint64_t base, uint64_t offset, const TensorMap &map, uint8_t *row) {
  const uint32_t part = chunk_bytes(map), chunks = row_bytes(map) / part;
  const bool six = map.element == TensorElement::U6Padded;
  for (uint32_t c = 0; c < chunks; ++c, row += part, offset += kChunk) {
    auto *place = reinterpret_cast<uint8_t *>(base + swizzled(offset, map));
    if (!loads && six)
      pack_six(place, row);
    else
      std::memcpy(loads ? place : row, loads ? row : place, part);
  }
}

template <class T>
void repeat(uint8_t *to, uint32_t bytes, T value) {
  for (uint32_t at = 0; at < bytes; at += sizeof value) std::memcpy(to + at, &value, sizeof value);
}
void fill_row(const TensorMap &map, uint8_t *row, uint32_t bytes) {
  if (!map.fills_nan || !is_float(map.element)) {
    std::memset(row, 0, bytes);
  } else if (element_bits(map.element) == 16) {
    repeat<uint16_t>(row, bytes, 0x7fff);
  } else if (element_bits(map.element) == 32) {
    repeat<uint32_t>(row, bytes, 0x7fffffff);
  } else {
    repeat<uint64_t>(row, bytes, 0x7fffffffffffffff);
  }
}
// Numbers too small for a normal one become zeros with their sign.
void flush_row(uint8_t *row, uint32_t bytes) {
  for (uint32_t at = 0; at < bytes; at += 4) {
    uint32_t value;
    std::memcpy(&value, row + at, 4);
    if (!(value & 0x7f800000)) value &= 0x80000000;
    std::memcpy(row + at, &value, 4);
  }
}

// A generic address of a thread's map; after a fault false.
bool read_map(Warp &w, const Ins *i, uint64_t address, const TensorRequest &wanted, unsigned lane,
              TensorMap *map) {
  if (address % kTensorMapAlignment)
    return memory_fault(w, i, Space::Generic, address, kTensorMapAlignment, false, lane), false;
  if (!memory_allowed(w, Space::Generic, address, sizeof *map, kReadable, lane))
    return range_fault(w, i, Space::Generic, address, sizeof *map, false, lane), false;
  std::memcpy(static_cast<void *>(map), reinterpret_cast<const void *>(address), sizeof *map);
  const char *what = flaw(*map, wanted);
  return !what || (fault(w, i, kBadMap, what), false);
}

// Whether a box fits at an address in shared memory; after a fault false.
bool check_shared(Warp &w, const Ins *i, uint64_t address, const Request &request, bool write,
                  unsigned lane) {
  const uint64_t bytes = row_count(request) * row_pitch(request.map);
  if (!shared_by_cluster(w, address, bytes))
    return range_fault(w, i, Space::Shared, address, bytes, write, lane), false;
  if (shared_offset(w, address) % kSharedAlignment)
    return fault(w, i, kMisaligned, "the address in shared memory is no multiple of 128"), false;
  return true;
}

bool load(Warp &w, const Ins *i, const Request &request, uint64_t to, uint64_t object,
          const uint16_t *blocks, unsigned lane) {
  const TensorMap &map = request.map;
  const uint32_t bytes = row_bytes(map), pitch = row_pitch(map);
  const bool flushes =
      map.element == TensorElement::F32Ftz || map.element == TensorElement::TF32Ftz;
  const uint64_t total = row_count(request) * bytes;
  alignas(8) uint8_t row[kLongestRow];
  auto to_block = [&](uint64_t there, uint64_t counter) {
    if (!check_shared(w, i, there, request, true, lane)) return false;
    uint64_t offset = shared_offset(w, there);
    const uint64_t base = there - offset;
    bool good = each_row(request, [&](uint64_t address, uint32_t skip, uint32_t inside) {
      if (inside < bytes) fill_row(map, row, bytes);
      if (inside) {
        if (!memory_allowed(w, Space::Global, address, inside, kReadable, lane))
          return range_fault(w, i, Space::Global, address, inside, false, lane), false;
        std::memcpy(row + skip, reinterpret_cast<const void *>(address), inside);
        if (flushes) flush_row(row + skip, inside);
      }
      move_row<true>(base, offset, map, row);
      offset += pitch;
      return true;
    });
    if (!good) return false;
    return complete_bytes(w, i, counter, static_cast<uint32_t>(total), lane);
  };
  if (total >> 20)
    return fault(w, i, kBadMap, "a box of more bytes than an mbarrier counts"), false;
  if (!blocks) return to_block(to, object);
  // To the same place in each of the blocks that are named.
  for (uint32_t rest = *blocks; rest; rest &= rest - 1) {
    const auto rank = static_cast<uint32_t>(__builtin_ctz(rest));
    const uint64_t there = map_shared(w, to, rank), counter = map_shared(w, object, rank);
    if (!there || !counter) return range_fault(w, i, Space::Shared, to, total, true, lane), false;
    if (!to_block(there, counter)) return false;
  }
  return true;
}

// A row of elements of a tensor's type, stored or reduced into what is there.
using Put = void (*)(AtomicOp op, uint64_t to, uint64_t from, uint32_t bytes);

void put_plain(AtomicOp, uint64_t to, uint64_t from, uint32_t bytes) {
  std::memcpy(reinterpret_cast<void *>(to), reinterpret_cast<const void *>(from), bytes);
}

// nullptr: the type has no such reduction.
Put reduction(AtomicOp op, TensorElement element) {
  const bool add = op == AtomicOp::Add, order = op == AtomicOp::Min || op == AtomicOp::Max;
  const bool counter = op == AtomicOp::Inc || op == AtomicOp::Dec;
  const bool bits = !add && !order && !counter;
  switch (element) {
    case TensorElement::U32:
      return reduce_into<uint32_t>;
    case TensorElement::S32:
      return counter ? nullptr : reduce_into<int32_t>;
    case TensorElement::U64:
      return counter ? nullptr : reduce_into<uint64_t>;
    case TensorElement::S64:
      return counter ? nullptr : reduce_into<int64_t>;
    case TensorElement::F16:
      return counter || bits ? nullptr : reduce_into<Half<F16Format>>;
    case TensorElement::BF16:
      return counter || bits ? nullptr : reduce_into<Half<BF16Format>>;
    case TensorElement::F32:
    case TensorElement::F32Ftz:
      return add ? reduce_into<float> : nullptr;
    case TensorElement::F64:
      return add ? reduce_into<double> : nullptr;
    default:
      return nullptr;
  }
}

bool store(Warp &w, const Ins *i, const Request &request, uint64_t from, Put put, unsigned lane) {
  const TensorMap &map = request.map;
  if (!check_shared(w, i, from, request, false, lane)) return false;
  const uint32_t pitch = row_pitch(map);
  uint64_t offset = shared_offset(w, from);
  const uint64_t base = from - offset;
  alignas(8) uint8_t row[kLongestRow];
  return each_row(request, [&](uint64_t address, uint32_t skip, uint32_t inside) {
    if (inside) {
      if (!memory_allowed(w, Space::Global, address, inside, kWritable, lane))
        return range_fault(w, i, Space::Global, address, inside, true, lane), false;
      move_row<false>(base, offset, map, row);
      put(static_cast<AtomicOp>(i->mode), address, reinterpret_cast<uint64_t>(row + skip), inside);
    }
    offset += pitch;
    return true;
  });
}

template <TensorWay way, bool reduces>
const Ins *copy(Warp &w, const Ins *i) {
  const auto wanted = __builtin_bit_cast(TensorRequest, i->imm);
  for (uint32_t left = w.mask; left; left &= left - 1) {
    auto l = static_cast<unsigned>(__builtin_ctz(left));
    Request request;
    request.wanted = wanted;
    if (!read_map(w, i, slot<uint64_t>(w, i->b)[l], wanted, l, &request.map)) return nullptr;
    const uint32_t *values = i->list;
    for (unsigned d = 0; d < wanted.coordinates; ++d)
      request.at[d] = slot<int32_t>(w, *values++)[l];
    for (unsigned d = 0; d < wanted.offsets; ++d)
      request.offsets[d] = slot<uint16_t>(w, *values++)[l];
    if (const char *what = flaw(request)) return fault(w, i, kBadMap, what);
    if (way == TensorWay::Prefetch) continue;
    const uint64_t shared = slot<uint64_t>(w, i->a)[l];
    if (way == TensorWay::Load) {
      const uint16_t *blocks = wanted.multicast ? slot<uint16_t>(w, *values) + l : nullptr;
      if (!load(w, i, request, shared, slot<uint64_t>(w, i->e)[l], blocks, l)) return nullptr;
      continue;
    }
    Put put = put_plain;
    if (reduces) put = reduction(static_cast<AtomicOp>(i->mode), request.map.element);
    if (reduces && !put)
      return fault(w, i, kBadMap, "elements of this type have no such reduction");
    if (!store(w, i, request, shared, put, l)) return nullptr;
  }
  return i + 1;
}

// What the new value of a field makes of a map; false when it can have no such value.
bool replace_field(TensorMap *map, TensorField field, int64_t dimension, uint64_t value) {
  // In the order in which the ISA numbers them.
  static constexpr TensorElement kElements[] = {
      TensorElement::U8,      TensorElement::U16, TensorElement::U32,      TensorElement::S32,
      TensorElement::U64,     TensorElement::S64, TensorElement::F16,      TensorElement::F32,
      TensorElement::F32Ftz,  TensorElement::F64, TensorElement::BF16,     TensorElement::TF32,
      TensorElement::TF32Ftz, TensorElement::U4,  TensorElement::U4Padded, TensorElement::U6Padded};
  // 32 bytes with a flip of 8 are number 2, which is refused before.
  static constexpr TensorAtom kAtoms[] = {
      TensorAtom::Bytes16, TensorAtom::Bytes32, {}, TensorAtom::Bytes64};
  switch (field) {
    case TensorField::Address:
      map->address = value;
      return value % 16 == 0;
    case TensorField::Rank:  // less one
      map->rank = static_cast<uint8_t>(value + 1);
      return value < kTensorRanks;
    case TensorField::Box:
      map->box[dimension] = static_cast<uint16_t>(value);
      return value >= 1 && value <= 256;
    case TensorField::Dimension:
      map->last[dimension] = static_cast<uint32_t>(value) - 1;
      return true;
    case TensorField::Stride:
      map->strides[dimension] = value;
      return value % 16 == 0 && value >> 40 == 0;
    case TensorField::Step:
      map->steps[dimension] = static_cast<uint8_t>(value);
      return value >= 1 && value <= 8;
    case TensorField::Element:
      map->element = kElements[value];
      return true;
    case TensorField::Swizzle:
      map->swizzle = static_cast<TensorSwizzle>(value);
      return true;
    case TensorField::Atomicity:
      map->atom = kAtoms[value];
      return true;
    case TensorField::Fill:
      map->fills_nan = value;
      return true;
    default:  // what can have one value only
      return true;
  }
}

const Ins *replace(Warp &w, const Ins *i) {
  const auto field = static_cast<TensorField>(i->mode);
  const bool wide = field == TensorField::Address || field == TensorField::Stride;
  for (uint32_t left = w.mask; left; left &= left - 1) {
    auto l = static_cast<unsigned>(__builtin_ctz(left));
    const uint64_t at = slot<uint64_t>(w, i->a)[l];
    if (at % kTensorMapAlignment)
      return memory_fault(w, i, Space::Generic, at, kTensorMapAlignment, true, l);
    if (!memory_allowed(w, Space::Generic, at, sizeof(TensorMap), kWritable, l))
      return range_fault(w, i, Space::Generic, at, sizeof(TensorMap), true, l);
    auto *map = reinterpret_cast<TensorMap *>(at);
    if (field == TensorField::Whole) {
      const uint64_t from = slot<uint64_t>(w, i->b)[l];
      if (from % kTensorMapAlignment || !shared_by_cluster(w, from, sizeof(TensorMap)))
        return range_fault(w, i, Space::Shared, from, sizeof(TensorMap), false, l);
      std::memcpy(static_cast<void *>(map), reinterpret_cast<const void *>(from), sizeof *map);
      continue;
    }
    if (map->mark != TensorMap::kMark)
      return fault(w, i, kBadMap, "these 128 bytes are no tensor map of this device");
    const uint64_t value = wide ? slot<uint64_t>(w, i->b)[l] : slot<uint32_t>(w, i->b)[l];
    if (!replace_field(map, field, i->imm, value))
      return fault(w, i, kBadMap, "the field of a tensor map cannot have this value");
  }
  return i + 1;
}

}  // namespace

Handler select_tensor(const Ir &ir) {
  if (ir.op == Op::TensorReplace) return replace;
  if (ir.op == Op::TensorReduce) return copy<TensorWay::Store, true>;
  if (ir.op != Op::TensorCopy) return nullptr;
  switch (__builtin_bit_cast(TensorRequest, ir.offset).way) {
    case TensorWay::Load:
      return copy<TensorWay::Load, false>;
    case TensorWay::Store:
      return copy<TensorWay::Store, false>;
    default:
      return copy<TensorWay::Prefetch, false>;
  }
}

}  // namespace softdev::SOFTDEV_ISA
