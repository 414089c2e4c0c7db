// Pointers to functions of the device that one kernel leaves in memory and another calls, and
// objects with virtual functions that one makes and another uses.
#include <new>

#include "../check.h"

using Function = int (*)(int);

__device__ int twice(int n) { return 2 * n; }
__device__ int square(int n) { return n * n; }
__device__ Function kept;

struct Shape {
  __device__ virtual int corners() const = 0;
};
struct Triangle : Shape {
  __device__ int corners() const override { return 3; }
};
struct Polygon : Shape {
  int n;
  __device__ explicit Polygon(int n) : n(n) {}
  __device__ int corners() const override { return kept(n); }
};

union Room {
  Triangle triangle;
  Polygon polygon;
  __device__ Room() {}
};

__global__ void leave(Function *functions, unsigned char *room) {
  functions[0] = twice;
  functions[1] = square;
  kept = twice;
  new (room) Triangle();
  new (room + sizeof(Room)) Polygon(4);
}

__global__ void call(const Function *functions, const unsigned char *room, int *out) {
  const int i = static_cast<int>(threadIdx.x);
  out[i] = functions[i % 2](i);
  if (i < 2) out[i + 64] = reinterpret_cast<const Shape *>(room + i * sizeof(Room))->corners();
}

int main() {
  Function *functions;
  unsigned char *room;
  int *out, got[66];
  CHECK(cudaMalloc(&functions, 2 * sizeof *functions));
  CHECK(cudaMalloc(&room, 2 * sizeof(Room)));
  CHECK(cudaMalloc(&out, sizeof got));
  leave<<<1, 1>>>(functions, room);
  CHECK(cudaGetLastError());
  call<<<1, 64>>>(functions, room, out);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
  int right = 0;
  for (int i = 0; i < 64; i++) right += got[i] == (i % 2 ? i * i : 2 * i);
  printf("%d of 64 right; corners: %d, %d\n", right, got[64], got[65]);
  CHECK(cudaFree(functions));
  CHECK(cudaFree(room));
  CHECK(cudaFree(out));
  return right == 64 && got[64] == 3 && got[65] == 8 ? 0 : 1;
}
