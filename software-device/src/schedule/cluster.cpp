#include "schedule/cluster.h"

#include <algorithm>

namespace softdev {
namespace {

constexpr uint64_t kSlice = 16;  // turns of one block until the next one has some

// An address in the shared memory of the block of rank r is its offset behind (r + 1) << 24. The
// block itself may leave the rank away: its own addresses are good in the cluster, too.
constexpr unsigned kRankShift = 24;

Cta *block_of_rank(Warp &warp, uint64_t rank) {
  const auto &blocks = warp.cta->cluster->blocks;
  return rank < blocks.size() ? blocks[rank].get() : nullptr;
}

bool holds(const Cta &block, uint64_t address, uint64_t size) {
  uint64_t offset = address - reinterpret_cast<uint64_t>(block.shared());
  return offset < block.grid->shared_bytes && block.grid->shared_bytes - offset >= size;
}

// What is no address of any block stays as it is: nothing is mapped there.
uint64_t generic_of(Warp &warp, uint64_t at) {
  if (at < warp.shared_size) return reinterpret_cast<uint64_t>(warp.shared) + at;
  Cta *block = at >> 32 ? nullptr : block_of_rank(warp, (at >> kRankShift) - 1);
  uint64_t offset = at & ((uint64_t{1} << kRankShift) - 1);
  if (!block || offset >= warp.shared_size) return at;
  return reinterpret_cast<uint64_t>(block->shared()) + offset;
}

template <class A>
const Ins *to_generic(Warp &warp, const Ins *ins) {
  const auto *a = reinterpret_cast<const A *>(warp.regs + ins->a);
  auto *d = reinterpret_cast<uint64_t *>(warp.regs + ins->d);
  for (uint32_t left = warp.mask; left; left &= left - 1) {
    auto lane = static_cast<unsigned>(__builtin_ctz(left));
    d[lane] = generic_of(warp, static_cast<A>(a[lane] + static_cast<A>(ins->imm)));
  }
  return ins + 1;
}

// mapa: A is the type of the address, which is in the cluster's window or generic.
template <class A, bool generic>
const Ins *map(Warp &warp, const Ins *ins) {
  const auto *a = reinterpret_cast<const A *>(warp.regs + ins->a);
  const auto *ranks = reinterpret_cast<const uint32_t *>(warp.regs + ins->b);
  auto *d = reinterpret_cast<A *>(warp.regs + ins->d);
  for (uint32_t left = warp.mask; left; left &= left - 1) {
    auto lane = static_cast<unsigned>(__builtin_ctz(left));
    uint64_t rank = ranks[lane], at = a[lane];
    if (!block_of_rank(warp, rank))
      return fault(warp, ins, 719, "the cluster has no block of this rank");
    if (generic) {
      at = map_shared(warp, at, static_cast<uint32_t>(rank));
      if (!at) return fault(warp, ins, 719, "the address is not in shared memory");
    } else {
      at = (at & ((1u << kRankShift) - 1)) | (rank + 1) << kRankShift;
    }
    d[lane] = static_cast<A>(at);
  }
  return ins + 1;
}

template <class A, bool generic>
const Ins *rank_of(Warp &warp, const Ins *ins) {
  const auto *a = reinterpret_cast<const A *>(warp.regs + ins->a);
  auto *d = reinterpret_cast<uint32_t *>(warp.regs + ins->d);
  for (uint32_t left = warp.mask; left; left &= left - 1) {
    auto lane = static_cast<unsigned>(__builtin_ctz(left));
    uint64_t at = generic ? a[lane] : generic_of(warp, a[lane]);
    Cta *owner = shared_owner(warp, at, 1);
    d[lane] = owner ? owner->rank : 0;
  }
  return ins + 1;
}

// A generic address as one of the cluster's window.
const Ins *to_window(Warp &warp, const Ins *ins) {
  const auto *a = reinterpret_cast<const uint64_t *>(warp.regs + ins->a);
  auto *d = reinterpret_cast<uint64_t *>(warp.regs + ins->d);
  for (uint32_t left = warp.mask; left; left &= left - 1) {
    auto lane = static_cast<unsigned>(__builtin_ctz(left));
    Cta *owner = shared_owner(warp, a[lane], 1);
    uint64_t offset = a[lane] - reinterpret_cast<uint64_t>(owner ? owner->shared() : warp.shared);
    bool own = !owner || owner == warp.cta;
    d[lane] = own ? offset : offset | (uint64_t{owner->rank} + 1) << kRankShift;
  }
  return ins + 1;
}

const Ins *run_arrive(Warp &warp, const Ins *ins) {
  warp.cta->cluster->arrive(warp, warp.mask);
  return ins + 1;
}

const Ins *run_wait(Warp &warp, const Ins *ins) {
  uint32_t waiting = warp.mask & warp.at_cluster, over = warp.mask & ~waiting;
  if (!waiting) return ins + 1;
  park(warp, ins + 1, waiting, GroupState::AtCluster);
  warp.mask = over;
  return over ? ins + 1 : resume(warp);
}

}  // namespace

// The block of the cluster in whose shared memory `size` bytes at a generic address lie.
Cta *shared_owner(Warp &warp, uint64_t address, uint64_t size) {
  if (holds(*warp.cta, address, size)) return warp.cta;
  const auto &blocks = warp.cta->cluster->blocks;
  if (blocks.size() == 1) return nullptr;
  for (const auto &block : blocks)
    if (holds(*block, address, size)) return block.get();
  return nullptr;
}

bool shared_by_cluster(Warp &warp, uint64_t address, uint64_t size) {
  return shared_owner(warp, address, size) != nullptr;
}

uint64_t shared_offset(Warp &warp, uint64_t address) {
  Cta *owner = shared_owner(warp, address, 1);
  return address - reinterpret_cast<uint64_t>(owner ? owner->shared() : warp.shared);
}

uint64_t map_shared(Warp &warp, uint64_t address, uint32_t rank) {
  Cta *owner = shared_owner(warp, address, 1), *other = block_of_rank(warp, rank);
  if (!owner || !other) return 0;
  return address - reinterpret_cast<uint64_t>(owner->shared()) +
         reinterpret_cast<uint64_t>(other->shared());
}

Handler select_cluster(const Ir &ir) {
  bool narrow = ir.type2 == Type::U32, generic = ir.space == Space::Generic;
  switch (ir.op) {
    case Op::ClusterToGeneric:
      return narrow ? to_generic<uint32_t> : to_generic<uint64_t>;
    case Op::GenericToCluster:
      return to_window;
    case Op::MapShared:
      return generic ? map<uint64_t, true> : narrow ? map<uint32_t, false> : map<uint64_t, false>;
    case Op::SharedRank:
      return generic  ? rank_of<uint64_t, true>
             : narrow ? rank_of<uint32_t, false>
                      : rank_of<uint64_t, false>;
    case Op::ClusterBarrier:
      return ir.mode ? run_wait : run_arrive;
    default:
      return nullptr;
  }
}

Cluster::Cluster(std::shared_ptr<Grid> owner, uint32_t worker)
    : grid(std::move(owner)),
      across_(grid->launch.grid.x / grid->launch.cluster.x),
      down_(grid->launch.grid.y / grid->launch.cluster.y) {
  const Dim3 &size = grid->launch.cluster;
  for (uint32_t rank = 0; rank < grid->cluster_blocks; ++rank) {
    blocks.push_back(std::make_unique<Cta>(grid, this, rank, worker));
    Cta &block = *blocks.back();
    block.of_cluster[0] = rank % size.x;
    block.of_cluster[1] = rank / size.x % size.y;
    block.of_cluster[2] = rank / size.x / size.y;
  }
}

void Cluster::start(uint64_t index) {
  const Dim3 &size = grid->launch.cluster;
  const uint64_t row = index / across_, plane = row / down_;
  position[0] = static_cast<uint32_t>(index - row * across_);
  position[1] = static_cast<uint32_t>(row - plane * down_);
  position[2] = static_cast<uint32_t>(plane);
  spinning = false;
  arrived_ = 0;
  live_ = grid->threads * grid->cluster_blocks;
  for (const auto &block : blocks)
    block->start(position[0] * size.x + block->of_cluster[0],
                 position[1] * size.y + block->of_cluster[1],
                 position[2] * size.z + block->of_cluster[2]);
}

Cta::Result Cluster::run(uint64_t slice) {
  if (blocks.size() == 1) return blocks[0]->run(slice);
  for (uint64_t pass = 0; pass < slice;) {
    bool alive = false, progress = false, spun = false;
    for (const auto &block : blocks) {
      if (!block->live_threads) continue;
      alive = true;
      switch (block->run(kSlice)) {
        case Cta::Result::Failed:
          return Cta::Result::Failed;
        case Cta::Result::Parked:
          spun = true;
          break;
        default:
          break;
      }
      progress |= block->progress;
    }
    if (!alive) return Cta::Result::Done;
    if (!progress) {
      for (const auto &block : blocks) spun |= block->end_waits();
      if (!spun) {
        blocks[0]->fail_waiting("cluster");
        return Cta::Result::Failed;
      }
    }
    pass += spun;
    if (grid->abandoned.load(std::memory_order_relaxed)) return Cta::Result::Failed;
  }
  return Cta::Result::Parked;
}

void Cluster::arrive(Warp &warp, uint32_t mask) {
  arrived_ += lane_count(mask & ~warp.at_cluster);
  warp.at_cluster |= mask;
  if (arrived_ >= live_) release();
}

void Cluster::release() {
  arrived_ = 0;
  for (const auto &block : blocks) {
    for (Warp &warp : block->warps) {
      warp.at_cluster = 0;
      for (uint32_t i = 0; i < warp.group_count; ++i)
        if (warp.groups[i].state == GroupState::AtCluster) warp.groups[i].state = GroupState::Ready;
    }
  }
}

}  // namespace softdev
