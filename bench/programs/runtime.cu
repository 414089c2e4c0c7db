// What a program that is compiled by nvcc with its default settings sees: the figures that the
// runtime has a part in.
//
//   bench-runtime launch REPETITIONS COUNT | attach
#include <cuda_runtime.h>

#include <cstring>

#include "figure.h"

#define CHECK(call)                                                        \
  do {                                                                     \
    cudaError_t check_error = (call);                                      \
    if (check_error) FAIL("%s: %s", #call, cudaGetErrorName(check_error)); \
  } while (0)

__global__ void three(int *a, int b, float c) {
  if (a == nullptr) printf("%d %f\n", b, c);
}

static void launch(int repetitions, int count) {
  int *memory;
  CHECK(cudaMalloc(&memory, 4096));
  for (int i = 0; i < count; i++) three<<<1, 32>>>(memory, 7, 1.5f);
  CHECK(cudaDeviceSynchronize());
  for (int r = 0; r < repetitions; r++) {
    double start = now_us();
    for (int i = 0; i < count; i++) three<<<1, 32>>>(memory, 7, 1.5f);
    double returned = now_us();
    CHECK(cudaDeviceSynchronize());
    figure("runtime-launch", "cuda", (returned - start) / count);
  }
}

// From before the first call of the runtime until the first result is there, in milliseconds.
static void attach() {
  int sent = 0x5eed, result = 0, *memory;
  double start = now_us();
  CHECK(cudaMalloc(&memory, 4096));
  CHECK(cudaMemcpy(memory, &sent, sizeof sent, cudaMemcpyHostToDevice));
  three<<<1, 32>>>(memory, 7, 1.5f);
  CHECK(cudaMemcpy(&result, memory, sizeof result, cudaMemcpyDeviceToHost));
  figure("runtime-attach", "cuda", (now_us() - start) * 1e-3);
  if (result != sent) FAIL("the first result is wrong");
}

int main(int argc, char **argv) {
  if (argc == 2 && !strcmp(argv[1], "attach")) {
    attach();
  } else if (argc == 4 && !strcmp(argv[1], "launch") && atoi(argv[2]) > 0 && atoi(argv[3]) > 0) {
    launch(atoi(argv[2]), atoi(argv[3]));
  } else {
    FAIL("usage: bench-runtime launch REPETITIONS COUNT | attach");
  }
}
