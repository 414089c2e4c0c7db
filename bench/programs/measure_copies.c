// Copies of pageable memory with random contents; GiB/s, counted until the last byte is there.
#include <string.h>

#include "measure.h"
#include "raw.h"
#include "session.h"

static unsigned char *random_bytes(size_t size) {
  uint64_t *words = malloc(size);
  if (!words) FAIL("no memory for %zu bytes", size);
  uint64_t state = 0x9e3779b97f4a7c15u;
  for (size_t i = 0; i < size / sizeof *words; i++) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    words[i] = state;
  }
  return (unsigned char *)words;
}

static double rate(size_t size, int count, double microseconds) {
  return (double)size * count / (1 << 30) / (microseconds * 1e-6);
}

static double upload(const struct session *session, const void *data, size_t size, int count) {
  double start = now_us();
  for (int i = 0; i < count; i++) CHECK(cuMemcpyHtoD_v2(session->memory, data, size));
  CHECK(cuCtxSynchronize());
  return rate(size, count, now_us() - start);
}

static double raw_upload(int fd, const void *data, size_t size, int count) {
  raw_ask(fd, (struct raw_request){.count = (uint64_t)count, .in = size, .out = 0});
  double start = now_us();
  for (int i = 0; i < count; i++) raw_send(fd, data, size);
  raw_finished(fd);
  return rate(size, count, now_us() - start);
}

static double download(const struct session *session, void *data, size_t size, int count) {
  double start = now_us();
  for (int i = 0; i < count; i++) CHECK(cuMemcpyDtoH_v2(data, session->memory, size));
  return rate(size, count, now_us() - start);
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

static void measure(const struct plan *plan, bool up) {
  size_t size = plan->size;
  struct session session = session_open(size);
  int fd = plan->port ? raw_connect(plan->port) : -1;
  unsigned char *data = random_bytes(size), *back = malloc(size);
  if (!back) FAIL("no memory for %zu bytes", size);
  // Warms every buffer on the way, and shows that the bytes are right.
  memset(back, 0, size);
  upload(&session, data, size, 1);
  download(&session, back, size, 1);
  if (memcmp(data, back, size)) FAIL("%s: other bytes came back than were sent", plan->name);
  if (fd >= 0) up ? raw_upload(fd, data, size, 1) : raw_download(fd, back, size, 1);
  for (int r = 0; r < plan->repetitions; r++) {
    figure(plan->name, "cuda",
           up ? upload(&session, data, size, plan->count)
              : download(&session, back, size, plan->count));
    if (fd < 0) continue;
    figure(
        plan->name, "raw",
        up ? raw_upload(fd, data, size, plan->count) : raw_download(fd, back, size, plan->count));
  }
}

void measure_upload(const struct plan *plan) { measure(plan, true); }
void measure_download(const struct plan *plan) { measure(plan, false); }
