// Bulk copies and reductions, and stores that report to an mbarrier: each is done when it is
// issued, thread after thread. All addresses are generic here.
#include "execute/ops/families.h"
#include "execute/ops/memory/reduce.h"

namespace softdev::SOFTDEV_ISA {
namespace {

// void: a plain copy.
template <class T>
void transfer(const Ins *i, uint64_t to, uint64_t from, uint32_t bytes, uint32_t mask) {
  if constexpr (!std::is_void_v<T>) {
    reduce_into<T>(static_cast<AtomicOp>(i->mode), to, from, bytes);
  } else if (mask == 0xffff) {
    std::memmove(reinterpret_cast<void *>(to), reinterpret_cast<const void *>(from), bytes);
  } else {
    // Of every 16 bytes those whose bit is set.
    for (uint32_t at = 0; at < bytes; ++at)
      if ((mask >> (at & 15)) & 1)
        reinterpret_cast<uint8_t *>(to)[at] = reinterpret_cast<const uint8_t *>(from)[at];
  }
}

const Ins *bulk_fault(Warp &w, const Ins *i, uint64_t address, uint32_t bytes, bool shared,
                      bool write, unsigned lane) {
  if (address % 16) return memory_fault(w, i, Space::Generic, address, 16, write, lane);
  return range_fault(w, i, shared ? Space::Shared : Space::Global, address, bytes, write, lane);
}

template <class T, BulkWay way>
const Ins *bulk(Warp &w, const Ins *i) {
  constexpr bool kFromGlobal = way == BulkWay::GlobalToShared,
                 kToGlobal = way == BulkWay::SharedToGlobal;
  const uint64_t *to = slot<uint64_t>(w, i->a), *from = slot<uint64_t>(w, i->b);
  const uint32_t *sizes = slot<uint32_t>(w, i->c);
  for (uint32_t left = w.mask; left; left &= left - 1) {
    auto l = static_cast<unsigned>(__builtin_ctz(left));
    const uint32_t bytes = sizes[l];
    if (bytes % 16) return fault(w, i, 716, "the size of a bulk copy is no multiple of 16");
    if (bytes == 0) continue;
    auto good = [&](uint64_t address, bool global, uint8_t flag) {
      return address % 16 == 0 &&
             (global ? memory_allowed(w, Space::Global, address, bytes, flag, l)
                     : shared_by_cluster(w, address, bytes));
    };
    if (!good(from[l], kFromGlobal, 1))
      return bulk_fault(w, i, from[l], bytes, !kFromGlobal, false, l);
    uint32_t mask = i->count ? slot<uint16_t>(w, i->list[0])[l] : kToGlobal ? 0xffff : 0;
    if (kToGlobal) {
      if (!good(to[l], true, 2)) return bulk_fault(w, i, to[l], bytes, false, true, l);
      transfer<T>(i, to[l], from[l], bytes, mask);
      continue;
    }
    const uint64_t object = slot<uint64_t>(w, i->e)[l];
    if (!i->count) {
      if (!good(to[l], false, 2)) return bulk_fault(w, i, to[l], bytes, true, true, l);
      transfer<T>(i, to[l], from[l], bytes, 0xffff);
      if (!complete_bytes(w, i, object, bytes, l)) return nullptr;
      continue;
    }
    // To the same place in each of the blocks that are named.
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
      auto rank = static_cast<uint32_t>(__builtin_ctz(rest));
      uint64_t there = map_shared(w, to[l], rank), counter = map_shared(w, object, rank);
      if (!there || !counter || !good(there, false, 2))
        return bulk_fault(w, i, to[l], bytes, true, true, l);
      transfer<T>(i, there, from[l], bytes, 0xffff);
      if (!complete_bytes(w, i, counter, bytes, l)) return nullptr;
    }
  }
  return i + 1;
}

// Zeros in shared memory.
const Ins *fill(Warp &w, const Ins *i) {
  const uint64_t *to = slot<uint64_t>(w, i->a), *sizes = slot<uint64_t>(w, i->c);
  for (uint32_t left = w.mask; left; left &= left - 1) {
    auto l = static_cast<unsigned>(__builtin_ctz(left));
    const uint64_t bytes = sizes[l];
    if (bytes % 8) return fault(w, i, 716, "the size of a bulk store is no multiple of 8");
    if (bytes == 0) continue;
    if (to[l] % 8) return memory_fault(w, i, Space::Generic, to[l], 8, true, l);
    if (!shared_by_cluster(w, to[l], bytes))
      return range_fault(w, i, Space::Shared, to[l], bytes, true, l);
    std::memset(reinterpret_cast<void *>(to[l]), 0, bytes);
  }
  return i + 1;
}

// T: bits of one element, or the type of a reduction.
template <class T, bool reduces>
const Ins *store_async(Warp &w, const Ins *i) {
  const uint64_t *to = slot<uint64_t>(w, i->a);
  const unsigned bytes = sizeof(T) * i->count;
  for (uint32_t left = w.mask; left; left &= left - 1) {
    auto l = static_cast<unsigned>(__builtin_ctz(left));
    const uint64_t at = to[l];
    if (at % bytes) return memory_fault(w, i, Space::Generic, at, bytes, true, l);
    if (!shared_by_cluster(w, at, bytes))
      return range_fault(w, i, Space::Shared, at, bytes, true, l);
    const uint64_t object = slot<uint64_t>(w, i->e)[l];
    auto write = [&](uint64_t there, uint64_t counter) {
      auto *target = reinterpret_cast<T *>(there);
      for (unsigned k = 0; k < i->count; ++k) {
        T value = slot<T>(w, i->list[k])[l];
        target[k] = reduces ? combine(static_cast<AtomicOp>(i->mode), target[k], value) : value;
      }
      return complete_bytes(w, i, counter, bytes, l);
    };
    if (reduces || !i->mode) {
      if (!write(at, object)) return nullptr;
      continue;
    }
    for (uint32_t rank = 0; uint64_t there = map_shared(w, at, rank); ++rank)
      if (!write(there, map_shared(w, object, rank))) return nullptr;
  }
  return i + 1;
}

Handler pick_copy(const Ir &ir) {
  switch (static_cast<BulkWay>(ir.mode)) {
    case BulkWay::GlobalToShared:
      return bulk<void, BulkWay::GlobalToShared>;
    case BulkWay::SharedToShared:
      return bulk<void, BulkWay::SharedToShared>;
    case BulkWay::Fill:
      return fill;
    default:
      return bulk<void, BulkWay::SharedToGlobal>;
  }
}

// What an operation works on: bits, counters (unsigned) or numbers.
struct Kind {
  bool bits, counter, number;
  explicit Kind(const Ir &ir) {
    auto op = static_cast<AtomicOp>(ir.mode);
    bits = op == AtomicOp::And || op == AtomicOp::Or || op == AtomicOp::Xor;
    counter = op == AtomicOp::Inc || op == AtomicOp::Dec;
    number = !bits && !counter;
  }
};

template <BulkWay way>
Handler pick_reduce(const Ir &ir) {
  Kind kind(ir);
  bool add = ir.mode == static_cast<uint8_t>(AtomicOp::Add);
  switch (ir.type) {
    case Type::B32:
      return kind.bits ? bulk<uint32_t, way> : nullptr;
    case Type::B64:
      return kind.bits ? bulk<uint64_t, way> : nullptr;
    case Type::U32:
      return kind.bits ? nullptr : bulk<uint32_t, way>;
    case Type::S32:
      return kind.number ? bulk<int32_t, way> : nullptr;
    case Type::U64:
      return kind.number ? bulk<uint64_t, way> : nullptr;
    case Type::S64:
      return kind.number ? bulk<int64_t, way> : nullptr;
    default:
      break;
  }
  if constexpr (way == BulkWay::SharedToGlobal) {
    if (ir.type == Type::F16 && kind.number) return bulk<Half<F16Format>, way>;
    if (ir.type == Type::BF16 && kind.number) return bulk<Half<BF16Format>, way>;
    if (ir.type == Type::F32 && add) return bulk<float, way>;
    if (ir.type == Type::F64 && add) return bulk<double, way>;
  }
  return nullptr;
}

Handler pick_store_reduce(const Ir &ir) {
  Kind kind(ir);
  bool add = ir.mode == static_cast<uint8_t>(AtomicOp::Add);
  switch (ir.type) {
    case Type::B32:
      return kind.bits ? store_async<uint32_t, true> : nullptr;
    case Type::U32:
      return kind.bits ? nullptr : store_async<uint32_t, true>;
    case Type::S32:
      return kind.number ? store_async<int32_t, true> : nullptr;
    case Type::U64:
      return add ? store_async<uint64_t, true> : nullptr;
    case Type::S64:
      return add ? store_async<int64_t, true> : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace

Handler select_bulk(const Ir &ir) {
  switch (ir.op) {
    case Op::BulkCopy:
      return pick_copy(ir);
    case Op::BulkReduce:
      return ir.space == Space::Global ? pick_reduce<BulkWay::SharedToGlobal>(ir)
                                       : pick_reduce<BulkWay::SharedToShared>(ir);
    case Op::StoreAsync:
      return type_size(ir.type) == 8 ? store_async<uint64_t, false> : store_async<uint32_t, false>;
    case Op::ReduceAsync:
      return pick_store_reduce(ir);
    default:
      return nullptr;
  }
}

}  // namespace softdev::SOFTDEV_ISA
