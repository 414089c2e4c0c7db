// A cubemap: each direction finds its face and the place on it; and layers of cubemaps.
#include <cmath>
#include <vector>

#include "../check.h"

namespace {

constexpr int kSize = 16, kCubes = 2;

// The direction through the middle of an element of a face.
__host__ __device__ float3 direction(int x, int y, int face) {
  float s = (2 * x + 1) / static_cast<float>(kSize) - 1;
  float t = (2 * y + 1) / static_cast<float>(kSize) - 1;
  switch (face) {
    case 0:
      return make_float3(1, -t, -s);
    case 1:
      return make_float3(-1, -t, s);
    case 2:
      return make_float3(s, 1, t);
    case 3:
      return make_float3(s, -1, -t);
    case 4:
      return make_float3(s, -t, 1);
    default:
      return make_float3(-s, -t, -1);
  }
}

__global__ void fetch(cudaTextureObject_t cube, cudaTextureObject_t layered, float *out) {
  int x = threadIdx.x, y = threadIdx.y, face = blockIdx.x, layer = blockIdx.y;
  float3 d = direction(x, y, face);
  int i = ((layer * 6 + face) * kSize + y) * kSize + x;
  // The length of the direction does not matter.
  out[i] = layer ? texCubemapLayered<float>(layered, d.x * 3, d.y * 3, d.z * 3, layer)
                 : texCubemap<float>(cube, d.x, d.y, d.z);
}

}  // namespace

int main() {
  std::vector<float> in(kSize * kSize * 6 * kCubes);
  for (size_t i = 0; i < in.size(); i++) in[i] = static_cast<float>(i);
  cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaTextureObject_t textures[2];
  cudaArray_t arrays[2];
  for (int layered = 0; layered < 2; layered++) {
    const int faces = layered ? 6 * kCubes : 6;
    CHECK(cudaMalloc3DArray(&arrays[layered], &format, make_cudaExtent(kSize, kSize, faces),
                            cudaArrayCubemap | (layered ? cudaArrayLayered : 0)));
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(in.data(), kSize * sizeof(float), kSize, kSize);
    copy.dstArray = arrays[layered];
    copy.extent = make_cudaExtent(kSize, kSize, faces);
    copy.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&copy));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = arrays[layered];
    cudaTextureDesc with = {};
    with.filterMode = cudaFilterModeLinear;
    with.normalizedCoords = 1;
    for (auto &mode : with.addressMode) mode = cudaAddressModeClamp;
    CHECK(cudaCreateTextureObject(&textures[layered], &resource, &with, nullptr));
  }
  float *out;
  CHECK(cudaMallocManaged(&out, in.size() * sizeof(float)));
  fetch<<<dim3(6, kCubes), dim3(kSize, kSize)>>>(textures[0], textures[1], out);
  CHECK(cudaDeviceSynchronize());
  for (size_t i = 0; i < in.size(); i++)
    if (std::fabs(out[i] - in[i]) > 0.05f) {
      fprintf(stderr, "element %zu: %g\n", i, out[i]);
      return 1;
    }
  printf("%zu elements of %d cubes: right\n", in.size(), kCubes);
  for (int i = 0; i < 2; i++) {
    CHECK(cudaDestroyTextureObject(textures[i]));
    CHECK(cudaFreeArray(arrays[i]));
  }
  return 0;
}
