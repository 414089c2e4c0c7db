// Run while CMake configures: says which variant of the handlers the device would choose here.
#include <cstdio>

#include "execute/processor.h"

int main() {
  const char *best = "baseline";
  if (softdev::has_v3()) best = "v3";
  if (softdev::has_v4()) best = "v4";
  std::fputs(best, stdout);
}
