"""A Triton kernel of our own."""

from _day import Done, need

(torch, triton) = need("torch", "triton")
import triton.language as tl  # noqa: E402


@triton.jit
def scaled_sum(x, y, out, n, scale, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask=mask) * scale + tl.load(y + at, mask=mask), mask=mask)


n = 1_000_003
x = torch.arange(n, dtype=torch.float32, device="cuda")
y = torch.ones(n, dtype=torch.float32, device="cuda")
out = torch.empty_like(x)
grid = (triton.cdiv(n, 1024),)
with Done("triton: first launch") as it:
    scaled_sum[grid](x, y, out, n, 0.5, BLOCK=1024)
    it.result = float(out[-1].item())
with Done("triton: 1,000 launches") as it:
    for _ in range(1000):
        scaled_sum[grid](x, y, out, n, 0.5, BLOCK=1024)
    it.result = float(out.double().sum().item())
