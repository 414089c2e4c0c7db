#include "base/counters.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <new>

#include "base/error.h"

namespace outboard {

std::shared_ptr<Counters> Counters::map() {
  const int fd = memfd_create("outboard-counters", MFD_CLOEXEC);
  void *memory = MAP_FAILED;
  if (fd >= 0 && ftruncate(fd, sizeof(Counters)) == 0) {
    memory = mmap(nullptr, sizeof(Counters), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  const int failure = errno;
  if (fd >= 0) close(fd);
  if (memory == MAP_FAILED) {
    throw Error("OB_INTERNAL", std::string("no shared memory for counters: ") + strerror(failure));
  }
  return {new (memory) Counters, [](Counters *c) { munmap(c, sizeof *c); }};
}

}  // namespace outboard
