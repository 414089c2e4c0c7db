// Moving values: mov, cvt, cvta, isspacep.
#include "translate/lower.h"

namespace softdev {
namespace {

bool is_float(Type type) {
  return type == Type::F16 || type == Type::BF16 || type == Type::F32 || type == Type::F64;
}
bool is_signed(Type type) {
  return type == Type::S8 || type == Type::S16 || type == Type::S32 || type == Type::S64;
}
Type untyped(unsigned size) { return size == 2 ? Type::B16 : size == 4 ? Type::B32 : Type::B64; }

}  // namespace

bool Lowering::mov() {
  Ir ir = make(Op::Move);
  ir.type = take_type();
  if (ir.type == Type::None) return refuse("no type");
  if (!modifiers_done() || !expect_operands(2)) return false;
  const OperandSyntax &to = operand(0), &from = operand(1);
  if (ir.type == Type::Pred) {
    ir.op = Op::PredMove;
    if (to.kind != OperandSyntax::Register || !predicate_destination(to.reg, &ir.d) ||
        !predicate_source(from, &ir.a, &ir.negate_a))
      return refuse("bad operands");
    emit(ir);
    return true;
  }
  unsigned size = slot_size(ir.type);
  bool pack = from.kind == OperandSyntax::List, unpack = to.kind == OperandSyntax::List;
  if (type_size(ir.type) > 8 && !pack && !unpack) return refuse(".b128 is not supported");
  if (type_size(ir.type) > 8) return refuse(".b128 is not supported");
  if (pack || unpack) {
    if (pack && unpack) return refuse("both operands are vectors");
    const OperandSyntax &list = pack ? from : to;
    if (list.count != 2 && list.count != 4) return refuse("a vector has 2 or 4 elements");
    unsigned element = type_size(ir.type) / list.count;
    if (element < 1) return refuse("the elements are too small");
    std::vector<Value> values;
    for (uint32_t i = 0; i < list.count; ++i) {
      const OperandSyntax &part = body_.operands[list.first + i];
      Value value;
      unsigned part_size = 0;
      if (pack) {
        if (!source_wide(part, element == 1 ? Type::U8 : untyped(element), &value, &part_size))
          return false;
      } else if (part.kind == OperandSyntax::Sink) {
        part_size = element < 2 ? 2 : element;
        if (!destination(part, part_size, &value)) return false;
      } else if (!destination_any(part, &value, &part_size)) {
        return false;
      }
      if (part_size != (element < 2 ? 2 : element)) return refuse("wrong size of an element");
      values.push_back(value);
    }
    ir.op = pack ? Op::Pack : Op::Unpack;
    ir.memory_size = static_cast<uint8_t>(element);
    ir.list = add_list(values);
    ir.list_count = list.count;
    ir.list_written = unpack ? list.count : 0;
    if (pack ? !destination(to, size, &ir.d) : !source(from, ir.type, &ir.a)) return false;
    emit(ir);
    return true;
  }
  if (!destination(to, size, &ir.d) || !source(from, ir.type, &ir.a)) return false;
  emit(ir);
  return true;
}

// Puts `source`, a value of `type` in its natural slot, into a destination that may be wider.
bool Lowering::fill(Value destination, unsigned size, Type type, const Value &source) {
  Ir ir = make(size == slot_size(type) ? Op::Move : Op::Resize);
  ir.type = untyped(size);
  ir.type2 = untyped(slot_size(type));
  ir.sign = is_signed(type);
  ir.d = destination;
  ir.a = source;
  emit(ir);
  return true;
}

bool Lowering::cvt() {
  Ir ir = make(Op::Convert);
  ir.round = take_round();
  ir.ftz = take("ftz");
  ir.satfinite = take("satfinite");
  ir.sat = take("sat");
  ir.relu = take("relu");
  if (take("pack")) return refuse("cvt.pack is not supported");
  ir.type = take_type();
  ir.type2 = take_type();
  if (ir.type == Type::None || ir.type2 == Type::None) return refuse("needs two types");
  if (!modifiers_done()) return false;

  // cvt.rn.f16x2.f32 d, a, b
  if (ir.type == Type::F16x2 || ir.type == Type::BF16x2) {
    if (ir.type2 != Type::F32 || ir.satfinite || ir.sat || ir.ftz)
      return refuse("this conversion is not supported");
    if (!expect_operands(3)) return false;
    ir.op = Op::ConvertPack;
    if (!destination(operand(0), 4, &ir.d) || !source(operand(1), Type::F32, &ir.a) ||
        !source(operand(2), Type::F32, &ir.b))
      return false;
    emit(ir);
    return true;
  }
  if (!expect_operands(2)) return false;
  if (ir.satfinite) return refuse("this conversion is not supported");
  bool to_float = is_float(ir.type), from_float = is_float(ir.type2);
  bool int_round = ir.round >= Round::IntNearest && ir.round <= Round::IntUp;
  if (from_float && !to_float && !int_round) return refuse("needs .rni, .rzi, .rmi or .rpi");
  if (to_float && !from_float && (ir.round == Round::None || ir.round >= Round::IntNearest))
    return refuse("needs .rn, .rz, .rm or .rp");
  if (!to_float && !from_float && ir.round != Round::None)
    return refuse("an integer conversion does not round");
  if (to_float && from_float) {
    bool narrower = type_size(ir.type) < type_size(ir.type2) ||
                    (ir.type != ir.type2 && type_size(ir.type) == 2 && type_size(ir.type2) == 2);
    if (narrower && (ir.round == Round::None || ir.round >= Round::IntNearest))
      return refuse("needs .rn, .rz, .rm or .rp");
    if (type_size(ir.type) > type_size(ir.type2) && ir.round != Round::None)
      return refuse("a widening conversion does not round");
    if (ir.type == ir.type2 && ir.round != Round::None && !int_round)
      return refuse("needs an integer rounding");
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

// Generic addresses are the addresses of all spaces but .shared.
bool Lowering::cvta() {
  bool to = take("to");
  auto space = take_space();
  Ir ir = make(Op::Move);
  ir.type = take_type();
  if (!space) return refuse("needs a state space");
  if (ir.type != Type::U64) return refuse("needs .u64");
  if (!modifiers_done() || !expect_operands(2)) return false;
  if (*space == Space::Shared) ir.op = to ? Op::ToShared : Op::FromShared;
  if (!destination(operand(0), 8, &ir.d) || !source(operand(1), Type::U64, &ir.a)) return false;
  emit(ir);
  return true;
}

bool Lowering::isspacep() {
  Ir ir = make(Op::IsSpace);
  if (take("shared::cluster")) {
    ir.space = Space::Shared;
  } else {
    auto space = take_space();
    if (!space) return refuse("needs a state space");
    ir.space = *space;
  }
  ir.type = Type::U64;
  if (!modifiers_done() || !expect_operands(2)) return false;
  if (operand(0).kind != OperandSyntax::Register || !predicate_destination(operand(0).reg, &ir.d) ||
      !source(operand(1), Type::U64, &ir.a))
    return refuse("bad operands");
  emit(ir);
  return true;
}

}  // namespace softdev
