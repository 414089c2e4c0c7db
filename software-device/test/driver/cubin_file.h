// Makes cubins: ELF files for CUDA devices in the form that compilers give them, with code that is
// none.
#pragma once

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

class CubinFile {
 public:
  static constexpr uint16_t kMachine = 190;
  static constexpr uint32_t kRecords = 0x70000000;

  explicit CubinFile(uint32_t arch = 90) : arch_(arch) {
    add("", SHT_NULL, "");
    add(".shstrtab", SHT_STRTAB, "");
    add(".strtab", SHT_STRTAB, "");
    add(".symtab", SHT_SYMTAB, "");
    sections_[3].header.sh_link = 2;
    sections_[3].header.sh_entsize = sizeof(Elf64_Sym);
    symbol("", 0, 0, 0, 0, 0);
  }

  size_t add(const std::string &name, uint32_t type, const std::string &bytes, uint64_t align = 4,
             uint64_t size = 0) {
    Section section{name, bytes, {}};
    section.header.sh_type = type;
    section.header.sh_size = type == SHT_NOBITS ? size : bytes.size();
    section.header.sh_addralign = align;
    sections_.push_back(section);
    return sections_.size() - 1;
  }
  // Returns its number.
  uint32_t symbol(const std::string &name, unsigned char type, unsigned char other, size_t section,
                  uint64_t value, uint64_t size) {
    Elf64_Sym symbol = {};
    symbol.st_name = static_cast<uint32_t>(names_.size());
    symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, type);
    symbol.st_other = other;
    symbol.st_shndx = static_cast<uint16_t>(section);
    symbol.st_value = value;
    symbol.st_size = size;
    names_ += name + '\0';
    symbols_.append(reinterpret_cast<const char *>(&symbol), sizeof symbol);
    return count_++;
  }
  // The same symbol once more.
  void again(uint32_t number) {
    symbols_.append(symbols_.substr(number * sizeof(Elf64_Sym), sizeof(Elf64_Sym)));
    ++count_;
  }
  // A kernel with these records, and with those on its registers and local memory. Returns its
  // symbol.
  uint32_t kernel(const std::string &name, const std::string &records, uint32_t registers = 32,
                  uint32_t local = 0, uint64_t shared = 0) {
    const size_t text = add(".text." + name, SHT_PROGBITS, std::string(128, 'x'), 128);
    add(".nv.info." + name, kRecords, records);
    add(".nv.shared." + name, SHT_NOBITS, "", 16, (arch_ >= 90 ? 1024 : 0) + shared);
    const uint32_t at = symbol(name, STT_FUNC, 0x10, text, 0, 128);
    common_ +=
        record(0x2f, {at, registers}) + record(0x11, {at, local}) + record(0x12, {at, local});
    return at;
  }

  static std::string record(uint8_t kind, const std::vector<uint32_t> &words) {
    std::string bytes{4, static_cast<char>(kind), static_cast<char>(words.size() * 4), 0};
    for (uint32_t word : words) bytes.append(reinterpret_cast<const char *>(&word), 4);
    return bytes;
  }
  static std::string parameter(uint32_t place, uint32_t offset, uint32_t size) {
    return record(0x17, {0, place | offset << 16, size << 18 | 0x1f000});
  }
  static std::string large_parameter(uint32_t place, uint32_t offset, uint32_t size) {
    return record(0x45, {0, place | offset << 16, size});
  }

  std::string bytes(uint8_t abi = 8) {
    std::vector<Section> all = sections_;
    set(&all[2], names_);
    set(&all[3], symbols_);
    Section info{".nv.info", "", {}};
    info.header.sh_type = kRecords;
    set(&info, common_);
    all.push_back(info);
    std::string names;
    for (Section &section : all) {
      section.header.sh_name = static_cast<uint32_t>(names.size());
      names += section.name + '\0';
    }
    set(&all[1], names);

    Elf64_Ehdr header = {};
    std::string file(sizeof header, '\0');
    for (Section &section : all) {
      file.resize((file.size() + 15) / 16 * 16);
      section.header.sh_offset = file.size();
      file += section.bytes;
    }
    file.resize((file.size() + 15) / 16 * 16);
    memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_ident[EI_OSABI] = abi >= 8 ? 0x41 : 0x33;
    header.e_ident[EI_ABIVERSION] = abi;
    header.e_type = type;
    header.e_machine = kMachine;
    header.e_version = EV_CURRENT;
    header.e_flags = abi >= 8 ? arch_ << 8 | 0x06000004 : arch_ | arch_ << 16 | 0x500;
    header.e_ehsize = sizeof header;
    header.e_shoff = file.size();
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = static_cast<uint16_t>(all.size());
    header.e_shstrndx = 1;
    memcpy(file.data(), &header, sizeof header);
    for (const Section &section : all)
      file.append(reinterpret_cast<const char *>(&section.header), sizeof section.header);
    return file;
  }

  uint16_t type = ET_EXEC;

 private:
  struct Section {
    std::string name, bytes;
    Elf64_Shdr header;
  };
  static void set(Section *section, const std::string &bytes) {
    section->bytes = bytes;
    section->header.sh_size = bytes.size();
  }

  const uint32_t arch_;
  std::vector<Section> sections_;
  std::string names_, symbols_, common_;
  uint32_t count_ = 0;
};
