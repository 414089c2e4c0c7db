// Heat spreading over a plate. The plate is cut into bands of rows, and each band has a stream of
// its own: copies from pinned memory, steps and copies back of different bands may overlap. A
// band's step needs the rows beside it, so it waits, on the device, for the events of its two
// neighbours' previous step; the host does not wait before the end.

#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "support/arguments.h"
#include "support/check.h"
#include "support/checksum.h"
#include "support/random.h"
#include "support/stopwatch.h"

constexpr float kConductivity = 0.2f;

// The additions have parentheses and the products are fused by hand: one result, on any machine.
__host__ __device__ inline float cell(const float *heat, int width, int height, int x, int y) {
  const float *here = heat + static_cast<size_t>(y) * width + x;
  if (x == 0 || y == 0 || x == width - 1 || y == height - 1)
    return *here;  // the rim keeps its heat
  float around = (here[-1] + here[1]) + (here[-width] + here[width]);
  return fmaf(kConductivity, fmaf(-4.0f, *here, around), *here);
}

__global__ void step(const float *from, float *to, int width, int height, int first, int last) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = first + blockIdx.y * blockDim.y + threadIdx.y;
  if (x < width && y < last) {
    to[static_cast<size_t>(y) * width + x] = cell(from, width, height, x, y);
  }
}

struct Band {
  int first, last;  // rows
  cudaStream_t stream;
  // Two events in turn: when a band of step n asks for its upper neighbour's step n - 1, that
  // neighbour has already been given step n.
  cudaEvent_t done[2];
};

int main(int argc, char **argv) {
  Arguments arguments(argc, argv, "Spreads heat over a plate, in bands on several streams.");
  const int width = arguments.integer("--width", 512, 3, 16384, "columns");
  const int height = arguments.integer("--height", 512, 3, 16384, "rows");
  const int steps = arguments.integer("--steps", 20, 1, 100000, "steps in time");
  const int streams = arguments.integer("--streams", 4, 1, 64, "bands, each with its stream");
  Stopwatch watch(arguments.flag("--time", "print timings on stderr"));
  if (streams > height) arguments.complain("--streams must not be more than the rows of --height");
  arguments.finish();

  const size_t cells = static_cast<size_t>(width) * height, bytes = cells * sizeof(float);
  float *plate, *result, *device[2];
  CHECK(cudaMallocHost(&plate, bytes));
  CHECK(cudaMallocHost(&result, bytes));
  CHECK(cudaMalloc(&device[0], bytes));
  CHECK(cudaMalloc(&device[1], bytes));
  Random random(5);
  for (size_t i = 0; i < cells; i++) plate[i] = 50.0f + 50.0f * random.unit();
  std::memset(result, 0xff, bytes);

  std::vector<Band> bands(streams);
  for (int i = 0; i < streams; i++) {
    Band &band = bands[i];
    band.first = static_cast<int>(static_cast<long long>(height) * i / streams);
    band.last = static_cast<int>(static_cast<long long>(height) * (i + 1) / streams);
    CHECK(cudaStreamCreateWithFlags(&band.stream, cudaStreamNonBlocking));
    for (cudaEvent_t &event : band.done) {
      CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    }
  }
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  watch.lap("prepare");

  // No stream may start before `begin`, and `end` comes after all of them: the first stream is
  // the one that is measured.
  CHECK(cudaEventRecord(begin, bands[0].stream));
  for (Band &band : bands) {
    const size_t offset = static_cast<size_t>(band.first) * width;
    const size_t size = static_cast<size_t>(band.last - band.first) * width * sizeof(float);
    CHECK(cudaStreamWaitEvent(band.stream, begin, 0));
    CHECK(cudaMemcpyAsync(device[0] + offset, plate + offset, size, cudaMemcpyHostToDevice,
                          band.stream));
    CHECK(cudaEventRecord(band.done[0], band.stream));
  }
  for (int n = 1; n <= steps; n++) {
    for (int i = 0; i < streams; i++) {
      Band &band = bands[i];
      // Waiting for the neighbours' previous step also makes sure that they no longer read the
      // rows which this step overwrites.
      for (int neighbour : {i - 1, i + 1}) {
        if (neighbour < 0 || neighbour >= streams) continue;
        CHECK(cudaStreamWaitEvent(band.stream, bands[neighbour].done[(n - 1) % 2], 0));
      }
      dim3 block(32, 8), grid((width + 31) / 32, (band.last - band.first + 7) / 8);
      step<<<grid, block, 0, band.stream>>>(device[(n - 1) % 2], device[n % 2], width, height,
                                            band.first, band.last);
      CHECK(cudaGetLastError());
      CHECK(cudaEventRecord(band.done[n % 2], band.stream));
    }
  }
  for (Band &band : bands) {
    const size_t offset = static_cast<size_t>(band.first) * width;
    const size_t size = static_cast<size_t>(band.last - band.first) * width * sizeof(float);
    CHECK(cudaMemcpyAsync(result + offset, device[steps % 2] + offset, size, cudaMemcpyDeviceToHost,
                          band.stream));
    CHECK(cudaEventRecord(band.done[(steps + 1) % 2], band.stream));
    CHECK(cudaStreamWaitEvent(bands[0].stream, band.done[(steps + 1) % 2], 0));
  }
  CHECK(cudaEventRecord(end, bands[0].stream));
  CHECK(cudaEventSynchronize(end));  // covers every stream: the only time the host waits
  float milliseconds = -1;
  CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
  watch.lap("device, by host");
  if (watch.wanted())
    std::fprintf(stderr, "time: %-16s %10.3f ms\n", "device, by event", milliseconds);
  if (!(milliseconds >= 0)) {
    std::fprintf(stderr, "stencil: wrong: %g ms passed between two events\n", milliseconds);
    return 1;
  }

  std::vector<float> from(plate, plate + cells), to(cells);
  for (int n = 0; n < steps; n++) {
    for (int y = 0; y < height; y++) {
      for (int x = 0; x < width; x++) {
        to[static_cast<size_t>(y) * width + x] = cell(from.data(), width, height, x, y);
      }
    }
    std::swap(from, to);
  }
  watch.lap("CPU");
  for (size_t i = 0; i < cells; i++) {
    if (result[i] == from[i]) continue;
    std::fprintf(stderr, "stencil: wrong: column %zu, row %zu is %a, the CPU says %a\n", i % width,
                 i / width, result[i], from[i]);
    return 1;
  }
  std::printf("stencil: %d x %d, %d steps, %d streams, checksum %016llx, correct\n", width, height,
              steps, streams, static_cast<unsigned long long>(checksum(result, bytes)));

  for (Band &band : bands) {
    for (cudaEvent_t event : band.done) CHECK(cudaEventDestroy(event));
    CHECK(cudaStreamDestroy(band.stream));
  }
  CHECK(cudaEventDestroy(begin));
  CHECK(cudaEventDestroy(end));
  CHECK(cudaFree(device[0]));
  CHECK(cudaFree(device[1]));
  CHECK(cudaFreeHost(plate));
  CHECK(cudaFreeHost(result));
  return 0;
}
