// driver-sequences SEED [STEPS [DEVICES [peers]]]: a sequence of driver calls, legal and not, that
// SEED determines, on the libcuda.so.1 that the dynamic linker finds; says what each did. Two
// libraries that behave the same print the same.
// driver-sequences --threads N SEED [...]: N sequences at once, of the seeds from SEED on, which
// get in each other's way. Nothing is said but that they came to their ends.
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

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

[[noreturn]] void usage() {
  fprintf(stderr, "usage: driver-sequences [--threads N] SEED [STEPS [DEVICES [peers]]]\n");
  exit(2);
}

}  // namespace

int main(int count, char **words) {
  unsigned threads = 0;
  if (count > 2 && !strcmp(words[1], "--threads")) {
    threads = static_cast<unsigned>(strtoul(words[2], nullptr, 0));
    count -= 2;
    words += 2;
  }
  if (count < 2) usage();
  library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) {
    fprintf(stderr, "driver-sequences: %s\n", dlerror());
    return 2;
  }
  const uint64_t seed = strtoull(words[1], nullptr, 0);
  const unsigned steps = count > 2 ? static_cast<unsigned>(strtoul(words[2], nullptr, 0)) : 300;
  const unsigned devices = count > 3 ? static_cast<unsigned>(strtoul(words[3], nullptr, 0)) : 1;
  const bool peers = count > 4;
  if (!threads) {
    sequences::World world{sequences::Choices(seed)};
    sequences::run(world, steps, devices, peers, symbol, stdout);
    return 0;
  }
  FILE *nowhere = fopen("/dev/null", "w");
  std::vector<std::thread> running;
  for (unsigned i = 0; i < threads; i++)
    running.emplace_back([=] {
      // Not ended: while another captures, nobody may wait for the work that uses its memory.
      auto *world = new sequences::World(sequences::Choices(seed + i));
      sequences::run(*world, steps, devices, peers, symbol, nowhere);
    });
  for (std::thread &thread : running) thread.join();
  printf("%u sequences of %u steps\n", threads, steps);
  return 0;
}
