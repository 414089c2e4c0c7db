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
    if (lexer_.peek().kind == Tok::Word && !lexer_.peek().word("WARP_SZ")) return symbol(~0ull);
    auto number = declarations_.expression();
    if (!number) return false;
    if (number->is_integer()) {
      if (lexer_.take('('))  // 0xff00(symbol)
        return masked(number->bits);
      if (variable_.type == Type::F32)
        return store(std::bit_cast<uint32_t>(static_cast<float>(signed_value(*number))));
      if (variable_.type == Type::F64)
        return store(std::bit_cast<uint64_t>(static_cast<double>(signed_value(*number))));
      return store(number->bits);
    }
    if (is_integer(variable_.type))
      return declarations_.fail("a floating-point constant where an integer belongs");
    // In 32 bits they are of single precision; 0f... are bits wherever they stand.
    if (element_ == 4 && number->kind == ConstantValue::Double)
      return store(
          std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(number->bits))));
    return store(number->bits);
  }

  static int64_t signed_value(const ConstantValue &value) {
    return static_cast<int64_t>(value.bits);
  }
  static bool is_integer(Type type) {
    switch (type) {
      case Type::U8:
      case Type::S8:
      case Type::U16:
      case Type::S16:
      case Type::U32:
      case Type::S32:
      case Type::U64:
      case Type::S64:
        return true;
      default:
        return false;
    }
  }

  // What is in the parentheses: one byte of an address.
  bool masked(uint64_t mask) {
    const int shift = std::countr_zero(mask) / 8 * 8;
    if (mask == 0 || mask >> shift != 0xff)
      return declarations_.fail("a mask must be one byte, as 0xff00");
    return symbol(mask) && (lexer_.take(')') || declarations_.fail("expected ')'"));
  }

  bool symbol(uint64_t mask) {
    if (mask == ~uint64_t{0} && element_ < 4)
      return declarations_.fail("an address needs 32 or 64 bits");
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
