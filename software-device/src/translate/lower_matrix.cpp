// Matrix multiplication between the lanes of a warp, and the loads and stores that go with it.
#include "translate/lower.h"
#include "translate/matrix.h"

namespace softdev {
namespace {

constexpr std::pair<std::string_view, Element> kElements[] = {
    {"f16", Element::F16}, {"bf16", Element::BF16}, {"tf32", Element::TF32},
    {"f64", Element::F64}, {"e4m3", Element::E4M3}, {"e5m2", Element::E5M2},
    {"s8", Element::S8},   {"u8", Element::U8},     {"s4", Element::S4},
    {"u4", Element::U4},   {"b1", Element::B1},     {"f32", Element::F32},
    {"s32", Element::S32},
};

bool is_integer(Element element) { return element >= Element::S8 && element <= Element::B1; }
bool is_fp8(Element element) { return element == Element::E4M3 || element == Element::E5M2; }

// What a register of a fragment is.
Type register_type(Element element) {
  return element == Element::F64   ? Type::F64
         : element == Element::F32 ? Type::F32
         : element == Element::S32 ? Type::S32
                                   : Type::B32;
}

// s8 with u8 and so on: elements that may meet in one instruction.
bool go_together(Element a, Element b) {
  if (a == b) return true;
  auto either = [&](Element x, Element y) { return (a == x && b == y) || (a == y && b == x); };
  return either(Element::S8, Element::U8) || either(Element::S4, Element::U4) ||
         either(Element::E4M3, Element::E5M2);
}

}  // namespace

// .m16n8k16
bool Lowering::take_shape(unsigned shape[3]) {
  for (uint32_t i = 0; i < statement_->modifiers; ++i) {
    if ((taken_ >> i) & 1) continue;
    std::string_view text = body_.modifiers[statement_->first_modifier + i];
    size_t at = 0;
    unsigned part = 0;
    for (; part < 3 && at < text.size() && text[at] == "mnk"[part]; ++part) {
      size_t digits = ++at;
      shape[part] = 0;
      while (at < text.size() && at < digits + 3 && text[at] >= '0' && text[at] <= '9')
        shape[part] = shape[part] * 10 + static_cast<unsigned>(text[at++] - '0');
      if (at == digits) break;
    }
    if (part != 3 || at != text.size()) continue;
    taken_ |= 1u << i;
    return true;
  }
  return refuse("needs a shape");
}

// The types and layouts of the matrices, in the order they are written.
Element Lowering::take_element() {
  for (uint32_t i = 0; i < statement_->modifiers; ++i) {
    if ((taken_ >> i) & 1) continue;
    for (auto [name, element] : kElements) {
      if (body_.modifiers[statement_->first_modifier + i] != name) continue;
      taken_ |= 1u << i;
      return element;
    }
  }
  return Element::None;
}

Lowering::Layout Lowering::take_layout() {
  for (uint32_t i = 0; i < statement_->modifiers; ++i) {
    if ((taken_ >> i) & 1) continue;
    std::string_view text = body_.modifiers[statement_->first_modifier + i];
    if (text != "row" && text != "col") continue;
    taken_ |= 1u << i;
    return text == "row" ? Layout::Row : Layout::Column;
  }
  return Layout::None;
}

// {r0, r1, ...}: the registers of one matrix.
bool Lowering::fragment(const OperandSyntax &operand, unsigned count, Type type, bool written,
                        std::vector<Value> *values, unsigned different) {
  bool list = operand.kind == OperandSyntax::List;
  if ((list ? operand.count : 1) != count)
    return refuse("a matrix has the wrong number of registers");
  for (unsigned i = 0; i < count; ++i) {
    const OperandSyntax &part = list ? body_.operands[operand.first + i] : operand;
    Value value;
    if (written ? !destination(part, slot_size(type), &value) : !source(part, type, &value))
      return false;
    if (i < different) values->push_back(value);
  }
  return true;
}

// What is the same for mma and wmma.mma once the shape has been found legal.
bool Lowering::emit_mma(MmaForm form, Element d, Element c, Round round) {
  if (!modifiers_done() || !expect_operands(form.sparse ? 6 : 4)) return false;
  begin_guarded_region();
  Ir ir = make(form.depth ? Op::Mma : Op::MmaQuads);
  // wmma has the blocks of f16 more than once: each is looked at where it comes first.
  const uint8_t given_a = form.a_registers, given_b = form.b_registers;
  if (form.depth && !form.sparse) {
    form.a_registers = static_cast<uint8_t>(form.rows * form.depth);
    form.b_registers = static_cast<uint8_t>(form.columns * form.depth);
  }
  std::vector<Value> values;
  if (!fragment(operand(0), form.d_registers(), register_type(d), true, &values) ||
      !fragment(operand(1), given_a, register_type(form.a), false, &values, form.a_registers) ||
      !fragment(operand(2), given_b, register_type(form.b), false, &values, form.b_registers) ||
      !fragment(operand(3), form.c_registers(), register_type(c), false, &values))
    return false;
  if (form.sparse) {
    Value metadata;
    uint64_t selector = 0;
    if (!source(operand(4), Type::B32, &metadata) ||
        !immediate_bits(operand(5), Type::U32, &selector))
      return false;
    // Which lanes of each four hold metadata: one, a pair, or all of them.
    unsigned holders = form.depth / 2 * (element_bits(form.a) < 16 ? 2 : 1);
    if (selector >= 4 / holders) return refuse("the sparsity selector is out of range");
    values.push_back(metadata);
    ir.mode = static_cast<uint8_t>(selector);
  }
  ir.list = add_list(values);
  ir.list_count = static_cast<uint32_t>(values.size());
  ir.list_written = form.d_registers();
  ir.round = round;
  ir.offset = pack_form(form);
  emit(ir);
  return true;
}

// The modifiers that depend on the types, and whether the types go together.
bool Lowering::mma_types(MmaForm *form, Element d, Element c, Round round) {
  Element a = form->a;
  form->half_d = d == Element::F16;
  form->half_c = c == Element::F16;
  bool integer = is_integer(a), bit = a == Element::B1;
  bool half_fits = a == Element::F16 || is_fp8(a);
  auto fits = [&](Element accumulator) {
    if (a == Element::F64) return accumulator == Element::F64;
    if (integer) return accumulator == Element::S32;
    return accumulator == Element::F32 || (half_fits && accumulator == Element::F16);
  };
  if (a == Element::None || a >= Element::F32 || !go_together(a, form->b) || !fits(c) || !fits(d))
    return refuse("matrices of these types cannot be multiplied");
  bool use_xor = take("xor"), use_and = take("and"), popc = take("popc");
  if (bit ? !popc || use_xor == use_and : popc || use_xor || use_and)
    return refuse("b1, and nothing else, needs .xor.popc or .and.popc");
  form->popc_and = use_and;
  if (form->saturate && (bit || !(integer || a == Element::F16)))
    return refuse(".satfinite does not go with these types");
  if (round != Round::None && a != Element::F64) return refuse("a rounding needs .f64");
  return true;
}

// mma.sync.aligned.shape.alayout.blayout[.satfinite].d.a.b.c[.op.popc] d, a, b, c;
// mma.sp[::ordered_metadata].sync... d, a, b, c, metadata, selector;
bool Lowering::mma() {
  if (!take("sync") || !take("aligned")) return refuse("needs .sync.aligned");
  MmaForm form;
  form.sparse = take("sp") || take("sp::ordered_metadata");
  unsigned shape[3];
  if (!take_shape(shape)) return false;
  Layout layout_a = take_layout(), layout_b = take_layout();
  form.saturate = take("satfinite");
  Round round = take_round();
  Element d = take_element();
  form.a = take_element();
  form.b = take_element();
  Element c = take_element();
  if (!mma_types(&form, d, c, round)) return false;
  if (layout_a == Layout::None || layout_b == Layout::None)
    return refuse("needs the layouts of A and B");
  bool integer = is_integer(form.a);
  if (form.saturate && !integer) return refuse(".satfinite does not go with these types");

  if (form.a == Element::F16 && !form.sparse && shape[0] == 8 && shape[1] == 8 && shape[2] == 4) {
    // Four products at a time, each on eight lanes that hold all of C.
    form.rows = 4;
    form.depth = 0;
    form.column_a = layout_a == Layout::Column;
    form.row_b = layout_b == Layout::Row;
    form.a_registers = form.b_registers = 2;
    return emit_mma(form, d, c, round);
  }
  if (layout_a != Layout::Row || layout_b != Layout::Column)
    return refuse("only .row.col goes with this shape");
  if (d != c) return refuse("C and D must have one type");
  unsigned depth = shape[2] / block_depth(form.a);
  bool known = shape[1] == 8 && shape[2] % block_depth(form.a) == 0;
  if (form.sparse)
    known = known && shape[0] == 16 && form.a != Element::F64 && form.a != Element::B1 &&
            (depth == 4 || (depth == 2 && !is_fp8(form.a)));
  else if (shape[0] == 8)
    known = known && depth == 1 && (integer || form.a == Element::F64);
  else
    known = known && shape[0] == 16 &&
            (depth == 1 || depth == 2 || (depth == 4 && form.a == Element::F64));
  if (!known) return refuse("these types have no such shape");
  form.rows = static_cast<uint8_t>(shape[0] / 8);
  form.depth = static_cast<uint8_t>(depth);
  form.a_registers = static_cast<uint8_t>(form.rows * form.depth / (form.sparse ? 2 : 1));
  form.b_registers = form.depth;
  return emit_mma(form, d, c, round);
}

// Whether wmma has this shape for multiplicands of this type.
bool Lowering::wmma_shape(const unsigned shape[3], Element element) {
  unsigned m = shape[0], n = shape[1], k = shape[2];
  bool small = m == 8 && n == 8, square = m == 16 && n == 16;
  bool known = false;
  switch (element) {
    case Element::F16:
    case Element::BF16:
    case Element::S8:
    case Element::U8:
      known = k == 16 && (square || (m == 32 && n == 8) || (m == 8 && n == 32));
      break;
    case Element::TF32:
      known = square && k == 8;
      break;
    case Element::F64:
      known = small && k == 4;
      break;
    case Element::S4:
    case Element::U4:
      known = small && k == 32;
      break;
    case Element::B1:
      known = small && k == 128;
      break;
    default:
      break;
  }
  return known || refuse("these types have no such shape");
}

// .sync.aligned of wmma, which had no .aligned before PTX 6.3.
bool Lowering::take_aligned() {
  bool sync = take("sync"), aligned = take("aligned");
  if (sync && (aligned || surroundings_.module().version < 63)) return true;
  return refuse("needs .sync.aligned");
}

// wmma.mma.sync.aligned.alayout.blayout.shape.d[.a.b].c, and wmma.load, wmma.store
bool Lowering::wmma() {
  bool load = take("load"), store = take("store");
  if (load || store) return wmma_fragment(load);
  if (!take("mma")) return refuse("needs .load, .store or .mma");
  if (!take_aligned()) return false;
  unsigned shape[3];
  if (!take_shape(shape)) return false;
  MmaForm form;
  Layout layout_a = take_layout(), layout_b = take_layout();
  form.saturate = take("satfinite");
  Round round = take_round();
  Element types[4];
  unsigned count = 0;
  while (count < 4 && (types[count] = take_element()) != Element::None) ++count;
  // Two types are those of D and C, with A and B of f16.
  if (count != 2 && count != 4) return refuse("needs the types of the matrices");
  Element d = types[0], c = types[count - 1];
  form.a = count == 2 ? Element::F16 : types[1];
  form.b = count == 2 ? Element::F16 : types[2];
  if (!mma_types(&form, d, c, round) || !wmma_shape(shape, form.a)) return false;
  if (form.a != form.b) return refuse("A and B must have one type");
  if (layout_a == Layout::None || layout_b == Layout::None)
    return refuse("needs the layouts of A and B");
  if (element_bits(form.a) < 8 && (layout_a != Layout::Row || layout_b != Layout::Column))
    return refuse("only .row.col goes with this type");
  form.rows = static_cast<uint8_t>(shape[0] / 8);
  form.columns = static_cast<uint8_t>(shape[1] / 8);
  form.depth = static_cast<uint8_t>(shape[2] / block_depth(form.a));
  form.a_registers = static_cast<uint8_t>(form.rows * form.depth);
  form.b_registers = static_cast<uint8_t>(form.columns * form.depth);
  if (form.a == Element::F16) form.a_registers = form.b_registers = kHalfRegisters;
  return emit_mma(form, d, c, round);
}

// wmma.load.a|b|c.sync.aligned.layout.shape[.space].type r, [p] [, stride];
// wmma.store.d.sync.aligned.layout.shape[.space].type [p], r [, stride];
bool Lowering::wmma_fragment(bool load) {
  FragmentForm form;
  if (load && take("a"))
    form.matrix = FragmentForm::A;
  else if (load && take("b"))
    form.matrix = FragmentForm::B;
  else if (take(load ? "c" : "d"))
    form.matrix = FragmentForm::C;
  else
    return refuse("needs the name of a matrix");
  if (!take_aligned()) return false;
  unsigned shape[3];
  if (!take_shape(shape)) return false;
  Layout layout = take_layout();
  if (layout == Layout::None) return refuse("needs .row or .col");
  Space space = take_space().value_or(Space::Generic);
  if (space != Space::Generic && space != Space::Global && space != Space::Shared)
    return refuse("matrices lie in .global or .shared");
  form.element = take_element();
  if (!modifiers_done() || !expect_operands(2, 3)) return false;
  unsigned m = shape[0], n = shape[1], k = shape[2];
  bool row = layout == Layout::Row;
  unsigned side_by_side;  // elements in one row or column of the memory
  if (form.matrix == FragmentForm::C) {
    // The accumulators of any multiplicands that have this shape.
    bool known = false;
    switch (form.element) {
      case Element::F64:
        known = wmma_shape(shape, Element::F64);
        break;
      case Element::F16:
        known = wmma_shape(shape, Element::F16);
        break;
      case Element::F32:
        known = wmma_shape(shape, k == 8 ? Element::TF32 : Element::F16);
        break;
      case Element::S32:
        known = wmma_shape(shape, k == 16 ? Element::S8 : k == 32 ? Element::S4 : Element::B1);
        break;
      default:
        return refuse("accumulators cannot have this type");
    }
    if (!known) return false;
    form.rows = static_cast<uint8_t>(m / 8);
    form.columns = static_cast<uint8_t>(n / 8);
    form.along = row;
    form.registers =
        static_cast<uint8_t>(form.rows * form.columns * (form.element == Element::F16 ? 1 : 2));
    side_by_side = row ? n : m;
  } else {
    if (!wmma_shape(shape, form.element)) return false;
    bool a = form.matrix == FragmentForm::A;
    form.along = row == a;
    if (element_bits(form.element) < 8 && !form.along)
      return refuse("this type has no such layout");
    unsigned across = a ? m : n;
    form.rows = static_cast<uint8_t>(across / 8);
    form.columns = static_cast<uint8_t>(k / block_depth(form.element));
    form.registers = form.element == Element::F16 ? kHalfRegisters
                                                  : static_cast<uint8_t>(form.rows * form.columns);
    side_by_side = form.along ? k : across;
  }
  begin_guarded_region();
  Ir ir = make(load ? Op::FragmentLoad : Op::FragmentStore);
  std::vector<Value> values;
  if (!fragment(operand(load ? 0 : 1), form.registers, register_type(form.element), load, &values))
    return false;
  if (!matrix_address(operand(load ? 1 : 0), space, &ir)) return false;
  if (operand_count() == 3) {
    if (!source(operand(2), Type::B32, &ir.b)) return false;
  } else {
    ir.b = bits(side_by_side, 4);
  }
  ir.list = add_list(values);
  ir.list_count = form.registers;
  ir.list_written = load ? form.registers : 0;
  form.space = space;
  form.narrow = ir.type2 == Type::U32;
  // The immediate is the form's: the offset becomes part of the address.
  ir.c = bits(static_cast<uint64_t>(ir.offset), 8);
  ir.offset = pack_form(form);
  emit(ir);
  return true;
}

// Addresses of matrices: never those of local variables.
bool Lowering::matrix_address(const OperandSyntax &operand, Space space, Ir *ir) {
  if (!address(operand, space, 1, ir)) return false;
  if (ir->space == Space::Local || !ir->a) return refuse("matrices lie in .global or .shared");
  return true;
}

// ldmatrix.sync.aligned.m8n8.num[.trans][.shared].b16 r, [p];   stmatrix ... [p], r;
bool Lowering::matrix_rows() {
  bool load = row_->op == Op::MatrixLoad;
  if (!take("sync") || !take("aligned")) return refuse("needs .sync.aligned");
  unsigned count = take("x1") ? 1 : take("x2") ? 2 : take("x4") ? 4 : 0;
  if (!count) return refuse("needs .x1, .x2 or .x4");
  bool transposed = take("trans");
  Space space = take_space().value_or(Space::Generic);
  if (space != Space::Generic && space != Space::Shared) return refuse("matrices lie in .shared");
  // Other shapes and types exist for targets with suffix only.
  if (!take("m8n8") || !take("b16")) return refuse("only .m8n8 and .b16 are supported");
  if (!modifiers_done() || !expect_operands(2)) return false;
  begin_guarded_region();
  Ir ir = make(row_->op);
  std::vector<Value> values;
  if (!fragment(operand(load ? 0 : 1), count, Type::B32, load, &values) ||
      !matrix_address(operand(load ? 1 : 0), space, &ir))
    return false;
  ir.list = add_list(values);
  ir.list_count = count;
  ir.list_written = load ? count : 0;
  ir.mode = transposed;
  emit(ir);
  return true;
}

// movmatrix.sync.aligned.m8n8.trans.b16 d, a;
bool Lowering::move_matrix() {
  if (!take("sync") || !take("aligned") || !take("m8n8") || !take("trans") || !take("b16"))
    return refuse("needs .sync.aligned.m8n8.trans.b16");
  if (!modifiers_done() || !expect_operands(2)) return false;
  begin_guarded_region();
  Ir ir = make(Op::MatrixMove);
  if (!destination(operand(0), 4, &ir.d) || !source(operand(1), Type::B32, &ir.a)) return false;
  emit(ir);
  return true;
}

}  // namespace softdev
