// Slots of the register file by linear scan over the registers' lifetimes.
//
// Lifetimes are those of one thread. That is enough although lanes diverge: a slot is a column
// per lane, a write touches the columns of the running lanes only, and slots of different sizes
// never overlap. Predicates are bits per lane in words of their own.
#include <algorithm>
#include <queue>

#include "translate/passes.h"

namespace softdev {
namespace {

// Operations that read a lane's sources before they write the same lane's result, and no other
// lane's: their result may take the slot of a source that dies.
bool is_lane_wise(const Ir &ir) {
  return is_pure(ir.op) && !ir.list_count && !ir.d2 && ir.op < Op::Setp;
}

}  // namespace

Slots allocate(const FunctionIr &function) {
  Flow flow = analyse(function);
  const size_t count = function.registers.size();
  // Sources of other operations live through the instruction.
  for (uint32_t i = 0; i < function.code.size(); ++i) {
    const Ir &ir = function.code[i];
    if (is_lane_wise(ir)) continue;
    for_each_read(function, ir, [&](Value value) {
      if (value.is_reg()) flow.end[value.index] = std::max(flow.end[value.index], 2 * i + 1);
    });
  }

  struct Class {
    unsigned size;
    uint32_t used = 0;
    std::vector<uint32_t> free;
  };
  Class classes[] = {{0, 0, {}}, {8, 0, {}}, {4, 0, {}}, {2, 0, {}}};
  auto class_of = [](unsigned size) { return size == 0 ? 0 : size == 8 ? 1 : size == 4 ? 2 : 3; };

  std::vector<uint32_t> order;
  for (uint32_t reg = 0; reg < count; ++reg)
    if (flow.begin[reg] != kNone) order.push_back(reg);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return flow.begin[a] < flow.begin[b]; });
  using Ending = std::pair<uint32_t, uint32_t>;  // (end, register)
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> active;
  std::vector<uint32_t> number(count, kNone);
  for (uint32_t reg : order) {
    while (!active.empty() && active.top().first < flow.begin[reg]) {
      uint32_t ended = active.top().second;
      classes[class_of(slot_size(function.registers[ended]))].free.push_back(number[ended]);
      active.pop();
    }
    Class &slots = classes[class_of(slot_size(function.registers[reg]))];
    if (slots.free.empty()) {
      number[reg] = slots.used++;
    } else {
      number[reg] = slots.free.back();
      slots.free.pop_back();
    }
    active.emplace(flow.end[reg], reg);
  }

  // Constants that something still reads have slots of their own.
  std::vector<bool> read(function.constants.size(), false);
  for (const Ir &ir : function.code)
    for_each_read(function, ir, [&](Value value) {
      if (value.kind == Value::Const) read[value.index] = true;
    });
  std::vector<uint32_t> constant_number(function.constants.size(), kNone);
  for (size_t i = 0; i < function.constants.size(); ++i)
    if (read[i]) constant_number[i] = classes[class_of(function.constants[i].size)].used++;

  Slots slots;
  uint32_t start[4];
  uint32_t at = 0;
  for (int c = 0; c < 4; ++c) {
    start[c] = at;
    at += classes[c].used * (classes[c].size ? classes[c].size * 32 : 4);
    at = (at + 63) / 64 * 64;
  }
  auto offset = [&](unsigned size, uint32_t index) {
    int c = class_of(size);
    return start[c] + index * (size ? size * 32 : 4);
  };
  slots.registers.assign(count, kNone);
  for (uint32_t reg = 0; reg < count; ++reg)
    if (number[reg] != kNone)
      slots.registers[reg] = offset(slot_size(function.registers[reg]), number[reg]);
  // They took part above all the same: a GPU would keep them in registers like any other.
  for (uint32_t reg = 0; reg < function.lasting.size(); ++reg) {
    if (!function.lasting[reg] || number[reg] == kNone) continue;
    slots.registers[reg] = at + slots.lasting_bytes;
    slots.lasting_bytes += slot_size(function.registers[reg]) * 32;
  }
  slots.bytes = at + slots.lasting_bytes;
  slots.constants.assign(function.constants.size(), kNone);
  for (size_t i = 0; i < function.constants.size(); ++i)
    if (constant_number[i] != kNone)
      slots.constants[i] = offset(function.constants[i].size, constant_number[i]);
  return slots;
}

}  // namespace softdev
