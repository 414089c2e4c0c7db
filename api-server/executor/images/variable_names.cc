#include "images/variable_names.h"

#include <elf.h>
#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <span>
#include <string_view>

#include "abi_fatbin.h"
#include "images/module.h"

namespace outboard {

namespace {

using Span = std::span<const uint8_t>;

// What an image may make this process unpack and keep.
constexpr uint64_t kMostUnpacked = uint64_t{512} << 20;
constexpr size_t kMostNames = 1 << 16;
constexpr size_t kMostNameBytes = 4096;

class NameReader {
 public:
  explicit NameReader(std::string *why) : why_(why) {}

  // False: what follows need not be read.
  bool code(const void *start, size_t most);
  bool fatbin(const void *start, size_t most);
  std::vector<std::string> names() { return {names_.begin(), names_.end()}; }

 private:
  bool ptx(std::string_view text);
  bool elf(Span file);
  bool entry(const abi_fatbin_entry &entry);
  bool add(std::string_view name);
  bool fail(const char *why) {
    *why_ = why;
    return false;
  }

  std::string *const why_;
  std::set<std::string, std::less<>> names_;
  uint64_t unpacked_ = 0;
};

bool NameReader::add(std::string_view name) {
  if (name.empty() || name.size() > kMostNameBytes || names_.contains(name)) return true;
  if (names_.size() >= kMostNames)
    return fail("an image has more variables than can be taken along");
  names_.emplace(name);
  return true;
}

// ---- PTX ---------------------------------------------------------------------------------------

bool is_word(char c) {
  return isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '.' || c == '%';
}

// Words and single signs of PTX, without comments and texts.
class PtxLexer {
 public:
  explicit PtxLexer(std::string_view text) : text_(text) {}
  // Empty at the end.
  std::string_view next() {
    skip();
    if (at_ >= text_.size()) return {};
    const size_t start = at_++;
    if (is_word(text_[start])) {
      while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    } else if (text_[start] == '"') {
      while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n') ++at_;
      if (at_ < text_.size()) ++at_;
    }
    return text_.substr(start, at_ - start);
  }

 private:
  void skip() {
    for (; at_ < text_.size(); ++at_) {
      const std::string_view rest = text_.substr(at_, 2);
      if (rest == "//") {
        at_ = std::min(text_.find('\n', at_), text_.size() - 1);
      } else if (rest == "/*") {
        const size_t end = text_.find("*/", at_ + 2);
        at_ = end == std::string_view::npos ? text_.size() : end + 1;
      } else if (!isspace(static_cast<unsigned char>(text_[at_]))) {
        return;
      }
    }
  }

  std::string_view text_;
  size_t at_ = 0;
};

// Of `.visible .global .align 4 .b8 name[12] = {...}, other;` the names: of each declarator the
// first word that is no directive and no number. They may stand in functions, too; behind `.ptr`
// the word says where a parameter points.
bool NameReader::ptx(std::string_view text) {
  PtxLexer lexer(text);
  std::string_view before;
  for (std::string_view word = lexer.next(); !word.empty(); before = word, word = lexer.next()) {
    if ((word != ".global" && word != ".const") || before == ".ptr") continue;
    int depth = 0;
    bool named = false;
    for (word = lexer.next(); !word.empty(); word = lexer.next()) {
      const char c = word[0];
      if (strchr("([{", c)) ++depth;
      if (strchr(")]}", c)) --depth;
      if (depth == 0 && c == ';') break;
      if (depth == 0 && c == ',') named = false;
      if (c == '=') named = true;
      const bool name = is_word(c) && c != '.' && !isdigit(static_cast<unsigned char>(c));
      if (depth != 0 || named || !name) continue;
      named = true;
      if (!add(word)) return false;
    }
  }
  return true;
}

// ---- machine code ------------------------------------------------------------------------------

template <class T>
const T *elf_at(Span file, uint64_t offset, uint64_t count = 1) {
  if (offset > file.size() || count > (file.size() - offset) / sizeof(T)) return nullptr;
  return reinterpret_cast<const T *>(file.data() + offset);
}

template <class T>
T elf_copy(const T *from, size_t index = 0) {
  T value;
  memcpy(&value, reinterpret_cast<const uint8_t *>(from) + index * sizeof(T), sizeof value);
  return value;
}

// The symbols of data.
bool NameReader::elf(Span file) {
  const auto *first = elf_at<Elf64_Ehdr>(file, 0);
  if (!first) return fail("machine code is cut off");
  const Elf64_Ehdr head = elf_copy(first);
  const auto *sections = elf_at<Elf64_Shdr>(file, head.e_shoff, head.e_shnum);
  if (!sections) return fail("the sections of machine code lie outside of it");
  for (size_t i = 0; i < head.e_shnum; i++) {
    const Elf64_Shdr table = elf_copy(sections, i);
    if (table.sh_type != SHT_SYMTAB) continue;
    if (table.sh_link >= head.e_shnum) return fail("a table of symbols has no names");
    const Elf64_Shdr texts = elf_copy(sections, table.sh_link);
    const uint64_t count = table.sh_size / sizeof(Elf64_Sym);
    const auto *symbols = elf_at<Elf64_Sym>(file, table.sh_offset, count);
    const auto *names = elf_at<char>(file, texts.sh_offset, texts.sh_size);
    if (!symbols || !names) return fail("symbols of machine code lie outside of it");
    for (uint64_t s = 0; s < count; s++) {
      const Elf64_Sym symbol = elf_copy(symbols, s);
      if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_name >= texts.sh_size) continue;
      const char *name = names + symbol.st_name;
      const uint64_t most = std::min<uint64_t>(texts.sh_size - symbol.st_name, kMostNameBytes + 1);
      if (!add({name, strnlen(name, most)})) return false;
    }
  }
  return true;
}

// ---- containers --------------------------------------------------------------------------------

bool NameReader::entry(const abi_fatbin_entry &entry) {
  if (entry.kind != ABI_ENTRY_PTX && entry.kind != ABI_ENTRY_ELF) return true;
  Span bytes{entry.payload, entry.payload_size};
  std::unique_ptr<uint8_t[]> unpacked;
  if (entry.flags & (ABI_FATBIN_LZ4 | ABI_FATBIN_ZSTD)) {
    const uint64_t size = entry.uncompressed_size;
    unpacked_ += size;
    if (size > kMostUnpacked || unpacked_ > kMostUnpacked)
      return fail("an image unpacks to more than can be read");
    unpacked = std::make_unique<uint8_t[]>(size + 1);
    const bool whole =
        entry.flags & ABI_FATBIN_ZSTD
            ? ZSTD_decompress(unpacked.get(), size, entry.payload, entry.compressed_size) == size
            : LZ4_decompress_safe(reinterpret_cast<const char *>(entry.payload),
                                  reinterpret_cast<char *>(unpacked.get()),
                                  static_cast<int>(entry.compressed_size),
                                  static_cast<int>(size)) == static_cast<int>(size);
    if (!whole) return fail("a packed part of an image cannot be unpacked");
    bytes = {unpacked.get(), size};
  }
  if (entry.kind == ABI_ENTRY_ELF) return elf(bytes);
  const auto *text = reinterpret_cast<const char *>(bytes.data());
  return ptx({text, strnlen(text, bytes.size())});
}

bool NameReader::fatbin(const void *start, size_t most) {
  abi_fatbin_reader reader;
  abi_fatbin_entry one;
  if (!abi_fatbin_open(&reader, start, most)) return fail("a container of code is damaged");
  while (abi_fatbin_next(&reader, &one)) {
    if (!entry(one)) return false;
  }
  return !reader.malformed || fail("a container of code is damaged");
}

bool NameReader::code(const void *start, size_t most) {
  switch (abi_image_kind(start, most)) {
    case ABI_IMAGE_FATBIN:
      return fatbin(start, most);
    case ABI_IMAGE_ELF:
      return elf({static_cast<const uint8_t *>(start), most});
    case ABI_IMAGE_PTX: {
      const auto *text = static_cast<const char *>(start);
      return ptx({text, strnlen(text, most)});
    }
    default:
      return fail("an image is of a kind that is not known");
  }
}

}  // namespace

std::vector<std::string> variable_names(const Image &image, std::string *why) {
  NameReader reader(why);
  uint64_t offset = 0;
  while (offset < image.size()) {
    wire_image_part part;
    if (image.size() - offset < sizeof part) break;
    memcpy(&part, image.data() + offset, sizeof part);
    offset += sizeof part;
    if (part.size > image.size() - offset) break;
    if (!reader.code(image.data() + offset, part.size)) return {};
    offset += std::min((part.size + 7) & ~uint64_t{7}, image.size() - offset);
  }
  return reader.names();
}

}  // namespace outboard
