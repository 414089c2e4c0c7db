// Goes through the code in an image: its texts of PTX and its files of machine code, unpacked.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "abi_fatbin.h"
#include "images/image_bytes.h"

namespace outboard {

using CodeBytes = std::span<const uint8_t>;

// Who is shown the code. What it returns says whether the rest is to be shown, too.
class CodeVisitor {
 public:
  CodeVisitor() = default;
  CodeVisitor(const CodeVisitor &) = delete;
  virtual ~CodeVisitor() = default;

  // Whether an entry of a container, PTX or machine code, is to be shown: it is not unpacked where
  // it is not.
  virtual bool wants(const abi_fatbin_entry &) { return true; }
  // `text` and `file` are any bytes, and gone when the call returns.
  virtual bool ptx(std::string_view text) = 0;
  virtual bool machine_code(CodeBytes file) = 0;
};

// Shows all code in all parts of an image; entries of other kinds are passed over. False when not
// all was shown, with a reason in *why where it was not the visitor who had enough. Any number of
// threads; of what is packed they show one at a time, and a visitor may not visit more from there.
bool visit_code(const Image &image, CodeVisitor &visitor, std::string *why);

// Returns where `count` values lie at an offset of the file, of any alignment; null when they are
// not all in it.
template <class T>
const T *elf_at(CodeBytes file, uint64_t offset, uint64_t count = 1) {
  if (offset > file.size() || count > (file.size() - offset) / sizeof(T)) return nullptr;
  return reinterpret_cast<const T *>(file.data() + offset);
}

// Copies one of them.
template <class T>
T elf_copy(const T *from, size_t index = 0) {
  T value;
  memcpy(&value, reinterpret_cast<const uint8_t *>(from) + index * sizeof(T), sizeof value);
  return value;
}

}  // namespace outboard
