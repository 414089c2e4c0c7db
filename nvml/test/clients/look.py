"""What nvidia-ml-py shows, as one line of JSON; or the error it raised."""

import json
import sys

import pynvml as nvml


def device(index):
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    more = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    utilization = nvml.nvmlDeviceGetUtilizationRates(handle)
    assert (more.total, more.used, more.free) == (memory.total, memory.used, memory.free)
    assert memory.total == memory.used + memory.free
    assert nvml.nvmlDeviceGetIndex(handle) == index
    pci = nvml.nvmlDeviceGetPciInfo(handle).busId
    uuid = nvml.nvmlDeviceGetUUID(handle)
    assert nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByUUID(uuid)) == uuid
    # Two servers may each have one there.
    assert nvml.nvmlDeviceGetPciInfo(nvml.nvmlDeviceGetHandleByPciBusId(pci)).busId == pci
    processes = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    return {
        "name": nvml.nvmlDeviceGetName(handle),
        "uuid": uuid,
        "pci": pci,
        "capability": list(nvml.nvmlDeviceGetCudaComputeCapability(handle)),
        "total": memory.total,
        "used": memory.used,
        "busy": utilization.gpu,
        "processes": [
            {"pid": p.pid, "memory": p.usedGpuMemory, "name": nvml.nvmlSystemGetProcessName(p.pid)}
            for p in processes
        ],
        "graphics": len(nvml.nvmlDeviceGetGraphicsRunningProcesses(handle)),
        "temperature": optional(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
        "power": optional(nvml.nvmlDeviceGetPowerUsage, handle),
        "fan": optional(nvml.nvmlDeviceGetFanSpeed, handle),
        "mig": optional(nvml.nvmlDeviceGetMigMode, handle),
        "compute mode": nvml.nvmlDeviceGetComputeMode(handle),
    }


def optional(call, *arguments):
    try:
        return call(*arguments)
    except nvml.NVMLError_NotSupported:
        return None


def look():
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return {"error": type(error).__name__}
    try:
        return {
            "driver": nvml.nvmlSystemGetDriverVersion(),
            "cuda": nvml.nvmlSystemGetCudaDriverVersion(),
            "devices": [device(index) for index in range(nvml.nvmlDeviceGetCount())],
        }
    finally:
        nvml.nvmlShutdown()


if __name__ == "__main__":
    # Once for each line that is read, so that a process can be asked again.
    for _ in sys.stdin:
        print(json.dumps(look()), flush=True)
