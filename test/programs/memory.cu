// Allocation, sets and copies of every shape, each checked.
#include <cstring>
#include <vector>

#include "check.h"

static void expect(const char *what, bool right) {
  printf("%s: %s\n", what, right ? "right" : "WRONG");
}

int main() {
  // Many sizes, freed in another order, used again.
  std::vector<unsigned char *> blocks;
  for (int i = 0; i < 200; i++) {
    unsigned char *block;
    CHECK(cudaMalloc(&block, 100 + i * 7919 % 300000));
    CHECK(cudaMemset(block, i, 100));
    blocks.push_back(block);
  }
  bool right = true;
  for (int i = 0; i < 200; i += 2) CHECK(cudaFree(blocks[i]));
  for (int i = 0; i < 200; i += 2) {
    CHECK(cudaMalloc(&blocks[i], 4096));
    CHECK(cudaMemset(blocks[i], i, 100));
  }
  for (int i = 0; i < 200; i++) {
    unsigned char bytes[100];
    CHECK(cudaMemcpy(bytes, blocks[i], 100, cudaMemcpyDeviceToHost));
    for (unsigned char b : bytes) right = right && b == i % 256;
  }
  expect("two hundred blocks", right);
  for (unsigned char *block : blocks) CHECK(cudaFree(block));

  // Sizes around every boundary of the transport.
  right = true;
  for (size_t size :
       {1ul, 7ul, 8ul, 4095ul, 16384ul, 16385ul, 65537ul, 1048576ul, 1048577ul, 5000001ul}) {
    std::vector<unsigned char> out(size), back(size, 0);
    for (size_t i = 0; i < size; i++) out[i] = (unsigned char)(i * 31 + size);
    unsigned char *device;
    CHECK(cudaMalloc(&device, size));
    CHECK(cudaMemcpy(device, out.data(), size, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(back.data(), device, size, cudaMemcpyDeviceToHost));
    right = right && out == back;
    unsigned char *second;
    CHECK(cudaMalloc(&second, size));
    CHECK(cudaMemcpy(second, device, size, cudaMemcpyDeviceToDevice));
    std::vector<unsigned char> third(size, 0);
    CHECK(cudaMemcpy(third.data(), second, size, cudaMemcpyDefault));
    right = right && out == third;
    CHECK(cudaFree(device));
    CHECK(cudaFree(second));
  }
  expect("copies of all sizes", right);

  // Pitched memory, rows with gaps on either side.
  const int width = 37, height = 11;
  std::vector<unsigned char> source(60 * height), target(50 * height, 0);
  for (size_t i = 0; i < source.size(); i++) source[i] = (unsigned char)(i * 7);
  unsigned char *plane, *other;
  size_t pitch, other_pitch;
  CHECK(cudaMallocPitch(&plane, &pitch, width, height));
  CHECK(cudaMallocPitch(&other, &other_pitch, width + 100, height));
  CHECK(cudaMemset2D(plane, pitch, 0xee, width, height));
  CHECK(cudaMemcpy2D(plane, pitch, source.data(), 60, width - 1, height, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy2D(other, other_pitch, plane, pitch, width, height, cudaMemcpyDeviceToDevice));
  CHECK(cudaMemcpy2D(target.data(), 50, other, other_pitch, width, height, cudaMemcpyDeviceToHost));
  right = true;
  for (int y = 0; y < height; y++)
    for (int x = 0; x < 50; x++) {
      unsigned char wanted = x < width - 1 ? source[y * 60 + x] : x < width ? 0xee : 0;
      right = right && target[y * 50 + x] == wanted;
    }
  expect("pitched copies", right);

  // Asynchronous copies from and to pinned memory, in a stream.
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const size_t count = 3 << 20;
  int *pinned, *back, *device;
  CHECK(cudaMallocHost(&pinned, count * sizeof(int)));
  CHECK(cudaHostAlloc(&back, count * sizeof(int), cudaHostAllocDefault));
  CHECK(cudaMalloc(&device, count * sizeof(int)));
  for (size_t i = 0; i < count; i++) pinned[i] = (int)(i * 2654435761u);
  memset(back, 0, count * sizeof(int));
  CHECK(cudaMemcpyAsync(device, pinned, count * sizeof(int), cudaMemcpyHostToDevice, stream));
  CHECK(cudaMemcpyAsync(back, device, count * sizeof(int), cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  expect("pinned copies", memcmp(pinned, back, count * sizeof(int)) == 0);
  memset(back, 0, count * sizeof(int));
  CHECK(cudaMemcpyAsync(back, device, count * sizeof(int), cudaMemcpyDeviceToHost, stream));
  CHECK(cudaFreeHost(back));  // waits for the copy
  CHECK(cudaStreamDestroy(stream));

  cudaPointerAttributes attributes;
  CHECK(cudaPointerGetAttributes(&attributes, device + 5));
  printf("device pointer: type %d, device %d\n", attributes.type, attributes.device);
  CHECK(cudaPointerGetAttributes(&attributes, pinned + 5));
  printf("pinned pointer: type %d\n", attributes.type);
  CHECK(cudaPointerGetAttributes(&attributes, &attributes));
  printf("other pointer: type %d\n", attributes.type);
  SHOW(cudaMallocHost(&back, 0));
  SHOW(cudaFree(nullptr));
  return 0;
}
