// Asynchronous copies and the barriers in shared memory that count them.
//
// A copy is made when it is issued: nothing may tell that from one made at any time before the
// program waits for it. So groups need no record, and waiting for one has nothing to do.
#include "translate/lower.h"

namespace softdev {

Lowering::SharedWindow Lowering::take_shared_window() {
  if (take("shared::cluster")) return SharedWindow::Cluster;
  if (take("shared") || take("shared::cta")) return SharedWindow::Block;
  return SharedWindow::Generic;
}

// The generic address of something in the shared memory of the block, or of one of its cluster.
bool Lowering::shared_address(const OperandSyntax &operand, SharedWindow window, Value *out) {
  Ir ir = make(Op::ClusterToGeneric);
  bool generic = window == SharedWindow::Generic;
  if (!address(operand, generic ? Space::Generic : Space::Shared, 8, &ir)) return false;
  if (!ir.a) return refuse("the address is not in shared memory");
  if (generic) {
    if (ir.type2 != Type::U64) return refuse("a generic address has 64 bits");
    if (ir.offset == 0) {
      *out = ir.a;
      return true;
    }
    ir.op = Op::Add;
    ir.b = bits(static_cast<uint64_t>(ir.offset), 8);
    ir.offset = 0;
  }
  ir.type = Type::U64;
  ir.d = temporary(Type::B64);
  emit(ir);
  *out = ir.d;
  return true;
}

// cp.async.ca|cg.shared.global[.L2::cache_hint][.L2::NNNB] [to], [from], size [, n | ignore] [,
// policy]
bool Lowering::copy_async() {
  bool reduce = take("reduce");
  if (!take("async")) return refuse("only cp.async and cp.reduce.async.bulk are supported");
  if (take("bulk")) return bulk_copy(reduce);
  if (reduce) return refuse("needs .bulk");
  if (take("mbarrier")) return copy_async_arrive();
  if (take("commit_group")) return modifiers_done() && expect_operands(0);
  if (take("wait_all")) return modifiers_done() && expect_operands(0);
  if (take("wait_group")) {
    uint64_t ignored = 0;
    return modifiers_done() && expect_operands(1) &&
           immediate_bits(operand(0), Type::U32, &ignored);
  }
  bool l1 = take("ca"), l2 = take("cg");
  if (l1 == l2) return refuse("needs .ca or .cg");
  if (take_shared_window() != SharedWindow::Block || !take("global"))
    return refuse("copies go from .global to .shared");
  bool policy = take("L2::cache_hint");
  for (std::string_view level : {"L2::64B", "L2::128B", "L2::256B"}) take(level);
  if (!modifiers_done() || !expect_operands(policy ? 4 : 3, policy ? 5 : 4)) return false;
  uint64_t size = 0;
  if (!immediate_bits(operand(2), Type::U32, &size)) return false;
  if (size != 16 && (l2 || (size != 4 && size != 8)))
    return refuse(l2 ? "the size must be 16" : "the size must be 4, 8 or 16");

  Ir to = make(Op::AsyncCopy), from = to;
  auto bytes = static_cast<unsigned>(size);
  if (!address(operand(0), Space::Shared, bytes, &to) ||
      !address(operand(1), Space::Global, bytes, &from))
    return false;
  Ir ir = make(Op::AsyncCopy);
  ir.type2 = to.type2;
  ir.memory_size = static_cast<uint8_t>(size);
  ir.a = to.a;
  ir.b = from.a;
  // Both offsets are in one field; one that does not fit is added beforehand.
  auto fits = [](int64_t offset) { return offset == static_cast<int32_t>(offset); };
  if (!fits(to.offset)) return refuse("offset out of range");
  if (!fits(from.offset)) {
    Ir add = make(Op::Add);
    add.type = Type::U64;
    add.a = from.a;
    add.b = bits(static_cast<uint64_t>(from.offset), 8);
    add.d = temporary(Type::B64);
    emit(add);
    ir.b = add.d;
    from.offset = 0;
  }
  ir.offset = static_cast<int64_t>(static_cast<uint64_t>(from.offset) << 32 |
                                   static_cast<uint32_t>(to.offset));
  if (operand_count() == (policy ? 5u : 4u)) {
    const OperandSyntax &limit = operand(3);
    bool predicate =
        limit.kind == OperandSyntax::Register && out_->registers[limit.reg] == Type::Pred;
    ir.mode = predicate ? 2 : 1;
    if (predicate ? !predicate_source(limit, &ir.c, &ir.negate_c)
                  : !source(limit, Type::U32, &ir.c))
      return false;
  }
  emit(ir);
  return true;
}

// cp.async.mbarrier.arrive[.noinc][.shared].b64 [object]
bool Lowering::copy_async_arrive() {
  if (!take("arrive")) return refuse("needs .arrive");
  Ir ir = make(Op::Mbarrier);
  ir.mode = static_cast<uint8_t>(take("noinc") ? MbarrierMode::Arrive : MbarrierMode::Touch);
  SharedWindow window = take_shared_window();
  if (take_type() != Type::B64) return refuse("needs .b64");
  if (!modifiers_done() || !expect_operands(1)) return false;
  ir.type = Type::B64;
  ir.b = bits(1, 4);
  if (!shared_address(operand(0), window, &ir.a)) return false;
  emit(ir);
  return true;
}

bool Lowering::mbarrier() {
  static constexpr struct {
    std::string_view word;
    MbarrierMode mode;
  } kModes[] = {
      {"init", MbarrierMode::Init},
      {"inval", MbarrierMode::Inval},
      {"arrive", MbarrierMode::Arrive},
      {"arrive_drop", MbarrierMode::Drop},
      {"test_wait", MbarrierMode::TestWait},
      {"try_wait", MbarrierMode::TryWait},
      {"complete_tx", MbarrierMode::CompleteTx},
  };
  if (take("pending_count")) {
    // mbarrier.pending_count.b64 count, state: the low 20 bits of a state
    if (take_type() != Type::B64) return refuse("needs .b64");
    if (!modifiers_done() || !expect_operands(2)) return false;
    Ir low = make(Op::Resize), mask = make(Op::And);
    low.type = mask.type = Type::B32;
    low.type2 = Type::B64;
    low.d = mask.a = temporary(Type::B32);
    mask.b = bits(0xfffff, 4);
    if (!source(operand(1), Type::B64, &low.a) || !destination(operand(0), 4, &mask.d))
      return false;
    emit(low);
    emit(mask);
    return true;
  }
  bool known = false;
  auto mode = MbarrierMode::ExpectTx;
  for (auto [word, candidate] : kModes) {
    if (!take(word)) continue;
    mode = candidate;
    known = true;
    break;
  }
  bool expect = take("expect_tx");
  if (!known && !expect) return refuse("unknown operation on an mbarrier");
  bool arrive = mode == MbarrierMode::Arrive || mode == MbarrierMode::Drop;
  bool wait = mode == MbarrierMode::TestWait || mode == MbarrierMode::TryWait;
  bool tries = mode == MbarrierMode::TryWait;
  bool transaction = mode == MbarrierMode::CompleteTx || mode == MbarrierMode::ExpectTx;
  if (known && expect) {
    if (!arrive) return refuse("'.expect_tx' does not go with this");
    mode = mode == MbarrierMode::Arrive ? MbarrierMode::ArriveExpectTx : MbarrierMode::DropExpectTx;
  }
  bool partial = arrive && !expect && take("noComplete");
  bool parity = wait && take("parity");
  if (parity) mode = tries ? MbarrierMode::TryParity : MbarrierMode::TestParity;
  if (arrive || wait || transaction) {
    // On a CPU whose stores stay in order there is nothing to do for any of them.
    take("relaxed");
    if (arrive) take("release");
    if (wait) take("acquire");
    if (!take("cta")) take("cluster");
  }
  SharedWindow window = take_shared_window();
  if (window == SharedWindow::Cluster && !arrive && !transaction)
    return refuse("this works in the block's own shared memory only");
  if (take_type() != Type::B64) return refuse("needs .b64");
  if (!modifiers_done()) return false;

  Ir ir = make(Op::Mbarrier);
  ir.mode = static_cast<uint8_t>(mode);
  ir.type = Type::B64;
  uint32_t at = 0;
  if (wait) {
    if (!expect_operands(3, tries ? 4 : 3)) return false;
    // One that waits leaves the warp's other lanes behind, as a branch does.
    begin_guarded_region();
    if (operand(0).kind != OperandSyntax::Register || !predicate_destination(operand(0).reg, &ir.d))
      return refuse("the result must be a predicate");
    at = 1;
  } else if (arrive) {
    // The state may be left out, and is `_` for what lies in another block.
    bool state = operand_count() > 0 && operand(0).kind != OperandSyntax::Address;
    bool count = expect || partial;
    if (!expect_operands((state ? 2 : 1) + (count ? 1 : 0), state ? 3 : 2)) return false;
    if (state && operand(at++).kind != OperandSyntax::Sink) {
      if (window == SharedWindow::Cluster)
        return refuse("an mbarrier of another block gives no state");
      if (!destination(operand(0), 8, &ir.d)) return false;
    }
  } else if (!expect_operands(mode == MbarrierMode::Inval ? 1 : 2)) {
    return false;
  }
  if (!shared_address(operand(at++), window, &ir.a)) return false;
  if (wait) {
    if (!source(operand(at++), parity ? Type::U32 : Type::B64, &ir.b)) return false;
    // How long it may wait is up to the device; what was asked for is only checked.
    Value limit;
    if (at < operand_count() && !source(operand(at), Type::U32, &limit)) return false;
  } else if (at < operand_count()) {
    if (!source(operand(at), Type::U32, &ir.b)) return false;
  } else {
    ir.b = bits(1, 4);
  }
  emit(ir);
  return true;
}

}  // namespace softdev
