// instructions [family [part-of-an-instruction]]
// instructions --write ROOT | --check ROOT   the page in docs/ and the list beside this folder
//
// A family is what one instruction does to a lane's values, on many of them (harness.h), or a
// folder of tests that say themselves what they have proven (proven.h).
#include <cstdio>
#include <cstring>

#include "../behaviour/check.h"
#include "harness.h"

namespace {

constexpr const char *kFolders[] = {"matrix", "images", "warp", "order", "async", "control"};

int run_folder(const char *name, const char *part) {
  int run = check::run_tests(name, part);
  std::printf("%d tests, %d failures\n", run, check::failures);
  return check::failures || !run ? 1 : 0;
}

}  // namespace

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
    std::fprintf(stderr, "needs the root of the checkout\n");
    return 2;
  }
  for (const char *folder : kFolders)
    if (std::strcmp(what, folder) == 0) return run_folder(folder, argc > 2 ? argv[2] : "");
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
  if (write || check) {
    // What a folder's tests have proven is known when they have run.
    for (const char *folder : kFolders) check::run_tests(folder, "", true);
    if (check::failures) return 1;
    return write ? write_tables(argv[2]) : check_tables(argv[2]);
  }
  return run_all(argc > 2 ? argv[2] : "");
}
