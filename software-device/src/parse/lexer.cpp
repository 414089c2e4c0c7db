#include "parse/lexer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace softdev {
namespace {

enum : uint8_t { kWord = 1, kDigit = 2, kBlank = 4, kSpecialInBody = 8 };

constexpr std::array<uint8_t, 256> make_classes() {
  std::array<uint8_t, 256> classes{};
  for (int c = 'a'; c <= 'z'; ++c) classes[c] = kWord;
  for (int c = 'A'; c <= 'Z'; ++c) classes[c] = kWord;
  classes['_'] = classes['$'] = kWord;
  for (int c = '0'; c <= '9'; ++c) classes[c] = kWord | kDigit;
  for (char c : {' ', '\t', '\r', '\n', '\f', '\v'}) classes[static_cast<uint8_t>(c)] = kBlank;
  for (char c : {'{', '}', '/', '"'}) classes[static_cast<uint8_t>(c)] |= kSpecialInBody;
  return classes;
}
constexpr std::array<uint8_t, 256> kClasses = make_classes();

uint8_t class_of(char c) { return kClasses[static_cast<uint8_t>(c)]; }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The end of a comment that begins at `at`, or `at` when there is none.
size_t skip_comment(std::string_view text, size_t at) {
  if (text.substr(at, 2) == "//") {
    size_t end = text.find('\n', at);
    return end == std::string_view::npos ? text.size() : end;
  }
  if (text.substr(at, 2) == "/*") {
    size_t end = text.find("*/", at + 2);
    return end == std::string_view::npos ? text.size() : end + 2;
  }
  return at;
}

// The end of a preprocessor's line that begins at `at`, [#line 5 "file"] or [# 5 "file"], or `at`
// when there is none.
size_t skip_line_marker(std::string_view text, size_t at) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  for (size_t before = at; before > 0 && text[before - 1] != '\n';)
    if (!blank(text[--before])) return at;
  size_t end = at + 1;
  const auto skip_blanks = [&] {
    while (end < text.size() && blank(text[end])) ++end;
  };
  skip_blanks();
  if (text.substr(end, 4) == "line") end += 4;
  skip_blanks();
  if (end == text.size() || !(class_of(text[end]) & kDigit)) return at;
  while (end < text.size() && (class_of(text[end]) & kDigit)) ++end;
  skip_blanks();
  if (end == text.size() || text[end] != '"') return at;
  return std::min(text.find('\n', end), text.size());
}

}  // namespace

uint32_t count_lines(std::string_view text) {
  uint32_t lines = 0;
  for (size_t at = 0; (at = text.find('\n', at)) != std::string_view::npos; ++at) ++lines;
  return lines;
}

// The next brace, slash or quotation mark at or behind `at`; the end when there is none.
static size_t find_special(std::string_view text, size_t at) {
#ifdef __SSE2__
  const __m128i open = _mm_set1_epi8('{'), close = _mm_set1_epi8('}');
  const __m128i slash = _mm_set1_epi8('/'), quote = _mm_set1_epi8('"');
  for (; at + 16 <= text.size(); at += 16) {
    const __m128i some = _mm_loadu_si128(reinterpret_cast<const __m128i *>(text.data() + at));
    const __m128i braces = _mm_or_si128(_mm_cmpeq_epi8(some, open), _mm_cmpeq_epi8(some, close));
    const __m128i others = _mm_or_si128(_mm_cmpeq_epi8(some, slash), _mm_cmpeq_epi8(some, quote));
    const int found = _mm_movemask_epi8(_mm_or_si128(braces, others));
    if (found) return at + static_cast<size_t>(__builtin_ctz(static_cast<unsigned>(found)));
  }
#endif
  while (at < text.size() && !(class_of(text[at]) & kSpecialInBody)) ++at;
  return at;
}

size_t skip_braces(std::string_view text, size_t open) {
  size_t depth = 0;
  size_t at = open;
  while (at < text.size()) {
    at = find_special(text, at);
    if (at >= text.size()) break;
    char c = text[at];
    if (c == '{') {
      ++depth;
      ++at;
    } else if (c == '}') {
      ++at;
      if (--depth == 0) return at;
    } else if (c == '"') {
      size_t end = text.find('"', at + 1);
      if (end == std::string_view::npos) return end;
      at = end + 1;
    } else {
      size_t end = skip_comment(text, at);
      at = end == at ? at + 1 : end;
    }
  }
  return std::string_view::npos;
}

void Lexer::seek(size_t position, uint32_t line) {
  position_ = position;
  line_ = line;
  advance();
}

void Lexer::skip_blank() {
  while (position_ < text_.size()) {
    char c = text_[position_];
    if (c == '\n') {
      ++line_;
      ++position_;
    } else if (class_of(c) & kBlank) {
      ++position_;
    } else if (c == '#') {
      size_t end = skip_line_marker(text_, position_);
      if (end == position_) return;
      position_ = end;
    } else if (c == '/') {
      size_t end = skip_comment(text_, position_);
      if (end == position_) return;
      line_ += count_lines(text_.substr(position_, end - position_));
      position_ = end;
    } else {
      return;
    }
  }
}

// Behind the exponent of a number, or `at` when none stands there.
size_t Lexer::exponent_end(size_t at) const {
  auto byte = [&](size_t i) { return i < text_.size() ? text_[i] : '\0'; };
  if (byte(at) != 'e' && byte(at) != 'E') return at;
  size_t end = at + 1;
  if (byte(end) == '+' || byte(end) == '-') ++end;
  if (!(class_of(byte(end)) & kDigit)) return at;
  while (class_of(byte(end)) & kDigit) ++end;
  return end;
}

// The number from position_ to `end`, which has a point or an exponent.
void Lexer::decimal(size_t end) {
  double value = 0;
  auto read = std::from_chars(text_.data() + position_, text_.data() + end, value);
  token_.kind = read.ec == std::errc() ? Tok::Double : Tok::Bad;  // out of range
  token_.value = std::bit_cast<uint64_t>(value);
  token_.text = text_.substr(position_, end - position_);
  position_ = end;
}

void Lexer::take_fraction() {
  if (token_.kind != Tok::Dot || !(class_of(token_.text[0]) & kDigit)) return;
  position_ = begin_;
  size_t end = begin_ + 1;
  while (end < text_.size() && (class_of(text_[end]) & kDigit)) ++end;
  decimal(exponent_end(end));
}

void Lexer::number() {
  size_t end = position_;
  auto at = [&](size_t i) { return i < text_.size() ? text_[i] : '\0'; };
  char second = at(position_ + 1);
  token_.kind = Tok::Integer;
  token_.value = 0;
  auto digits = [&](size_t from, unsigned base) {
    end = from;
    for (int d; (d = hex_digit(at(end))) >= 0 && static_cast<unsigned>(d) < base; ++end)
      token_.value = token_.value * base + d;
  };
  if (text_[position_] == '0' && (second == 'x' || second == 'X')) {
    digits(position_ + 2, 16);
    if (end == position_ + 2) token_.kind = Tok::Bad;
  } else if (text_[position_] == '0' && (second == 'f' || second == 'F')) {
    digits(position_ + 2, 16);
    token_.kind = end == position_ + 10 ? Tok::Single : Tok::Bad;
  } else if (text_[position_] == '0' && (second == 'd' || second == 'D')) {
    digits(position_ + 2, 16);
    token_.kind = end == position_ + 18 ? Tok::Double : Tok::Bad;
  } else if (text_[position_] == '0' && (second == 'b' || second == 'B')) {
    digits(position_ + 2, 2);
    if (end == position_ + 2) token_.kind = Tok::Bad;
  } else {
    while (class_of(at(end)) & kDigit) ++end;
    const size_t whole = end;
    // A point belongs to the number unless a name follows it, as in ".align 4.b8".
    if (at(end) == '.') {
      size_t fraction = end + 1;
      while (class_of(at(fraction)) & kDigit) ++fraction;
      if (fraction > end + 1 || exponent_end(fraction) > fraction ||
          !(class_of(at(fraction)) & kWord))
        end = fraction;
    }
    end = exponent_end(end);
    if (end > whole) return decimal(end);
    digits(position_, text_[position_] == '0' ? 8 : 10);
  }
  if (token_.kind == Tok::Integer && at(end) == 'U') ++end;
  token_.text = text_.substr(position_, end - position_);
  position_ = end;
}

void Lexer::advance() {
  previous_end_ = position_;
  skip_blank();
  begin_ = position_;
  token_.line = line_;
  token_.value = 0;
  if (position_ >= text_.size()) {
    token_.kind = Tok::End;
    token_.text = {};
    return;
  }
  char c = text_[position_];
  uint8_t kind = class_of(c);
  if (kind & kDigit) return number();
  size_t end = position_ + 1;
  if ((kind & kWord) || c == '%') {
    while (end < text_.size() && (class_of(text_[end]) & kWord)) ++end;
    token_.kind = Tok::Word;
    token_.text = text_.substr(position_, end - position_);
  } else if (c == '.') {
    while (end < text_.size()) {
      if (class_of(text_[end]) & kWord)
        ++end;
      else if (text_.substr(end, 2) == "::")
        end += 2;
      else
        break;
    }
    token_.kind = end == position_ + 1 ? Tok::Bad : Tok::Dot;
    token_.text = text_.substr(position_ + 1, end - position_ - 1);
  } else if (c == '"') {
    size_t close = text_.find('"', end);
    if (close == std::string_view::npos) close = text_.size();
    token_.kind = Tok::String;
    token_.text = text_.substr(end, close - end);
    line_ += count_lines(token_.text);
    end = close < text_.size() ? close + 1 : close;
  } else {
    bool known = std::strchr("{}()[]<>,;:=+-*/|&^~!?@", c) != nullptr && c != '\0';
    token_.kind = known ? Tok::Punct : Tok::Bad;
    token_.text = text_.substr(position_, 1);
  }
  position_ = end;
}

}  // namespace softdev
