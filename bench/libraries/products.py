# A function as there are many: matrix products by CuPy, and nothing else of it. Says so as soon as the first result is
# there, and when so many more are; `products.py ROUNDS`.
import sys

import cupy as cp
import numpy as np

rng = np.random.default_rng(5)
a = rng.standard_normal((64, 64)).astype(np.float32)
b = rng.standard_normal((64, 64)).astype(np.float32)
want = a.astype(np.float64) @ b.astype(np.float64)
x, y = cp.asarray(a), cp.asarray(b)


def products(rounds):
    for _ in range(rounds):
        z = x @ y
    assert np.abs(cp.asnumpy(z) - want).max() < 1e-4
    print("all as the processor has it", flush=True)


products(1)
products(int(sys.argv[1]))
