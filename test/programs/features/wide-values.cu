// Wide values: loads and stores of 128 and 256 bits, pairs of singles, 128-bit exchange, atomics on
// vectors. flags: -gencode arch=compute_100,code=compute_100
#include <cstdint>
#include <cstring>

#include "../check.h"

constexpr int kThreads = 256, kBlocks = 4, kAll = kThreads * kBlocks;

struct alignas(16) Node {
  uint64_t value, count;
};

__device__ Node exchange(Node *at, Node next) {
  Node before;
  asm volatile(
      "{ .reg .b128 o, n; mov.b128 n, {%3, %4}; atom.relaxed.gpu.global.exch.b128 o, [%2], n;"
      " mov.b128 {%0, %1}, o; }"
      : "=l"(before.value), "=l"(before.count)
      : "l"(at), "l"(next.value), "l"(next.count)
      : "memory");
  return before;
}
__device__ bool replace(Node *at, Node *seen, Node next) {
  Node before;
  asm volatile(
      "{ .reg .b128 o, e, n; mov.b128 e, {%3, %4}; mov.b128 n, {%5, %6};"
      " atom.acq_rel.gpu.global.cas.b128 o, [%2], e, n; mov.b128 {%0, %1}, o; }"
      : "=l"(before.value), "=l"(before.count)
      : "l"(at), "l"(seen->value), "l"(seen->count), "l"(next.value), "l"(next.count)
      : "memory");
  bool same = before.value == seen->value && before.count == seen->count;
  *seen = before;
  return same;
}

__global__ void compute(const float *in, float *out, Node *sums, Node *last, float4 *total) {
#if __CUDA_ARCH__ >= 1000
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  // Eight floats by one load, multiplied and added in pairs, and stored at once.
  float v[8];
  asm volatile("ld.global.v8.f32 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8];"
               : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3]), "=f"(v[4]), "=f"(v[5]), "=f"(v[6]),
                 "=f"(v[7])
               : "l"(in + 8 * i));
  for (int k = 0; k < 8; k += 2)
    asm("{ .reg .b64 a, b, c; mov.b64 a, {%0, %1}; mov.b64 b, {%2, %2}; mov.b64 c, {%3, %4};"
        " fma.rn.f32x2 a, a, b, c; add.rz.f32x2 a, a, b; mov.b64 {%0, %1}, a; }"
        : "+f"(v[k]), "+f"(v[k + 1])
        : "f"(1.5f), "f"(0.25f), "f"(-3.0f));
  asm volatile("st.global.v8.f32 [%8], {%0,%1,%2,%3,%4,%5,%6,%7};" ::"f"(v[0]), "f"(v[1]),
               "f"(v[2]), "f"(v[3]), "f"(v[4]), "f"(v[5]), "f"(v[6]), "f"(v[7]), "l"(out + 8 * i)
               : "memory");
  // A sum and a count that change together.
  Node seen = {0, 0};
  while (!replace(sums, &seen, {seen.value + static_cast<uint64_t>(i), seen.count + 1})) {
  }
  // Whoever comes leaves two equal words: no one may see a mixture.
  uint64_t mine = static_cast<uint64_t>(i + 1) * 0x0101010101010101u;
  Node before = exchange(last, {mine, mine});
  if (before.value != before.count) atomicAdd(&total->w, 1e6f);
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(total), "f"(1.0f),
               "f"(0.5f), "f"(static_cast<float>(i & 1)), "f"(0.0f)
               : "memory");
#endif
}

int main() {
  static float in[8 * kAll], out[8 * kAll];
  float *din, *dout;
  Node *nodes, host[2];
  float4 *total, sum;
  for (int i = 0; i < 8 * kAll; i++) in[i] = static_cast<float>(i % 1001) * 0.37f - 100.0f;
  CHECK(cudaMalloc(&din, sizeof in));
  CHECK(cudaMalloc(&dout, sizeof out));
  CHECK(cudaMalloc(&nodes, sizeof host));
  CHECK(cudaMalloc(&total, sizeof sum));
  CHECK(cudaMemset(nodes, 0, sizeof host));
  CHECK(cudaMemset(total, 0, sizeof sum));
  CHECK(cudaMemcpy(din, in, sizeof in, cudaMemcpyHostToDevice));
  compute<<<kBlocks, kThreads>>>(din, dout, nodes, nodes + 1, total);
  CHECK(cudaMemcpy(out, dout, sizeof out, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(host, nodes, sizeof host, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(&sum, total, sizeof sum, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 8 * kAll; i++) {
    // Both steps are exact in double precision; the first is rounded to nearest, the second to
    // zero.
    auto fused = static_cast<float>(static_cast<double>(in[i]) * 1.5 + (i % 2 ? -3.0 : 0.25));
    double exact = static_cast<double>(fused) + 1.5;
    auto rounded = static_cast<float>(exact);
    uint32_t bits;
    memcpy(&bits, &rounded, 4);
    bool away =
        exact < 0 ? static_cast<double>(rounded) < exact : static_cast<double>(rounded) > exact;
    if (away) bits--;
    memcpy(&rounded, &bits, 4);
    if (out[i] != rounded) {
      fprintf(stderr, "value %d is %.9g instead of %.9g\n", i, out[i], rounded);
      return 1;
    }
  }
  bool good = host[0].value == static_cast<uint64_t>(kAll) * (kAll - 1) / 2 &&
              host[0].count == kAll && host[1].value == host[1].count && host[1].value != 0 &&
              sum.x == kAll && sum.y == kAll * 0.5f && sum.z == kAll / 2 && sum.w == 0;
  if (!good) {
    fprintf(stderr, "sums %g %g %g %g, count %d\n", sum.x, sum.y, sum.z, sum.w,
            static_cast<int>(host[0].count));
    return 1;
  }
  printf("%d threads with vectors of 256 bits and words of 128\n", kAll);
  return 0;
}
