# CuPy through NVIDIA's own libraries, which execute their own PTX: cuBLAS, cuFFT, cuRAND.
import cupy as cp
import numpy as np
from checks import check, close, done, keep, same

rng = np.random.default_rng(11)


def product(dtype, rtol, shape=(65, 47, 33)):
    m, k, n = shape
    a = rng.standard_normal((m, k)).astype(dtype)
    b = rng.standard_normal((k, n)).astype(dtype)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    x, y = cp.asarray(a), cp.asarray(b)
    scale = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))
    # Also the other layouts that BLAS knows.
    for got in (cp.asnumpy(x @ y), cp.asnumpy((y.T @ x.T).T)):
        keep(got)
        error = np.abs(got - exact) / scale
        assert error.max() < rtol, error.max()


@check
def matrix_product_f32():
    product(np.float32, 1e-6)
    product(np.float32, 1e-6, (256, 256, 256))


@check
def matrix_product_f64():
    product(np.float64, 1e-14)


@check
def matrix_product_f16():
    product(np.float16, 1e-3)
    product(np.float16, 1e-3, (128, 128, 128))


@check
def matrix_product_complex():
    a = rng.standard_normal((20, 30)) + 1j * rng.standard_normal((20, 30))
    b = rng.standard_normal((30, 10)) + 1j * rng.standard_normal((30, 10))
    close(cp.asnumpy(cp.asarray(a) @ cp.asarray(b)), a @ b, rtol=1e-10, atol=1e-12)


@check
def batched_products():
    a = rng.standard_normal((6, 17, 19))
    b = rng.standard_normal((6, 19, 13))
    close(cp.asnumpy(cp.asarray(a) @ cp.asarray(b)), a @ b, rtol=1e-10, atol=1e-12)


@check
def vectors():
    a, b = rng.standard_normal(3000), rng.standard_normal(3000)
    close(cp.asnumpy(cp.asarray(a) @ cp.asarray(b)), a @ b, rtol=1e-9, atol=1e-9)
    m = rng.standard_normal((50, 3000))
    close(cp.asnumpy(cp.asarray(m) @ cp.asarray(a)), m @ a, rtol=1e-8, atol=1e-9)


@check
def fourier_transforms():
    for n in (8, 60, 1024, 97, 4096):
        a = rng.standard_normal(n) + 1j * rng.standard_normal(n)
        x = cp.asarray(a)
        close(cp.asnumpy(cp.fft.fft(x)), np.fft.fft(a), rtol=1e-9, atol=1e-9)
        close(cp.asnumpy(cp.fft.ifft(cp.fft.fft(x))), a, rtol=1e-9, atol=1e-9)
    a = rng.standard_normal((32, 48)).astype(np.float32)
    close(cp.asnumpy(cp.fft.rfft2(cp.asarray(a))), np.fft.rfft2(a), rtol=1e-3, atol=1e-3)


@check
def random_numbers():
    cp.random.seed(5)
    x = cp.asnumpy(cp.random.rand(20000))
    assert 0 <= x.min() and x.max() <= 1 and abs(x.mean() - 0.5) < 0.02
    x = cp.asnumpy(cp.random.randn(20000))
    assert abs(x.mean()) < 0.05 and abs(x.std() - 1) < 0.05
    cp.random.seed(5)
    again = cp.asnumpy(cp.random.rand(100))
    cp.random.seed(5)
    same(cp.asnumpy(cp.random.rand(100)), again)
    same(np.sort(cp.asnumpy(cp.random.permutation(1000))), np.arange(1000))


done()
