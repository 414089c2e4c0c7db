#include "parse/index.h"

#include "parse/declaration.h"
#include "parse/lexer.h"

namespace softdev {
namespace {

class Indexer {
 public:
  Indexer(std::string_view text, ModuleSyntax *out, ParseError &error)
      : text_(text), lexer_(text), declarations_(lexer_, error), out_(out), error_(error) {}

  void run() {
    while (!error_ && lexer_.peek().kind != Tok::End) item();
    // Bodies were skipped without counting their lines.
    if (error_) error_.line = 1 + count_lines(text_.substr(0, lexer_.token_begin()));
  }

 private:
  bool fail(std::string message) { return declarations_.fail(std::move(message)); }

  void item() {
    Token token = lexer_.next();
    if (token.kind == Tok::Punct && (token.is(';') || token.is('@'))) return skip_statement(token);
    if (token.kind != Tok::Dot) {
      fail("expected a directive before this");
      return;
    }
    bool is_extern = false, weak = false;
    size_t header = lexer_.previous_end();
    while (token.text == "visible" || token.text == "extern" || token.text == "weak" ||
           token.text == "common") {
      is_extern |= token.text == "extern";
      weak |= token.text == "weak" || token.text == "common";
      token = lexer_.next();
      if (token.kind != Tok::Dot) {
        fail("expected a directive after the linkage");
        return;
      }
    }
    if (token.text == "version") {
      version();
    } else if (token.text == "target") {
      target();
    } else if (token.text == "address_size") {
      Token size = lexer_.next();
      if (size.value != 64) fail("only .address_size 64 is supported");
    } else if (token.text == "entry" || token.text == "func") {
      function(token.text == "entry", is_extern, weak, header);
    } else if (token.text == "section") {
      section();
    } else if (token.text == "file" || token.text == "loc") {
      skip_line_directive();
    } else if (token.text == "pragma" || token.text == "alias") {
      alias_or_pragma(token.text == "alias");
    } else if (auto space = space_from_name(token.text); space && *space != Space::Register) {
      variables(*space, is_extern, weak);
    } else if (token.text == "tex") {
      variables(Space::Global, is_extern, weak);
    } else {
      fail("unknown directive ." + std::string(token.text));
    }
  }

  void version() {
    // "9.0" is one decimal token.
    Token token = lexer_.next();
    int major = 0, minor = 0;
    size_t dot = token.text.find('.');
    auto number = [](std::string_view digits) {
      int value = 0;
      for (char c : digits.substr(0, 4)) value = value * 10 + (c - '0');
      return value;
    };
    if (dot == std::string_view::npos ||
        token.text.find_first_not_of("0123456789.") != std::string_view::npos) {
      fail(".version must be followed by major.minor");
      return;
    }
    major = number(token.text.substr(0, dot));
    minor = number(token.text.substr(dot + 1));
    out_->version = major * 10 + minor;
  }

  void target() {
    for (;;) {
      Token token = lexer_.next();
      if (token.kind != Tok::Word) {
        fail(".target must name an architecture");
        return;
      }
      if (token.text.substr(0, 3) == "sm_") {
        int value = 0;
        size_t at = 3;
        for (; at < token.text.size() && at < 7 && token.text[at] >= '0' && token.text[at] <= '9';
             ++at)
          value = value * 10 + (token.text[at] - '0');
        out_->target = value;
        out_->target_portable = at == token.text.size();
      }
      if (!lexer_.take(',')) return;
    }
  }

  void function(bool entry, bool is_extern, bool weak, size_t header) {
    FunctionSyntax function;
    function.entry = entry;
    function.is_extern = is_extern;
    function.weak = weak;
    function.header = header;
    if (!declarations_.signature(&function.signature, &function.name)) return;
    while (lexer_.peek().kind == Tok::Dot)
      if (!function_directive(&function)) return;
    if (lexer_.take(';')) return declare(std::move(function));
    if (!lexer_.peek().is('{')) {
      fail("expected the body of a function or ';'");
      return;
    }
    function.body = lexer_.token_begin();
    size_t end = skip_braces(text_, function.body);
    if (end == std::string_view::npos) {
      fail("the body of " + std::string(function.name) + " has no end");
      return;
    }
    function.body_end = end;
    // Lines are not counted inside bodies here: the parser of a body counts up to it.
    lexer_.seek(end, lexer_.peek().line);
    declare(std::move(function));
  }

  bool three(uint32_t *out) {
    for (int i = 0; i < 3; ++i) {
      auto value = declarations_.constant();
      if (!value) return false;
      out[i] = static_cast<uint32_t>(*value);
      if (!lexer_.take(',')) {
        for (int j = i + 1; j < 3; ++j) out[j] = 1;
        return true;
      }
    }
    return true;
  }

  bool function_directive(FunctionSyntax *function) {
    Token token = lexer_.next();
    if (token.text == "maxntid") return three(function->max_threads);
    if (token.text == "reqntid") return three(function->required_threads);
    if (token.text == "noreturn") return function->noreturn = true;
    if (token.text == "maxnreg") {
      auto value = declarations_.constant();
      if (value) function->max_registers = static_cast<uint32_t>(*value);
      return value.has_value();
    }
    if (token.text == "minnctapersm" || token.text == "maxnctapersm")
      return declarations_.constant().has_value();
    if (token.text == "maxclusterrank") {
      auto value = declarations_.constant();
      if (value) function->max_cluster_blocks = static_cast<uint32_t>(*value);
      return value.has_value();
    }
    if (token.text == "reqnctapercluster") return three(function->cluster);
    if (token.text == "explicitcluster") return function->explicit_cluster = true;
    if (token.text == "blocksareclusters" || token.text == "unique") return true;
    if (token.text == "abi_preserve" || token.text == "abi_preserve_control")  // advice
      return declarations_.constant().has_value();
    if (token.text == "attribute") {
      while (lexer_.peek().kind != Tok::End)
        if (lexer_.next().is(')')) return true;
      return fail("unfinished .attribute");
    }
    if (token.text == "pragma") {
      while (lexer_.peek().kind == Tok::String) lexer_.next();
      return lexer_.take(';') || fail("expected ';' after .pragma");
    }
    return fail("unknown directive ." + std::string(token.text) + " of a function");
  }

  void declare(FunctionSyntax function) {
    auto [at, fresh] = out_->function_by_name.try_emplace(
        function.name, static_cast<uint32_t>(out_->functions.size()));
    if (fresh) {
      out_->functions.push_back(std::move(function));
      return;
    }
    FunctionSyntax &known = out_->functions[at->second];
    if (!function.body) return;
    if (known.body) {
      fail("function " + std::string(function.name) + " is defined twice");
      return;
    }
    known = std::move(function);
  }

  void variables(Space space, bool is_extern, bool weak) {
    do {
      VariableSyntax variable;
      variable.is_extern = is_extern;
      variable.weak = weak;
      if (!declarations_.variable(space, &variable)) return;
      if (lexer_.take('=')) {
        variable.initialiser = lexer_.token_begin();
        skip_initialiser();
        variable.initialiser_end = lexer_.previous_end();
        if (error_) return;
      }
      auto [at, fresh] = out_->variable_by_name.try_emplace(
          variable.name, static_cast<uint32_t>(out_->variables.size()));
      if (fresh) {
        out_->variables.push_back(variable);
      } else if (out_->variables[at->second].is_extern && !is_extern) {
        out_->variables[at->second] = variable;
      }
    } while (lexer_.take(','));
    if (!lexer_.take(';')) fail("expected ';' after a variable");
  }

  // Up to the ';' or the ',' of a next variable, neither of which is taken.
  void skip_initialiser() {
    if (lexer_.peek().is('{')) {
      size_t end = skip_braces(text_, lexer_.token_begin());
      if (end == std::string_view::npos) {
        fail("an initialiser has no end");
        return;
      }
      lexer_.seek(end, lexer_.peek().line);
      return;
    }
    while (lexer_.peek().kind != Tok::End && !lexer_.peek().is(';') && !lexer_.peek().is(','))
      lexer_.next();
  }

  void section() {
    while (lexer_.peek().kind != Tok::End && !lexer_.peek().is('{')) lexer_.next();
    size_t end =
        lexer_.peek().is('{') ? skip_braces(text_, lexer_.token_begin()) : std::string_view::npos;
    if (end == std::string_view::npos) {
      fail("a .section has no end");
      return;
    }
    lexer_.seek(end, lexer_.peek().line);
  }

  // .file 1 "name" [, time, size]  has no terminator.
  void skip_line_directive() {
    while (lexer_.peek().kind == Tok::Integer || lexer_.peek().kind == Tok::String ||
           lexer_.peek().is(','))
      lexer_.next();
  }

  void alias_or_pragma(bool alias) {
    if (!alias) {
      while (lexer_.peek().kind != Tok::End && !lexer_.take(';')) lexer_.next();
      return;
    }
    std::string_view name, target;
    if (!declarations_.name(&name)) return;
    if (!lexer_.take(',')) {
      fail("expected ',' in .alias");
      return;
    }
    if (!declarations_.name(&target)) return;
    if (!lexer_.take(';')) {
      fail("expected ';' after .alias");
      return;
    }
    auto found = out_->function_by_name.find(target);
    if (found == out_->function_by_name.end()) {
      fail(".alias of an unknown function " + std::string(target));
      return;
    }
    out_->function_by_name[name] = found->second;
  }

  void skip_statement(const Token &first) {
    if (first.is(';')) return;
    // @@DWARF lines of old compilers
    uint32_t line = first.line;
    while (lexer_.peek().kind != Tok::End && lexer_.peek().line == line) lexer_.next();
  }

  std::string_view text_;
  Lexer lexer_;
  DeclarationParser declarations_;
  ModuleSyntax *out_;
  ParseError &error_;
};

}  // namespace

ParseError index_module(std::string_view text, ModuleSyntax *out) {
  ParseError error;
  Indexer indexer(text, out, error);
  indexer.run();
  if (!error && out->version == 0) error.message = "the text has no .version: it is not PTX";
  if (!error && out->target == 0) error.message = "the text has no .target with an architecture";
  return error;
}

}  // namespace softdev
