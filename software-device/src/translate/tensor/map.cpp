// What kernels do with tensor maps themselves: they replace their fields, and copy them.
#include "translate/lower.h"

namespace softdev {
namespace {

struct Field {
  std::string_view name;
  TensorField field;
  uint8_t bytes;       // of the new value; 0: a number in the text
  uint8_t dimensions;  // of which one is named; 0: none
  // Of a number in the text: bit n says that this device has something for n.
  uint16_t numbers = 0;
};
constexpr Field kFields[] = {
    {"global_address", TensorField::Address, 8, 0},
    {"rank", TensorField::Rank, 4, 0},
    {"box_dim", TensorField::Box, 4, 5},
    {"global_dim", TensorField::Dimension, 4, 5},
    {"global_stride", TensorField::Stride, 8, 4},
    {"element_stride", TensorField::Step, 4, 5},
    {"elemtype", TensorField::Element, 0, 0, 0xffff},
    {"interleave_layout", TensorField::Interleave, 0, 0, 1 << 0},
    {"swizzle_mode", TensorField::Swizzle, 0, 0, 0xf},
    {"fill_mode", TensorField::Fill, 0, 0, 3},
    {"swizzle_atomicity", TensorField::Atomicity, 0, 0, 1 << 0 | 1 << 1 | 1 << 3},
};

}  // namespace

// tensormap.replace.tile.field[.space].b1024.b32|b64  [map], [ord,] value
bool Lowering::tensor_map() {
  if (take("cp_fenceproxy")) return copy_tensor_map();
  if (!take("replace") || !take("tile")) return refuse("needs .replace.tile or .cp_fenceproxy");
  const Field *field = nullptr;
  for (const Field &one : kFields)
    if (!field && take(one.name)) field = &one;
  if (!field) return refuse("unknown field of a tensor map");
  const bool global = take("global"), shared = !global && take("shared::cta");
  if (!take("b1024")) return refuse("needs .b1024");
  const Type type = take_type();
  if (type != (field->bytes == 8 ? Type::B64 : Type::B32))
    return refuse(field->bytes == 8 ? "needs .b64" : "needs .b32");
  const uint32_t count = field->dimensions ? 3 : 2;
  if (!modifiers_done() || !expect_operands(count)) return false;
  Ir ir = make(Op::TensorReplace);
  ir.mode = static_cast<uint8_t>(field->field);
  if (shared ? !shared_address(operand(0), SharedWindow::Block, &ir.a)
             : !plain_address(operand(0), global ? Space::Global : Space::Generic, &ir.a))
    return false;
  uint64_t number = 0;
  if (field->dimensions) {
    if (!immediate_bits(operand(1), Type::U32, &number)) return false;
    if (number >= field->dimensions) return refuse("a tensor map has no such dimension");
    ir.offset = static_cast<int64_t>(number);
  }
  const OperandSyntax &value = operand(count - 1);
  if (field->bytes) {
    if (!source(value, type, &ir.b)) return false;
  } else {
    if (!immediate_bits(value, Type::U32, &number)) return false;
    if (number > 15 || !(field->numbers >> number & 1))
      return refuse("this value is not supported by this device");
    ir.b = bits(number, 4);
  }
  emit(ir);
  return true;
}

// tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.scope.sync.aligned
//   [to], [from], 128
bool Lowering::copy_tensor_map() {
  for (std::string_view word : {"global", "shared::cta", "tensormap::generic", "release"})
    if (!take(word)) return refuse("needs ." + std::string(word));
  if (!take("cta") && !take("cluster") && !take("gpu") && !take("sys"))
    return refuse("needs a scope");
  if (!take("sync") || !take("aligned")) return refuse("needs .sync.aligned");
  uint64_t bytes = 0;
  if (!modifiers_done() || !expect_operands(3) || !immediate_bits(operand(2), Type::U32, &bytes))
    return false;
  if (bytes != 128) return refuse("the size must be 128");
  Ir ir = make(Op::TensorReplace);
  ir.mode = static_cast<uint8_t>(TensorField::Whole);
  if (!plain_address(operand(0), Space::Global, &ir.a) ||
      !shared_address(operand(1), SharedWindow::Block, &ir.b))
    return false;
  emit(ir);
  return true;
}

}  // namespace softdev
