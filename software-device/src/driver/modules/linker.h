// Links PTX texts into one: what a device linker does with machine code, done with text. Names
// without linkage are made different where pieces share them; of weak definitions one stays.
#pragma once

#include <string>
#include <vector>

namespace softdev::driver {

struct LinkInput {
  std::string text;
  std::string name;  // for messages
};

struct LinkResult {
  bool ok = false;
  std::string text;
  std::string problem;                  // a sentence, when not ok
  std::vector<std::string> unresolved;  // functions and variables that are defined nowhere
};

// Names that stay unresolved are no failure here: a kernel that wants one is refused when it is
// first used.
LinkResult link_ptx(const std::vector<LinkInput> &inputs);

}  // namespace softdev::driver
