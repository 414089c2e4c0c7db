# PyTorch's layers as far as cuBLAS and cuBLASLt compute them: linear with a bias, batched products, and
# a training step whose gradients and update are products. On a software device PyTorch has no kernel of its own.
import numpy as np
import torch
from checks import check, close, done, keep
from torch.nn import functional

rng = np.random.default_rng(29)


def values(*shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


def there(array):
    return torch.from_numpy(array).cuda()


def here(tensor):
    return tensor.detach().cpu().numpy()


@check
def matrix_products():
    for m, k, n in ((64, 64, 64), (33, 65, 17), (128, 32, 8)):
        a, b = values(m, k), values(k, n)
        close(here(torch.matmul(there(a), there(b))), a @ b, rtol=1e-4, atol=1e-4)


@check
def batched_products():
    a, b = values(8, 16, 24), values(8, 24, 32)
    close(here(torch.bmm(there(a), there(b))), a @ b, rtol=1e-4, atol=1e-4)
    # The heads of an attention: the second one transposed, in place.
    q, k = values(2, 4, 16, 32), values(2, 4, 16, 32)
    got = torch.matmul(there(q), there(k).transpose(-1, -2))
    close(here(got), q @ np.swapaxes(k, -1, -2), rtol=1e-4, atol=1e-4)


@check
def linear():
    x, w, b = values(32, 64), values(48, 64), values(48)
    close(here(functional.linear(there(x), there(w))), x @ w.T, rtol=1e-4, atol=1e-4)
    # Of a layer of 64 and more the bias is cuBLASLt's to add.
    got = functional.linear(there(x), there(w), there(b))
    close(here(got), x @ w.T + b, rtol=1e-4, atol=1e-4)


@check
def linear_in_half_precision():
    x, w = values(64, 64, dtype=np.float16), values(64, 64, dtype=np.float16)
    got = here(functional.linear(there(x), there(w))).astype(np.float64)
    close(got, x.astype(np.float64) @ w.astype(np.float64).T, rtol=2e-2, atol=5e-2)


@check
def training():
    # Two layers, the sum of squares, gradient descent. What is not a product in it is made one: the residue is
    # a product added to the target, the update one with the identity.
    rate, steps = 1e-3, 4
    x, target = values(32, 16), values(32, 8)
    w1, w2 = values(24, 16) / 4, values(8, 24) / 4
    gx, gtarget, ones = there(x), there(target), there(np.eye(24, dtype=np.float32))
    g1, g2 = there(w1).requires_grad_(), there(w2).requires_grad_()
    losses = []
    for _ in range(steps):
        out = functional.linear(functional.linear(gx, g1), g2)
        with torch.no_grad():
            hidden = functional.linear(gx, g1)
            residue = torch.addmm(gtarget, hidden, g2.t(), beta=-1)
            flat = residue.reshape(-1)
            losses.append(torch.dot(flat, flat).item())
        out.backward(residue)
        with torch.no_grad():
            g1.addmm_(ones, g1.grad, alpha=-rate)
            g2.addmm_(g2.grad, ones, alpha=-rate)
        g1.grad = g2.grad = None

    expected = []
    for _ in range(steps):
        hidden = x @ w1.T
        residue = hidden @ w2.T - target
        expected.append(float((residue * residue).sum()))
        d1, d2 = (residue @ w2).T @ x, residue.T @ hidden
        w1, w2 = w1 - rate * d1, w2 - rate * d2
    keep(np.array(losses))
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    assert losses[-1] < losses[0]
    close(here(g1), w1, rtol=1e-3, atol=1e-4)
    close(here(g2), w2, rtol=1e-3, atol=1e-4)


done()
