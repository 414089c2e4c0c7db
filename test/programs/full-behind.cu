// Thousands of launches, and copies of many bytes, behind a function of the program that ends when
// a line comes.
#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "check.h"

namespace {

__global__ void add(unsigned *value, unsigned what) { *value += what; }

void wait_for_line(void *) {
  printf("held\n");
  fflush(stdout);
  while (getchar() != '\n') {
  }
}

}  // namespace

int main(int argc, char **argv) {
  const int launches = argc > 1 ? atoi(argv[1]) : 100;
  const size_t pieces = argc > 2 ? strtoul(argv[2], nullptr, 0) : 4;
  constexpr size_t kPiece = 1 << 20;
  unsigned *value, got;
  unsigned char *copies;
  CHECK(cudaMalloc(&value, sizeof *value));
  CHECK(cudaMemset(value, 0, sizeof *value));
  CHECK(cudaMalloc(&copies, kPiece));
  add<<<1, 1>>>(value, 0);
  CHECK(cudaDeviceSynchronize());
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaLaunchHostFunc(stream, wait_for_line, nullptr));
  unsigned expected = 0;
  for (int i = 0; i < launches; i++) {
    add<<<1, 1, 0, stream>>>(value, i);
    expected += i;
  }
  std::vector<unsigned char> host(kPiece), back(kPiece);
  for (size_t i = 0; i < pieces; i++) {
    for (size_t at = 0; at < kPiece; at += 512) host[at] = static_cast<unsigned char>(at / 512 + i);
    CHECK(cudaMemcpyAsync(copies, host.data(), kPiece, cudaMemcpyHostToDevice, stream));
  }
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaMemcpy(&got, value, sizeof got, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(back.data(), copies, kPiece, cudaMemcpyDeviceToHost));
  printf("%s, %s\n", got == expected ? "right" : "WRONG", back == host ? "right" : "WRONG");
  return got != expected || back != host;
}
