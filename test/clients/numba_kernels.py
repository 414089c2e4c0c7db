# Numba's CUDA target: Python functions compiled to PTX and linked by the driver (cuLink*).
import math

import numpy as np
from checks import check, close, done, same
from numba import cuda, float32, int32
from numba.cuda import config

config.CUDA_LOW_OCCUPANCY_WARNINGS = False
config.CUDA_WARN_ON_IMPLICIT_COPY = False

rng = np.random.default_rng(13)


@check
def kernels():
    @cuda.jit
    def saxpy(a, x, y, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = a * x[i] + y[i]

    x, y = rng.random(1000), rng.random(1000)
    out = np.zeros(1000)
    saxpy[8, 128](3.0, x, y, out)
    close(out, 3.0 * x + y, rtol=1e-12)


@check
def two_dimensions_and_strides():
    @cuda.jit
    def transpose(a, out):
        i, j = cuda.grid(2)
        if i < a.shape[0] and j < a.shape[1]:
            out[j, i] = a[i, j]

    a = rng.random((40, 70)).astype(np.float32)[::2]
    out = np.zeros((70, 20), np.float32)
    transpose[(3, 10), (8, 8)](cuda.to_device(np.ascontiguousarray(a)), out)
    same(out, a.T)


@check
def device_functions_and_math():
    @cuda.jit(device=True)
    def polar(x, y):
        return math.hypot(x, y), math.atan2(y, x)

    @cuda.jit
    def convert(x, y, r, angle):
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
            r[i], angle[i] = polar(x[i], y[i])
            r[i] = math.exp(-r[i]) + math.sin(angle[i]) ** 2

    x, y = rng.standard_normal(500), rng.standard_normal(500)
    r, angle = np.zeros(500), np.zeros(500)
    convert[2, 64](x, y, r, angle)
    close(angle, np.arctan2(y, x), rtol=1e-12)
    close(r, np.exp(-np.hypot(x, y)) + np.sin(angle) ** 2, rtol=1e-12)


@check
def shared_memory():
    @cuda.jit
    def block_sums(a, out):
        tile = cuda.shared.array(128, float32)
        t = cuda.threadIdx.x
        i = cuda.grid(1)
        tile[t] = a[i] if i < a.size else 0
        cuda.syncthreads()
        step = 64
        while step > 0:
            if t < step:
                tile[t] += tile[t + step]
            cuda.syncthreads()
            step //= 2
        if t == 0:
            out[cuda.blockIdx.x] = tile[0]

    a = rng.integers(0, 100, 1000).astype(np.float32)
    out = np.zeros(8, np.float32)
    block_sums[8, 128](a, out)
    same(out, np.add.reduceat(a, np.arange(0, 1000, 128)))


@check
def atomics():
    @cuda.jit
    def histogram(a, bins, biggest, total):
        i = cuda.grid(1)
        if i < a.size:
            cuda.atomic.add(bins, a[i], 1)
            cuda.atomic.max(biggest, 0, a[i])
            cuda.atomic.add(total, 0, float32(a[i]))

    a = rng.integers(0, 16, 2000).astype(np.int32)
    bins, biggest, total = np.zeros(16, np.int32), np.zeros(1, np.int32), np.zeros(1, np.float32)
    histogram[16, 128](a, bins, biggest, total)
    same(bins, np.bincount(a, minlength=16))
    same(biggest, [a.max()])
    same(total, [a.sum()])


@check
def warps():
    @cuda.jit
    def warp_sums(a, out):
        i = cuda.grid(1)
        value = a[i]
        for step in (16, 8, 4, 2, 1):
            value += cuda.shfl_down_sync(0xFFFFFFFF, value, step)
        if cuda.laneid == 0:
            out[i // 32] = value

    a = rng.integers(0, 100, 256).astype(np.int32)
    out = np.zeros(8, np.int32)
    warp_sums[2, 128](a, out)
    same(out, a.reshape(8, 32).sum(axis=1))


@check
def constants_and_local_arrays():
    table = np.arange(10, dtype=np.int32) ** 2

    @cuda.jit
    def look_up(out):
        squares = cuda.const.array_like(table)
        last = cuda.local.array(4, int32)
        i = cuda.grid(1)
        for k in range(4):
            last[k] = squares[(i + k) % 10]
        if i < out.size:
            out[i] = last[0] + last[1] + last[2] + last[3]

    out = np.zeros(100, np.int32)
    look_up[1, 128](out)
    i = np.arange(100)
    same(out, sum(table[(i + k) % 10] for k in range(4)))


@check
def reductions():
    total = cuda.reduce(lambda a, b: a + b)
    a = rng.random(5000)
    close(total(a), a.sum(), rtol=1e-12)
    biggest = cuda.reduce(lambda a, b: max(a, b))
    assert biggest(a) == a.max()


@check
def streams_and_device_arrays():
    @cuda.jit
    def double(a):
        i = cuda.grid(1)
        if i < a.size:
            a[i] *= 2

    a = rng.random(3000)
    stream = cuda.stream()
    with cuda.pinned(a):
        on_device = cuda.to_device(a, stream=stream)
        double[24, 128, stream](on_device)
        result = on_device.copy_to_host(stream=stream)
        stream.synchronize()
    close(result, a * 2, rtol=1e-15)


@check
def grids_that_wait_for_themselves():
    @cuda.jit
    def rows(a):
        grid = cuda.cg.this_grid()
        column = cuda.grid(1)
        for row in range(1, a.shape[0]):
            a[row, column] = a[row - 1, a.shape[1] - column - 1] + 1
            grid.sync()

    a = np.zeros((50, 256), np.int32)
    rows[8, 32](a)
    same(a, np.repeat(np.arange(50, dtype=np.int32), 256).reshape(50, 256))


@check
def exceptions_of_kernels():
    @cuda.jit(debug=True, opt=False)
    def refuses(a):
        if a[cuda.grid(1)] > 5:
            raise ValueError("too large")

    refuses[1, 5](np.arange(5))
    try:
        refuses[1, 8](np.arange(8))
        cuda.synchronize()
    except ValueError as error:
        assert "too large" in str(error)
        return
    raise AssertionError("the exception was not reported")


done()
