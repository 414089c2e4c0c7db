// Video instructions: arithmetic on bytes and halves selected from words.
#include <bit>

#include "translate/lower.h"

namespace softdev {
namespace {

std::optional<VideoOp> video_op(std::string_view name) {
  static constexpr std::pair<std::string_view, VideoOp> kOps[] = {
      {"vadd", VideoOp::Add},         {"vsub", VideoOp::Sub}, {"vmin", VideoOp::Min},
      {"vabsdiff", VideoOp::AbsDiff}, {"vmax", VideoOp::Max}, {"vshl", VideoOp::ShiftLeft},
      {"vshr", VideoOp::ShiftRight},  {"vset", VideoOp::Set}, {"vavrg", VideoOp::Average},
      {"vmad", VideoOp::MultiplyAdd},
  };
  for (auto [known, op] : kOps)
    if (known == name) return op;
  return std::nullopt;
}

std::optional<uint8_t> scalar_part(std::string_view selector) {
  static constexpr std::string_view kParts[] = {"", "b0", "b1", "b2", "b3", "h0", "h1"};
  for (uint8_t i = 0; i < std::size(kParts); ++i)
    if (kParts[i] == selector) return i;
  return std::nullopt;
}

// "b3210" or "h10": digits from the most significant element down.
bool digits_of(std::string_view selector, unsigned parts, std::string_view *digits) {
  if (selector.empty() || selector[0] != (parts == 4 ? 'b' : 'h')) return false;
  *digits = selector.substr(1);
  return true;
}

}  // namespace

// The part or parts of a or b that take part.
bool Lowering::video_operand(const OperandSyntax &operand, VideoOptions *options, bool second) {
  uint16_t &select = second ? options->select_b : options->select_a;
  std::string_view selector =
      operand.kind == OperandSyntax::Register ? operand.selector : std::string_view();
  if (options->parts == 1) {
    auto part = scalar_part(selector);
    if (!part) return refuse("unknown selector '." + std::string(selector) + "'");
    select = *part;
    return true;
  }
  std::string_view digits =
      options->parts == 4 ? (second ? "7654" : "3210") : (second ? "32" : "10");
  if (!selector.empty() && !digits_of(selector, options->parts, &digits))
    return refuse("unknown selector '." + std::string(selector) + "'");
  if (digits.size() != options->parts) return refuse("the selector has the wrong length");
  for (unsigned i = 0; i < options->parts; ++i) {
    unsigned part = static_cast<unsigned>(digits[options->parts - 1 - i] - '0');
    if (part >= 2u * options->parts) return refuse("the selector is out of range");
    select = static_cast<uint16_t>(select | part << (4 * i));
  }
  return true;
}

// vop.dtype.atype.btype[.sat][.op2] d[.dsel], a[.asel], b[.bsel] [, c]      and with 2 or 4 parts
bool Lowering::video() {
  std::string_view name = statement_->opcode;
  VideoOptions options{};
  options.parts = name.back() == '2' ? 2 : name.back() == '4' ? 4 : 1;
  if (options.parts > 1) name.remove_suffix(1);
  auto op = video_op(name);
  if (!op) return refuse("unknown instruction");
  bool scalar = options.parts == 1, shift = *op == VideoOp::ShiftLeft || *op == VideoOp::ShiftRight;
  bool compare = *op == VideoOp::Set, product = *op == VideoOp::MultiplyAdd;

  // The comparison may be spelled like a type's prefix: it is taken first.
  if (compare) {
    auto what = take_compare();
    if (!what || *what > Compare::Ge) return refuse("needs a comparison");
    options.compare =
        static_cast<uint8_t>(static_cast<unsigned>(*what) - static_cast<unsigned>(Compare::Eq));
  }
  Type d = compare ? Type::U32 : take_type(), a = take_type(), b = take_type();
  auto is_word = [](Type type) { return type == Type::U32 || type == Type::S32; };
  if (!is_word(d) || !is_word(a) || !is_word(b)) return refuse("needs .u32 or .s32 types");
  if (shift && b != Type::U32) return refuse("a shift count is .u32");
  options.signed_d = d == Type::S32;
  options.signed_a = a == Type::S32;
  options.signed_b = b == Type::S32;
  if (shift) {
    bool clamp = take("clamp");
    options.wrap = take("wrap");
    if (clamp == static_cast<bool>(options.wrap)) return refuse("needs .clamp or .wrap");
  }
  if (!compare) options.sat = take("sat");
  if (product) {
    options.plus_one = take("po");
    if (take("shr7")) options.shift = 7;
    if (take("shr15")) options.shift = options.shift ? 0xff : 15;
    if (options.shift == 0xff) return refuse("contradictory modifiers");
  } else {
    options.second = take("add") ? 1 : 0;
    if (scalar && !options.second) options.second = take("min") ? 2 : take("max") ? 3 : 0;
  }
  if (!scalar && options.second && options.sat) return refuse("contradictory modifiers");
  if (!modifiers_done()) return false;

  const OperandSyntax &to = operand(0);
  std::string_view merge = to.kind == OperandSyntax::Register ? to.selector : std::string_view();
  if (scalar) {
    auto part = scalar_part(merge);
    if (!part || (*part && (product || options.second)))
      return refuse("this selector of the result is not known here");
    options.select_d = *part;
  } else {
    std::string_view digits;
    options.select_d = static_cast<uint8_t>((1u << options.parts) - 1);
    if (!merge.empty()) {
      if (!digits_of(merge, options.parts, &digits) || digits.empty())
        return refuse("this mask is not known");
      options.select_d = 0;
      for (char c : digits) {
        if (c < '0' || c >= '0' + static_cast<char>(options.parts))
          return refuse("this mask is not known");
        options.select_d = static_cast<uint8_t>(options.select_d | 1u << (c - '0'));
      }
    }
  }
  bool third = product || !scalar || options.second || options.select_d;
  if (!expect_operands(third ? 4 : 3)) return false;
  for (uint32_t i = 0; i < operand_count(); ++i) {
    const OperandSyntax &one = operand(i);
    if (one.minus && (!product || i == 0 || options.plus_one)) return refuse("unexpected '-'");
    if (i == 3 && one.kind == OperandSyntax::Register && !one.selector.empty())
      return refuse("the last operand has no selector");
  }
  if (!video_operand(operand(1), &options, false) || !video_operand(operand(2), &options, true))
    return false;
  if (product) {
    options.negate_ab = operand(1).minus != operand(2).minus;
    options.negate_c = operand(3).minus;
    if (options.negate_ab && options.negate_c) return refuse("a*b or c is negated, not both");
  }

  Ir ir = make(Op::Video);
  ir.type = d;
  ir.mode = static_cast<uint8_t>(*op);
  ir.offset = std::bit_cast<int64_t>(options);
  if (!destination(to, 4, &ir.d) || !source(operand(1), a, &ir.a) || !source(operand(2), b, &ir.b))
    return false;
  if (third ? !source(operand(3), d, &ir.c) : false) return false;
  if (!third) ir.c = bits(0, 4);
  emit(ir);
  return true;
}

}  // namespace softdev
