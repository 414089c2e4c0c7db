// Entry points: device memory.
#include "entry/entry.h"
#include "graphs/memory.h"
#include "streams/task.h"

using namespace softdev::driver;

namespace {

CUresult allocate(CUdeviceptr *address, size_t size) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  if (CUresult bad = admit_unsafe()) return bad;
  if (!address || !size) return CUDA_ERROR_INVALID_VALUE;
  int device = context->device().ordinal;
  uint64_t base = driver()->memory.allocate_device(device, size, 512, context->handle());
  if (!base)
    return refuse(CUDA_ERROR_OUT_OF_MEMORY, "%zu bytes are asked for, %llu of %llu are free", size,
                  static_cast<unsigned long long>(driver()->memory.free_bytes(device)),
                  static_cast<unsigned long long>(context->device().memory));
  *address = base;
  return CUDA_SUCCESS;
}

// Freeing waits for the device, as CUDA's does; so nothing that is queued can be using it.
// It needs no current context (as an H200's driver 580 has it).
CUresult release(CUdeviceptr address) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter_anywhere(&context)) return bad;
  if (!address) return CUDA_SUCCESS;
  if (CUresult bad = admit_unsafe()) return bad;
  Driver &all = *driver();
  bool of_graph;
  GraphAllocationRef allocation;
  if (CUresult bad = free_graph_memory(address, &of_graph, &allocation)) return bad;
  if (of_graph) {
    for (const auto &device : all.devices) device->drain();
    return context ? context->error() : CUDA_SUCCESS;
  }
  auto region = all.memory.remove(address, [](const Region &candidate) {
    return !candidate.variable && !candidate.graph &&
           (candidate.kind == RegionKind::kDevice || candidate.kind == RegionKind::kManaged ||
            (candidate.kind == RegionKind::kImported && candidate.pool));
  });
  if (!region)
    return refuse(CUDA_ERROR_INVALID_VALUE, "0x%llx is not the start of an allocation", address);
  // Whose kernels may reach it. Copies of other devices hold it themselves.
  auto drain_users = [&, owner = region->kind == RegionKind::kDevice ? region->device : -1] {
    for (const auto &device : all.devices)
      if (owner < 0 || device->reaches(owner)) device->drain();
  };
  drain_users();
  count_free(*region);
  all.memory.destroy(std::move(region), drain_users);
  if (!context) return CUDA_SUCCESS;
  context->flush_prints();
  return context->error();
}

}  // namespace

extern "C" {

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size) {
  return guarded([&] { return allocate(address, size); });
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  return guarded([&] { return release(address); });
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t height,
                            unsigned int element) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  if (CUresult bad = admit_unsafe()) return bad;
  if (!pitch || !width || !height) return CUDA_ERROR_INVALID_VALUE;
  if (element != 4 && element != 8 && element != 16) return CUDA_ERROR_INVALID_VALUE;
  if (width > SIZE_MAX / 2 || height > SIZE_MAX / 2 / width) return CUDA_ERROR_OUT_OF_MEMORY;
  size_t row = round_up(width, 512);
  CUresult result = cuMemAlloc_v2(address, row * height);
  if (result == CUDA_SUCCESS) *pitch = row;
  return result;
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  if (!free || !total) return CUDA_ERROR_INVALID_VALUE;
  *free = driver()->memory.free_bytes(context->device().ordinal);
  *total = context->device().memory;
  return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  auto pin = driver()->memory.pin();
  const Region *region = driver()->memory.find(address);
  if (!region) return refuse(CUDA_ERROR_NOT_FOUND, "0x%llx is in no allocation", address);
  uint64_t start = region->base, length = region->size;
  if (region->kind == RegionKind::kReservation) {
    auto after = region->mappings.upper_bound(address);
    if (after == region->mappings.begin()) return CUDA_ERROR_NOT_FOUND;
    --after;
    if (address - after->first >= after->second.size) return CUDA_ERROR_NOT_FOUND;
    start = after->first;
    length = after->second.size;
  }
  if (base) *base = start;
  if (size) *size = length;
  return CUDA_SUCCESS;
}

}  // extern "C"
