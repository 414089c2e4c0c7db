// What atomics of all types share.
#pragma once

#include "execute/access.h"

namespace softdev::SOFTDEV_ISA {

// What an atomic operation on integers stores, from what was there and the operands.
template <class T>
SOFTDEV_INLINE T apply(AtomicOp op, T old, T b, T c) {
  using U = std::make_unsigned_t<T>;
  switch (op) {
    case AtomicOp::Add:
      return static_cast<T>(static_cast<U>(old) + static_cast<U>(b));
    case AtomicOp::Min:
      return old < b ? old : b;
    case AtomicOp::Max:
      return old > b ? old : b;
    case AtomicOp::And:
      return old & b;
    case AtomicOp::Or:
      return old | b;
    case AtomicOp::Xor:
      return old ^ b;
    case AtomicOp::Exch:
      return b;
    case AtomicOp::Cas:
      return old == b ? c : old;
    case AtomicOp::Inc:
      return old >= b ? T{0} : static_cast<T>(old + 1);
    default:
      return old == 0 || old > b ? b : static_cast<T>(old - 1);
  }
}
namespace {

// Where a lane's access of `bytes` lies, or nullptr when it is a fault.
template <class T>
T *place(Warp &w, const Ins *i, uint64_t address, unsigned bytes, unsigned lane, Space space) {
  if (space == Space::Shared) {
    if (address >= w.shared_size || w.shared_size - address < bytes || (address & (bytes - 1)))
      return memory_fault(w, i, space, address, bytes, true, lane), nullptr;
    return reinterpret_cast<T *>(w.shared + address);
  }
  if (!may_access(w, space, address, bytes, true, lane))
    return memory_fault(w, i, space, address, bytes, true, lane), nullptr;
  return reinterpret_cast<T *>(address);
}

template <class T, class F>
SOFTDEV_INLINE T update(T *p, F f) {
  T old = __atomic_load_n(p, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(p, &old, f(old), true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
  }
  return old;
}

template <template <Space, class> class Of>
Handler by_space(const Ir &ir) {
  switch (ir.space) {
    case Space::Global:
      return ir.type2 == Type::U64 ? Of<Space::Global, uint64_t>::run : nullptr;
    case Space::Generic:
      return ir.type2 == Type::U64 ? Of<Space::Generic, uint64_t>::run : nullptr;
    case Space::Shared:
      return ir.type2 == Type::U64 ? Of<Space::Shared, uint64_t>::run
                                   : Of<Space::Shared, uint32_t>::run;
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace softdev::SOFTDEV_ISA
