// Control flow handlers: the same for all instruction sets.
#include <chrono>
#include <thread>

#include "execute/select.h"
#include "schedule/grid.h"

namespace softdev {

const Ins *run_branch(Warp &warp, const Ins *ins) {
  uint32_t predicate;
  __builtin_memcpy(&predicate, warp.regs + ins->guard, 4);
  if (ins->flags & kNegateGuard) predicate = ~predicate;
  return branch(warp, ins, warp.mask & predicate);
}

const Ins *run_branch_always(Warp &warp, const Ins *ins) { return branch_always(warp, ins); }

const Ins *run_branch_indexed(Warp &warp, const Ins *ins) {
  const auto *index = reinterpret_cast<const uint32_t *>(warp.regs + ins->a);
  for (uint32_t left = warp.mask; left;) {
    uint32_t value = index[__builtin_ctz(left)];
    uint32_t same = 0;
    for (uint32_t rest = left; rest; rest &= rest - 1)
      if (index[__builtin_ctz(rest)] == value) same |= rest & (0 - rest);
    // The lanes of an index out of range are undefined; they fall through.
    bool known = value < static_cast<uint64_t>(ins->imm);
    insert_group(warp, warp.frame, known ? ins->table[value] : ins + 1, same);
    left &= ~same;
  }
  return resume(warp);
}

const Ins *run_label(Warp &warp, const Ins *ins) {
  if (ins == warp.merge_at) merge_here(warp, ins);
  return go_on(warp, ins + 1);
}

const Ins *run_guard(Warp &warp, const Ins *ins) {
  uint32_t predicate;
  __builtin_memcpy(&predicate, warp.regs + ins->a, 4);
  if (ins->flags & kNegateGuard) predicate = ~predicate;
  uint32_t mask = warp.mask;
  // As if it had no guard; it may lead straight to the instruction behind it.
  if ((mask & ~predicate) == 0) return ins + 1;
  warp.mask = mask & predicate;
  const Ins *next = ins + 2;
  if (warp.mask) next = ins[1].run(warp, ins + 1);
  warp.mask = mask;
  return next;
}

const Ins *run_active_mask(Warp &warp, const Ins *ins) {
  merge_here(warp, ins);
  auto *d = reinterpret_cast<uint32_t *>(warp.regs + ins->d);
  for (uint32_t left = warp.mask; left; left &= left - 1) d[__builtin_ctz(left)] = warp.mask;
  return ins + 1;
}

const Ins *run_nanosleep(Warp &warp, const Ins *ins) {
  insert_group(warp, warp.frame, ins + 1, warp.mask);
  warp.rotate = warp.group_count > 1;
  warp.mask = 0;
  warp.event = Event::Yield;
  return nullptr;
}

const Ins *run_clock(Warp &warp, const Ins *ins) {
  using namespace std::chrono;
  uint64_t value;
  auto which = static_cast<Special>(ins->mode);
  if (which >= Special::GlobalTimer)
    value = static_cast<uint64_t>(
        duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count());
  else  // a clock of 1 GHz that never goes back
    value = static_cast<uint64_t>(
        duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count());
  if (which == Special::ClockHi || which == Special::GlobalTimerHi) value >>= 32;
  bool wide = ins->count == 8;
  for (uint32_t left = warp.mask; left; left &= left - 1) {
    unsigned lane = static_cast<unsigned>(__builtin_ctz(left));
    if (wide)
      reinterpret_cast<uint64_t *>(warp.regs + ins->d)[lane] = value;
    else
      reinterpret_cast<uint32_t *>(warp.regs + ins->d)[lane] = static_cast<uint32_t>(value);
  }
  // Loops that wait for time to pass let others on.
  warp.budget -= 64;
  return ins + 1;
}

Handler select_control(const Ir &ir) {
  switch (ir.op) {
    case Op::Label:
      return run_label;
    case Op::Branch:
      return ir.guard ? run_branch : run_branch_always;
    case Op::BranchIndexed:
      return run_branch_indexed;
    case Op::Call:
      return run_call;
    case Op::CallIndirect:
      return run_call_indirect;
    case Op::CallBuiltin:
      return run_call_builtin;
    case Op::Return:
      return run_return;
    case Op::Exit:
      return run_exit;
    case Op::Trap:
    case Op::Breakpoint:
      return run_trap;
    case Op::Barrier:
      return run_barrier;
    case Op::WarpBarrier:
      return run_warp_barrier;
    case Op::Guard:
      return run_guard;
    case Op::Clock:
      return run_clock;
    case Op::NanoSleep:
      return run_nanosleep;
    case Op::ActiveMask:
      return run_active_mask;
    case Op::Alloca:
      return run_alloca;
    case Op::StackSave:
      return run_stack_save;
    case Op::StackRestore:
      return run_stack_restore;
    case Op::Mbarrier:
      return select_mbarrier(ir);
    default:
      return select_cluster(ir);
  }
}

}  // namespace softdev
