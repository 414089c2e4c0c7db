# tinygrad with its own PTX renderer (DEV=CUDA:PTX): no compiler of NVIDIA's is asked, and the PTX is
# not nvcc's. Tensors, and the training of a small network, step by step as NumPy makes it.
import numpy as np
from checks import check, close, done, same
from tinygrad import Context, Device, Tensor, TinyJit, dtypes, nn

rng = np.random.default_rng(7)
Tensor.manual_seed(7)  # else the clock
assert Device.DEFAULT == "CUDA", Device.DEFAULT
assert type(Device[Device.DEFAULT].renderer).__name__ == "PTXRenderer"


def random(*shape):
    return rng.standard_normal(shape).astype(np.float32)


@check
def elements():
    a, b = random(1000), random(1000)
    x, y = Tensor(a), Tensor(b)
    close((x * y + 2).numpy(), a * b + 2, rtol=1e-5, atol=1e-6)
    close(x.exp().numpy(), np.exp(a), rtol=1e-5)
    close(x.abs().sqrt().numpy(), np.sqrt(np.abs(a)), rtol=1e-5)
    same((x > y).where(x, y).numpy(), np.maximum(a, b))
    same((x < 0).numpy(), a < 0)
    close(x.sin().numpy(), np.sin(a), rtol=1e-4, atol=1e-5)


@check
def types():
    a = rng.integers(-100, 100, 300)
    for dtype, numpy_type in (
        (dtypes.int8, np.int8),
        (dtypes.uint8, np.uint8),
        (dtypes.int16, np.int16),
        (dtypes.int64, np.int64),
        (dtypes.uint32, np.uint32),
    ):
        b = a.astype(numpy_type)
        x = Tensor(b)
        assert x.dtype == dtype
        same((x * 3 + 1).numpy(), b * numpy_type(3) + numpy_type(1))
        same((x // 3).numpy(), b // numpy_type(3))
        close(x.cast(dtypes.float32).numpy(), b.astype(np.float32))
    half = random(300).astype(np.float16)
    close((Tensor(half) * 2).numpy(), half * np.float16(2))
    close(Tensor(random(300).astype(np.float64)).sum().numpy(), 0, atol=100)


@check
def reductions():
    a = random(70, 300)
    x = Tensor(a)
    close(x.sum().numpy(), a.sum(), rtol=1e-4, atol=1e-3)
    close(x.sum(axis=1).numpy(), a.sum(axis=1), rtol=1e-4, atol=1e-3)
    same(x.max(axis=0).numpy(), a.max(axis=0))
    same(x.argmax(axis=1).numpy(), a.argmax(axis=1))
    close(x.mean(axis=0).numpy(), a.mean(axis=0), rtol=1e-4, atol=1e-5)
    shifted = np.exp(a - a.max(axis=1, keepdims=True))
    close(x.softmax(axis=1).numpy(), shifted / shifted.sum(axis=1, keepdims=True), rtol=1e-4)
    close(x.cumsum(axis=1).numpy(), a.cumsum(axis=1), rtol=1e-3, atol=1e-3)
    same(x[:, 3:20].numpy(), a[:, 3:20])


@check
def products():
    a, b = random(96, 64), random(64, 80)
    close((Tensor(a) @ Tensor(b)).numpy(), a @ b, rtol=1e-4, atol=1e-4)
    images, weights = random(2, 3, 12, 12), random(4, 3, 3, 3)
    got = Tensor(images).conv2d(Tensor(weights), padding=1).numpy()
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    close(got, np.einsum("ncijkl,ockl->noij", windows, weights), rtol=1e-4, atol=1e-4)
    halves = random(64, 64).astype(np.float16), random(64, 64).astype(np.float16)
    product = (Tensor(halves[0]) @ Tensor(halves[1])).numpy()
    expected = halves[0].astype(np.float32) @ halves[1].astype(np.float32)
    close(product, expected, rtol=2e-2, atol=5e-2)


class Network:
    def __init__(self, weights):
        self.first, self.second = nn.Linear(8, 32, bias=False), nn.Linear(32, 4, bias=False)
        self.first.weight, self.second.weight = (Tensor(w) for w in weights)

    def __call__(self, x):
        return self.second(self.first(x).relu())


@check
def training():
    a, labels = random(64, 8), rng.integers(0, 4, 64)
    weights = [random(32, 8) * 0.3, random(4, 32) * 0.3]
    network = Network(weights)
    optimizer = nn.optim.SGD(nn.state.get_parameters(network), lr=0.1)
    x, y = Tensor(a), Tensor(labels)

    @TinyJit
    def step():
        with Context(TRAINING=1):
            optimizer.zero_grad()
            loss = network(x).sparse_categorical_crossentropy(y).backward()
            return loss.realize(*optimizer.schedule_step())

    first, second = (w.astype(np.float64) for w in weights)
    wanted = np.eye(4)[labels]
    for _ in range(8):
        loss = step().item()
        hidden = np.maximum(a @ first.T, 0)
        scores = hidden @ second.T
        shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
        probabilities = shifted / shifted.sum(axis=1, keepdims=True)
        close(loss, -np.log((probabilities * wanted).sum(axis=1)).mean(), rtol=1e-4)
        slope = (probabilities - wanted) / len(a)
        to_second, back = slope.T @ hidden, (slope @ second) * (hidden > 0)
        first, second = first - 0.1 * (back.T @ a), second - 0.1 * to_second
    close(network.first.weight.numpy(), first, rtol=1e-3, atol=1e-4)
    close(network.second.weight.numpy(), second, rtol=1e-3, atol=1e-4)


@check
def training_of_convolutions_with_adam():
    images, labels = random(32, 1, 12, 12), rng.integers(0, 3, 32)
    convolution, linear = nn.Conv2d(1, 6, 3), nn.Linear(6 * 25, 3)
    optimizer = nn.optim.Adam([*nn.state.get_parameters([convolution, linear])], lr=0.01)
    x, y = Tensor(images), Tensor(labels)
    losses = []
    with Context(TRAINING=1):
        for _ in range(6):
            optimizer.zero_grad()
            scores = linear(convolution(x).relu().max_pool2d().flatten(1))
            loss = scores.sparse_categorical_crossentropy(y).backward()
            losses.append(loss.realize(*optimizer.schedule_step()).item())
    assert losses[-1] < losses[0] * 0.9, losses
    kernel, bias = convolution.weight.numpy(), convolution.bias.numpy()
    windows = np.lib.stride_tricks.sliding_window_view(images, (3, 3), axis=(2, 3))
    features = np.einsum("ncijkl,ockl->noij", windows, kernel) + bias[None, :, None, None]
    pooled = np.maximum(features, 0).reshape(32, 6, 5, 2, 5, 2).max(axis=(3, 5)).reshape(32, -1)
    got = linear(convolution(x).relu().max_pool2d().flatten(1)).numpy()
    close(got, pooled @ linear.weight.numpy().T + linear.bias.numpy(), rtol=1e-3, atol=1e-3)


done()
