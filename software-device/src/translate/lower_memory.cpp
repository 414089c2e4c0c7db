// Loads, stores and atomics.
#include <algorithm>

#include "translate/lower.h"

namespace softdev {
namespace {

bool is_float(Type type) {
  return type == Type::F16 || type == Type::BF16 || type == Type::F32 || type == Type::F64;
}

constexpr uint64_t kMaxAlign = 4096;

}  // namespace

// Sets ir.a, ir.offset, ir.type2 (the size of the address), and for what lies at a fixed place of
// the stack frame leaves ir.a empty: then ir.offset is an offset in the frame.
bool Lowering::address(const OperandSyntax &written, Space space, unsigned access, Ir *ir) {
  const OperandSyntax operand = in_bytes(written);
  if (written.kind != OperandSyntax::Address && !written.indexed)
    return refuse("expected an address");
  if (operand.count) return refuse("coordinates where a plain address belongs");
  if (space == Space::SharedCluster) {
    // Wherever it lies, it has a generic address.
    ir->space = Space::Generic;
    ir->offset = 0;
    ir->type2 = Type::U64;
    return shared_address(operand, SharedWindow::Cluster, &ir->a);
  }
  ir->space = space;
  ir->offset = operand.offset;
  ir->type2 = Type::U64;
  if (operand.reg != kNone && !operand.indexed) {
    ir->a = reg_value(operand.reg);
    unsigned size = register_size(ir->a);
    if (size == 4 && (space == Space::Shared || space == Space::Generic || space == Space::Param ||
                      space == Space::Constant || space == Space::Local))
      ir->type2 = Type::U32;
    else if (size != 8)
      return refuse("the address register has the wrong size");
    return true;
  }
  if (operand.name.empty()) {
    ir->a = bits(static_cast<uint64_t>(operand.offset), 8);
    ir->offset = 0;
    return true;
  }
  const VariableSyntax *variable = find_variable(operand.name, operand.scope);
  if (variable && (variable->space == Space::Local || variable->space == Space::Param)) {
    if (auto at = operand.indexed ? std::nullopt : local_offset(*variable)) {
      if (space == Space::Global || space == Space::Shared || space == Space::Constant)
        return refuse("this variable is in another state space");
      if (operand.offset < 0 || static_cast<uint64_t>(operand.offset) + access > variable->size)
        return refuse("the access is outside of '" + std::string(operand.name) + "'");
      ir->space = Space::Local;
      ir->offset = *at + operand.offset;
      return true;
    }
  }
  OperandSyntax symbol = operand;
  symbol.kind = OperandSyntax::Symbol;
  if (operand.indexed)
    ir->offset = 0;  // in elements
  else
    symbol.offset = 0;
  bool shared = variable && variable->space == Space::Shared;
  if (shared && space == Space::Generic) {
    // A generic access by name: the address of the variable, made generic.
    Value offset;
    if (!symbol_value(symbol, 8, &offset)) return false;
    Ir from = make(Op::FromShared);
    from.type = Type::U64;
    from.a = offset;
    from.d = temporary(Type::B64);
    emit(from);
    ir->a = from.d;
    return true;
  }
  if (variable && shared != (space == Space::Shared))
    return refuse("this variable is in another state space");
  return symbol_value(symbol, 8, &ir->a);
}

// What is in the braces of  st.shared.f32 [%rd1], {%f2};  which says no .v1.
const OperandSyntax &Lowering::only_element(const OperandSyntax &operand, unsigned vector) const {
  const bool one = vector == 1 && operand.kind == OperandSyntax::List && operand.count == 1;
  return one ? body_.operands[operand.first] : operand;
}

bool Lowering::load() {
  Ir ir = make(Op::Load);
  auto space = take_space();
  bool scoped = take_memory_order(&ir.order);
  bool hint = take("L2::cache_hint");
  take_cache_hints();
  take("unified");
  unsigned vector = take_vector();
  ir.type = take_type();
  if (ir.type == Type::None || ir.type == Type::Pred) return refuse("no type");
  bool wide = ir.type == Type::B128;  // as two of 64 bits
  if (wide && vector > 1) return refuse("contradictory modifiers");
  if (wide) {
    vector = 2;
    ir.type = Type::B64;
  }
  if (!modifiers_done()) return false;
  if (scoped && ir.order == Order::Weak) return refuse("a scope needs .relaxed or .acquire");
  if (!expect_operands(2, hint ? 3 : 2)) return false;
  unsigned size = type_size(ir.type);
  ir.memory_size = static_cast<uint8_t>(size);
  ir.sign = is_signed(ir.type);

  const OperandSyntax &to = only_element(operand(0), vector);
  std::vector<Value> values;
  unsigned register_bytes = 0;
  if (wide) {
    Value halves[2];
    if (!wide_register(to, halves)) return false;
    values = {halves[0], halves[1]};
    register_bytes = 8;
  } else if ((to.kind == OperandSyntax::List) != (vector > 1) ||
             (vector > 1 && to.count != vector)) {
    return refuse("wrong vector length");
  }
  for (unsigned i = 0; !wide && i < vector; ++i) {
    const OperandSyntax &part = vector > 1 ? body_.operands[to.first + i] : to;
    Value value;
    if (part.kind != OperandSyntax::Sink) {
      unsigned bytes = 0;
      if (!destination_any(part, &value, &bytes)) return false;
      if (bytes < size || (is_float(ir.type) && bytes != size))
        return refuse("the destination register has the wrong size");
      if (register_bytes && register_bytes != bytes)
        return refuse("the destination registers differ in size");
      register_bytes = bytes;
    }
    values.push_back(value);
  }
  if (register_bytes == 0) register_bytes = slot_size(ir.type);
  ir.register_size = static_cast<uint8_t>(register_bytes);

  Space where = space.value_or(Space::Generic);
  const OperandSyntax from = in_bytes(operand(1));
  // Parameters of a kernel are constants of the launch.
  if (where == Space::Param && function_.entry &&
      (from.kind == OperandSyntax::Address || operand(1).indexed) && from.reg == kNone &&
      !from.name.empty()) {
    for (size_t i = 0; i < function_.signature.parameters.size(); ++i) {
      const VariableSyntax &parameter = function_.signature.parameters[i];
      if (parameter.name != from.name) continue;
      if (from.offset < 0 ||
          static_cast<uint64_t>(from.offset) + uint64_t{size} * vector > parameter.size)
        return refuse("the access is outside of the parameter");
      if (from.offset % size) return refuse("the access is misaligned");
      for (unsigned v = 0; v < vector; ++v) {
        if (!values[v]) continue;
        Constant constant;
        constant.kind = Constant::Parameter;
        constant.size = static_cast<uint8_t>(register_bytes);
        constant.read = static_cast<uint8_t>(size);
        constant.sign = ir.sign;
        constant.payload = kernel_offsets_[i] + static_cast<uint64_t>(from.offset) + v * size;
        Ir move = make(Op::Move);
        move.type = register_bytes == 2 ? Type::B16 : register_bytes == 4 ? Type::B32 : Type::B64;
        move.d = values[v];
        move.a = this->constant(constant);
        emit(move);
      }
      return true;
    }
  }
  if (!address(operand(1), where, size * vector, &ir)) return false;
  if (vector == 1) {
    ir.d = values[0] ? values[0] : temporary(ir.type);
  } else {
    ir.list = add_list(values);
    ir.list_count = vector;
    ir.list_written = vector;
  }
  emit(ir);
  return true;
}

bool Lowering::store() {
  if (take("bulk")) return store_bulk();
  Ir ir = make(Op::Store);
  bool async = take("async");
  if (async && !has("release")) return store_async(false);
  auto space = take_space();
  bool scoped = take_memory_order(&ir.order);
  bool hint = take("L2::cache_hint");
  take_cache_hints();
  unsigned vector = take_vector();
  ir.type = take_type();
  if (ir.type == Type::None || ir.type == Type::Pred) return refuse("no type");
  bool wide = ir.type == Type::B128;  // as two of 64 bits
  if (wide && vector > 1) return refuse("contradictory modifiers");
  if (wide) {
    vector = 2;
    ir.type = Type::B64;
  }
  if (!modifiers_done()) return false;
  if (scoped && ir.order == Order::Weak) return refuse("a scope needs .relaxed or .release");
  // st.async[.mmio].release.scope[.global].type: made when it is issued, it is in order
  if (async && (hint || vector > 1 || wide || type_size(ir.type) < 2 || !scoped ||
                (space && *space != Space::Global)))
    return refuse("no such form of st.async");
  if (!expect_operands(2, hint ? 3 : 2)) return false;
  unsigned size = type_size(ir.type);
  ir.memory_size = static_cast<uint8_t>(size);
  Space where = space.value_or(Space::Generic);
  if (where == Space::Constant) return refuse("constants cannot be written");
  if (!address(operand(0), where, size * vector, &ir)) return false;
  if (where == Space::Param && ir.space != Space::Local)
    return refuse("the parameters of a kernel cannot be written");

  const OperandSyntax &from = only_element(operand(1), vector);
  std::vector<Value> values;
  unsigned register_bytes = 0;
  if (wide) {
    Value halves[2];
    if (!wide_register(from, halves)) return false;
    values = {halves[0], halves[1]};
    register_bytes = 8;
  } else if ((from.kind == OperandSyntax::List) != (vector > 1) ||
             (vector > 1 && from.count != vector)) {
    return refuse("wrong vector length");
  }
  for (unsigned i = 0; !wide && i < vector; ++i) {
    const OperandSyntax &part = vector > 1 ? body_.operands[from.first + i] : from;
    Value value;
    unsigned bytes = 0;
    if (!source_wide(part, ir.type, &value, &bytes)) return false;
    if (bytes < size || (is_float(ir.type) && bytes != size))
      return refuse("the source register has the wrong size");
    if (value.kind == Value::Const && register_bytes && bytes != register_bytes) {
      // A constant beside wider registers
      if (part.kind == OperandSyntax::Integer) value = bits(part.bits, register_bytes);
      bytes = register_size(value);
    }
    if (register_bytes && register_bytes != bytes)
      return refuse("the source registers differ in size");
    register_bytes = bytes;
    values.push_back(value);
  }
  ir.register_size = static_cast<uint8_t>(register_bytes);
  if (vector == 1) {
    ir.b = values[0];
  } else {
    ir.list = add_list(values);
    ir.list_count = vector;
  }
  emit(ir);
  return true;
}

// atom.order.scope.space.op[.noftz][.vec].type d, [a], b [, c]     red... [a], b
bool Lowering::atomic() {
  const bool multicast = statement_->opcode == "multimem";
  bool reduce = multicast || statement_->opcode == "red";
  bool async = reduce && take("async");
  if (async && !has("release")) return store_async(true);
  Ir ir = make(Op::Atomic);
  auto space = take_space();
  take_memory_order(&ir.order);
  bool no_flush = take("noftz");
  bool hint = take("L2::cache_hint");
  unsigned vector = take_vector();
  auto op =
      take_atomic_op({AtomicOp::Add, AtomicOp::Min, AtomicOp::Max, AtomicOp::And, AtomicOp::Or,
                      AtomicOp::Xor, AtomicOp::Exch, AtomicOp::Cas, AtomicOp::Inc, AtomicOp::Dec});
  if (op) ir.mode = static_cast<uint8_t>(*op);
  ir.type = take_type();
  if (!op || ir.type == Type::None) return refuse("needs an operation and a type");
  if (!modifiers_done()) return false;
  bool half = ir.type == Type::F16 || ir.type == Type::BF16 || ir.type == Type::F16x2 ||
              ir.type == Type::BF16x2;
  if (half != (no_flush || (half && multicast))) return refuse("half types and .noftz go together");
  // red.async[.mmio].release.scope[.global].op.type
  if (async && (hint || vector > 1 || *op == AtomicOp::Exch || *op == AtomicOp::Cas ||
                is_float(ir.type) || half || (space && *space != Space::Global)))
    return refuse("no such form of red.async");
  bool cas = ir.mode == static_cast<uint8_t>(AtomicOp::Cas);
  uint32_t count = (reduce ? 2 : 3) + (cas ? 1 : 0);
  if (!expect_operands(count, count + (hint ? 1 : 0))) return false;
  Space where = space.value_or(Space::Generic);
  if (where != Space::Generic && where != Space::Global && where != Space::Shared &&
      where != Space::SharedCluster)
    return refuse("atomics work in .global and .shared");
  bool wide = ir.type == Type::B128;
  if (wide && reduce) return refuse("this type needs atom");
  if (type_size(ir.type) < 2) return refuse("this size is not supported");
  unsigned size = type_size(ir.type);
  uint32_t at = reduce ? 0 : 1;
  if (!address(operand(at), where, size * vector, &ir)) return false;
  ir.memory_size = static_cast<uint8_t>(size);
  if (vector == 1 && !wide) {
    if (!reduce && !destination(operand(0), size, &ir.d)) return false;
    if (!source(operand(at + 1), ir.type, &ir.b)) return false;
    if (cas && !source(operand(at + 2), ir.type, &ir.c)) return false;
    emit(ir);
    return true;
  }

  // The results, if they are wanted, and then the sources.
  if (where == Space::Shared && !wide) return refuse("vectors need .global");
  std::vector<Value> values;
  for (uint32_t i = 0; i < count; ++i) {
    if (i == at) continue;
    bool result = i < at;
    const OperandSyntax &list = operand(i);
    if (wide) {
      Value halves[2];
      if (!wide_register(list, halves)) return false;
      values.insert(values.end(), {halves[0], halves[1]});
      if (result) ir.list_written = 2;
      continue;
    }
    if (list.kind != OperandSyntax::List || list.count != vector)
      return refuse("wrong vector length");
    for (uint32_t k = 0; k < vector; ++k) {
      const OperandSyntax &part = body_.operands[list.first + k];
      Value value;
      if (result ? !destination(part, size, &value) : !source(part, ir.type, &value)) return false;
      values.push_back(value);
    }
    if (result) ir.list_written = vector;
  }
  ir.list = add_list(values);
  ir.list_count = static_cast<uint32_t>(values.size());
  ir.register_size = static_cast<uint8_t>(vector);
  emit(ir);
  return true;
}

// alloca.u64 ptr, size [, align]
bool Lowering::alloca_() {
  if (statement_->opcode == "stacksave" || statement_->opcode == "stackrestore") {
    Ir ir = make(statement_->opcode == "stacksave" ? Op::StackSave : Op::StackRestore);
    ir.type = take_type();
    if (ir.type != Type::U64) return refuse("needs .u64");
    if (!modifiers_done() || !expect_operands(1)) return false;
    out_->uses_alloca = true;
    if (ir.op == Op::StackSave ? !destination(operand(0), 8, &ir.d)
                               : !source(operand(0), Type::U64, &ir.a))
      return false;
    emit(ir);
    return true;
  }
  Ir ir = make(Op::Alloca);
  ir.type = take_type();
  if (ir.type != Type::U64) return refuse("needs .u64");
  if (!modifiers_done() || !expect_operands(2, 3)) return false;
  uint64_t align = 8;
  if (operand_count() == 3 && !immediate_bits(operand(2), Type::U32, &align)) return false;
  if (align == 0 || align > kMaxAlign || (align & (align - 1)))
    return refuse("the alignment must be a power of two");
  ir.offset = static_cast<int64_t>(std::max<uint64_t>(align, 8));
  if (!destination(operand(0), 8, &ir.d) || !source(operand(1), Type::U64, &ir.a)) return false;
  out_->uses_alloca = true;
  emit(ir);
  return true;
}

}  // namespace softdev
