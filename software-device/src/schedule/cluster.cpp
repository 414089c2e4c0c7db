// Shared memory as the blocks of a cluster see it.
#include "schedule/grid.h"

namespace softdev {

// The block in whose shared memory `size` bytes at a generic address lie, or nullptr.
Cta *shared_owner(Warp &warp, uint64_t address, unsigned size) {
  uint64_t offset = address - reinterpret_cast<uint64_t>(warp.shared);
  return offset < warp.shared_size && warp.shared_size - offset >= size ? warp.cta : nullptr;
}

namespace {

// An address in no block's memory stays as it is: nothing is mapped there.
template <class A>
const Ins *to_generic(Warp &warp, const Ins *ins) {
  const auto *a = reinterpret_cast<const A *>(warp.regs + ins->a);
  auto *d = reinterpret_cast<uint64_t *>(warp.regs + ins->d);
  for (uint32_t left = warp.mask; left; left &= left - 1) {
    auto lane = static_cast<unsigned>(__builtin_ctz(left));
    A at = static_cast<A>(a[lane] + static_cast<A>(ins->imm));
    d[lane] = at < warp.shared_size ? reinterpret_cast<uint64_t>(warp.shared) + at : at;
  }
  return ins + 1;
}

}  // namespace

const Ins *run_cluster_to_generic(Warp &warp, const Ins *ins) {
  return to_generic<uint64_t>(warp, ins);
}
const Ins *run_cluster_to_generic_narrow(Warp &warp, const Ins *ins) {
  return to_generic<uint32_t>(warp, ins);
}

}  // namespace softdev
