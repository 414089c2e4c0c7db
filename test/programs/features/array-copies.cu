// Copies with arrays at either side: boxes of planes and volumes, in streams, between arrays, and
// those that must be refused.
#include <vector>

#include "../check.h"

namespace {

constexpr int kX = 24, kY = 10, kZ = 6;

cudaArray_t make(cudaExtent extent) {
  cudaChannelFormatDesc format = cudaCreateChannelDesc<int>();
  cudaArray_t array;
  CHECK(cudaMalloc3DArray(&array, &format, extent));
  return array;
}

bool failed = false;

void expect(bool right, const char *what) {
  printf("%s: %s\n", what, right ? "right" : "wrong");
  if (!right) fprintf(stderr, "%s went wrong\n", what);
  failed |= !right;
}

}  // namespace

int main() {
  std::vector<int> in(kX * kY * kZ), out(in.size());
  for (size_t i = 0; i < in.size(); i++) in[i] = static_cast<int>(i * 2654435761u);
  auto value = [&](int x, int y, int z) { return in[(z * kY + y) * kX + x]; };

  // A plane, a part of it, and both ways through device memory.
  cudaArray_t plane = make(make_cudaExtent(kX, kY, 0)), other = make(make_cudaExtent(kX, kY, 0));
  CHECK(cudaMemcpy2DToArray(plane, 0, 0, in.data(), kX * 4, kX * 4, kY, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy2DArrayToArray(other, 8, 2, plane, 16, 1, 40, 5, cudaMemcpyDeviceToDevice));
  CHECK(cudaMemcpy2DFromArray(out.data(), 40, other, 8, 2, 40, 5, cudaMemcpyDeviceToHost));
  bool right = true;
  for (int y = 0; y < 5; y++)
    for (int x = 0; x < 10; x++) right &= out[y * 10 + x] == value(x + 4, y + 1, 0);
  expect(right, "a part of a plane to another");

  int *device;
  size_t pitch;
  CHECK(cudaMallocPitch(&device, &pitch, kX * 4, kY));
  CHECK(cudaMemcpy2DFromArray(device, pitch, plane, 0, 0, kX * 4, kY, cudaMemcpyDeviceToDevice));
  CHECK(cudaMemcpy2D(out.data(), kX * 4, device, pitch, kX * 4, kY, cudaMemcpyDeviceToHost));
  right = true;
  for (int i = 0; i < kX * kY; i++) right &= out[i] == in[i];
  expect(right, "a plane to pitched memory");

  // A volume in a stream, from pinned memory and back, of which a box goes to another volume.
  cudaArray_t volume = make(make_cudaExtent(kX, kY, kZ)), second = make(make_cudaExtent(8, 8, 8));
  int *pinned;
  CHECK(cudaMallocHost(&pinned, in.size() * 4));
  for (size_t i = 0; i < in.size(); i++) pinned[i] = in[i];
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  cudaMemcpy3DParms up = {}, across = {}, down = {};
  up.srcPtr = make_cudaPitchedPtr(pinned, kX * 4, kX, kY);
  up.dstArray = volume;
  up.extent = make_cudaExtent(kX, kY, kZ);
  up.kind = cudaMemcpyHostToDevice;
  CHECK(cudaMemcpy3DAsync(&up, stream));
  across.srcArray = volume;
  across.srcPos = make_cudaPos(5, 3, 2);
  across.dstArray = second;
  across.dstPos = make_cudaPos(1, 2, 3);
  across.extent = make_cudaExtent(6, 5, 4);
  across.kind = cudaMemcpyDeviceToDevice;
  CHECK(cudaMemcpy3DAsync(&across, stream));
  down.srcArray = second;
  down.srcPos = across.dstPos;
  down.dstPtr = make_cudaPitchedPtr(pinned, 6 * 4, 6, 5);
  down.extent = across.extent;
  down.kind = cudaMemcpyDeviceToHost;
  CHECK(cudaMemcpy3DAsync(&down, stream));
  CHECK(cudaStreamSynchronize(stream));
  right = true;
  for (int z = 0; z < 4; z++)
    for (int y = 0; y < 5; y++)
      for (int x = 0; x < 6; x++)
        right &= pinned[(z * 5 + y) * 6 + x] == value(x + 5, y + 3, z + 2);
  expect(right, "a box of a volume to another, in a stream");

  // What leaves an array is refused.
  SHOW(cudaMemcpy2DToArray(plane, 0, 1, in.data(), kX * 4, kX * 4, kY, cudaMemcpyHostToDevice));
  SHOW(cudaMemcpy2DToArray(plane, 2, 0, in.data(), kX * 4, 8, 1, cudaMemcpyHostToDevice));
  across.srcPos = make_cudaPos(20, 3, 2);
  SHOW(cudaMemcpy3D(&across));
  SHOW(cudaFreeArray(plane));
  SHOW(cudaFreeArray(nullptr));
  SHOW(cudaMallocArray(&plane, nullptr, 10));
  size_t before, after, total;
  CHECK(cudaMemGetInfo(&before, &total));
  cudaArray_t large = make(make_cudaExtent(2048, 2048, 0));
  CHECK(cudaMemGetInfo(&after, &total));
  expect(before - after >= 2048 * 2048 * 4, "its memory is counted");
  CHECK(cudaFreeArray(large));
  CHECK(cudaFreeHost(pinned));
  CHECK(cudaFree(device));
  return failed;
}
