#include <algorithm>

#include "translate/passes.h"

namespace softdev {
namespace {

// Above this many bits the sets of live registers are not computed; what crosses a block is then
// taken to live everywhere.
constexpr uint64_t kMaxBits = uint64_t{1} << 30;

bool ends_block(Op op) {
  return op == Op::Branch || op == Op::BranchIndexed || op == Op::Exit || op == Op::Return ||
         op == Op::Trap;
}

void find_blocks(const FunctionIr &function, Flow *flow) {
  const auto &code = function.code;
  std::vector<uint32_t> block_of_label(function.labels, kNone);
  auto size = static_cast<uint32_t>(code.size());
  for (uint32_t i = 0; i < size;) {
    Flow::Block block;
    block.first = i;
    auto index = static_cast<uint32_t>(flow->blocks.size());
    while (i < size && code[i].op == Op::Label) block_of_label[code[i++].target] = index;
    while (i < size && code[i].op != Op::Label) {
      if (ends_block(code[i++].op)) break;
    }
    block.last = i;
    flow->blocks.push_back(std::move(block));
  }
  for (uint32_t b = 0; b < flow->blocks.size(); ++b) {
    Flow::Block &block = flow->blocks[b];
    const Ir &last = code[block.last - 1];
    bool falls_through = !ends_block(last.op);
    if (last.op == Op::Branch) {
      block.next.push_back(block_of_label[last.target]);
      falls_through = is_conditional(last);
    } else if (last.op == Op::BranchIndexed) {
      for (uint32_t label : function.branch_tables[last.target])
        block.next.push_back(block_of_label[label]);
    }
    if (falls_through && b + 1 < flow->blocks.size()) block.next.push_back(b + 1);
    std::sort(block.next.begin(), block.next.end());
    block.next.erase(std::unique(block.next.begin(), block.next.end()), block.next.end());
    std::erase(block.next, kNone);
  }
}

}  // namespace

Flow analyse(const FunctionIr &function) {
  Flow flow;
  find_blocks(function, &flow);
  const size_t count = function.registers.size();
  const size_t blocks = flow.blocks.size();
  flow.live_at_entry.assign(count, false);
  flow.begin.assign(count, kNone);
  flow.end.assign(count, kNone);

  // Registers read in a block before they are written there. A guarded write keeps the old value
  // of the lanes it skips, so it counts as a read.
  std::vector<std::pair<uint32_t, uint32_t>> exposed;  // (block, register)
  std::vector<std::pair<uint32_t, uint32_t>> defined;
  std::vector<uint32_t> written_in(count, kNone), exposed_in(count, kNone);
  std::vector<uint32_t> compact(count, kNone);  // number among the registers that cross blocks
  uint32_t crossing = 0;
  for (uint32_t b = 0; b < blocks; ++b) {
    for (uint32_t i = flow.blocks[b].first; i < flow.blocks[b].last; ++i) {
      const Ir &ir = function.code[i];
      auto read = [&](Value value) {
        if (!value.is_reg() || written_in[value.index] == b || exposed_in[value.index] == b) return;
        exposed_in[value.index] = b;
        exposed.emplace_back(b, value.index);
        if (compact[value.index] == kNone) compact[value.index] = crossing++;
      };
      for_each_read(function, ir, read);
      for_each_write(function, ir, [&](Value value) {
        if (ir.guard) read(value);
        if (written_in[value.index] == b) return;
        written_in[value.index] = b;
        defined.emplace_back(b, value.index);
      });
    }
  }

  auto extend = [&](uint32_t reg, uint32_t position) {
    if (flow.begin[reg] == kNone || position < flow.begin[reg]) flow.begin[reg] = position;
    if (flow.end[reg] == kNone || position > flow.end[reg]) flow.end[reg] = position;
  };
  for (uint32_t i = 0; i < function.code.size(); ++i) {
    for_each_read(function, function.code[i], [&](Value value) {
      if (value.is_reg()) extend(value.index, 2 * i);
    });
    for_each_write(function, function.code[i],
                   [&](Value value) { extend(value.index, 2 * i + 1); });
  }

  const size_t words = (crossing + 63) / 64;
  if (uint64_t{blocks} * words * 64 * 3 > kMaxBits) {
    for (size_t reg = 0; reg < count; ++reg) {
      if (compact[reg] == kNone) continue;
      flow.live_at_entry[reg] = true;
      flow.begin[reg] = 0;
      flow.end[reg] = static_cast<uint32_t>(2 * function.code.size());
    }
    return flow;
  }

  std::vector<uint64_t> in(blocks * words), kill(blocks * words), out(words);
  for (auto [block, reg] : exposed)
    in[block * words + compact[reg] / 64] |= uint64_t{1} << (compact[reg] % 64);
  for (auto [block, reg] : defined)
    if (compact[reg] != kNone)
      kill[block * words + compact[reg] / 64] |= uint64_t{1} << (compact[reg] % 64);

  std::vector<std::vector<uint32_t>> previous(blocks);
  for (uint32_t b = 0; b < blocks; ++b)
    for (uint32_t next : flow.blocks[b].next) previous[next].push_back(b);
  std::vector<uint32_t> work;
  std::vector<bool> queued(blocks, true);
  for (uint32_t b = 0; b < blocks; ++b) work.push_back(b);
  while (!work.empty()) {
    uint32_t b = work.back();
    work.pop_back();
    queued[b] = false;
    std::fill(out.begin(), out.end(), 0);
    for (uint32_t next : flow.blocks[b].next)
      for (size_t w = 0; w < words; ++w) out[w] |= in[next * words + w];
    bool changed = false;
    for (size_t w = 0; w < words; ++w) {
      uint64_t before = in[b * words + w];
      uint64_t after = before | (out[w] & ~kill[b * words + w]);
      if (after != before) {
        in[b * words + w] = after;
        changed = true;
      }
    }
    if (!changed) continue;
    for (uint32_t p : previous[b]) {
      if (queued[p]) continue;
      queued[p] = true;
      work.push_back(p);
    }
  }

  std::vector<uint32_t> original(crossing);
  for (uint32_t reg = 0; reg < count; ++reg)
    if (compact[reg] != kNone) original[compact[reg]] = reg;
  auto for_each_live = [&](size_t block, auto f) {
    for (size_t w = 0; w < words; ++w)
      for (uint64_t bits = in [block * words + w]; bits; bits &= bits - 1)
        f(original[w * 64 + static_cast<size_t>(__builtin_ctzll(bits))]);
  };
  for (uint32_t b = 0; b < blocks; ++b) {
    const Flow::Block &block = flow.blocks[b];
    for_each_live(b, [&](uint32_t reg) {
      extend(reg, 2 * block.first);
      if (b == 0) flow.live_at_entry[reg] = true;
    });
    for (uint32_t next : block.next)
      for_each_live(next, [&](uint32_t reg) { extend(reg, 2 * block.last); });
  }
  return flow;
}

}  // namespace softdev
