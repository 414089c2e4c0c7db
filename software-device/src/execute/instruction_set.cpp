#include <cstdlib>
#include <string_view>

#include "execute/select.h"

namespace softdev {
namespace {

constexpr InstructionSet kBaseline = {"baseline", baseline::select};
#ifdef SOFTDEV_HAVE_V3
constexpr InstructionSet kV3 = {"v3", v3::select};

bool has_v3() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("lzcnt");
}
#endif

const InstructionSet &choose() {
#ifdef SOFTDEV_HAVE_V3
  const char *wanted = std::getenv("SOFTWARE_DEVICE_ISA");
  bool baseline_wanted = wanted && std::string_view(wanted) == "baseline";
  if (!baseline_wanted && has_v3()) return kV3;
#endif
  return kBaseline;
}

}  // namespace

const InstructionSet &instruction_set() {
  static const InstructionSet &chosen = choose();
  return chosen;
}

}  // namespace softdev
