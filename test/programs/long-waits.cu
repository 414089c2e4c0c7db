// Waits of a second each, for a stream, an event and the device: how much of that the program's own
// processor time is goes to stderr.
#include <unistd.h>

#include <ctime>

#include "check.h"

static double seconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

static void CUDART_CB hold(void *) { sleep(1); }

template <class Wait>
static void measured(const char *what, cudaStream_t stream, Wait wait) {
  CHECK(cudaLaunchHostFunc(stream, hold, nullptr));
  const double used = seconds(CLOCK_PROCESS_CPUTIME_ID), began = seconds(CLOCK_MONOTONIC);
  wait();
  const double share =
      (seconds(CLOCK_PROCESS_CPUTIME_ID) - used) / (seconds(CLOCK_MONOTONIC) - began);
  printf("%s\n", what);
  fprintf(stderr, "%s: %.2f %%\n", what, share * 100);
}

int main() {
  cudaStream_t stream;
  cudaEvent_t event;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaEventCreate(&event));
  measured("a stream", stream, [&] { CHECK(cudaStreamSynchronize(stream)); });
  measured("an event", stream, [&] {
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaEventSynchronize(event));
  });
  measured("the device", stream, [&] { CHECK(cudaDeviceSynchronize()); });
  // A copy that another stream's work comes before.
  void *device, *host;
  CHECK(cudaMalloc(&device, 1 << 20));
  CHECK(cudaMallocHost(&host, 1 << 20));
  measured("a copy", stream, [&] {
    CHECK(cudaMemcpyAsync(host, device, 1 << 20, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
  });
  measured("a blocking copy", stream,
           [&] { CHECK(cudaMemcpy(host, device, 64, cudaMemcpyDeviceToHost)); });
}
