// A 2D texture object: every address mode, to the nearest element and between four, against the
// formulas of the programming guide on the host, and weights as GPUs round them.
#include <cmath>
#include <vector>

#include "../check.h"

namespace {

constexpr int kWidth = 20, kHeight = 12, kPoints = 4096;

__global__ void fetch(cudaTextureObject_t texture, const float2 *at, float *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < kPoints) out[i] = tex2D<float>(texture, at[i].x, at[i].y);
}

int addressed(int i, int size, cudaTextureAddressMode mode) {
  if (mode == cudaAddressModeBorder) return i < 0 || i >= size ? -1 : i;
  if (mode == cudaAddressModeClamp) return i < 0 ? 0 : i >= size ? size - 1 : i;
  int period = mode == cudaAddressModeWrap ? size : 2 * size;
  i = (i % period + period) % period;
  return i < size ? i : 2 * size - 1 - i;
}

double expected(const std::vector<float> &image, float2 at, const cudaTextureDesc &with) {
  auto element = [&](int x, int y) -> double {
    x = addressed(x, kWidth, with.addressMode[0]);
    y = addressed(y, kHeight, with.addressMode[1]);
    return x < 0 || y < 0 ? with.borderColor[0] : image[y * kWidth + x];
  };
  double x = at.x, y = at.y;
  if (with.normalizedCoords) x *= kWidth, y *= kHeight;
  if (with.filterMode == cudaFilterModePoint)
    return element(static_cast<int>(std::floor(x)), static_cast<int>(std::floor(y)));
  x = std::floor((x - 0.5) * 256 + 0.5) / 256;
  y = std::floor((y - 0.5) * 256 + 0.5) / 256;
  int i = static_cast<int>(std::floor(x)), j = static_cast<int>(std::floor(y));
  double a = x - i, b = y - j;
  double both = std::floor(a * b * 256 + 0.5) / 256;
  return (1 - a - b + both) * element(i, j) + (a - both) * element(i + 1, j) +
         (b - both) * element(i, j + 1) + both * element(i + 1, j + 1);
}

}  // namespace

int main() {
  std::vector<float> image(kWidth * kHeight), got(kPoints);
  for (int i = 0; i < kWidth * kHeight; i++) image[i] = static_cast<float>(i * 37 % 101) / 8;
  cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaArray_t array;
  CHECK(cudaMallocArray(&array, &format, kWidth, kHeight));
  CHECK(cudaMemcpy2DToArray(array, 0, 0, image.data(), kWidth * sizeof(float),
                            kWidth * sizeof(float), kHeight, cudaMemcpyHostToDevice));
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  float2 *at;
  float *out;
  CHECK(cudaMallocManaged(&at, kPoints * sizeof(float2)));
  CHECK(cudaMallocManaged(&out, kPoints * sizeof(float)));
  const char *names[] = {"wrap", "clamp", "mirror", "border"};
  for (int normalized = 0; normalized < 2; normalized++)
    for (cudaTextureFilterMode filter : {cudaFilterModePoint, cudaFilterModeLinear})
      for (cudaTextureAddressMode mode : {cudaAddressModeWrap, cudaAddressModeClamp,
                                          cudaAddressModeMirror, cudaAddressModeBorder}) {
        // Only normalised coordinates repeat.
        if (!normalized && (mode == cudaAddressModeWrap || mode == cudaAddressModeMirror)) continue;
        cudaTextureDesc with = {};
        with.addressMode[0] = with.addressMode[1] = mode;
        with.filterMode = filter;
        with.normalizedCoords = normalized;
        with.borderColor[0] = 3;
        cudaTextureObject_t texture;
        CHECK(cudaCreateTextureObject(&texture, &resource, &with, nullptr));
        for (int i = 0; i < kPoints; i++) {
          float x = static_cast<float>(i * 71 % 1024 - 512) / 256;
          float y = static_cast<float>(i * 53 % 1024 - 512) / 256;
          at[i] = normalized ? make_float2(x, y) : make_float2(x * 16 + 8, y * 8 + 4);
        }
        fetch<<<kPoints / 256, 256>>>(texture, at, out);
        CHECK(cudaDeviceSynchronize());
        for (int i = 0; i < kPoints; i++) {
          double want = expected(image, at[i], with);
          if (std::fabs(out[i] - want) < 1e-5 * (1 + std::fabs(want))) continue;
          fprintf(stderr, "%s at (%g, %g): %g, expected %g\n", names[mode], at[i].x, at[i].y,
                  out[i], want);
          return 1;
        }
        printf("%s coordinates, %s, %s: right\n", normalized ? "normalised" : "plain", names[mode],
               filter == cudaFilterModeLinear ? "linear" : "point");
        CHECK(cudaDestroyTextureObject(texture));
      }
  CHECK(cudaFreeArray(array));
  return 0;
}
