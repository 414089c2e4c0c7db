// Objects with virtual functions, made and deleted on the device.
#include "../check.h"

struct Shape {
  __device__ virtual ~Shape() {}
  __device__ virtual float area() const = 0;
  __device__ virtual int sides() const { return 0; }
};
struct Square : Shape {
  float side;
  __device__ explicit Square(float s) : side(s) {}
  __device__ float area() const override { return side * side; }
  __device__ int sides() const override { return 4; }
};
struct Disc : Shape {
  float radius;
  int *deleted;
  __device__ Disc(float r, int *d) : radius(r), deleted(d) {}
  __device__ ~Disc() override { atomicAdd(deleted, 1); }
  __device__ float area() const override { return 3 * radius * radius; }
};

__global__ void make(Shape **shapes, int *deleted) {
  int me = blockIdx.x * blockDim.x + threadIdx.x;
  if (me % 2)
    shapes[me] = new Square(static_cast<float>(me));
  else
    shapes[me] = new Disc(static_cast<float>(me), deleted);
}
__global__ void measure(Shape **shapes, float *areas, int *sides) {
  int me = blockIdx.x * blockDim.x + threadIdx.x;
  areas[me] = shapes[me]->area();
  sides[me] = shapes[me]->sides();
}
__global__ void destroy(Shape **shapes) { delete shapes[blockIdx.x * blockDim.x + threadIdx.x]; }

int main() {
  constexpr int kCount = 128;
  Shape **shapes;
  float *areas;
  int *sides, *deleted;
  CHECK(cudaMalloc(&shapes, sizeof *shapes * kCount));
  CHECK(cudaMallocManaged(&areas, sizeof *areas * kCount));
  CHECK(cudaMallocManaged(&sides, sizeof *sides * kCount));
  CHECK(cudaMallocManaged(&deleted, sizeof *deleted));
  *deleted = 0;
  make<<<2, 64>>>(shapes, deleted);
  measure<<<2, 64>>>(shapes, areas, sides);
  destroy<<<2, 64>>>(shapes);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < kCount; i++) {
    float want = static_cast<float>(i * i * (i % 2 ? 1 : 3));
    if (areas[i] != want || sides[i] != (i % 2 ? 4 : 0))
      return fprintf(stderr, "shape %d: %g, %d sides\n", i, areas[i], sides[i]), 1;
  }
  if (*deleted != kCount / 2) return fprintf(stderr, "%d discs deleted\n", *deleted), 1;
  printf("%d shapes were measured, %d discs deleted\n", kCount, *deleted);
  return 0;
}
