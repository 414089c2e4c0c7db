// One linear pass over a module: where its functions and variables are. No instruction is read.
#pragma once

#include "parse/syntax.h"

namespace softdev {

// `text` must outlive the result.
ParseError index_module(std::string_view text, ModuleSyntax *out);

// ---- initialisers of variables, read when a module is loaded

// One address to be stored into a variable once all addresses are known.
struct Relocation {
  uint64_t at = 0;  // byte offset in the variable
  uint32_t size = 8;
  std::string_view symbol;
  int64_t addend = 0;
  uint64_t mask = ~uint64_t{0};  // 0xff(sym), 0xff00(sym), ...: byte masks
  bool generic = false;
};

// Writes constants into `image` (variable.size bytes) and lists the addresses.
ParseError read_initialiser(std::string_view text, const VariableSyntax &variable, uint8_t *image,
                            std::vector<Relocation> *relocations);

}  // namespace softdev
