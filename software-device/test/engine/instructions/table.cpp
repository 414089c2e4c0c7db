// The tables of what is proven, from the cases themselves.
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

#include "../proven.h"
#include "harness.h"

namespace harness {
namespace {

// What the cases prove, and what tests have said of themselves.
std::map<std::string, proven::Form> forms() {
  for (static bool once = true; once; once = false)
    for (const Case &one : all_cases()) {
      std::istringstream words(one.proves.empty() ? one.instruction : one.proves);
      std::string word;
      while (words >> word) {
        bool exhaustive = false;
        size_t values = planned_values(one, &exhaustive);
        if (word.find_first_of("{}@$%;") == std::string::npos)
          proven::add(word, values, exhaustive, one.bound);
        if (one.proves.empty()) break;
      }
    }
  return proven::forms();
}

bool is_type(const std::string &word) {
  static const std::set<std::string> kOther = {"pred", "tf32", "bf16", "bf16x2"};
  if (kOther.count(word)) return true;
  size_t digits = word.find_first_of("0123456789");
  if (digits == std::string::npos || digits == 0 || digits > 3) return false;
  std::string head = word.substr(0, digits);
  return (head == "b" || head == "u" || head == "s" || head == "f" || head == "e" ||
          head == "ue") &&
         word.find("shr") == std::string::npos;
}

// One line for all types of an instruction with the same modifiers before them.
std::string tsv() {
  struct Line {
    std::string types;
    size_t values = 0;
  };
  std::map<std::tuple<std::string, bool, std::string>, Line> lines;
  for (const auto &[form_name, form] : forms()) {
    const size_t operands = form_name.find_first_of(" |");
    const std::string name = form_name.substr(0, operands);
    size_t end = name.size();
    for (;;) {
      size_t dot = name.rfind('.', end - 1);
      if (dot == std::string::npos || !is_type(name.substr(dot + 1, end - dot - 1))) break;
      end = dot;
    }
    std::string stem = name.substr(0, end);
    if (operands != std::string::npos) stem += form_name.substr(operands);
    Line &line = lines[{stem, form.exhaustive, form.bound}];
    line.types +=
        (line.types.empty() ? "" : " ") + (end == name.size() ? "-" : name.substr(end + 1));
    line.values += form.values;
  }
  std::ostringstream out;
  out << "instruction\ttypes\tvalues\tsources\tresults\n";
  for (const auto &[key, line] : lines) {
    const auto &[stem, exhaustive, bound] = key;
    out << stem << '\t' << line.types << '\t' << line.values << '\t'
        << (exhaustive ? "all" : "sampled") << '\t' << (bound.empty() ? "exact" : bound) << '\n';
  }
  return out.str();
}

std::string page() {
  struct Row {
    size_t forms = 0, exhaustive = 0, values = 0;
    std::set<std::string> bounds;
  };
  std::map<std::string, Row> rows;
  size_t total = 0, values = 0;
  for (const auto &[name, form] : forms()) {
    Row &row = rows[name.substr(0, name.find_first_of(". |"))];
    ++row.forms;
    ++total;
    row.exhaustive += form.exhaustive;
    row.values += form.values;
    values += form.values;
    row.bounds.insert(form.bound.empty() ? "exact" : form.bound);
  }
  std::ostringstream out;
  out << "# Which PTX instructions are proven, and on how many values\n\n"
         "Each form of an instruction (opcode with modifiers, and with operands that it may have "
         "or lack)\n"
         "runs on the software device and is compared with a reference that shares no code with "
         "it.\n"
         "What works on each lane alone: over all values of its sources where these have 16 bits "
         "together,\n"
         "else over combinations of edge values and seeded random ones; with all lanes of a warp "
         "running and\n"
         "with some switched off. What works on warps, blocks, matrices and images: over random "
         "contents,\n"
         "where a value is one result compared. All of it on every instruction set of the host.\n"
         "Approximate instructions are held to a bound at least as strict as the ISA's.\n"
         "[instructions.tsv](../../software-device/test/engine/instructions.tsv) lists all "
      << total << " forms (" << values
      << " values).\n\n"
         "Not there, and refused with a message:\n\n"
         "- of copies by tensor maps: `.cta_group::2`; interleaved tensors, chunks of 32 bytes "
         "with a "
         "flip of 8,\n"
         "  swizzling of 96 bytes, and pixels behind those of `.im2col::w::128`, as no document "
         "says "
         "how they lie\n"
         "- of textures: depth comparison, samplers apart from textures, several samples "
         "(`.2dms`,\n"
         "  `.a2dms`)\n"
         "- `fma` with `.oob`; `alloca` and `stacksave` of 32-bit addresses\n"
         "- variables of `.global` and `.const` inside functions (at the module's level they are "
         "there)\n"
         "- of `wgmma`: sparse matrices, single bits, and descriptors with a base offset\n"
         "- what only the targets of some GPUs have: `tcgen05`, `mma` with `.kind`,\n"
         "  `ldmatrix` and `stmatrix` of bytes; `cvt` with `.rs`, to four values at once and with "
         "`s2f6x2`\n\n"
         "This page and the list are written by `softdev_instructions --write .`; the\n"
         "test `engine.instructions.table` compares them.\n\n"
         "| instruction | forms | of them over all values | values | results "
         "|\n|---|---|---|---|---|\n";
  for (const auto &[name, row] : rows) {
    out << "| `" << name << "` | " << row.forms << " | " << row.exhaustive << " | " << row.values
        << " | ";
    const char *comma = "";
    for (const std::string &bound : row.bounds) {
      out << comma << bound;
      comma = "; ";
    }
    out << " |\n";
  }
  return out.str();
}

}  // namespace

constexpr const char *kList = "/software-device/test/engine/instructions.tsv";
constexpr const char *kPage = "/docs/software-device/instructions.md";

int write_tables(const std::string &root) {
  std::ofstream list(root + kList), text(root + kPage);
  list << tsv();
  text << page();
  return list.flush() && text.flush() ? 0 : 1;
}

int check_tables(const std::string &root) {
  int different = 0;
  for (auto [name, want] : {std::pair{kList, tsv()}, {kPage, page()}}) {
    std::ifstream file(root + name);
    std::stringstream have;
    have << file.rdbuf();
    if (have.str() == want) continue;
    std::cout << root << name
              << " is not what the cases prove: write it with softdev_instructions --write\n";
    different = 1;
  }
  return different;
}

}  // namespace harness
