// What the device and the CPU must agree on: how a centre is written down, how far a point is from
// it, and where a centre moves. All of it is whole numbers, so it does not matter in which order
// blocks and threads add up: the result is the same bits every time, and on both sides.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "picture.h"

constexpr int kScale = 64;  // centres are kept in 64ths of a colour step

struct Centre {
  int r, g, b;
};

// What one cluster adds up.
struct Sums {
  unsigned long long count, r, g, b;
};

struct Clustering {
  std::vector<Centre> centres;
  std::vector<uint32_t> sizes;
  std::vector<uint8_t> labels;  // one per point: the number of its cluster
  int iterations = 0;
  bool converged = false;
};

constexpr int kMostClusters = 255;
constexpr int kNoLabel = 255;  // no cluster has this number: in the first round every point changes

// At most 3 * (255 * 64)^2, which fits into an int.
__host__ __device__ inline int distance(uint32_t colour, Centre centre) {
  int r = static_cast<int>(colour & 255) * kScale - centre.r;
  int g = static_cast<int>(colour >> 8 & 255) * kScale - centre.g;
  int b = static_cast<int>(colour >> 16 & 255) * kScale - centre.b;
  return r * r + g * g + b * b;
}

// The nearest centre; the first one of several equally near.
__host__ __device__ inline int nearest(uint32_t colour, const Centre *centres, int k) {
  int best = 0, least = distance(colour, centres[0]);
  for (int i = 1; i < k; i++) {
    int other = distance(colour, centres[i]);
    if (other < least) {
      least = other;
      best = i;
    }
  }
  return best;
}

// The mean, rounded; a cluster that has lost all its points stays where it is.
__host__ __device__ inline Centre moved(Centre centre, const Sums &sums) {
  unsigned long long half = sums.count / 2;
  if (sums.count == 0) return centre;
  return {static_cast<int>((sums.r * kScale + half) / sums.count),
          static_cast<int>((sums.g * kScale + half) / sums.count),
          static_cast<int>((sums.b * kScale + half) / sums.count)};
}
