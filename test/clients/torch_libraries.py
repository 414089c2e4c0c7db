# PyTorch through cuBLAS and cuBLASLt, which execute their own PTX on a device newer than they are.
import numpy as np
import torch
from checks import check, done, keep

rng = np.random.default_rng(19)


def product(dtype, rtol, *shapes):
    a, b = (rng.standard_normal(shape) for shape in shapes)
    x, y = torch.from_numpy(a).to(dtype), torch.from_numpy(b).to(dtype)
    got = (x.cuda() @ y.cuda()).cpu().to(torch.float64).numpy()
    keep(got)
    exact = x.to(torch.float64).numpy() @ y.to(torch.float64).numpy()
    scale = np.abs(a) @ np.abs(b)
    assert (np.abs(got - exact) / scale).max() < rtol, (np.abs(got - exact) / scale).max()


@check
def matrix_product_f32():
    product(torch.float32, 1e-6, (65, 47), (47, 33))
    product(torch.float32, 1e-6, (256, 256), (256, 256))


@check
def matrix_product_f64():
    product(torch.float64, 1e-14, (65, 47), (47, 33))


@check
def matrix_product_f16():
    product(torch.float16, 2e-3, (128, 128), (128, 128))


@check
def matrix_product_bf16():
    product(torch.bfloat16, 2e-2, (128, 128), (128, 128))


@check
def batched_products():
    product(torch.float32, 1e-6, (6, 17, 19), (6, 19, 13))


@check
def products_in_streams():
    a = torch.from_numpy(rng.standard_normal((64, 64))).pin_memory()
    streams = [torch.cuda.Stream() for _ in range(3)]
    products = []
    for stream in streams:
        with torch.cuda.stream(stream):
            x = a.to("cuda", non_blocking=True)
            products.append(x @ x)
    torch.cuda.synchronize()
    for each in products:
        got = each.cpu().numpy()
        keep(got)
        np.testing.assert_allclose(got, a.numpy() @ a.numpy(), rtol=1e-10, atol=1e-10)


@check
def graphs():
    first = torch.from_numpy(rng.standard_normal((64, 64)))
    a, out = first.cuda(), torch.zeros(64, 64, dtype=torch.float64, device="cuda")
    b = torch.empty_like(a)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.mm(a, a, out=out)  # cuBLAS makes its workspace before the capture
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        b.copy_(a)
        torch.mm(a, b, out=out)
    for _ in range(3):
        values = rng.standard_normal((64, 64))
        a.copy_(torch.from_numpy(values))
        graph.replay()
        torch.cuda.synchronize()
        got = out.cpu().numpy()
        keep(got)
        np.testing.assert_allclose(got, values @ values, rtol=1e-10, atol=1e-10)


done()
