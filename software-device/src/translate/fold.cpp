#include "translate/passes.h"

namespace softdev {
namespace {

bool is_plain_move(const Ir &ir) { return ir.op == Op::Move && !ir.guard; }

template <class F>
void for_each_read_slot(FunctionIr *function, Ir *ir, F f) {
  for (Value *value : {&ir->a, &ir->b, &ir->c, &ir->e})
    if (*value) f(value);
  for (uint32_t i = ir->list_written; i < ir->list_count; ++i)
    if (function->values[ir->list + i]) f(&function->values[ir->list + i]);
}

}  // namespace

std::vector<bool> fold(FunctionIr *function) {
  const size_t count = function->registers.size();
  std::vector<uint32_t> definitions(count, 0);
  for (const Ir &ir : function->code)
    for_each_write(*function, ir, [&](Value value) { ++definitions[value.index]; });
  Flow flow = analyse(*function);

  // What a register is the same as. A copy of a register is one only while both have a single
  // definition and the copy is never read before it is made: then the definition of the copy
  // lies on every way to its uses, and the original cannot have changed in between.
  std::vector<Value> same(count);
  for (const Ir &ir : function->code) {
    if (!is_plain_move(ir) || !ir.d.is_reg() || definitions[ir.d.index] != 1) continue;
    if (ir.a.kind == Value::Const) {
      same[ir.d.index] = ir.a;
    } else if (definitions[ir.a.index] == 1 && !flow.live_at_entry[ir.d.index] &&
               !flow.live_at_entry[ir.a.index] &&
               slot_size(function->registers[ir.a.index]) ==
                   slot_size(function->registers[ir.d.index])) {
      same[ir.d.index] = ir.a;
    }
  }
  auto resolve = [&](Value value) {
    for (int steps = 0; value.is_reg() && same[value.index] && steps < 64; ++steps)
      value = same[value.index];
    return value;
  };
  for (Ir &ir : function->code)
    for_each_read_slot(function, &ir, [&](Value *value) { *value = resolve(*value); });

  remove_unread(function);
  std::vector<bool> fixed(count);
  for (size_t reg = 0; reg < count; ++reg)
    fixed[reg] = definitions[reg] == 1 && !flow.live_at_entry[reg];
  return fixed;
}

void remove_unread(FunctionIr *function) {
  const size_t count = function->registers.size();
  std::vector<uint32_t> uses(count, 0);
  std::vector<std::vector<uint32_t>> writers(count);
  for (uint32_t i = 0; i < function->code.size(); ++i) {
    const Ir &ir = function->code[i];
    for_each_read(*function, ir, [&](Value value) {
      if (value.is_reg()) ++uses[value.index];
    });
    for_each_write(*function, ir, [&](Value value) { writers[value.index].push_back(i); });
  }
  std::vector<uint32_t> work;
  for (uint32_t i = 0; i < function->code.size(); ++i) work.push_back(i);
  while (!work.empty()) {
    uint32_t i = work.back();
    work.pop_back();
    Ir &ir = function->code[i];
    if (ir.op == Op::Nop || !is_pure(ir.op)) continue;
    bool needed = false;
    for_each_write(*function, ir, [&](Value value) { needed |= uses[value.index] != 0; });
    if (needed) continue;
    for_each_read(*function, ir, [&](Value value) {
      if (value.is_reg() && --uses[value.index] == 0)
        work.insert(work.end(), writers[value.index].begin(), writers[value.index].end());
    });
    ir = Ir{};
  }
  // Registers of a fragment that are there only because PTX wants so many.
  for (const Ir &ir : function->code)
    for (uint32_t i = 0; ir.op == Op::FragmentLoad && i < ir.list_written; ++i) {
      Value &value = function->values[ir.list + i];
      if (value.is_reg() && uses[value.index] == 0) value = {};
    }
  std::erase_if(function->code, [](const Ir &ir) { return ir.op == Op::Nop; });
}

}  // namespace softdev
