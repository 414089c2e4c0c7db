// Loads and stores take over how their address is made, base + index * scale + offset: one
// instruction instead of three, and in a warp whose indices are in a row one sum instead of 32.
#include "translate/passes.h"

namespace softdev {
namespace {

constexpr uint32_t kSeveral = kNone - 1;
constexpr uint32_t kNear = 64;  // instructions, for what is only looked for nearby

class Addresses {
 public:
  Addresses(FunctionIr *function, const std::vector<bool> &fixed)
      : function_(*function), fixed_(fixed), definition_(function->registers.size(), kNone) {
    for (uint32_t i = 0; i < function_.code.size(); ++i)
      for_each_write(function_, function_.code[i], [&](Value value) {
        uint32_t &at = definition_[value.index];
        at = at == kNone ? i : kSeveral;
      });
  }

  // What the access at `at` would be; false when its address is made in no such way.
  bool fuse(uint32_t at, Ir *access) const {
    if (access->type2 != Type::U64 || access->c || access->order != Order::Weak ||
        access->space != Space::Global || !access->a.is_reg())
      return false;
    const uint32_t sum = definer(access->a, at);
    if (sum == kNone) return false;
    const Ir &add = function_.code[sum];
    if (add.op == Op::MadWide) return take(at, sum, add.a, add.b, add.c, add, access);
    if (add.op != Op::Add || type_size(add.type) != 8 || add.sat || add.type == Type::F64)
      return false;
    for (auto [base, product] : {std::pair{add.a, add.b}, std::pair{add.b, add.a}}) {
      if (!product.is_reg()) continue;
      const uint32_t made = definer(product, sum);
      if (made == kNone || function_.code[made].op != Op::MulWide) continue;
      const Ir &multiply = function_.code[made];
      if (stays(base, sum, at) && take(at, made, multiply.a, multiply.b, base, multiply, access))
        return true;
    }
    return false;
  }

 private:
  // base + index * scale, the index as it was at `from`.
  bool take(uint32_t at, uint32_t from, Value index, Value scale, Value base, const Ir &multiply,
            Ir *access) const {
    if (multiply.type2 != Type::S32 && multiply.type2 != Type::U32) return false;
    if (scale.kind != Value::Const) std::swap(index, scale);
    if (scale.kind != Value::Const || !index.is_reg() || !stays(index, from, at)) return false;
    if (multiply.op == Op::MadWide && !stays(base, from, at)) return false;
    const Constant &factor = function_.constants[scale.index];
    if (factor.kind != Constant::Bits || factor.payload == 0 || factor.payload > 0x7fff ||
        access->offset != static_cast<int32_t>(access->offset))
      return false;
    access->a = base;
    access->c = index;
    access->type3 = multiply.type2;
    access->offset =
        static_cast<int64_t>(factor.payload << 32 | static_cast<uint32_t>(access->offset));
    return true;
  }

  bool writes(const Ir &ir, Value value) const {
    bool found = false;
    for_each_write(function_, ir, [&](Value written) { found |= written == value; });
    return found;
  }
  static bool leaves(const Ir &ir) {
    return ir.op == Op::Label || ir.op == Op::Branch || ir.op == Op::BranchIndexed ||
           ir.op == Op::Exit || ir.op == Op::Return;
  }

  // The instruction whose result `value` is at `at`, on every way there; kNone if none is found.
  uint32_t definer(Value value, uint32_t at) const {
    const uint32_t only = definition_[value.index];
    if (only != kNone && only != kSeveral && fixed_[value.index])
      return function_.code[only].guard ? kNone : only;
    for (uint32_t i = at; i-- > 0 && at - i <= kNear;) {
      if (leaves(function_.code[i])) return kNone;
      if (writes(function_.code[i], value)) return function_.code[i].guard ? kNone : i;
    }
    return kNone;
  }

  // Whether `value` is the same at `from` and, behind it, at `to`.
  bool stays(Value value, uint32_t from, uint32_t to) const {
    if (!value.is_reg() || fixed_[value.index]) return true;
    if (from > to || to - from > kNear) return false;
    for (uint32_t i = from; i < to; ++i)
      if (leaves(function_.code[i]) || writes(function_.code[i], value)) return false;
    return true;
  }

  const FunctionIr &function_;
  const std::vector<bool> &fixed_;
  std::vector<uint32_t> definition_;
};

}  // namespace

void fuse_addresses(FunctionIr *function, const std::vector<bool> &fixed,
                    Handler (*select)(const Ir &)) {
  Addresses addresses(function, fixed);
  bool any = false;
  for (uint32_t i = 0; i < function->code.size(); ++i) {
    Ir &ir = function->code[i];
    if (ir.op != Op::Load && ir.op != Op::Store) continue;
    Ir fused = ir;
    if (!addresses.fuse(i, &fused)) continue;
    fused.handler = select(fused);
    if (!fused.handler) continue;
    ir = fused;
    any = true;
  }
  if (any) remove_unread(function);
}

}  // namespace softdev
