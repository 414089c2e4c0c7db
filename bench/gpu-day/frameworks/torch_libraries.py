"""The libraries that PyTorch calls, one after the other: cuBLAS, cuDNN, cuFFT, cuSOLVER, cuSPARSE, CUB, and graphs."""

from _day import Done, need

(torch,) = need("torch")
nn = torch.nn
F = nn.functional


def random(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def size(x):
    return float(x.detach().abs().double().mean().item())


with Done("libraries: cuBLAS, three kinds of numbers") as it:
    a = random(768, 512).cuda()
    b = random(512, 640, seed=2).cuda()
    it.result = sum(size(a.to(kind) @ b.to(kind)) for kind in (torch.float32, torch.float64, torch.bfloat16))
with Done("libraries: cuBLASLt, bias and activation in one") as it:
    layer = nn.Linear(512, 256).cuda().half()
    with torch.no_grad():
        layer.weight.copy_(random(256, 512, seed=3))
        layer.bias.copy_(random(256, seed=4))
        rows = random(768, 512).cuda().half()
    it.result = size(torch._addmm_activation(layer.bias, rows, layer.weight.t(), use_gelu=True))
with Done("libraries: products of a batch") as it:
    it.result = size(torch.bmm(random(32, 64, 48).cuda(), random(32, 48, 96, seed=5).cuda()))
with Done("libraries: cuDNN, convolutions with gradients") as it:
    x = random(4, 8, 32, 32).cuda().requires_grad_()
    net = nn.Sequential(nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.ConvTranspose2d(16, 4, 3)).cuda()
    for i, one in enumerate(net.parameters()):
        one.data.copy_(random(*one.shape, seed=10 + i) * 0.1)
    net(x).square().mean().backward()
    it.result = size(x.grad)
with Done("libraries: cuDNN, a recurrent network") as it:
    rnn = nn.LSTM(32, 64, num_layers=2).cuda()
    for i, one in enumerate(rnn.parameters()):
        one.data.copy_(random(*one.shape, seed=20 + i) * 0.2)
    out, _ = rnn(random(50, 8, 32).cuda())
    it.result = size(out)
with Done("libraries: cuFFT") as it:
    it.result = size(torch.fft.rfft2(random(16, 100, 96).cuda()))
with Done("libraries: cuSOLVER") as it:
    m = random(64, 64).double()
    m = (m @ m.t() + 64 * torch.eye(64)).cuda()
    it.result = size(torch.linalg.cholesky(m)) + size(torch.linalg.solve(m, m[:, :3])) + size(torch.linalg.eigvalsh(m))
with Done("libraries: cuSPARSE") as it:
    sparse = torch.relu(random(500, 400) - 1.5).cuda().to_sparse_csr()
    it.result = size(sparse @ random(400, 32, seed=6).cuda())
with Done("libraries: sort, scan, unique, top") as it:
    x = random(100_000).cuda()
    it.result = size(x.sort().values[::1000]) + size(x.cumsum(0)[-1]) + float(x.mul(3).round().unique().numel())
with Done("libraries: copies beside kernels from pinned memory") as it:
    side = torch.cuda.Stream()
    parts = [random(1 << 18, seed=30 + i).pin_memory() for i in range(8)]
    total = torch.zeros(1, device="cuda")
    for part in parts:
        with torch.cuda.stream(side):
            there = part.to("cuda", non_blocking=True)
        torch.cuda.current_stream().wait_stream(side)
        there.record_stream(torch.cuda.current_stream())
        total += there.abs().sum()
    it.result = float(total.item())
with Done("libraries: a graph, captured and replayed") as it:
    layers = nn.Sequential(nn.Linear(128, 256), nn.GELU(), nn.Linear(256, 64)).cuda()
    for i, one in enumerate(layers.parameters()):
        one.data.copy_(random(*one.shape, seed=40 + i) * 0.1)
    held = torch.zeros(32, 128, device="cuda")
    with torch.no_grad():
        warm = torch.cuda.Stream()
        with torch.cuda.stream(warm):
            layers(held)
        torch.cuda.current_stream().wait_stream(warm)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = layers(held)
    sums = 0.0
    for i in range(20):
        held.copy_(random(32, 128, seed=50 + i))
        graph.replay()
        sums += size(out)
    it.result = sums
with Done("libraries: attention in bfloat16, with gradients") as it:
    q, k, v = (random(2, 8, 512, 64, seed=60 + i).bfloat16().cuda().requires_grad_() for i in range(3))
    F.scaled_dot_product_attention(q, k, v, is_causal=True).float().square().mean().backward()
    it.result = round(size(q.grad), 9)
