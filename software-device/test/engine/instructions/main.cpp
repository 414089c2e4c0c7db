// instructions [family [part-of-an-instruction]]
// instructions --write FOLDER | --check FOLDER       the tables of docs/software-device
#include <cstdio>
#include <cstring>

#include "../rig.h"
#include "harness.h"

int main(int argc, char **argv) {
  using namespace harness;
  if (rig::lacks_instruction_set()) return rig::kSkipped;
  struct Family {
    const char *name;
    void (*cases)();
  };
  const Family families[] = {
      {"integer", integer_cases}, {"bits", bit_cases},        {"single", single_cases},
      {"double", double_cases},   {"half", half_cases},       {"convert", convert_cases},
      {"small", small_cases},     {"compare", compare_cases}, {"set", set_cases},
      {"pack", pack_cases},       {"video", video_cases},     {"memory", memory_cases},
      {"atomic", atomic_cases}};
  const char *what = argc > 1 ? argv[1] : "all";
  bool write = std::strcmp(what, "--write") == 0, check = std::strcmp(what, "--check") == 0;
  if ((write || check) && argc != 3) {
    std::fprintf(stderr, "needs a folder\n");
    return 2;
  }
  bool known = false;
  for (const Family &family : families) {
    if (!write && !check && std::strcmp(what, "all") != 0 && std::strcmp(what, family.name) != 0)
      continue;
    family.cases();
    known = true;
  }
  if (!known) {
    std::fprintf(stderr, "unknown family '%s'\n", what);
    return 2;
  }
  if (write) return write_tables(argv[2]);
  if (check) return check_tables(argv[2]);
  return run_all(argc > 2 ? argv[2] : "");
}
