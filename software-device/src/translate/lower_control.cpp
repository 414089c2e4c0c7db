// Branches, calls, barriers and everything that involves several lanes.
#include "translate/lower.h"

namespace softdev {

bool Lowering::branch() {
  take("uni");
  if (!modifiers_done() || !expect_operands(1)) return false;
  const OperandSyntax &to = operand(0);
  if (to.kind != OperandSyntax::Symbol) return refuse("expected a label");
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
  emit(make(function_.entry ? Op::Exit : Op::Return));
  return true;
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

// ---- calls

bool Lowering::call_site(const Signature &signature, const OperandSyntax *results,
                         const OperandSyntax *arguments, CallSite *site) {
  FrameLayout layout = frame_layout(signature);
  auto connect = [&](const OperandSyntax *list, const std::vector<VariableSyntax> &formals,
                     const std::vector<uint32_t> &offsets, std::vector<CallSite::Copy> *copies) {
    uint32_t count = list ? list->count : 0;
    if (count != formals.size()) return refuse("wrong number of arguments or results");
    for (uint32_t i = 0; i < count; ++i) {
      const OperandSyntax &actual = body_.operands[list->first + i];
      const VariableSyntax *variable =
          actual.kind == OperandSyntax::Symbol ? find_variable(actual.name, actual.scope) : nullptr;
      auto at =
          variable && variable->space == Space::Param ? local_offset(*variable) : std::nullopt;
      if (!at) return refuse("arguments and results must be .param variables");
      if (formals[i].space != Space::Param) return refuse(".reg parameters are not supported");
      if (variable->size != formals[i].size) return refuse("an argument has the wrong size");
      copies->push_back({*at, offsets[i], static_cast<uint32_t>(variable->size)});
    }
    return true;
  };
  return connect(arguments, signature.parameters, layout.parameters, &site->arguments) &&
         connect(results, signature.results, layout.results, &site->results);
}

bool Lowering::call_builtin(std::string_view name, const OperandSyntax *results,
                            const OperandSyntax *arguments, bool *known) {
  static constexpr std::pair<std::string_view, Builtin> kBuiltins[] = {
      {"vprintf", Builtin::Printf},
      {"__assertfail", Builtin::Assert},
      {"malloc", Builtin::Malloc},
      {"free", Builtin::Free},
  };
  static constexpr unsigned kArguments[] = {2, 5, 1, 1};
  *known = false;
  for (auto [candidate, builtin] : kBuiltins) {
    if (candidate != name) continue;
    *known = true;
    const ModuleSyntax &module = surroundings_.module();
    auto found = module.function_by_name.find(name);
    const Signature &signature = module.functions[found->second].signature;
    bool gives = builtin == Builtin::Printf || builtin == Builtin::Malloc;
    if (signature.parameters.size() != kArguments[static_cast<int>(builtin)] ||
        signature.results.size() > 1 || (signature.results.size() == 1) != gives)
      return refuse("this function has an unknown signature");
    CallSite site;
    site.builtin = builtin;
    OperandSyntax no_results;
    if (!call_site(signature, results, arguments, &site)) return false;
    Ir ir = make(Op::CallBuiltin);
    ir.mode = static_cast<uint8_t>(builtin);
    ir.target = static_cast<uint32_t>(out_->calls.size());
    out_->calls.push_back(std::move(site));
    emit(ir);
  }
  return true;
}

// call [(results),] function [, (arguments)] [, prototype]
bool Lowering::call() {
  take("uni");
  if (!modifiers_done() || !expect_operands(1, 4)) return false;
  uint32_t at = 0;
  const OperandSyntax *results = nullptr, *arguments = nullptr;
  if (operand(at).kind == OperandSyntax::List) results = &operand(at++);
  if (at == operand_count()) return refuse("no function");
  const OperandSyntax &callee = operand(at++);
  if (at < operand_count() && operand(at).kind == OperandSyntax::List) arguments = &operand(at++);
  begin_guarded_region();
  const ModuleSyntax &module = surroundings_.module();

  CallSite site;
  Ir ir = make(Op::Call);
  if (callee.kind == OperandSyntax::Symbol) {
    auto found = module.function_by_name.find(callee.name);
    if (found == module.function_by_name.end())
      return refuse("unknown function '" + std::string(callee.name) + "'");
    const FunctionSyntax &function = module.functions[found->second];
    if (function.entry) return refuse("a kernel cannot be called");
    if (!function.body) {
      bool known = false;
      if (!call_builtin(function.name, results, arguments, &known)) return false;
      if (known) return true;
      return refuse("function '" + std::string(callee.name) + "' is not defined in this module");
    }
    if (!call_site(function.signature, results, arguments, &site)) return false;
    site.callee = surroundings_.reach_function(found->second);
  } else if (callee.kind == OperandSyntax::Register) {
    if (at >= operand_count() || operand(at).kind != OperandSyntax::Symbol)
      return refuse("an indirect call needs a prototype");
    const Signature *signature = nullptr;
    for (const ScopedPrototype &prototype : body_.prototypes)
      if (prototype.name == operand(at).name) signature = &prototype.signature;
    if (!signature) return refuse("unknown prototype '" + std::string(operand(at).name) + "'");
    if (!call_site(*signature, results, arguments, &site)) return false;
    ir.op = Op::CallIndirect;
    if (!source(callee, Type::U64, &ir.a)) return false;
    surroundings_.reach_all_pointed_at();
  } else {
    return refuse("expected a function");
  }
  ir.target = static_cast<uint32_t>(out_->calls.size());
  Ir finish = make(Op::CallFinish);
  finish.target = ir.target;
  bool gives = !site.results.empty();
  out_->calls.push_back(std::move(site));
  emit(ir);
  if (gives) emit(finish);
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
    // A cluster of one block.
    bool arrive = take("arrive"), wait = take("wait");
    take("aligned");
    take("release");
    take("acquire");
    take("relaxed");
    if (!modifiers_done() || !expect_operands(0)) return false;
    begin_guarded_region();
    if (arrive == wait) return refuse("needs .arrive or .wait");
    return refuse("barrier.cluster is not supported");
  }
  take("cta");
  take("aligned");
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
  if (!take("sync")) return refuse("only shfl.sync is supported");
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
  if (!modifiers_done() || !expect_operands(5)) return false;
  begin_guarded_region();
  const OperandSyntax &to = operand(0);
  OperandSyntax plain = to;
  plain.pair = kNone;
  if (!destination(plain, 4, &ir.d)) return false;
  if (to.pair != kNone && !predicate_destination(to.pair, &ir.d2)) return false;
  if (!source(operand(1), Type::B32, &ir.a) || !source(operand(2), Type::B32, &ir.b) ||
      !source(operand(3), Type::B32, &ir.c) || !source(operand(4), Type::B32, &ir.e))
    return false;
  emit(ir);
  return true;
}

// vote.sync.mode.pred|b32 d, [!]a, membermask
bool Lowering::vote() {
  if (!take("sync")) return refuse("only vote.sync is supported");
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
  if (!modifiers_done() || !expect_operands(3)) return false;
  begin_guarded_region();
  if (mode == VoteMode::Ballot) {
    if (!destination(operand(0), 4, &ir.d)) return false;
  } else if (operand(0).kind != OperandSyntax::Register ||
             !predicate_destination(operand(0).reg, &ir.d)) {
    return refuse("the destination must be a predicate");
  }
  if (!predicate_source(operand(1), &ir.a, &ir.negate_a) || !source(operand(2), Type::B32, &ir.e))
    return false;
  emit(ir);
  return true;
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
  static constexpr std::pair<std::string_view, AtomicOp> kOps[] = {
      {"add", AtomicOp::Add}, {"min", AtomicOp::Min}, {"max", AtomicOp::Max},
      {"and", AtomicOp::And}, {"or", AtomicOp::Or},   {"xor", AtomicOp::Xor}};
  bool known = false;
  for (auto [name, op] : kOps) {
    if (!take(name)) continue;
    ir.mode = static_cast<uint8_t>(op);
    known = true;
    break;
  }
  ir.type = take_type();
  if (!known || type_size(ir.type) != 4) return refuse("needs an operation and a 32-bit type");
  if (!modifiers_done() || !expect_operands(3)) return false;
  begin_guarded_region();
  if (!destination(operand(0), 4, &ir.d) || !source(operand(1), ir.type, &ir.a) ||
      !source(operand(2), Type::B32, &ir.e))
    return false;
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
  if (to.kind == OperandSyntax::Sink) return refuse("needs a predicate");
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

// ---- the table

const std::unordered_map<std::string_view, Lowering::Row> &Lowering::table() {
  using L = Lowering;
  static const std::unordered_map<std::string_view, Row> kTable = {
      {"add", {&L::plain, Op::Add, 2, kRound | kFtz | kSat | kCarry}},
      {"sub", {&L::plain, Op::Sub, 2, kRound | kFtz | kSat | kCarry}},
      {"addc", {&L::plain, Op::Add, 2, kCarry}},
      {"subc", {&L::plain, Op::Sub, 2, kCarry}},
      {"div", {&L::plain, Op::Div, 2, kRound | kApprox | kFull | kFtz | kNeedApproxOrRound}},
      {"rem", {&L::plain, Op::Rem, 2, 0}},
      {"neg", {&L::plain, Op::Neg, 1, kFtz}},
      {"abs", {&L::plain, Op::Abs, 1, kFtz}},
      {"min", {&L::plain, Op::Min, 2, kFtz | kNan | kRelu}},
      {"max", {&L::plain, Op::Max, 2, kFtz | kNan | kRelu}},
      {"copysign", {&L::plain, Op::Copysign, 2, 0}},
      {"rcp", {&L::plain, Op::Rcp, 1, kRound | kApprox | kFtz | kNeedApproxOrRound}},
      {"sqrt", {&L::plain, Op::Sqrt, 1, kRound | kApprox | kFtz | kNeedApproxOrRound}},
      {"rsqrt", {&L::plain, Op::Rsqrt, 1, kApprox | kFtz | kNeedApproxOrRound}},
      {"ex2", {&L::plain, Op::Ex2, 1, kApprox | kFtz}},
      {"lg2", {&L::plain, Op::Lg2, 1, kApprox | kFtz}},
      {"sin", {&L::plain, Op::Sin, 1, kApprox | kFtz}},
      {"cos", {&L::plain, Op::Cos, 1, kApprox | kFtz}},
      {"tanh", {&L::plain, Op::Tanh, 1, kApprox}},
      {"brev", {&L::plain, Op::Brev, 1, 0}},
      {"mul", {&L::multiply, Op::Mul, 2, 0}},
      {"mad", {&L::multiply_add, Op::Mad, 3, 0}},
      {"madc", {&L::multiply_add, Op::Mad, 3, 0}},
      {"fma", {&L::multiply_add, Op::Fma, 3, 0}},
      {"mul24", {&L::multiply24, Op::Mul24, 2, 0}},
      {"mad24", {&L::multiply24, Op::Mad24, 3, 0}},
      {"sad", {&L::sad, Op::Sad, 3, 0}},
      {"dp4a", {&L::dot_product, Op::Dp4a, 3, 0}},
      {"dp2a", {&L::dot_product, Op::Dp2a, 3, 0}},
      {"setp", {&L::setp, Op::Setp, 2, 0}},
      {"set", {&L::set, Op::Set, 2, 0}},
      {"selp", {&L::selp, Op::Select, 3, 0}},
      {"slct", {&L::slct, Op::SelectByInt, 3, 0}},
      {"testp", {&L::testp, Op::Testp, 1, 0}},
      {"and", {&L::logic, Op::And, 2, 0}},
      {"or", {&L::logic, Op::Or, 2, 0}},
      {"xor", {&L::logic, Op::Xor, 2, 0}},
      {"not", {&L::logic, Op::Not, 1, 0}},
      {"cnot", {&L::logic, Op::Cnot, 1, 0}},
      {"shl", {&L::shift, Op::Shl, 2, 0}},
      {"shr", {&L::shift, Op::Shr, 2, 0}},
      {"shf", {&L::funnel, Op::FunnelLeft, 3, 0}},
      {"bfe", {&L::bit_field, Op::Bfe, 3, 0}},
      {"bfi", {&L::bit_field, Op::Bfi, 4, 0}},
      {"bmsk", {&L::bit_mask, Op::Bmsk, 2, 0}},
      {"szext", {&L::szext, Op::Szext, 2, 0}},
      {"popc", {&L::count_bits, Op::Popc, 1, 0}},
      {"clz", {&L::count_bits, Op::Clz, 1, 0}},
      {"bfind", {&L::count_bits, Op::Bfind, 1, 0}},
      {"prmt", {&L::permute, Op::Prmt, 3, 0}},
      {"lop3", {&L::lop3, Op::Lop3, 3, 0}},
      {"mov", {&L::mov, Op::Move, 1, 0}},
      {"cvt", {&L::cvt, Op::Convert, 1, 0}},
      {"cvta", {&L::cvta, Op::Move, 1, 0}},
      {"isspacep", {&L::isspacep, Op::IsSpace, 1, 0}},
      {"ld", {&L::load, Op::Load, 1, 0}},
      {"ldu", {&L::load, Op::Load, 1, 0}},
      {"st", {&L::store, Op::Store, 2, 0}},
      {"atom", {&L::atomic, Op::Atomic, 2, 0}},
      {"red", {&L::atomic, Op::Atomic, 2, 0}},
      {"membar", {&L::fence, Op::Fence, 0, 0}},
      {"fence", {&L::fence, Op::Fence, 0, 0}},
      {"prefetch", {&L::hint, Op::Nop, 0, 0}},
      {"prefetchu", {&L::hint, Op::Nop, 0, 0}},
      {"applypriority", {&L::hint, Op::Nop, 0, 0}},
      {"griddepcontrol", {&L::hint, Op::Nop, 0, 0}},
      {"pmevent", {&L::hint, Op::Nop, 0, 0}},
      {"bra", {&L::branch, Op::Branch, 0, 0}},
      {"brx", {&L::branch_indexed, Op::BranchIndexed, 0, 0}},
      {"call", {&L::call, Op::Call, 0, 0}},
      {"ret", {&L::ret, Op::Return, 0, 0}},
      {"exit", {&L::exit, Op::Exit, 0, 0}},
      {"trap", {&L::trap, Op::Trap, 0, 0}},
      {"brkpt", {&L::trap, Op::Breakpoint, 0, 0}},
      {"bar", {&L::barrier, Op::Barrier, 0, 0}},
      {"barrier", {&L::barrier, Op::Barrier, 0, 0}},
      {"shfl", {&L::shuffle, Op::Shuffle, 0, 0}},
      {"vote", {&L::vote, Op::Vote, 0, 0}},
      {"match", {&L::match, Op::Match, 0, 0}},
      {"redux", {&L::redux, Op::Redux, 0, 0}},
      {"elect", {&L::elect, Op::Elect, 0, 0}},
      {"activemask", {&L::active_mask, Op::ActiveMask, 0, 0}},
      {"nanosleep", {&L::nanosleep, Op::NanoSleep, 0, 0}},
  };
  return kTable;
}

}  // namespace softdev
