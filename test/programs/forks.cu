// A child forked off after CUDA was used cannot use it; the parent goes on.
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

__global__ void set(int *at) { *at = 11; }

int main() {
  int *device;
  CHECK(cudaMalloc(&device, sizeof *device));
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    int value;
    SHOW(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost));
    fflush(stdout);
    _exit(0);
  }
  int status;
  waitpid(child, &status, 0);
  printf("child: %d\n", status);
  set<<<1, 1>>>(device);
  int value = 0;
  CHECK(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost));
  printf("parent: %d\n", value);
  return 0;
}
