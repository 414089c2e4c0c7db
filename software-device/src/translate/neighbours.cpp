// Loads of neighbouring words of shared memory become one load of a vector: compilers leave them
// apart where they cannot prove an alignment, which does not matter here.
#include <algorithm>
#include <map>

#include "translate/passes.h"

namespace softdev {
namespace {

constexpr uint32_t kWords = 4;

class Neighbours {
 public:
  Neighbours(FunctionIr *function, const std::vector<bool> &fixed, Handler (*select)(const Ir &))
      : function_(*function), fixed_(fixed), select_(select) {}

  void run() {
    for (uint32_t i = 0; i < function_.code.size(); ++i) {
      const Ir &ir = function_.code[i];
      if (ir.op == Op::Load ? ir.order != Order::Weak : !is_pure(ir.op)) {
        // Beyond this, memory may have changed, or the code is not reached.
        merge_all();
        continue;
      }
      if (fits(ir)) loads_[{ir.a.kind, ir.a.index}].push_back(i);
      for_each_write(function_, ir, [&](Value value) {
        auto found = loads_.find({value.kind, value.index});
        if (found == loads_.end()) return;
        merge(found->second);
        loads_.erase(found);
      });
    }
    merge_all();
    std::erase_if(function_.code, [](const Ir &ir) { return ir.op == Op::Nop; });
  }

 private:
  // A load that may happen earlier: nobody reads or writes its result before.
  bool fits(const Ir &ir) const {
    return ir.op == Op::Load && ir.space == Space::Shared && ir.type2 == Type::U32 && ir.a &&
           !ir.c && !ir.guard && !ir.list_count && ir.memory_size == 4 && ir.register_size == 4 &&
           ir.d.is_reg() && fixed_[ir.d.index] && ir.d != ir.a;
  }

  void merge_all() {
    for (auto &[base, group] : loads_) merge(group);
    loads_.clear();
  }

  // Loads through one address that stays the same.
  void merge(std::vector<uint32_t> &group) {
    if (group.size() < kWords) return;
    std::stable_sort(group.begin(), group.end(), [&](uint32_t a, uint32_t b) {
      return function_.code[a].offset < function_.code[b].offset;
    });
    for (size_t i = 0; i + kWords <= group.size();) {
      const int64_t first = function_.code[group[i]].offset;
      bool row = true;
      for (uint32_t k = 1; k < kWords; ++k)
        row &= function_.code[group[i + k]].offset == first + 4 * k;
      if (row) replace(&group[i]);
      i += row ? kWords : 1;
    }
  }

  void replace(const uint32_t *four) {
    Ir vector = function_.code[four[0]];
    vector.d = {};
    vector.unaligned = true;
    vector.list = static_cast<uint32_t>(function_.values.size());
    vector.list_count = vector.list_written = kWords;
    uint32_t earliest = four[0];
    for (uint32_t k = 0; k < kWords; ++k) {
      function_.values.push_back(function_.code[four[k]].d);
      earliest = std::min(earliest, four[k]);
    }
    vector.statement = function_.code[earliest].statement;
    vector.handler = select_(vector);
    if (!vector.handler) return;
    for (uint32_t k = 0; k < kWords; ++k) function_.code[four[k]] = Ir{};
    function_.code[earliest] = vector;
  }

  FunctionIr &function_;
  const std::vector<bool> &fixed_;
  Handler (*select_)(const Ir &);
  std::map<std::pair<Value::Kind, uint32_t>, std::vector<uint32_t>> loads_;  // by address
};

}  // namespace

void merge_neighbours(FunctionIr *function, const std::vector<bool> &fixed,
                      Handler (*select)(const Ir &)) {
  Neighbours(function, fixed, select).run();
}

}  // namespace softdev
