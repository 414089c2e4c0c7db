# CuPy on arrays: kernels that it compiles with NVRTC, and its own precompiled ones (CUB, Thrust).
import cupy as cp
import numpy as np
from checks import check, close, done, same

rng = np.random.default_rng(7)


@check
def elementwise():
    for dtype in (np.float32, np.float64, np.float16, np.int32, np.uint8, np.complex64):
        a = (rng.random(1000) * 50).astype(dtype)
        b = (rng.random(1000) * 50 + 1).astype(dtype)
        x, y = cp.asarray(a), cp.asarray(b)
        close(cp.asnumpy(x + y), a + b, rtol=1e-3)
        close(cp.asnumpy(x * y), a * b, rtol=1e-3)
    a = rng.random(1000).astype(np.float32)
    for name in ("sin", "exp", "log1p", "tanh", "sqrt", "floor"):
        close(cp.asnumpy(getattr(cp, name)(cp.asarray(a))), getattr(np, name)(a), rtol=1e-5)
    a = rng.random(1000)
    for name in ("cos", "log", "cbrt"):
        close(cp.asnumpy(getattr(cp, name)(cp.asarray(a))), getattr(np, name)(a), rtol=1e-12)


@check
def fused_and_broadcast():
    @cp.fuse()
    def squared_difference(x, y):
        return (x - y) * (x - y)

    a, b = rng.random((64, 1)), rng.random((1, 33))
    close(cp.asnumpy(squared_difference(cp.asarray(a), cp.asarray(b))), (a - b) ** 2)


@check
def indexing():
    a = rng.integers(0, 100, (40, 50))
    x = cp.asarray(a)
    same(cp.asnumpy(x[::3, ::-2]), a[::3, ::-2])
    same(cp.asnumpy(x[x > 50]), a[a > 50])
    rows = np.array([3, 1, 39, 3])
    same(cp.asnumpy(x[cp.asarray(rows)]), a[rows])
    same(cp.asnumpy(cp.where(x > 50, x, -x)), np.where(a > 50, a, -a))
    same(cp.asnumpy(cp.concatenate([x, x], axis=1)), np.concatenate([a, a], axis=1))


@check
def reductions():
    a = rng.random((128, 257)).astype(np.float32)
    x = cp.asarray(a)
    for axis in (None, 0, 1):
        close(cp.asnumpy(x.sum(axis=axis)), a.sum(axis=axis), rtol=1e-4)
        same(cp.asnumpy(x.max(axis=axis)), a.max(axis=axis))
        same(cp.asnumpy(x.argmin(axis=axis)), a.argmin(axis=axis))
    close(cp.asnumpy(x.mean()), a.mean(), rtol=1e-5)
    close(cp.asnumpy(x.std(axis=0)), a.std(axis=0), rtol=1e-4)


@check
def sort():
    for dtype in (np.float32, np.float64, np.int32, np.int64, np.uint8, np.float16):
        a = (rng.random(5000) * 1000).astype(dtype)
        x = cp.asarray(a)
        same(cp.asnumpy(cp.sort(x)), np.sort(a))
        same(cp.asnumpy(cp.argsort(x, kind="stable")), np.argsort(a, kind="stable"))
    a = rng.random((50, 60))
    same(cp.asnumpy(cp.sort(cp.asarray(a), axis=0)), np.sort(a, axis=0))
    keys = np.array([rng.integers(0, 4, 500), rng.integers(0, 4, 500)])
    same(cp.asnumpy(cp.lexsort(cp.asarray(keys))), np.lexsort(keys))


@check
def scan():
    a = rng.integers(0, 10, 20000)
    same(cp.asnumpy(cp.cumsum(cp.asarray(a))), np.cumsum(a))
    # CUB adds what other blocks have got so far, so the order of its additions depends on time. Multiples
    # of 1/1024 have exact sums in any order.
    b = rng.integers(0, 1024, 20000) / 1024
    same(cp.asnumpy(cp.cumsum(cp.asarray(b))), np.cumsum(b))
    same(cp.asnumpy(cp.nonzero(cp.asarray(a == 3))[0]), np.nonzero(a == 3)[0])
    same(cp.asnumpy(cp.unique(cp.asarray(a))), np.unique(a))
    same(cp.asnumpy(cp.bincount(cp.asarray(a))), np.bincount(a))


@check
def raw_kernel():
    kernel = cp.RawKernel(
        r"""
        extern "C" __global__ void reverse(const float *in, float *out, int n) {
          __shared__ float tile[128];
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          tile[threadIdx.x] = i < n ? in[i] : 0;
          __syncthreads();
          if (i < n) out[n - 1 - i] = tile[threadIdx.x];
        }""",
        "reverse",
    )
    a = rng.random(1000).astype(np.float32)
    x, y = cp.asarray(a), cp.zeros(1000, cp.float32)
    kernel((8,), (128,), (x, y, np.int32(1000)))
    same(cp.asnumpy(y), a[::-1])


@check
def raw_module():
    module = cp.RawModule(
        code=r"""
        __constant__ double factors[4];
        __device__ int calls;
        template <class T> __device__ T scaled(T x, int by) { return x * T(factors[by]); }
        template <class T> __global__ void scale(const T *in, T *out, int n) {
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          if (i >= n) return;
          out[i] = scaled(in[i], i & 3);
          atomicAdd(&calls, 1);
        }""",
        options=("-std=c++17",),
        name_expressions=("scale<float>", "scale<double>"),
    )
    factors = np.array([1.0, 2.0, 4.0, 8.0])
    cp.ndarray((4,), cp.float64, module.get_global("factors"))[:] = cp.asarray(factors)
    for name, dtype in (("scale<float>", np.float32), ("scale<double>", np.float64)):
        a = rng.random(500).astype(dtype)
        out = cp.zeros(500, dtype)
        module.get_function(name)((4,), (128,), (cp.asarray(a), out, np.int32(500)))
        same(cp.asnumpy(out), a * factors[np.arange(500) & 3].astype(dtype))
    assert cp.asnumpy(cp.ndarray((1,), cp.int32, module.get_global("calls")))[0] == 1000


@check
def random_numbers():
    numbers = cp.random.default_rng(3)
    x = cp.asnumpy(numbers.random(20000))
    assert 0 <= x.min() and x.max() < 1 and abs(x.mean() - 0.5) < 0.02
    x = cp.asnumpy(numbers.standard_normal(20000))
    assert abs(x.mean()) < 0.05 and abs(x.std() - 1) < 0.05
    x = cp.asnumpy(numbers.integers(5, 9, 2000))
    same(np.unique(x), [5, 6, 7, 8])


@check
def streams_and_events():
    a = rng.random(10000)
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        x = cp.asarray(a)
        y = x * 2
        event = stream.record()
    event.synchronize()
    close(y.get(stream=stream), a * 2)


@check
def memory_pool():
    pool = cp.get_default_memory_pool()
    x = cp.zeros(1 << 20, cp.uint8)
    assert pool.used_bytes() >= x.nbytes
    del x
    pool.free_all_blocks()
    free, total = cp.cuda.runtime.memGetInfo()
    assert 0 < free <= total


done()
