// A kernel that never ends, launched in one of the ways in which a program may be stuck with it,
// and what the program hears when it is ended from outside.
#include <csignal>
#include <cstring>

#include <unistd.h>

#include "check.h"

__global__ void spin(volatile int *at) {
  while (*at == 0) {
  }
}

static void sleeps(void *) {
  for (;;) pause();
}

static void wake(int) {}

int main(int argc, char **argv) {
  const char *how = argc > 1 ? argv[1] : "waits";
  signal(SIGUSR1, wake);
  int *flag;
  CHECK(cudaMalloc(&flag, sizeof *flag));
  CHECK(cudaMemset(flag, 0, sizeof *flag));
  CHECK(cudaDeviceSynchronize());
  if (strcmp(how, "function") == 0) {
    CHECK(cudaLaunchHostFunc(0, sleeps, nullptr));
  } else if (strcmp(how, "idle") != 0) {
    spin<<<1, 32>>>(flag);
    CHECK(cudaGetLastError());
  }
  printf("working\n");
  fflush(stdout);
  if (strcmp(how, "asks") == 0) {
    // Never waits for the device.
    while (cudaStreamQuery(0) == cudaErrorNotReady) usleep(1000);
  } else if (strcmp(how, "sleeps") == 0 || strcmp(how, "idle") == 0) {
    // Nothing at all, until it is told to look again.
    pause();
    cudaMemset(flag, 0, sizeof *flag);
  }
  const cudaError_t result = cudaDeviceSynchronize();
  printf("then: %s\n", cudaGetErrorName(result));
  fflush(stdout);
  _exit(0);
}
