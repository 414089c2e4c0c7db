"""PyTorch's own kernels: cuBLAS, cuDNN where it is, and steps of training a small network."""

from _day import Done, need

(torch,) = need("torch")
nn = torch.nn

torch.manual_seed(1)
with Done("torch: first tensor") as it:
    it.result = float(torch.ones(1000, device="cuda").sum().item())

with Done("torch: matrix product in fp16") as it:
    generator = torch.Generator().manual_seed(2)
    a = torch.randn(1024, 1024, generator=generator).half().cuda()
    it.result = float((a @ a).float().abs().mean().item())

with Done("torch: convolution") as it:
    x = torch.randn(8, 3, 64, 64, generator=torch.Generator().manual_seed(3)).cuda()
    w = torch.randn(16, 3, 3, 3, generator=torch.Generator().manual_seed(4)).cuda()
    it.result = float(nn.functional.conv2d(x, w).abs().mean().item())

with Done("torch: attention") as it:
    q = torch.randn(2, 8, 256, 64, generator=torch.Generator().manual_seed(5)).half().cuda()
    it.result = float(nn.functional.scaled_dot_product_attention(q, q, q).float().abs().mean().item())

model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.LayerNorm(512), nn.Linear(512, 10)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
inputs = torch.randn(128, 256, generator=torch.Generator().manual_seed(6)).cuda()
labels = torch.randint(0, 10, (128,), generator=torch.Generator().manual_seed(7)).cuda()


def step():
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
    return loss


with Done("torch: first training step") as it:
    it.result = float(step().item())
with Done("torch: 100 training steps") as it:
    for _ in range(99):
        step()
    it.result = float(step().item())
