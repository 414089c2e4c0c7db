// Tokens of PTX text, made one at a time. Never fails: what it does not know becomes Tok::Bad.
#pragma once

#include <cstdint>
#include <string_view>

namespace softdev {

enum class Tok : uint8_t {
  End,
  Word,     // identifiers, opcodes, registers: ld  %r1  $L_1  _Z3foo
  Dot,      // .u32  .shared::cta  (text without the dot)
  Integer,  // value
  Single,   // 0f3F800000: value holds the 32 bits
  Double,   // 0d... or decimal: value holds the 64 bits
  Punct,    // one character, in text
  String,   // text without the quotes
  Bad,
};

struct Token {
  Tok kind = Tok::End;
  std::string_view text;
  uint32_t line = 0;
  uint64_t value = 0;

  bool is(char c) const { return kind == Tok::Punct && text[0] == c; }
  bool dot(std::string_view name) const { return kind == Tok::Dot && text == name; }
  bool word(std::string_view name) const { return kind == Tok::Word && text == name; }
};

class Lexer {
 public:
  explicit Lexer(std::string_view text, uint32_t first_line = 1) : text_(text), line_(first_line) {
    advance();
  }
  const Token &peek() const { return token_; }
  Token next() {
    Token token = token_;
    advance();
    return token;
  }
  bool take(char c) {
    if (!token_.is(c)) return false;
    advance();
    return true;
  }
  bool take_dot(std::string_view name) {
    if (!token_.dot(name)) return false;
    advance();
    return true;
  }
  // Makes a number of ".5", which is read as a modifier.
  void take_fraction();
  // Where the token last peeked begins; where the one before it ended.
  size_t token_begin() const { return begin_; }
  size_t previous_end() const { return previous_end_; }
  std::string_view text() const { return text_; }
  void seek(size_t position, uint32_t line);

 private:
  void advance();
  void skip_blank();
  void number();
  size_t exponent_end(size_t at) const;
  void decimal(size_t end);

  std::string_view text_;
  size_t position_ = 0;
  size_t begin_ = 0;
  size_t previous_end_ = 0;
  uint32_t line_;
  Token token_;
};

// The offset just behind the brace that closes the one at `open`, or npos. Skips comments and
// strings. `lines`, when given, is increased by the line ends passed.
size_t skip_braces(std::string_view text, size_t open);

uint32_t count_lines(std::string_view text);

}  // namespace softdev
