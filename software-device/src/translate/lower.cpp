#include "translate/lower.h"

#include <algorithm>
#include <bit>

namespace softdev {

FrameLayout frame_layout(const Signature &signature) {
  FrameLayout layout;
  auto place = [&](const std::vector<VariableSyntax> &variables, std::vector<uint32_t> *offsets) {
    for (const VariableSyntax &variable : variables) {
      layout.bytes = align_up(layout.bytes, std::min(variable.align, 64u));
      offsets->push_back(layout.bytes);
      layout.bytes += static_cast<uint32_t>(std::min<uint64_t>(variable.size, kMaxFrame));
      layout.bytes = std::min(layout.bytes, kMaxFrame);
    }
  };
  place(signature.results, &layout.results);
  place(signature.parameters, &layout.parameters);
  return layout;
}

std::vector<uint32_t> kernel_parameter_offsets(const Signature &signature, uint32_t *bytes) {
  std::vector<uint32_t> offsets;
  uint64_t at = 0;
  for (const VariableSyntax &variable : signature.parameters) {
    at = (at + variable.align - 1) / variable.align * variable.align;
    offsets.push_back(static_cast<uint32_t>(at));
    at = std::min<uint64_t>(at + variable.size, kMaxFrame);
  }
  *bytes = static_cast<uint32_t>(at);
  return offsets;
}

bool is_pure(Op op) {
  switch (op) {
    case Op::Load:
    case Op::Store:
    case Op::Atomic:
    case Op::Fence:
    case Op::Texture:
    case Op::TextureQuery:
    case Op::SurfaceLoad:
    case Op::SurfaceStore:
    case Op::SurfaceReduce:
    case Op::Alloca:
    case Op::StackSave:
    case Op::StackRestore:
    case Op::Shuffle:
    case Op::Vote:
    case Op::Match:
    case Op::Redux:
    case Op::Elect:
    case Op::ActiveMask:
    case Op::WarpBarrier:
    case Op::Barrier:
    case Op::AsyncCopy:
    case Op::Mbarrier:
    case Op::Mma:
    case Op::MmaQuads:
    case Op::Wgmma:
    case Op::FragmentLoad:
    case Op::FragmentStore:
    case Op::MatrixLoad:
    case Op::MatrixStore:
    case Op::MatrixMove:
    case Op::BulkCopy:
    case Op::BulkReduce:
    case Op::TensorCopy:
    case Op::TensorReduce:
    case Op::TensorReplace:
    case Op::StoreAsync:
    case Op::ReduceAsync:
    case Op::MapShared:  // it may fault
    case Op::ClusterBarrier:
    case Op::Branch:
    case Op::BranchIndexed:
    case Op::Call:
    case Op::CallIndirect:
    case Op::CallBuiltin:
    case Op::Return:
    case Op::Exit:
    case Op::Trap:
    case Op::Breakpoint:
    case Op::NanoSleep:
    case Op::Clock:
    case Op::Label:
    case Op::AddCarry:  // the flag is implied
    case Op::SubCarry:
    case Op::MadCarry:
      return false;
    default:
      return true;
  }
}

Lowering::Lowering(Surroundings &surroundings, const FunctionSyntax &function,
                   const BodySyntax &body, FunctionIr *out)
    : surroundings_(surroundings), function_(function), body_(body), out_(out) {}

Refusal Lowering::run() {
  out_->registers = body_.registers;
  out_->labels = static_cast<uint32_t>(body_.labels.size());
  for (uint32_t i = 0; i < body_.labels.size(); ++i)
    labels_by_name_[body_.labels[i].name][body_.labels[i].scope] = i;
  for (uint32_t i = 0; i < body_.variables.size(); ++i)
    variables_by_name_[body_.variables[i].variable.name][body_.variables[i].scope] = i;
  if (function_.entry) {
    uint32_t bytes = 0;
    kernel_offsets_ = kernel_parameter_offsets(function_.signature, &bytes);
  } else {
    layout_ = frame_layout(function_.signature);
    out_->frame_bytes = layout_.bytes;
  }
  // Local variables and the parameters of calls live in the frame.
  for (const ScopedVariable &scoped : body_.variables) {
    const VariableSyntax &variable = scoped.variable;
    if (variable.space != Space::Local && variable.space != Space::Param) continue;
    uint64_t at = align_up(out_->frame_bytes, std::min(variable.align, 4096u));
    if (at + variable.size > kMaxFrame) {
      refusal_.line = variable.line;
      refusal_.message = "local variable '" + std::string(variable.name) + "' is too large";
      return refusal_;
    }
    frame_offsets_[&variable] = static_cast<uint32_t>(at);
    out_->frame_bytes = static_cast<uint32_t>(at + variable.size);
  }
  if (!function_.entry && !register_parameters(false)) return refusal_;
  size_t next_label = 0;
  for (uint32_t i = 0; i <= body_.statements.size(); ++i) {
    while (next_label < body_.labels.size() && body_.labels[next_label].statement == i) {
      statement_index_ = std::min<uint32_t>(i, body_.statements.size() - (i > 0 ? 1 : 0));
      emit_label(static_cast<uint32_t>(next_label));
      ++next_label;
    }
    if (i == body_.statements.size()) break;
    statement_ = &body_.statements[i];
    statement_index_ = i;
    if (!statement()) return refusal_;
  }
  // Falling off the end returns.
  statement_index_ = body_.statements.empty() ? 0 : body_.statements.size() - 1;
  leave();
  return refusal_;
}

bool Lowering::statement() {
  taken_ = 0;
  guard_ = {};
  guard_label_ = kNone;
  if (statement_->modifiers > 32) return refuse("too many modifiers");
  if (statement_->guard != kNone) {
    if (!predicate_destination(statement_->guard, &guard_)) return false;
    guard_negated_ = statement_->guard_negated;
  }
  auto found = table().find(statement_->opcode);
  if (found == table().end())
    return refuse("unknown instruction '" + std::string(statement_->opcode) + "'");
  row_ = &found->second;
  if (statement_->has_selectors && row_->op != Op::Video)
    return refuse("a selector or a minus sign belongs to video instructions");
  for (uint32_t i = 0; i < operand_count(); ++i)
    if (operand(i).kind == OperandSyntax::List && operand(i).pair != kNone &&
        row_->op != Op::Texture)
      return refuse("a vector with a predicate where none belongs");
  size_t before = out_->code.size();
  if (!(this->*row_->method)()) return false;
  // Guards of plain instructions: a Guard before each.
  if (guard_ && guard_label_ == kNone) {
    for (size_t i = before; i < out_->code.size(); ++i) {
      out_->code[i].guard = guard_;
      out_->code[i].guard_negated = guard_negated_;
    }
  }
  end_guarded_region();
  return true;
}

bool Lowering::refuse(std::string message) {
  if (!refusal_) {
    refusal_.line = statement_ ? statement_->line : 0;
    refusal_.message = std::move(message);
  }
  return false;
}

// ---- modifiers

bool Lowering::take(std::string_view modifier) {
  for (uint32_t i = 0; i < statement_->modifiers; ++i) {
    if ((taken_ >> i) & 1) continue;
    if (body_.modifiers[statement_->first_modifier + i] == modifier) {
      taken_ |= 1u << i;
      return true;
    }
  }
  return false;
}

bool Lowering::has(std::string_view modifier) const {
  for (uint32_t i = 0; i < statement_->modifiers; ++i)
    if (body_.modifiers[statement_->first_modifier + i] == modifier) return true;
  return false;
}

Type Lowering::take_type() {
  for (uint32_t i = 0; i < statement_->modifiers; ++i) {
    if ((taken_ >> i) & 1) continue;
    Type type = type_from_name(body_.modifiers[statement_->first_modifier + i]);
    if (type != Type::None) {
      taken_ |= 1u << i;
      return type;
    }
  }
  return Type::None;
}

Round Lowering::take_round() {
  static constexpr std::pair<std::string_view, Round> kRounds[] = {
      {"rn", Round::NearestEven}, {"rz", Round::Zero},        {"rm", Round::Down},
      {"rp", Round::Up},          {"rni", Round::IntNearest}, {"rzi", Round::IntZero},
      {"rmi", Round::IntDown},    {"rpi", Round::IntUp},      {"rna", Round::NearestAway},
  };
  for (auto [name, round] : kRounds)
    if (take(name)) return round;
  return Round::None;
}

std::optional<Compare> Lowering::take_compare() {
  static constexpr std::pair<std::string_view, Compare> kCompares[] = {
      {"eq", Compare::Eq},   {"ne", Compare::Ne},   {"lt", Compare::Lt},   {"le", Compare::Le},
      {"gt", Compare::Gt},   {"ge", Compare::Ge},   {"equ", Compare::Equ}, {"neu", Compare::Neu},
      {"ltu", Compare::Ltu}, {"leu", Compare::Leu}, {"gtu", Compare::Gtu}, {"geu", Compare::Geu},
      {"num", Compare::Num}, {"nan", Compare::Nan}, {"lo", Compare::Lt},   {"ls", Compare::Le},
      {"hi", Compare::Gt},   {"hs", Compare::Ge},
  };
  for (auto [name, compare] : kCompares)
    if (take(name)) return compare;
  return std::nullopt;
}

Boolean Lowering::take_boolean() {
  if (take("and")) return Boolean::And;
  if (take("or")) return Boolean::Or;
  if (take("xor")) return Boolean::Xor;
  return Boolean::None;
}

std::optional<Space> Lowering::take_space() {
  if (take("global")) return Space::Global;
  if (take("shared") || take("shared::cta")) return Space::Shared;
  if (take("shared::cluster")) return Space::SharedCluster;
  if (take("const")) return Space::Constant;
  if (take("local")) return Space::Local;
  if (take("param") || take("param::entry") || take("param::func")) return Space::Param;
  return std::nullopt;
}

bool Lowering::take_memory_order(Order *order) {
  *order = Order::Weak;
  if (take("volatile")) *order = Order::Volatile;
  if (take("relaxed")) *order = Order::Relaxed;
  if (take("acquire")) *order = Order::Acquire;
  if (take("release")) *order = Order::Release;
  if (take("acq_rel")) *order = Order::AcqRel;
  if (take("mmio")) *order = Order::Volatile;
  take("weak");
  // Scopes: x86 orders for the whole system.
  return take("cta") || take("cluster") || take("gpu") || take("sys");
}

std::optional<AtomicOp> Lowering::take_atomic_op(std::initializer_list<AtomicOp> legal) {
  static constexpr std::string_view kNames[] = {"add", "min",  "max", "and", "or",
                                                "xor", "exch", "cas", "inc", "dec"};
  for (AtomicOp op : legal)
    if (take(kNames[static_cast<size_t>(op)])) return op;
  return std::nullopt;
}

void Lowering::take_cache_hints() {
  static constexpr std::string_view kHints[] = {"ca",
                                                "cg",
                                                "cs",
                                                "lu",
                                                "cv",
                                                "wb",
                                                "wt",
                                                "nc",
                                                "L2::64B",
                                                "L2::128B",
                                                "L2::256B",
                                                "L1::evict_normal",
                                                "L1::evict_unchanged",
                                                "L1::evict_first",
                                                "L1::evict_last",
                                                "L1::no_allocate",
                                                "L2::evict_normal",
                                                "L2::evict_first",
                                                "L2::evict_last"};
  for (std::string_view hint : kHints) take(hint);
}

unsigned Lowering::take_vector() {
  if (take("v2")) return 2;
  if (take("v4")) return 4;
  if (take("v8")) return 8;
  return 1;
}

bool Lowering::modifiers_done() {
  for (uint32_t i = 0; i < statement_->modifiers; ++i)
    if (!((taken_ >> i) & 1))
      return refuse("unknown or unsupported modifier '." +
                    std::string(body_.modifiers[statement_->first_modifier + i]) + "'");
  return true;
}

// ---- emission

uint32_t Lowering::new_label() { return out_->labels++; }

Ir Lowering::make(Op op) const {
  Ir ir;
  ir.op = op;
  ir.statement = statement_index_;
  return ir;
}

void Lowering::emit_label(uint32_t label) {
  Ir ir = make(Op::Label);
  ir.target = label;
  emit(ir);
}

uint32_t Lowering::add_list(const std::vector<Value> &values) {
  auto first = static_cast<uint32_t>(out_->values.size());
  out_->values.insert(out_->values.end(), values.begin(), values.end());
  return first;
}

void Lowering::begin_guarded_region() {
  if (!guard_ || guard_label_ != kNone) return;
  guard_label_ = new_label();
  Ir ir = make(Op::Branch);
  ir.guard = guard_;
  ir.guard_negated = !guard_negated_;
  ir.target = guard_label_;
  emit(ir);
}

void Lowering::end_guarded_region() {
  if (guard_label_ != kNone) emit_label(guard_label_);
  guard_label_ = kNone;
}

}  // namespace softdev
