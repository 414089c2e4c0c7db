// Arithmetic, logic and comparison.
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

bool Lowering::szext() { return bit_mask(); }

}  // namespace softdev
