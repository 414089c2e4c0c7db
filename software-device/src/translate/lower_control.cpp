// Branches, barriers and everything that involves several lanes.
#include "translate/lower.h"

namespace softdev {

bool Lowering::branch() {
  take("uni");
  if (!modifiers_done() || !expect_operands(1)) return false;
  const OperandSyntax &to = operand(0);
  // %L may be a label, too.
  if (to.kind != OperandSyntax::Symbol && to.kind != OperandSyntax::Special)
    return refuse("expected a label");
  Ir ir = make(Op::Branch);
  ir.target = find_label(to.name, to.scope);
  if (ir.target == kNone) return refuse("unknown label '" + std::string(to.name) + "'");
  ir.guard = guard_;
  ir.guard_negated = guard_negated_;
  emit(ir);
  return true;
}

// brx.idx index, targets;
bool Lowering::branch_indexed() {
  if (!take("idx")) return refuse("needs .idx");
  take("uni");
  if (!modifiers_done() || !expect_operands(2)) return false;
  const OperandSyntax &list = operand(1);
  if (list.kind != OperandSyntax::Symbol) return refuse("expected the name of .branchtargets");
  const ScopedTargets *targets = nullptr;
  for (const ScopedTargets &candidate : body_.targets)
    if (candidate.name == list.name) targets = &candidate;
  if (!targets) return refuse("unknown .branchtargets '" + std::string(list.name) + "'");
  begin_guarded_region();
  Ir ir = make(Op::BranchIndexed);
  std::vector<uint32_t> labels;
  for (std::string_view name : targets->labels) {
    uint32_t label = find_label(name, targets->scope);
    if (label == kNone) return refuse("unknown label '" + std::string(name) + "'");
    labels.push_back(label);
  }
  if (!source(operand(0), Type::U32, &ir.a)) return false;
  ir.target = static_cast<uint32_t>(out_->branch_tables.size());
  out_->branch_tables.push_back(std::move(labels));
  emit(ir);
  return true;
}

bool Lowering::ret() {
  take("uni");
  if (!modifiers_done() || !expect_operands(0)) return false;
  begin_guarded_region();
  return leave();
}

bool Lowering::exit() {
  if (!modifiers_done() || !expect_operands(0)) return false;
  begin_guarded_region();
  emit(make(Op::Exit));
  return true;
}

bool Lowering::trap() {
  if (!modifiers_done() || !expect_operands(0)) return false;
  begin_guarded_region();
  emit(make(statement_->opcode == "trap" ? Op::Trap : Op::Breakpoint));
  return true;
}

// ---- barriers

// bar[rier][.cta].sync|arrive|red[.popc|and|or][.aligned] a [, b] [, p]      bar.warp.sync mask
bool Lowering::barrier() {
  if (take("warp")) {
    if (!take("sync")) return refuse("needs .sync");
    if (!modifiers_done() || !expect_operands(1)) return false;
    begin_guarded_region();
    Ir ir = make(Op::WarpBarrier);
    if (!source(operand(0), Type::B32, &ir.a)) return false;
    emit(ir);
    return true;
  }
  if (take("cluster")) {
    bool arrive = take("arrive"), wait = take("wait");
    if (arrive == wait) return refuse("needs .arrive or .wait");
    if (wait)
      take("acquire");
    else if (!take("release"))
      take("relaxed");
    take("aligned");
    if (!modifiers_done() || !expect_operands(0)) return false;
    begin_guarded_region();
    Ir ir = make(Op::ClusterBarrier);
    ir.mode = wait;
    emit(ir);
    return true;
  }
  take("cta");
  if (statement_->opcode == "barrier") take("aligned");  // bar always is
  Ir ir = make(Op::Barrier);
  BarrierMode mode = BarrierMode::Sync;
  if (take("arrive")) {
    mode = BarrierMode::Arrive;
  } else if (take("red")) {
    if (take("popc"))
      mode = BarrierMode::Popc;
    else if (take("and"))
      mode = BarrierMode::And;
    else if (take("or"))
      mode = BarrierMode::Or;
    else
      return refuse("needs .popc, .and or .or");
    Type type = take_type();
    if (type != (mode == BarrierMode::Popc ? Type::U32 : Type::Pred)) return refuse("bad type");
  } else if (!take("sync")) {
    return refuse("needs .sync, .arrive or .red");
  }
  if (!modifiers_done()) return false;
  begin_guarded_region();
  ir.mode = static_cast<uint8_t>(mode);
  bool red = mode >= BarrierMode::Popc;
  if (!expect_operands(red ? 3 : mode == BarrierMode::Arrive ? 2 : 1, red ? 4 : 2)) return false;
  uint32_t at = 0;
  if (mode == BarrierMode::Popc) {
    if (!destination(operand(at++), 4, &ir.d)) return false;
  } else if (red) {
    if (operand(at).kind != OperandSyntax::Register ||
        !predicate_destination(operand(at).reg, &ir.d))
      return refuse("the destination must be a predicate");
    ++at;
  }
  if (!source(operand(at++), Type::U32, &ir.a)) return false;
  uint32_t left = operand_count() - at - (red ? 1 : 0);
  if (left == 1 && !source(operand(at++), Type::U32, &ir.b)) return false;
  if (red && !predicate_source(operand(at++), &ir.c, &ir.negate_c)) return false;
  emit(ir);
  return true;
}

// ---- exchange between lanes

// shfl.sync.mode.b32 d[|p], a, b, c, membermask
bool Lowering::shuffle() {
  bool sync = take("sync");
  if (!sync && surroundings_.module().target >= 70) return refuse("needs shfl.sync since sm_70");
  Ir ir = make(Op::Shuffle);
  ShuffleMode mode;
  if (take("up"))
    mode = ShuffleMode::Up;
  else if (take("down"))
    mode = ShuffleMode::Down;
  else if (take("bfly"))
    mode = ShuffleMode::Bfly;
  else if (take("idx"))
    mode = ShuffleMode::Idx;
  else
    return refuse("needs .up, .down, .bfly or .idx");
  ir.mode = static_cast<uint8_t>(mode);
  ir.type = take_type();
  if (ir.type == Type::None || type_size(ir.type) != 4) return refuse("needs .b32");
  if (!modifiers_done() || !expect_operands(sync ? 5 : 4)) return false;
  begin_guarded_region();
  const OperandSyntax &to = operand(0);
  OperandSyntax plain = to;
  plain.pair = kNone;
  if (!destination(plain, 4, &ir.d)) return false;
  if (to.pair != kNone && !predicate_destination(to.pair, &ir.d2)) return false;
  if (!source(operand(1), Type::B32, &ir.a) || !source(operand(2), Type::B32, &ir.b) ||
      !source(operand(3), Type::B32, &ir.c))
    return false;
  if (!sync)
    ir.e = lanes_here();
  else if (!source(operand(4), Type::B32, &ir.e))
    return false;
  emit(ir);
  return true;
}

// vote.sync.mode.pred|b32 d, [!]a, membermask
bool Lowering::vote() {
  bool sync = take("sync");
  if (!sync && surroundings_.module().target >= 70) return refuse("needs vote.sync since sm_70");
  Ir ir = make(Op::Vote);
  VoteMode mode;
  if (take("all"))
    mode = VoteMode::All;
  else if (take("any"))
    mode = VoteMode::Any;
  else if (take("uni"))
    mode = VoteMode::Uni;
  else if (take("ballot"))
    mode = VoteMode::Ballot;
  else
    return refuse("needs .all, .any, .uni or .ballot");
  ir.mode = static_cast<uint8_t>(mode);
  ir.type = take_type();
  if (ir.type != (mode == VoteMode::Ballot ? Type::B32 : Type::Pred)) return refuse("bad type");
  if (!modifiers_done() || !expect_operands(sync ? 3 : 2)) return false;
  begin_guarded_region();
  if (mode == VoteMode::Ballot) {
    if (!destination(operand(0), 4, &ir.d)) return false;
  } else if (operand(0).kind != OperandSyntax::Register ||
             !predicate_destination(operand(0).reg, &ir.d)) {
    return refuse("the destination must be a predicate");
  }
  if (!predicate_source(operand(1), &ir.a, &ir.negate_a)) return false;
  if (!sync)
    ir.e = lanes_here();
  else if (!source(operand(2), Type::B32, &ir.e))
    return false;
  emit(ir);
  return true;
}

// The members of an exchange that names none, as before ISA 6.0: the lanes that run.
Value Lowering::lanes_here() {
  Ir ir = make(Op::ActiveMask);
  ir.d = temporary(Type::B32);
  emit(ir);
  return ir.d;
}

// match.any.sync.b32 d, a, membermask      match.all.sync.b32 d[|p], a, membermask
bool Lowering::match() {
  Ir ir = make(Op::Match);
  bool any = take("any"), all = take("all");
  if (any == all || !take("sync")) return refuse("needs .any or .all, and .sync");
  ir.mode = all;
  ir.type2 = take_type();
  ir.type = Type::B32;
  if (ir.type2 != Type::B32 && ir.type2 != Type::B64) return refuse("needs .b32 or .b64");
  if (!modifiers_done() || !expect_operands(3)) return false;
  begin_guarded_region();
  OperandSyntax plain = operand(0);
  plain.pair = kNone;
  if (!destination(plain, 4, &ir.d)) return false;
  if (operand(0).pair != kNone && !predicate_destination(operand(0).pair, &ir.d2)) return false;
  if (!source(operand(1), ir.type2, &ir.a) || !source(operand(2), Type::B32, &ir.e)) return false;
  emit(ir);
  return true;
}

// redux.sync.op.type d, a, membermask
bool Lowering::redux() {
  Ir ir = make(Op::Redux);
  if (!take("sync")) return refuse("needs .sync");
  auto op = take_atomic_op(
      {AtomicOp::Add, AtomicOp::Min, AtomicOp::Max, AtomicOp::And, AtomicOp::Or, AtomicOp::Xor});
  if (op) ir.mode = static_cast<uint8_t>(*op);
  bool magnitude = take("abs");
  ir.nan = take("NaN");
  ir.type = take_type();
  if (!op || type_size(ir.type) != 4) return refuse("needs an operation and a 32-bit type");
  if ((magnitude || ir.nan) && ir.type != Type::F32) return refuse("this modifier needs .f32");
  if (!modifiers_done() || !expect_operands(3)) return false;
  begin_guarded_region();
  if (!destination(operand(0), 4, &ir.d) || !source(operand(1), ir.type, &ir.a) ||
      !source(operand(2), Type::B32, &ir.e))
    return false;
  if (magnitude) {
    Ir positive = make(Op::And);
    positive.type = Type::B32;
    positive.a = ir.a;
    positive.b = bits(0x7fffffff, 4);
    ir.a = positive.d = temporary(Type::B32);
    emit(positive);
  }
  emit(ir);
  return true;
}

// elect.sync d|p, membermask
bool Lowering::elect() {
  Ir ir = make(Op::Elect);
  if (!take("sync")) return refuse("needs .sync");
  if (!modifiers_done() || !expect_operands(2)) return false;
  begin_guarded_region();
  const OperandSyntax &to = operand(0);
  OperandSyntax plain = to;
  plain.pair = kNone;
  if (!destination(plain, 4, &ir.d)) return false;
  if (to.pair != kNone && !predicate_destination(to.pair, &ir.d2)) return false;
  if (!source(operand(1), Type::B32, &ir.e)) return false;
  emit(ir);
  return true;
}

bool Lowering::active_mask() {
  Ir ir = make(Op::ActiveMask);
  if (take_type() != Type::B32) return refuse("needs .b32");
  if (!modifiers_done() || !expect_operands(1)) return false;
  begin_guarded_region();
  if (!destination(operand(0), 4, &ir.d)) return false;
  emit(ir);
  return true;
}

bool Lowering::nanosleep() {
  Ir ir = make(Op::NanoSleep);
  if (take_type() != Type::U32) return refuse("needs .u32");
  if (!modifiers_done() || !expect_operands(1)) return false;
  begin_guarded_region();
  emit(ir);
  return true;
}

}  // namespace softdev
