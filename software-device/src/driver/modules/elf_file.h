// Reading ELF files of 64 bits: programs and cubins. Safe for any bytes.
#pragma once

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "modules/containers.h"

namespace softdev::driver {

inline constexpr uint16_t kCudaMachine = 190;  // EM_CUDA
// Bytes of names of sections, for each byte of the file. Some names are the end of others.
inline constexpr uint64_t kMostSectionNames = 4;

// Whether `size` bytes at `offset` are among the first `limit` ones.
inline bool within(uint64_t offset, uint64_t size, size_t limit) {
  return offset <= limit && size <= limit - offset;
}

// Copies what lies at an offset. False when that is not all in the file.
template <class T>
bool read(Bytes bytes, uint64_t offset, T *out) {
  if (!within(offset, sizeof *out, bytes.size())) return false;
  std::memcpy(out, bytes.data() + offset, sizeof *out);
  return true;
}

// False when it is no ELF file of 64 bits.
inline bool read_header(Bytes file, Elf64_Ehdr *header) {
  return read(file, 0, header) && std::memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
         header->e_ident[EI_CLASS] == ELFCLASS64;
}

// The string that begins at an offset of a table of strings; empty where there is none.
inline std::string_view string_at(Bytes strings, uint64_t offset) {
  if (offset >= strings.size()) return {};
  const char *start = reinterpret_cast<const char *>(strings.data()) + offset;
  return {start, strnlen(start, strings.size() - offset)};
}

// Calls visitor(name, header) for each section, whose bytes may lie outside of the file, until it
// returns a sentence. Returns that, or one where the file is damaged; else nothing.
template <class Visitor>
std::string each_section(Bytes file, const Elf64_Ehdr &header, Visitor visitor) {
  if (header.e_shoff == 0) return {};
  if (header.e_shentsize != sizeof(Elf64_Shdr)) return "its section headers are damaged";
  Elf64_Shdr first;
  if (!read(file, header.e_shoff, &first)) return "its section headers are cut off";
  // Files with very many sections keep their counts in the first one.
  uint64_t count = header.e_shnum ? header.e_shnum : first.sh_size;
  uint64_t names = header.e_shstrndx == SHN_XINDEX ? first.sh_link : header.e_shstrndx;
  if (count > (file.size() - header.e_shoff) / sizeof(Elf64_Shdr))
    return "its section headers are cut off";
  Elf64_Shdr strings;
  if (names >= count || !read(file, header.e_shoff + names * sizeof(Elf64_Shdr), &strings) ||
      !within(strings.sh_offset, strings.sh_size, file.size()))
    return "its section names are damaged";
  const Bytes table = file.subspan(strings.sh_offset, strings.sh_size);
  // Of what many sections name by the same bytes each would be looked through anew.
  uint64_t names_left = kMostSectionNames * file.size();
  for (uint64_t i = 0; i < count; ++i) {
    Elf64_Shdr section;
    if (!read(file, header.e_shoff + i * sizeof(Elf64_Shdr), &section)) break;
    const std::string_view name = string_at(table, section.sh_name);
    if (name.size() > names_left) return "its names of sections overlap";
    names_left -= name.size();
    if (std::string bad = visitor(name, section); !bad.empty()) return bad;
  }
  return {};
}

}  // namespace softdev::driver
