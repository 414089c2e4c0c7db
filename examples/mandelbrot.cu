// The Mandelbrot set: neighbouring threads leave the same loop after very different numbers of
// turns. Every multiplication that could be contracted with an addition is written as fmaf, so
// that the compiler has nothing to choose and CPU and device count exactly the same turns.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "support/arguments.h"
#include "support/check.h"
#include "support/checksum.h"
#include "support/stopwatch.h"

struct View {
  int width, height, limit;
  float left, top, step;
};

__host__ __device__ inline int turns(const View &view, int column, int row) {
  float cx = fmaf(static_cast<float>(column), view.step, view.left);
  float cy = fmaf(static_cast<float>(row), -view.step, view.top);
  float x = 0, y = 0;
  int count = 0;
  while (count < view.limit && fmaf(x, x, y * y) <= 4.0f) {
    float next = fmaf(x, x, fmaf(-y, y, cx));
    y = fmaf(x + x, y, cy);
    x = next;
    count++;
  }
  return count;
}

__global__ void mandelbrot(View view, int *counts) {
  int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  if (column >= view.width || row >= view.height) return;
  counts[row * view.width + column] = turns(view, column, row);
}

// A PPM in colour or a PGM in grey, as the name ends; the inside of the set is black.
static bool write_picture(const std::string &path, const View &view,
                          const std::vector<int> &counts) {
  const bool grey = path.compare(path.size() - 4, 4, ".pgm") == 0;
  std::vector<uint8_t> bytes;
  for (int count : counts) {
    int shade = count == view.limit ? 0 : 255 - 255 / (1 + count / 4);
    bytes.push_back(count == view.limit ? 0 : grey ? shade : count * 7 % 256);
    if (grey) continue;
    bytes.push_back(shade);
    bytes.push_back(count == view.limit ? 0 : 96 + shade / 2);
  }
  FILE *file = std::fopen(path.c_str(), "wb");
  if (!file) return false;
  std::fprintf(file, "%s\n%d %d\n255\n", grey ? "P5" : "P6", view.width, view.height);
  bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  return std::fclose(file) == 0 && written;
}

int main(int argc, char **argv) {
  Arguments arguments(argc, argv, "Draws the Mandelbrot set and checks every pixel's count.");
  View view;
  view.width = arguments.integer("--width", 384, 1, 16384, "columns");
  view.height = arguments.integer("--height", 256, 1, 16384, "rows");
  view.limit = arguments.integer("--iterations", 200, 1, 1000000, "turns before giving up");
  std::string out = arguments.text("--out", "", "FILE", "write a picture, FILE.ppm or FILE.pgm");
  Stopwatch watch(arguments.flag("--time", "print timings on stderr"));
  std::string ending = out.size() > 4 ? out.substr(out.size() - 4) : "";
  if (!out.empty() && ending != ".ppm" && ending != ".pgm") {
    arguments.complain("--out must end in .ppm or .pgm, not '" + out + "'");
  }
  arguments.finish();
  view.step = 3.0f / static_cast<float>(view.width);
  view.left = -2.25f;
  view.top = view.step * static_cast<float>(view.height) / 2;

  const size_t pixels = static_cast<size_t>(view.width) * view.height, bytes = pixels * sizeof(int);
  std::vector<int> counts(pixels);
  int *device_counts;
  CHECK(cudaMalloc(&device_counts, bytes));
  dim3 block(16, 16), grid((view.width + 15) / 16, (view.height + 15) / 16);
  mandelbrot<<<grid, block>>>(view, device_counts);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(counts.data(), device_counts, bytes, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(device_counts));
  watch.lap("device");

  size_t inside = 0;
  for (int row = 0; row < view.height; row++) {
    for (int column = 0; column < view.width; column++) {
      int count = counts[static_cast<size_t>(row) * view.width + column];
      int expected = turns(view, column, row);
      if (count != expected) {
        std::fprintf(stderr, "mandelbrot: wrong: column %d, row %d took %d turns, on the CPU %d\n",
                     column, row, count, expected);
        return 1;
      }
      inside += count == view.limit;
    }
  }
  watch.lap("CPU");
  if (!out.empty() && !write_picture(out, view, counts)) {
    std::fprintf(stderr, "mandelbrot: cannot write %s: %s\n", out.c_str(), std::strerror(errno));
    return 1;
  }
  std::printf("mandelbrot: %d x %d, %zu pixels inside, checksum %016llx, correct\n", view.width,
              view.height, inside, static_cast<unsigned long long>(checksum(counts.data(), bytes)));
  return 0;
}
