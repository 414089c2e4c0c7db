// A comparison whose result only the branch behind it reads is made by that branch: one instruction
// instead of two, and no predicate that is written to be read at once.
#include "translate/passes.h"

namespace softdev {
namespace {

constexpr uint32_t kNearBranch = 16;  // instructions between the two

bool fits(const Ir &ir) {
  return ir.op == Op::Setp && !ir.guard && !ir.d2 && ir.boolean == Boolean::None;
}

}  // namespace

void fuse_branches(FunctionIr *function, Handler (*select)(const Ir &)) {
  auto &code = function->code;
  std::vector<uint32_t> reads(function->registers.size(), 0);
  for (const Ir &ir : code)
    for_each_read(*function, ir, [&](Value value) {
      if (value.is_reg()) ++reads[value.index];
    });
  auto writes = [&](const Ir &ir, Value value) {
    bool found = false;
    for_each_write(*function, ir, [&](Value written) { found |= value && written == value; });
    return found;
  };
  // The comparison that says who takes the branch at `at`, if it may as well be made there.
  auto find = [&](uint32_t at) -> Ir * {
    const Value predicate = code[at].guard;
    for (uint32_t i = at; i-- > 0 && at - i <= kNearBranch;) {
      Ir &ir = code[i];
      if (ir.op == Op::Label || ir.op == Op::Branch || ir.op == Op::BranchIndexed) return nullptr;
      if (!writes(ir, predicate)) continue;
      if (!fits(ir)) return nullptr;
      for (uint32_t between = i + 1; between < at; ++between)
        if (writes(code[between], ir.a) || writes(code[between], ir.b)) return nullptr;
      return &ir;
    }
    return nullptr;
  };
  for (uint32_t at = 0; at < code.size(); ++at) {
    Ir &branch = code[at];
    if (branch.op != Op::Branch || !branch.guard.is_reg() || reads[branch.guard.index] != 1)
      continue;
    Ir *comparison = find(at);
    if (!comparison) continue;
    Ir fused = *comparison;
    fused.op = Op::Branch;
    fused.d = {};
    fused.target = branch.target;
    fused.guard_negated = branch.guard_negated;
    fused.statement = branch.statement;
    fused.handler = select(fused);
    if (!fused.handler) continue;
    branch = fused;
    *comparison = Ir{};
  }
  std::erase_if(code, [](const Ir &ir) { return ir.op == Op::Nop; });
}

}  // namespace softdev
