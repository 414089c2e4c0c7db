// What kernels take from hardware beyond what PTX promises, or rely on because it does: threads
// race on purpose, and what no GPU would show must never be seen
// (docs/software-device/memory-model.md).
#include "../behaviour/check.h"

int main(int argc, char **argv) {
  if (rig::lacks_instruction_set()) return rig::kSkipped;
  int run = check::run_tests("litmus", argc > 1 ? argv[1] : "");
  std::printf("%d tests, %d failures\n", run, check::failures);
  return check::failures || !run ? 1 : 0;
}
