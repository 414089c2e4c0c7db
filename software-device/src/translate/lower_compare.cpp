// Comparison and selection.
#include "translate/lower.h"

namespace softdev {

// setp.cmp[.bool][.ftz].type p[|q], a, b [, [!]c]
bool Lowering::setp() {
  Ir ir = make(Op::Setp);
  auto compare = take_compare();
  ir.boolean = take_boolean();
  ir.ftz = take("ftz");
  ir.type = take_type();
  if (!compare || ir.type == Type::None) return refuse("needs a comparison and a type");
  ir.compare = *compare;
  if (!modifiers_done()) return false;
  bool combine = ir.boolean != Boolean::None;
  if (!expect_operands(combine ? 4 : 3)) return false;
  const OperandSyntax &result = operand(0);
  bool pair = ir.type == Type::F16x2 || ir.type == Type::BF16x2;
  if (result.kind == OperandSyntax::Sink) {
    ir.d = temporary(Type::Pred);
  } else if (result.kind != OperandSyntax::Register || result.negated ||
             !predicate_destination(result.reg, &ir.d)) {
    return refuse("the destination must be a predicate");
  }
  if (result.pair != kNone && !predicate_destination(result.pair, &ir.d2)) return false;
  if (combine) {
    bool negated = false;
    if (!predicate_source(operand(3), &ir.c, &negated)) return false;
    ir.negate_c = negated;
  }
  if (pair) {
    // p is the comparison of the lower halves, q that of the upper ones.
    Value a[2], b[2], results[2] = {ir.d, ir.d2};
    if (!halves(operand(1), ir.type, a) || !halves(operand(2), ir.type, b)) return false;
    ir.type = ir.type == Type::F16x2 ? Type::F16 : Type::BF16;
    ir.d2 = {};
    Value parts[2];
    for (int i = 0; i < 2; ++i) {  // p may be the third operand of both
      ir.a = a[i];
      ir.b = b[i];
      ir.d = parts[i] = temporary(Type::Pred);
      emit(ir);
    }
    for (int i = 0; i < 2; ++i) {
      if (!results[i]) continue;
      Ir move = make(Op::PredMove);
      move.a = parts[i];
      move.d = results[i];
      emit(move);
    }
    return true;
  }
  if (!source(operand(1), ir.type, &ir.a) || !source(operand(2), ir.type, &ir.b)) return false;
  emit(ir);
  return true;
}

// A pair of 16-bit values, taken apart.
bool Lowering::halves(const OperandSyntax &operand, Type pair, Value out[2]) {
  Ir ir = make(Op::Unpack);
  ir.type = Type::B32;
  ir.memory_size = 2;
  if (!source(operand, pair, &ir.a)) return false;
  out[0] = temporary(Type::B16);
  out[1] = temporary(Type::B16);
  ir.list = add_list({out[0], out[1]});
  ir.list_count = 2;
  ir.list_written = 2;
  emit(ir);
  return true;
}

bool Lowering::set() {
  Ir ir = make(Op::Set);
  auto compare = take_compare();
  ir.boolean = take_boolean();
  ir.ftz = take("ftz");
  ir.type = take_type();
  ir.type2 = take_type();
  if (!compare || ir.type2 == Type::None) return refuse("needs a comparison and two types");
  ir.compare = *compare;
  if (!modifiers_done()) return false;
  bool combine = ir.boolean != Boolean::None;
  if (!expect_operands(combine ? 4 : 3)) return false;
  if (!destination(operand(0), slot_size(ir.type), &ir.d)) return false;
  if (combine) {
    bool negated = false;
    if (!predicate_source(operand(3), &ir.c, &negated)) return false;
    ir.negate_c = negated;
  }
  if (ir.type2 == Type::F16x2 || ir.type2 == Type::BF16x2) {
    bool same = ir.type == ir.type2;
    if (!same && ir.type != Type::U32 && ir.type != Type::S32)
      return refuse("the result of a pair is a pair, .u32 or .s32");
    Value a[2], b[2];
    if (!halves(operand(1), ir.type2, a) || !halves(operand(2), ir.type2, b)) return false;
    Ir pack = make(Op::Pack);
    pack.type = Type::B32;
    pack.memory_size = 2;
    pack.d = ir.d;
    ir.type2 = ir.type2 == Type::F16x2 ? Type::F16 : Type::BF16;
    ir.type = same ? ir.type2 : Type::U16;
    Value parts[2];
    for (int i = 0; i < 2; ++i) {
      ir.a = a[i];
      ir.b = b[i];
      ir.d = parts[i] = temporary(Type::B16);
      emit(ir);
    }
    pack.list = add_list({parts[0], parts[1]});
    pack.list_count = 2;
    emit(pack);
    return true;
  }
  if (!source(operand(1), ir.type2, &ir.a) || !source(operand(2), ir.type2, &ir.b)) return false;
  emit(ir);
  return true;
}

bool Lowering::selp() {
  Ir ir = make(Op::Select);
  ir.type = take_type();
  if (ir.type == Type::None) return refuse("no type");
  if (!modifiers_done() || !expect_operands(4)) return false;
  bool negated = false;
  if (!destination(operand(0), slot_size(ir.type), &ir.d) || !source(operand(1), ir.type, &ir.a) ||
      !source(operand(2), ir.type, &ir.b) || !predicate_source(operand(3), &ir.c, &negated))
    return false;
  ir.negate_c = negated;
  emit(ir);
  return true;
}

bool Lowering::slct() {
  Ir ir = make(Op::SelectByInt);
  ir.ftz = take("ftz");
  ir.type = take_type();
  ir.type2 = take_type();
  if (ir.type2 != Type::S32 && ir.type2 != Type::F32) return refuse("needs .s32 or .f32");
  if (!modifiers_done() || !expect_operands(4)) return false;
  if (!destination(operand(0), slot_size(ir.type), &ir.d) || !source(operand(1), ir.type, &ir.a) ||
      !source(operand(2), ir.type, &ir.b) || !source(operand(3), ir.type2, &ir.c))
    return false;
  emit(ir);
  return true;
}

bool Lowering::testp() {
  Ir ir = make(Op::Testp);
  static constexpr std::string_view kTests[] = {"finite",     "infinite", "number",
                                                "notanumber", "normal",   "subnormal"};
  for (uint8_t i = 0; i < 6; ++i)
    if (take(kTests[i])) ir.mode = i + 1;
  ir.type = take_type();
  if (ir.mode == 0) return refuse("needs a test");
  if (!modifiers_done() || !expect_operands(2)) return false;
  if (operand(0).kind != OperandSyntax::Register || !predicate_destination(operand(0).reg, &ir.d) ||
      !source(operand(1), ir.type, &ir.a))
    return refuse("bad operands");
  emit(ir);
  return true;
}

}  // namespace softdev
