// Divergence: which lanes of a warp run, and where they come together again.
//
// The group with the deepest call and the smallest pc runs first, so lanes that took the shorter
// way wait for the others where their ways meet. A turn is bounded by a budget of backward
// branches; when it is spent, the group that waited longest runs next, so lanes that spin on one
// another all get on.
#include <algorithm>

#include "schedule/cluster.h"

namespace softdev {
namespace {

constexpr int32_t kShortTurn = 64;  // backward branches of a turn given out of order

bool before(const Group &a, const Group &b) {
  if (a.frame->depth != b.frame->depth) return a.frame->depth > b.frame->depth;
  return a.pc < b.pc;
}

void remove_group(Warp &warp, uint32_t index) {
  if (index != --warp.group_count) warp.groups[index] = warp.groups[warp.group_count];
}

}  // namespace

void update_merge(Warp &warp) {
  const Ins *nearest = kNoMerge;
  for (uint32_t i = 0; i < warp.group_count; ++i) {
    const Group &group = warp.groups[i];
    if (group.state == GroupState::Ready && group.frame == warp.frame && group.pc < nearest)
      nearest = group.pc;
  }
  warp.merge_at = nearest;
}

Group &park(Warp &warp, const Ins *pc, uint32_t mask, GroupState state) {
  Group &group = warp.groups[warp.group_count++];
  group = Group();
  group.frame = warp.frame;
  group.pc = pc;
  group.mask = mask;
  group.state = state;
  return group;
}

void insert_group(Warp &warp, Frame *frame, const Ins *pc, uint32_t mask) {
  for (uint32_t i = 0; i < warp.group_count; ++i) {
    Group &group = warp.groups[i];
    if (group.state != GroupState::Ready || group.frame != frame || group.pc != pc) continue;
    group.mask |= mask;
    return;
  }
  Group &group = warp.groups[warp.group_count++];
  group = Group();
  group.frame = frame;
  group.pc = pc;
  group.mask = mask;
  group.last_run = warp.turns;
}

// All lanes that have not exited are together, as they nearly always are.
static const Ins *resume_only(Warp &warp) {
  const Group &only = warp.groups[0];
  if (only.state != GroupState::Ready) {
    warp.mask = 0;
    warp.event = Event::Switch;
    return nullptr;
  }
  warp.group_count = 0;
  warp.frame = only.frame;
  warp.regs = only.frame->registers;
  warp.mask = only.mask;
  ++warp.turns;
  warp.budget = warp.rotate ? kShortTurn : kTurn;
  warp.rotate = false;
  warp.merge_at = kNoMerge;
  return only.pc;
}

const Ins *resume(Warp &warp) {
  if (warp.group_count == 1) return resume_only(warp);
  uint32_t best = kNone;
  for (uint32_t i = 0; i < warp.group_count; ++i) {
    const Group &group = warp.groups[i];
    if (group.state != GroupState::Ready) continue;
    if (best == kNone || (warp.rotate ? group.last_run < warp.groups[best].last_run
                                      : before(group, warp.groups[best])))
      best = i;
  }
  if (best == kNone) {
    warp.mask = 0;
    warp.event = Event::Switch;
    return nullptr;
  }
  // Member by member, as they were written a moment ago: a copy of the whole has to wait for that.
  Frame *const frame = warp.groups[best].frame;
  const Ins *const pc = warp.groups[best].pc;
  warp.mask = warp.groups[best].mask;
  remove_group(warp, best);
  ++warp.turns;
  warp.frame = frame;
  warp.regs = frame->registers;
  bool out_of_order = warp.rotate;
  warp.rotate = false;
  warp.budget = out_of_order ? kShortTurn : kTurn;
  if (!out_of_order) {
    update_merge(warp);
    return pc;
  }
  // Lanes that wait behind it must not stop it at its first branch.
  warp.merge_at = kNoMerge;
  for (uint32_t i = 0; i < warp.group_count; ++i) {
    const Group &other = warp.groups[i];
    if (other.state == GroupState::Ready && other.frame == frame && other.pc > pc &&
        other.pc < warp.merge_at)
      warp.merge_at = other.pc;
  }
  return pc;
}

void merge_here(Warp &warp, const Ins *ins) {
  for (uint32_t i = 0; i < warp.group_count;) {
    const Group &group = warp.groups[i];
    if (group.state == GroupState::Ready && group.frame == warp.frame && group.pc == ins) {
      warp.mask |= group.mask;
      remove_group(warp, i);
    } else {
      ++i;
    }
  }
  update_merge(warp);
}

const Ins *arrive(Warp &warp, const Ins *target) {
  if (target == warp.merge_at) {
    merge_here(warp, target);
    if (target < warp.merge_at) return target;
  }
  if (target < warp.merge_at) return target;
  insert_group(warp, warp.frame, target, warp.mask);
  return resume(warp);
}

const Ins *backward(Warp &warp, const Ins *target) {
  insert_group(warp, warp.frame, target, warp.mask);
  // It has just run: every other group comes before it.
  for (uint32_t i = 0; i < warp.group_count; ++i)
    if (warp.groups[i].frame == warp.frame && warp.groups[i].pc == target)
      warp.groups[i].last_run = warp.turns;
  warp.rotate = warp.group_count > 1;
  warp.mask = 0;
  warp.event = Event::Yield;
  return nullptr;
}

const Ins *diverge(Warp &warp, const Ins *ins, const Ins *target, uint32_t taken) {
  uint32_t rest = warp.mask & ~taken;
  const Ins *next = ins + 1;
  if (target > ins) {
    insert_group(warp, warp.frame, target, taken);
    warp.mask = rest;
    if (target < warp.merge_at) warp.merge_at = target;
  } else {
    insert_group(warp, warp.frame, next, rest);
    warp.mask = taken;
    if (next < warp.merge_at) warp.merge_at = next;
    next = target;
    if (--warp.budget < 0) return backward(warp, target);
  }
  return next >= warp.merge_at ? arrive(warp, next) : next;
}

bool gather(Warp &warp, const Ins *ins, uint32_t members) {
  uint32_t need = members & warp.live;
  if ((need & ~warp.mask) == 0) return true;
  for (uint32_t i = 0; i < warp.group_count;) {
    const Group &group = warp.groups[i];
    bool here = group.frame == warp.frame && group.pc == ins &&
                (group.state == GroupState::Ready || group.state == GroupState::AtWarpSync);
    if (here) {
      warp.mask |= group.mask;
      need |= group.wait_for & warp.live;
      remove_group(warp, i);
    } else {
      ++i;
    }
  }
  update_merge(warp);
  if ((need & ~warp.mask) == 0 || warp.force_sync) {
    warp.force_sync = false;
    return true;
  }
  Group &group = park(warp, ins, warp.mask, GroupState::AtWarpSync);
  group.wait_for = need;
  warp.mask = 0;
  warp.event = Event::Switch;
  return false;
}

// bar.warp.sync: lanes may wait at different instructions of the program.
const Ins *run_warp_barrier(Warp &warp, const Ins *ins) {
  const auto *members = reinterpret_cast<const uint32_t *>(warp.regs + ins->a);
  uint32_t need = 0;
  for (uint32_t left = warp.mask; left; left &= left - 1) need |= members[__builtin_ctz(left)];
  need &= warp.live;
  if ((need & ~warp.mask) == 0) return ins + 1;
  uint32_t here = warp.mask;
  for (uint32_t i = 0; i < warp.group_count; ++i)
    if (warp.groups[i].state == GroupState::AtWarpBarrier) here |= warp.groups[i].mask;
  if ((need & ~here) && !warp.force_sync) {
    Group &group = park(warp, ins, warp.mask, GroupState::AtWarpBarrier);
    group.wait_for = need;
    return resume(warp);
  }
  warp.force_sync = false;
  // Those who waited for nobody else go on, each behind its own barrier.
  for (bool again = true; again;) {
    again = false;
    for (uint32_t i = 0; i < warp.group_count; ++i) {
      Group group = warp.groups[i];
      if (group.state != GroupState::AtWarpBarrier || (group.wait_for & warp.live & ~here))
        continue;
      remove_group(warp, i);
      insert_group(warp, group.frame, group.pc + 1, group.mask);
      again = true;
      break;
    }
  }
  insert_group(warp, warp.frame, ins + 1, warp.mask);
  return resume(warp);
}

void exit_lanes(Warp &warp, uint32_t mask) {
  warp.live &= ~mask;
  for (Frame *frame = warp.frame; frame;) {
    Frame *parent = frame->parent;
    frame->lanes &= ~mask;
    if (parent && frame->lanes == 0) warp.cta->release_frame(frame);
    frame = parent;
  }
  warp.mask = 0;
  // Those who waited for the lanes that left look again.
  for (uint32_t i = 0; i < warp.group_count; ++i) {
    Group &group = warp.groups[i];
    if (group.state == GroupState::AtWarpSync || group.state == GroupState::AtWarpBarrier)
      group.state = GroupState::Ready;
  }
  Cta &cta = *warp.cta;
  cta.live_threads -= lane_count(mask);
  cta.cluster->leave(warp, mask);
  for (uint32_t left = cta.barriers_in_use; left; left &= left - 1)
    try_release(cta, static_cast<unsigned>(__builtin_ctz(left)));
}

const Ins *run_exit(Warp &warp, const Ins *) {
  Cta &cta = *warp.cta;
  if (warp.mask == warp.live && !warp.frame->parent && !cta.barriers_in_use) {
    // A whole warp, and nobody looks at how many are left.
    cta.live_threads -= lane_count(warp.mask);
    cta.cluster->leave(warp, warp.mask);
    warp.frame->lanes = 0;
    warp.live = warp.mask = 0;
    warp.event = Event::Switch;
    return nullptr;
  }
  exit_lanes(warp, warp.mask);
  return warp.group_count ? resume(warp) : (warp.event = Event::Switch, nullptr);
}

}  // namespace softdev
