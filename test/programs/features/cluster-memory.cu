// Blocks of a cluster share their memory: a histogram spread over four blocks.
// flags: -gencode arch=compute_90,code=compute_90
#include <cooperative_groups.h>

#include "../check.h"

namespace cg = cooperative_groups;
constexpr int kBins = 64, kCount = 4096;

__global__ void histogram(const int *in, int *out) {
  extern __shared__ int bins[];
  auto cluster = cg::this_cluster();
  int blocks = static_cast<int>(cluster.num_blocks()), each = kBins / blocks;
  int rank = static_cast<int>(cluster.block_rank());
  for (int i = threadIdx.x; i < each; i += blockDim.x) bins[i] = 0;
  cluster.sync();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < kCount; i += gridDim.x * blockDim.x) {
    int bin = in[i];
    atomicAdd(cluster.map_shared_rank(bins, bin / each) + bin % each, 1);
  }
  cluster.sync();
  for (int i = threadIdx.x; i < each; i += blockDim.x) atomicAdd(out + rank * each + i, bins[i]);
}

__global__ void __cluster_dims__(2, 1, 1) fixed(int *out) {
  __shared__ int cell;
  auto cluster = cg::this_cluster();
  if (threadIdx.x == 0) cell = blockIdx.x * 10;
  cluster.sync();
  if (threadIdx.x == 0) out[blockIdx.x] = *cluster.map_shared_rank(&cell, cluster.block_rank() ^ 1);
  cluster.sync();
}

int main() {
  int *in, *out, want[kBins] = {};
  CHECK(cudaMallocManaged(&in, sizeof(int) * kCount));
  CHECK(cudaMallocManaged(&out, sizeof(int) * kBins));
  for (int i = 0; i < kCount; i++) want[in[i] = (i * i + 7 * i) % kBins]++;
  for (unsigned size : {1u, 2u, 4u, 8u}) {
    CHECK(cudaMemset(out, 0, sizeof(int) * kBins));
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = size;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = 16;
    config.blockDim = 64;
    config.dynamicSmemBytes = sizeof(int) * kBins / size;
    config.attrs = &attribute;
    config.numAttrs = 1;
    int clusters = 0;
    CHECK(cudaOccupancyMaxActiveClusters(&clusters, histogram, &config));
    if (clusters < 1) return fprintf(stderr, "no cluster of %u fits\n", size), 1;
    CHECK(cudaLaunchKernelEx(&config, histogram, static_cast<const int *>(in), out));
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < kBins; i++)
      if (out[i] != want[i]) return fprintf(stderr, "%u blocks, bin %d: %d\n", size, i, out[i]), 1;
  }
  fixed<<<6, 32>>>(out);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < 6; i++)
    if (out[i] != (i ^ 1) * 10) return fprintf(stderr, "block %d has %d\n", i, out[i]), 1;
  fixed<<<5, 32>>>(out);
  printf("5 blocks in pairs: %s\n", cudaGetErrorName(cudaGetLastError()));
  printf("histograms of 1, 2, 4 and 8 blocks agree\n");
  return 0;
}
