#include "check.h"

int main(int argc, char **argv) {
  if (rig::lacks_instruction_set()) return rig::kSkipped;
  int run = check::run_tests("behaviour", argc > 1 ? argv[1] : "");
  std::printf("%d tests, %d failures\n", run, check::failures);
  return check::failures || !run ? 1 : 0;
}
