#include "images/variable_names.h"

#include <elf.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "images/code.h"
#include "images/ptx_words.h"

namespace outboard {

namespace {

// What an image may make this process keep.
constexpr size_t kMostNames = 1 << 16;
constexpr size_t kMostNameBytes = 4096;

class NameReader final : public CodeVisitor {
 public:
  explicit NameReader(std::string *why) : why_(why) {}

  bool ptx(std::string_view text) override;
  bool machine_code(CodeBytes file) override;
  std::vector<std::string> names() { return {names_.begin(), names_.end()}; }

 private:
  bool add(std::string_view name);
  bool fail(const char *why) {
    *why_ = why;
    return false;
  }

  std::string *const why_;
  std::set<std::string, std::less<>> names_;
};

bool NameReader::add(std::string_view name) {
  if (name.empty() || name.size() > kMostNameBytes || names_.contains(name)) return true;
  if (names_.size() >= kMostNames)
    return fail("an image has more variables than can be taken along");
  names_.emplace(name);
  return true;
}

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
      const bool name = is_ptx_word(c) && c != '.' && !isdigit(static_cast<unsigned char>(c));
      if (depth != 0 || named || !name) continue;
      named = true;
      if (!add(word)) return false;
    }
  }
  return true;
}

// The symbols of data.
bool NameReader::machine_code(CodeBytes file) {
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

}  // namespace

std::vector<std::string> variable_names(const Image &image, std::string *why) {
  NameReader reader(why);
  if (!visit_code(image, reader, why)) return {};
  return reader.names();
}

}  // namespace outboard
