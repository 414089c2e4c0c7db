#include "parse/declaration.h"

namespace softdev {
namespace {
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
  set_error(error_, lexer_, std::move(message));
  return false;
}

bool DeclarationParser::name(std::string_view *out) {
  if (lexer_.peek().kind != Tok::Word) return fail("expected a name");
  *out = lexer_.next().text;
  return true;
}

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
