#include <bit>
#include <cstring>

#include "parse/declaration.h"
#include "parse/index.h"

namespace softdev {
namespace {

class InitialiserReader {
 public:
  InitialiserReader(std::string_view text, const VariableSyntax &variable, uint8_t *image,
                    std::vector<Relocation> *relocations, ParseError &error)
      : lexer_(text.substr(variable.initialiser, variable.initialiser_end - variable.initialiser),
               variable.line),
        declarations_(lexer_, error),
        variable_(variable),
        element_(type_size(variable.type)),
        image_(image),
        relocations_(relocations) {}

  bool run() {
    if (element_ == 0 || element_ > 8) return declarations_.fail("this type has no initialiser");
    if (!lexer_.peek().is('{')) return value();
    // Nested braces follow the dimensions of an array; compilers write them flat or full, so the
    // order of the values alone decides.
    size_t depth = 0;
    for (;;) {
      if (lexer_.take('{')) {
        ++depth;
      } else if (lexer_.take('}')) {
        if (--depth == 0) return true;
      } else if (lexer_.take(',')) {
      } else if (!value()) {
        return false;
      }
    }
  }

 private:
  bool value() {
    if (at_ + element_ > variable_.size)
      return declarations_.fail("too many values for " + std::string(variable_.name));
    Token token = lexer_.peek();
    bool negative = false;
    uint64_t bits = 0;
    if (token.is('-')) {
      // -1.5; of integers the expression takes care
      size_t begin = lexer_.token_begin();
      uint32_t line = token.line;
      lexer_.next();
      token = lexer_.peek();
      negative = token.kind == Tok::Single || token.kind == Tok::Double;
      if (!negative) lexer_.seek(begin, line);
    }
    if (token.kind == Tok::Single || token.kind == Tok::Double) {
      lexer_.next();
      double number = token.kind == Tok::Single
                          ? std::bit_cast<float>(static_cast<uint32_t>(token.value))
                          : std::bit_cast<double>(token.value);
      if (variable_.type == Type::F32) {
        bits = token.kind == Tok::Single ? token.value
                                         : std::bit_cast<uint32_t>(static_cast<float>(number));
        if (negative) bits ^= 0x80000000u;
      } else if (variable_.type == Type::F64) {
        bits = std::bit_cast<uint64_t>(number);
        if (negative) bits ^= uint64_t{1} << 63;
      } else {
        bits = token.value;
      }
      return store(bits);
    }
    if (token.kind == Tok::Word) return symbol(~0ull);
    auto number = declarations_.expression();
    if (!number) return false;
    if (lexer_.peek().is('(')) {  // 0xff00(symbol)
      lexer_.next();
      return symbol(static_cast<uint64_t>(*number)) &&
             (lexer_.take(')') || declarations_.fail("expected ')'"));
    }
    if (variable_.type == Type::F32)
      return store(std::bit_cast<uint32_t>(static_cast<float>(*number)));
    if (variable_.type == Type::F64)
      return store(std::bit_cast<uint64_t>(static_cast<double>(*number)));
    return store(static_cast<uint64_t>(*number));
  }

  bool symbol(uint64_t mask) {
    Relocation relocation;
    relocation.at = at_;
    relocation.size = element_;
    relocation.mask = mask;
    if (lexer_.peek().word("generic")) {
      lexer_.next();
      relocation.generic = true;
      if (!lexer_.take('(') || !declarations_.name(&relocation.symbol) || !lexer_.take(')'))
        return declarations_.fail("expected generic(symbol)");
    } else if (!declarations_.name(&relocation.symbol)) {
      return false;
    }
    if (lexer_.peek().is('+') || lexer_.peek().is('-')) {
      auto addend = declarations_.constant();
      if (!addend) return false;
      relocation.addend = *addend;
    }
    relocations_->push_back(relocation);
    at_ += element_;
    return true;
  }

  bool store(uint64_t bits) {
    std::memcpy(image_ + at_, &bits, element_);  // little endian, low bytes
    at_ += element_;
    return true;
  }

  Lexer lexer_;
  DeclarationParser declarations_;
  const VariableSyntax &variable_;
  uint32_t element_;
  uint8_t *image_;
  std::vector<Relocation> *relocations_;
  uint64_t at_ = 0;
};

}  // namespace

ParseError read_initialiser(std::string_view text, const VariableSyntax &variable, uint8_t *image,
                            std::vector<Relocation> *relocations) {
  ParseError error;
  InitialiserReader reader(text, variable, image, relocations, error);
  reader.run();
  if (error) error.line = 1 + count_lines(text.substr(0, variable.initialiser));
  return error;
}

}  // namespace softdev
