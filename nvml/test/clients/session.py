"""A CUDA program in Python: a session that holds memory, and both libraries' view of its device.
For each line that is read, a line of JSON is written."""

import ctypes
import json
import os
import sys

from look import look

BYTES = 64 << 20

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    assert result == 0, f"{name}: {result}"


def view():
    count = ctypes.c_int()
    call("cuDeviceGetCount", ctypes.byref(count))
    devices = []
    for ordinal in range(count.value):
        uuid, gpu, name, bus = (ctypes.create_string_buffer(n) for n in (16, 16, 100, 32))
        call("cuDeviceGetUuid_v2", uuid, ordinal)
        # Of an instance in MIG mode that of its GPU.
        call("cuDeviceGetUuid", gpu, ordinal)
        call("cuDeviceGetName", name, len(name), ordinal)
        call("cuDeviceGetPCIBusId", bus, len(bus), ordinal)
        hexadecimal = uuid.raw.hex()
        parts = [hexadecimal[a:b] for a, b in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))]
        devices.append({
            "name": name.value.decode(),
            "uuid": ("GPU-" if uuid.raw == gpu.raw else "MIG-") + "-".join(parts),
            "pci": bus.value.decode(),
        })
    memory = []
    for context in reversed(contexts):
        call("cuCtxSetCurrent", context)
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        memory.insert(0, total.value - free.value)
    version = ctypes.c_int()
    call("cuDriverGetVersion", ctypes.byref(version))
    return {
        "pid": os.getpid(),
        "cuda": version.value,
        "devices": devices,
        "total": total.value,
        "used": memory[0],
        "memory": memory,
    }


commands = iter(sys.stdin)
next(commands)
before = look()
call("cuInit", 0)
count = ctypes.c_int()
call("cuDeviceGetCount", ctypes.byref(count))
contexts = []
for ordinal in range(count.value):
    contexts.append(ctypes.c_void_p())
    call("cuDevicePrimaryCtxRetain", ctypes.byref(contexts[-1]), ordinal)
attached = {"cuda": view(), "nvml": look()}
for ordinal, context in enumerate(contexts):
    call("cuCtxSetCurrent", context)
    address = ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(BYTES + ordinal * (2 << 20)))
print(json.dumps({"before": before, "attached": attached, "cuda": view(), "nvml": look()}), flush=True)
for _ in commands:
    print(json.dumps({"cuda": view(), "nvml": look()}), flush=True)
