"""A model of 1 GB is loaded onto the device, and a part of it read back."""

from _day import Done, need

(torch,) = need("torch")

layers = 16
with Done("torch: context"):
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
# In host memory, as a file of weights would be.
state = {f"layer.{i}": torch.full((4096, 4096), i + 0.5) for i in range(layers)}
with Done("torch: 1 GB model to the device") as it:
    model = {name: weights.cuda() for name, weights in state.items()}
    torch.cuda.synchronize()
    it.result = sum(weights.numel() for weights in model.values())
with Done("torch: a sum over all of it") as it:
    it.result = float(sum(weights.double().mean().item() for weights in model.values()))
