// Entry points: memory of one process for another.
#include "entry/memory/sharing.h"
#include "entry/entry.h"
#include "memory/shared.h"

namespace softdev::driver {

Device *device_of(const CUuuid &uuid) {
  for (const auto &device : driver()->devices)
    if (memcmp(device->uuid().bytes, uuid.bytes, sizeof uuid.bytes) == 0) return device.get();
  return nullptr;
}

CUresult refuse_ticket(Opened opened) {
  switch (opened) {
    case Opened::kOwn:
      return refuse(CUDA_ERROR_INVALID_CONTEXT, "the handle is of this process");
    case Opened::kGone:
      return refuse(CUDA_ERROR_INVALID_HANDLE,
                    "the process of the handle, or what it is for, is gone or not ours to open");
    default:
      return refuse(CUDA_ERROR_INVALID_HANDLE, "this is no such handle");
  }
}

CUresult open_memory(const ShareName &name, SharedKind kind,
                     const std::shared_ptr<Context> &context, uint64_t pool, CUdeviceptr *address) {
  Description description;
  std::shared_ptr<File> file;
  Opened opened = open_shared(name, kind, &description, &file);
  if (opened != Opened::kOk) return refuse_ticket(opened);
  Device *device = device_of(description.device);
  if (!device) return refuse(CUDA_ERROR_INVALID_HANDLE, "its device is not visible here");
  Memory &memory = driver()->memory;
  if (uint64_t again = memory.imported_again(name, context->handle())) {
    *address = again;
    return CUDA_SUCCESS;
  }
  uint64_t base = memory.import(name, description, *file, device->ordinal,
                                context->device().ordinal, context->handle(), pool);
  if (!base)
    return refuse(CUDA_ERROR_MAP_FAILED, "the memory of the other process cannot be mapped");
  *address = base;
  return CUDA_SUCCESS;
}

CUresult close_memory(CUdeviceptr address) {
  Driver &all = *driver();
  auto drain_all = [&] {
    for (const auto &device : all.devices) device->drain();
  };
  if (!all.memory.release_import(address)) {
    auto pin = all.memory.pin();
    const Region *region = all.memory.find(address);
    if (region && region->kind == RegionKind::kImported && region->base == address)
      return CUDA_SUCCESS;
    return refuse(CUDA_ERROR_INVALID_VALUE, "0x%llx was not opened by a handle", address);
  }
  auto region = all.memory.remove(
      address, [](const Region &candidate) { return candidate.kind == RegionKind::kImported; });
  if (!region) return CUDA_ERROR_INVALID_VALUE;
  drain_all();
  all.memory.destroy(std::move(region), drain_all);
  for (const auto &device : all.devices)
    all.memory.space(device->ordinal).forget_retired(device->kernels);
  return CUDA_SUCCESS;
}

}  // namespace softdev::driver

using namespace softdev::driver;

extern "C" {

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  if (!handle) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&]() -> CUresult {
    int owner;
    {
      auto pin = driver()->memory.pin();
      const Region *region = driver()->memory.find(address);
      if (!region || region->kind != RegionKind::kDevice || region->pool || region->variable)
        return refuse(CUDA_ERROR_INVALID_VALUE, "0x%llx is not of cuMemAlloc", address);
      owner = region->device;
    }
    auto share = driver()->memory.offer(
        address, SharedKind::kMemory, 0, driver()->device(owner)->uuid(),
        [](const Region &region) { return !region.pool && !region.variable; });
    if (!share) return refuse(CUDA_ERROR_MAP_FAILED, "0x%llx cannot be shared", address);
    static_assert(sizeof *handle == sizeof(ShareName));
    memcpy(handle, &share->name(), sizeof *handle);
    return CUDA_SUCCESS;
  });
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  if (!address || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
  ShareName name;
  memcpy(&name, &handle, sizeof name);
  return guarded([&] { return open_memory(name, SharedKind::kMemory, context, 0, address); });
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags) {
  return cuIpcOpenMemHandle_v2(address, handle, flags);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  return guarded([&] { return close_memory(address); });
}

}  // extern "C"
