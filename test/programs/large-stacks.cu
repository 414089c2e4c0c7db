// All of the memory that there is, and kernels whose threads have large stacks: what is allocated
// is there, stacks as a program usually has them run beside it, and who asks for too much is told
// at once.
#include <vector>

#include "check.h"

constexpr size_t kPiece = 16 << 20;

template <int kBytes>
__global__ void deep(unsigned *at) {
  volatile unsigned room[kBytes / 4];
  for (int i = 0; i < kBytes / 4; i++) room[i] = i;
  unsigned sum = 0;
  for (int i = 0; i < kBytes / 4; i++) sum += room[(i * 7) % (kBytes / 4)];
  *at = sum;
}

static unsigned *word;
static std::vector<unsigned char *> pieces;

// Whether the kernel runs. A launch that is refused harms nothing.
template <int kBytes>
static const char *run() {
  deep<kBytes><<<1, 1>>>(word);
  cudaError_t result = cudaGetLastError();
  const cudaError_t waited = cudaDeviceSynchronize();
  if (result == cudaSuccess) result = waited;
  cudaGetLastError();
  return cudaGetErrorName(result);
}

static void take_all() {
  void *memory;
  cudaError_t result;
  for (size_t size = kPiece; size >= kPiece / 8; size /= 2)
    while ((result = cudaMalloc(&memory, size)) == cudaSuccess) {
      CHECK(cudaMemset(memory, 7, size));
      pieces.push_back(static_cast<unsigned char *>(memory));
    }
  cudaGetLastError();
  printf("then: %s\n", cudaGetErrorName(result));
  CHECK(cudaDeviceSynchronize());
  unsigned char byte = 0;
  for (const unsigned char *each : pieces) {
    CHECK(cudaMemcpy(&byte, each, 1, cudaMemcpyDeviceToHost));
    if (byte != 7) exit(1);
  }
}

static void give_half() {
  for (size_t half = pieces.size() / 2; pieces.size() > half; pieces.pop_back())
    CHECK(cudaFree(pieces.back()));
}

int main() {
  CHECK(cudaMalloc(&word, 4));
  take_all();
  // Natively nobody has kept anything back for these.
  fprintf(stderr, "2 KiB beside all: %s\n", run<2048>());
  printf("8 KiB beside all: %s\n", run<8192>());
  give_half();
  printf("2 KiB beside half: %s\n", run<2048>());
  printf("8 KiB beside half: %s\n", run<8192>());
  take_all();
  printf("8 KiB again: %s\n", run<8192>());
  unsigned sum;
  CHECK(cudaMemcpy(&sum, word, 4, cudaMemcpyDeviceToHost));
  printf("sum: %u\n", sum);
  return 0;
}
