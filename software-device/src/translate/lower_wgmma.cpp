// Matrix multiplication by the four warps of a warp group, whose matrices lie in shared memory.
#include "translate/lower.h"
#include "translate/matrix.h"

namespace softdev {
namespace {

constexpr unsigned kMostColumns = 256;

bool is_byte(Element element) { return element == Element::S8 || element == Element::U8; }
bool is_fp8(Element element) { return element == Element::E4M3 || element == Element::E5M2; }
bool is_half(Element element) { return element == Element::F16 || element == Element::BF16; }

// Whether D = A * B has these types.
bool go_together(Element d, Element a, Element b) {
  if (is_byte(a)) return is_byte(b) && d == Element::S32;
  if (is_fp8(a)) return is_fp8(b) && (d == Element::F16 || d == Element::F32);
  if (a != b) return false;
  if (a == Element::F16) return d == Element::F16 || d == Element::F32;
  return (a == Element::BF16 || a == Element::TF32) && d == Element::F32;
}

}  // namespace

// 1 or -1: whether it is the second.
bool Lowering::take_sign(const OperandSyntax &operand, bool *negative) {
  uint64_t value = 0;
  if (!immediate_bits(operand, Type::S32, &value)) return false;
  const auto number = static_cast<int32_t>(value);
  *negative = number == -1;
  return number == 1 || number == -1 || refuse("a scale must be 1 or -1");
}
bool Lowering::take_flag(const OperandSyntax &operand, bool *flag) {
  uint64_t value = 0;
  if (!immediate_bits(operand, Type::U32, &value)) return false;
  *flag = value == 1;
  return value <= 1 || refuse("a transposition must be 0 or 1");
}

// wgmma.fence|commit_group|wait_group.sync.aligned [n]
// wgmma.mma_async.sync.aligned.shape[.satfinite].d.a.b
//   d, a, b, scale-d [, scale-a, scale-b [, turn-a], turn-b]
// A product is made when it is asked for, so there is nothing to order, and nothing to wait for.
bool Lowering::wgmma() {
  if (!take("sync") || !take("aligned")) return refuse("needs .sync.aligned");
  if (take("fence") || take("commit_group")) return modifiers_done() && expect_operands(0);
  if (take("wait_group")) {
    uint64_t groups = 0;
    return modifiers_done() && expect_operands(1) && immediate_bits(operand(0), Type::U32, &groups);
  }
  if (!take("mma_async")) return refuse("needs .mma_async, .fence, .commit_group or .wait_group");
  WgmmaForm form;
  unsigned shape[3];
  if (!take_shape(shape)) return false;
  form.saturate = take("satfinite");
  const Element d = take_element();
  form.a = take_element();
  form.b = take_element();
  if (!go_together(d, form.a, form.b))
    return refuse("matrices of these types cannot be multiplied");
  if (form.saturate && !is_byte(form.a)) return refuse(".satfinite goes with integers");
  form.half_d = d == Element::F16;
  const unsigned step = is_byte(form.a) && shape[1] > 32 ? 16 : 8;
  if (shape[0] != 64 || shape[1] < 8 || shape[1] > kMostColumns || shape[1] % step ||
      shape[2] != 2 * block_depth(form.a))
    return refuse("there is no such shape for these types");
  form.columns = static_cast<uint8_t>(shape[1] / 8);
  form.a_registers = operand_count() > 1 && operand(1).kind == OperandSyntax::List ? 4 : 0;
  const uint32_t scales = is_byte(form.a) ? 0 : 2;
  const uint32_t turns = !is_half(form.a) ? 0 : form.a_registers ? 1 : 2;
  if (!modifiers_done() || !expect_operands(4 + scales + turns)) return false;
  bool negate_a = false, negate_b = false, turn = false;
  if (scales && (!take_sign(operand(4), &negate_a) || !take_sign(operand(5), &negate_b)))
    return false;
  form.negate = negate_a != negate_b;
  if (turns == 2) {
    if (!take_flag(operand(6), &turn)) return false;
    form.turn_a = turn;
  }
  if (turns) {
    if (!take_flag(operand(5 + turns), &turn)) return false;
    form.turn_b = turn;
  }

  begin_guarded_region();
  Ir ir = make(Op::Wgmma);
  const Type type = form.half_d ? Type::B32 : d == Element::S32 ? Type::S32 : Type::F32;
  std::vector<Value> values;
  if (!fragment(operand(0), form.d_registers(), type, true, &values)) return false;
  if (form.a_registers) {
    if (!fragment(operand(1), form.a_registers, Type::B32, false, &values)) return false;
  } else if (!source(operand(1), Type::B64, &ir.a)) {
    return false;
  }
  bool negated = false;
  if (!fragment(operand(0), form.d_registers(), type, false, &values) ||
      !source(operand(2), Type::B64, &ir.b) || !predicate_source(operand(3), &ir.e, &negated))
    return false;
  form.drop_d = negated;
  ir.list = add_list(values);
  ir.list_count = static_cast<uint32_t>(values.size());
  ir.list_written = form.d_registers();
  ir.offset = pack_form(form);
  emit(ir);
  return true;
}

// setmaxnreg.inc|dec.sync.aligned.u32 n
// Every warp has the registers that it needs: they come from no pool, and go back into none.
bool Lowering::register_count() {
  if (!take("inc") && !take("dec")) return refuse("needs .inc or .dec");
  if (!take("sync") || !take("aligned")) return refuse("needs .sync.aligned");
  if (take_type() != Type::U32) return refuse("needs .u32");
  uint64_t count = 0;
  if (!modifiers_done() || !expect_operands(1) || !immediate_bits(operand(0), Type::U32, &count))
    return false;
  return (count >= 24 && count <= 256 && count % 8 == 0) ||
         refuse("the number of registers must be a multiple of 8 within 24 and 256");
}

}  // namespace softdev
