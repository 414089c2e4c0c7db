// Barriers of a block: bar.sync, bar.arrive, bar.red.
#include "schedule/grid.h"

namespace softdev {
namespace {

const uint32_t *words(const Warp &warp, uint32_t slot) {
  return reinterpret_cast<const uint32_t *>(warp.regs + slot);
}

// What bar.red gives to the lanes of one group.
void write_result(const Group &group, const BlockBarrier &barrier, uint32_t threads) {
  uint8_t *registers = group.frame->registers;
  const Ins *ins = group.pc;
  auto mode = static_cast<BarrierMode>(ins->mode);
  if (mode == BarrierMode::Popc) {
    auto *d = reinterpret_cast<uint32_t *>(registers + ins->d);
    for (uint32_t left = group.mask; left; left &= left - 1) d[__builtin_ctz(left)] = barrier.votes;
    return;
  }
  bool value = mode == BarrierMode::And ? barrier.votes == threads : barrier.votes != 0;
  auto *d = reinterpret_cast<uint32_t *>(registers + ins->d);
  *d = value ? *d | group.mask : *d & ~group.mask;
}

}  // namespace

void try_release(Cta &cta, unsigned index) {
  BlockBarrier &barrier = cta.barriers[index];
  if (barrier.expected ? barrier.padded < barrier.expected : barrier.arrived < cta.live_threads)
    return;
  BlockBarrier done = barrier;
  barrier = BlockBarrier();
  cta.barriers_in_use &= ~(1u << index);
  for (Warp &warp : cta.warps) {
    if (warp.group_count == 1 && !warp.groups[0].barrier_red) {  // as it nearly always is
      Group &only = warp.groups[0];
      if (only.state != GroupState::AtBarrier || only.barrier != index) continue;
      only.state = GroupState::Ready;
      ++only.pc;
      only.last_run = warp.turns;
      continue;
    }
    for (uint32_t i = 0; i < warp.group_count; ++i) {
      Group group = warp.groups[i];
      if (group.state != GroupState::AtBarrier || group.barrier != index) continue;
      if (group.barrier_red) write_result(group, done, done.arrived);
      warp.groups[i] = warp.groups[--warp.group_count];
      insert_group(warp, group.frame, group.pc + 1, group.mask);
      i = kNone;  // the order has changed: begin again
    }
  }
}

const Ins *run_barrier(Warp &warp, const Ins *ins) {
  Cta &cta = *warp.cta;
  unsigned first = static_cast<unsigned>(__builtin_ctz(warp.mask));
  uint32_t id = words(warp, ins->a)[first];
  uint32_t mask = ins->flags & kSameA ? warp.mask : 0;
  for (uint32_t left = warp.mask & ~mask; left; left &= left - 1) {
    unsigned lane = static_cast<unsigned>(__builtin_ctz(left));
    if (words(warp, ins->a)[lane] == id) mask |= 1u << lane;
  }
  if (mask != warp.mask) {
    // Lanes name different barriers: each set comes here on its own.
    insert_group(warp, warp.frame, ins, warp.mask & ~mask);
    warp.mask = mask;
  }
  if (id >= 16) return fault(warp, ins, 715, "a barrier number above 15");
  BlockBarrier &barrier = cta.barriers[id];
  uint32_t count = ins->b == kNone ? 0 : words(warp, ins->b)[first];
  if (count % kLanes) return fault(warp, ins, 715, "a barrier count that is no multiple of 32");
  barrier.expected = count;
  auto arrived = lane_count(mask);
  barrier.arrived += arrived;
  bool has_lowest = mask & (warp.live & (0 - warp.live));
  barrier.padded += arrived;
  if (has_lowest) barrier.padded += kLanes - lane_count(warp.live);
  cta.barriers_in_use |= 1u << id;
  auto mode = static_cast<BarrierMode>(ins->mode);
  bool red = mode >= BarrierMode::Popc;
  if (red) {
    uint32_t votes = *words(warp, ins->c);
    if (ins->flags & kNegateC) votes = ~votes;
    barrier.votes += lane_count(votes & mask);
  }
  if (mode == BarrierMode::Arrive) {
    insert_group(warp, warp.frame, ins + 1, mask);
  } else {
    Group &group = park(warp, ins, mask, GroupState::AtBarrier);
    group.barrier = static_cast<uint8_t>(id);
    group.barrier_red = red;
  }
  try_release(cta, id);
  return resume(warp);
}

}  // namespace softdev
