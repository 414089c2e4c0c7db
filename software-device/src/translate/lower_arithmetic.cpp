// Arithmetic.
#include "translate/lower.h"

namespace softdev {
namespace {

bool is_integer(Type type) {
  switch (type) {
    case Type::U16:
    case Type::S16:
    case Type::U32:
    case Type::S32:
    case Type::U64:
    case Type::S64:
      return true;
    default:
      return false;
  }
}

Type twice(Type type) {
  switch (type) {
    case Type::U16:
      return Type::U32;
    case Type::S16:
      return Type::S32;
    case Type::U32:
      return Type::U64;
    case Type::S32:
      return Type::S64;
    default:
      return Type::None;
  }
}

}  // namespace

// PTX for the first GPUs leaves out .rn and .approx where later targets want to see them.
bool Lowering::implies_rounding() const {
  int target = surroundings_.module().target;
  return target > 0 && target < 20;
}

// All instructions of the form  op.flags.type d, a [, b [, c]]  with one type.
bool Lowering::plain() {
  Ir ir = make(row_->op);
  uint32_t flags = row_->flags;
  if (flags & kRound) ir.round = take_round();
  if (flags & kApprox) ir.approx = take("approx");
  if ((flags & kFull) && take("full")) {
    ir.approx = true;
    ir.mode = 1;
  }
  if (flags & kFtz) ir.ftz = take("ftz");
  if (flags & kSat) ir.sat = take("sat");
  if (flags & kNan) ir.nan = take("NaN");
  if (flags & kRelu) ir.relu = take("relu");
  if (flags & kXorSign) {
    ir.xorsign = take("xorsign");
    bool magnitudes = take("abs");
    if (operand_count() == 4) {
      if (ir.xorsign || ir.relu) return refuse("contradictory modifiers");
      ir.mode = magnitudes;
      return extreme3(ir);
    }
    if (ir.xorsign != magnitudes) return refuse(".xorsign and .abs go together");
  }
  if (flags & kCarry) ir.carry_out = take("cc");
  ir.type = take_type();
  if (ir.type == Type::None) return refuse("no type");
  Type half = (flags & kCarry) && ir.type == Type::F32 ? take_type() : Type::None;
  if (!modifiers_done()) return false;
  if (half != Type::None && ((half != Type::F16 && half != Type::BF16) || ir.ftz))
    return refuse("contradictory modifiers");
  if (implies_rounding() && (flags & kApprox) && !ir.approx && ir.round == Round::None) {
    if (ir.type == Type::F32) ir.approx = true;
    if (ir.type == Type::F64) ir.round = Round::NearestEven;
  }
  if (ir.round >= Round::IntNearest) return refuse("this rounding is for conversions");
  if ((flags & kNeedApproxOrRound) && (ir.type == Type::F32 || ir.type == Type::F64) &&
      !ir.approx && ir.round == Round::None)
    return refuse("needs a rounding or .approx");
  if (ir.sat && is_integer(ir.type) && ir.type != Type::S32)
    return refuse(".sat needs .s32 or a floating-point type");
  if (!expect_operands(1u + row_->sources)) return false;
  if (!destination(operand(0), slot_size(ir.type), &ir.d)) return false;
  Value *sources[] = {&ir.a, &ir.b, &ir.c};
  for (uint32_t i = 0; i < row_->sources; ++i) {
    // add.f32.f16 d, a, b: a is widened, which is exact.
    if (i == 0 && half != Type::None ? !widened(operand(1), half, &ir.a)
                                     : !source(operand(1 + i), ir.type, sources[i]))
      return false;
  }
  // add.cc, addc: the carry flag is a register of the function that only these touch.
  bool with_carry = statement_->opcode == "addc" || statement_->opcode == "subc";
  if (ir.carry_out || with_carry) {
    if (!carry_) carry_ = temporary(Type::Pred);
    ir.op = ir.op == Op::Add ? Op::AddCarry : Op::SubCarry;
    ir.carry_in = with_carry;
    if (with_carry) ir.e = carry_;
    if (ir.carry_out) ir.d2 = carry_;
  }
  emit(ir);
  return true;
}

bool Lowering::multiply() {
  Ir ir = make(Op::Mul);
  ir.round = take_round();
  ir.ftz = take("ftz");
  ir.sat = take("sat");
  bool low = take("lo"), high = take("hi"), wide = take("wide");
  ir.type = take_type();
  if (ir.type == Type::None) return refuse("no type");
  if (!modifiers_done() || !expect_operands(3)) return false;
  if (is_integer(ir.type) != (low || high || wide)) return refuse("needs .lo, .hi or .wide");
  if (low + high + wide > 1 || ir.round >= Round::IntNearest ||
      (is_integer(ir.type) && (ir.sat || ir.ftz || ir.round != Round::None)))
    return refuse("contradictory modifiers");
  Type source_type = ir.type;
  if (high) ir.op = Op::MulHigh;
  if (wide) {
    ir.op = Op::MulWide;
    ir.type2 = source_type;
    ir.type = twice(source_type);
    if (ir.type == Type::None) return refuse(".wide needs a 16- or 32-bit type");
  }
  if (!destination(operand(0), slot_size(ir.type), &ir.d)) return false;
  if (!source(operand(1), source_type, &ir.a) || !source(operand(2), source_type, &ir.b))
    return false;
  emit(ir);
  return true;
}

bool Lowering::multiply_add() {
  bool with_carry = statement_->opcode == "madc";
  Ir ir = make(Op::Mad);
  ir.round = take_round();
  ir.ftz = take("ftz");
  ir.sat = take("sat");
  ir.relu = take("relu");
  ir.carry_out = take("cc");
  bool low = take("lo"), high = take("hi"), wide = take("wide");
  ir.type = take_type();
  if (ir.type == Type::None) return refuse("no type");
  Type half = statement_->opcode == "fma" && ir.type == Type::F32 ? take_type() : Type::None;
  if (!modifiers_done() || !expect_operands(4)) return false;
  if (half != Type::None && ((half != Type::F16 && half != Type::BF16) || ir.ftz || ir.relu))
    return refuse("contradictory modifiers");
  bool fused = statement_->opcode == "fma" || !is_integer(ir.type);
  if (ir.round >= Round::IntNearest || low + high + wide > 1 || fused == (low || high || wide) ||
      (fused && (is_integer(ir.type) || ir.carry_out || with_carry)) ||
      (!fused && (ir.ftz || ir.relu || ir.round != Round::None)))
    return refuse("contradictory modifiers");
  if (fused && implies_rounding() && ir.round == Round::None) ir.round = Round::NearestEven;
  if (fused && ir.round == Round::None) return refuse("needs a rounding");
  if (ir.sat && !fused && !(high && ir.type == Type::S32)) return refuse(".sat needs .hi.s32");
  Type source_type = ir.type;
  if (fused) ir.op = Op::Fma;
  if (high) ir.op = Op::MadHigh;
  if (wide) {
    ir.op = Op::MadWide;
    ir.type2 = source_type;
    ir.type = twice(source_type);
    if (ir.type == Type::None) return refuse(".wide needs a 16- or 32-bit type");
  }
  if (ir.carry_out || with_carry) {
    if (wide || ir.sat) return refuse("contradictory modifiers");
    if (!carry_) carry_ = temporary(Type::Pred);
    ir.op = Op::MadCarry;
    ir.high = high;
    ir.carry_in = with_carry;
    if (with_carry) ir.e = carry_;
    if (ir.carry_out) ir.d2 = carry_;
  }
  if (!destination(operand(0), slot_size(ir.type), &ir.d)) return false;
  if (half != Type::None
          ? !widened(operand(1), half, &ir.a) || !widened(operand(2), half, &ir.b)
          : !source(operand(1), source_type, &ir.a) || !source(operand(2), source_type, &ir.b))
    return false;
  if (!source(operand(3), ir.type, &ir.c)) return false;
  emit(ir);
  return true;
}

// A 16-bit floating-point operand as f32.
bool Lowering::widened(const OperandSyntax &operand, Type half, Value *out) {
  Ir ir = make(Op::Convert);
  ir.type = Type::F32;
  ir.type2 = half;
  if (!source(operand, half, &ir.a)) return false;
  ir.d = *out = temporary(Type::F32);
  emit(ir);
  return true;
}

// min and max of three, with .abs of their magnitudes: one after the other.
bool Lowering::extreme3(Ir ir) {
  ir.type = take_type();
  if (ir.type != Type::F32) return refuse("three operands need .f32");
  bool magnitudes = ir.mode;
  ir.mode = 0;
  if (!modifiers_done()) return false;
  Value values[3], result;
  if (!destination(operand(0), 4, &result)) return false;
  for (uint32_t i = 0; i < 3; ++i) {
    if (!source(operand(1 + i), Type::F32, &values[i])) return false;
    if (!magnitudes) continue;
    Ir absolute = make(Op::Abs);
    absolute.type = Type::F32;
    absolute.a = values[i];
    absolute.d = values[i] = temporary(Type::F32);
    emit(absolute);
  }
  ir.a = values[0];
  ir.b = values[1];
  ir.d = temporary(Type::F32);
  emit(ir);
  ir.a = ir.d;
  ir.b = values[2];
  ir.d = result;
  emit(ir);
  return true;
}

bool Lowering::multiply24() {
  Ir ir = make(row_->op);
  bool low = take("lo"), high = take("hi");
  ir.sat = take("sat");
  ir.type = take_type();
  if (!modifiers_done() || !expect_operands(2u + (ir.op == Op::Mad24 ? 2 : 1))) return false;
  if (low == high || (ir.type != Type::U32 && ir.type != Type::S32) ||
      (ir.sat && !(high && ir.op == Op::Mad24 && ir.type == Type::S32)))
    return refuse("contradictory modifiers");
  ir.high = high;
  if (!destination(operand(0), 4, &ir.d) || !source(operand(1), ir.type, &ir.a) ||
      !source(operand(2), ir.type, &ir.b))
    return false;
  if (ir.op == Op::Mad24 && !source(operand(3), ir.type, &ir.c)) return false;
  emit(ir);
  return true;
}

bool Lowering::dot_product() {
  Ir ir = make(row_->op);
  bool low = take("lo"), high = take("hi");
  ir.type2 = take_type();
  ir.type3 = take_type();
  auto is32 = [](Type type) { return type == Type::U32 || type == Type::S32; };
  if (!is32(ir.type2) || !is32(ir.type3) || (ir.op == Op::Dp2a) != (low != high) ||
      (ir.op == Op::Dp4a && low))
    return refuse("bad types");
  ir.high = high;
  ir.type = ir.type2 == Type::S32 || ir.type3 == Type::S32 ? Type::S32 : Type::U32;
  if (!modifiers_done() || !expect_operands(4)) return false;
  if (!destination(operand(0), 4, &ir.d) || !source(operand(1), ir.type2, &ir.a) ||
      !source(operand(2), ir.type3, &ir.b) || !source(operand(3), ir.type, &ir.c))
    return false;
  emit(ir);
  return true;
}

bool Lowering::sad() {
  Ir ir = make(Op::Sad);
  ir.type = take_type();
  if (!modifiers_done() || !expect_operands(4)) return false;
  if (!destination(operand(0), slot_size(ir.type), &ir.d) || !source(operand(1), ir.type, &ir.a) ||
      !source(operand(2), ir.type, &ir.b) || !source(operand(3), ir.type, &ir.c))
    return false;
  emit(ir);
  return true;
}

}  // namespace softdev
