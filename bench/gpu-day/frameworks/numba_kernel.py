"""Numba: kernels that are compiled here, with shared memory and atomics."""

from _day import Done, need

(numpy, _) = need("numpy", "numba")
from numba import cuda, float32  # noqa: E402


@cuda.jit
def row_sums(x, out):
    shared = cuda.shared.array(128, float32)
    i = cuda.threadIdx.x
    total = 0.0
    for column in range(i, x.shape[1], 128):
        total += x[cuda.blockIdx.x, column]
    shared[i] = total
    cuda.syncthreads()
    step = 64
    while step > 0:
        if i < step:
            shared[i] += shared[i + step]
        cuda.syncthreads()
        step //= 2
    if i == 0:
        cuda.atomic.add(out, cuda.blockIdx.x % 4, shared[0])


x = numpy.arange(256 * 1000, dtype=numpy.float32).reshape(256, 1000) / 1000
with Done("numba: first launch") as it:
    there = cuda.to_device(x)
    out = cuda.to_device(numpy.zeros(4, dtype=numpy.float32))
    row_sums[256, 128](there, out)
    it.result = float(out.copy_to_host().sum())
with Done("numba: 100 launches") as it:
    for _ in range(100):
        row_sums[256, 128](there, out)
    it.result = float(out.copy_to_host().sum())
