// What the operands of a statement are: registers, constants, special registers, and names.
#include <bit>

#include "translate/lower.h"

namespace softdev {

// ---- operands

bool Lowering::expect_operands(uint32_t least, uint32_t most) {
  if (operand_count() < least || operand_count() > most) return refuse("wrong number of operands");
  return true;
}

unsigned Lowering::register_size(const Value &value) const {
  if (value.kind == Value::Reg) return slot_size(out_->registers[value.index]);
  if (value.kind == Value::Const) return out_->constants[value.index].size;
  return 0;
}

bool Lowering::destination(const OperandSyntax &operand, unsigned size, Value *out) {
  if (operand.kind == OperandSyntax::Sink) {
    // A register nobody reads, so that handlers need no special case.
    *out = temporary(size == 0   ? Type::Pred
                     : size == 2 ? Type::B16
                     : size == 4 ? Type::B32
                                 : Type::B64);
    return true;
  }
  if (operand.kind != OperandSyntax::Register || operand.negated)
    return refuse("the destination must be a register");
  *out = reg_value(operand.reg);
  if (register_size(*out) != size || (size == 0) != (out_->registers[operand.reg] == Type::Pred) ||
      type_size(out_->registers[operand.reg]) > 8)
    return refuse("the destination register has the wrong size");
  return true;
}

bool Lowering::destination_any(const OperandSyntax &operand, Value *out, unsigned *size) {
  if (operand.kind != OperandSyntax::Register || operand.negated)
    return refuse("the destination must be a register");
  *out = reg_value(operand.reg);
  *size = register_size(*out);
  if (*size == 0 || *size > 8) return refuse("the destination register has the wrong size");
  return true;
}

bool Lowering::immediate_bits(const OperandSyntax &operand, Type type, uint64_t *bits) {
  bool is_float = type == Type::F32 || type == Type::F64;
  switch (operand.kind) {
    case OperandSyntax::Integer:
      if (is_float && operand.bits != 0)
        return refuse("an integer constant where a floating-point one belongs");
      *bits = operand.bits;
      return true;
    case OperandSyntax::Single:
      *bits = operand.bits;
      if (type == Type::F64)
        *bits = std::bit_cast<uint64_t>(
            static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(operand.bits))));
      else if (type_size(type) != 4)
        return refuse("a 32-bit constant where another size belongs");
      return true;
    case OperandSyntax::Double:
      *bits = operand.bits;
      if (type == Type::F32)
        *bits = std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(operand.bits)));
      else if (type_size(type) != 8)
        return refuse("a 64-bit constant where another size belongs");
      return true;
    default:
      return refuse("expected a constant");
  }
}

bool Lowering::source_wide(const OperandSyntax &operand, Type type, Value *out, unsigned *size) {
  *size = slot_size(type);
  switch (operand.kind) {
    case OperandSyntax::Register: {
      if (operand.negated || operand.pair != kNone) return refuse("bad source operand");
      Type declared = out_->registers[operand.reg];
      if (declared == Type::Pred || type_size(declared) > 8)
        return refuse("the source register has the wrong type");
      *out = reg_value(operand.reg);
      *size = slot_size(declared);
      return true;
    }
    case OperandSyntax::Special:
      return special_value(operand.name, operand.selector, *size, out);
    case OperandSyntax::Symbol:
      return symbol_value(operand, *size, out);
    default: {
      uint64_t value = 0;
      if (!immediate_bits(operand, type, &value)) return false;
      *out = bits(value, *size);
      return true;
    }
  }
}

bool Lowering::source(const OperandSyntax &operand, Type type, Value *out) {
  unsigned size = 0;
  if (!source_wide(operand, type, out, &size)) return false;
  if (size != slot_size(type)) return refuse("the source register has the wrong size");
  return true;
}

bool Lowering::predicate_source(const OperandSyntax &operand, Value *out, bool *negated) {
  if (operand.kind == OperandSyntax::Integer) {
    // Some tools write 1 or 0 for a predicate.
    Constant value;
    value.size = 0;
    value.payload = operand.bits ? 0xffffffffu : 0;
    *out = constant(value);
    *negated = operand.negated;
    return true;
  }
  if (operand.kind == OperandSyntax::Special && operand.name == "%is_explicit_cluster") {
    *negated = operand.negated;
    *out = special(Special::ClusterExplicit, 0);
    return true;
  }
  if (operand.kind != OperandSyntax::Register) return refuse("expected a predicate");
  *negated = operand.negated;
  return predicate_destination(operand.reg, out);
}

bool Lowering::predicate_destination(uint32_t reg, Value *out) {
  if (out_->registers[reg] != Type::Pred) return refuse("expected a predicate register");
  *out = reg_value(reg);
  return true;
}

Value Lowering::constant(Constant value) {
  uint64_t hash = value.payload * 0x9e3779b97f4a7c15u + value.kind * 31 + value.size;
  auto &bucket = constants_by_hash_[hash];
  for (uint32_t index : bucket)
    if (out_->constants[index] == value) return {Value::Const, index};
  uint32_t index = static_cast<uint32_t>(out_->constants.size());
  out_->constants.push_back(value);
  bucket.push_back(index);
  return {Value::Const, index};
}

Value Lowering::bits(uint64_t value, unsigned size) {
  Constant constant;
  constant.size = static_cast<uint8_t>(size);
  constant.payload = size == 2 ? value & 0xffff : size == 4 ? value & 0xffffffffu : value;
  return this->constant(constant);
}

Value Lowering::special(Special special, unsigned size) {
  Constant constant;
  constant.kind = Constant::Special;
  constant.size = static_cast<uint8_t>(size);
  constant.payload = static_cast<uint64_t>(special);
  return this->constant(constant);
}

bool Lowering::special_value(std::string_view name, std::string_view part, unsigned size,
                             Value *out) {
  static const std::unordered_map<std::string_view, Special> kSpecials = {
      {"%tid.x", Special::TidX},
      {"%tid.y", Special::TidY},
      {"%tid.z", Special::TidZ},
      {"%ntid.x", Special::NtidX},
      {"%ntid.y", Special::NtidY},
      {"%ntid.z", Special::NtidZ},
      {"%ctaid.x", Special::CtaidX},
      {"%ctaid.y", Special::CtaidY},
      {"%ctaid.z", Special::CtaidZ},
      {"%nctaid.x", Special::NctaidX},
      {"%nctaid.y", Special::NctaidY},
      {"%nctaid.z", Special::NctaidZ},
      {"%laneid", Special::LaneId},
      {"%warpid", Special::WarpId},
      {"%nwarpid", Special::NwarpId},
      {"%smid", Special::SmId},
      {"%nsmid", Special::NsmId},
      {"%gridid", Special::GridId},
      {"%lanemask_eq", Special::LanemaskEq},
      {"%lanemask_le", Special::LanemaskLe},
      {"%lanemask_lt", Special::LanemaskLt},
      {"%lanemask_ge", Special::LanemaskGe},
      {"%lanemask_gt", Special::LanemaskGt},
      {"%envreg1", Special::Envreg1},
      {"%envreg2", Special::Envreg2},
      {"%dynamic_smem_size", Special::DynamicShared},
      {"%total_smem_size", Special::TotalShared},
      {"%aggr_smem_size", Special::AggregateShared},
      {"%cluster_ctarank", Special::ClusterRank},
      {"%cluster_nctarank", Special::ClusterBlocks},
      {"%cluster_ctaid.x", Special::ClusterCtaidX},
      {"%cluster_ctaid.y", Special::ClusterCtaidY},
      {"%cluster_ctaid.z", Special::ClusterCtaidZ},
      {"%cluster_nctaid.x", Special::ClusterNctaidX},
      {"%cluster_nctaid.y", Special::ClusterNctaidY},
      {"%cluster_nctaid.z", Special::ClusterNctaidZ},
      {"%clusterid.x", Special::ClusterIdX},
      {"%clusterid.y", Special::ClusterIdY},
      {"%clusterid.z", Special::ClusterIdZ},
      {"%nclusterid.x", Special::NclusterIdX},
      {"%nclusterid.y", Special::NclusterIdY},
      {"%nclusterid.z", Special::NclusterIdZ},
      {"%current_graph_exec", Special::Zero},
      {"%reserved_smem_offset_begin", Special::ReservedBegin},
      {"%reserved_smem_offset_end", Special::ReservedEnd},
      {"%reserved_smem_offset_cap", Special::ReservedEnd},
      {"%reserved_smem_offset_0", Special::ReservedBegin},
      {"%reserved_smem_offset_1", Special::ReservedBegin},
      {"%clock", Special::Clock},
      {"%clock_hi", Special::ClockHi},
      {"%clock64", Special::Clock64},
      {"%globaltimer", Special::GlobalTimer},
      {"%globaltimer_lo", Special::GlobalTimerLo},
      {"%globaltimer_hi", Special::GlobalTimerHi},
  };
  // Parts of vectors have several names, and the fourth is always 0.
  std::string spelled(name);
  bool fourth = false;
  if (!part.empty()) {
    constexpr std::string_view kColours = "rgba", kParts = "xyzw";
    (spelled += '.') += part;
    if (size_t colour = kColours.find(part); part.size() == 1 && colour != std::string_view::npos)
      spelled.back() = kParts[colour];
    fourth = part.size() == 1 && spelled.back() == 'w';
    if (fourth) spelled.back() = 'x';
  }
  auto numbered = [&](std::string_view prefix, unsigned count) {
    std::string_view digits =
        std::string_view(spelled).substr(std::min(prefix.size(), spelled.size()));
    if (digits.size() >= 3 && digits.substr(digits.size() - 3) == "_64") digits.remove_suffix(3);
    if (spelled.compare(0, prefix.size(), prefix) != 0 || digits.empty() || digits.size() > 2)
      return false;
    unsigned number = 0;
    for (char c : digits) {
      if (c < '0' || c > '9') return false;
      number = number * 10 + static_cast<unsigned>(c - '0');
    }
    return number < count;
  };
  auto found = kSpecials.find(std::string_view(spelled));
  // Counters of events that nobody counts, and what a driver may leave there.
  if (found == kSpecials.end() && (numbered("%pm", 8) || numbered("%envreg", 32))) {
    *out = special(Special::Zero, size);
    return true;
  }
  if (found != kSpecials.end() && fourth) {
    *out = special(Special::Zero, size);
    return true;
  }
  if (found == kSpecials.end()) {
    return refuse("unknown register " + spelled);
  }
  if (found->second >= Special::Clock) {
    Value value = temporary(size == 8 ? Type::B64 : Type::B32);
    if (size < 4) return refuse("a clock register needs 32 or 64 bits");
    Ir ir = make(Op::Clock);
    ir.mode = static_cast<uint8_t>(found->second);
    ir.type = size == 8 ? Type::U64 : Type::U32;
    ir.d = value;
    emit(ir);
    *out = value;
    return true;
  }
  *out = special(found->second, size);
  return true;
}

Value Lowering::temporary(Type type) {
  out_->registers.push_back(type);
  return reg_value(static_cast<uint32_t>(out_->registers.size() - 1));
}

// ---- symbols

const VariableSyntax *Lowering::find_variable(std::string_view name, uint32_t scope) {
  uint32_t index = find_scoped(variables_by_name_, name, scope);
  if (index != kNone) return &body_.variables[index].variable;
  for (const VariableSyntax &variable : function_.signature.parameters)
    if (variable.name == name) return &variable;
  for (const VariableSyntax &variable : function_.signature.results)
    if (variable.name == name) return &variable;
  auto global = surroundings_.module().variable_by_name.find(name);
  if (global != surroundings_.module().variable_by_name.end())
    return &surroundings_.module().variables[global->second];
  return nullptr;
}

std::optional<uint32_t> Lowering::local_offset(const VariableSyntax &variable) {
  auto found = frame_offsets_.find(&variable);
  if (found != frame_offsets_.end()) return found->second;
  if (function_.entry) return std::nullopt;
  const Signature &signature = function_.signature;
  for (size_t i = 0; i < signature.parameters.size(); ++i)
    if (&signature.parameters[i] == &variable) return layout_.parameters[i];
  for (size_t i = 0; i < signature.results.size(); ++i)
    if (&signature.results[i] == &variable) return layout_.results[i];
  return std::nullopt;
}

OperandSyntax Lowering::in_bytes(const OperandSyntax &operand) {
  OperandSyntax result = operand;
  // Looked up only where it matters: every load and store comes here.
  if (!operand.indexed || operand.reg != kNone) return result;
  const VariableSyntax *variable = find_variable(operand.name, operand.scope);
  if (!variable) return result;
  // Vectors, and arrays of arrays, are counted by what they are made of.
  result.indexed = false;
  result.offset =
      static_cast<int64_t>(static_cast<uint64_t>(operand.offset) * type_size(variable->type));
  return result;
}

// The address of array[%r1 + offset]: the index is one of 32 bits without a sign.
bool Lowering::element_value(const OperandSyntax &operand, const VariableSyntax &variable,
                             unsigned size, Value *out) {
  OperandSyntax array = operand, index;
  array.indexed = false;
  array.reg = kNone;
  array.offset = 0;
  index.kind = OperandSyntax::Register;
  index.reg = operand.reg;
  Value base, value;
  unsigned index_size = 0;
  if (!symbol_value(array, size, &base) || !source_wide(index, Type::U32, &value, &index_size))
    return false;
  auto resize = [&](unsigned from, unsigned to) {
    if (from == to) return;
    Ir ir = make(Op::Resize);
    ir.type = to == 4 ? Type::B32 : Type::B64;
    ir.type2 = from == 2 ? Type::B16 : from == 4 ? Type::B32 : Type::B64;
    ir.a = value;
    ir.d = value = temporary(ir.type);
    emit(ir);
  };
  auto calculate = [&](Op op, Type type, Value with) {
    Ir ir = make(op);
    ir.type = type;
    ir.a = value;
    ir.b = with;
    ir.d = value = temporary(type);
    emit(ir);
  };
  resize(index_size, 4);
  calculate(Op::Add, Type::U32, bits(static_cast<uint64_t>(operand.offset), 4));
  calculate(Op::Mul, Type::U32, bits(type_size(variable.type), 4));
  resize(4, size);
  calculate(Op::Add, size == 4 ? Type::U32 : Type::U64, base);
  *out = value;
  return true;
}

bool Lowering::symbol_value(const OperandSyntax &written, unsigned size, Value *out) {
  const OperandSyntax operand = in_bytes(written);
  const ModuleSyntax &module = surroundings_.module();
  const VariableSyntax *variable = find_variable(operand.name, operand.scope);
  if (variable && operand.indexed) return element_value(operand, *variable, size, out);
  if (!variable) {
    auto function = module.function_by_name.find(operand.name);
    if (function == module.function_by_name.end())
      return refuse("unknown name '" + std::string(operand.name) + "'");
    if (size != 8) return refuse("the address of a function needs 64 bits");
    *out = bits(surroundings_.function_address(function->second), 8);
    return true;
  }
  switch (variable->space) {
    case Space::Global:
    case Space::Constant: {
      if (size != 8) return refuse("the address of a variable needs 64 bits");
      auto index = static_cast<uint32_t>(variable - module.variables.data());
      uint64_t address = surroundings_.variable_address(index);
      if (address == 0)
        return refuse("variable '" + std::string(variable->name) + "' is not defined here");
      *out = bits(address + static_cast<uint64_t>(operand.offset), 8);
      return true;
    }
    case Space::Shared: {
      if (size < 4) return refuse("the address of a variable needs 32 or 64 bits");
      if (operand.offset < INT32_MIN || operand.offset > INT32_MAX)
        return refuse("offset out of range");
      Constant value;
      value.kind = Constant::SharedOffset;
      value.size = static_cast<uint8_t>(size);
      value.payload =
          surroundings_.reach_shared(*variable) | (static_cast<uint64_t>(operand.offset) << 32);
      *out = constant(value);
      return true;
    }
    case Space::Local:
    case Space::Param: {
      if (size != 8) return refuse("the address of a local variable needs 64 bits");
      if (auto offset = local_offset(*variable)) {
        Value value = temporary(Type::B64);
        Ir ir = make(Op::LocalAddress);
        ir.type = Type::U64;
        ir.d = value;
        ir.offset = *offset + operand.offset;
        emit(ir);
        *out = value;
        return true;
      }
      for (size_t i = 0; i < function_.signature.parameters.size(); ++i) {
        if (&function_.signature.parameters[i] != variable) continue;
        Constant value;
        value.kind = Constant::ParameterAddress;
        value.size = 8;
        value.payload = kernel_offsets_[i] + static_cast<uint64_t>(operand.offset);
        *out = constant(value);
        return true;
      }
      return refuse("this variable has no address");
    }
    default:
      return refuse("this name has no address");
  }
}

uint32_t Lowering::find_scoped(const Scoped &names, std::string_view name, uint32_t scope) const {
  auto found = names.find(name);
  if (found == names.end()) return kNone;
  for (uint32_t s = scope; s != kNone; s = body_.scope_parent[s]) {
    auto here = found->second.find(s);
    if (here != found->second.end()) return here->second;
  }
  return kNone;
}

uint32_t Lowering::find_label(std::string_view name, uint32_t scope) const {
  return find_scoped(labels_by_name_, name, scope);
}

}  // namespace softdev
