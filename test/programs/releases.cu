// Works as a function that is called again and again, and resets the device at the end of each
// call, as one does whose session is to be released between calls (OUTBOARD_RELEASE). The argument
// says how often. After each it waits for a line of input.
#include <cstdlib>

#include "check.h"

__device__ int launches;

__global__ void add(const int *in, int *sum, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) atomicAdd(sum, in[i]);
  if (i == 0) launches++;
}

static void call() {
  enum { COUNT = 1024 };
  int in[COUNT], sum = 0, seen, *on_device;
  for (int i = 0; i < COUNT; i++) in[i] = i;
  CHECK(cudaMalloc(&on_device, sizeof in + sizeof sum));
  CHECK(cudaMemcpy(on_device, in, sizeof in, cudaMemcpyHostToDevice));
  CHECK(cudaMemset(on_device + COUNT, 0, sizeof sum));
  add<<<COUNT / 128, 128>>>(on_device, on_device + COUNT, COUNT);
  CHECK(cudaMemcpy(&sum, on_device + COUNT, sizeof sum, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpyFromSymbol(&seen, launches, sizeof seen));
  printf("sum %d, launches %d\n", sum, seen);
}

int main(int argc, char **argv) {
  for (int left = argc > 1 ? atoi(argv[1]) : 1; left; left--) {
    call();
    CHECK(cudaDeviceReset());
    printf("reset\n");
    fflush(stdout);
    char line[64];
    if (!fgets(line, sizeof line, stdin)) return 3;
  }
  return 0;
}
