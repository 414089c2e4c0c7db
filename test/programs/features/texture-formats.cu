// Textures of every format: as the elements are, and as normalised floats; and half precision.
#include <cuda_fp16.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "../check.h"

namespace {

constexpr int kSize = 64;

template <class Result>
__global__ void fetch(cudaTextureObject_t texture, Result *out) {
  int i = threadIdx.x;
  out[i] = tex1D<Result>(texture, i + 0.5f);
}

template <class Element, class Result>
void run(const std::vector<Element> &in, cudaTextureReadMode mode, Result *out) {
  cudaChannelFormatDesc format = cudaCreateChannelDesc<Element>();
  cudaArray_t array;
  CHECK(cudaMallocArray(&array, &format, kSize));
  CHECK(cudaMemcpy2DToArray(array, 0, 0, in.data(), kSize * sizeof(Element),
                            kSize * sizeof(Element), 1, cudaMemcpyHostToDevice));
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaTextureDesc with = {};
  with.addressMode[0] = cudaAddressModeClamp;
  with.readMode = mode;
  cudaTextureObject_t texture;
  CHECK(cudaCreateTextureObject(&texture, &resource, &with, nullptr));
  fetch<<<1, kSize>>>(texture, out);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaDestroyTextureObject(texture));
  CHECK(cudaFreeArray(array));
}

bool failed = false;

// One channel: the element itself, and divided by the largest one.
template <class Element>
void integers(const char *name, void *memory) {
  std::vector<Element> in(kSize);
  for (int i = 0; i < kSize; i++)
    in[i] = static_cast<Element>((i * 0x9E3779B9u) >> (i % 3 ? 0 : 24));
  auto *same = static_cast<Element *>(memory);
  run(in, cudaReadModeElementType, same);
  for (int i = 0; i < kSize; i++) failed |= same[i] != in[i];
  if (sizeof(Element) < 4) {
    auto *floats = static_cast<float *>(memory);
    run(in, cudaReadModeNormalizedFloat, floats);
    constexpr auto most =
        static_cast<float>((uint64_t{1} << (sizeof(Element) * 8 - (Element(-1) < Element(0)))) - 1);
    for (int i = 0; i < kSize; i++)
      failed |= floats[i] != std::fmax(static_cast<float>(in[i]) / most, -1.0f);
  }
  printf("%s: %s\n", name, failed ? "wrong" : "right");
}

}  // namespace

int main() {
  void *memory;
  CHECK(cudaMallocManaged(&memory, kSize * sizeof(float4)));
  integers<unsigned char>("unsigned char", memory);
  integers<signed char>("signed char", memory);
  integers<unsigned short>("unsigned short", memory);
  integers<short>("short", memory);
  integers<unsigned>("unsigned", memory);
  integers<int>("int", memory);

  std::vector<short2> pairs(kSize);
  for (int i = 0; i < kSize; i++)
    pairs[i] = make_short2(static_cast<short>(i), static_cast<short>(-i));
  auto *got_pairs = static_cast<short2 *>(memory);
  run(pairs, cudaReadModeElementType, got_pairs);
  for (int i = 0; i < kSize; i++)
    failed |= got_pairs[i].x != pairs[i].x || got_pairs[i].y != pairs[i].y;
  std::vector<float4> fours(kSize);
  for (int i = 0; i < kSize; i++)
    fours[i] = make_float4(static_cast<float>(i), static_cast<float>(-i), 0.5f, 1e30f);
  auto *got_fours = static_cast<float4 *>(memory);
  run(fours, cudaReadModeElementType, got_fours);
  for (int i = 0; i < kSize; i++)
    failed |= got_fours[i].x != fours[i].x || got_fours[i].y != fours[i].y ||
              got_fours[i].z != fours[i].z || got_fours[i].w != fours[i].w;
  printf("short2, float4: %s\n", failed ? "wrong" : "right");

  // Halves come out as floats.
  cudaChannelFormatDesc format = cudaCreateChannelDescHalf();
  cudaArray_t array;
  std::vector<__half> halves(kSize);
  for (int i = 0; i < kSize; i++) halves[i] = __float2half(static_cast<float>(i - 20) / 7);
  CHECK(cudaMallocArray(&array, &format, kSize));
  CHECK(cudaMemcpy2DToArray(array, 0, 0, halves.data(), kSize * 2, kSize * 2, 1,
                            cudaMemcpyHostToDevice));
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaTextureDesc with = {};
  cudaTextureObject_t texture;
  CHECK(cudaCreateTextureObject(&texture, &resource, &with, nullptr));
  auto *floats = static_cast<float *>(memory);
  fetch<<<1, kSize>>>(texture, floats);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < kSize; i++) failed |= floats[i] != __half2float(halves[i]);
  printf("half: %s\n", failed ? "wrong" : "right");
  if (failed) fprintf(stderr, "a format was read wrongly\n");
  return failed;
}
