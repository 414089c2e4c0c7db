// cp.async: from global to shared memory.
#include "execute/access.h"
#include "execute/ops/families.h"

namespace softdev::SOFTDEV_ISA {
namespace {

SOFTDEV_INLINE bool readable(Warp &w, uint64_t address, unsigned size, unsigned lane) {
  return may_access(w, Space::Global, address, size, false, lane);
}

enum class Limit : uint8_t { None, Bytes, Ignore };

// What is not copied of `size` bytes becomes zero. A: type of the address in shared memory.
template <unsigned size, class A, Limit limit>
const Ins *copy(Warp &w, const Ins *i) {
  const A *to = slot<A>(w, i->a);
  const uint64_t *from = slot<uint64_t>(w, i->b);
  const auto to_offset = static_cast<A>(static_cast<int64_t>(static_cast<int32_t>(i->imm)));
  const auto from_offset = static_cast<uint64_t>(i->imm >> 32);
  uint32_t ignored = 0;
  if constexpr (limit == Limit::Ignore) {
    ignored = predicate(w, i->c);
    if (i->flags & kNegateC) ignored = ~ignored;
  }
  for (uint32_t left = w.mask; left; left &= left - 1) {
    auto l = static_cast<unsigned>(__builtin_ctz(left));
    A target = static_cast<A>(to[l] + to_offset);
    uint64_t source = from[l] + from_offset;
    if (__builtin_expect(
            target >= w.shared_size || w.shared_size - target < size || (target & (size - 1)), 0))
      return memory_fault(w, i, Space::Shared, target, size, true, l);
    unsigned bytes = size;
    if constexpr (limit == Limit::Bytes) {
      uint32_t asked = slot<uint32_t>(w, i->c)[l];
      bytes = asked < size ? asked : size;
    }
    if constexpr (limit == Limit::Ignore)
      if ((ignored >> l) & 1) bytes = 0;
    uint8_t *target_bytes = w.shared + target;
    if (bytes && __builtin_expect(!readable(w, source, size, l), 0)) {
      // The end of what may be read may lie behind the bytes that are read.
      for (unsigned at = 0; at < bytes; ++at)
        if ((source & (size - 1)) ||
            !memory_allowed(w, Space::Global, source + at, 1, kReadable, l))
          return memory_fault(w, i, Space::Global, source, size, false, l);
    }
    if (limit == Limit::None || bytes == size) {
      std::memcpy(target_bytes, reinterpret_cast<const void *>(source), size);
    } else {
      if (bytes) std::memcpy(target_bytes, reinterpret_cast<const void *>(source), bytes);
      std::memset(target_bytes + bytes, 0, size - bytes);
    }
  }
  return i + 1;
}

template <unsigned size, class A>
Handler pick(const Ir &ir) {
  return ir.mode == 0   ? copy<size, A, Limit::None>
         : ir.mode == 1 ? copy<size, A, Limit::Bytes>
                        : copy<size, A, Limit::Ignore>;
}
template <unsigned size>
Handler pick(const Ir &ir) {
  return ir.type2 == Type::U32 ? pick<size, uint32_t>(ir) : pick<size, uint64_t>(ir);
}

}  // namespace

Handler select_async(const Ir &ir) {
  if (ir.op != Op::AsyncCopy) return nullptr;
  return ir.memory_size == 4 ? pick<4>(ir) : ir.memory_size == 8 ? pick<8>(ir) : pick<16>(ir);
}

}  // namespace softdev::SOFTDEV_ISA
