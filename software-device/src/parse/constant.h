// Constant expressions: of literals, WARP_SZ, C's operators and casts to .s64 and .u64. They are
// evaluated as ptxas does, with types: one unsigned operand makes an operator unsigned.
#pragma once

#include <optional>

#include "parse/lexer.h"
#include "parse/syntax.h"

namespace softdev {

struct ConstantValue {
  enum Kind : uint8_t { Signed, Unsigned, Single, Double } kind = Signed;
  uint64_t bits = 0;  // of a Single the lower 32

  bool is_integer() const { return kind <= Unsigned; }
};

class ConstantParser {
 public:
  ConstantParser(Lexer &lexer, ParseError &error) : lexer_(lexer), error_(error) {}

  // Of any type.
  std::optional<ConstantValue> expression() { return choice(true, 0); }
  // An integer, where '<' and '>' may mean something else behind it.
  std::optional<int64_t> integer();

 private:
  using Value = std::optional<ConstantValue>;
  Value fail(const char *message);
  Value primary(int depth);
  Value unary(int depth);
  Value binary(bool compares, int least, int depth);
  Value choice(bool compares, int depth);
  Value apply(std::string_view op, const ConstantValue &left, const ConstantValue &right);

  Lexer &lexer_;
  ParseError &error_;
};

// Sets the error, unless there is one, with what was found instead.
void set_error(ParseError &error, const Lexer &lexer, std::string message);

}  // namespace softdev
