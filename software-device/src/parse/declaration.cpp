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

std::optional<int64_t> DeclarationParser::primary(int depth) {
  if (depth > kMaxExpressionDepth) {
    fail("constant expression nested too deeply");
    return std::nullopt;
  }
  if (lexer_.take('-')) {
    auto value = primary(depth + 1);
    if (value) value = static_cast<int64_t>(0 - static_cast<uint64_t>(*value));
    return value;
  }
  if (lexer_.take('+')) return primary(depth + 1);
  if (lexer_.take('~')) {
    auto value = primary(depth + 1);
    if (value) value = ~*value;
    return value;
  }
  if (lexer_.take('(')) {
    auto value = constant(0, depth + 1);
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

std::optional<int64_t> DeclarationParser::constant(int min_precedence, int depth) {
  auto left = primary(depth);
  while (left && lexer_.peek().kind == Tok::Punct) {
    char op = lexer_.peek().text[0];
    int precedence = op == '*' || op == '/' ? 3 : op == '+' || op == '-' ? 2 : op == '&' ? 1 : 0;
    if (op == '|') precedence = 1;
    if (precedence == 0 || precedence <= min_precedence) break;
    lexer_.next();
    auto right = constant(precedence, depth + 1);
    if (!right) return right;
    uint64_t a = *left, b = *right;
    switch (op) {
      case '*':
        left = static_cast<int64_t>(a * b);
        break;
      case '/':
        if (b == 0 || (b == ~uint64_t{0} && *left == INT64_MIN)) {
          fail("division in a constant expression is out of range");
          return std::nullopt;
        }
        left = *left / *right;
        break;
      case '+':
        left = static_cast<int64_t>(a + b);
        break;
      case '-':
        left = static_cast<int64_t>(a - b);
        break;
      case '&':
        left = static_cast<int64_t>(a & b);
        break;
      default:
        left = static_cast<int64_t>(a | b);
        break;
    }
  }
  return left;
}

std::optional<int64_t> DeclarationParser::constant() { return constant(0, 0); }

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
