// Entry points: what an address is; access to the memory of other devices.
#include "entry/entry.h"

using namespace softdev::driver;

namespace {

template <class T>
void put(void *data, T value) {
  memcpy(data, &value, sizeof value);
}

// What is answered for an address that is not ours.
CUresult put_unknown(void *data, CUpointer_attribute attribute) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      put<uint64_t>(data, 0);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      put<int>(data, 0);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      put<int>(data, -2);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:  // an unsigned int, as cudart has it; others are bytes
      put<uint32_t>(data, 0);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      put<uint8_t>(data, 0);
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// The mapping of a reservation that holds the address, as (base, size); the region otherwise.
std::pair<uint64_t, uint64_t> extent(const Region &region, uint64_t address) {
  if (region.kind == RegionKind::kReservation) {
    auto after = region.mappings.upper_bound(address);
    if (after != region.mappings.begin()) {
      --after;
      if (address - after->first < after->second.size) return {after->first, after->second.size};
    }
    return {0, 0};
  }
  return {region.base, region.size};
}

CUresult put_known(void *data, CUpointer_attribute attribute, const Region &region,
                   uint64_t address, const Context *current) {
  bool host = region.kind == RegionKind::kHost || region.kind == RegionKind::kRegistered;
  bool managed = region.kind == RegionKind::kManaged;
  auto [base, size] = extent(region, address);
  if (!size) return put_unknown(data, attribute);  // reserved, but nothing is mapped there
  int device = device_of(region, address);
  if (auto owner = driver()->handles.find<Context>(region.context); owner && device < 0)
    device = owner->device().ordinal;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      put(data, region.context);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      put<CUmemorytype>(data, host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      put(data, address);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!host && !managed) return CUDA_ERROR_INVALID_VALUE;
      put(data, address);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      put(data, region.id);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      put<uint32_t>(data, managed);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      put(data, device);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      put(data, base);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      put(data, size);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      put<uint8_t>(data, 1);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      put<uint8_t>(data, region.kind == RegionKind::kDevice && !region.pool && !region.variable);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      put<uint64_t>(data, region.kind == RegionKind::kReservation &&
                                  region.mappings.find(base)->second.allocation->file
                              ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
                              : CU_MEM_HANDLE_TYPE_NONE);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      put(data, region.pool);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: {
      uint8_t open = kReadable | kWritable;
      if (region.kind == RegionKind::kReservation && current)
        open = region.access[static_cast<size_t>(current->device().ordinal)]->get(address);
      put<int>(data, open & kWritable   ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
                     : open & kReadable ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ
                                        : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE);
      return CUDA_SUCCESS;
    }
    default:
      return put_unknown(data, attribute);
  }
}

}  // namespace

extern "C" {

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr address) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter_anywhere(&context)) return bad;
  if (!data) return CUDA_ERROR_INVALID_VALUE;
  auto pin = driver()->memory.pin();
  const Region *region = driver()->memory.find(address);
  if (!region) return refuse(CUDA_ERROR_INVALID_VALUE, "0x%llx is no memory of ours", address);
  return put_known(data, attribute, *region, address, context.get());
}

CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **data,
                                CUdeviceptr address) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter_anywhere(&context)) return bad;
  if (!count || !attributes || !data) return CUDA_ERROR_INVALID_VALUE;
  auto pin = driver()->memory.pin();
  const Region *region = driver()->memory.find(address);
  for (unsigned i = 0; i < count; i++) {
    if (!data[i]) return CUDA_ERROR_INVALID_VALUE;
    // One attribute that does not apply does not spoil the others.
    CUresult known = region ? put_known(data[i], attributes[i], *region, address, context.get())
                            : CUDA_ERROR_INVALID_VALUE;
    if (known != CUDA_SUCCESS)
      if (CUresult bad = put_unknown(data[i], attributes[i])) return bad;
  }
  return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
                               CUdeviceptr address) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter_anywhere(&context)) return bad;
  if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) return CUDA_ERROR_INVALID_VALUE;
  auto pin = driver()->memory.pin();
  if (!driver()->memory.find(address)) return CUDA_ERROR_INVALID_VALUE;
  if (!*static_cast<const unsigned *>(value)) return CUDA_SUCCESS;
  return refuse(CUDA_ERROR_NOT_SUPPORTED,
                "no network card reaches this memory, and copies within it are not synchronous");
}

CUresult cuCtxEnablePeerAccess(CUcontext handle, unsigned int flags) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  auto peer = driver()->handles.find<Context>(handle);
  if (!peer || flags) return peer ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_CONTEXT;
  if (&peer->device() == &context->device())
    return refuse(CUDA_ERROR_INVALID_DEVICE, "both contexts are of the same device");
  return context->open_peer(*peer) ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

CUresult cuCtxDisablePeerAccess(CUcontext handle) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  if (!driver()->handles.find<Context>(handle)) return CUDA_ERROR_INVALID_CONTEXT;
  return context->close_peer(reinterpret_cast<uint64_t>(handle))
             ? CUDA_SUCCESS
             : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

}  // extern "C"
