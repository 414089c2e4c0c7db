// Rows and boxes: pitched memory, 2D and 3D copies and sets, parts of them.
#include <cstdio>
#include <vector>

#include "../check.h"

__global__ void increment(cudaPitchedPtr box, int width, int height, int depth) {
  int x = threadIdx.x, y = blockIdx.x, z = blockIdx.y;
  if (x >= width || y >= height || z >= depth) return;
  char *row = static_cast<char *>(box.ptr) + (z * box.ysize + y) * box.pitch;
  reinterpret_cast<int *>(row)[x]++;
}

int main() {
  constexpr int width = 37, height = 11, depth = 5;
  cudaExtent extent = make_cudaExtent(width * sizeof(int), height, depth);
  cudaPitchedPtr box;
  CHECK(cudaMalloc3D(&box, extent));
  CHECK(cudaMemset3D(box, 0, extent));
  std::vector<int> in(width * height * depth), out(in.size(), -1);
  for (size_t i = 0; i < in.size(); i++) in[i] = static_cast<int>(i);

  cudaMemcpy3DParms copy = {};
  copy.srcPtr = make_cudaPitchedPtr(in.data(), width * sizeof(int), width, height);
  copy.dstPtr = box;
  copy.extent = extent;
  copy.kind = cudaMemcpyHostToDevice;
  CHECK(cudaMemcpy3D(&copy));
  increment<<<dim3(height, depth), 64>>>(box, width, height, depth);
  copy.srcPtr = box;
  copy.dstPtr = make_cudaPitchedPtr(out.data(), width * sizeof(int), width, height);
  copy.kind = cudaMemcpyDeviceToHost;
  CHECK(cudaMemcpy3DAsync(&copy, 0));
  CHECK(cudaDeviceSynchronize());
  for (size_t i = 0; i < in.size(); i++)
    if (out[i] != in[i] + 1) {
      fprintf(stderr, "element %zu is %d\n", i, out[i]);
      return 1;
    }
  printf("a box went there and back\n");

  // The middle of a plane, into the corner of another.
  int *plane;
  size_t pitch;
  CHECK(cudaMallocPitch(&plane, &pitch, width * sizeof(int), height));
  CHECK(cudaMemset2D(plane, pitch, 0xFF, width * sizeof(int), height));
  CHECK(cudaMemcpy2D(plane, pitch, in.data() + 2 * width + 3, width * sizeof(int), 10 * sizeof(int),
                     4, cudaMemcpyHostToDevice));
  std::vector<int> back(width * height);
  CHECK(cudaMemcpy2D(back.data(), width * sizeof(int), plane, pitch, width * sizeof(int), height,
                     cudaMemcpyDeviceToHost));
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++) {
      int expected = x < 10 && y < 4 ? in[(y + 2) * width + 3 + x] : -1;
      if (back[y * width + x] != expected) {
        fprintf(stderr, "row %d, column %d is %d\n", y, x, back[y * width + x]);
        return 1;
      }
    }
  printf("a part of a plane went into another, pitch is enough: %d\n",
         pitch >= width * sizeof(int));
  SHOW(cudaMemcpy2D(plane, 8, in.data(), 8, 16, 2, cudaMemcpyHostToDevice));
  SHOW(cudaMemcpy2D(plane, pitch, in.data(), pitch, width * sizeof(int), 1 << 20,
                    cudaMemcpyDeviceToDevice));
  cudaGetLastError();
  CHECK(cudaFree(plane));
  CHECK(cudaFree(box.ptr));
  return 0;
}
