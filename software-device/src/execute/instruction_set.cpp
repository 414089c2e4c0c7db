#include <cstdlib>
#include <string_view>

#include "execute/select.h"

namespace softdev {
namespace {

#ifdef SOFTDEV_HAVE_v3
bool has_v3() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("lzcnt");
}
#endif
#ifdef SOFTDEV_HAVE_v4
bool has_v4() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx2") &&
         __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("lzcnt");
}
#endif

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
