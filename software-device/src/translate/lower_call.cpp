// Calls, and what functions find and leave: their parameters and results lie in stack frames, and
// those that are registers are loaded from there and stored there.
#include "parse/index.h"
#include "translate/builtins.h"
#include "translate/lower.h"

namespace softdev {

// A load or a store of what lies at `offset` of the frame.
Ir Lowering::frame_access(Op op, uint32_t offset, unsigned size, const Value &value) const {
  Ir ir = make(op);
  ir.type = untyped(size);
  ir.space = Space::Local;
  ir.type2 = Type::U64;
  ir.offset = offset;
  ir.memory_size = static_cast<uint8_t>(size);
  ir.register_size = static_cast<uint8_t>(register_size(value));
  (op == Op::Load ? ir.d : ir.b) = value;
  return ir;
}

// The parameters and results of this function that are registers are its first ones, results
// before parameters.
bool Lowering::register_parameters(bool results) {
  uint32_t reg = 0;
  for (bool of_results : {true, false}) {
    const auto &variables =
        of_results ? function_.signature.results : function_.signature.parameters;
    const auto &offsets = of_results ? layout_.results : layout_.parameters;
    for (size_t i = 0; i < variables.size(); ++i) {
      if (variables[i].space != Space::Register) continue;
      const Value value = reg_value(reg++);
      if (of_results != results) continue;
      if (variables[i].type == Type::Pred || type_size(variables[i].type) > 8)
        return refuse("a parameter cannot be a register of this type");
      emit(frame_access(results ? Op::Store : Op::Load, offsets[i], type_size(variables[i].type),
                        value));
    }
  }
  return true;
}

// The end of this function, on one of the ways through it.
bool Lowering::leave() {
  if (!function_.entry && !register_parameters(true)) return false;
  emit(make(function_.entry ? Op::Exit : Op::Return));
  return true;
}

// Room in the frame for an argument or a result that is no variable.
bool Lowering::passing_room(const VariableSyntax &formal, uint32_t *offset) {
  const unsigned size = type_size(formal.type);
  if (formal.type == Type::Pred) return refuse("a predicate is no type of an argument or result");
  if (formal.size != size || size == 0 || size > 8)
    return refuse("this argument or result must be a .param variable");
  *offset = (out_->frame_bytes + size - 1) / size * size;
  if (*offset + size > kMaxFrame) return refuse("the stack frame is too large");
  out_->frame_bytes = *offset + size;
  return true;
}

// Arguments that are registers or constants are stored before the call; results that are registers
// are loaded behind it, by what `after` gets.
bool Lowering::call_site(const Signature &signature, const OperandSyntax *results,
                         const OperandSyntax *arguments, CallSite *site, std::vector<Ir> *after) {
  FrameLayout layout = frame_layout(signature);
  auto connect = [&](const OperandSyntax *list, const std::vector<VariableSyntax> &formals,
                     const std::vector<uint32_t> &offsets, std::vector<CallSite::Copy> *copies) {
    uint32_t count = list ? list->count : 0;
    if (count != formals.size()) return refuse("wrong number of arguments or results");
    for (uint32_t i = 0; i < count; ++i) {
      const OperandSyntax &actual = body_.operands[list->first + i];
      const VariableSyntax &formal = formals[i];
      const VariableSyntax *variable =
          actual.kind == OperandSyntax::Symbol ? find_variable(actual.name, actual.scope) : nullptr;
      auto at =
          variable && variable->space == Space::Param ? local_offset(*variable) : std::nullopt;
      if (at && variable->size != formal.size) return refuse("an argument has the wrong size");
      if (!at) {
        uint32_t room = 0;
        if (!passing_room(formal, &room)) return false;
        Value value;
        if (list == arguments) {
          if (!source(actual, formal.type, &value)) return false;
          emit(frame_access(Op::Store, room, type_size(formal.type), value));
        } else {
          if (!destination(actual, slot_size(formal.type), &value)) return false;
          after->push_back(frame_access(Op::Load, room, type_size(formal.type), value));
        }
        at = room;
      }
      copies->push_back({*at, offsets[i], static_cast<uint32_t>(formal.size)});
    }
    return true;
  };
  return connect(arguments, signature.parameters, layout.parameters, &site->arguments) &&
         connect(results, signature.results, layout.results, &site->results);
}

void Lowering::emit_call(Ir ir, CallSite site, const std::vector<Ir> &after) {
  ir.target = static_cast<uint32_t>(out_->calls.size());
  out_->calls.push_back(std::move(site));
  emit(ir);
  for (const Ir &load : after) emit(load);
}

// What an indirect call says of the functions that it may reach: a prototype, a list of them, or a
// variable that is a table of them.
const Signature *Lowering::prototype(const OperandSyntax &operand) {
  const ModuleSyntax &module = surroundings_.module();
  for (const ScopedPrototype &prototype : body_.prototypes)
    if (prototype.name == operand.name) return &prototype.signature;
  // Functions stand for the signature that all of them have.
  auto of_function = [&](std::string_view name) -> const Signature * {
    auto found = module.function_by_name.find(name);
    return found == module.function_by_name.end() ? nullptr
                                                  : &module.functions[found->second].signature;
  };
  for (const ScopedTargets &targets : body_.call_targets)
    if (targets.name == operand.name) return of_function(targets.labels[0]);
  const VariableSyntax *table = find_variable(operand.name, operand.scope);
  if (!table || !table->initialiser || table->size > kMaxCallTable) return nullptr;
  std::vector<uint8_t> image(table->size);
  std::vector<Relocation> addresses;
  if (read_initialiser(surroundings_.text(), *table, image.data(), &addresses) || addresses.empty())
    return nullptr;
  return of_function(addresses[0].symbol);
}

bool Lowering::call_builtin(const BuiltinFunction &builtin, const Signature &signature,
                            const OperandSyntax *results, const OperandSyntax *arguments) {
  if (!declared_as(builtin, signature)) return refuse("this function has an unknown signature");
  CallSite site;
  std::vector<Ir> after;
  site.builtin = &builtin;
  if (!call_site(signature, results, arguments, &site, &after)) return false;
  emit_call(make(Op::CallBuiltin), std::move(site), after);
  return true;
}

// call [(results),] function [, (arguments)] [, prototype or targets]
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
  std::vector<Ir> after;
  Ir ir = make(Op::Call);
  if (callee.kind == OperandSyntax::Symbol) {
    auto found = module.function_by_name.find(callee.name);
    if (found == module.function_by_name.end())
      return refuse("unknown function '" + std::string(callee.name) + "'");
    const FunctionSyntax &function = module.functions[found->second];
    if (function.entry) return refuse("a kernel cannot be called");
    if (!function.body) {
      if (const BuiltinFunction *builtin = find_builtin(function.name))
        return call_builtin(*builtin, function.signature, results, arguments);
      return refuse("function '" + std::string(callee.name) + "' is not defined in this module");
    }
    if (!call_site(function.signature, results, arguments, &site, &after)) return false;
    site.callee = surroundings_.reach_function(found->second);
  } else if (callee.kind == OperandSyntax::Register) {
    if (at >= operand_count() || operand(at).kind != OperandSyntax::Symbol)
      return refuse("an indirect call needs a prototype");
    const Signature *signature = prototype(operand(at));
    if (!signature) return refuse("unknown prototype '" + std::string(operand(at).name) + "'");
    if (!call_site(*signature, results, arguments, &site, &after)) return false;
    ir.op = Op::CallIndirect;
    if (!source(callee, Type::U64, &ir.a)) return false;
    surroundings_.reach_all_pointed_at();
  } else {
    return refuse("expected a function");
  }
  emit_call(ir, std::move(site), after);
  return true;
}

}  // namespace softdev
