// Pointers to device functions: in tables, as arguments, different ones in the lanes of a warp.
#include "../check.h"

struct Pair {
  double a;
  int b;
  short c;
};
using Function = Pair (*)(Pair, int);

__device__ __noinline__ Pair add(Pair p, int n) { return {p.a + n, p.b + n, p.c}; }
__device__ __noinline__ Pair scale(Pair p, int n) {
  return {p.a * n, p.b * n, static_cast<short>(p.c + 1)};
}
__device__ __noinline__ Pair swap(Pair p, int) {
  return {static_cast<double>(p.b), static_cast<int>(p.a), p.c};
}

__device__ Function table[3] = {add, scale, swap};
__device__ Function chosen = scale;

__device__ __noinline__ Pair twice(Function f, Pair p, int n) { return f(f(p, n), n); }

__global__ void apply(Pair *out) {
  int me = threadIdx.x;
  Pair p = {me * 0.5, me, static_cast<short>(me)};
  p = table[me % 3](p, 3);
  p = twice(table[(me + 1) % 3], p, 2);
  out[me] = chosen(p, 1);
}
__global__ void give(Function *out) { *out = swap; }
__global__ void take(Function *f, Pair *out) { *out = (*f)({7.0, 5, 1}, 0); }

static Pair on_host(int which, Pair p, int n) {
  if (which == 0) return {p.a + n, p.b + n, p.c};
  if (which == 1) return {p.a * n, p.b * n, static_cast<short>(p.c + 1)};
  return {static_cast<double>(p.b), static_cast<int>(p.a), p.c};
}

int main() {
  Pair *out;
  Function *pointer;
  CHECK(cudaMallocManaged(&out, sizeof(Pair) * 64));
  CHECK(cudaMalloc(&pointer, sizeof *pointer));
  apply<<<1, 64>>>(out);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < 64; i++) {
    Pair p = {i * 0.5, i, static_cast<short>(i)};
    p = on_host(i % 3, p, 3);
    p = on_host((i + 1) % 3, on_host((i + 1) % 3, p, 2), 2);
    p = on_host(1, p, 1);
    if (p.a != out[i].a || p.b != out[i].b || p.c != out[i].c)
      return fprintf(stderr, "thread %d: %g %d %d\n", i, out[i].a, out[i].b, out[i].c), 1;
  }
  // From one kernel to the next, through memory.
  give<<<1, 1>>>(pointer);
  take<<<1, 1>>>(pointer, out);
  CHECK(cudaDeviceSynchronize());
  if (out->a != 5.0 || out->b != 7) return fprintf(stderr, "%g %d\n", out->a, out->b), 1;
  printf("functions were called by pointer\n");
  return 0;
}
