// The buffer of device printf: of the size that was set, and the newest text stays in it.
#include <unistd.h>
#include <cstdio>
#include <cstring>
#include <string>

#include "../check.h"

__global__ void count_to(int lines, int *returned) {
  for (int i = 0; i < lines; i++) *returned = printf("line %06d of many\n", i);
}
__global__ void wide(int *returned) { *returned = printf("%09999d|%09999d\n", 1, 2); }

// What came out since the last time, with standard output in a file.
struct Captured {
  FILE *file = tmpfile();
  int before = dup(1);
  long from = 0;
  Captured() {
    fflush(stdout);
    dup2(fileno(file), 1);
  }
  std::string take() {
    fflush(stdout);
    std::string text;
    char part[4096];
    for (ssize_t got; (got = pread(fileno(file), part, sizeof part, from)) > 0; from += got)
      text.append(part, static_cast<size_t>(got));
    lseek(1, from, SEEK_SET);
    return text;
  }
  void end() {
    fflush(stdout);
    dup2(before, 1);
  }
};

constexpr int size = 20;  // of a line

// Whole lines up to the last one, as many as there was room for.
bool is_the_end(const std::string &text, int lines, size_t most) {
  if (text.empty() || text.size() % size || text.size() > most) return false;
  int line = lines - static_cast<int>(text.size()) / size;
  for (size_t at = 0; at < text.size(); at += size, line++) {
    char wanted[64];
    snprintf(wanted, sizeof wanted, "line %06d of many\n", line);
    if (text.compare(at, size, wanted) != 0) return false;
  }
  return true;
}

int main() {
  int *returned;
  size_t fifo;
  CHECK(cudaMallocManaged(&returned, sizeof *returned));
  CHECK(cudaDeviceGetLimit(&fifo, cudaLimitPrintfFifoSize));
  printf("by itself: %zu\n", fifo);
  SHOW(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, static_cast<size_t>(-1)));
  SHOW(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 0));
  CHECK(cudaDeviceGetLimit(&fifo, cudaLimitPrintfFifoSize));
  printf("there is one: %d\n", fifo > 0);
  SHOW(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 8193));
  CHECK(cudaDeviceGetLimit(&fifo, cudaLimitPrintfFifoSize));
  printf("at least what was asked: %d\n", fifo >= 8193 && fifo < 65536);

  Captured out;
  count_to<<<1, 1>>>(5, returned);
  CHECK(cudaDeviceSynchronize());
  const bool all = is_the_end(out.take(), 5, 5 * size);
  count_to<<<1, 1>>>(5000, returned);
  CHECK(cudaDeviceSynchronize());
  const std::string rest = out.take();
  // What was shown leaves room.
  count_to<<<1, 1>>>(100, returned);
  CHECK(cudaDeviceSynchronize());
  const std::string more = out.take();
  out.end();
  printf("what fits: %d\n", all);
  printf("of what does not, the end: %d\n", is_the_end(rest, 5000, fifo));
  printf("as much as fits: %d\n", rest.size() > fifo / 8);
  printf("and then again what fits: %d\n", is_the_end(more, 100, 100 * size));
  CHECK(cudaDeviceSynchronize());
  printf("arguments: %d\n", *returned);

  // Kernels have used it.
  SHOW(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 1 << 20));
  CHECK(cudaGetLastError() == cudaErrorInvalidValue ? cudaSuccess : cudaErrorUnknown);
  size_t still;
  CHECK(cudaDeviceGetLimit(&still, cudaLimitPrintfFifoSize));
  printf("it is what it was: %d\n", still == fifo);

  Captured again;
  wide<<<1, 1>>>(returned);  // takes more than there is
  CHECK(cudaDeviceSynchronize());
  const std::string nothing = again.take();
  again.end();
  printf("not a part of a call: %d\n", nothing.empty() || nothing.size() == 20000);
  return 0;
}
