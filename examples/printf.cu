// printf from the device. One thread prints, so the order is fixed; then many threads each print
// a line of their own, whose order is open, so those are sorted before they are shown. The text is
// caught on its way to stdout and compared with what the CPU's printf makes of the same values.

#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/arguments.h"
#include "support/check.h"

// The same source for both sides: what is compared is the two printfs, and nothing else.
__host__ __device__ inline void print_values() {
  printf("%d %5d|%-5d|%05d %u %x %#X %o\n", -42, 42, 42, 42, 4000000000u, 255, 255, 8);
  printf("%lld %llu %lx %c %s %%\n", -1234567890123ll, 18000000000000000000ull,
         0xfedcba9876543210ul, 'x', "text");
  printf("%f %.3f %10.2f|%e %g %+.1f\n", 3.14159, 2.71828f, -1.5, 12345.678, 0.0001, 9.99);
  printf("a line without values\n");
}

__host__ __device__ inline void print_square(int block, int thread, int i) {
  printf("block %d thread %2d: %d squared is %d\n", block, thread, i, i * i);
}

__global__ void print_one() { print_values(); }

__global__ void print_many() {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i % 3 == 0) print_square(blockIdx.x, threadIdx.x, i);
}

// What goes to file descriptor 1 while a function runs, whoever writes it, and however.
template <typename Function>
static std::string caught(Function function) {
  std::fflush(stdout);
  FILE *file = std::tmpfile();
  int kept = dup(STDOUT_FILENO);
  if (!file || kept < 0 || dup2(fileno(file), STDOUT_FILENO) < 0) {
    std::perror("printf: cannot catch stdout in a temporary file");
    std::exit(1);
  }
  function();
  std::fflush(stdout);
  dup2(kept, STDOUT_FILENO);
  close(kept);
  std::string text;
  char part[4096];
  std::rewind(file);
  for (size_t size; (size = std::fread(part, 1, sizeof part, file)) > 0;) text.append(part, size);
  std::fclose(file);
  return text;
}

static std::string sorted_lines(const std::string &text) {
  std::vector<std::string> lines;
  for (size_t start = 0; start < text.size();) {
    size_t end = std::min(text.find('\n', start), text.size() - 1);
    lines.push_back(text.substr(start, end + 1 - start));
    start = end + 1;
  }
  std::sort(lines.begin(), lines.end());
  std::string sorted;
  for (const std::string &line : lines) sorted += line;
  return sorted;
}

static bool same(const char *what, const std::string &device, const std::string &cpu) {
  if (device == cpu) return true;
  std::fprintf(stderr, "printf: wrong: %s printed\n%sthe CPU prints\n%s", what, device.c_str(),
               cpu.c_str());
  return false;
}

int main(int argc, char **argv) {
  Arguments arguments(argc, argv, "Prints from the device and compares with the CPU's printf.");
  const int blocks = arguments.integer("--blocks", 2, 1, 64, "blocks of the second kernel");
  arguments.finish();
  const int threads = 32;

  std::string one = caught([] {
    print_one<<<1, 1>>>();
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
  });
  std::string many = sorted_lines(caught([&] {
    print_many<<<blocks, threads>>>();
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
  }));

  std::string one_expected = caught(print_values);
  std::string many_expected = sorted_lines(caught([&] {
    for (int i = 0; i < blocks * threads; i += 3) print_square(i / threads, i % threads, i);
  }));
  if (!same("one thread", one, one_expected) || !same("many threads", many, many_expected))
    return 1;
  std::printf("%s%sprintf: %zu bytes, correct\n", one.c_str(), many.c_str(),
              one.size() + many.size());
  return 0;
}
