#include "modules/containers.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "abi_fatbin.h"
#include "modules/elf_file.h"

namespace softdev::driver {
namespace {

using Visit = std::function<void(const Found &)>;

constexpr std::string_view kArchive = "!<arch>\n";
constexpr size_t kMemberHeader = 60;

// Fatbins one behind the other, with padding between them.
void walk_fatbins(Bytes section, bool piece, const std::string &where, const Visit &visit) {
  for (size_t at = 0; at + 16 <= section.size();) {
    Bytes rest = section.subspan(at);
    size_t size = abi_image_kind(rest.data(), rest.size()) == ABI_IMAGE_FATBIN
                      ? abi_image_size(rest.data(), rest.size())
                      : 0;
    if (size == 0) {
      at += 8;
      continue;
    }
    visit({rest.first(size), where, piece});
    at += (size + 7) & ~size_t{7};
  }
}

std::string walk_elf(Bytes file, const std::string &where, const Visit &visit) {
  Elf64_Ehdr header;
  if (!read_header(file, &header)) return "it is not a 64-bit ELF file";
  bool fatbins = false;
  std::string bad =
      each_section(file, header, [&](std::string_view name, const Elf64_Shdr &section) {
        bool piece = name == "__nv_relfatbin";
        if (section.sh_type == SHT_NOBITS || (!piece && name != ".nv_fatbin")) return std::string();
        if (!within(section.sh_offset, section.sh_size, file.size()))
          return "its section " + std::string(name) + " is cut off";
        fatbins = true;
        walk_fatbins(file.subspan(section.sh_offset, section.sh_size), piece, where, visit);
        return std::string();
      });
  // Machine code; what this device's linker made has PTX in it instead.
  if (bad.empty() && header.e_machine == kCudaMachine && !fatbins) visit({file, where, false});
  return bad;
}

std::string walk_archive(Bytes file, const Visit &visit) {
  std::string_view long_names;
  for (size_t at = kArchive.size(); within(at, kMemberHeader, file.size());) {
    std::string_view header(reinterpret_cast<const char *>(file.data()) + at, kMemberHeader);
    uint64_t size = 0;
    for (char digit : header.substr(48, 10)) {
      if (!std::isdigit(static_cast<unsigned char>(digit))) break;
      size = size * 10 + static_cast<uint64_t>(digit - '0');
    }
    at += kMemberHeader;
    if (!within(at, size, file.size())) return "the archive is cut off";
    Bytes member = file.subspan(at, size);
    std::string_view name = header.substr(0, 16);
    std::string_view text(reinterpret_cast<const char *>(member.data()), member.size());
    if (name.starts_with("// ")) {
      long_names = text;
    } else if (!name.starts_with("/ ") && !name.starts_with("/SYM64/")) {
      std::string full(name.substr(0, std::min(name.find('/'), name.find(' '))));
      if (name.starts_with('/')) {
        uint64_t offset = std::strtoull(std::string(name.substr(1)).c_str(), nullptr, 10);
        if (offset < long_names.size()) {
          full = long_names.substr(offset, long_names.substr(offset).find('/'));
        }
      }
      // Members of other kinds (bitcode, text) are none of ours.
      if (abi_image_kind(member.data(), member.size()) == ABI_IMAGE_ELF)
        if (std::string bad = walk_elf(member, full, visit); !bad.empty()) return full + ": " + bad;
    }
    at += size + (size & 1);
  }
  return {};
}

}  // namespace

std::string find_images(Bytes file, const Visit &visit) {
  std::string_view text(reinterpret_cast<const char *>(file.data()), file.size());
  if (text.starts_with(kArchive)) return walk_archive(file, visit);
  switch (abi_image_kind(file.data(), file.size())) {
    case ABI_IMAGE_ELF:
      return walk_elf(file, {}, visit);
    case ABI_IMAGE_FATBIN:
      walk_fatbins(file, false, {}, visit);
      return {};
    case ABI_IMAGE_PTX:
      if (text.find(".version") == text.npos) break;
      visit({file, {}, false});
      return {};
    default:
      break;
  }
  return "it is no program, library, object, archive, fatbin, cubin or PTX";
}

bool is_hollow(Bytes image) {
  abi_fatbin_reader reader;
  if (abi_image_kind(image.data(), image.size()) != ABI_IMAGE_FATBIN ||
      !abi_fatbin_open(&reader, image.data(), image.size()))
    return false;
  abi_fatbin_entry entry;
  bool kernels = false;
  while (!kernels && abi_fatbin_next(&reader, &entry)) {
    Bytes cubin(entry.payload, entry.payload_size);
    Elf64_Ehdr header;
    if (entry.kind != ABI_ENTRY_ELF || (entry.flags & (ABI_FATBIN_LZ4 | ABI_FATBIN_ZSTD)) ||
        !read_header(cubin, &header))
      return false;
    std::string bad = each_section(cubin, header, [&](std::string_view name, const Elf64_Shdr &) {
      kernels |= name.starts_with(".text.");
      return std::string();
    });
    if (!bad.empty()) return false;
  }
  return !kernels && !reader.malformed;
}

std::vector<uint8_t> wrap_ptx(std::string_view ptx, uint32_t arch) {
  // A fatbin of one entry, as text, in the only section of a file for CUDA devices.
  struct [[gnu::packed]] Fatbin {
    uint32_t magic = 0xBA55ED50;
    uint16_t version = 1, header = 16;
    uint64_t size = 0;
    uint16_t kind = ABI_ENTRY_PTX, entry_version = 0x0101;
    uint32_t entry_header = 64;
    uint64_t payload = 0;
    uint32_t compressed = 0, options = 0;
    uint16_t minor = 0, major = 7;
    uint32_t arch = 0, name = 0, name_length = 0;
    uint64_t flags = ABI_FATBIN_64BIT | ABI_FATBIN_LINUX, unknown = 0, uncompressed = 0;
  } fatbin;
  static_assert(sizeof fatbin == 16 + 64);
  static constexpr char kNames[] = "\0.nv_fatbin\0.shstrtab";
  fatbin.payload = (ptx.size() + 1 + 7) / 8 * 8;
  fatbin.size = fatbin.entry_header + fatbin.payload;
  fatbin.arch = arch;

  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_EXEC;
  header.e_machine = kCudaMachine;
  header.e_version = EV_CURRENT;
  header.e_flags = arch;
  header.e_ehsize = sizeof header;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 3;
  header.e_shstrndx = 2;
  size_t content = sizeof header, names = content + sizeof fatbin + fatbin.payload;
  header.e_shoff = (names + sizeof kNames + 7) / 8 * 8;
  Elf64_Shdr sections[3] = {};
  sections[1] = {.sh_name = 1,
                 .sh_type = SHT_PROGBITS,
                 .sh_flags = 0,
                 .sh_addr = 0,
                 .sh_offset = content,
                 .sh_size = names - content,
                 .sh_link = 0,
                 .sh_info = 0,
                 .sh_addralign = 8,
                 .sh_entsize = 0};
  sections[2] = sections[1];
  sections[2].sh_name = 12;
  sections[2].sh_type = SHT_STRTAB;
  sections[2].sh_offset = names;
  sections[2].sh_size = sizeof kNames;

  std::vector<uint8_t> file(header.e_shoff + sizeof sections);
  std::memcpy(file.data(), &header, sizeof header);
  std::memcpy(file.data() + content, &fatbin, sizeof fatbin);
  std::memcpy(file.data() + content + sizeof fatbin, ptx.data(), ptx.size());
  std::memcpy(file.data() + names, kNames, sizeof kNames);
  std::memcpy(file.data() + header.e_shoff, sections, sizeof sections);
  return file;
}

}  // namespace softdev::driver
