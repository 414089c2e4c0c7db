// A mipmapped array whose levels are made by kernels through surfaces, and read by level, between
// levels, and by gradients.
#include <cmath>
#include <vector>

#include "../check.h"

namespace {

constexpr unsigned kSize = 32, kLevels = 6;

// Each element of a level is the average of four of the level above.
__global__ void shrink(cudaTextureObject_t above, cudaSurfaceObject_t level, unsigned size) {
  unsigned x = threadIdx.x, y = threadIdx.y;
  if (x >= size || y >= size) return;
  float step = 0.5f / size;
  float u = static_cast<float>(x) / size, v = static_cast<float>(y) / size;
  float sum = tex2D<float>(above, u + step / 2, v + step / 2) +
              tex2D<float>(above, u + step * 3 / 2, v + step / 2) +
              tex2D<float>(above, u + step / 2, v + step * 3 / 2) +
              tex2D<float>(above, u + step * 3 / 2, v + step * 3 / 2);
  surf2Dwrite(sum / 4, level, static_cast<int>(x * sizeof(float)), static_cast<int>(y));
}

__global__ void read(cudaTextureObject_t texture, float *out) {
  int i = threadIdx.x;
  out[i] = tex2DLod<float>(texture, 0.5f, 0.5f, i * 0.25f);
  // A step of 2^k elements.
  float step = exp2f(static_cast<float>(i % kLevels)) / kSize;
  out[32 + i] =
      tex2DGrad<float>(texture, 0.5f, 0.5f, make_float2(step, 0), make_float2(0, step / 2));
}

}  // namespace

int main() {
  cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaMipmappedArray_t mipmap;
  CHECK(cudaMallocMipmappedArray(&mipmap, &format, make_cudaExtent(kSize, kSize, 0), kLevels,
                                 cudaArraySurfaceLoadStore));
  std::vector<float> base(kSize * kSize);
  for (unsigned i = 0; i < base.size(); i++) base[i] = static_cast<float>(i / kSize + i % kSize);
  cudaArray_t level;
  CHECK(cudaGetMipmappedArrayLevel(&level, mipmap, 0));
  CHECK(cudaMemcpy2DToArray(level, 0, 0, base.data(), kSize * 4, kSize * 4, kSize,
                            cudaMemcpyHostToDevice));
  for (unsigned i = 1; i < kLevels; i++) {
    cudaArray_t above;
    CHECK(cudaGetMipmappedArrayLevel(&above, mipmap, i - 1));
    CHECK(cudaGetMipmappedArrayLevel(&level, mipmap, i));
    cudaResourceDesc from = {}, to = {};
    from.resType = to.resType = cudaResourceTypeArray;
    from.res.array.array = above;
    to.res.array.array = level;
    cudaTextureDesc with = {};
    with.normalizedCoords = 1;
    with.addressMode[0] = with.addressMode[1] = cudaAddressModeClamp;
    cudaTextureObject_t texture;
    cudaSurfaceObject_t surface;
    CHECK(cudaCreateTextureObject(&texture, &from, &with, nullptr));
    CHECK(cudaCreateSurfaceObject(&surface, &to));
    shrink<<<1, dim3(16, 16)>>>(texture, surface, kSize >> i);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaDestroySurfaceObject(surface));
    CHECK(cudaDestroyTextureObject(texture));
  }
  // The average is the same at every level.
  for (unsigned i = 0; i < kLevels; i++) {
    unsigned size = kSize >> i;
    std::vector<float> out(size * size);
    CHECK(cudaGetMipmappedArrayLevel(&level, mipmap, i));
    CHECK(cudaMemcpy2DFromArray(out.data(), size * 4, level, 0, 0, size * 4, size,
                                cudaMemcpyDeviceToHost));
    double sum = 0;
    for (float value : out) sum += value;
    if (std::fabs(sum / (size * size) - 31) > 1e-3) {
      fprintf(stderr, "the average of level %u is %g\n", i, sum / (size * size));
      return 1;
    }
  }
  printf("%u levels, the same average\n", kLevels);

  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeMipmappedArray;
  resource.res.mipmap.mipmap = mipmap;
  cudaTextureDesc with = {};
  with.normalizedCoords = 1;
  with.mipmapFilterMode = cudaFilterModeLinear;
  with.maxMipmapLevelClamp = kLevels - 1;
  cudaTextureObject_t texture;
  CHECK(cudaCreateTextureObject(&texture, &resource, &with, nullptr));
  float *out;
  CHECK(cudaMallocManaged(&out, 64 * sizeof(float)));
  read<<<1, 32>>>(texture, out);
  CHECK(cudaDeviceSynchronize());
  // The element at the middle of level k: half a step of it away from the average.
  auto middle = [](int k) {
    double half = (1 << k) / 2.0;
    return k == kLevels - 1 ? 31 : 31 + 2 * half;
  };
  for (int i = 0; i < 32; i++) {
    double lod = std::fmin(i * 0.25, kLevels - 1);
    int k = static_cast<int>(lod);
    double part = lod - k;
    double want = middle(k) * (1 - part) + (part > 0 ? middle(k + 1) * part : 0);
    if (std::fabs(out[i] - want) > 1e-3 || std::fabs(out[32 + i] - middle(i % kLevels)) > 1e-3) {
      fprintf(stderr, "level %g: %g, expected %g; by gradient %g\n", lod, out[i], want,
              out[32 + i]);
      return 1;
    }
  }
  printf("by level, between levels, by gradient: right\n");
  CHECK(cudaDestroyTextureObject(texture));
  CHECK(cudaFreeMipmappedArray(mipmap));
  return 0;
}
