// instructions [family [part-of-an-instruction]]
#include <cstdio>
#include <cstring>

#include "harness.h"

int main(int argc, char **argv) {
  using namespace harness;
  struct Family {
    const char *name;
    void (*cases)();
  };
  const Family families[] = {{"integer", integer_cases}, {"bits", bit_cases},
                             {"single", single_cases},   {"double", double_cases},
                             {"half", half_cases},       {"convert", convert_cases},
                             {"compare", compare_cases}};
  bool known = false;
  for (const Family &family : families) {
    if (argc > 1 && std::strcmp(argv[1], "all") != 0 && std::strcmp(argv[1], family.name) != 0)
      continue;
    family.cases();
    known = true;
  }
  if (!known) {
    std::fprintf(stderr, "unknown family '%s'\n", argv[1]);
    return 2;
  }
  return run_all(argc > 2 ? argv[2] : "");
}
