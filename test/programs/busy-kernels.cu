// Keeps a GPU busy until it is killed, with so many kernels on their way that it always has one.
//
//   busy-kernels TURNS NUMBER    says after each so many kernels of so many turns that they have
//   ended
#include <cstdlib>

#include "check.h"

constexpr int kAhead = 8;

__global__ void spin(unsigned turns, unsigned *out) {
  unsigned x = threadIdx.x;
  for (unsigned i = 0; i < turns; i++) x = x * 1664525u + 1013904223u;
  if (x == 1) *out = x;
}

int main(int argc, char **argv) {
  const unsigned turns = argc > 1 ? (unsigned)atoi(argv[1]) : 25'000;
  const int number = argc > 2 ? atoi(argv[2]) : 16;
  unsigned *out;
  CHECK(cudaMalloc(&out, sizeof *out));
  cudaEvent_t ends[kAhead];
  for (cudaEvent_t &end : ends) CHECK(cudaEventCreateWithFlags(&end, cudaEventDisableTiming));
  for (unsigned long i = 0;; i++) {
    // One that was never recorded is done.
    CHECK(cudaEventSynchronize(ends[i % kAhead]));
    if (i >= kAhead) printf("ended\n");
    fflush(stdout);
    for (int k = 0; k < number; k++) {
      spin<<<8, 32>>>(turns, out);
      CHECK(cudaGetLastError());
    }
    CHECK(cudaEventRecord(ends[i % kAhead]));
  }
}
