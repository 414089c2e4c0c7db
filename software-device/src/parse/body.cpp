#include "parse/body.h"

#include <algorithm>

#include "parse/declaration.h"
#include "parse/lexer.h"
#include "parse/registers.h"

namespace softdev {
namespace {

constexpr size_t kMaxScopes = 1 << 20;
constexpr uint32_t kMaxScopeDepth = 256;
constexpr uint64_t kMaxRegisterRange = 1 << 21;

class BodyParser {
 public:
  BodyParser(std::string_view module, const FunctionSyntax &function, uint32_t first_line,
             BodySyntax *out, ParseError &error)
      : function_(function),
        lexer_(module.substr(0, function.body_end)),
        declarations_(lexer_, error),
        out_(out),
        error_(error),
        registers_(out) {
    lexer_.seek(function.body, first_line);
  }

  void run() {
    lexer_.take('{');
    out_->scope_parent.push_back(kNone);
    registers_.open_scope();
    scope_ = 0;
    declare_parameters();
    uint32_t depth = 0;
    while (!error_) {
      const Token &token = lexer_.peek();
      if (token.kind == Tok::End) {
        fail("the body has no end");
      } else if (token.is('{')) {
        if (++depth > kMaxScopeDepth || out_->scope_parent.size() > kMaxScopes) {
          fail("scopes nested too deeply");
          return;
        }
        lexer_.next();
        out_->scope_parent.push_back(scope_);
        registers_.open_scope();
        scope_ = static_cast<uint32_t>(out_->scope_parent.size() - 1);
      } else if (token.is('}')) {
        lexer_.next();
        if (depth-- == 0) return;
        registers_.close_scope(scope_);
        scope_ = out_->scope_parent[scope_];
      } else if (token.is(';')) {
        lexer_.next();
      } else if (token.kind == Tok::Dot) {
        directive();
      } else if (token.is('@')) {
        instruction();
      } else if (token.kind == Tok::Word) {
        word();
      } else {
        fail("expected an instruction");
      }
    }
  }

 private:
  bool fail(std::string message) { return declarations_.fail(std::move(message)); }

  void directive() {
    Token token = lexer_.next();
    if (token.text == "reg") {
      registers();
    } else if (auto space = space_from_name(token.text)) {
      if (*space == Space::Global || *space == Space::Constant) {
        fail("a variable of ." + std::string(token.text) + " inside a function is not supported");
        return;
      }
      do {
        VariableSyntax variable;
        if (!declarations_.variable(*space, &variable)) return;
        if (lexer_.take('=')) {
          fail("an initialiser inside a function is not supported");
          return;
        }
        out_->variables.push_back({variable, scope_});
      } while (lexer_.take(','));
      if (!lexer_.take(';')) fail("expected ';' after a variable");
    } else if (token.text == "loc" || token.text == "loc_intermediate") {
      // .loc file line column [, function_name label [+ n], inlined_at file line column]
      uint32_t line = token.line;
      while (lexer_.peek().kind != Tok::End && lexer_.peek().line == line &&
             !lexer_.peek().is('}') && !lexer_.peek().is(';'))
        lexer_.next();
    } else if (token.text == "pragma") {
      while (lexer_.peek().kind == Tok::String || lexer_.peek().is(',')) lexer_.next();
      if (!lexer_.take(';')) fail("expected ';' after .pragma");
    } else {
      fail("unknown directive ." + std::string(token.text) + " in a function");
    }
  }

  // Those that a function has as registers are the first ones.
  void declare_parameters() {
    for (const auto *variables : {&function_.signature.results, &function_.signature.parameters})
      for (const VariableSyntax &variable : *variables)
        if (variable.space == Space::Register)
          registers_.declare(0, variable.name, variable.type, 1, 0);
  }

  void registers() {
    Type type = Type::None;
    uint32_t elements = 1;
    while (lexer_.peek().kind == Tok::Dot) {
      const Token word = lexer_.next();
      if (word.text == "v2" || word.text == "v4") {
        elements = word.text[1] - '0';
      } else if (word.text == "align") {
        if (!declarations_.constant()) return;
      } else if (type = type_from_name(word.text); type == Type::None) {
        break;
      }
    }
    if (type == Type::None) {
      fail("expected the type of a register");
      return;
    }
    do {
      std::string_view name;
      if (!declarations_.name(&name)) return;
      uint32_t range = 0;
      if (lexer_.take('<')) {
        auto count = declarations_.constant();
        if (!count) return;
        if (*count < 0 || static_cast<uint64_t>(*count) > kMaxRegisterRange || !lexer_.take('>')) {
          fail("bad register count");
          return;
        }
        range = static_cast<uint32_t>(*count);
        if (range == 0) continue;
      }
      if (!registers_.declare(scope_, name, type, elements, range)) {
        fail("too many registers");
        return;
      }
    } while (lexer_.take(','));
    if (!lexer_.take(';')) fail("expected ';' after .reg");
  }

  // kNone when there is no such register, or it is a vector.
  uint32_t find_register(std::string_view name) const {
    const RegisterRef found = registers_.find(scope_, name);
    return found.elements == 1 ? found.first : kNone;
  }

  // A label, or an instruction that begins with a word.
  void word() {
    // Only a look ahead tells a label: save and restore.
    size_t begin = lexer_.token_begin();
    uint32_t line = lexer_.peek().line;
    Token name = lexer_.next();
    if (lexer_.take(':')) {
      if (lexer_.peek().kind == Tok::Dot && named_directive(name.text)) return;
      if (error_) return;
      out_->labels.push_back({name.text, scope_, static_cast<uint32_t>(out_->statements.size())});
      return;
    }
    lexer_.seek(begin, line);
    instruction();
  }

  // `name: .callprototype ...;` and its like; false when a label stands before a plain directive.
  bool named_directive(std::string_view name) {
    if (lexer_.take_dot("callprototype")) {
      ScopedPrototype prototype;
      prototype.name = name;
      std::string_view ignored;
      if (!declarations_.signature(&prototype.signature, &ignored)) return true;
      // .noreturn and .abi_preserve advice
      while (lexer_.peek().kind == Tok::Dot) {
        lexer_.next();
        if (lexer_.peek().kind == Tok::Integer) lexer_.next();
      }
      if (!lexer_.take(';')) fail("expected ';' after .callprototype");
      out_->prototypes.push_back(std::move(prototype));
      return true;
    }
    bool branch = lexer_.peek().dot("branchtargets");
    if (!branch && !lexer_.peek().dot("calltargets")) return false;
    lexer_.next();
    ScopedTargets targets;
    targets.name = name;
    targets.scope = scope_;
    do {
      std::string_view label;
      if (!declarations_.name(&label)) return true;
      targets.labels.push_back(label);
    } while (lexer_.take(','));
    if (!lexer_.take(';')) fail("expected ';' after the targets");
    (branch ? out_->targets : out_->call_targets).push_back(std::move(targets));
    return true;
  }

  void instruction() {
    StatementSyntax statement;
    statement.line = lexer_.peek().line;
    statement.text = lexer_.token_begin();
    if (lexer_.take('@')) {
      statement.guard_negated = lexer_.take('!');
      if (lexer_.peek().kind != Tok::Word) {
        fail("expected a predicate after '@'");
        return;
      }
      statement.guard = find_register(lexer_.peek().text);
      if (statement.guard == kNone) {
        fail("unknown predicate");
        return;
      }
      lexer_.next();
    }
    if (lexer_.peek().kind != Tok::Word) {
      fail("expected an instruction");
      return;
    }
    statement.opcode = lexer_.next().text;
    statement.first_modifier = static_cast<uint32_t>(out_->modifiers.size());
    while (lexer_.peek().kind == Tok::Dot) out_->modifiers.push_back(lexer_.next().text);
    statement.modifiers = static_cast<uint32_t>(out_->modifiers.size()) - statement.first_modifier;

    has_selectors_ = false;
    is_call_ = statement.opcode == "call";
    operands_.clear();  // lists inside put their elements straight into out_
    if (!lexer_.peek().is(';')) {
      do {
        if (operands_.size() == kMaxOperands) {
          fail("too many operands");
          return;
        }
        OperandSyntax parsed;
        if (!operand(&parsed, 0)) return;
        operands_.push_back(parsed);
      } while (lexer_.take(','));
    }
    statement.first_operand = static_cast<uint32_t>(out_->operands.size());
    statement.operands = static_cast<uint32_t>(operands_.size());
    statement.has_selectors = has_selectors_;
    out_->operands.insert(out_->operands.end(), operands_.begin(), operands_.end());
    if (!lexer_.take(';')) {
      fail("expected ';' or ',' in " + std::string(statement.opcode));
      return;
    }
    statement.text_length = static_cast<uint32_t>(lexer_.previous_end() - statement.text);
    out_->statements.push_back(statement);
  }

  bool operand(OperandSyntax *out, int depth) {
    out->scope = scope_;
    const Token &token = lexer_.peek();
    if (token.is('{')) return list(out, '}', depth);
    if (token.is('(') && is_call_) return list(out, ')', depth);  // else a constant expression
    if (token.is('[')) {
      if (depth > 2) return fail("addresses nested too deeply");
      return address(out, depth);
    }
    if (token.is('!')) {
      lexer_.next();
      if (depth > 2) return fail("too many '!'");
      if (!operand(out, depth + 1) || out->kind != OperandSyntax::Register)
        return fail("expected a predicate after '!'");
      out->negated = !out->negated;
      return true;
    }
    if (token.is('-')) {
      // -%r1, or a constant
      size_t begin = lexer_.token_begin();
      uint32_t line = token.line;
      lexer_.next();
      if (lexer_.peek().kind == Tok::Word && !lexer_.peek().word("WARP_SZ")) {
        out->minus = true;
        has_selectors_ = true;
        return named(out);
      }
      lexer_.seek(begin, line);
    } else if (token.kind == Tok::Word && !token.word("WARP_SZ")) {
      return named(out);
    }
    auto value = declarations_.expression();
    if (!value) return false;
    out->kind = value->is_integer()                    ? OperandSyntax::Integer
                : value->kind == ConstantValue::Single ? OperandSyntax::Single
                                                       : OperandSyntax::Double;
    out->bits = value->bits;
    return true;
  }

  bool list(OperandSyntax *out, char close, int depth) {
    if (depth > 2) return fail("lists nested too deeply");
    lexer_.next();
    std::vector<OperandSyntax> elements;
    if (!lexer_.take(close)) {
      do {
        if (elements.size() == kMaxOperands) return fail("too many elements");
        elements.emplace_back();
        if (!operand(&elements.back(), depth + 1)) return false;
      } while (lexer_.take(','));
      if (!lexer_.take(close)) return fail("expected the end of a list");
    }
    out->kind = OperandSyntax::List;
    out->first = static_cast<uint32_t>(out_->operands.size());
    out->count = static_cast<uint32_t>(elements.size());
    out_->operands.insert(out_->operands.end(), elements.begin(), elements.end());
    if (!lexer_.take('|')) return true;
    Token second = lexer_.next();
    if (second.kind != Tok::Word) return fail("expected a predicate after '|'");
    if (second.text == "_") return true;
    out->pair = find_register(second.text);
    return out->pair != kNone || fail("unknown register " + std::string(second.text));
  }

  bool address(OperandSyntax *out, int depth) {
    lexer_.next();
    out->kind = OperandSyntax::Address;
    if (lexer_.peek().kind == Tok::Word) {
      std::string_view name = lexer_.peek().text;
      out->reg = find_register(name);
      if (out->reg == kNone) out->name = name;
      lexer_.next();
      if (lexer_.peek().is('+') || lexer_.peek().is('-')) {
        auto offset = declarations_.constant();
        if (!offset) return false;
        out->offset = *offset;
      }
    } else {
      auto offset = declarations_.constant();
      if (!offset) return false;
      out->offset = *offset;
    }
    std::vector<OperandSyntax> elements;
    while (lexer_.take(',')) {
      if (elements.size() == kMaxOperands) return fail("too many elements");
      elements.emplace_back();
      if (!operand(&elements.back(), depth + 1)) return false;
    }
    out->first = static_cast<uint32_t>(out_->operands.size());
    out->count = static_cast<uint32_t>(elements.size());
    out_->operands.insert(out_->operands.end(), elements.begin(), elements.end());
    return lexer_.take(']') || fail("expected ']'");
  }

  // What follows the '|' of  p|q.
  bool second_register(OperandSyntax *out) {
    if (lexer_.peek().kind != Tok::Word) return fail("expected a register after '|'");
    Token second = lexer_.next();
    if (second.text == "_") return true;
    out->pair = find_register(second.text);
    return out->pair != kNone || fail("unknown register " + std::string(second.text));
  }

  bool named(OperandSyntax *out) {
    Token token = lexer_.next();
    if (token.text == "_") {
      out->kind = OperandSyntax::Sink;
      return !lexer_.take('|') || second_register(out);
    }
    if (const RegisterRef found = registers_.find(scope_, token.text)) {
      if (found.elements > 1) return vector(found, out);
      out->kind = OperandSyntax::Register;
      out->reg = found.first;
      if (lexer_.peek().kind == Tok::Dot) {
        out->selector = lexer_.next().text;
        has_selectors_ = true;
      }
      return !lexer_.take('|') || second_register(out);
    }
    out->name = token.text;
    if (token.text[0] == '%') {
      out->kind = OperandSyntax::Special;
      if (lexer_.peek().kind == Tok::Dot) out->selector = lexer_.next().text;
      return true;
    }
    out->kind = OperandSyntax::Symbol;
    if (token.text == "generic" && lexer_.take('(')) {
      if (!declarations_.name(&out->name) || !lexer_.take(')'))
        return fail("expected generic(symbol)");
    }
    if (lexer_.take('[')) return element(out);
    if (lexer_.peek().is('+') || lexer_.peek().is('-')) {
      auto offset = declarations_.constant();
      if (!offset) return false;
      out->offset = *offset;
    }
    return true;
  }

  // Of  name[5], name[%r1] or name[%r1+5]  what follows the bracket.
  bool element(OperandSyntax *out) {
    out->indexed = true;
    bool constant = true;
    if (lexer_.peek().kind == Tok::Word && !lexer_.peek().word("WARP_SZ")) {
      out->reg = find_register(lexer_.peek().text);
      if (out->reg == kNone) return fail("expected a register or a constant");
      lexer_.next();
      constant = lexer_.peek().is('+') || lexer_.peek().is('-');
    }
    if (constant) {
      auto offset = declarations_.constant();
      if (!offset) return false;
      out->offset = *offset;
    }
    return lexer_.take(']') || fail("expected ']'");
  }

  // A register of  .reg .v4 .f32 v : v.x is one, v alone is as {v.x, v.y, v.z, v.w}.
  bool vector(const RegisterRef &found, OperandSyntax *out) {
    if (lexer_.peek().kind == Tok::Dot) {
      const std::string_view part = lexer_.next().text;
      const size_t at = part.size() == 1 ? std::min(std::string_view("xyzw").find(part),
                                                    std::string_view("rgba").find(part))
                                         : std::string_view::npos;
      if (at >= found.elements) return fail("a vector has no part '" + std::string(part) + "'");
      out->kind = OperandSyntax::Register;
      out->reg = found.first + static_cast<uint32_t>(at);
      return true;
    }
    out->kind = OperandSyntax::List;
    out->first = static_cast<uint32_t>(out_->operands.size());
    out->count = found.elements;
    for (uint32_t i = 0; i < found.elements; ++i) {
      OperandSyntax part;
      part.kind = OperandSyntax::Register;
      part.scope = scope_;
      part.reg = found.first + i;
      out_->operands.push_back(part);
    }
    return true;
  }

  static constexpr size_t kMaxOperands = 256;

  const FunctionSyntax &function_;
  Lexer lexer_;
  DeclarationParser declarations_;
  BodySyntax *out_;
  ParseError &error_;
  RegisterNames registers_;
  std::vector<OperandSyntax> operands_;
  uint32_t scope_ = 0;
  bool is_call_ = false;
  bool has_selectors_ = false;  // of the current instruction
};

}  // namespace

ParseError parse_body(std::string_view module, const FunctionSyntax &function, uint32_t first_line,
                      BodySyntax *out) {
  ParseError error;
  BodyParser parser(module, function, first_line, out, error);
  parser.run();
  return error;
}

}  // namespace softdev
