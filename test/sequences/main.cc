// driver-sequences SEED [STEPS [DEVICES [peers]]]: a sequence of driver calls, legal and not, that
// SEED determines, on the libcuda.so.1 that the dynamic linker finds; says what each did. Two
// libraries that behave the same print the same.
#include <dlfcn.h>

#include <cstdlib>

#include "sequence.h"

namespace {

void *library;

void *symbol(const char *name) {
  void *found = dlsym(library, name);
  if (!found) {
    fprintf(stderr, "driver-sequences: the library has no %s\n", name);
    exit(2);
  }
  return found;
}

}  // namespace

int main(int count, char **words) {
  if (count < 2) {
    fprintf(stderr, "usage: driver-sequences SEED [STEPS [DEVICES [peers]]]\n");
    return 2;
  }
  library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) {
    fprintf(stderr, "driver-sequences: %s\n", dlerror());
    return 2;
  }
  const uint64_t seed = strtoull(words[1], nullptr, 0);
  const unsigned steps = count > 2 ? static_cast<unsigned>(strtoul(words[2], nullptr, 0)) : 300;
  const unsigned devices = count > 3 ? static_cast<unsigned>(strtoul(words[3], nullptr, 0)) : 1;
  const bool peers = count > 4;
  sequences::run(sequences::Choices(seed), steps, devices, peers, symbol, stdout);
  return 0;
}
