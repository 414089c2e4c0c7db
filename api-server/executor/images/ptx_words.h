// Reads PTX word by word.
#pragma once

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace outboard {

inline bool is_ptx_word(char c) {
  return isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '.' || c == '%';
}

// Words and single signs of PTX, without comments; a text between quotes is one word.
class PtxLexer {
 public:
  explicit PtxLexer(std::string_view text) : text_(text) {}

  // Empty at the end.
  std::string_view next() {
    skip();
    if (at_ >= text_.size()) return {};
    const size_t start = at_++;
    if (is_ptx_word(text_[start])) {
      while (at_ < text_.size() && is_ptx_word(text_[at_])) ++at_;
    } else if (text_[start] == '"') {
      skip_quoted();
    }
    return text_.substr(start, at_ - start);
  }

  // Passes over a block, with its closing brace; `next` has just given the opening one. Bodies of
  // functions are most of a text: this is many times as fast as reading their words.
  void skip_block() {
    for (int depth = 1; depth > 0 && at_ < text_.size();) {
      const char c = text_[at_];
      if (!kMatters[static_cast<unsigned char>(c)]) {
        ++at_;
      } else if (c == '/') {
        if (!skip_comment()) ++at_;
      } else {
        ++at_;
        if (c == '"') skip_quoted();
        if (c == '{') ++depth;
        if (c == '}') --depth;
      }
    }
  }

 private:
  // What matters in a block.
  static constexpr std::array<bool, 256> kMatters = [] {
    std::array<bool, 256> table{};
    for (char c : {'{', '}', '"', '/'}) table[static_cast<unsigned char>(c)] = true;
    return table;
  }();

  void skip() {
    while (at_ < text_.size()) {
      if (isspace(static_cast<unsigned char>(text_[at_])))
        ++at_;
      else if (!skip_comment())
        return;
    }
  }
  bool skip_comment() {
    const std::string_view begin = text_.substr(at_, 2);
    if (begin != "//" && begin != "/*") return false;
    const std::string_view last = begin == "//" ? "\n" : "*/";
    const size_t end = text_.find(last, at_ + 2);
    at_ = end == std::string_view::npos ? text_.size() : end + last.size();
    return true;
  }
  // Behind the first quote.
  void skip_quoted() {
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n') ++at_;
    if (at_ < text_.size()) ++at_;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace outboard
