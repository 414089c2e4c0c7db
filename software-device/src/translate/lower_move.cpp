// Moving values: mov, cvta, isspacep.
#include "translate/lower.h"

namespace softdev {

bool Lowering::mov() {
  Ir ir = make(Op::Move);
  unsigned vector = take_vector();
  ir.type = take_type();
  if (ir.type == Type::None) return refuse("no type");
  if (!modifiers_done() || !expect_operands(2)) return false;
  if (vector > 1) return mov_vector(vector, ir.type);
  if (ir.type == Type::B128) return mov_wide();
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
        if (!source_wide(part, untyped(element), &value, &part_size)) return false;
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

// mov.v2.u32 {a, b}, {c, d}      mov.v4.u32 {a, b, c, d}, %tid: its three parts, and 0
bool Lowering::mov_vector(unsigned count, Type type) {
  const OperandSyntax &to = operand(0), &from = operand(1);
  const bool parts = from.kind == OperandSyntax::Special && count == 4 && type_size(type) == 4;
  if (to.kind != OperandSyntax::List || to.count != count || type_size(type) < 2 ||
      (!parts && (from.kind != OperandSyntax::List || from.count != count)))
    return refuse("a vector is moved from registers or a special register into registers");
  std::vector<Value> values(count);
  for (uint32_t i = 0; i < count; ++i)
    if (parts ? !special_value(from.name, std::string_view("xyzw").substr(i, 1), 4, &values[i])
              : !source(body_.operands[from.first + i], type, &values[i]))
      return false;
  // Through temporaries: a register may be on both sides.
  for (uint32_t i = 0; i < count && !parts; ++i) {
    Ir ir = make(Op::Move);
    ir.type = type;
    ir.a = values[i];
    ir.d = values[i] = temporary(type);
    emit(ir);
  }
  for (uint32_t i = 0; i < count; ++i) {
    Ir ir = make(Op::Move);
    ir.type = type;
    ir.a = values[i];
    if (!destination(body_.operands[to.first + i], slot_size(type), &ir.d)) return false;
    emit(ir);
  }
  return true;
}

// A .b128 register is two of 64 bits.
bool Lowering::wide_register(const OperandSyntax &operand, Value out[2]) {
  if (operand.kind != OperandSyntax::Register || operand.negated || operand.pair != kNone ||
      body_.registers[operand.reg] != Type::B128)
    return refuse("expected a .b128 register");
  auto [at, fresh] = wide_registers_.try_emplace(operand.reg);
  if (fresh) at->second = {temporary(Type::B64), temporary(Type::B64)};
  out[0] = at->second.first;
  out[1] = at->second.second;
  return true;
}

// mov.b128 between registers, or to or from two or four parts
bool Lowering::mov_wide() {
  auto move = [&](Value d, Value a) {
    Ir ir = make(Op::Move);
    ir.type = Type::B64;
    ir.d = d;
    ir.a = a;
    emit(ir);
  };
  const OperandSyntax &to = operand(0), &from = operand(1);
  bool pack = from.kind == OperandSyntax::List, unpack = to.kind == OperandSyntax::List;
  Value wide[2];
  if (!pack && !unpack) {
    Value source[2];
    if (!wide_register(to, wide) || !wide_register(from, source)) return false;
    for (int i = 0; i < 2; ++i) move(wide[i], source[i]);
    return true;
  }
  const OperandSyntax &list = pack ? from : to;
  if (pack == unpack || (list.count != 2 && list.count != 4))
    return refuse("one operand is a .b128 register, the other two or four parts");
  if (!wide_register(pack ? to : from, wide)) return false;
  unsigned parts = list.count / 2;  // of each half
  std::vector<Value> halves;
  for (uint32_t i = 0; i < list.count; ++i) {
    const OperandSyntax &part = body_.operands[list.first + i];
    Value value;
    Type type = parts == 1 ? Type::B64 : Type::B32;
    if (pack ? !source(part, type, &value) : !destination(part, type_size(type), &value))
      return false;
    halves.push_back(value);
  }
  if (parts == 1) {
    // Through temporaries: the parts may be given the other way round.
    Value copies[2] = {temporary(Type::B64), temporary(Type::B64)};
    for (int i = 0; i < 2; ++i) move(copies[i], pack ? halves[i] : wide[i]);
    for (int i = 0; i < 2; ++i) move(pack ? wide[i] : halves[i], copies[i]);
    return true;
  }
  for (uint32_t i = 0; i < 2; ++i) {
    Ir ir = make(pack ? Op::Pack : Op::Unpack);
    ir.type = Type::B64;
    ir.memory_size = 4;
    ir.list = add_list({halves[2 * i], halves[2 * i + 1]});
    ir.list_count = 2;
    ir.list_written = unpack ? 2 : 0;
    (pack ? ir.d : ir.a) = wide[i];
    emit(ir);
  }
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

// Generic addresses are the addresses of all spaces but .shared.
bool Lowering::cvta() {
  bool to = take("to");
  auto space = take_space();
  Ir ir = make(Op::Move);
  ir.type = take_type();
  if (!space) return refuse("needs a state space");
  if (ir.type != Type::U64) return refuse("needs .u64");
  if (!modifiers_done() || !expect_operands(2)) return false;
  if (*space == Space::SharedCluster)
    ir.op = to ? Op::GenericToCluster : Op::ClusterToGeneric;
  else if (*space == Space::Shared)
    ir.op = to ? Op::ToShared : Op::FromShared;
  if (!destination(operand(0), 8, &ir.d) || !source(operand(1), Type::U64, &ir.a)) return false;
  emit(ir);
  return true;
}

bool Lowering::isspacep() {
  Ir ir = make(Op::IsSpace);
  auto space = take_space();
  if (!space) return refuse("needs a state space");
  ir.space = *space;
  ir.type = Type::U64;
  if (!modifiers_done() || !expect_operands(2)) return false;
  if (operand(0).kind != OperandSyntax::Register || !predicate_destination(operand(0).reg, &ir.d) ||
      !source(operand(1), Type::U64, &ir.a))
    return refuse("bad operands");
  emit(ir);
  return true;
}

}  // namespace softdev
