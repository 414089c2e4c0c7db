// The virtual registers of a function by name and scope: single ones, ranges as %r<8>, vectors.
#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "parse/syntax.h"

namespace softdev {

struct RegisterRef {
  uint32_t first = kNone;
  uint32_t elements = 1;  // 2 or 4 of a vector

  explicit operator bool() const { return first != kNone; }
};

class RegisterNames {
 public:
  explicit RegisterNames(BodySyntax *body) : body_(body) {}

  void open_scope() { names_.emplace_back(); }
  void close_scope(uint32_t scope) { names_[scope] = {}; }
  // `count` registers with a number behind the name, or, if it is 0, the one that is named so.
  // False when there are too many.
  bool declare(uint32_t scope, std::string_view name, Type type, uint32_t elements, uint32_t count);
  RegisterRef find(uint32_t scope, std::string_view name) const;

 private:
  struct Entry {  // %r and %r<8> may both be there
    RegisterRef single, range;
    uint32_t count = 0;
  };
  BodySyntax *body_;
  std::vector<std::unordered_map<std::string_view, Entry>> names_;  // by scope
};

}  // namespace softdev
