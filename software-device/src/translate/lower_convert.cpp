// cvt: between all types, and of pairs.
#include "translate/lower.h"

namespace softdev {
namespace {

bool is_float_or_tf32(Type type) {
  return type == Type::F16 || type == Type::BF16 || type == Type::F32 || type == Type::F64 ||
         type == Type::TF32;
}
bool is_half(Type type) { return type == Type::F16 || type == Type::BF16; }
bool is_half_pair(Type type) { return type == Type::F16x2 || type == Type::BF16x2; }
bool is_small_pair(Type type) { return type >= Type::E4M3x2 && type <= Type::UE8M0x2; }
bool is_directed(Round round) { return round >= Round::NearestEven && round <= Round::Up; }

}  // namespace

// cvt[.round][.ftz][.sat][.relu][.satfinite].to.from d, a [, b]
bool Lowering::cvt() {
  Ir ir = make(Op::Convert);
  ir.round = take_round();
  ir.ftz = take("ftz");
  ir.satfinite = take("satfinite");
  ir.sat = take("sat");
  ir.relu = take("relu");
  if (take("pack")) return convert_integers(ir.sat);
  ir.type = take_type();
  ir.type2 = take_type();
  if (!modifiers_done()) return false;
  if (ir.type == Type::None || ir.type2 == Type::None) return refuse("needs two types");
  if (ir.ftz) ir.offset |= kConvertFtz;
  if (ir.sat) ir.offset |= kConvertSat;
  if (ir.relu) ir.offset |= kConvertRelu;
  if (ir.satfinite) ir.offset |= kConvertSatfinite;
  if (is_small_pair(ir.type) || is_small_pair(ir.type2)) return convert_small(ir);
  if (is_half_pair(ir.type)) return convert_pair(ir);
  if (!expect_operands(2)) return false;

  bool to_float = is_float_or_tf32(ir.type), from_float = is_float_or_tf32(ir.type2);
  bool int_round = ir.round >= Round::IntNearest && ir.round <= Round::IntUp;
  if ((ir.relu || ir.satfinite) &&
      (ir.type2 != Type::F32 || !(is_half(ir.type) || ir.type == Type::TF32) || ir.sat || ir.ftz))
    return refuse("contradictory modifiers");
  if (ir.type2 == Type::TF32) return refuse("tf32 is a type of results");
  if (ir.type == Type::TF32) {
    bool away = ir.round == Round::NearestAway;
    if (ir.type2 != Type::F32 || ir.sat || ir.ftz || (away && ir.relu) ||
        !(away || ir.round == Round::NearestEven || ir.round == Round::Zero))
      return refuse("contradictory modifiers");
  } else if (ir.round == Round::NearestAway) {
    return refuse("this rounding belongs to .tf32");
  } else if (from_float && !to_float) {
    if (!int_round) return refuse("needs .rni, .rzi, .rmi or .rpi");
  } else if (to_float && !from_float) {
    if (!is_directed(ir.round)) return refuse("needs .rn, .rz, .rm or .rp");
  } else if (!to_float && !from_float) {
    if (ir.round != Round::None) return refuse("an integer conversion does not round");
  } else if (ir.type == ir.type2) {
    if (ir.round != Round::None && !int_round) return refuse("needs an integer rounding");
  } else if (type_size(ir.type) > type_size(ir.type2)) {
    // Exact; only bf16 is written with a rounding.
    if (ir.round != Round::None && !(ir.type2 == Type::BF16 && is_directed(ir.round)))
      return refuse("a widening conversion does not round");
    ir.round = Round::None;
  } else if (is_half(ir.type) && is_half(ir.type2)) {
    if (ir.round == Round::None) ir.round = Round::NearestEven;
    if (!is_directed(ir.round)) return refuse("needs .rn, .rz, .rm or .rp");
  } else if (!is_directed(ir.round)) {
    return refuse("needs .rn, .rz, .rm or .rp");
  }

  unsigned from_size = 0, to_size = 0;
  Value from, to;
  if (!source_wide(operand(1), ir.type2, &from, &from_size) ||
      !destination_any(operand(0), &to, &to_size))
    return false;
  if (from_size < slot_size(ir.type2) || to_size < slot_size(ir.type))
    return refuse("a register is too small for its type");
  if ((from_size != slot_size(ir.type2) && from_float) ||
      (to_size != slot_size(ir.type) && to_float))
    return refuse("a register has the wrong size");
  if (from_size != slot_size(ir.type2)) {
    Value narrow = temporary(untyped(slot_size(ir.type2)));
    Ir resize = make(Op::Resize);
    resize.type = untyped(slot_size(ir.type2));
    resize.type2 = untyped(from_size);
    resize.d = narrow;
    resize.a = from;
    emit(resize);
    from = narrow;
  }
  ir.a = from;
  if (to_size == slot_size(ir.type)) {
    ir.d = to;
    emit(ir);
    return true;
  }
  ir.d = temporary(untyped(slot_size(ir.type)));
  emit(ir);
  return fill(to, to_size, ir.type, ir.d);
}

// cvt.rn.f16x2.f32 d, a, b: a becomes the upper half
bool Lowering::convert_pair(Ir ir) {
  if (ir.type2 != Type::F32 || ir.sat || ir.ftz ||
      (ir.round != Round::NearestEven && ir.round != Round::Zero))
    return refuse("this conversion is not supported");
  if (!expect_operands(3)) return false;
  ir.op = Op::ConvertPack;
  if (!destination(operand(0), 4, &ir.d) || !source(operand(1), Type::F32, &ir.a) ||
      !source(operand(2), Type::F32, &ir.b))
    return false;
  emit(ir);
  return true;
}

// Pairs of 8-bit and smaller values: from two f32, or from and to a pair of halves.
bool Lowering::convert_small(Ir ir) {
  ir.op = Op::ConvertSmall;
  bool narrows = is_small_pair(ir.type);
  Type other = narrows ? ir.type2 : ir.type;
  bool two = narrows && other == Type::F32;
  // Powers of two come from f32 or bf16, rounded in a direction.
  bool scale = ir.type == Type::UE8M0x2 || ir.type2 == Type::UE8M0x2;
  bool rounds = scale && narrows ? ir.round == Round::Zero || ir.round == Round::Up
                                 : ir.round == Round::NearestEven;
  if (!rounds || ir.sat || ir.ftz || (narrows && !scale && !ir.satfinite) ||
      (!narrows && ir.satfinite) || !(two || is_half_pair(other)) ||
      (scale && (ir.relu || other == Type::F16x2)))
    return refuse("this conversion is not supported");
  if (!expect_operands(two ? 3 : 2)) return false;
  if (!destination(operand(0), slot_size(ir.type), &ir.d) || !source(operand(1), ir.type2, &ir.a) ||
      (two && !source(operand(2), Type::F32, &ir.b)))
    return false;
  emit(ir);
  return true;
}

// cvt.pack.sat.to.from d, a, b [, c]: a and b saturated, side by side, below the low bits of c
bool Lowering::convert_integers(bool sat) {
  Ir ir = make(Op::ConvertIntegers);
  if (!sat) return refuse("needs .sat");
  struct Small {
    std::string_view name;
    uint8_t bits;
    bool is_signed;
  };
  static constexpr Small kSmall[] = {{"u16", 16, false}, {"s16", 16, true}, {"u8", 8, false},
                                     {"s8", 8, true},    {"u4", 4, false},  {"s4", 4, true},
                                     {"u2", 2, false},   {"s2", 2, true}};
  for (const Small &small : kSmall) {
    if (!take(small.name)) continue;
    ir.mode = small.bits;
    ir.sign = small.is_signed;
    break;
  }
  ir.offset = ir.sign;
  ir.type = Type::U32;
  ir.type2 = take_type();
  bool third = ir.mode < 16;
  if (ir.mode == 0 || ir.type2 != Type::S32 || (third && take_type() != Type::B32))
    return refuse("bad types");
  if (!modifiers_done() || !expect_operands(third ? 4 : 3)) return false;
  if (!destination(operand(0), 4, &ir.d) || !source(operand(1), Type::S32, &ir.a) ||
      !source(operand(2), Type::S32, &ir.b))
    return false;
  if (!third) ir.c = bits(0, 4);
  if (third && !source(operand(3), Type::B32, &ir.c)) return false;
  emit(ir);
  return true;
}

}  // namespace softdev
