// tex2Dgather: the four elements that a bilinear filter would mix, one channel at a time.
#include <vector>

#include "../check.h"

namespace {

constexpr int kWidth = 16, kHeight = 8;

__global__ void gather(cudaTextureObject_t texture, int4 *out) {
  int x = threadIdx.x, y = blockIdx.x;
  int4 *at = out + (y * kWidth + x) * 4;
  at[0] = tex2Dgather<int4>(texture, x + 1.0f, y + 1.0f, 0);
  at[1] = tex2Dgather<int4>(texture, x + 1.0f, y + 1.0f, 1);
  at[2] = tex2Dgather<int4>(texture, x + 1.0f, y + 1.0f, 2);
  at[3] = tex2Dgather<int4>(texture, x + 1.0f, y + 1.0f, 3);
}

int element(int x, int y, int c) {
  x = x < kWidth ? x : kWidth - 1;
  y = y < kHeight ? y : kHeight - 1;
  return (y * kWidth + x) * 4 + c;
}

}  // namespace

int main() {
  std::vector<int4> in(kWidth * kHeight);
  for (int i = 0; i < kWidth * kHeight; i++)
    in[i] = make_int4(4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3);
  cudaChannelFormatDesc format = cudaCreateChannelDesc<int4>();
  cudaArray_t array;
  CHECK(cudaMallocArray(&array, &format, kWidth, kHeight, cudaArrayTextureGather));
  CHECK(cudaMemcpy2DToArray(array, 0, 0, in.data(), kWidth * sizeof(int4), kWidth * sizeof(int4),
                            kHeight, cudaMemcpyHostToDevice));
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaTextureDesc with = {};
  with.addressMode[0] = with.addressMode[1] = cudaAddressModeClamp;
  cudaTextureObject_t texture;
  CHECK(cudaCreateTextureObject(&texture, &resource, &with, nullptr));
  int4 *out;
  CHECK(cudaMallocManaged(&out, kWidth * kHeight * 4 * sizeof(int4)));
  gather<<<kHeight, kWidth>>>(texture, out);
  CHECK(cudaDeviceSynchronize());
  for (int y = 0; y < kHeight; y++)
    for (int x = 0; x < kWidth; x++)
      for (int c = 0; c < 4; c++) {
        int4 got = out[(y * kWidth + x) * 4 + c];
        if (got.x == element(x, y + 1, c) && got.y == element(x + 1, y + 1, c) &&
            got.z == element(x + 1, y, c) && got.w == element(x, y, c))
          continue;
        fprintf(stderr, "(%d, %d) channel %d: %d %d %d %d\n", x, y, c, got.x, got.y, got.z, got.w);
        return 1;
      }
  printf("%d gathers: right\n", kWidth * kHeight * 4);
  return 0;
}
