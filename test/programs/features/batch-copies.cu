// Many copies in one call, lines and boxes.
#include <cstdio>
#include <vector>

#include "../check.h"

int main() {
  constexpr int parts = 8, words = 500;
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  int *device, *host;
  CHECK(cudaMalloc(&device, parts * words * sizeof(int)));
  CHECK(cudaMallocHost(&host, 2 * parts * words * sizeof(int)));
  for (int i = 0; i < parts * words; i++) host[i] = i;
  const void *from[parts];
  void *to[parts];
  size_t sizes[parts];
  for (int i = 0; i < parts; i++) {  // turned round
    from[i] = host + i * words;
    to[i] = device + (parts - 1 - i) * words;
    sizes[i] = words * sizeof(int);
  }
  cudaMemcpyAttributes attributes = {};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  size_t index = 0;
  CHECK(cudaMemcpyBatchAsync(to, from, sizes, parts, &attributes, &index, 1, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaMemcpy(host + parts * words, device, parts * words * sizeof(int),
                   cudaMemcpyDeviceToHost));
  for (int i = 0; i < parts; i++)
    for (int j = 0; j < words; j++)
      if (host[(parts + parts - 1 - i) * words + j] != i * words + j) {
        fprintf(stderr, "part %d is wrong at %d\n", i, j);
        return 1;
      }
  printf("%d parts were copied in one call\n", parts);

  // Boxes of 16 x 4 x 2 bytes.
  cudaMemcpy3DBatchOp boxes[2] = {};
  for (int i = 0; i < 2; i++) {
    boxes[i].extent = make_cudaExtent(16, 4, 2);
    boxes[i].srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    boxes[i].src.type = boxes[i].dst.type = cudaMemcpyOperandTypePointer;
    boxes[i].src.op.ptr.ptr = host + i * 256;
    boxes[i].src.op.ptr.rowLength = 64;
    boxes[i].src.op.ptr.layerHeight = 8;
    boxes[i].dst.op.ptr.ptr = device + i * 32;
    boxes[i].dst.op.ptr.rowLength = 16;
    boxes[i].dst.op.ptr.layerHeight = 4;
  }
  CHECK(cudaMemcpy3DBatchAsync(2, boxes, 0, stream));
  CHECK(cudaStreamSynchronize(stream));
  int packed[64];
  CHECK(cudaMemcpy(packed, device, sizeof packed, cudaMemcpyDeviceToHost));
  for (int box = 0; box < 2; box++)
    for (int z = 0; z < 2; z++)
      for (int y = 0; y < 4; y++)
        for (int x = 0; x < 4; x++)
          if (packed[((box * 2 + z) * 4 + y) * 4 + x] != box * 256 + (z * 8 + y) * 16 + x) {
            fprintf(stderr, "box %d is wrong at %d %d %d\n", box, x, y, z);
            return 1;
          }
  printf("two boxes were packed in one call\n");
  SHOW(cudaMemcpyBatchAsync(to, from, sizes, parts, &attributes, &index, 1, cudaStreamLegacy));
  cudaGetLastError();
  CHECK(cudaFree(device));
  CHECK(cudaFreeHost(host));
  return 0;
}
