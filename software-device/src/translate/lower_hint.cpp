// Fences, and instructions about caches, dependent launches and profilers: a CPU whose caches are
// coherent has nothing to do for most of them, but what is no legal form is refused all the same.
#include "translate/lower.h"

namespace softdev {

// membar.level      membar.proxy.alias      fence[.order][.sync_restrict::space].scope
// fence.mbarrier_init.release.cluster      fence.proxy.kind...
bool Lowering::fence() {
  Ir ir = make(Op::Fence);
  bool old = statement_->opcode == "membar";
  if (take("proxy")) return fence_proxy(old);
  if (take("mbarrier_init")) {
    if (!take("release") || !take("cluster")) return refuse("needs .release.cluster");
    if (!modifiers_done() || !expect_operands(0)) return false;
    ir.mode = 1;
    emit(ir);
    return true;
  }
  bool acquire = !old && take("acquire"), release = !old && !acquire && take("release");
  if (!old && !acquire && !release && !take("sc")) take("acq_rel");
  bool restricted = (acquire && take("sync_restrict::shared::cluster")) ||
                    (release && take("sync_restrict::shared::cta"));
  bool block = !restricted && take("cta");
  bool other = !block && (old ? take("gl") || take("sys")
                              : take("cluster") || (!restricted && (take("gpu") || take("sys"))));
  if (!block && !other) return refuse(old ? "needs .cta, .gl or .sys" : "needs a scope");
  if (!modifiers_done() || !expect_operands(0)) return false;
  ir.mode = block ? 0 : 1;
  emit(ir);
  return true;
}

// .alias      .async[.space]      .async::generic.order.sync_restrict::space.cluster
// .async::generic.release.sync_restrict::shared::cluster::read.scope
// .tensormap::generic.release.scope      .tensormap::generic.acquire.scope [p], 128
bool Lowering::fence_proxy(bool old) {
  bool acquire = false;
  if (take("alias")) {
  } else if (!old && take("async")) {
    for (std::string_view space : {"global", "shared::cta", "shared::cluster"})
      if (take(space)) break;
  } else if (!old && take("async::generic")) {
    const bool reads = has("release") && take("sync_restrict::shared::cluster::read");
    const bool restricted = take("release")
                                ? reads || take("sync_restrict::shared::cta")
                                : take("acquire") && take("sync_restrict::shared::cluster");
    if (!restricted || !(take("cluster") || (reads && take("cta"))))
      return refuse(
          "needs .release.sync_restrict::shared::cta.cluster or "
          ".acquire.sync_restrict::shared::cluster.cluster");
  } else if (!old && take("tensormap::generic")) {
    acquire = take("acquire");
    if (!acquire && !take("release")) return refuse("needs .acquire or .release");
    if (!take("cta") && !take("cluster") && !take("gpu") && !take("sys"))
      return refuse("needs a scope");
  } else {
    return refuse("unknown proxy");
  }
  if (!modifiers_done() || !expect_operands(acquire ? 2 : 0)) return false;
  Ir ir = make(Op::Fence), map = ir;
  uint64_t bytes = 0;
  if (acquire && (!address(operand(0), Space::Generic, 1, &map) ||
                  !immediate_bits(operand(1), Type::U32, &bytes)))
    return false;
  ir.mode = 1;
  emit(ir);
  return true;
}

// A policy is 64 bits whose meaning only the device knows; here it has none.
bool Lowering::create_policy() {
  static constexpr std::string_view kPriorities[] = {"L2::evict_last", "L2::evict_normal",
                                                     "L2::evict_first", "L2::evict_unchanged"};
  bool fractional = take("fractional"), range = take("range"), convert = take("cvt");
  if (fractional + range + convert != 1) return refuse("needs .fractional, .range or .cvt");
  uint64_t policy = 0x1000000000000000;
  if (convert) {
    if (!take("L2")) return refuse("needs .L2");
  } else {
    unsigned priorities = 0;
    for (uint64_t i = 0; i < std::size(kPriorities); ++i)
      while (take(kPriorities[i])) {  // both may be the same
        ++priorities;
        policy |= uint64_t{1} << (i + 52);
      }
    if (priorities < 1 || priorities > 2) return refuse("needs an eviction priority");
    if (range) take("global");
  }
  if (take_type() != Type::B64) return refuse("needs .b64");
  if (!modifiers_done()) return false;
  if (!expect_operands(convert ? 2 : range ? 4 : 1, convert ? 2 : range ? 4 : 2)) return false;
  Ir ir = make(Op::Move);
  ir.type = Type::B64;
  ir.a = bits(policy, 8);
  if (!destination(operand(0), 8, &ir.d)) return false;
  Value ignored;
  Ir address_of = make(Op::Nop);
  if (convert && !source(operand(1), Type::B64, &ir.a)) return false;
  if (fractional && operand_count() == 2 && !source(operand(1), Type::F32, &ignored)) return false;
  if (range &&
      (!address(operand(1), Space::Generic, 1, &address_of) ||
       !source(operand(2), Type::U32, &ignored) || !source(operand(3), Type::U32, &ignored)))
    return false;
  emit(ir);
  return true;
}

// Of caches, dependent launches and profilers: nothing to do.
bool Lowering::hint() {
  static const struct {
    std::string_view opcode;
    std::initializer_list<std::string_view> spaces;  // of which it may have one
    std::initializer_list<std::string_view> words;   // of which it has one
    uint32_t operands;
  } kForms[] = {
      {"prefetch", {"global", "local"}, {"L1", "L2"}, 1},
      {"prefetch", {"global"}, {"L2::evict_last", "L2::evict_normal"}, 1},
      {"prefetch", {"const", "param"}, {"tensormap"}, 1},
      {"prefetchu", {}, {"L1"}, 1},
      {"applypriority", {"global"}, {"L2::evict_normal"}, 2},
      {"discard", {"global"}, {"L2"}, 2},
      {"griddepcontrol", {}, {"launch_dependents", "wait"}, 0},
      {"pmevent", {}, {"mask"}, 1},
  };
  auto has_one = [&](std::initializer_list<std::string_view> words) {
    for (std::string_view word : words)
      if (take(word)) return true;
    return false;
  };
  const bool event = statement_->opcode == "pmevent";
  for (const auto &form : kForms) {
    if (form.opcode != statement_->opcode) continue;
    if (!has_one(form.words) && !event) continue;
    has_one(form.spaces);
    if (!modifiers_done() || !expect_operands(form.operands)) return false;
    Ir ignored = make(Op::Nop);
    uint64_t number = 0;
    if (event) return immediate_bits(operand(0), Type::U32, &number);
    if (form.operands && !address(operand(0), Space::Generic, 1, &ignored)) return false;
    if (form.operands < 2) return true;
    if (!immediate_bits(operand(1), Type::U32, &number)) return false;
    return number == 128 || refuse("the size must be 128");
  }
  return refuse("unknown hint");
}

// What only machines with tensor memory have.
bool Lowering::unsupported() {
  return refuse("'" + std::string(statement_->opcode) + "' is not supported by this device");
}

}  // namespace softdev
