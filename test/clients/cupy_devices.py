# CuPy with two devices: arrays on each, copies from one to the other, kernels, streams and events of both.
import warnings

import cupy as cp
import numpy as np
from checks import check, close, done, same

# That arrays are copied, whether devices reach each other's memory or not.
warnings.filterwarnings("ignore")
rng = np.random.default_rng(3)
first, second = cp.cuda.Device(0), cp.cuda.Device(1)
add_one = cp.RawKernel(
    'extern "C" __global__ void add_one(float *a, int n) {'
    "  int i = blockIdx.x * blockDim.x + threadIdx.x;"
    "  if (i < n) a[i] += 1;"
    "}",
    "add_one",
)


@check
def arrays_on_each():
    a = rng.random(30000).astype(np.float32)
    for device in (first, second):
        with device:
            x = cp.asarray(a) * (device.id + 2)
            assert x.device.id == device.id
            close(cp.asnumpy(x), a * np.float32(device.id + 2))
            close(float(x.sum()), float((a * (device.id + 2)).sum()), rtol=1e-4)
            same(cp.asnumpy(cp.sort(cp.asarray(a))), np.sort(a))


@check
def copies_between_them():
    a = rng.random((300, 200))
    with first:
        x = cp.asarray(a)
    with second:
        y = cp.asarray(x)
        assert (x.device.id, y.device.id) == (0, 1)
        y += 1
    with first:
        z = cp.asarray(y)
        same(cp.asnumpy(z), a + 1)
        same(cp.asnumpy(x), a)
        part = cp.ascontiguousarray(z[::3, 5:50])
    with second:
        same(cp.asnumpy(cp.asarray(part)), (a + 1)[::3, 5:50])


@check
def kernels_of_both():
    for device in (first, second, first):
        with device:
            x = cp.zeros(5000, cp.float32)
            for _ in range(4):
                add_one((20,), (256,), (x, np.int32(5000)))
            same(cp.asnumpy(x), np.full(5000, 4, np.float32))


@check
def streams_and_events():
    with first:
        here, begun = cp.cuda.Stream(non_blocking=True), cp.cuda.Event(disable_timing=True)
        with here:
            x = cp.arange(100000, dtype=cp.float32)
            for _ in range(10):
                add_one((400,), (256,), (x, np.int32(100000)))
        begun.record(here)
    with second:
        there = cp.cuda.Stream(non_blocking=True)
        there.wait_event(begun)
        with there:
            y = cp.empty(100000, cp.float32)
            y.data.copy_from_device_async(x.data, x.nbytes, there)
            add_one((400,), (256,), (y, np.int32(100000)))
        there.synchronize()
        same(cp.asnumpy(y), np.arange(100000, dtype=np.float32) + 11)


@check
def memory_of_each():
    sizes = []
    for device in (first, second):
        with device:
            free, total = device.mem_info
            block = cp.cuda.alloc(64 << 20)
            sizes.append((total, free - device.mem_info[0] >= 64 << 20))
            del block
            cp.get_default_memory_pool().free_all_blocks()
    assert sizes[0] == sizes[1] and sizes[0][1], sizes


done()
