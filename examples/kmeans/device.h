// The clustering on the device. Each round is two kernels and one answer of four bytes: how many
// points changed their cluster. That answer is the only thing the program ever waits for in a
// round, so on a device that is far away a round costs one round trip.
#pragma once

#include <algorithm>
#include <vector>

#include "../support/check.h"
#include "clustering.h"

constexpr int kBlock = 256;
constexpr int kMostBlocks = 256;

// Gives every point to its nearest centre and adds the points of each cluster up: first in the
// block's shared memory, where 32 bits are enough, then once per block in global memory.
__global__ void assign(const uint32_t *points, int count, const Centre *centres, int k,
                       uint8_t *labels, Sums *sums, unsigned *changed) {
  extern __shared__ unsigned shared[];
  unsigned *own_sums = shared;                                    // k times count, red, green, blue
  unsigned *own_changed = shared + 4 * k;                         // 1
  Centre *near = reinterpret_cast<Centre *>(shared + 4 * k + 1);  // k
  for (int i = threadIdx.x; i < k; i += kBlock) near[i] = centres[i];
  for (int i = threadIdx.x; i < 4 * k + 1; i += kBlock) shared[i] = 0;
  __syncthreads();

  unsigned moves = 0;
  for (int i = blockIdx.x * kBlock + threadIdx.x; i < count; i += gridDim.x * kBlock) {
    uint32_t colour = points[i];
    int label = nearest(colour, near, k);
    if (labels[i] != label) {
      labels[i] = label;
      moves++;
    }
    unsigned *sum = own_sums + 4 * label;
    atomicAdd(sum + 0, 1u);
    atomicAdd(sum + 1, colour & 255);
    atomicAdd(sum + 2, colour >> 8 & 255);
    atomicAdd(sum + 3, colour >> 16 & 255);
  }
  if (moves) atomicAdd(own_changed, moves);
  __syncthreads();

  for (int i = threadIdx.x; i < k; i += kBlock) {
    const unsigned *sum = own_sums + 4 * i;
    if (sum[0] == 0) continue;
    atomicAdd(&sums[i].count, static_cast<unsigned long long>(sum[0]));
    atomicAdd(&sums[i].r, static_cast<unsigned long long>(sum[1]));
    atomicAdd(&sums[i].g, static_cast<unsigned long long>(sum[2]));
    atomicAdd(&sums[i].b, static_cast<unsigned long long>(sum[3]));
  }
  if (threadIdx.x == 0 && *own_changed) atomicAdd(changed, *own_changed);
}

// Moves the centres, hands out the number of changes and makes all sums ready for the next round,
// so that the host has nothing to reset.
__global__ void update(Centre *centres, uint32_t *sizes, Sums *sums, int k, unsigned *changed,
                       unsigned *answer) {
  int i = threadIdx.x;
  if (i < k) {
    centres[i] = moved(centres[i], sums[i]);
    sizes[i] = static_cast<uint32_t>(sums[i].count);
    sums[i] = Sums{0, 0, 0, 0};
  }
  if (i == 0) {
    *answer = *changed;
    *changed = 0;
  }
}

inline Clustering cluster_on_device(const std::vector<uint32_t> &points,
                                    const std::vector<Centre> &centres, int most_iterations) {
  Clustering result;
  const int count = static_cast<int>(points.size()), k = static_cast<int>(centres.size());
  result.centres.resize(k);
  result.sizes.resize(k);
  result.labels.resize(points.size());

  uint32_t *device_points, *device_sizes;
  Centre *device_centres;
  uint8_t *labels;
  Sums *sums;
  unsigned *changes;  // [0] counted in this round, [1] the answer of the last one
  CHECK(cudaMalloc(&device_points, count * sizeof(uint32_t)));
  CHECK(cudaMalloc(&device_centres, k * sizeof(Centre)));
  CHECK(cudaMalloc(&device_sizes, k * sizeof(uint32_t)));
  CHECK(cudaMalloc(&labels, count));
  CHECK(cudaMalloc(&sums, k * sizeof(Sums)));
  CHECK(cudaMalloc(&changes, 2 * sizeof(unsigned)));
  CHECK(cudaMemcpy(device_points, points.data(), count * sizeof(uint32_t), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(device_centres, centres.data(), k * sizeof(Centre), cudaMemcpyHostToDevice));
  CHECK(cudaMemset(labels, kNoLabel, count));
  CHECK(cudaMemset(sums, 0, k * sizeof(Sums)));
  CHECK(cudaMemset(changes, 0, 2 * sizeof(unsigned)));

  const int blocks = std::min((count + kBlock - 1) / kBlock, kMostBlocks);
  const size_t shared = (4 * k + 1) * sizeof(unsigned) + k * sizeof(Centre);
  while (result.iterations < most_iterations && !result.converged) {
    assign<<<blocks, kBlock, shared>>>(device_points, count, device_centres, k, labels, sums,
                                       changes);
    CHECK(cudaGetLastError());
    update<<<1, kBlock>>>(device_centres, device_sizes, sums, k, changes, changes + 1);
    CHECK(cudaGetLastError());
    unsigned changed;
    CHECK(cudaMemcpy(&changed, changes + 1, sizeof changed, cudaMemcpyDeviceToHost));
    result.iterations++;
    result.converged = changed == 0;
  }

  CHECK(cudaMemcpy(result.labels.data(), labels, count, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(result.centres.data(), device_centres, k * sizeof(Centre),
                   cudaMemcpyDeviceToHost));
  CHECK(
      cudaMemcpy(result.sizes.data(), device_sizes, k * sizeof(uint32_t), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(device_points));
  CHECK(cudaFree(device_centres));
  CHECK(cudaFree(device_sizes));
  CHECK(cudaFree(labels));
  CHECK(cudaFree(sums));
  CHECK(cudaFree(changes));
  return result;
}
