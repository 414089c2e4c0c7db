#include "stats.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "guest_calls.h"

static struct stats private_stats = {
    .magic = STATS_MAGIC, .version = STATS_VERSION, .call_count = CALL_COUNT};
struct stats *_Atomic guest_stats = &private_stats;

_Static_assert(CALL_COUNT <= sizeof private_stats.by_call / sizeof *private_stats.by_call,
               "a counter for every call");

int stats_open(const char *path) {
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return errno;
  if (ftruncate(fd, sizeof(struct stats)) != 0) {
    int error = errno;
    close(fd);
    return error;
  }
  struct stats *mapped =
      mmap(NULL, sizeof(struct stats), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  int error = errno;
  close(fd);
  if (mapped == MAP_FAILED) return error;
  // A file from an earlier run starts again from nothing; what was counted before the file was
  // opened (the first calls of this process) moves along.
  *mapped = *guest_stats;
  guest_stats = mapped;
  return 0;
}
