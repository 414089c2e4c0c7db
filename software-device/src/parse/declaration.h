// Declarations of variables, parameters and signatures: shared by the module index and by the
// body parser.
#pragma once

#include <optional>

#include "parse/constant.h"

namespace softdev {

class DeclarationParser {
 public:
  DeclarationParser(Lexer &lexer, ParseError &error)
      : lexer_(lexer), error_(error), constants_(lexer, error) {}

  // Behind `.global`, `.param` and so on, up to and without the ';' or ',' that ends it.
  // Returns false and sets the error when it is not a declaration.
  bool variable(Space space, VariableSyntax *out);
  // `(.param ...) name (.param ...)`; `name` is empty for '_'.
  bool signature(Signature *out, std::string_view *name);
  // `( .param ..., ... )`
  bool parameter_list(std::vector<VariableSyntax> *out);
  // An integer constant expression, where '<' and '>' may mean something else behind it.
  std::optional<int64_t> constant() { return constants_.integer(); }
  std::optional<ConstantValue> expression() { return constants_.expression(); }

  bool fail(std::string message);
  // An identifier, which may begin with a word character only.
  bool name(std::string_view *out);

 private:
  Lexer &lexer_;
  ParseError &error_;
  ConstantParser constants_;
};

std::optional<Space> space_from_name(std::string_view name);

}  // namespace softdev
