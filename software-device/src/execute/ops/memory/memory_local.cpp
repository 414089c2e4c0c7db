// Loads and stores of local memory and of parameters whose address is in a register, and of fixed
// places of the stack frame.
#include "execute/ops/families.h"
#include "execute/ops/memory/memory.h"

namespace softdev::SOFTDEV_ISA {
namespace {

// ---- fixed places of the stack frame: in bounds by translation

template <class M, class R>
const Ins *load_frame(Warp &w, const Ins *i) {
  const unsigned count = i->count ? i->count : 1;
  const uint8_t *base = w.local + w.frame->local + i->imm;
  for (unsigned k = 0; k < count; ++k) {
    uint32_t to = destination(i, k);
    if (to == kNone) continue;
    R *d = slot<R>(w, to);
    running(w.mask, [&](unsigned l) {
      M value;
      std::memcpy(&value, base + uint64_t{l} * w.local_stride + k * sizeof(M), sizeof(M));
      d[l] = static_cast<R>(value);
    });
  }
  return i + 1;
}
template <class M, class R>
const Ins *store_frame(Warp &w, const Ins *i) {
  const unsigned count = i->count ? i->count : 1;
  uint8_t *base = w.local + w.frame->local + i->imm;
  for (unsigned k = 0; k < count; ++k) {
    const R *s = slot<R>(w, source(i, k));
    running(w.mask, [&](unsigned l) {
      M value = static_cast<M>(s[l]);
      std::memcpy(base + uint64_t{l} * w.local_stride + k * sizeof(M), &value, sizeof(M));
    });
  }
  return i + 1;
}

// ---- addresses in registers

// Whether all lanes' addresses lie in [base + lane * stride, ... + size) and are aligned.
SOFTDEV_INLINE bool all_in_place(const uint64_t *at, uint64_t base, uint64_t stride, uint64_t size,
                                 unsigned bytes) {
  if (size < bytes) return false;
  uint64_t outside = 0, low = 0;
  SOFTDEV_LANES {
    outside |= at[l] - (base + l * stride) > size - bytes;
    low |= at[l];
  }
  return outside == 0 && !(low & (bytes - 1));
}
template <Space space>
SOFTDEV_INLINE bool all_allowed(const Warp &w, const uint64_t *at, unsigned bytes) {
  if (space == Space::Local)
    return all_in_place(at, reinterpret_cast<uint64_t>(w.local), w.local_stride, w.local_stride,
                        bytes);
  return all_in_place(at, reinterpret_cast<uint64_t>(w.parameters), 0, w.parameter_bytes, bytes);
}

// Where each lane accesses `bytes` bytes. False after a fault.
template <Space space, bool write>
SOFTDEV_INLINE bool addresses(Warp &w, const Ins *i, unsigned bytes, uint64_t *at) {
  const uint64_t *address = slot<uint64_t>(w, i->a);
  SOFTDEV_LANES at[l] = address[l] + static_cast<uint64_t>(i->imm);
  if (w.mask == kFullMask && all_allowed<space>(w, at, bytes)) return true;
  for (uint32_t left = w.mask; left; left &= left - 1) {
    auto l = static_cast<unsigned>(__builtin_ctz(left));
    if (may_access(w, space, at[l], bytes, write, l)) continue;
    memory_fault(w, i, space, at[l], bytes, write, l);
    return false;
  }
  return true;
}

template <class M, class R, Space space>
const Ins *load(Warp &w, const Ins *i) {
  const unsigned count = i->count ? i->count : 1;
  // A copy: the first element of a vector may be loaded into the address register.
  alignas(64) uint64_t at[kLanes];
  if (!addresses<space, false>(w, i, sizeof(M) * count, at)) return nullptr;
  for (unsigned k = 0; k < count; ++k) {
    if (destination(i, k) == kNone) continue;
    R *d = slot<R>(w, destination(i, k));
    running(w.mask,
            [&](unsigned l) { d[l] = static_cast<R>(reinterpret_cast<const M *>(at[l])[k]); });
  }
  return i + 1;
}

template <class M, class R, Space space>
const Ins *store(Warp &w, const Ins *i) {
  const unsigned count = i->count ? i->count : 1;
  alignas(64) uint64_t at[kLanes];
  if (!addresses<space, true>(w, i, sizeof(M) * count, at)) return nullptr;
  for (unsigned k = 0; k < count; ++k) {
    const R *s = slot<R>(w, source(i, k));
    running(w.mask, [&](unsigned l) { reinterpret_cast<M *>(at[l])[k] = static_cast<M>(s[l]); });
  }
  return i + 1;
}

// ---- selection

template <class M, class R>
struct Loads {
  static Handler pick(const Ir &ir) {
    if (!ir.a) return load_frame<M, R>;
    if (ir.type2 == Type::U32) return nullptr;
    return ir.space == Space::Local ? load<M, R, Space::Local> : load<M, R, Space::Param>;
  }
};
template <class M, class R>
struct Stores {
  static Handler pick(const Ir &ir) {
    if (!ir.a) return store_frame<M, R>;
    if (ir.type2 == Type::U32 || ir.space != Space::Local) return nullptr;
    return store<M, R, Space::Local>;
  }
};

}  // namespace

Handler select_memory_local(const Ir &ir) {
  if (ir.a && ir.space != Space::Local && ir.space != Space::Param) return nullptr;
  if (ir.op == Op::Load) return by_load_types<Loads>(ir);
  if (ir.op == Op::Store) return by_store_types<Stores>(ir);
  return nullptr;
}

}  // namespace softdev::SOFTDEV_ISA
