#include "parse/declaration.h"

namespace softdev {
namespace {
constexpr int kMaxExpressionDepth = 32;
constexpr uint64_t kMaxVariableBytes = uint64_t{1} << 40;
constexpr size_t kMaxParameters = 4096;
}  // namespace

std::optional<Space> space_from_name(std::string_view name) {
  if (name == "global") return Space::Global;
  if (name == "const") return Space::Constant;
  if (name == "shared") return Space::Shared;
  if (name == "local") return Space::Local;
  if (name == "param") return Space::Param;
  if (name == "reg") return Space::Register;
  return std::nullopt;
}

bool DeclarationParser::fail(std::string message) {
  if (!error_) {
    error_.line = lexer_.peek().line;
    error_.message = std::move(message);
    Token token = lexer_.peek();
    if (token.kind == Tok::End)
      error_.message += ", found the end of the text";
    else
      error_.message += ", found '" + std::string(token.text.substr(0, 40)) + "'";
  }
  return false;
}

bool DeclarationParser::name(std::string_view *out) {
  if (lexer_.peek().kind != Tok::Word) return fail("expected a name");
  *out = lexer_.next().text;
  return true;
}

std::optional<int64_t> DeclarationParser::unary(int depth) {
  if (depth > kMaxExpressionDepth) {
    fail("constant expression nested too deeply");
    return std::nullopt;
  }
  if (lexer_.peek().kind == Tok::Punct) {
    char op = lexer_.peek().text[0];
    if (op == '-' || op == '+' || op == '~' || op == '!') {
      lexer_.next();
      auto value = unary(depth + 1);
      if (!value) return value;
      if (op == '-') return static_cast<int64_t>(0 - static_cast<uint64_t>(*value));
      return op == '~' ? ~*value : op == '!' ? *value == 0 : *value;
    }
  }
  if (lexer_.take('(')) {
    // (.s64) and (.u64) are the types that all constants have anyway.
    if (lexer_.take_dot("s64") || lexer_.take_dot("u64"))
      return lexer_.take(')') ? unary(depth + 1) : (fail("expected ')'"), std::nullopt);
    auto value = choice(true, depth + 1);
    if (!value) return value;
    if (!lexer_.take(')')) {
      fail("expected ')'");
      return std::nullopt;
    }
    return value;
  }
  if (lexer_.peek().kind == Tok::Integer) return static_cast<int64_t>(lexer_.next().value);
  fail("expected an integer constant");
  return std::nullopt;
}

namespace {

struct Operator {
  std::string_view text;
  int precedence;
};
// Longer ones first, so that << is not taken for <.
constexpr Operator kOperators[] = {{"<<", 8}, {">>", 8}, {"<=", 7}, {">=", 7}, {"==", 6}, {"!=", 6},
                                   {"&&", 2}, {"||", 1}, {"*", 10}, {"/", 10}, {"+", 9},  {"-", 9},
                                   {"<", 7},  {">", 7},  {"&", 5},  {"^", 4},  {"|", 3}};

std::optional<int64_t> apply(std::string_view op, int64_t left, int64_t right) {
  uint64_t a = static_cast<uint64_t>(left), b = static_cast<uint64_t>(right);
  if (op == "*") return static_cast<int64_t>(a * b);
  if (op == "+") return static_cast<int64_t>(a + b);
  if (op == "-") return static_cast<int64_t>(a - b);
  if (op == "&") return left & right;
  if (op == "|") return left | right;
  if (op == "^") return left ^ right;
  if (op == "<<") return static_cast<int64_t>(b < 64 ? a << b : 0);
  if (op == ">>") return left >> (b < 64 ? b : 63);
  if (op == "<") return left < right;
  if (op == ">") return left > right;
  if (op == "<=") return left <= right;
  if (op == ">=") return left >= right;
  if (op == "==") return left == right;
  if (op == "!=") return left != right;
  if (op == "&&") return left && right;
  if (op == "||") return left || right;
  if (right == 0 || (right == -1 && left == INT64_MIN)) return std::nullopt;
  return left / right;
}

}  // namespace

std::optional<int64_t> DeclarationParser::binary(bool compares, int least, int depth) {
  auto left = unary(depth);
  while (left && lexer_.peek().kind == Tok::Punct) {
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
    if (!left) fail("division in a constant expression is out of range");
  }
  return left;
}

std::optional<int64_t> DeclarationParser::choice(bool compares, int depth) {
  auto condition = binary(compares, 1, depth);
  if (!condition || !lexer_.take('?')) return condition;
  auto yes = choice(compares, depth + 1);
  if (!yes) return yes;
  if (!lexer_.take(':')) {
    fail("expected ':'");
    return std::nullopt;
  }
  auto no = choice(compares, depth + 1);
  if (!no) return no;
  return *condition ? yes : no;
}

std::optional<int64_t> DeclarationParser::constant() { return choice(false, 0); }
std::optional<int64_t> DeclarationParser::expression() { return choice(true, 0); }

bool DeclarationParser::variable(Space space, VariableSyntax *out) {
  out->space = space;
  out->line = lexer_.peek().line;
  unsigned vector = 1;
  // Attributes and the type come in any order that compilers write.
  while (lexer_.peek().kind == Tok::Dot) {
    Token word = lexer_.next();
    if (word.text == "align") {
      auto value = constant();
      if (!value) return false;
      if (*value <= 0 || *value > (1 << 20) || (*value & (*value - 1)))
        return fail("alignment must be a power of two");
      out->align = static_cast<uint32_t>(*value);
    } else if (word.text == "v2" || word.text == "v4" || word.text == "v8") {
      vector = word.text[1] - '0';
    } else if (word.text == "ptr") {
      // .ptr .global .align N: advice on what a parameter points at
      while (lexer_.peek().kind == Tok::Dot) {
        if (lexer_.take_dot("align")) {
          if (!constant()) return false;
        } else if (space_from_name(lexer_.peek().text)) {
          lexer_.next();
        } else {
          break;
        }
      }
    } else if (word.text == "attribute") {
      if (!lexer_.take('(')) return fail("expected '(' after .attribute");
      for (int depth = 1; depth > 0;) {
        Token token = lexer_.next();
        if (token.kind == Tok::End) return fail("unfinished .attribute");
        if (token.dot("managed")) out->managed = true;
        if (token.is('(')) ++depth;
        if (token.is(')')) --depth;
      }
    } else if (word.text == "texref" || word.text == "surfref" || word.text == "samplerref") {
      out->type = Type::B64;
      out->opaque = word.text == "texref"    ? Opaque::Texture
                    : word.text == "surfref" ? Opaque::Surface
                                             : Opaque::Sampler;
    } else {
      Type type = type_from_name(word.text);
      if (type == Type::None) return fail("unknown type ." + std::string(word.text));
      out->type = type;
    }
  }
  if (out->type == Type::None) return fail("expected a type");
  if (!name(&out->name)) return false;
  uint64_t element = uint64_t{type_size(out->type)} * vector;
  if (element > out->align) out->align = static_cast<uint32_t>(element);
  uint64_t count = 1;
  while (lexer_.take('[')) {
    if (lexer_.take(']')) {
      out->unsized = true;
      continue;
    }
    auto value = constant();
    if (!value) return false;
    if (!lexer_.take(']')) return fail("expected ']'");
    if (*value < 0 || static_cast<uint64_t>(*value) > kMaxVariableBytes)
      return fail("array length out of range");
    count *= static_cast<uint64_t>(*value);
    if (count > kMaxVariableBytes) return fail("array length out of range");
  }
  out->size = out->unsized ? 0 : element * count;
  return true;
}

bool DeclarationParser::parameter_list(std::vector<VariableSyntax> *out) {
  if (!lexer_.take('(')) return fail("expected '('");
  if (lexer_.take(')')) return true;
  for (;;) {
    Token word = lexer_.next();
    Space space;
    if (word.dot("param"))
      space = Space::Param;
    else if (word.dot("reg"))
      space = Space::Register;
    else
      return fail("expected .param");
    if (out->size() >= kMaxParameters) return fail("too many parameters");
    VariableSyntax variable;
    if (!this->variable(space, &variable)) return false;
    out->push_back(variable);
    if (lexer_.take(')')) return true;
    if (!lexer_.take(',')) return fail("expected ',' or ')'");
  }
}

bool DeclarationParser::signature(Signature *out, std::string_view *name) {
  if (lexer_.peek().is('(') && !parameter_list(&out->results)) return false;
  if (!this->name(name)) return false;
  if (lexer_.peek().is('(')) return parameter_list(&out->parameters);
  return true;
}

}  // namespace softdev
