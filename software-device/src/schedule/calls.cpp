// Calls of functions in the module. Parameters and results pass through the stack of each lane:
// the callee's frame, which begins with them, lies behind the caller's.
#include <algorithm>
#include <cstring>

#include "schedule/grid.h"

namespace softdev {
namespace {

enum : int { kStackError = 714 };

// Where alloca's memory begins.
uint32_t end_of(const Frame &frame) {
  return frame.local + frame_size(frame.function->frame_bytes);
}

// Where the frame of a callee begins: the same place for all lanes that call.
uint32_t next_frame(const Warp &warp, const Frame &frame) {
  uint32_t most = 0;
  if (frame.function->uses_alloca)
    for (uint32_t left = warp.mask; left; left &= left - 1)
      most = std::max(most, frame.allocated[__builtin_ctz(left)]);
  return end_of(frame) + ((most + 15) & ~15u);
}

void copy(const Warp &warp, const std::vector<CallSite::Copy> &copies, uint32_t local,
          uint32_t remote, bool to_remote) {
  for (uint32_t left = warp.mask; left; left &= left - 1) {
    auto lane = static_cast<size_t>(__builtin_ctz(left));
    uint8_t *stack = warp.local + lane * warp.local_stride;
    for (const CallSite::Copy &one : copies) {
      uint8_t *here = stack + local + one.local, *there = stack + remote + one.remote;
      if (to_remote)
        std::memcpy(there, here, one.size);
      else
        std::memcpy(here, there, one.size);
    }
  }
}

const Ins *enter(Warp &warp, const Ins *ins, const Function *callee) {
  Frame *caller = warp.frame;
  uint32_t local = next_frame(warp, *caller);
  if (uint64_t{local} + callee->frame_bytes > warp.local_stride)
    return fault(warp, ins, kStackError, "the stack of local memory overflows");
  Frame *frame = warp.cta->take_frame(warp, callee);
  if (!frame) return fault(warp, ins, kStackError, "calls are nested too deeply");
  copy(warp, ins->call->arguments, caller->local, local, true);
  frame->parent = caller;
  frame->return_to = ins + 1;
  frame->depth = caller->depth + 1;
  frame->lanes = warp.mask;
  frame->local = local;
  frame->call = ins->call;
  if (callee->uses_alloca) std::fill_n(frame->allocated, kLanes, 0u);
  warp.frame = frame;
  warp.regs = frame->registers;
  warp.merge_at = kNoMerge;
  return callee->code.data();
}

}  // namespace

const Ins *run_call(Warp &warp, const Ins *ins) { return enter(warp, ins, ins->call->callee); }

const Ins *run_call_indirect(Warp &warp, const Ins *ins) {
  const auto *pointers = reinterpret_cast<const uint64_t *>(warp.regs + ins->a);
  uint64_t pointer = pointers[__builtin_ctz(warp.mask)];
  uint32_t same = 0;
  for (uint32_t left = warp.mask; left; left &= left - 1) {
    auto lane = static_cast<unsigned>(__builtin_ctz(left));
    if (pointers[lane] == pointer) same |= 1u << lane;
  }
  if (same != warp.mask) {
    // The other lanes come here again, without these.
    insert_group(warp, warp.frame, ins, warp.mask & ~same);
    warp.mask = same;
  }
  const auto &functions = warp.cta->grid->executable->by_module_index;
  uint32_t index = ProgramImpl::function_at(pointer);
  const Function *callee = index < functions.size() ? functions[index] : nullptr;
  if (!callee) return fault(warp, ins, 718, "a call through a pointer to no known function");
  // The prototype at the call decides what is copied: it must fit.
  for (const auto *copies : {&ins->call->arguments, &ins->call->results})
    for (const CallSite::Copy &one : *copies)
      if (uint64_t{one.remote} + one.size > callee->frame_bytes)
        return fault(warp, ins, 718, "a call through a pointer with the wrong signature");
  return enter(warp, ins, callee);
}

const Ins *run_return(Warp &warp, const Ins *) {
  Frame *frame = warp.frame;
  Frame *caller = frame->parent;
  copy(warp, frame->call->results, caller->local, frame->local, false);
  frame->lanes &= ~warp.mask;
  insert_group(warp, caller, frame->return_to, warp.mask);
  if (frame->lanes == 0) warp.cta->release_frame(frame);
  return resume(warp);
}

// alloca ptr, size, align: ins->imm is the alignment.
const Ins *run_alloca(Warp &warp, const Ins *ins) {
  Frame &frame = *warp.frame;
  const auto *sizes = reinterpret_cast<const uint64_t *>(warp.regs + ins->a);
  auto *d = reinterpret_cast<uint64_t *>(warp.regs + ins->d);
  const auto align = static_cast<uint64_t>(ins->imm);
  for (uint32_t left = warp.mask; left; left &= left - 1) {
    auto lane = static_cast<unsigned>(__builtin_ctz(left));
    uint64_t stack = reinterpret_cast<uint64_t>(warp.local) + uint64_t{lane} * warp.local_stride;
    uint64_t begin = stack + end_of(frame) + frame.allocated[lane];
    begin = (begin + align - 1) & ~(align - 1);
    uint64_t at = begin - stack;
    if (at > warp.local_stride || warp.local_stride - at < sizes[lane])
      return fault(warp, ins, kStackError, "the stack of local memory overflows");
    frame.allocated[lane] = static_cast<uint32_t>(at + sizes[lane]) - end_of(frame);
    d[lane] = begin;
  }
  return ins + 1;
}

const Ins *run_stack_save(Warp &warp, const Ins *ins) {
  auto *d = reinterpret_cast<uint64_t *>(warp.regs + ins->d);
  for (uint32_t left = warp.mask; left; left &= left - 1) {
    auto lane = static_cast<unsigned>(__builtin_ctz(left));
    d[lane] = reinterpret_cast<uint64_t>(warp.local) + uint64_t{lane} * warp.local_stride +
              end_of(*warp.frame) + warp.frame->allocated[lane];
  }
  return ins + 1;
}

const Ins *run_stack_restore(Warp &warp, const Ins *ins) {
  const auto *a = reinterpret_cast<const uint64_t *>(warp.regs + ins->a);
  for (uint32_t left = warp.mask; left; left &= left - 1) {
    auto lane = static_cast<unsigned>(__builtin_ctz(left));
    uint64_t begin = reinterpret_cast<uint64_t>(warp.local) + uint64_t{lane} * warp.local_stride +
                     end_of(*warp.frame);
    if (a[lane] - begin > warp.frame->allocated[lane])
      return fault(warp, ins, kStackError, "stackrestore to a place that is not on the stack");
    warp.frame->allocated[lane] = static_cast<uint32_t>(a[lane] - begin);
  }
  return ins + 1;
}

}  // namespace softdev
