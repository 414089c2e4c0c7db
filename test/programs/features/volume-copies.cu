// Large boxes with space between rows and slices on both sides, through arrays and levels; arrays
// that cannot be, and those for which there is no memory.
// flags: -Xcompiler=-Wno-deprecated-declarations
#include <cstring>
#include <vector>

#include "../check.h"

namespace {

bool failed = false;

void expect(bool right, const char *what) {
  printf("%s: %s\n", what, right ? "right" : "wrong");
  failed |= !right;
}

unsigned char value(size_t i) { return static_cast<unsigned char>(i * 31 + i / 509); }

// A box of width x height x depth bytes, in slices of `rows` rows of `pitch` bytes on the host,
// goes to pitched memory, to an array, and back into other slices, pinned or not.
bool there_and_back(size_t width, size_t height, size_t depth, size_t pitch, size_t rows,
                    bool pinned) {
  const size_t bytes = pitch * rows * depth;
  std::vector<unsigned char> in(bytes), pageable(bytes);
  for (size_t i = 0; i < bytes; i++) in[i] = value(i);
  unsigned char *out = pageable.data();
  if (pinned) CHECK(cudaMallocHost(&out, bytes));
  memset(out, 0xEE, bytes);
  cudaExtent extent = make_cudaExtent(width, height, depth);
  cudaPitchedPtr device;
  CHECK(cudaMalloc3D(&device, extent));
  cudaChannelFormatDesc format = cudaCreateChannelDesc<unsigned char>();
  cudaArray_t array;
  CHECK(cudaMalloc3DArray(&array, &format, extent));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  cudaMemcpy3DParms up = {}, across = {}, down = {};
  up.srcPtr = make_cudaPitchedPtr(in.data(), pitch, width, rows);
  up.dstPtr = device;
  up.extent = across.extent = down.extent = extent;
  up.kind = cudaMemcpyHostToDevice;
  CHECK(cudaMemcpy3DAsync(&up, stream));
  across.srcPtr = device;
  across.dstArray = array;
  across.kind = cudaMemcpyDeviceToDevice;
  CHECK(cudaMemcpy3DAsync(&across, stream));
  down.srcArray = array;
  down.dstPtr = make_cudaPitchedPtr(out, pitch, width, rows);
  down.kind = cudaMemcpyDeviceToHost;
  CHECK(cudaMemcpy3DAsync(&down, stream));
  CHECK(cudaStreamSynchronize(stream));
  bool right = true;
  for (size_t z = 0; z < depth; z++)
    for (size_t y = 0; y < rows; y++)
      for (size_t x = 0; x < pitch; x++) {
        const size_t i = (z * rows + y) * pitch + x;
        right &= out[i] == (x < width && y < height ? value(i) : 0xEE);
      }
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFreeArray(array));
  CHECK(cudaFree(device.ptr));
  if (pinned) CHECK(cudaFreeHost(out));
  return right;
}

}  // namespace

int main() {
  expect(there_and_back(100, 60, 50, 120, 64, true), "small rows");
  expect(there_and_back(1000, 900, 3, 1000, 901, false), "slices that lie apart");
  expect(there_and_back(9000, 150, 2, 9001, 150, true), "long rows");
  expect(there_and_back(4, 1, 700, 8, 3, false), "a needle");

  // Bytes in a row, over the ends of rows and slices.
  cudaChannelFormatDesc format = cudaCreateChannelDesc<int>();
  cudaArray_t plane;
  CHECK(cudaMallocArray(&plane, &format, 13, 17));
  std::vector<int> in(13 * 17), out(in.size());
  for (size_t i = 0; i < in.size(); i++) in[i] = static_cast<int>(i * 7);
  CHECK(cudaMemcpyToArray(plane, 0, 0, in.data(), in.size() * 4, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpyFromArray(out.data(), plane, 20, 3, 100 * 4, cudaMemcpyDeviceToHost));
  bool right = true;
  for (int i = 0; i < 100; i++) right &= out[i] == in[3 * 13 + 5 + i];
  expect(right, "bytes in a row");

  // Levels of a mipmapped array are arrays.
  cudaMipmappedArray_t levels;
  CHECK(cudaMallocMipmappedArray(&levels, &format, make_cudaExtent(64, 32, 0), 4));
  cudaArray_t third;
  CHECK(cudaGetMipmappedArrayLevel(&third, levels, 2));
  cudaExtent extent;
  unsigned flags;
  CHECK(cudaArrayGetInfo(&format, &extent, &flags, third));
  printf("level 2 is %zu x %zu\n", extent.width, extent.height);
  CHECK(cudaMemcpy2DToArray(third, 0, 0, in.data(), 64, 64, 3, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy2DFromArray(out.data(), 64, third, 0, 0, 64, 3, cudaMemcpyDeviceToHost));
  expect(memcmp(in.data(), out.data(), 64 * 3) == 0, "a copy to a level");
  SHOW(cudaGetMipmappedArrayLevel(&third, levels, 4));
  SHOW(cudaMemcpy2DToArray(third, 0, 0, in.data(), 68, 68, 1, cudaMemcpyHostToDevice));
  CHECK(cudaFreeMipmappedArray(levels));

  // What no device has, and what this one has not enough of.
  cudaArray_t other;
  SHOW(cudaMallocArray(&other, &format, 1 << 20, 1 << 20));
  SHOW(cudaMalloc3DArray(&other, &format, make_cudaExtent(8, 0, 8)));
  SHOW(cudaMalloc3DArray(&other, &format, make_cudaExtent(8, 8, 7), cudaArrayCubemap));
  cudaChannelFormatDesc three = {8, 8, 8, 0, cudaChannelFormatKindUnsigned};
  SHOW(cudaMallocArray(&other, &three, 8, 8));
  cudaChannelFormatDesc wide = cudaCreateChannelDesc<float4>();
  SHOW(cudaMalloc3DArray(&other, &wide, make_cudaExtent(16000, 16000, 16000)));
  SHOW(cudaFreeArray(plane));

  // Memory goes round: more arrays than there could be at once, if each stayed.
  size_t free_before, free_after, total;
  CHECK(cudaMemGetInfo(&free_before, &total));
  for (int i = 0; i < 40; i++) {
    CHECK(cudaMallocArray(&other, &wide, 1024, 256));
    CHECK(cudaMemcpy2DToArray(other, 0, 0, in.data(), 64, 64, 3, cudaMemcpyHostToDevice));
    CHECK(cudaFreeArray(other));
  }
  CHECK(cudaMemGetInfo(&free_after, &total));
  expect(free_before == free_after, "memory comes back");
  SHOW(cudaMemset2D(nullptr, 8, 0, 8, 2));
  SHOW(cudaDeviceSynchronize());
  return failed;
}
