#include "session.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/stats.h"
#include "kernel.h"

struct session session_open(size_t bytes) {
  struct session session;
  CUdevice device;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&session.context, device));
  CHECK(cuCtxSetCurrent(session.context));
  CHECK(cuModuleLoadData(&session.module, kernel_ptx));
  CHECK(cuModuleGetFunction(&session.kernel, session.module, kernel_name));
  CHECK(cuMemAlloc_v2(&session.memory, bytes));
  return session;
}

void session_launch(const struct session *session) { session_launch_on(session, NULL); }

void session_launch_on(const struct session *session, CUstream stream) {
  CUdeviceptr a = session->memory;
  unsigned b = 7;
  float c = 1.5f;
  void *parameters[] = {&a, &b, &c};
  CHECK(cuLaunchKernel(session->kernel, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL));
}

// The guest library keeps its counters in a file; before the first driver call there is none.
static const struct stats *map_stats(void) {
  const char *path = getenv("OUTBOARD_STATS");
  int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) return NULL;
  struct stat status;
  const struct stats *stats = NULL;
  if (!fstat(fd, &status) && (size_t)status.st_size >= sizeof *stats) {
    void *mapped = mmap(NULL, sizeof *stats, PROT_READ, MAP_SHARED, fd, 0);
    if (mapped != MAP_FAILED) stats = mapped;
  }
  close(fd);
  if (stats && (stats->magic != STATS_MAGIC || stats->version != STATS_VERSION))
    FAIL("%s has counters of another version of the guest library", path);
  return stats;
}

struct cost cost_now(void) {
  static const struct stats *stats;
  if (!stats) stats = map_stats();
  if (!stats) return (struct cost){0, 0, 0, 0};
  return (struct cost){.commands = stats->commands,
                       .round_trips = stats->round_trips,
                       .sent = stats->bytes_sent,
                       .received = stats->bytes_received};
}
