#include <unistd.h>

#include <cstring>

#include "base/log.h"
#include "check.h"

namespace {
Test *first = nullptr;
}

Test::Test(const char *name, TestFunction run) : name(name), run(run), next(first) { first = this; }

int main(int argc, char **argv) {
  // Against hanging, far above what a slow machine under a sanitizer needs.
  alarm(300);
  outboard::log_threshold(outboard::LogLevel::kError);
  int run = 0;
  for (Test *test = first; test; test = test->next) {
    if (argc > 1 && strcmp(argv[1], test->name) != 0) continue;
    test->run();
    ++run;
  }
  if (run == 0) {
    fprintf(stderr, "no test of that name\n");
    return 2;
  }
  fprintf(stderr, "%d passed\n", run);
  return 0;
}
