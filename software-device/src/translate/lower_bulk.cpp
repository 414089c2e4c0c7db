// Bulk copies between global and shared memory, and the stores that report to an mbarrier.
#include "translate/lower.h"

namespace softdev {

// cp.async.bulk[.prefetch] and cp.reduce.async.bulk
//   .shared::cluster|cta.global.mbarrier::complete_tx::bytes[.multicast::cluster]
//                                               [to], [from], size, [object] [, blocks] [, policy]
//   .shared::cluster.shared::cta.mbarrier::complete_tx::bytes    [to], [from], size, [object]
//   .global.shared::cta.bulk_group[.cp_mask]    [to], [from], size [, policy] [, bytes]
//   .prefetch.L2.global                         [from], size [, policy]
bool Lowering::bulk_copy(bool reduce) {
  if (!reduce && take("commit_group")) return modifiers_done() && expect_operands(0);
  if (!reduce && take("wait_group")) {
    if (!take("read")) take("sync_restrict::proxy::async");
    uint64_t ignored = 0;
    return modifiers_done() && expect_operands(1) &&
           immediate_bits(operand(0), Type::U32, &ignored);
  }
  if (take("tensor")) return tensor_copy(reduce);
  bool policy = take("L2::cache_hint");
  Ir ir = make(reduce ? Op::BulkReduce : Op::BulkCopy);
  Ir from = ir;
  if (!reduce && take("prefetch")) {
    if (!take("L2") || !take("global")) return refuse("needs .L2.global");
    uint32_t count = policy ? 3 : 2;
    if (!modifiers_done() || !expect_operands(count)) return false;
    Value size;
    return address(operand(0), Space::Global, 1, &from) && source(operand(1), Type::U32, &size);
  }
  // The order of the two spaces says the direction.
  bool to_global = false;
  for (uint32_t i = 0; i < statement_->modifiers; ++i) {
    std::string_view word = body_.modifiers[statement_->first_modifier + i];
    if (word != "global" && word.substr(0, 6) != "shared") continue;
    to_global = word == "global";
    break;
  }
  bool cluster = take("shared::cluster");
  bool block = take("shared::cta") || take("shared");
  bool global = take("global");
  if (cluster + block + global != 2 || (to_global && cluster))
    return refuse("needs one of the three pairs of state spaces");
  bool counted = take("mbarrier::complete_tx::bytes"), grouped = take("bulk_group");
  if (counted == grouped || grouped != to_global)
    return refuse(to_global ? "needs .bulk_group" : "needs .mbarrier::complete_tx::bytes");
  bool multicast = !reduce && global && cluster && take("multicast::cluster");
  bool masked = !reduce && to_global && take("cp_mask");
  if (reduce && global && !to_global) return refuse("reductions go out of shared memory");
  if (reduce) {
    take("noftz");
    if (!take_reduction(&ir)) return false;
    ir.type = take_type();
    if (ir.type == Type::None) return refuse("needs a type");
  }
  if (!modifiers_done()) return false;
  uint32_t count = 3u + counted + multicast + masked + policy;
  if (!expect_operands(count)) return false;

  auto place = [&](const OperandSyntax &operand, bool in_global, bool in_cluster, Value *out) {
    if (!in_global)
      return shared_address(operand, in_cluster ? SharedWindow::Cluster : SharedWindow::Block, out);
    return plain_address(operand, Space::Global, out);
  };
  if (!place(operand(0), to_global, cluster, &ir.a) ||
      !place(operand(1), global && !to_global, false, &ir.b) ||
      !source(operand(2), Type::U32, &ir.c))
    return false;
  if (counted && !place(operand(3), false, true, &ir.e)) return false;
  ir.space = to_global ? Space::Global : Space::Shared;
  if (!reduce)
    ir.mode = static_cast<uint8_t>(to_global ? BulkWay::SharedToGlobal
                                   : global  ? BulkWay::GlobalToShared
                                             : BulkWay::SharedToShared);
  uint32_t at = counted ? 4 : 3;
  Value mask;
  if (multicast && !source(operand(at++), Type::U16, &mask)) return false;
  if (policy) ++at;
  if (masked && !source(operand(at++), Type::U16, &mask)) return false;
  if (mask) {
    ir.list = add_list({mask});
    ir.list_count = 1;
  }
  emit(ir);
  return true;
}

// The address of an operand, its offset added.
bool Lowering::plain_address(const OperandSyntax &operand, Space space, Value *out) {
  Ir at = make(Op::Add);
  if (!address(operand, space, 1, &at)) return false;
  if (!at.a || at.type2 != Type::U64) return refuse("this place has no address of 64 bits");
  *out = at.a;
  if (at.offset == 0) return true;
  at.b = bits(static_cast<uint64_t>(at.offset), 8);
  at.offset = 0;
  at.type = Type::U64;
  *out = at.d = temporary(Type::B64);
  emit(at);
  return true;
}

// st.async[.weak][.space].mbarrier::complete_tx::bytes[.v2|v4].type [to], value, [object]
// red.async.relaxed.cluster[.space].mbarrier::complete_tx::bytes.op.type [to], b, [object]
// Those with .release go to global memory, as st and red do.
bool Lowering::store_async(bool reduce) {
  Ir ir = make(reduce ? Op::ReduceAsync : Op::StoreAsync);
  if (!reduce)
    take("weak");
  else if (!take("relaxed") || !take("cluster"))
    return refuse("needs .relaxed.cluster");
  SharedWindow window = take_shared_window();
  if (!take("mbarrier::complete_tx::bytes")) return refuse("needs .mbarrier::complete_tx::bytes");
  if (reduce && !take_reduction(&ir)) return false;
  unsigned vector = reduce ? 1 : take_vector();
  ir.type = take_type();
  unsigned size = type_size(ir.type);
  if (size != 4 && size != 8) return refuse("needs a type of 32 or 64 bits");
  if (vector > 4 || size * vector > 16) return refuse("the vector is too long");
  if (!modifiers_done() || !expect_operands(3)) return false;
  if (!shared_address(operand(0), window, &ir.a) || !shared_address(operand(2), window, &ir.e))
    return false;
  const OperandSyntax &from = operand(1);
  if ((from.kind == OperandSyntax::List) != (vector > 1) || (vector > 1 && from.count != vector))
    return refuse("wrong vector length");
  std::vector<Value> values(vector);
  for (unsigned i = 0; i < vector; ++i)
    if (!source(vector > 1 ? body_.operands[from.first + i] : from, ir.type, &values[i]))
      return false;
  ir.list = add_list(values);
  ir.list_count = vector;
  emit(ir);
  return true;
}

// st.bulk[.weak][.shared::cta] [to], size, 0
bool Lowering::store_bulk() {
  take("weak");
  SharedWindow window = take_shared_window();
  if (window == SharedWindow::Cluster) return refuse("this works in the block's own memory only");
  Ir ir = make(Op::BulkCopy);
  ir.mode = static_cast<uint8_t>(BulkWay::Fill);
  ir.space = Space::Shared;
  uint64_t value = 0;
  if (!modifiers_done() || !expect_operands(3) || !shared_address(operand(0), window, &ir.a) ||
      !source(operand(1), Type::U64, &ir.c) || !immediate_bits(operand(2), Type::U64, &value))
    return false;
  if (value) return refuse("only zeros can be stored");
  emit(ir);
  return true;
}

// clusterlaunchcontrol: asks to take over a block that has not started. It is never granted, which
// a program must expect: the answer is 16 bytes of zeros.
//   .try_cancel.async[.shared::cta].mbarrier::complete_tx::bytes[.multicast::cluster::all].b128
//   [to], [object] .query_cancel.is_canceled.pred.b128 p, answer
//   .query_cancel.get_first_ctaid.v4.b32.b128 {x, y, z, _}, answer   ...get_first_ctaid::x.b32.b128
//   x, answer
bool Lowering::cluster_launch() {
  if (take("query_cancel")) {
    if (take("is_canceled")) {
      take("pred");
      take("b128");
      if (!modifiers_done() || !expect_operands(2)) return false;
      Ir ir = make(Op::PredMove);
      Constant no;
      no.size = 0;
      ir.type = Type::Pred;
      ir.a = constant(no);
      if (operand(0).kind != OperandSyntax::Register ||
          !predicate_destination(operand(0).reg, &ir.d))
        return refuse("the result must be a predicate");
      emit(ir);
      return true;
    }
    bool all = take("get_first_ctaid");
    if (!all && !take("get_first_ctaid::x") && !take("get_first_ctaid::y") &&
        !take("get_first_ctaid::z"))
      return refuse("unknown query");
    take("v4");
    take("b32");
    take("b128");
    if (!modifiers_done() || !expect_operands(2)) return false;
    const OperandSyntax &to = operand(0);
    if ((to.kind == OperandSyntax::List) != all) return refuse("wrong vector length");
    for (uint32_t i = 0; i < (all ? to.count : 1); ++i) {
      Ir ir = make(Op::Move);
      ir.type = Type::B32;
      ir.a = bits(0, 4);
      if (!destination(all ? body_.operands[to.first + i] : to, 4, &ir.d)) return false;
      emit(ir);
    }
    return true;
  }
  if (!take("try_cancel") || !take("async")) return refuse("needs .try_cancel.async");
  SharedWindow window = take_shared_window();
  if (!take("mbarrier::complete_tx::bytes")) return refuse("needs .mbarrier::complete_tx::bytes");
  Ir ir = make(Op::StoreAsync);
  ir.mode = take("multicast::cluster::all");
  ir.type = Type::B64;
  if (take_type() != Type::B128) return refuse("needs .b128");
  if (!modifiers_done() || !expect_operands(2)) return false;
  if (!shared_address(operand(0), window, &ir.a) || !shared_address(operand(1), window, &ir.e))
    return false;
  ir.list = add_list({bits(0, 8), bits(0, 8)});
  ir.list_count = 2;
  emit(ir);
  return true;
}

bool Lowering::take_reduction(Ir *ir) {
  auto op = take_atomic_op({AtomicOp::Add, AtomicOp::Min, AtomicOp::Max, AtomicOp::And,
                            AtomicOp::Or, AtomicOp::Xor, AtomicOp::Inc, AtomicOp::Dec});
  if (!op) return refuse("needs an operation");
  ir->mode = static_cast<uint8_t>(*op);
  return true;
}

// The address that a block of the cluster has for what lies at `a` in this one, or which block an
// address belongs to.
//   mapa[.shared::cluster].u32|u64 d, a, rank      getctarank[.shared::cluster].u32|u64 rank, a
bool Lowering::cluster_address() {
  bool map = statement_->opcode == "mapa";
  Ir ir = make(map ? Op::MapShared : Op::SharedRank);
  bool window = take("shared::cluster");
  ir.type = take_type();
  if (ir.type != Type::U32 && ir.type != Type::U64) return refuse("needs .u32 or .u64");
  if (!window && ir.type != Type::U64) return refuse("a generic address has 64 bits");
  if (!modifiers_done() || !expect_operands(map ? 3 : 2)) return false;
  ir.type2 = ir.type;
  if (!destination(operand(0), map ? type_size(ir.type) : 4, &ir.d)) return false;
  ir.space = window ? Space::Shared : Space::Generic;
  const OperandSyntax &of = operand(1);
  const VariableSyntax *variable =
      of.kind == OperandSyntax::Symbol ? find_variable(of.name, of.scope) : nullptr;
  if (variable && variable->space == Space::Shared) ir.space = Space::Shared;
  if (variable && !window && map) return refuse("the address of a shared variable is not generic");
  if (!source(of, ir.type, &ir.a)) return false;
  if (map && !source(operand(2), Type::U32, &ir.b)) return false;
  emit(ir);
  return true;
}

}  // namespace softdev
