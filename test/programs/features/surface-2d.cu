// Surfaces, 2D: read and written by kernels, and what happens outside of them in each mode.
#include <vector>

#include "../check.h"

namespace {

constexpr int kWidth = 33, kHeight = 10;

__global__ void rotate(cudaSurfaceObject_t from, cudaSurfaceObject_t to) {
  int x = threadIdx.x, y = blockIdx.x;
  uchar4 value = surf2Dread<uchar4>(from, x * sizeof(uchar4), y);
  surf2Dwrite(make_uchar4(value.y, value.z, value.w, value.x), to,
              (kWidth - 1 - x) * sizeof(uchar4), kHeight - 1 - y);
}

__global__ void outside(cudaSurfaceObject_t surface, uchar4 *out) {
  out[0] = surf2Dread<uchar4>(surface, -4, 0, cudaBoundaryModeZero);
  out[1] = surf2Dread<uchar4>(surface, -4, 0, cudaBoundaryModeClamp);
  out[2] = surf2Dread<uchar4>(surface, kWidth * 4 + 40, kHeight + 3, cudaBoundaryModeClamp);
  surf2Dwrite(make_uchar4(1, 2, 3, 4), surface, kWidth * 4, 0, cudaBoundaryModeZero);
}

__global__ void trap(cudaSurfaceObject_t surface) {
  surf2Dwrite(make_uchar4(1, 2, 3, 4), surface, kWidth * 4, 0, cudaBoundaryModeTrap);
}

bool same(uchar4 a, uchar4 b) { return a.x == b.x && a.y == b.y && a.z == b.z && a.w == b.w; }

}  // namespace

int main() {
  std::vector<uchar4> in(kWidth * kHeight), out(in.size());
  for (size_t i = 0; i < in.size(); i++)
    in[i] = make_uchar4(i & 255, (i * 3) & 255, (i * 5) & 255, (i * 7) & 255);
  cudaChannelFormatDesc format = cudaCreateChannelDesc<uchar4>();
  cudaArray_t arrays[2];
  cudaSurfaceObject_t surfaces[2];
  for (int i = 0; i < 2; i++) {
    CHECK(cudaMallocArray(&arrays[i], &format, kWidth, kHeight, cudaArraySurfaceLoadStore));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = arrays[i];
    CHECK(cudaCreateSurfaceObject(&surfaces[i], &resource));
  }
  CHECK(cudaMemcpy2DToArray(arrays[0], 0, 0, in.data(), kWidth * 4, kWidth * 4, kHeight,
                            cudaMemcpyHostToDevice));
  rotate<<<kHeight, kWidth>>>(surfaces[0], surfaces[1]);
  CHECK(cudaMemcpy2DFromArray(out.data(), kWidth * 4, arrays[1], 0, 0, kWidth * 4, kHeight,
                              cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < in.size(); i++) {
    uchar4 v = in[in.size() - 1 - i];
    if (same(out[i], make_uchar4(v.y, v.z, v.w, v.x))) continue;
    fprintf(stderr, "element %zu is wrong\n", i);
    return 1;
  }
  printf("rotated\n");

  uchar4 *found;
  CHECK(cudaMallocManaged(&found, 3 * sizeof(uchar4)));
  outside<<<1, 1>>>(surfaces[0], found);
  CHECK(cudaDeviceSynchronize());
  if (!same(found[0], make_uchar4(0, 0, 0, 0)) || !same(found[1], in[0]) ||
      !same(found[2], in.back())) {
    fprintf(stderr, "what is outside was read wrongly\n");
    return 1;
  }
  printf("outside: zero and clamp\n");
  trap<<<1, 1>>>(surfaces[0]);
  printf("trap ends the kernel: %s\n", cudaDeviceSynchronize() != cudaSuccess ? "yes" : "no");
  return 0;
}
