// Copies for ever: to be killed in the middle.
#include <vector>

#include "check.h"

int main() {
  std::vector<char> host(64 << 20, 1);
  char *device;
  CHECK(cudaMalloc(&device, host.size()));
  CHECK(cudaMemcpy(device, host.data(), host.size(), cudaMemcpyHostToDevice));
  printf("copying\n");
  fflush(stdout);
  for (;;) {
    CHECK(cudaMemcpy(device, host.data(), host.size(), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(host.data(), device, host.size(), cudaMemcpyDeviceToHost));
  }
}
