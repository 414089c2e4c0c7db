// Stands in for execute/ and schedule/: every instruction has a handler, none is ever run. So the
// fuzzer builds in a moment, and more inputs get as far as the last pass.
#include "execute/select.h"

namespace softdev {
namespace {
const Ins *never(Warp &, const Ins *) { return nullptr; }
Handler select_any(const Ir &) { return never; }
}  // namespace

const InstructionSet &instruction_set() {
  static const InstructionSet any = {"none", select_any};
  return any;
}
Handler select_control(const Ir &) { return never; }

}  // namespace softdev
