// A sum of many numbers, twice: threads of a block combine their parts through shared memory, or
// through shuffles within each warp. Integers must be exact. Floats must be exact too: the order
// of the additions is fixed by the kernel, so the CPU can follow it and arrive at the same bits.

#include <algorithm>
#include <string>
#include <vector>

#include "support/arguments.h"
#include "support/check.h"
#include "support/random.h"
#include "support/stopwatch.h"

constexpr int kBlock = 256;
constexpr int kWarp = 32;
constexpr int kWarps = kBlock / kWarp;
constexpr int kMostBlocks = 64;

// Each thread's share: every (blocks * kBlock)-th element.
template <typename T>
__device__ T own_part(const T *values, int size) {
  T sum = 0;
  for (int i = blockIdx.x * kBlock + threadIdx.x; i < size; i += gridDim.x * kBlock) {
    sum += values[i];
  }
  return sum;
}

template <typename T>
__global__ void sum_shared(const T *values, int size, T *sums) {
  __shared__ T part[kBlock];
  part[threadIdx.x] = own_part(values, size);
  __syncthreads();
  for (int distance = kBlock / 2; distance > 0; distance /= 2) {
    if (threadIdx.x < distance) part[threadIdx.x] += part[threadIdx.x + distance];
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
}

template <typename T>
__device__ T sum_warp(T value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value += __shfl_down_sync(0xffffffffu, value, distance);
  }
  return value;  // the warp's sum in lane 0
}

template <typename T>
__global__ void sum_shuffle(const T *values, int size, T *sums) {
  __shared__ T of_warp[kWarps];
  T sum = sum_warp(own_part(values, size));
  int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  if (lane == 0) of_warp[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    sum = sum_warp(lane < kWarps ? of_warp[lane] : T(0));
    if (lane == 0) sums[blockIdx.x] = sum;
  }
}

// The same additions in the same order, on the CPU.
template <typename T>
T halve(T *part, int count) {
  for (int distance = count / 2; distance > 0; distance /= 2) {
    for (int i = 0; i < distance; i++) part[i] += part[i + distance];
  }
  return part[0];
}

template <typename T>
std::vector<T> block_sums(const std::vector<T> &values, int blocks, bool shuffle) {
  std::vector<T> sums(blocks);
  for (int block = 0; block < blocks; block++) {
    T part[kBlock] = {};
    for (size_t first = size_t(block) * kBlock; first < values.size();
         first += size_t(blocks) * kBlock) {
      size_t count = std::min<size_t>(kBlock, values.size() - first);
      for (size_t i = 0; i < count; i++) part[i] += values[first + i];
    }
    if (shuffle) {
      T of_warp[kWarp] = {};
      for (int warp = 0; warp < kWarps; warp++) of_warp[warp] = halve(part + warp * kWarp, kWarp);
      sums[block] = halve(of_warp, kWarp);
    } else {
      sums[block] = halve(part, kBlock);
    }
  }
  return sums;
}

static int blocks_for(size_t size) {
  return static_cast<int>(std::min<size_t>(kMostBlocks, (size + kBlock - 1) / kBlock));
}

template <typename T>
T on_cpu(const std::vector<T> &values, bool shuffle) {
  return block_sums(block_sums(values, blocks_for(values.size()), shuffle), 1, shuffle)[0];
}

// The sums of the blocks are summed by a second launch of one block.
template <typename T>
T on_device(const std::vector<T> &values, bool shuffle) {
  auto kernel = shuffle ? sum_shuffle<T> : sum_shared<T>;
  int size = static_cast<int>(values.size()), blocks = blocks_for(values.size());
  T *device_values, *device_sums, sum;
  CHECK(cudaMalloc(&device_values, size * sizeof(T)));
  CHECK(cudaMalloc(&device_sums, (blocks + 1) * sizeof(T)));
  CHECK(cudaMemcpy(device_values, values.data(), size * sizeof(T), cudaMemcpyHostToDevice));
  kernel<<<blocks, kBlock>>>(device_values, size, device_sums);
  CHECK(cudaGetLastError());
  kernel<<<1, kBlock>>>(device_sums, blocks, device_sums + blocks);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(&sum, device_sums + blocks, sizeof(T), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(device_values));
  CHECK(cudaFree(device_sums));
  return sum;
}

static std::string show(long long sum) { return std::to_string(sum); }

static std::string show(float sum) {
  char text[64];
  std::snprintf(text, sizeof text, "%.6f = %a", sum, sum);
  return text;
}

template <typename T>
bool reduce(const char *type, const std::vector<T> &values, Stopwatch &watch) {
  for (bool shuffle : {false, true}) {
    const char *version = shuffle ? "shuffle" : "shared";
    watch.restart();
    T sum = on_device(values, shuffle);
    watch.lap((std::string(type) + " " + version).c_str());
    T expected = on_cpu(values, shuffle);
    if (sum != expected) {
      std::fprintf(stderr, "reduction: wrong: %s %s gives %s, the CPU says %s\n", type, version,
                   show(sum).c_str(), show(expected).c_str());
      return false;
    }
    std::printf("reduction: %s %s, %zu values, sum %s, correct\n", type, version, values.size(),
                show(sum).c_str());
  }
  return true;
}

int main(int argc, char **argv) {
  Arguments arguments(argc, argv, "Sums numbers with shared memory and with warp shuffles.");
  const int size = arguments.integer("--size", 1 << 20, 1, 1 << 28, "numbers to sum");
  Stopwatch watch(arguments.flag("--time", "print timings on stderr"));
  arguments.finish();

  Random random(3);
  std::vector<long long> integers(size);
  std::vector<float> floats(size);
  for (long long &value : integers) value = static_cast<long long>(random.below(2000001)) - 1000000;
  for (float &value : floats) value = random.unit();

  long long plain = 0;
  for (long long value : integers) plain += value;
  if (plain != on_cpu(integers, false)) {
    std::fprintf(stderr, "reduction: the CPU's own two sums differ\n");
    return 1;
  }
  return reduce("integer", integers, watch) && reduce("float", floats, watch) ? 0 : 1;
}
