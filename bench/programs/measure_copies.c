// Copies of pageable and of pinned memory with random contents; GiB/s, counted until the last byte
// is there.
#include <string.h>

#include "measure.h"
#include "raw.h"
#include "session.h"

static void fill_randomly(void *bytes, size_t size, uint64_t seed) {
  uint64_t *words = bytes, state = 0x9e3779b97f4a7c15u * seed;
  for (size_t i = 0; i < size / sizeof *words; i++) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    words[i] = state;
  }
}

static double rate(size_t size, int count, double microseconds) {
  return (double)size * count / (1 << 30) / (microseconds * 1e-6);
}

struct way {
  struct session session;
  size_t size;
  // Pageable memory is copied one copy after the other. Pinned memory is copied by the calls that
  // it is for, with one wait behind all copies.
  bool pinned;
};

static double upload(const struct way *way, const void *data, int count) {
  CUdeviceptr to = way->session.memory;
  double start = now_us();
  for (int i = 0; i < count; i++)
    CHECK(way->pinned ? cuMemcpyHtoDAsync_v2(to, data, way->size, NULL)
                      : cuMemcpyHtoD_v2(to, data, way->size));
  CHECK(cuCtxSynchronize());
  return rate(way->size, count, now_us() - start);
}

static double raw_upload(int fd, const void *data, size_t size, int count) {
  raw_ask(fd, (struct raw_request){.count = (uint64_t)count, .in = size, .out = 0});
  double start = now_us();
  for (int i = 0; i < count; i++) raw_send(fd, data, size);
  raw_finished(fd);
  return rate(size, count, now_us() - start);
}

static double download(const struct way *way, void *data, int count) {
  CUdeviceptr from = way->session.memory;
  double start = now_us();
  for (int i = 0; i < count; i++)
    CHECK(way->pinned ? cuMemcpyDtoHAsync_v2(data, from, way->size, NULL)
                      : cuMemcpyDtoH_v2(data, from, way->size));
  if (way->pinned) CHECK(cuCtxSynchronize());
  return rate(way->size, count, now_us() - start);
}

// Each copy is asked for by itself, as cuMemcpyDtoH must.
static double raw_download(int fd, void *data, size_t size, int count) {
  static const char ask[40];
  raw_ask(fd, (struct raw_request){.count = (uint64_t)count, .in = sizeof ask, .out = size});
  double start = now_us();
  for (int i = 0; i < count; i++) {
    raw_send(fd, ask, sizeof ask);
    raw_receive(fd, data, size);
  }
  double done = now_us();
  raw_finished(fd);
  return rate(size, count, done - start);
}

static void *host_memory(size_t size, bool pinned) {
  void *bytes;
  if (pinned) {
    CHECK(cuMemHostAlloc(&bytes, size, 0));
  } else if (!(bytes = malloc(size))) {
    FAIL("no memory for %zu bytes", size);
  }
  return bytes;
}

static void measure(const struct plan *plan, bool up, bool pinned) {
  size_t size = plan->size;
  struct way way = {session_open(size), size, pinned};
  int fd = plan->port ? raw_connect(plan->port) : -1;
  void *data = host_memory(size, pinned), *back = host_memory(size, pinned);
  fill_randomly(data, size, 1);
  // Warms every buffer on the way, and shows that the bytes are right.
  memset(back, 0, size);
  upload(&way, data, 1);
  download(&way, back, 1);
  if (memcmp(data, back, size)) FAIL("%s: other bytes came back than were sent", plan->name);
  if (fd >= 0) up ? raw_upload(fd, data, size, 1) : raw_download(fd, back, size, 1);
  for (int r = 0; r < plan->repetitions; r++) {
    figure(plan->name, "cuda",
           up ? upload(&way, data, plan->count) : download(&way, back, plan->count));
    if (fd < 0) continue;
    figure(
        plan->name, "raw",
        up ? raw_upload(fd, data, size, plan->count) : raw_download(fd, back, size, plan->count));
  }
}

// The one upload of a process, with contents that `count` chooses: what nobody has sent before, or
// an earlier process has.
void measure_only_upload(const struct plan *plan) {
  struct way way = {session_open(plan->size), plan->size, false};
  void *data = host_memory(plan->size, false), *back = host_memory(plan->size, false);
  fill_randomly(data, plan->size, (uint64_t)plan->count);
  figure(plan->name, "cuda", upload(&way, data, 1));
  download(&way, back, 1);
  if (memcmp(data, back, plan->size)) FAIL("%s: other bytes came back than were sent", plan->name);
}

void measure_upload(const struct plan *plan) { measure(plan, true, false); }
void measure_download(const struct plan *plan) { measure(plan, false, false); }
void measure_pinned_upload(const struct plan *plan) { measure(plan, true, true); }
void measure_pinned_download(const struct plan *plan) { measure(plan, false, true); }
