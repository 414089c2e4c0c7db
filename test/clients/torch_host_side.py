# PyTorch's host side: steps of ResNet-50 and GPT-2 on a device whose machine code does nothing
# (SOFTWARE_DEVICE_TRAITS=empty-cubins). What is computed makes no sense and is not looked at; each
# call that PyTorch and its libraries make must be served. Remoted, the costs of each last step go
# to the file that STEP_COSTS names. Arguments are names of parts; without any, all are run.
import gc
import json
import os
import sys

import torch
from checks import check, done
from counters import Counters
from models import Gpt2, ResNet50
from torch.nn import functional as F

counters = Counters.of_this_process()
costs = {}


def steps(name, step, warm=6):
    """Steps until all is loaded, allocated and chosen; then one that is counted."""
    for _ in range(warm):
        step()
    torch.cuda.synchronize()
    before = counters.read() if counters else None
    step()
    torch.cuda.synchronize()
    if before:
        costs[name] = counters.since(before)


def part(function):
    def alone():
        function()
        gc.collect()
        torch.cuda.empty_cache()

    alone.__name__ = function.__name__
    if len(sys.argv) < 2 or function.__name__ in sys.argv[1:]:
        check(alone)


def resnet(channels_last=False):
    with torch.device("cuda"):
        model = ResNet50()
        images = torch.zeros(4, 3, 224, 224)
        labels = torch.zeros(4, dtype=torch.int64)
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
        images = images.contiguous(memory_format=torch.channels_last)
    return model, images, labels


def gpt2(dtype=torch.float32, **shape):
    with torch.device("cuda"):
        model = Gpt2(**shape).to(dtype)
        tokens = torch.zeros(2, 256, dtype=torch.int64)
    return model, tokens


def words_loss(model, tokens):
    return F.cross_entropy(model(tokens).flatten(0, 1).float(), tokens.flatten())


@part
def resnet50_fp32():
    model, images, labels = resnet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)

    def step():
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()

    steps("ResNet-50, fp32, SGD", step)

    def with_loss():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        loss.item()

    steps("the same, and the loss is printed", with_loss)


@part
def resnet50_tf32():
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    model, images, labels = resnet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True)

    def step():
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()

    steps("ResNet-50, tf32, cudnn.benchmark, fused SGD", step)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False


@part
def resnet50_amp_fp16():
    model, images, labels = resnet(channels_last=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda")
    pinned = torch.zeros(4, 3, 224, 224).pin_memory()

    def step():
        images.copy_(pinned, non_blocking=True)
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.float16):
            loss = F.cross_entropy(model(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    steps("ResNet-50, AMP fp16, GradScaler, channels last, pinned input", step)


@part
def resnet50_amp_bf16():
    model, images, labels = resnet(channels_last=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()

    steps("ResNet-50, AMP bf16, AdamW, channels last", step)


@part
def resnet50_inference():
    model, images, _ = resnet()
    model.eval()

    def step():
        with torch.inference_mode():
            model(images).argmax(dim=1).cpu()

    steps("ResNet-50, inference, classes to the host", step)


@part
def gpt2_fp32():
    model, tokens = gpt2()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step():
        optimizer.zero_grad()
        words_loss(model, tokens).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    steps("GPT-2, fp32, AdamW, gradients clipped", step)


@part
def gpt2_bf16():
    model, tokens = gpt2(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step():
        optimizer.zero_grad()
        words_loss(model, tokens).backward()
        optimizer.step()

    steps("GPT-2, bf16, fused AdamW", step)


@part
def gpt2_amp_fp16():
    model, tokens = gpt2()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    scaler = torch.amp.GradScaler("cuda")

    def step():
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.float16):
            loss = words_loss(model, tokens)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    steps("GPT-2, AMP fp16, GradScaler", step)


@part
def gpt2_generation():
    model, tokens = gpt2(torch.bfloat16)
    model.eval()
    known = [[] for _ in model.blocks]
    said = [tokens.shape[1]]
    with torch.inference_mode():
        model(tokens, known=known)

    def step():
        with torch.inference_mode():
            logits = model(tokens[:, :1], begin=said[0], known=known)
            tokens[:, :1] = logits[:, -1:].argmax(dim=2)
            said[0] += 1

    # Kernels depend on how the number of tokens is aligned.
    steps("GPT-2, bf16, one token with the keys and values before", step, warm=24)


@part
def fp8():
    wide, narrow = torch.float8_e4m3fn, torch.float8_e5m2
    with torch.device("cuda"):
        a = torch.zeros(1024, 768).to(wide)
        b = torch.zeros(3072, 768).to(wide)
        grad = torch.zeros(1024, 3072).to(narrow)
        back = torch.zeros(768, 3072).to(wide)
        one, bias = torch.ones(()), torch.zeros(3072, dtype=torch.bfloat16)
        rows, columns = torch.ones(1024, 1), torch.ones(1, 3072)

    def step():
        kind = {"out_dtype": torch.bfloat16}
        torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, bias=bias, **kind)
        torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, use_fast_accum=True, **kind)
        torch._scaled_mm(grad, back.t(), scale_a=one, scale_b=one, **kind)
        torch._scaled_mm(a, b.t(), scale_a=rows, scale_b=columns, **kind)

    steps("fp8: products as of GPT-2's layers, there and back, scaled by tensor and by row", step)


@part
def sdpa():
    from torch.nn.attention import SDPBackend, sdpa_kernel

    kinds = {
        "flash": (SDPBackend.FLASH_ATTENTION, torch.bfloat16),
        "memory-efficient": (SDPBackend.EFFICIENT_ATTENTION, torch.float32),
        "cuDNN": (SDPBackend.CUDNN_ATTENTION, torch.float16),
        "plain": (SDPBackend.MATH, torch.float32),
    }
    for name, (backend, dtype) in kinds.items():
        shape = {"device": "cuda", "dtype": dtype, "requires_grad": True}
        q, k, v = (torch.zeros(2, 12, 256, 64, **shape) for _ in range(3))

        def step():
            with sdpa_kernel(backend):
                F.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()

        steps(f"attention, {name}, with gradients", step)


@part
def graphs():
    model, tokens = gpt2(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=True)

    def whole():
        optimizer.zero_grad(set_to_none=True)
        words_loss(model, tokens).backward()
        optimizer.step()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            whole()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        whole()
    steps("CUDA graph: a whole step of GPT-2 in bf16", graph.replay)

    small, images, _ = resnet()
    small.eval()
    called = torch.cuda.make_graphed_callables(small, (images,))
    steps("CUDA graph: ResNet-50 forwards (make_graphed_callables)", lambda: called(images))


@part
def compiled():
    model, tokens = gpt2(layers=2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    fast = torch.compile(model)

    def step():
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            loss = words_loss(fast, tokens)
        loss.backward()
        optimizer.step()

    steps("torch.compile: GPT-2 of 2 layers, AMP bf16", step)


@part
def compiled_with_graphs():
    model, tokens = gpt2(torch.bfloat16, layers=2)
    model.eval()
    fast = torch.compile(model, mode="reduce-overhead")

    def step():
        with torch.inference_mode():
            fast(tokens)

    steps("torch.compile with CUDA graphs: GPT-2 of 2 layers, forwards", step)


@check
def every_call_was_served():
    if counters:
        totals, _ = counters.read()
        assert totals["unsupported"] == 0, f"{totals['unsupported']} calls were not"


if counters and "STEP_COSTS" in os.environ:
    with open(os.environ["STEP_COSTS"], "w") as file:
        json.dump(costs, file)
done()
