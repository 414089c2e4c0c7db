// The tables of what is proven, from the cases themselves.
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

#include "harness.h"

namespace harness {
namespace {

struct Form {
  size_t values = 0;
  bool exhaustive = true;
  std::string bound;
};

// One form may be proven by several cases; its values add up.
std::map<std::string, Form> forms() {
  std::map<std::string, Form> all;
  for (const Case &one : all_cases()) {
    std::istringstream words(one.proves.empty() ? one.instruction : one.proves);
    std::string word;
    while (words >> word) {
      bool names = word.find_first_of("{}@$%;") == std::string::npos;
      if (names) {
        bool exhaustive = false;
        Form &form = all[word];
        form.values += planned_values(one, &exhaustive);
        form.exhaustive &= exhaustive;
        if (!one.bound.empty()) form.bound = one.bound;
      }
      if (one.proves.empty()) break;
    }
  }
  return all;
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
  for (const auto &[name, form] : forms()) {
    size_t end = name.size();
    for (;;) {
      size_t dot = name.rfind('.', end - 1);
      if (dot == std::string::npos || !is_type(name.substr(dot + 1, end - dot - 1))) break;
      end = dot;
    }
    Line &line = lines[{name.substr(0, end), form.exhaustive, form.bound}];
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
    Row &row = rows[name.substr(0, name.find('.'))];
    ++row.forms;
    ++total;
    row.exhaustive += form.exhaustive;
    row.values += form.values;
    values += form.values;
    row.bounds.insert(form.bound.empty() ? "exact" : form.bound);
  }
  std::ostringstream out;
  out << "# Which PTX instructions are proven, and on how many values\n\n"
         "Each form of an instruction (opcode with modifiers) runs on the software device and is\n"
         "compared with a reference that shares no code with it: over all values of its sources "
         "where\n"
         "these have 16 bits together, else over combinations of edge values and seeded random "
         "ones; with\n"
         "all lanes of a warp running and with some switched off; on every instruction set of the "
         "host.\n"
         "Approximate instructions are held to a bound at least as strict as the ISA's.\n"
         "[instructions.tsv](instructions.tsv) lists all "
      << total << " forms (" << values
      << " values).\n\n"
         "Not there, and refused with a message: `fma` with `.oob`; `cvt` with `.rs` and to four "
         "values\n"
         "at once, and with `s2f6x2` (of some GPUs' own targets only).\n\n"
         "This page and the list are written by `softdev_instructions --write "
         "docs/software-device`; the\n"
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

int write_tables(const std::string &folder) {
  std::ofstream list(folder + "/instructions.tsv"), text(folder + "/instructions.md");
  list << tsv();
  text << page();
  return list.flush() && text.flush() ? 0 : 1;
}

int check_tables(const std::string &folder) {
  int different = 0;
  for (auto [name, want] : {std::pair{"instructions.tsv", tsv()}, {"instructions.md", page()}}) {
    std::ifstream file(folder + "/" + name);
    std::stringstream have;
    have << file.rdbuf();
    if (have.str() == want) continue;
    std::cout << folder << "/" << name
              << " is not what the cases prove: write it with softdev_instructions --write\n";
    different = 1;
  }
  return different;
}

}  // namespace harness
