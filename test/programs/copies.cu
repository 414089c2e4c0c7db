// Copies of any size from and to any place, by several threads at once: of pageable and of pinned
// memory, waited for and not, on every device. Where it is told anything, at least until its
// standard input ends.
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "check.h"

constexpr size_t size = 12 << 20;
constexpr size_t pinned_size = 4 << 20;
constexpr int rounds = 40;
static std::atomic<bool> goes_on{false};

struct Random {
  unsigned state;
  size_t below(size_t end) {
    state = state * 1664525 + 1013904223;
    return (state >> 3) % end;
  }
};

static void fill(char *bytes, size_t count, unsigned seed) {
  for (size_t i = 0; i < count; i++) bytes[i] = static_cast<char>((seed = seed * 69069 + 1) >> 24);
}

// One thread: what it has copied to the device, it knows; what comes back must be that.
static void work(int device, int number, bool *right) {
  CHECK(cudaSetDevice(device));
  Random random{static_cast<unsigned>(device * 16 + number + 1)};
  std::vector<char> mirror(size), own(size);
  char *memory, *pinned;
  cudaStream_t stream;
  CHECK(cudaMalloc(&memory, size));
  CHECK(cudaMallocHost(&pinned, pinned_size));
  CHECK(cudaStreamCreate(&stream));
  fill(mirror.data(), size, random.state);
  CHECK(cudaMemcpy(memory, mirror.data(), size, cudaMemcpyHostToDevice));
  *right = true;
  for (int round = 0; round < rounds || goes_on; round++) {
    const bool is_pinned = round % 2, asynchronous = round % 3 == 0;
    const size_t most = is_pinned ? pinned_size : round % 8 == 0 ? size : size / 8;
    const size_t count = 1 + random.below(most - 64), skew = random.below(64);
    const size_t at = random.below(size - count);
    char *bytes = (is_pinned ? pinned : own.data()) + (skew + count < most ? skew : 0);
    if (round / 2 % 2) {
      fill(bytes, count, random.state);
      memcpy(mirror.data() + at, bytes, count);
      CHECK(asynchronous
                ? cudaMemcpyAsync(memory + at, bytes, count, cudaMemcpyHostToDevice, stream)
                : cudaMemcpy(memory + at, bytes, count, cudaMemcpyHostToDevice));
      // Pinned memory is read when its turn comes.
      if (asynchronous) CHECK(cudaStreamSynchronize(stream));
    } else if (asynchronous && is_pinned) {
      // Several at once into parts that follow one another.
      const size_t part = count / 3 + 1;
      memset(bytes, 0, count);
      for (size_t from = 0; from < count; from += part) {
        const size_t now = part < count - from ? part : count - from;
        CHECK(
            cudaMemcpyAsync(bytes + from, memory + at + from, now, cudaMemcpyDeviceToHost, stream));
      }
      CHECK(cudaMemsetAsync(memory + at, 0x5a, count, stream));
      CHECK(cudaStreamSynchronize(stream));
      *right = *right && !memcmp(bytes, mirror.data() + at, count);
      memset(mirror.data() + at, 0x5a, count);
    } else {
      memset(bytes, 0, count);
      CHECK(asynchronous
                ? cudaMemcpyAsync(bytes, memory + at, count, cudaMemcpyDeviceToHost, stream)
                : cudaMemcpy(bytes, memory + at, count, cudaMemcpyDeviceToHost));
      if (asynchronous) CHECK(cudaStreamSynchronize(stream));
      *right = *right && !memcmp(bytes, mirror.data() + at, count);
    }
  }
  CHECK(cudaMemcpy(own.data(), memory, size, cudaMemcpyDeviceToHost));
  *right = *right && own == mirror;
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFreeHost(pinned));
  CHECK(cudaFree(memory));
}

int main(int argc, char **) {
  goes_on = argc > 1;
  int devices = 0;
  CHECK(cudaGetDeviceCount(&devices));
  constexpr int each = 3;
  bool right[8 * each] = {};
  std::vector<std::thread> threads;
  for (int device = 0; device < devices; device++) {
    for (int i = 0; i < each; i++) {
      threads.emplace_back(work, device, i, &right[device * each + i]);
    }
  }
  while (goes_on && getchar() != EOF) {
  }
  goes_on = false;
  for (std::thread &thread : threads) thread.join();
  bool all = true;
  for (int i = 0; i < devices * each; i++) all = all && right[i];
  printf("what came back: %s\n", all ? "right" : "WRONG");
}
