// Layered textures, 1D and 2D: interpolation within a layer, none between layers.
#include <cmath>
#include <vector>

#include "../check.h"

namespace {

constexpr int kWidth = 16, kHeight = 8, kLayers = 5;

__global__ void fetch_2d(cudaTextureObject_t texture, float *out) {
  int x = threadIdx.x, y = threadIdx.y, layer = blockIdx.x;
  out[(layer * kHeight + y) * kWidth + x] =
      tex2DLayered<float>(texture, (x + 0.75f) / kWidth, (y + 0.5f) / kHeight, layer);
}

__global__ void fetch_1d(cudaTextureObject_t texture, float *out) {
  int x = threadIdx.x, layer = blockIdx.x;
  out[layer * kWidth + x] = tex1DLayered<float>(texture, (x + 0.75f) / kWidth, layer);
}

bool check(const std::vector<float> &in, const float *out, int rows, const char *what) {
  for (int row = 0; row < rows; row++)
    for (int x = 0; x < kWidth; x++) {
      int next = x + 1 < kWidth ? x + 1 : 0;  // it wraps
      float want = 0.75f * in[row * kWidth + x] + 0.25f * in[row * kWidth + next];
      if (std::fabs(out[row * kWidth + x] - want) < 1e-4f) continue;
      fprintf(stderr, "%s row %d, %d: %g, expected %g\n", what, row, x, out[row * kWidth + x],
              want);
      return false;
    }
  printf("%s: right\n", what);
  return true;
}

}  // namespace

int main() {
  float *out;
  CHECK(cudaMallocManaged(&out, kWidth * kHeight * kLayers * sizeof(float)));
  for (int height : {kHeight, 0}) {
    const int rows = height ? height : 1;
    std::vector<float> in(kWidth * rows * kLayers);
    for (size_t i = 0; i < in.size(); i++) in[i] = static_cast<float>(i * 29 % 83);
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaArray_t array;
    CHECK(cudaMalloc3DArray(&array, &format, make_cudaExtent(kWidth, height, kLayers),
                            cudaArrayLayered));
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(in.data(), kWidth * sizeof(float), kWidth, rows);
    copy.dstArray = array;
    copy.extent = make_cudaExtent(kWidth, rows, kLayers);
    copy.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&copy));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc with = {};
    with.filterMode = cudaFilterModeLinear;
    with.addressMode[0] = with.addressMode[1] = cudaAddressModeWrap;
    with.normalizedCoords = 1;
    cudaTextureObject_t texture;
    CHECK(cudaCreateTextureObject(&texture, &resource, &with, nullptr));
    if (height)
      fetch_2d<<<kLayers, dim3(kWidth, kHeight)>>>(texture, out);
    else
      fetch_1d<<<kLayers, kWidth>>>(texture, out);
    CHECK(cudaDeviceSynchronize());
    if (!check(in, out, rows * kLayers, height ? "2D layers" : "1D layers")) return 1;
    CHECK(cudaDestroyTextureObject(texture));
    CHECK(cudaFreeArray(array));
  }
  return 0;
}
