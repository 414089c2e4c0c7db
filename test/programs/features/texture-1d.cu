// 1D textures: of an array, and of linear memory by tex1Dfetch, which gives 0 outside of it.
#include <cmath>
#include <vector>

#include "../check.h"

namespace {

constexpr int kSize = 100;

__global__ void interpolate(cudaTextureObject_t texture, float *out) {
  int i = threadIdx.x;
  out[i] = tex1D<float>(texture, i + 0.75f);
}

__global__ void gather(cudaTextureObject_t texture, uchar4 *out) {
  int i = threadIdx.x;
  out[i] = tex1Dfetch<uchar4>(texture, i - 14);
}

__global__ void normalised(cudaTextureObject_t texture, float4 *out) {
  int i = threadIdx.x;
  out[i] = tex1Dfetch<float4>(texture, i);
}

}  // namespace

int main() {
  std::vector<float> values(kSize);
  for (int i = 0; i < kSize; i++) values[i] = static_cast<float>(i * i % 57);
  cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaArray_t array;
  CHECK(cudaMallocArray(&array, &format, kSize));
  CHECK(cudaMemcpy2DToArray(array, 0, 0, values.data(), kSize * 4, kSize * 4, 1,
                            cudaMemcpyHostToDevice));
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaTextureDesc with = {};
  with.addressMode[0] = cudaAddressModeClamp;
  with.filterMode = cudaFilterModeLinear;
  cudaTextureObject_t texture;
  CHECK(cudaCreateTextureObject(&texture, &resource, &with, nullptr));
  float *out;
  CHECK(cudaMallocManaged(&out, 128 * sizeof(float4)));
  interpolate<<<1, kSize>>>(texture, out);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < kSize; i++) {
    float want = 0.75f * values[i] + 0.25f * values[i + 1 < kSize ? i + 1 : i];
    if (std::fabs(out[i] - want) > 1e-4f) {
      fprintf(stderr, "between %d and %d: %g, expected %g\n", i, i + 1, out[i], want);
      return 1;
    }
  }
  printf("interpolated\n");
  CHECK(cudaDestroyTextureObject(texture));
  CHECK(cudaFreeArray(array));

  uchar4 *bytes;
  CHECK(cudaMalloc(&bytes, kSize * sizeof(uchar4)));
  std::vector<uchar4> host(kSize);
  for (int i = 0; i < kSize; i++)
    host[i] = make_uchar4(i, 255 - i, static_cast<unsigned char>(i * 3), 255);
  CHECK(cudaMemcpy(bytes, host.data(), kSize * sizeof(uchar4), cudaMemcpyHostToDevice));
  resource = {};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.devPtr = bytes;
  resource.res.linear.desc = cudaCreateChannelDesc<uchar4>();
  resource.res.linear.sizeInBytes = kSize * sizeof(uchar4);
  with = {};
  CHECK(cudaCreateTextureObject(&texture, &resource, &with, nullptr));
  auto *fetched = reinterpret_cast<uchar4 *>(out);
  gather<<<1, 128>>>(texture, fetched);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < 128; i++) {
    uchar4 want = i >= 14 && i < 14 + kSize ? host[i - 14] : make_uchar4(0, 0, 0, 0);
    if (fetched[i].x != want.x || fetched[i].y != want.y || fetched[i].z != want.z ||
        fetched[i].w != want.w) {
      fprintf(stderr, "element %d is wrong\n", i - 14);
      return 1;
    }
  }
  printf("fetched, and zeros outside\n");
  CHECK(cudaDestroyTextureObject(texture));

  // Described as more than there is, which is no error while nobody fetches it.
  resource.res.linear.sizeInBytes += 8 << 20;
  with.readMode = cudaReadModeNormalizedFloat;
  CHECK(cudaCreateTextureObject(&texture, &resource, &with, nullptr));
  auto *floats = reinterpret_cast<float4 *>(out);
  normalised<<<1, kSize>>>(texture, floats);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < kSize; i++)
    if (floats[i].x != i / 255.0f || floats[i].y != (255 - i) / 255.0f || floats[i].w != 1) {
      fprintf(stderr, "element %d is not normalised: %g %g\n", i, floats[i].x, floats[i].y);
      return 1;
    }
  printf("normalised\n");
  CHECK(cudaDestroyTextureObject(texture));
  CHECK(cudaFree(bytes));
  return 0;
}
