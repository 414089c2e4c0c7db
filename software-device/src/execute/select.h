// Which handler executes an instruction. One table per instruction set, chosen once per process.
#pragma once

#include <string_view>

#include "translate/code.h"

namespace softdev {

// nullptr: this combination of operation, types and flags is not known.
using Selector = Handler (*)(const Ir &);

struct InstructionSet {
  std::string_view name;
  Selector select;
};

// The best one that this machine has, or the one that SOFTWARE_DEVICE_ISA names.
const InstructionSet &instruction_set();

// Handlers that do not depend on the instruction set: control flow, calls, barriers.
Handler select_control(const Ir &ir);

// Each is there if it was compiled (CMakeLists.txt).
namespace baseline {
Handler select(const Ir &);
}
namespace v3 {
Handler select(const Ir &);
}
namespace v4 {
Handler select(const Ir &);
}

}  // namespace softdev
