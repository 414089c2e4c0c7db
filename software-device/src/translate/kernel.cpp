// Translation of one kernel and of the functions that it may reach.
#include <algorithm>
#include <cstdlib>
#include <set>

#include "execute/select.h"
#include "parse/body.h"
#include "parse/lexer.h"
#include "translate/builtins.h"
#include "translate/lower.h"
#include "translate/passes.h"
#include "translate/program.h"

namespace softdev {
namespace {

enum : int { kInvalidPtx = 218 };
constexpr uint32_t kMaxShared = 227 << 10;
constexpr uint32_t kReservedShared = 1 << 10;  // as since compute capability 8.0
constexpr uint32_t kMaxStack = 512 << 10;      // CUDA's limit on local memory per thread

// The rest can be left out, to see that it changes no result.
bool optimises() {
  static const bool yes = [] {
    const char *wanted = secure_getenv("SOFTWARE_DEVICE_OPTIMISE");
    return !wanted || std::string_view(wanted) != "0";
  }();
  return yes;
}

class Builder final : public Surroundings {
 public:
  Builder(ProgramImpl &program, Executable *out) : program_(program), out_(out) {}

  // Returns a message when the kernel is refused.
  std::string build(uint32_t kernel) {
    reach_function(kernel);
    for (size_t i = 0; i < reached_.size(); ++i) {
      std::string refused = lower(i);
      if (!refused.empty() && i < first_by_chance_) return refused;
      if (!refused.empty()) refuse_when_called(i);
      if (i + 1 == reached_.size() && indirect_) reach_pointed_at();
      if (i + 1 == reached_.size() && indirect_) {
        first_by_chance_ = std::min(first_by_chance_, reached_.size());
        reach(program_.taken());
      }
    }
    std::string refused = place_shared();
    if (!refused.empty()) return refused;
    emit();
    return measure_stack();
  }

  const ModuleSyntax &module() const override { return program_.module(); }
  std::string_view text() const override { return program_.text(); }
  uint64_t variable_address(uint32_t variable) const override {
    return program_.variable_address(variable);
  }
  uint64_t function_address(uint32_t function) override {
    pointed_at_.insert(function);
    return ProgramImpl::function_address(function);
  }
  uint32_t reach_function(uint32_t function) override {
    auto [at, fresh] = position_.try_emplace(function, static_cast<uint32_t>(reached_.size()));
    if (fresh) {
      reached_.push_back(function);
      auto code = std::make_unique<Function>();
      code->name = program_.module().functions[function].name;
      code->module = program_.text();
      code->index = at->second;
      out_->functions.push_back(std::move(code));
      lowered_.emplace_back();
    }
    return at->second;
  }
  void reach_all_pointed_at() override { indirect_ = true; }
  uint32_t reach_shared(const VariableSyntax &variable) override {
    auto [at, fresh] = shared_.try_emplace(&variable, static_cast<uint32_t>(shared_order_.size()));
    if (fresh) shared_order_.push_back(&variable);
    return at->second;
  }

 private:
  const FunctionSyntax &syntax(size_t position) const {
    return program_.module().functions[reached_[position]];
  }

  std::string where(size_t position, uint32_t line) const {
    std::string text = "kernel " + std::string(syntax(0).name);
    if (position) text += ", function " + std::string(syntax(position).name);
    return text + ", PTX line " + std::to_string(line);
  }

  static std::string quoted(std::string_view source) {
    std::string text(source.substr(0, 200));
    for (char &c : text)
      if (c == '\n' || c == '\t' || c == '\r') c = ' ';
    return "`" + text + "`";
  }
  std::string with_text(const StatementSyntax &statement) const {
    return quoted(program_.text().substr(statement.text, statement.text_length));
  }
  std::string_view line(uint32_t number) const {
    std::string_view text = program_.text();
    size_t begin = 0;
    for (uint32_t i = 1; i < number && begin != std::string_view::npos; ++i) {
      begin = text.find('\n', begin);
      if (begin != std::string_view::npos) ++begin;
    }
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find('\n', begin) - begin);
  }

  // Picks what executes each instruction, before anything is folded away: what is not known is
  // refused even where it would have no effect.
  std::string select(size_t position, const BodySyntax &body, FunctionIr *ir) {
    for (Ir &one : ir->code) {
      if (one.op == Op::Nop) continue;
      one.handler = select_control(one);
      if (!one.handler) one.handler = instruction_set().select(one);
      if (one.handler) continue;
      const StatementSyntax &statement = body.statements[one.statement];
      return where(position, statement.line) +
             ": this combination of types and modifiers is not supported: " + with_text(statement);
    }
    return {};
  }

  std::string lower(size_t position) {
    // Bodies hold variables that lowering points at until shared memory is placed.
    bodies_.push_back(std::make_unique<BodySyntax>());
    BodySyntax &body = *bodies_.back();
    const FunctionSyntax &function = syntax(position);
    if (ParseError error =
            parse_body(program_.text(), function, program_.line_at(function.body), &body))
      return where(position, error.line) + ": " + error.message + ": " + quoted(line(error.line));
    auto ir = std::make_unique<FunctionIr>();
    Lowering lowering(*this, function, body, ir.get());
    if (Refusal refusal = lowering.run()) {
      std::string message = where(position, refusal.line) + ": " + refusal.message;
      for (const StatementSyntax &statement : body.statements) {
        if (statement.line != refusal.line) continue;
        message += ": " + with_text(statement);
        break;
      }
      return message;
    }
    if (std::string refused = select(position, body, ir.get()); !refused.empty()) return refused;
    std::vector<bool> fixed = fold(ir.get());
    if (optimises()) {
      fuse_addresses(ir.get(), fixed, instruction_set().select);
      merge_neighbours(ir.get(), fixed, instruction_set().select);
      fuse_branches(ir.get(), instruction_set().select);
      find_shapes(ir.get(), fixed, instruction_set().select);
      look_ahead(ir.get(), instruction_set().select);
    }
    Function &out = *out_->functions[position];
    for (const StatementSyntax &statement : body.statements)
      out.wheres.push_back({statement.line, statement.text_length, statement.text});
    if (out.wheres.empty()) out.wheres.emplace_back();
    lowered_[position] = std::move(ir);
    return {};
  }

  // Functions whose addresses this kernel takes, or that initialisers hold. Behind them come those
  // that another kernel may have left a pointer to in memory.
  void reach_pointed_at() {
    std::set<uint32_t> all = program_.pointed_at();
    all.insert(pointed_at_.begin(), pointed_at_.end());
    reach(all);
  }
  void reach(const std::set<uint32_t> &functions) {
    for (uint32_t function : functions) {
      const FunctionSyntax &candidate = program_.module().functions[function];
      if (!candidate.entry && candidate.body) reach_function(function);
    }
  }

  // One that may never be called here is no reason to refuse the kernel: it ends in a trap.
  void refuse_when_called(size_t position) {
    auto ir = std::make_unique<FunctionIr>();
    ir->frame_bytes = frame_layout(syntax(position).signature).bytes;
    Ir trap;
    trap.op = Op::Trap;
    trap.handler = select_control(trap);
    ir->code.push_back(trap);
    Function &out = *out_->functions[position];
    out.wheres.clear();
    out.wheres.emplace_back();
    lowered_[position] = std::move(ir);
  }

  std::string place_shared() {
    uint64_t at = 0;
    std::vector<uint32_t> offsets(shared_order_.size(), 0);
    for (size_t i = 0; i < shared_order_.size(); ++i) {
      const VariableSyntax &variable = *shared_order_[i];
      if (variable.unsized || variable.is_extern) continue;
      at = (at + variable.align - 1) / variable.align * variable.align;
      offsets[i] = static_cast<uint32_t>(at);
      at += variable.size;
      if (at > kMaxShared)
        return where(0, variable.line) + ": " + std::to_string(at) +
               " bytes of static shared memory are more than a block can have";
    }
    out_->static_shared = static_cast<uint32_t>(at);
    uint32_t align = 16;
    for (const VariableSyntax *variable : shared_order_)
      if (variable->unsized || variable->is_extern) align = std::max(align, variable->align);
    uint32_t dynamic = align_up(out_->static_shared, std::min(align, 1024u));
    bool has_dynamic = false;
    for (size_t i = 0; i < shared_order_.size(); ++i) {
      if (!shared_order_[i]->unsized && !shared_order_[i]->is_extern) continue;
      offsets[i] = dynamic;
      has_dynamic = true;
    }
    if (has_dynamic) out_->static_shared = dynamic;
    for (auto &ir : lowered_) {
      for (Constant &constant : ir->constants) {
        if (constant.kind != Constant::SharedOffset) continue;
        auto addend = static_cast<int32_t>(constant.payload >> 32);
        constant.kind = Constant::Bits;
        constant.payload = offsets[static_cast<uint32_t>(constant.payload)] +
                           static_cast<uint64_t>(static_cast<int64_t>(addend));
        if (constant.size == 4) constant.payload &= 0xffffffffu;
      }
    }
    return {};
  }

  void emit() {
    Ir guard_ir;
    guard_ir.op = Op::Guard;
    Handler guard = select_control(guard_ir);
    auto callee = [this](uint32_t position) -> const Function * {
      return out_->functions[position].get();
    };
    for (size_t i = 0; i < lowered_.size(); ++i) {
      Slots slots = allocate(*lowered_[i]);
      emit_code(*lowered_[i], slots, guard, callee, out_->functions[i].get());
      for (const Constant &constant : lowered_[i]->constants) {
        if (constant.kind != Constant::Special) continue;
        auto special = static_cast<Special>(constant.payload);
        if (special == Special::Envreg1 || special == Special::Envreg2)
          out_->uses_grid_workspace = true;
        if (special == Special::ReservedBegin || special == Special::ReservedEnd ||
            special == Special::AggregateShared)
          out_->reserved_shared = kReservedShared;
      }
      for (const CallSite &site : lowered_[i]->calls) {
        out_->uses_device_runtime |= site.builtin && site.builtin->of_device_runtime();
        out_->prints |= site.builtin && site.builtin->builtin == Builtin::Printf;
      }
    }
    if (indirect_) {
      out_->by_module_index.assign(program_.module().functions.size(), nullptr);
      for (size_t i = 0; i < reached_.size(); ++i)
        if (!syntax(i).entry) out_->by_module_index[reached_[i]] = out_->functions[i].get();
    }
  }

  // The deepest stack of frames, if the calls have no cycle. Without recursion of our own: a call
  // graph from hostile text may be a long chain.
  std::string measure_stack() {
    const size_t count = lowered_.size();
    std::vector<std::vector<uint32_t>> callees(count);
    for (size_t i = 0; i < count; ++i)
      for (const CallSite &site : lowered_[i]->calls)
        if (site.callee != kNone) callees[i].push_back(site.callee);
    std::vector<uint64_t> need(count, 0);
    std::vector<uint8_t> state(count, 0);  // 1: on the path, 2: done
    bool open = indirect_;
    auto frame = [&](size_t i) {
      return std::max<uint32_t>(align_up(lowered_[i]->frame_bytes, 16), 16);
    };
    for (uint32_t root = 0; root < count; ++root) {
      if (state[root]) continue;
      open |= lowered_[root]->uses_alloca;
      std::vector<std::pair<uint32_t, uint32_t>> path = {{root, 0}};
      state[root] = 1;
      while (!path.empty()) {
        auto &[function, next] = path.back();
        if (next == callees[function].size()) {
          uint64_t deepest = 0;
          for (uint32_t callee : callees[function]) deepest = std::max(deepest, need[callee]);
          need[function] = frame(function) + deepest;
          state[function] = 2;
          path.pop_back();
          continue;
        }
        uint32_t callee = callees[function][next++];
        if (state[callee] == 1) open = true;
        if (state[callee] != 0) continue;
        state[callee] = 1;
        open |= lowered_[callee]->uses_alloca;
        path.emplace_back(callee, 0);
      }
    }
    out_->open_stack = open;
    uint64_t bytes = need[0];
    // One call by pointer, of the function that needs most, is known to fit.
    if (indirect_) bytes += *std::max_element(need.begin(), need.end());
    if (bytes > kMaxStack)
      return where(0, 0) + ": needs " + std::to_string(bytes) + " bytes of local memory per thread";
    out_->stack_bytes = align_up(static_cast<uint32_t>(bytes), 64);
    return {};
  }

  ProgramImpl &program_;
  Executable *out_;
  std::vector<uint32_t> reached_;  // module index by position
  std::unordered_map<uint32_t, uint32_t> position_;
  std::vector<std::unique_ptr<FunctionIr>> lowered_;
  std::vector<std::unique_ptr<BodySyntax>> bodies_;
  std::unordered_map<const VariableSyntax *, uint32_t> shared_;
  std::vector<const VariableSyntax *> shared_order_;
  std::set<uint32_t> pointed_at_;
  bool indirect_ = false;
  size_t first_by_chance_ = SIZE_MAX;  // position of those that a pointer in memory may be to
};

}  // namespace

KernelImpl::KernelImpl(ProgramImpl &program, uint32_t function)
    : program_(program), function_(function) {
  const FunctionSyntax &syntax = program.module().functions[function];
  name_ = syntax.name;
  std::vector<uint32_t> offsets = kernel_parameter_offsets(syntax.signature, &parameter_bytes_);
  for (size_t i = 0; i < offsets.size(); ++i)
    parameters_.push_back({offsets[i], static_cast<uint32_t>(syntax.signature.parameters[i].size)});
}

Status KernelImpl::translate() {
  std::call_once(once_, [this] { status_ = translate_now(); });
  return status_;
}

Status KernelImpl::translate_now() {
  auto executable = std::make_unique<Executable>();
  Builder builder(program_, executable.get());
  std::string refused = builder.build(function_);
  if (!refused.empty()) return {kInvalidPtx, false, refused};

  const FunctionSyntax &syntax = program_.module().functions[function_];
  attributes_.static_shared = executable->static_shared;
  attributes_.local_bytes = executable->functions[0]->frame_bytes;
  attributes_.ptx_version = program_.module().target;
  attributes_.uses_device_runtime = executable->uses_device_runtime;
  attributes_.prints = executable->prints;
  // What a register allocator would use is not known; slots are an upper bound of it.
  attributes_.registers = std::clamp<uint32_t>(executable->functions[0]->registers, 16, 255);
  if (syntax.max_registers)
    attributes_.registers = std::min(attributes_.registers, syntax.max_registers);
  auto product = [](const uint32_t *three) {
    uint64_t threads = uint64_t{three[0]} * three[1];
    return static_cast<uint32_t>(std::min<uint64_t>(threads * three[2], 1024));
  };
  if (syntax.max_threads[0]) attributes_.max_threads = product(syntax.max_threads);
  if (syntax.required_threads[0]) {
    std::copy_n(syntax.required_threads, 3, attributes_.required_threads);
    attributes_.max_threads = product(syntax.required_threads);
  }
  // A compiler makes do with what lets a block of the size that is promised run.
  if (syntax.max_threads[0] || syntax.required_threads[0])
    attributes_.registers =
        std::min(attributes_.registers, kBlockRegisters / attributes_.max_threads / 8 * 8);
  std::copy_n(syntax.cluster, 3, attributes_.required_cluster);
  attributes_.cluster_must_be_set = syntax.explicit_cluster && !syntax.cluster[0];
  attributes_.max_cluster_blocks = syntax.max_cluster_blocks;
  executable_ = std::move(executable);
  return {};
}

}  // namespace softdev
