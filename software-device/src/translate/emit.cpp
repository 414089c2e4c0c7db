#include "translate/passes.h"

namespace softdev {
namespace {

// Instructions that look at their guard themselves.
bool has_own_guard(Op op) { return op == Op::Branch; }

// Constants of which somebody reads all lanes.
std::vector<bool> read_whole(const FunctionIr &ir) {
  std::vector<bool> whole(ir.constants.size(), false);
  for (const Ir &one : ir.code)
    for_each_read(ir, one, [&](Value value) {
      const bool first = one.shaped && one.op != Op::Load && one.op != Op::Store;
      if (value.kind == Value::Const && !first) whole[value.index] = true;
    });
  return whole;
}

void sort_fill(const SlotFill &fill, Function *out) {
  if (fill.constant.kind != Constant::Special) {
    out->launch_fills.push_back(fill);
    return;
  }
  switch (static_cast<Special>(fill.constant.payload)) {
    case Special::TidX:
    case Special::TidY:
    case Special::TidZ:
    case Special::WarpId:
      out->warp_fills.push_back(fill);
      break;
    case Special::CtaidX:
    case Special::CtaidY:
    case Special::CtaidZ:
    case Special::SmId:
    case Special::ClusterCtaidX:
    case Special::ClusterCtaidY:
    case Special::ClusterCtaidZ:
    case Special::ClusterRank:
    case Special::ClusterIdX:
    case Special::ClusterIdY:
    case Special::ClusterIdZ:
      out->block_fills.push_back(fill);
      break;
    default:
      out->launch_fills.push_back(fill);
      break;
  }
}

}  // namespace

void emit_code(const FunctionIr &ir, const Slots &slots, Handler guard,
               const std::function<const Function *(uint32_t)> &callee, Function *out) {
  out->register_bytes = slots.bytes;
  out->registers = (slots.bytes - slots.lasting_bytes) / 128 - 2 * ir.remembered;
  out->frame_bytes = ir.frame_bytes;
  out->uses_alloca = ir.uses_alloca;
  const std::vector<bool> whole = read_whole(ir);
  for (size_t i = 0; i < ir.constants.size(); ++i)
    if (slots.constants[i] != kNone)
      sort_fill({ir.constants[i], slots.constants[i], !whole[i]}, out);

  // Labels that are branched to keep an instruction: it is where waiting lanes join.
  std::vector<bool> used(ir.labels, false);
  for (const Ir &one : ir.code) {
    if (one.op == Op::Branch) used[one.target] = true;
    if (one.op == Op::BranchIndexed)
      for (uint32_t label : ir.branch_tables[one.target]) used[label] = true;
  }
  size_t total = 0;
  for (const Ir &one : ir.code) {
    if (one.op == Op::Label && !used[one.target]) continue;
    total += one.guard && !has_own_guard(one.op) ? 2 : 1;
  }
  out->code.reserve(total);  // targets are pointers into it
  std::vector<uint32_t> label_at(ir.labels, kNone);
  std::vector<const CallCode *> calls;
  auto slot = [&](Value value) {
    return value.is_reg() ? slots.registers[value.index]
           : value        ? slots.constants[value.index]
                          : kNone;
  };
  auto call_code = [&](uint32_t site_index) {
    const CallSite &site = ir.calls[site_index];
    auto code = std::make_unique<CallCode>();
    if (site.callee != kNone) code->callee = callee(site.callee);
    code->builtin = site.builtin;
    code->arguments = site.arguments;
    code->results = site.results;
    out->calls.push_back(std::move(code));
    return out->calls.back().get();
  };

  for (const Ir &one : ir.code) {
    if (one.op == Op::Label && !used[one.target]) continue;
    Ins ins;
    if (one.guard && !has_own_guard(one.op)) {
      ins.run = guard;
      ins.a = slot(one.guard);
      ins.flags = one.guard_negated ? kNegateGuard : 0;
      out->code.push_back(ins);
      out->statements.push_back(one.statement);
      ins = Ins();
    }
    ins.run = one.handler;
    ins.d = slot(one.d);
    ins.a = slot(one.a);
    ins.b = slot(one.b);
    ins.c = slot(one.c);
    ins.e = one.d2 ? slot(one.d2) : slot(one.e);
    ins.imm = one.offset;
    ins.mode = one.mode;
    ins.flags =
        static_cast<uint16_t>((one.negate_a ? kNegateA : 0) | (one.negate_b ? kNegateB : 0) |
                              (one.negate_c ? kNegateC : 0) | (one.d2 ? kHasSecond : 0) |
                              (one.boolean != Boolean::None ? kHasCombine : 0));
    if (one.list_count) {
      ins.count = static_cast<uint8_t>(one.list_count);
      auto list = std::make_unique<uint32_t[]>(one.list_count);
      for (uint32_t i = 0; i < one.list_count; ++i) list[i] = slot(ir.values[one.list + i]);
      ins.list = list.get();
      out->lists.push_back(std::move(list));
    }
    switch (one.op) {
      case Op::Load:
      case Op::Store:
      case Op::Barrier:
        if (one.a.kind == Value::Const && ir.constants[one.a.index].kind != Constant::Special)
          ins.flags |= kSameA;
        if (one.unaligned) ins.flags |= kUnaligned;
        break;
      case Op::Label:
        label_at[one.target] = static_cast<uint32_t>(out->code.size());
        break;
      case Op::Branch:
        ins.guard = slot(one.guard);
        ins.flags = one.guard_negated ? kNegateGuard : 0;
        break;
      case Op::BranchIndexed:
        ins.imm = one.target;
        break;
      case Op::Call:
      case Op::CallIndirect:
      case Op::CallBuiltin:
        ins.call = call_code(one.target);
        break;
      case Op::Clock:
        ins.count = static_cast<uint8_t>(type_size(one.type));
        break;
      case Op::Setp:
      case Op::Set:
        ins.mode = static_cast<uint8_t>(one.boolean);
        if (one.op == Op::Set) ins.count = static_cast<uint8_t>(one.type);
        break;
      case Op::AddCarry:
      case Op::SubCarry:
      case Op::MadCarry:
        // both ends of the chain are one predicate
        ins.e = one.d2 ? slot(one.d2) : kNone;
        ins.guard = one.e ? slot(one.e) : kNone;
        break;
      case Op::Atomic:  // how many of the list are results
        ins.mode = static_cast<uint8_t>(one.list_written);
        break;
      case Op::Shuffle:
      case Op::Vote:
      case Op::Match:
      case Op::Redux:
      case Op::Elect:
        ins.e = one.d2 ? slot(one.d2) : kNone;
        ins.guard = slot(one.e);  // the member mask
        break;
      default:
        break;
    }
    if (one.op != Op::Branch && one.round != Round::None && one.op != Op::Setp)
      ins.mode = ins.mode ? ins.mode : static_cast<uint8_t>(one.round);
    out->code.push_back(ins);
    out->statements.push_back(one.statement);
  }

  size_t at = 0;
  for (const Ir &one : ir.code) {
    if (one.op == Op::Label && !used[one.target]) continue;
    if (one.guard && !has_own_guard(one.op)) ++at;
    Ins &ins = out->code[at++];
    if (one.op == Op::Branch) {
      ins.target = &out->code[label_at[one.target]];
    } else if (one.op == Op::BranchIndexed) {
      const auto &labels = ir.branch_tables[one.target];
      auto table = std::make_unique<const Ins *[]>(labels.size());
      for (size_t i = 0; i < labels.size(); ++i) table[i] = &out->code[label_at[labels[i]]];
      ins.table = table.get();
      ins.imm = static_cast<int64_t>(labels.size());
      out->tables.push_back(std::move(table));
    }
  }
}

}  // namespace softdev
