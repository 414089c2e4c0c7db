# A parent that has the device while its workers, processes of their own, want it: each gets memory of
# a server that has been told nothing. Run with `outboard run`.
import multiprocessing

import cupy as cp


def work(n):
    return float(cp.arange(n, dtype=cp.float64).sum())


if __name__ == "__main__":
    mine = cp.arange(1000, dtype=cp.float64)
    assert float(mine.sum()) == 499500.0
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        sums = pool.map(work, [10, 100, 1000, 10000], chunksize=1)
    assert sums == [45.0, 4950.0, 499500.0, 49995000.0], sums
    assert float(mine.sum()) == 499500.0
    print("ok pool")
