#include "core/models.h"

namespace softdev::driver {
namespace {

constexpr Multiprocessor kOfH100 = {2048, 32, 228 << 10, 227 << 10, 1 << 10};
constexpr Multiprocessor kOfA10 = {1536, 16, 100 << 10, 99 << 10, 1 << 10};
constexpr Multiprocessor kOfL4 = {1536, 24, 100 << 10, 99 << 10, 1 << 10};
constexpr Multiprocessor kOfT4 = {1024, 16, 64 << 10, 64 << 10, 0};

constexpr Model kModels[] = {
    {"h100", "NVIDIA H100 80GB HBM3", 9, 0, 132, 1980000, 2619000, 5120, 50 << 20, 3, true,
     kOfH100},
    {"a10", "NVIDIA A10", 8, 6, 72, 1695000, 6251000, 384, 6 << 20, 2, false, kOfA10},
    {"l4", "NVIDIA L4", 8, 9, 58, 2040000, 6251000, 192, 48 << 20, 2, false, kOfL4},
    {"t4", "Tesla T4", 7, 5, 40, 1590000, 5001000, 256, 4 << 20, 3, false, kOfT4},
};

// What all of them claim.
constexpr CUdevice_attribute kClaimed[] = {
    CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH,
    CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS,
    CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED,
};

// What those claim that are made for servers with NVLink.
constexpr CUdevice_attribute kOfDataCenters[] = {
    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS,
};

}  // namespace

const Model *find_model(std::string_view name) {
  for (const Model &model : kModels)
    if (model.name == name) return &model;
  return nullptr;
}

bool model_attribute(const Model &model, CUdevice_attribute which, int *value) {
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
      *value = model.memory_clock_khz;
      return true;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
      *value = model.bus_bits;
      return true;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      *value = model.cache_bytes;
      return true;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
      *value = model.copy_engines;
      return true;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      *value = model.multiprocessor.threads;
      return true;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
      *value = model.multiprocessor.blocks;
      return true;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      *value = model.multiprocessor.shared;
      return true;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      *value = model.multiprocessor.shared_of_block;
      return true;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
      *value = model.multiprocessor.reserved;
      return true;
    case CU_DEVICE_ATTRIBUTE_ECC_ENABLED:
      *value = 1;
      return true;
    case CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST:
      *value = 0;  // across PCIe
      return true;
    case CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED:
      *value = model.compute_major >= 9;
      return true;
    default:
      break;
  }
  *value = 1;
  for (const CUdevice_attribute claimed : kClaimed)
    if (claimed == which) return true;
  for (const CUdevice_attribute claimed : kOfDataCenters)
    if (claimed == which && model.data_center) return true;
  return false;
}

}  // namespace softdev::driver
