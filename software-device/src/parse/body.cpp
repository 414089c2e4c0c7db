#include "parse/body.h"

#include "parse/declaration.h"
#include "parse/lexer.h"

namespace softdev {
namespace {

constexpr size_t kMaxScopes = 1 << 20;
constexpr size_t kMaxRegisters = 1 << 22;
constexpr uint32_t kMaxScopeDepth = 256;
constexpr uint64_t kMaxRegisterRange = 1 << 21;

struct RegisterName {
  uint32_t first = 0;
  uint32_t count = 0;  // 0: the name itself is a register; else %r<count>
};

class BodyParser {
 public:
  BodyParser(std::string_view module, const FunctionSyntax &function, uint32_t first_line,
             BodySyntax *out, ParseError &error)
      : lexer_(module.substr(0, function.body_end)),
        declarations_(lexer_, error),
        out_(out),
        error_(error) {
    lexer_.seek(function.body, first_line);
  }

  void run() {
    lexer_.take('{');
    out_->scope_parent.push_back(kNone);
    names_.emplace_back();
    scope_ = 0;
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
        names_.emplace_back();
        scope_ = static_cast<uint32_t>(out_->scope_parent.size() - 1);
      } else if (token.is('}')) {
        lexer_.next();
        if (depth-- == 0) return;
        names_[scope_] = {};
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
    } else if (token.text == "loc") {
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

  void registers() {
    Token word = lexer_.next();
    Type type = word.kind == Tok::Dot ? type_from_name(word.text) : Type::None;
    if (type == Type::None) {
      fail("expected the type of a register");
      return;
    }
    do {
      std::string_view name;
      if (!declarations_.name(&name)) return;
      RegisterName entry;
      entry.first = static_cast<uint32_t>(out_->registers.size());
      if (lexer_.take('<')) {
        auto count = declarations_.constant();
        if (!count) return;
        if (*count < 0 || static_cast<uint64_t>(*count) > kMaxRegisterRange || !lexer_.take('>')) {
          fail("bad register count");
          return;
        }
        entry.count = static_cast<uint32_t>(*count);
        if (entry.count == 0) continue;
      }
      size_t total = out_->registers.size() + (entry.count ? entry.count : 1);
      if (total > kMaxRegisters) {
        fail("too many registers");
        return;
      }
      out_->registers.resize(total, type);
      names_[scope_][name] = entry;
    } while (lexer_.take(','));
    if (!lexer_.take(';')) fail("expected ';' after .reg");
  }

  // kNone when there is no such register.
  uint32_t find_register(std::string_view name) const {
    size_t digits = name.size();
    while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
    // %r01 is not %r1
    bool numbered = digits < name.size() && name.size() - digits <= 9 &&
                    (name[digits] != '0' || digits + 1 == name.size());
    std::string_view prefix = name.substr(0, digits);
    uint32_t number = 0;
    if (numbered)
      for (char c : name.substr(digits)) number = number * 10 + static_cast<uint32_t>(c - '0');
    for (uint32_t scope = scope_; scope != kNone; scope = out_->scope_parent[scope]) {
      const auto &names = names_[scope];
      if (names.empty()) continue;
      auto whole = names.find(name);
      if (whole != names.end() && whole->second.count == 0) return whole->second.first;
      if (!numbered) continue;
      auto range = names.find(prefix);
      if (range != names.end() && number < range->second.count) return range->second.first + number;
    }
    return kNone;
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
    if (token.kind == Tok::Single || token.kind == Tok::Double) {
      out->kind = token.kind == Tok::Single ? OperandSyntax::Single : OperandSyntax::Double;
      out->bits = lexer_.next().value;
      return true;
    }
    if (token.is('-')) {
      // -1.0 in decimal, or an integer
      size_t begin = lexer_.token_begin();
      uint32_t line = token.line;
      lexer_.next();
      if (lexer_.peek().kind == Tok::Double) {
        out->kind = OperandSyntax::Double;
        out->bits = lexer_.next().value ^ (uint64_t{1} << 63);
        return true;
      }
      if (lexer_.peek().kind == Tok::Single) {
        out->kind = OperandSyntax::Single;
        out->bits = lexer_.next().value ^ 0x80000000u;
        return true;
      }
      if (lexer_.peek().kind == Tok::Word) {
        out->minus = true;
        has_selectors_ = true;
        return named(out);
      }
      lexer_.seek(begin, line);
    }
    if (token.kind == Tok::Word) return named(out);
    auto value = declarations_.expression();
    if (!value) return false;
    out->kind = OperandSyntax::Integer;
    out->bits = static_cast<uint64_t>(*value);
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
    uint32_t reg = find_register(token.text);
    if (reg != kNone) {
      out->kind = OperandSyntax::Register;
      out->reg = reg;
      if (lexer_.peek().kind == Tok::Dot && lexer_.previous_end() == lexer_.token_begin()) {
        out->name = lexer_.next().text;
        has_selectors_ = true;
      }
      return !lexer_.take('|') || second_register(out);
    }
    if (token.text[0] == '%' || token.text == "WARP_SZ") {
      out->kind = OperandSyntax::Special;
      size_t begin = static_cast<size_t>(token.text.data() - lexer_.text().data());
      if (lexer_.peek().kind == Tok::Dot && lexer_.previous_end() == lexer_.token_begin())
        lexer_.next();
      out->name = lexer_.text().substr(begin, lexer_.previous_end() - begin);
      return true;
    }
    out->kind = OperandSyntax::Symbol;
    out->name = token.text;
    if (token.text == "generic" && lexer_.take('(')) {
      if (!declarations_.name(&out->name) || !lexer_.take(')'))
        return fail("expected generic(symbol)");
    }
    if (lexer_.peek().is('+') || lexer_.peek().is('-')) {
      auto offset = declarations_.constant();
      if (!offset) return false;
      out->offset = *offset;
    }
    return true;
  }

  static constexpr size_t kMaxOperands = 256;

  Lexer lexer_;
  DeclarationParser declarations_;
  BodySyntax *out_;
  ParseError &error_;
  std::vector<OperandSyntax> operands_;
  std::vector<std::unordered_map<std::string_view, RegisterName>> names_;  // by scope
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
