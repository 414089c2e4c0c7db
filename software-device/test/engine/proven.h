// What tests have proven of instructions: the forms that docs/software-device/instructions.md
// counts. A test says so for each form after it has compared its results.
#pragma once

#include <cstddef>
#include <map>
#include <string>

namespace proven {

struct Form {
  size_t values = 0;
  bool exhaustive = true;  // over all values of its sources
  std::string bound;       // how far results may be from the reference's; empty: not at all
};
// By the instruction with its modifiers; what follows a space or '|' tells operands that it may
// have or lack.
inline std::map<std::string, Form> &forms() {
  static std::map<std::string, Form> all;
  return all;
}

// One form may be proven by several tests; its values add up.
inline void add(const std::string &name, size_t values, bool exhaustive = false,
                const std::string &bound = {}) {
  Form &form = forms()[name];
  form.values += values;
  form.exhaustive &= exhaustive;
  if (!bound.empty()) form.bound = bound;
}
// The form is the first word of an instruction.
inline void add_text(const std::string &instruction, size_t values, const std::string &bound = {}) {
  add(instruction.substr(0, instruction.find_first_of(" ;")), values, false, bound);
}

// Of what is run, but gives nothing that a program could tell.
inline const char *const kNoEffect = "no effect to see";

}  // namespace proven
