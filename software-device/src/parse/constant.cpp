#include "parse/constant.h"

#include <bit>
#include <limits>

namespace softdev {
namespace {

constexpr int kMaxDepth = 32;

ConstantValue integer_value(bool is_unsigned, uint64_t bits) {
  return {is_unsigned ? ConstantValue::Unsigned : ConstantValue::Signed, bits};
}
ConstantValue truth(bool value) { return integer_value(false, value); }
ConstantValue double_value(double value) {
  return {ConstantValue::Double, std::bit_cast<uint64_t>(value)};
}

struct Operator {
  std::string_view text;
  int precedence;
};
// Longer ones first, so that << is not taken for <.
constexpr Operator kOperators[] = {{"<<", 8}, {">>", 8}, {"<=", 7}, {">=", 7}, {"==", 6}, {"!=", 6},
                                   {"&&", 2}, {"||", 1}, {"*", 10}, {"/", 10}, {"%", 10}, {"+", 9},
                                   {"-", 9},  {"<", 7},  {">", 7},  {"&", 5},  {"^", 4},  {"|", 3}};

template <class T>
std::optional<bool> compare(std::string_view op, T a, T b) {
  if (op == "<") return a < b;
  if (op == ">") return a > b;
  if (op == "<=") return a <= b;
  if (op == ">=") return a >= b;
  if (op == "==") return a == b;
  if (op == "!=") return a != b;
  return std::nullopt;
}

std::optional<ConstantValue> of_doubles(std::string_view op, double a, double b) {
  if (auto result = compare(op, a, b)) return truth(*result);
  if (op == "+") return double_value(a + b);
  if (op == "-") return double_value(a - b);
  if (op == "*") return double_value(a * b);
  if (op == "/") return double_value(a / b);
  return std::nullopt;
}

std::optional<ConstantValue> divide(std::string_view op, bool is_unsigned, uint64_t a, uint64_t b) {
  if (b == 0) return std::nullopt;
  if (op == "%") return integer_value(true, a % b);  // always unsigned
  if (is_unsigned) return integer_value(true, a / b);
  auto left = static_cast<int64_t>(a), right = static_cast<int64_t>(b);
  if (right == -1 && left == std::numeric_limits<int64_t>::min()) return std::nullopt;
  return integer_value(false, static_cast<uint64_t>(left / right));
}

std::optional<ConstantValue> of_integers(std::string_view op, const ConstantValue &left,
                                         const ConstantValue &right) {
  const uint64_t a = left.bits, b = right.bits;
  const bool is_unsigned =
      left.kind == ConstantValue::Unsigned || right.kind == ConstantValue::Unsigned;
  if (op == "<<" || op == ">>") {  // the left one's type, and six bits of the right one
    const bool logical = left.kind == ConstantValue::Unsigned;
    if (op == "<<") return integer_value(logical, a << (b & 63));
    return integer_value(logical, logical
                                      ? a >> (b & 63)
                                      : static_cast<uint64_t>(static_cast<int64_t>(a) >> (b & 63)));
  }
  if (op == "&&") return truth(a && b);
  if (op == "||") return truth(a || b);
  if (auto result = is_unsigned ? compare(op, a, b)
                                : compare(op, static_cast<int64_t>(a), static_cast<int64_t>(b)))
    return truth(*result);
  if (op == "*") return integer_value(is_unsigned, a * b);
  if (op == "+") return integer_value(is_unsigned, a + b);
  if (op == "-") return integer_value(is_unsigned, a - b);
  if (op == "&") return integer_value(is_unsigned, a & b);
  if (op == "|") return integer_value(is_unsigned, a | b);
  if (op == "^") return integer_value(is_unsigned, a ^ b);
  return divide(op, is_unsigned, a, b);
}

}  // namespace

void set_error(ParseError &error, const Lexer &lexer, std::string message) {
  if (error) return;
  const Token &token = lexer.peek();
  error.line = token.line;
  error.message = std::move(message);
  if (token.kind == Tok::End)
    error.message += ", found the end of the text";
  else
    error.message += ", found '" + std::string(token.text.substr(0, 40)) + "'";
}

ConstantParser::Value ConstantParser::fail(const char *message) {
  set_error(error_, lexer_, message);
  return std::nullopt;
}

ConstantParser::Value ConstantParser::primary(int depth) {
  if (lexer_.take('(')) {
    for (bool is_unsigned : {false, true}) {
      if (!lexer_.take_dot(is_unsigned ? "u64" : "s64")) continue;
      if (!lexer_.take(')')) return fail("expected ')'");
      auto value = unary(depth + 1);
      if (value && !value->is_integer()) return fail("a floating-point constant has no cast");
      if (value) value = integer_value(is_unsigned, value->bits);
      return value;
    }
    auto value = choice(true, depth + 1);
    if (value && !lexer_.take(')')) return fail("expected ')'");
    return value;
  }
  lexer_.take_fraction();
  const Token token = lexer_.peek();
  ConstantValue value;
  value.bits = token.value;
  switch (token.kind) {
    case Tok::Integer:
      if (token.text.back() == 'U' || static_cast<int64_t>(token.value) < 0)
        value.kind = ConstantValue::Unsigned;
      break;
    case Tok::Single:
      value.kind = ConstantValue::Single;
      break;
    case Tok::Double:
      value.kind = ConstantValue::Double;
      break;
    default:
      if (!token.word("WARP_SZ")) return fail("expected a constant");
      value.bits = 32;
  }
  lexer_.next();
  return value;
}

ConstantParser::Value ConstantParser::unary(int depth) {
  if (depth > kMaxDepth) return fail("constant expression nested too deeply");
  const char op = lexer_.peek().kind == Tok::Punct ? lexer_.peek().text[0] : '\0';
  if (op != '-' && op != '+' && op != '~' && op != '!') return primary(depth);
  lexer_.next();
  auto value = unary(depth + 1);
  if (!value || op == '+') return value;
  if (!value->is_integer()) {
    if (op != '-') return fail("expected an integer constant");
    value->bits ^= value->kind == ConstantValue::Single ? uint64_t{1} << 31 : uint64_t{1} << 63;
    return value;
  }
  if (op == '-') value->bits = 0 - value->bits;
  if (op == '~') value = integer_value(true, ~value->bits);
  if (op == '!') value = truth(value->bits == 0);
  return value;
}

ConstantParser::Value ConstantParser::apply(std::string_view op, const ConstantValue &left,
                                            const ConstantValue &right) {
  Value result;
  if (left.is_integer() && right.is_integer()) {
    result = of_integers(op, left, right);
    if (!result) return fail("division in a constant expression is out of range");
  } else if (left.kind == ConstantValue::Double && right.kind == ConstantValue::Double) {
    result = of_doubles(op, std::bit_cast<double>(left.bits), std::bit_cast<double>(right.bits));
    if (!result) return fail("this operator needs integer constants");
  } else {
    return fail("the types of a constant expression differ");
  }
  return result;
}

ConstantParser::Value ConstantParser::binary(bool compares, int least, int depth) {
  auto left = unary(depth);
  // A '%' that stands by itself is read as a word.
  while (left && (lexer_.peek().kind == Tok::Punct || lexer_.peek().word("%"))) {
    std::string_view rest = lexer_.text().substr(lexer_.token_begin(), 2);
    const Operator *found = nullptr;
    for (const Operator &one : kOperators)
      if (rest.substr(0, one.text.size()) == one.text) {
        found = &one;
        break;
      }
    if (!found || found->precedence < least) break;
    // %r<8> is no comparison.
    if (!compares && (found->text[0] == '<' || found->text[0] == '>')) break;
    for (size_t i = 0; i < found->text.size(); ++i) lexer_.next();
    auto right = binary(compares, found->precedence + 1, depth + 1);
    if (!right) return right;
    left = apply(found->text, *left, *right);
  }
  return left;
}

ConstantParser::Value ConstantParser::choice(bool compares, int depth) {
  auto condition = binary(compares, 1, depth);
  if (!condition || !lexer_.take('?')) return condition;
  auto yes = choice(compares, depth + 1);
  if (!yes) return yes;
  if (!lexer_.take(':')) return fail("expected ':'");
  auto no = choice(compares, depth + 1);
  if (!no) return no;
  if (!condition->is_integer() || !yes->is_integer() || !no->is_integer())
    return fail("expected an integer constant");
  return condition->bits ? yes : no;
}

std::optional<int64_t> ConstantParser::integer() {
  auto value = choice(false, 0);
  if (!value) return std::nullopt;
  if (!value->is_integer()) {
    set_error(error_, lexer_, "expected an integer constant before this");
    return std::nullopt;
  }
  return static_cast<int64_t>(value->bits);
}

}  // namespace softdev
