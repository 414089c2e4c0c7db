// Fragments in memory and in registers, for tests that put them together by the ISA's formulas.
#pragma once

#include "../behaviour/check.h"
#include "reference.h"

namespace matrix {

// Of a fragment that has so many elements on each lane.
inline unsigned registers(const Format &format, unsigned elements) {
  return static_cast<unsigned>(format.bits) * elements / (format.bits == 64 ? 64 : 32);
}

// Four lists of registers of their own; memory has the words of register r at r * 32 + lane.
inline std::string vector(const Format &format, char matrix, unsigned count) {
  std::string text = "{";
  for (unsigned i = 0; i < count; ++i)
    text += std::string(i ? "," : "") + "%" + matrix + (format.bits == 64 ? "d" : "r") +
            std::to_string(i);
  return text + "}";
}
inline std::string transfer(const Format &format, char matrix, int pointer, unsigned count,
                            bool store) {
  std::string text, type = format.bits == 64 ? "b64" : "b32";
  unsigned size = format.bits == 64 ? 8 : 4;
  for (unsigned i = 0; i < count; ++i) {
    std::string at = "[%at" + std::to_string(pointer) + "+" + std::to_string(i * 32 * size) + "]";
    std::string reg = std::string("%") + matrix + (size == 8 ? "d" : "r") + std::to_string(i);
    text += store ? "st.global." + type + " " + at + ", " + reg + ";\n"
                  : "ld.global." + type + " " + reg + ", " + at + ";\n";
  }
  return text;
}

using Place = Position (*)(const Format &, const Shape &, unsigned, unsigned);

// Between a matrix and the lanes' registers.
inline void fragments(const Format &format, const Shape &shape, Place place, Dense *dense,
                      void *words, bool to_words) {
  unsigned elements = dense->rows * dense->columns / 32;
  auto *narrow = static_cast<uint32_t *>(words);
  auto *wide = static_cast<uint64_t *>(words);
  unsigned per_register = format.bits >= 32 ? 1 : 32 / format.bits;
  if (to_words)
    for (unsigned i = 0; i < 32 * elements / per_register && format.bits < 32; ++i) narrow[i] = 0;
  for (unsigned lane = 0; lane < 32; ++lane) {
    for (unsigned i = 0; i < elements; ++i) {
      Position at = place(format, shape, lane, i);
      uint64_t &element = (*dense)(at.row, at.column);
      unsigned word = i / per_register * 32 + lane, shift = i % per_register * format.bits;
      if (format.bits == 64)
        (to_words ? wide[word] : element) = to_words ? element : wide[word];
      else if (to_words)
        narrow[word] = format.bits == 32 ? static_cast<uint32_t>(element)
                                         : narrow[word] | static_cast<uint32_t>(element << shift);
      else
        element = format.bits == 32 ? narrow[word]
                                    : (narrow[word] >> shift) & ((uint32_t{1} << format.bits) - 1);
    }
  }
}

inline void compare(const std::string &what, const Dense &got, const Dense &want) {
  for (unsigned r = 0; r < want.rows; ++r)
    for (unsigned c = 0; c < want.columns; ++c)
      if (got(r, c) != want(r, c)) {
        char text[160];
        std::snprintf(text, sizeof text, ": (%u,%u) is %llx, expected %llx", r, c,
                      static_cast<unsigned long long>(got(r, c)),
                      static_cast<unsigned long long>(want(r, c)));
        check::fail(__FILE__, __LINE__, what + text);
        return;
      }
}

}  // namespace matrix
