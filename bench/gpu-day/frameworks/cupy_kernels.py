"""CuPy: kernels that NVRTC compiles, and cuBLAS."""

from _day import Done, need

(cupy,) = need("cupy")

with Done("cupy: first array") as it:
    it.result = float(cupy.arange(1000, dtype=cupy.float32).sum())
twice = cupy.RawKernel(
    r"""extern "C" __global__ void twice(float *x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= 2;
}""",
    "twice",
)
with Done("cupy: a kernel of our own") as it:
    x = cupy.ones(100_000, dtype=cupy.float32)
    for _ in range(10):
        twice((391,), (256,), (x, cupy.int32(x.size)))
    it.result = float(x.sum())
with Done("cupy: element-wise, fused, reduced") as it:
    x = cupy.linspace(0, 1, 1_000_000, dtype=cupy.float32)
    it.result = float(cupy.sqrt(cupy.sin(x) ** 2 + cupy.cos(x) ** 2).sum())
with Done("cupy: matrix product") as it:
    a = cupy.arange(512 * 512, dtype=cupy.float32).reshape(512, 512) / 1e5
    it.result = float((a @ a).sum())
