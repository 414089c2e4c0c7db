// Names as they come in a frame.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace outboard {

// Returns the text up to its end, which a zero may mark.
inline std::string text_of(std::span<const uint8_t> bytes) {
  const auto *text = reinterpret_cast<const char *>(bytes.data());
  return {text, strnlen(text, bytes.size())};
}

}  // namespace outboard
