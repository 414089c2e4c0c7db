// Boxes of tensors by tensor maps: tiles and pixels for convolutions, sums, blocks of a cluster.
// flags: -gencode arch=compute_90,code=compute_90 -lcuda
#include <cstring>
#include <vector>

#include "../check.h"
#include "../check_driver.h"
#include "tensor_copies.h"

constexpr unsigned kBox = 8192;  // bytes

enum Way { kTile3d, kIm2col, kAdd, kMulticast };

// One thread of each block copies a box; the block shows its shared memory.
__global__ void copy(const __grid_constant__ CUtensorMap map, Way way, unsigned bytes, int4 at,
                     unsigned *out) {
  __shared__ alignas(1024) unsigned box[kBox / 4];
  __shared__ uint64_t bar;
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  for (unsigned i = threadIdx.x; i < kBox / 4; i += blockDim.x) box[i] = way == kAdd ? i : 0;
  if (threadIdx.x == 0) {
    barrier_init(&bar, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    if (way != kAdd) barrier_expect(&bar, bytes);
  }
  publish_for_copies();
  asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
  if (threadIdx.x == 0) {
    const uint32_t to = shared_address(box), object = shared_address(&bar);
    if (way == kTile3d)
      asm volatile(
          "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
          " [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to),
          "l"(&map), "r"(at.x), "r"(at.y), "r"(at.z), "r"(object)
          : "memory");
    if (way == kIm2col)
      asm volatile(
          "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
          " [%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};" ::"r"(to),
          "l"(&map), "r"(at.x), "r"(at.y), "r"(at.z), "r"(at.w), "r"(object),
          "h"(static_cast<uint16_t>(2)), "h"(static_cast<uint16_t>(1))
          : "memory");
    if (way == kMulticast && rank == 0)
      asm volatile(
          "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
          ".multicast::cluster [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(to),
          "l"(&map), "r"(at.x), "r"(at.y), "r"(at.z), "r"(object), "h"(static_cast<uint16_t>(3))
          : "memory");
    if (way == kAdd) {
      asm volatile(
          "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group"
          " [%0, {%1, %2, %3}], [%4];" ::"l"(&map),
          "r"(at.x), "r"(at.y), "r"(at.z), "r"(to)
          : "memory");
      wait_for_stores();
    }
  }
  if (way != kAdd) barrier_wait(&bar, 0);
  for (unsigned i = threadIdx.x; i < kBox / 4; i += blockDim.x)
    out[blockIdx.x * (kBox / 4) + i] = box[i];
  asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
}

constexpr int kWide = 20, kHigh = 9, kDeep = 5, kCount = kWide * kHigh * kDeep;
constexpr cuuint64_t kSizes[] = {kWide, kHigh, kDeep}, kStrides[] = {kWide * 4, kWide *kHigh * 4};
constexpr cuuint32_t kSides[] = {8, 4, 4}, kSteps[] = {1, 2, 1};
constexpr int kRows = 2 * 4;  // of the box

CUresult tile(CUtensorMap *map, void *tensor, cuuint32_t row = kSides[0]) {
  const cuuint32_t sides[] = {row, kSides[1], kSides[2]};
  return cuTensorMapEncodeTiled(map, CU_TENSOR_MAP_DATA_TYPE_UINT32, 3, tensor, kSizes, kStrides,
                                sides, kSteps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}
// An element of the tensor, as it was filled; 0 outside.
unsigned element(int x, int y, int z) {
  if (x < 0 || x >= kWide || y < 0 || y >= kHigh || z < 0 || z >= kDeep) return 0;
  return static_cast<unsigned>((z * kHigh + y) * kWide + x) * 3 + 1;
}
bool right(const unsigned *box, int4 at) {
  for (int r = 0; r < kRows; r++)
    for (int x = 0; x < 8; x++)
      if (box[r * 8 + x] != element(at.x + x, at.y + r % 2 * 2, at.z + r / 2)) return false;
  return true;
}

struct alignas(128) Maps {
  CUtensorMap map;
};

int main() {
  unsigned *tensor, *out;
  // Many tensors, one behind the other.
  constexpr int kTensors = 12;
  constexpr size_t kBytes = (kCount * 4 + 31) / 32 * 32;
  CHECK(cudaMalloc(&tensor, kTensors * kBytes));
  CHECK(cudaMallocManaged(&out, 2 * kBox));
  std::vector<unsigned> values(kTensors * kBytes / 4);
  for (int t = 0; t < kTensors; t++)
    for (int i = 0; i < kCount; i++)
      values[t * kBytes / 4 + i] = element(i % kWide, i / kWide % kHigh, i / kWide / kHigh);
  CHECK(cudaMemcpy(tensor, values.data(), values.size() * 4, cudaMemcpyHostToDevice));
  auto show = [&](const char *what, const CUtensorMap &map, int4 at) {
    copy<<<1, 64>>>(map, kTile3d, kRows * 32, at, out);
    CHECK(cudaDeviceSynchronize());
    printf("%s: %s\n", what, right(out, at) ? "right" : "wrong");
  };

  Maps first, other;
  DRIVER(tile(&first.map, tensor));
  show("inside", first.map, make_int4(4, 2, 0, 0));
  show("across the beginning", first.map, make_int4(-4, -1, -2, 0));
  show("across the end", first.map, make_int4(16, 7, 3, 0));
  show("outside", first.map, make_int4(100, 0, 0, 0));
  for (int t = 1; t < kTensors; t++) {
    DRIVER(tile(&other.map, tensor + t * kBytes / 4));
    show("another tensor", other.map, make_int4(t / 4 * 4, t % 4, t % 3, 0));
  }
  DRIVER(cuTensorMapReplaceAddress(&first.map, tensor + kBytes / 4));
  show("its address replaced", first.map, make_int4(4, 1, 1, 0));
  DRIVER(tile(&other.map, tensor + kBytes / 4));
  printf("the same map: %s\n",
         memcmp(&first.map, &other.map, sizeof other.map) == 0 ? "yes" : "no");

  SHOW_DRIVER(tile(&other.map, tensor + 1));
  SHOW_DRIVER(tile(&other.map, tensor, 6));
  SHOW_DRIVER(tile(&other.map, tensor, 0));
  SHOW_DRIVER(tile(nullptr, tensor));
  SHOW_DRIVER(tile(reinterpret_cast<CUtensorMap *>(reinterpret_cast<char *>(&other) + 16), tensor));
  SHOW_DRIVER(cuTensorMapReplaceAddress(&first.map, tensor + 1));
  SHOW_DRIVER(cuTensorMapReplaceAddress(nullptr, tensor));

  // To both blocks of a cluster.
  {
    cudaLaunchConfig_t config = {};
    config.gridDim = 2;
    config.blockDim = 64;
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {2, 1, 1};
    config.attrs = &attribute;
    config.numAttrs = 1;
    const int4 at = make_int4(4, 3, 1, 0);
    CHECK(cudaLaunchKernelEx(&config, copy, first.map, kMulticast, kRows * 32u, at, out));
    CHECK(cudaDeviceSynchronize());
    printf("to both blocks: %s\n", right(out, at) && right(out + kBox / 4, at) ? "right" : "wrong");
  }

  // 0, 1, 2, ... are added to a box that lies across the end.
  DRIVER(tile(&other.map, tensor));
  copy<<<1, 64>>>(other.map, kAdd, 0, make_int4(16, 6, 2, 0), out);
  std::vector<unsigned> sums(kCount);
  CHECK(cudaMemcpy(sums.data(), tensor, kCount * 4, cudaMemcpyDeviceToHost));
  bool added = true;
  for (int r = 0; r < kRows; r++)
    for (int x = 0; x < 8; x++) {
      const int to[] = {16 + x, 6 + r % 2 * 2, 2 + r / 2};
      if (to[0] < kWide && to[1] < kHigh && to[2] < kDeep)
        values[(to[2] * kHigh + to[1]) * kWide + to[0]] += r * 8 + x;
    }
  for (int i = 0; i < kCount; i++) added &= sums[i] == values[i];
  printf("added: %s\n", added ? "right" : "wrong");

  // Images of 5 x 4 pixels of 8 channels, and of these the pixels under one place of a filter of
  // 3 x 3 with a border of one pixel.
  {
    constexpr int kChannels = 8, kX = 5, kY = 4, kImages = 3, kPixels = 23;
    const cuuint64_t sizes[] = {kChannels, kX, kY, kImages};
    const cuuint64_t strides[] = {kChannels * 4, kChannels * kX * 4, kChannels * kX * kY * 4};
    const int lower[] = {-1, -1}, upper[] = {-1, -1};
    const cuuint32_t steps[] = {1, 1, 1, 1};
    DRIVER(cuTensorMapEncodeIm2col(
        &other.map, CU_TENSOR_MAP_DATA_TYPE_UINT32, 4, tensor + kBytes / 4, sizes, strides, lower,
        upper, kChannels, kPixels, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
        CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    copy<<<1, 64>>>(other.map, kIm2col, kPixels * kChannels * 4, make_int4(0, -1, -1, 0), out);
    CHECK(cudaDeviceSynchronize());
    bool good = true;
    for (int p = 0; p < kPixels; p++) {
      // The filter has as many places as an image has pixels; this is its place (2, 1).
      const int x = p % kX - 1 + 2, y = p / kX % kY - 1 + 1, image = p / kX / kY;
      const bool inside = x < kX && y >= 0 && y < kY;
      for (int c = 0; c < kChannels; c++) {
        const int i = ((image * kY + y) * kX + x) * kChannels + c;
        good &= out[p * kChannels + c] == (inside ? static_cast<unsigned>(i * 3 + 1) : 0);
      }
    }
    printf("pixels: %s\n", good ? "right" : "wrong");
  }
  return 0;
}
