#include <cstring>

#include "check.h"

int main(int argc, char **argv) {
  if (rig::lacks_instruction_set()) return rig::kSkipped;
  int run = 0;
  for (const check::Test &test : check::tests()) {
    if (argc > 1 && !std::strstr(test.name, argv[1])) continue;
    int before = check::failures;
    test.run();
    ++run;
    std::printf("%s %s\n", check::failures == before ? "ok  " : "FAIL", test.name);
  }
  std::printf("%d tests, %d failures\n", run, check::failures);
  return check::failures || !run ? 1 : 0;
}
