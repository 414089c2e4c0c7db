# PyTorch on what needs none of its kernels, which are machine code only: the device, tensors there
# and back, streams, events, the caching allocator and its limits.
import os
import threading

import numpy as np
import torch
from checks import check, done, keep, same

GIB = 1 << 30
rng = np.random.default_rng(17)


@check
def device():
    assert torch.cuda.is_available() and torch.cuda.device_count() == 1
    assert torch.cuda.get_device_name(0) == "Software Device"
    properties = torch.cuda.get_device_properties(0)
    assert properties.multi_processor_count == 4
    assert (properties.major, properties.minor) == torch.cuda.get_device_capability(0)
    assert properties.total_memory == torch.cuda.mem_get_info()[1]
    limit = os.environ.get("EXPECTED_MEMORY")
    assert limit is None or properties.total_memory == int(limit), properties.total_memory
    keep(np.frombuffer(str(properties.uuid).encode(), np.uint8))
    assert len(torch.cuda.get_arch_list()) > 0


@check
def tensors_there_and_back():
    for dtype in (torch.float32, torch.float64, torch.float16, torch.int64, torch.uint8, torch.bool):
        a = torch.from_numpy(rng.integers(0, 2, (33, 65))).to(dtype)
        b = a.cuda()
        assert b.is_cuda and b.device.index == 0 and b.shape == a.shape
        same(b.cpu().numpy(), a.numpy())
        same(b.to("cpu", copy=True).numpy(), a.numpy())


@check
def pinned_and_not_blocking():
    a = torch.from_numpy(rng.random(1 << 20)).pin_memory()
    assert a.is_pinned()
    b = a.to("cuda", non_blocking=True)
    back = torch.empty(1 << 20, dtype=torch.float64).pin_memory()
    back.copy_(b, non_blocking=True)
    torch.cuda.synchronize()
    same(back.numpy(), a.numpy())
    # PyTorch makes pinned memory of what it does not wait for; other memory it waits for.
    there = b.to("cpu", non_blocking=True)
    torch.cuda.synchronize()
    same(there.numpy(), a.numpy())
    back = torch.empty(1 << 20, dtype=torch.float64)
    back.copy_(b, non_blocking=True)
    same(back.numpy(), a.numpy())


@check
def copies_on_the_device():
    a = torch.from_numpy(rng.random(5000)).cuda()
    same(a.clone().cpu().numpy(), a.cpu().numpy())
    b = torch.zeros(5000, dtype=torch.float64, device="cuda")
    b[1000:3000].copy_(a[2000:4000])
    b.view(torch.uint8)[:80].zero_()
    expected = np.zeros(5000)
    expected[1000:3000] = a.cpu().numpy()[2000:4000]
    same(b.cpu().numpy(), expected)


@check
def streams_and_events():
    a = torch.from_numpy(rng.random(1 << 18)).pin_memory()
    streams = [torch.cuda.Stream() for _ in range(4)] + [torch.cuda.Stream(priority=-1)]
    landed = []
    for stream in streams:
        with torch.cuda.stream(stream):
            assert torch.cuda.current_stream() == stream
            landed.append(a.to("cuda", non_blocking=True))
    after = torch.cuda.Event()
    for stream in streams:
        after.record(stream)
        torch.cuda.current_stream().wait_event(after)
        torch.cuda.current_stream().wait_stream(stream)
    for tensor in landed:
        tensor.record_stream(torch.cuda.current_stream())
        same(tensor.cpu().numpy(), a.numpy())
    begin = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    begin.record()
    landed[0].copy_(landed[1])
    end.record()
    end.synchronize()
    assert end.query() and begin.elapsed_time(end) >= 0
    assert all(stream.query() for stream in streams)


@check
def threads():
    a = [torch.from_numpy(rng.random(20000)) for _ in range(4)]
    got = [None] * 4

    def there_and_back(i):
        with torch.cuda.stream(torch.cuda.Stream()):
            got[i] = a[i].cuda().clone().cpu()

    workers = [threading.Thread(target=there_and_back, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for i in range(4):
        same(got[i].numpy(), a[i].numpy())


@check
def statistics_of_memory():
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before, free = torch.cuda.memory_allocated(), torch.cuda.mem_get_info()[0]
    x = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_allocated() - before == 64 << 20
    assert torch.cuda.memory_reserved() >= 64 << 20
    assert free - torch.cuda.mem_get_info()[0] >= 64 << 20
    del x
    assert torch.cuda.memory_allocated() == before
    assert torch.cuda.max_memory_allocated() >= 64 << 20
    torch.cuda.empty_cache()
    assert torch.cuda.mem_get_info()[0] == free
    assert torch.cuda.memory_stats()["num_ooms"] == 0
    assert "Allocated memory" in torch.cuda.memory_summary()


@check
def out_of_memory():
    total = torch.cuda.mem_get_info()[1]
    try:
        torch.empty(total + GIB, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError as error:
        assert "CUDA out of memory. Tried to allocate" in str(error), error
    else:
        raise AssertionError("more memory than there is was allocated")
    # All that there is, then no more, then again.
    held = []
    try:
        while True:
            held.append(torch.empty(256 << 20, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError:
        pass
    assert total - len(held) * (256 << 20) < 512 << 20, (total, len(held))
    del held
    torch.cuda.empty_cache()
    same(torch.zeros(9, device="cuda").cpu().numpy(), np.zeros(9, np.float32))


@check
def fraction_of_memory():
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(0.25)
    try:
        torch.empty(torch.cuda.mem_get_info()[1] // 2, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError as error:
        assert "allowed" in str(error), error
    else:
        raise AssertionError("more than the fraction was allocated")
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


@check
def kernels_are_refused():
    # A wheel has machine code for GPUs, and no PTX.
    try:
        torch.ones(10, device="cuda")
    except torch.AcceleratorError as error:
        assert "no kernel image is available for execution on the device" in str(error), error
    else:
        raise AssertionError("a kernel without PTX ran")
    # The device is none the worse for it.
    same(torch.zeros(9, device="cuda").cpu().numpy(), np.zeros(9, np.float32))


if "expandable_segments:True" in os.environ.get("PYTORCH_CUDA_ALLOC_CONF", ""):

    @check
    def expandable_segments():
        torch.cuda.empty_cache()
        free = torch.cuda.mem_get_info()[0]
        small = [torch.zeros(3 << 20, dtype=torch.uint8, device="cuda") for _ in range(8)]
        segments = torch.cuda.memory_snapshot()
        assert any(segment["is_expandable"] for segment in segments)
        # The segment grows where it is: one block larger than any of those freed.
        del small
        large = torch.zeros(48 << 20, dtype=torch.uint8, device="cuda")
        keep(large.cpu().numpy())
        del large
        torch.cuda.empty_cache()
        assert torch.cuda.mem_get_info()[0] == free


done()
