// bench-plain BYTES: has so much memory on each of two GPUs, says `ready`, and for each line of its
// standard input copies that of the first to the second through pinned memory of the host, both
// ways at once, and says how many milliseconds that took. At the end it says `right` if the bytes
// are there. This is what a move's stop is held against: no kernel, no object, nothing to agree on.
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include "contents.h"

#define PIECES 16u
#define PIECE (512u << 10)

static struct {
  size_t bytes;
  CUcontext contexts[2];
  CUdeviceptr memory[2];
  unsigned char *pinned;
  sem_t empty, full;
} copy;

static size_t length_at(size_t at) { return copy.bytes - at < PIECE ? copy.bytes - at : PIECE; }

static void *put(void *unused) {
  (void)unused;
  CHECK(cuCtxSetCurrent(copy.contexts[1]));
  for (size_t at = 0, i = 0; at < copy.bytes; at += PIECE, i++) {
    sem_wait(&copy.full);
    CHECK(cuMemcpyHtoD_v2(copy.memory[1] + at, copy.pinned + i % PIECES * PIECE, length_at(at)));
    sem_post(&copy.empty);
  }
  CHECK(cuCtxSynchronize());
  return NULL;
}

static void get(void) {
  CHECK(cuCtxSetCurrent(copy.contexts[0]));
  for (size_t at = 0, i = 0; at < copy.bytes; at += PIECE, i++) {
    sem_wait(&copy.empty);
    CHECK(cuMemcpyDtoH_v2(copy.pinned + i % PIECES * PIECE, copy.memory[0] + at, length_at(at)));
    sem_post(&copy.full);
  }
}

int main(int argc, char **argv) {
  copy.bytes = argc == 2 ? strtoull(argv[1], NULL, 10) / sizeof(uint64_t) * 8 : 0;
  if (!copy.bytes) FAIL("usage: bench-plain BYTES");
  CHECK(cuInit(0));
  for (int i = 0; i < 2; i++) {
    CUdevice device;
    CHECK(cuDeviceGet(&device, i));
    CHECK(cuDevicePrimaryCtxRetain(&copy.contexts[i], device));
    CHECK(cuCtxSetCurrent(copy.contexts[i]));
    CHECK(cuMemAlloc_v2(&copy.memory[i], copy.bytes));
    // The second one's, too, so that it is there.
    contents_fill(copy.memory[i], copy.bytes);
  }
  CHECK(cuMemHostAlloc((void **)&copy.pinned, (size_t)PIECES * PIECE, CU_MEMHOSTALLOC_PORTABLE));
  CHECK(cuMemsetD8_v2(copy.memory[1], 1, copy.bytes));
  CHECK(cuCtxSynchronize());
  sem_init(&copy.empty, 0, PIECES);
  sem_init(&copy.full, 0, 0);
  printf("ready\n");
  fflush(stdout);
  char line[64];
  while (read(0, line, sizeof line) > 0) {
    const double begun = now_us();
    pthread_t putting;
    if (pthread_create(&putting, NULL, put, NULL)) FAIL("no thread");
    get();
    pthread_join(putting, NULL);
    printf("%.3f\n", (now_us() - begun) / 1e3);
    fflush(stdout);
  }
  CHECK(cuCtxSetCurrent(copy.contexts[1]));
  contents_check(copy.memory[1], copy.bytes);
  printf("right\n");
  return 0;
}
