// atom and red: lane after lane, each with one atomic access of the host.
#include <type_traits>

#include "execute/ops/families.h"
#include "execute/ops/memory/atomic.h"

namespace softdev::SOFTDEV_ISA {
namespace {

// Bits as a number and back, for atomics on floating-point values.
struct AsFloat {
  using Bits = uint32_t;
  static SOFTDEV_INLINE Bits add(Bits a, Bits b) {
    return bit_cast<Bits>(canonical(flush(flush(bit_cast<float>(a)) + flush(bit_cast<float>(b)))));
  }
};
struct AsFloatExact {
  using Bits = uint32_t;
  static SOFTDEV_INLINE Bits add(Bits a, Bits b) {
    return bit_cast<Bits>(canonical(bit_cast<float>(a) + bit_cast<float>(b)));
  }
};
struct AsDouble {
  using Bits = uint64_t;
  static SOFTDEV_INLINE Bits add(Bits a, Bits b) {
    return bit_cast<Bits>(bit_cast<double>(a) + bit_cast<double>(b));
  }
};

template <class T, AtomicOp op>
SOFTDEV_INLINE T perform(T *p, T b, T c, bool alone) {
  if (alone) {  // shared memory: the block runs on one thread
    T old = *p;
    *p = apply(op, old, b, c);
    return old;
  }
  if constexpr (op == AtomicOp::Add)
    return static_cast<T>(__atomic_fetch_add(reinterpret_cast<std::make_unsigned_t<T> *>(p),
                                             static_cast<std::make_unsigned_t<T>>(b),
                                             __ATOMIC_SEQ_CST));
  if constexpr (op == AtomicOp::And) return __atomic_fetch_and(p, b, __ATOMIC_SEQ_CST);
  if constexpr (op == AtomicOp::Or) return __atomic_fetch_or(p, b, __ATOMIC_SEQ_CST);
  if constexpr (op == AtomicOp::Xor) return __atomic_fetch_xor(p, b, __ATOMIC_SEQ_CST);
  if constexpr (op == AtomicOp::Exch) return __atomic_exchange_n(p, b, __ATOMIC_SEQ_CST);
  if constexpr (op == AtomicOp::Cas) {
    T expected = b;
    __atomic_compare_exchange_n(p, &expected, c, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return expected;
  }
  return update(p, [=](T old) { return apply(op, old, b, c); });
}

// A: the type of the address register (32 bits for shared memory only).
template <class T, AtomicOp op, Space space, class A>
const Ins *atomic(Warp &w, const Ins *i) {
  const A *address = slot<A>(w, i->a);
  const T *b = slot<T>(w, i->b);
  const T *c = i->c == kNone ? b : slot<T>(w, i->c);
  w.budget -= op == AtomicOp::Cas || op == AtomicOp::Exch ? 16 : 1;
  for (uint32_t left = w.mask; left; left &= left - 1) {
    auto l = static_cast<unsigned>(__builtin_ctz(left));
    T *p = place<T>(w, i, static_cast<A>(address[l] + static_cast<A>(i->imm)), sizeof(T), l, space);
    if (!p) return nullptr;
    T old = perform<T, op>(p, b[l], c[l], space == Space::Shared);
    if (i->d != kNone) slot<T>(w, i->d)[l] = old;
  }
  return i + 1;
}

template <class F, Space space, class A>
const Ins *atomic_add(Warp &w, const Ins *i) {
  using T = typename F::Bits;
  const A *address = slot<A>(w, i->a);
  const T *b = slot<T>(w, i->b);
  w.budget -= 1;
  for (uint32_t left = w.mask; left; left &= left - 1) {
    auto l = static_cast<unsigned>(__builtin_ctz(left));
    T *p = place<T>(w, i, static_cast<A>(address[l] + static_cast<A>(i->imm)), sizeof(T), l, space);
    if (!p) return nullptr;
    T value = b[l], old;
    if (space == Space::Shared) {
      old = *p;
      *p = F::add(old, value);
    } else {
      old = update(p, [=](T before) { return F::add(before, value); });
    }
    if (i->d != kNone) slot<T>(w, i->d)[l] = old;
  }
  return i + 1;
}

template <class T, AtomicOp op>
struct Integer {
  template <Space space, class A>
  struct Of {
    static const Ins *run(Warp &w, const Ins *i) { return atomic<T, op, space, A>(w, i); }
  };
};
template <class F>
struct Adding {
  template <Space space, class A>
  struct Of {
    static const Ins *run(Warp &w, const Ins *i) { return atomic_add<F, space, A>(w, i); }
  };
};

template <class T>
Handler pick(const Ir &ir) {
  constexpr bool kUntyped = std::is_unsigned_v<T>;
  switch (static_cast<AtomicOp>(ir.mode)) {
    case AtomicOp::Add:
      return by_space<Integer<T, AtomicOp::Add>::template Of>(ir);
    case AtomicOp::Min:
      return by_space<Integer<T, AtomicOp::Min>::template Of>(ir);
    case AtomicOp::Max:
      return by_space<Integer<T, AtomicOp::Max>::template Of>(ir);
    default:
      break;
  }
  if constexpr (kUntyped) {
    switch (static_cast<AtomicOp>(ir.mode)) {
      case AtomicOp::And:
        return by_space<Integer<T, AtomicOp::And>::template Of>(ir);
      case AtomicOp::Or:
        return by_space<Integer<T, AtomicOp::Or>::template Of>(ir);
      case AtomicOp::Xor:
        return by_space<Integer<T, AtomicOp::Xor>::template Of>(ir);
      case AtomicOp::Exch:
        return by_space<Integer<T, AtomicOp::Exch>::template Of>(ir);
      case AtomicOp::Cas:
        return by_space<Integer<T, AtomicOp::Cas>::template Of>(ir);
      case AtomicOp::Inc:
        return by_space<Integer<T, AtomicOp::Inc>::template Of>(ir);
      case AtomicOp::Dec:
        return by_space<Integer<T, AtomicOp::Dec>::template Of>(ir);
      default:
        break;
    }
  }
  return nullptr;
}

}  // namespace

Handler select_atomic(const Ir &ir) {
  if (ir.op != Op::Atomic || ir.list_count) return nullptr;
  auto op = static_cast<AtomicOp>(ir.mode);
  bool bitwise = op == AtomicOp::And || op == AtomicOp::Or || op == AtomicOp::Xor ||
                 op == AtomicOp::Exch || op == AtomicOp::Cas;
  bool counter = op == AtomicOp::Inc || op == AtomicOp::Dec;
  switch (ir.type) {
    case Type::B16:
      return op == AtomicOp::Cas ? by_space<Integer<uint16_t, AtomicOp::Cas>::Of>(ir) : nullptr;
    case Type::B32:
      return bitwise ? pick<uint32_t>(ir) : nullptr;
    case Type::B64:
      return bitwise ? pick<uint64_t>(ir) : nullptr;
    // Old compilers write .u32 for exch and cas too.
    case Type::U32:
      return pick<uint32_t>(ir);
    case Type::U64:
      return counter ? nullptr : pick<uint64_t>(ir);
    case Type::S32:
      return bitwise || counter ? nullptr : pick<int32_t>(ir);
    case Type::S64:
      return bitwise || counter ? nullptr : pick<int64_t>(ir);
    case Type::F32:
      if (op == AtomicOp::Exch) return pick<uint32_t>(ir);
      if (op != AtomicOp::Add) return nullptr;
      // Global memory flushes subnormals, shared memory does not.
      return ir.space == Space::Shared ? by_space<Adding<AsFloatExact>::Of>(ir)
                                       : by_space<Adding<AsFloat>::Of>(ir);
    case Type::F64:
      return op == AtomicOp::Add ? by_space<Adding<AsDouble>::Of>(ir) : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace softdev::SOFTDEV_ISA
