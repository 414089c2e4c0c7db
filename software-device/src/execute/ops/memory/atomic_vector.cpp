// Atomics on 16-bit floating-point values, vectors and 128 bits. The elements of a vector, and the
// halves of a pair, are atomic each by itself.
#include "execute/ops/arithmetic/half.h"
#include "execute/ops/families.h"
#include "execute/ops/memory/atomic.h"
#include "execute/ops/memory/whole.h"

namespace softdev::SOFTDEV_ISA {
namespace {

struct Singles {
  using Bits = uint32_t;
  static Bits combine(Bits a, Bits b) {
    return bit_cast<Bits>(canonical(flush(flush(bit_cast<float>(a)) + flush(bit_cast<float>(b)))));
  }
};
template <class Format, class Operation>
struct Half {
  using Bits = uint16_t;
  static Bits combine(Bits a, Bits b) { return Operation::template of<Format>(a, b); }
};
template <class Format, class Operation>
struct HalfPair {
  using Bits = uint32_t;
  static Bits combine(Bits a, Bits b) {
    auto low = Operation::template of<Format>(static_cast<uint16_t>(a), static_cast<uint16_t>(b));
    auto high = Operation::template of<Format>(static_cast<uint16_t>(a >> 16),
                                               static_cast<uint16_t>(b >> 16));
    return uint32_t{high} << 16 | low;
  }
};

// Of a vector, the list holds the results that are wanted (ins->mode of them), then the sources.
template <class F, Space space, class A>
const Ins *combine(Warp &w, const Ins *i) {
  using T = typename F::Bits;
  const A *address = slot<A>(w, i->a);
  const unsigned results = i->mode, count = i->count ? i->count - results : 1;
  w.budget -= 1;
  for (uint32_t left = w.mask; left; left &= left - 1) {
    auto l = static_cast<unsigned>(__builtin_ctz(left));
    T *p = place<T>(w, i, static_cast<A>(address[l] + static_cast<A>(i->imm)),
                    static_cast<unsigned>(sizeof(T)) * count, l, space);
    if (!p) return nullptr;
    // All sources are read before a result is written: they may be the same registers.
    T old[8];
    for (unsigned k = 0; k < count; ++k) {
      T value = slot<T>(w, i->count ? i->list[results + k] : i->b)[l];
      if (space == Space::Shared) {  // the block runs on one thread
        old[k] = p[k];
        p[k] = F::combine(old[k], value);
      } else {
        old[k] = update(p + k, [=](T before) { return F::combine(before, value); });
      }
    }
    if (!i->count && i->d != kNone) slot<T>(w, i->d)[l] = old[0];
    for (unsigned k = 0; k < results; ++k) slot<T>(w, i->list[k])[l] = old[k];
  }
  return i + 1;
}

// list: two results; b; for cas c
template <bool cas, Space space, class A>
const Ins *wide(Warp &w, const Ins *i) {
  const A *address = slot<A>(w, i->a);
  w.budget -= 16;
  for (uint32_t left = w.mask; left; left &= left - 1) {
    auto l = static_cast<unsigned>(__builtin_ctz(left));
    Pair *p = place<Pair>(w, i, static_cast<A>(address[l] + static_cast<A>(i->imm)), sizeof(Pair),
                          l, space);
    if (!p) return nullptr;
    auto value = [&](unsigned k) {
      return Pair{slot<uint64_t>(w, i->list[k])[l], slot<uint64_t>(w, i->list[k + 1])[l]};
    };
    Pair old;
    if (cas) {
      old = value(2);
      exchange_if(p, &old, value(4));
    } else {
      old = Pair{0, 0};
      while (!exchange_if(p, &old, value(2))) {
      }
    }
    slot<uint64_t>(w, i->list[0])[l] = old[0];
    slot<uint64_t>(w, i->list[1])[l] = old[1];
  }
  return i + 1;
}

template <class F>
struct Combining {
  template <Space space, class A>
  struct Of {
    static const Ins *run(Warp &w, const Ins *i) { return combine<F, space, A>(w, i); }
  };
};
template <bool cas>
struct Exchanging {
  template <Space space, class A>
  struct Of {
    static const Ins *run(Warp &w, const Ins *i) { return wide<cas, space, A>(w, i); }
  };
};

template <template <class, class> class Of, class Format>
Handler pick(const Ir &ir) {
  switch (static_cast<AtomicOp>(ir.mode)) {
    case AtomicOp::Add:
      return by_space<Combining<Of<Format, Add>>::template Of>(ir);
    case AtomicOp::Min:
      return ir.list_count ? by_space<Combining<Of<Format, Extreme<false, false>>>::template Of>(ir)
                           : nullptr;
    case AtomicOp::Max:
      return ir.list_count ? by_space<Combining<Of<Format, Extreme<true, false>>>::template Of>(ir)
                           : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace

Handler select_atomic_vector(const Ir &ir) {
  if (ir.op != Op::Atomic) return nullptr;
  auto op = static_cast<AtomicOp>(ir.mode);
  switch (ir.type) {
    case Type::F16:
      return pick<Half, F16Format>(ir);
    case Type::BF16:
      return pick<Half, BF16Format>(ir);
    case Type::F16x2:
      return ir.register_size > 4 ? nullptr : pick<HalfPair, F16Format>(ir);
    case Type::BF16x2:
      return ir.register_size > 4 ? nullptr : pick<HalfPair, BF16Format>(ir);
    case Type::F32:
      return op == AtomicOp::Add && ir.list_count && ir.register_size <= 4
                 ? by_space<Combining<Singles>::Of>(ir)
                 : nullptr;
    case Type::B128:
      return op == AtomicOp::Exch  ? by_space<Exchanging<false>::Of>(ir)
             : op == AtomicOp::Cas ? by_space<Exchanging<true>::Of>(ir)
                                   : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace softdev::SOFTDEV_ISA
