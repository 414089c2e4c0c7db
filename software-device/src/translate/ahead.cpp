// Loads in loops remember where they were, so that they can ask for what they will want next: lanes
// that go over memory in large steps would wait for each of them.
#include "translate/passes.h"

namespace softdev {
namespace {

constexpr uint32_t kLargest = 256;  // instructions of a loop: in longer ones there is no waiting

}  // namespace

void look_ahead(FunctionIr *function, Handler (*select)(const Ir &)) {
  auto &code = function->code;
  std::vector<uint32_t> label_at(function->labels, kNone);
  for (uint32_t end = 0; end < code.size(); ++end) {
    if (code[end].op == Op::Label) label_at[code[end].target] = end;
    if (code[end].op != Op::Branch) continue;
    const uint32_t begin = label_at[code[end].target];
    if (begin == kNone || end - begin > kLargest) continue;  // forward, or too far back
    for (uint32_t i = begin; i < end; ++i) {
      const Ir &ir = code[i];
      if (ir.op != Op::Load || ir.space != Space::Global || ir.order != Order::Weak || ir.guard ||
          ir.list_count || ir.e || ir.shaped)  // a shaped index is always the same
        continue;
      Ir remembering = ir;
      remembering.d2 = remembering.e = reg_value(static_cast<uint32_t>(function->registers.size()));
      remembering.handler = select(remembering);
      if (!remembering.handler) continue;
      function->registers.push_back(Type::U64);
      function->remembered++;
      code[i] = remembering;
    }
  }
}

}  // namespace softdev
