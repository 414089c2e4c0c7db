#include <cstdlib>
#include <string_view>

#include "execute/processor.h"
#include "execute/select.h"

namespace softdev {
namespace {

struct Candidate {
  InstructionSet set;
  bool (*here)();
};
// The best one last.
constexpr Candidate kCandidates[] = {
#ifdef SOFTDEV_HAVE_baseline
    {{"baseline", baseline::select}, [] { return true; }},
#endif
#ifdef SOFTDEV_HAVE_v3
    {{"v3", v3::select}, has_v3},
#endif
#ifdef SOFTDEV_HAVE_v4
    {{"v4", v4::select}, has_v4},
#endif
};

const InstructionSet &choose() {
  const char *wanted = secure_getenv("SOFTWARE_DEVICE_ISA");
  const InstructionSet *best = &kCandidates[0].set;
  for (const Candidate &candidate : kCandidates) {
    if (!candidate.here()) continue;
    best = &candidate.set;
    if (wanted && candidate.set.name == wanted) break;
  }
  return *best;
}

}  // namespace

const InstructionSet &instruction_set() {
  static const InstructionSet &chosen = choose();
  return chosen;
}

}  // namespace softdev
