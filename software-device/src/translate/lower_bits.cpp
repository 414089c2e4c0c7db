// Logic and bit manipulation.
#include "translate/lower.h"

namespace softdev {

// and or xor not cnot: .pred or .b16 .b32 .b64
bool Lowering::logic() {
  Ir ir = make(row_->op);
  ir.type = take_type();
  if (ir.type == Type::None) return refuse("no type");
  if (!modifiers_done() || !expect_operands(1u + row_->sources)) return false;
  if (ir.type == Type::Pred) {
    switch (ir.op) {
      case Op::And:
        ir.op = Op::PredAnd;
        break;
      case Op::Or:
        ir.op = Op::PredOr;
        break;
      case Op::Xor:
        ir.op = Op::PredXor;
        break;
      case Op::Not:
        ir.op = Op::PredNot;
        break;
      default:
        return refuse("this instruction has no .pred form");
    }
    if (operand(0).kind != OperandSyntax::Register || operand(0).negated ||
        !predicate_destination(operand(0).reg, &ir.d))
      return refuse("the destination must be a predicate");
    if (!predicate_source(operand(1), &ir.a, &ir.negate_a)) return false;
    if (row_->sources > 1 && !predicate_source(operand(2), &ir.b, &ir.negate_b)) return false;
    emit(ir);
    return true;
  }
  if (!destination(operand(0), slot_size(ir.type), &ir.d) || !source(operand(1), ir.type, &ir.a))
    return false;
  if (row_->sources > 1 && !source(operand(2), ir.type, &ir.b)) return false;
  emit(ir);
  return true;
}

bool Lowering::shift() {
  Ir ir = make(row_->op);
  ir.type = take_type();
  if (ir.type == Type::None) return refuse("no type");
  if (!modifiers_done() || !expect_operands(3)) return false;
  if (!destination(operand(0), slot_size(ir.type), &ir.d) || !source(operand(1), ir.type, &ir.a) ||
      !source(operand(2), Type::U32, &ir.b))
    return false;
  emit(ir);
  return true;
}

bool Lowering::funnel() {
  bool left = take("l"), right = take("r");
  bool wrap = take("wrap"), clamp = take("clamp");
  Ir ir = make(left ? Op::FunnelLeft : Op::FunnelRight);
  ir.type = take_type();
  if (left == right || wrap == clamp || ir.type != Type::B32)
    return refuse("needs .l or .r, .wrap or .clamp, and .b32");
  ir.high = clamp;
  if (!modifiers_done() || !expect_operands(4)) return false;
  if (!destination(operand(0), 4, &ir.d) || !source(operand(1), Type::B32, &ir.a) ||
      !source(operand(2), Type::B32, &ir.b) || !source(operand(3), Type::U32, &ir.c))
    return false;
  emit(ir);
  return true;
}

// bfe.type d, a, pos, len      bfi.type d, a, b, pos, len
bool Lowering::bit_field() {
  Ir ir = make(row_->op);
  ir.type = take_type();
  if (!modifiers_done()) return false;
  bool insert = ir.op == Op::Bfi;
  if (!expect_operands(insert ? 5 : 4)) return false;
  if (!destination(operand(0), slot_size(ir.type), &ir.d) || !source(operand(1), ir.type, &ir.a))
    return false;
  if (insert && !source(operand(2), ir.type, &ir.b)) return false;
  Value &position = insert ? ir.c : ir.b;
  Value &length = insert ? ir.e : ir.c;
  if (!source(operand(insert ? 3 : 2), Type::U32, &position) ||
      !source(operand(insert ? 4 : 3), Type::U32, &length))
    return false;
  emit(ir);
  return true;
}

bool Lowering::bit_mask() {
  Ir ir = make(row_->op);
  bool clamp = take("clamp"), wrap = take("wrap");
  ir.type = take_type();
  if (clamp == wrap ||
      !(ir.op == Op::Szext ? ir.type == Type::U32 || ir.type == Type::S32 : ir.type == Type::B32))
    return refuse("needs .clamp or .wrap and a 32-bit type");
  ir.high = clamp;
  if (!modifiers_done() || !expect_operands(3)) return false;
  if (!destination(operand(0), 4, &ir.d) || !source(operand(1), Type::U32, &ir.a) ||
      !source(operand(2), Type::U32, &ir.b))
    return false;
  emit(ir);
  return true;
}

// popc clz bfind: the result has 32 bits
bool Lowering::count_bits() {
  Ir ir = make(row_->op);
  if (ir.op == Op::Bfind) ir.high = take("shiftamt");
  ir.type2 = take_type();
  ir.type = Type::U32;
  if (!modifiers_done() || !expect_operands(2)) return false;
  if (!destination(operand(0), 4, &ir.d) || !source(operand(1), ir.type2, &ir.a)) return false;
  emit(ir);
  return true;
}

bool Lowering::permute() {
  Ir ir = make(Op::Prmt);
  ir.type = take_type();
  if (ir.type != Type::B32) return refuse("needs .b32");
  static constexpr std::string_view kModes[] = {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
  for (uint8_t i = 0; i < 6; ++i)
    if (take(kModes[i])) ir.mode = i + 1;
  if (!modifiers_done() || !expect_operands(4)) return false;
  if (!destination(operand(0), 4, &ir.d) || !source(operand(1), Type::B32, &ir.a) ||
      !source(operand(2), Type::B32, &ir.b) || !source(operand(3), Type::B32, &ir.c))
    return false;
  emit(ir);
  return true;
}

bool Lowering::lop3() {
  Ir ir = make(Op::Lop3);
  ir.type = take_type();
  if (ir.type != Type::B32) return refuse("needs .b32");
  Boolean boolean = take_boolean();
  bool combine = boolean != Boolean::None;
  if (boolean == Boolean::Xor) return refuse("needs .and or .or");
  if (!modifiers_done() || !expect_operands(combine ? 6 : 5)) return false;
  uint64_t table = 0;
  if (!destination(operand(0), 4, &ir.d) || !source(operand(1), Type::B32, &ir.a) ||
      !source(operand(2), Type::B32, &ir.b) || !source(operand(3), Type::B32, &ir.c) ||
      !immediate_bits(operand(4), Type::U32, &table))
    return false;
  ir.offset = static_cast<int64_t>(table & 0xff);
  emit(ir);
  if (combine != (operand(0).pair != kNone)) return refuse("d|p and a boolean go together");
  if (!combine) return true;
  // lop3.or.b32 d|p, a, b, c, table, q: p = (d != 0) or q
  Ir test = make(Op::Setp);
  test.type = Type::B32;
  test.compare = Compare::Ne;
  test.boolean = boolean;
  test.a = ir.d;
  test.b = bits(0, 4);
  if (!predicate_destination(operand(0).pair, &test.d) ||
      !predicate_source(operand(5), &test.c, &test.negate_c))
    return false;
  emit(test);
  return true;
}

// fns.b32 d, mask, base, offset
bool Lowering::find_nth() {
  Ir ir = make(Op::Fns);
  ir.type = take_type();
  if (ir.type != Type::B32) return refuse("needs .b32");
  if (!modifiers_done() || !expect_operands(4)) return false;
  if (!destination(operand(0), 4, &ir.d) || !source(operand(1), Type::B32, &ir.a) ||
      !source(operand(2), Type::B32, &ir.b) || !source(operand(3), Type::S32, &ir.c))
    return false;
  emit(ir);
  return true;
}

bool Lowering::szext() { return bit_mask(); }

}  // namespace softdev
