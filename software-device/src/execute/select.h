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

namespace baseline {
Handler select(const Ir &);
}
#ifdef SOFTDEV_HAVE_V3
namespace v3 {
Handler select(const Ir &);
}
#endif

}  // namespace softdev
