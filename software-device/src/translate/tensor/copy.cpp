// Copies of boxes of a tensor that a tensor map describes (TMA).
#include <bit>

#include "tensor_map.h"
#include "translate/lower.h"

namespace softdev {

// [map, {coordinates}]: the map's generic address, and the coordinates behind `values`.
bool Lowering::tensor_map_place(const OperandSyntax &operand, TensorRequest *request,
                                std::vector<Value> *values, Value *map) {
  if (operand.kind != OperandSyntax::Address || operand.count != 1)
    return refuse("expected [tensor map, coordinates]");
  const OperandSyntax &vector = body_.operands[operand.first];
  if (vector.kind != OperandSyntax::List || vector.count != request->coordinates)
    return refuse("wrong number of coordinates");
  for (uint32_t i = 0; i < vector.count; ++i) {
    values->emplace_back();
    if (!source(body_.operands[vector.first + i], Type::S32, &values->back())) return false;
  }
  OperandSyntax place = operand;
  place.count = 0;
  return plain_address(place, Space::Generic, map);
}

// .tile, .im2col and their kin; rows of a tile are called by the way they go.
bool Lowering::take_tensor_mode(bool to_global, TensorRequest *request) {
  static constexpr struct {
    std::string_view word;
    TensorMode mode;
    bool in, out;
  } kModes[] = {
      {"tile", TensorMode::Tile, true, true},
      {"tile::gather4", TensorMode::Rows, true, false},
      {"tile::scatter4", TensorMode::Rows, false, true},
      {"im2col", TensorMode::Im2col, true, false},
      {"im2col_no_offs", TensorMode::Im2col, false, true},
      {"im2col::w", TensorMode::Wide, true, false},
      {"im2col::w::128", TensorMode::Wide128, true, false},
  };
  for (const auto &one : kModes)
    if ((to_global ? one.out : one.in) && take(one.word)) {
      request->mode = one.mode;
      break;
    }
  const TensorMode mode = request->mode;
  request->coordinates = mode == TensorMode::Rows ? kTensorRanks : request->rank;
  if (mode == TensorMode::Rows && request->rank != 2) return refuse("needs 2 dimensions");
  if (mode < TensorMode::Im2col) return true;
  if (request->rank < 3) return refuse("im2col needs 3 to 5 dimensions");
  if (!to_global) request->offsets = mode == TensorMode::Im2col ? request->rank - 2 : 2;
  return true;
}

// cp.async.bulk.tensor.dim.shared::cluster|cta.global[.mode].mbarrier::complete_tx::bytes
//   [.multicast::cluster][.cta_group::1][.L2::cache_hint]
//                              [to], [map, {c}], [object] [, {offsets}] [, blocks] [, policy]
// cp[.reduce].async.bulk.tensor.dim.global.shared::cta[.op][.mode].bulk_group[.L2::cache_hint]
//                              [map, {c}], [from] [, policy]
// cp.async.bulk.prefetch.tensor.dim.L2.global[.mode][.L2::cache_hint]
//                              [map, {c}] [, {offsets}] [, policy]
bool Lowering::tensor_copy(bool reduce) {
  TensorRequest request;
  static constexpr std::string_view kRanks[] = {"1d", "2d", "3d", "4d", "5d"};
  for (uint8_t i = 0; i < std::size(kRanks) && !request.rank; ++i)
    if (take(kRanks[i])) request.rank = i + 1;
  if (!request.rank) return refuse("needs a dimension");
  const bool policy = take("L2::cache_hint");
  const bool prefetch = !reduce && take("prefetch");
  // The order of the two spaces says the direction.
  bool to_global = false;
  for (uint32_t i = 0; i < statement_->modifiers && !prefetch; ++i) {
    std::string_view word = body_.modifiers[statement_->first_modifier + i];
    if (word != "global" && word.substr(0, 6) != "shared") continue;
    to_global = word == "global";
    break;
  }
  if (prefetch ? !take("L2") : !take("shared::cta") && (to_global || !take("shared::cluster")))
    return refuse(prefetch ? "needs .L2.global" : "needs one of the pairs of state spaces");
  if (!take("global")) return refuse("needs .global");
  if (reduce && !to_global) return refuse("reductions go out of shared memory");
  if (!prefetch && !take(to_global ? "bulk_group" : "mbarrier::complete_tx::bytes"))
    return refuse(to_global ? "needs .bulk_group" : "needs .mbarrier::complete_tx::bytes");
  if (!take_tensor_mode(to_global, &request)) return false;
  if (reduce && request.mode == TensorMode::Rows) return refuse("rows are not reduced");
  request.multicast = !to_global && !prefetch && take("multicast::cluster");
  // The default: the mbarrier is in the block of the box. In the other group it may be elsewhere.
  if (!to_global && !prefetch) take("cta_group::1");
  Ir ir = make(reduce ? Op::TensorReduce : Op::TensorCopy);
  if (reduce && !take_reduction(&ir)) return false;
  if (!modifiers_done()) return false;
  request.way = prefetch ? TensorWay::Prefetch : to_global ? TensorWay::Store : TensorWay::Load;

  const uint32_t places = prefetch ? 1 : to_global ? 2 : 3;
  if (!expect_operands(places + (request.offsets > 0) + request.multicast + policy)) return false;
  std::vector<Value> values;
  if (!tensor_map_place(operand(prefetch || to_global ? 0 : 1), &request, &values, &ir.b))
    return false;
  if (!prefetch && !shared_address(operand(to_global ? 1 : 0),
                                   to_global ? SharedWindow::Block : SharedWindow::Cluster, &ir.a))
    return false;
  if (places == 3 && !shared_address(operand(2), SharedWindow::Cluster, &ir.e)) return false;
  uint32_t at = places;
  if (request.offsets) {
    const OperandSyntax &offsets = operand(at++);
    if (offsets.kind != OperandSyntax::List || offsets.count != request.offsets)
      return refuse("wrong number of offsets");
    for (uint32_t i = 0; i < offsets.count; ++i) {
      values.emplace_back();
      if (!source(body_.operands[offsets.first + i], Type::U16, &values.back())) return false;
    }
  }
  if (request.multicast) {
    values.emplace_back();
    if (!source(operand(at++), Type::U16, &values.back())) return false;
  }
  Value ignored;
  if (policy && !source(operand(at++), Type::B64, &ignored)) return false;
  ir.list = add_list(values);
  ir.list_count = static_cast<uint32_t>(values.size());
  ir.offset = std::bit_cast<int64_t>(request);
  emit(ir);
  return true;
}

}  // namespace softdev
