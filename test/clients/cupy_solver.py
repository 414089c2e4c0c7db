# CuPy's linear algebra through cuSOLVER, which calls cuBLAS: NVIDIA's own, or that of the server.
import cupy as cp
import numpy as np
from checks import check, close, done, keep

rng = np.random.default_rng(13)


def problem(dtype, n=24):
    a = rng.standard_normal((n, n)) + 5 * np.eye(n)
    b = rng.standard_normal((n, 3))
    if np.dtype(dtype).kind == "c":
        a, b = a + 1j * rng.standard_normal((n, n)), b + 1j * rng.standard_normal((n, 3))
    return a.astype(dtype), b.astype(dtype)


def tolerance(dtype):
    return 1e-4 if np.dtype(dtype).char in "fF" else 1e-9


@check
def systems_of_equations():
    for dtype in "fdFD":
        a, b = problem(dtype)
        got = cp.asnumpy(cp.linalg.solve(cp.asarray(a), cp.asarray(b)))
        close(got, np.linalg.solve(a, b), rtol=tolerance(dtype), atol=tolerance(dtype))


@check
def inverses_and_determinants():
    for dtype in "fd":
        a, _ = problem(dtype)
        got = cp.asnumpy(cp.linalg.inv(cp.asarray(a)))
        close(got, np.linalg.inv(a), rtol=tolerance(dtype), atol=tolerance(dtype))
        got = cp.asnumpy(cp.linalg.det(cp.asarray(a)))
        close(got, np.linalg.det(a), rtol=100 * tolerance(dtype))


@check
def factors():
    a, _ = problem("d")
    positive = a @ a.T
    got = cp.asnumpy(cp.linalg.cholesky(cp.asarray(positive)))
    close(got, np.linalg.cholesky(positive), rtol=1e-8, atol=1e-8)
    q, r = (cp.asnumpy(each) for each in cp.linalg.qr(cp.asarray(a)))
    keep(q)
    close(q @ r, a, rtol=1e-9, atol=1e-9)


@check
def eigenvalues():
    a, _ = problem("d")
    symmetric = a + a.T
    close(cp.asnumpy(cp.linalg.eigvalsh(cp.asarray(symmetric))), np.linalg.eigvalsh(symmetric),
          rtol=1e-8, atol=1e-8)
    values, vectors = (cp.asnumpy(each) for each in cp.linalg.eigh(cp.asarray(symmetric)))
    keep(vectors)
    close(symmetric @ vectors, vectors * values, rtol=1e-8, atol=1e-8)


@check
def singular_values():
    for dtype in "fd":
        a, _ = problem(dtype)
        u, s, v = (cp.asnumpy(each) for each in cp.linalg.svd(cp.asarray(a), full_matrices=False))
        keep(s)
        close((u * s) @ v, a, rtol=10 * tolerance(dtype), atol=10 * tolerance(dtype))


@check
def least_squares():
    a, b = problem("d")
    got = cp.linalg.lstsq(cp.asarray(a[:, :9]), cp.asarray(b), rcond=None)[0]
    close(cp.asnumpy(got), np.linalg.lstsq(a[:, :9], b, rcond=None)[0], rtol=1e-8, atol=1e-8)


done()
