// A 3D texture: a volume, copied by cudaMemcpy3D and interpolated between eight elements.
#include <cmath>
#include <vector>

#include "../check.h"

namespace {

constexpr int kX = 12, kY = 9, kZ = 7;

__global__ void fetch(cudaTextureObject_t texture, float3 shift, float *out) {
  int x = threadIdx.x, y = threadIdx.y, z = blockIdx.x;
  out[(z * kY + y) * kX + x] = tex3D<float>(texture, x + shift.x, y + shift.y, z + shift.z);
}

// Linear in each coordinate, so that interpolation gives it back.
float value(float x, float y, float z) { return 2 * x - 3 * y + 5 * z; }

float clamp(float v, int size) { return fminf(fmaxf(v, 0), static_cast<float>(size - 1)); }

}  // namespace

int main() {
  std::vector<float> volume;
  for (int z = 0; z < kZ; z++)
    for (int y = 0; y < kY; y++)
      for (int x = 0; x < kX; x++)
        volume.push_back(
            value(static_cast<float>(x), static_cast<float>(y), static_cast<float>(z)));
  cudaExtent extent = make_cudaExtent(kX, kY, kZ);
  cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaArray_t array;
  CHECK(cudaMalloc3DArray(&array, &format, extent));
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = make_cudaPitchedPtr(volume.data(), kX * sizeof(float), kX, kY);
  copy.dstArray = array;
  copy.extent = extent;
  copy.kind = cudaMemcpyHostToDevice;
  CHECK(cudaMemcpy3D(&copy));
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaTextureDesc with = {};
  with.filterMode = cudaFilterModeLinear;
  for (auto &mode : with.addressMode) mode = cudaAddressModeClamp;
  cudaTextureObject_t texture;
  CHECK(cudaCreateTextureObject(&texture, &resource, &with, nullptr));
  float *out;
  CHECK(cudaMallocManaged(&out, volume.size() * sizeof(float)));
  for (float3 shift : {make_float3(0.5f, 0.5f, 0.5f), make_float3(0.75f, 0.25f, 1),
                       make_float3(-1, 2.625f, 0.125f)}) {
    fetch<<<kZ, dim3(kX, kY)>>>(texture, shift, out);
    CHECK(cudaDeviceSynchronize());
    for (int z = 0; z < kZ; z++)
      for (int y = 0; y < kY; y++)
        for (int x = 0; x < kX; x++) {
          float want = value(clamp(static_cast<float>(x) + shift.x - 0.5f, kX),
                             clamp(static_cast<float>(y) + shift.y - 0.5f, kY),
                             clamp(static_cast<float>(z) + shift.z - 0.5f, kZ));
          float got = out[(z * kY + y) * kX + x];
          if (std::fabs(got - want) > 1e-4f) {
            fprintf(stderr, "at (%d, %d, %d): %g, expected %g\n", x, y, z, got, want);
            return 1;
          }
        }
    printf("shifted by (%g, %g, %g): right\n", shift.x, shift.y, shift.z);
  }
  cudaExtent found;
  unsigned flags;
  CHECK(cudaArrayGetInfo(&format, &found, &flags, array));
  printf("%zu x %zu x %zu, %d bits, flags %u\n", found.width, found.height, found.depth, format.x,
         flags);
  CHECK(cudaDestroyTextureObject(texture));
  CHECK(cudaFreeArray(array));
  return 0;
}
