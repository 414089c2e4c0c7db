// A texture of the program's own pitched memory, which kernels write between two reads of it.
#include <vector>

#include "../check.h"

namespace {

constexpr int kWidth = 50, kHeight = 30;

__global__ void add(float2 *data, size_t pitch, float what) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= kWidth || y >= kHeight) return;
  float2 *row = reinterpret_cast<float2 *>(reinterpret_cast<char *>(data) + y * pitch);
  row[x].y += what;
}

__global__ void transpose(cudaTextureObject_t texture, float2 *out) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < kWidth && y < kHeight) out[x * kHeight + y] = tex2D<float2>(texture, x + 0.5f, y + 0.5f);
}

}  // namespace

int main() {
  float2 *data, *out;
  size_t pitch;
  CHECK(cudaMallocPitch(&data, &pitch, kWidth * sizeof(float2), kHeight));
  CHECK(cudaMallocManaged(&out, kWidth * kHeight * sizeof(float2)));
  std::vector<float2> host(kWidth * kHeight);
  for (int i = 0; i < kWidth * kHeight; i++) host[i] = make_float2(static_cast<float>(i), 1);
  CHECK(cudaMemcpy2D(data, pitch, host.data(), kWidth * sizeof(float2), kWidth * sizeof(float2),
                     kHeight, cudaMemcpyHostToDevice));
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypePitch2D;
  resource.res.pitch2D.devPtr = data;
  resource.res.pitch2D.desc = cudaCreateChannelDesc<float2>();
  resource.res.pitch2D.width = kWidth;
  resource.res.pitch2D.height = kHeight;
  resource.res.pitch2D.pitchInBytes = pitch;
  cudaTextureDesc with = {};
  with.addressMode[0] = with.addressMode[1] = cudaAddressModeClamp;
  cudaTextureObject_t texture;
  CHECK(cudaCreateTextureObject(&texture, &resource, &with, nullptr));
  dim3 blocks(4, 2), threads(16, 16);
  for (int round = 0; round < 2; round++) {
    add<<<blocks, threads>>>(data, pitch, 1);
    transpose<<<blocks, threads>>>(texture, out);
    CHECK(cudaDeviceSynchronize());
    for (int y = 0; y < kHeight; y++)
      for (int x = 0; x < kWidth; x++) {
        float2 got = out[x * kHeight + y];
        if (got.x == static_cast<float>(y * kWidth + x) && got.y == static_cast<float>(round + 2))
          continue;
        fprintf(stderr, "(%d, %d): %g %g\n", x, y, got.x, got.y);
        return 1;
      }
    printf("round %d: right\n", round);
  }
  // A pitch that no texture can have.
  resource.res.pitch2D.pitchInBytes = pitch - 4;
  SHOW(cudaCreateTextureObject(&texture, &resource, &with, nullptr));
  return 0;
}
