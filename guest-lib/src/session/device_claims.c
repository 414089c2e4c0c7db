#include "session/device_claims.h"

#include <stddef.h>

#include "setup/log.h"

#define A(name) CU_DEVICE_ATTRIBUTE_##name

// What is passed on: from the first to the last of a row.
static const struct {
  unsigned first, last;
} passed[] = {
    {A(MAX_THREADS_PER_BLOCK), A(KERNEL_EXEC_TIMEOUT)},
    {A(CAN_MAP_HOST_MEMORY), A(MULTI_GPU_BOARD_GROUP_ID)},
    {A(SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO), A(SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO)},
    {A(COMPUTE_PREEMPTION_SUPPORTED), A(COMPUTE_PREEMPTION_SUPPORTED)},
    {A(CAN_USE_STREAM_MEM_OPS_V1), A(COOPERATIVE_LAUNCH)},
    {A(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN), A(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)},
    {A(HOST_REGISTER_SUPPORTED), A(HOST_REGISTER_SUPPORTED)},
    {A(VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), A(HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)},
    {A(MAX_BLOCKS_PER_MULTIPROCESSOR), A(MAX_BLOCKS_PER_MULTIPROCESSOR)},
    {A(MAX_PERSISTING_L2_CACHE_SIZE), A(MAX_ACCESS_POLICY_WINDOW_SIZE)},
    {A(RESERVED_SHARED_MEMORY_PER_BLOCK), A(RESERVED_SHARED_MEMORY_PER_BLOCK)},
    {A(READ_ONLY_HOST_REGISTER_SUPPORTED), A(READ_ONLY_HOST_REGISTER_SUPPORTED)},
    {A(MEMORY_POOLS_SUPPORTED), A(MEMORY_POOLS_SUPPORTED)},
    {A(MEMPOOL_SUPPORTED_HANDLE_TYPES), A(CLUSTER_LAUNCH)},
    {A(CAN_USE_64_BIT_STREAM_MEM_OPS), A(CAN_USE_STREAM_WAIT_VALUE_NOR)},
    {A(IPC_EVENT_SUPPORTED), A(MEM_SYNC_DOMAIN_COUNT)},
    {A(TENSOR_MAP_ACCESS_SUPPORTED), A(TENSOR_MAP_ACCESS_SUPPORTED)},
    {A(NUMA_ID), A(NUMA_ID)},
    {A(GPU_PCI_DEVICE_ID), A(GPU_PCI_SUBSYSTEM_ID)},
};

// What is 0, and why.
static const unsigned refused[] = {
    // The device's memory is not this machine's, and kernels do not reach into this machine.
    A(INTEGRATED),
    A(CONCURRENT_MANAGED_ACCESS),
    A(DIRECT_MANAGED_MEM_ACCESS_FROM_HOST),
    A(PAGEABLE_MEMORY_ACCESS),
    A(PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES),
    A(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM),
    A(HOST_NATIVE_ATOMIC_SUPPORTED),
    A(ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED),
    A(NUMA_CONFIG),
    // Memory of a processor's node is asked for by numbers that are the server's.
    A(HOST_NUMA_ID),
    A(HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED),
    A(HOST_NUMA_MEMORY_POOLS_SUPPORTED),
    A(HOST_NUMA_MULTINODE_IPC_SUPPORTED),
    A(HOST_MEMORY_POOLS_SUPPORTED),
    A(HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED),
    // cuMulticast*, cuTensorMapSetAllocationClass, cuLogicalEndpoint* and cuMemBatchDecompressAsync
    // are not served.
    A(MULTICAST_SUPPORTED),
    A(TENSOR_MAP_LARGE_TENSOR_MIN_SIZE),
    A(LOGICAL_ENDPOINT_UNICAST_SUPPORTED),
    A(LOGICAL_ENDPOINT_MULTICAST_SUPPORTED),
    A(LOGICAL_ENDPOINT_COUNTED_OPS_SUPPORTED),
    A(LOGICAL_ENDPOINT_UNICAST_ACCESS_ON_OWNER_DEVICE_SUPPORTED),
    A(LOGICAL_ENDPOINT_SUPPORTED_HANDLE_TYPES),
    A(MEM_DECOMPRESS_ALGORITHM_MASK),
    A(MEM_DECOMPRESS_MAXIMUM_LENGTH),
    // Nor are cuLaunchCooperativeKernelMultiDevice and cuLibraryGetUnifiedFunction.
    A(COOPERATIVE_MULTI_DEVICE_LAUNCH),
    A(UNIFIED_FUNCTION_POINTERS),
    // cuMemCreate makes no memory that is compressed, and cuArrayCreate none that is mapped later:
    // there is no cuMemMapArrayAsync.
    A(GENERIC_COMPRESSION_SUPPORTED),
    A(SPARSE_CUDA_ARRAY_SUPPORTED),
    A(DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED),
    // Nobody else writes into the device's memory by itself, so there is nothing to flush.
    A(CAN_FLUSH_REMOTE_WRITES),
    A(GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS),
    A(GPU_DIRECT_RDMA_WRITES_ORDERING),
    // Memory and semaphores that others make, or that others are to reach.
    A(TIMELINE_SEMAPHORE_INTEROP_SUPPORTED),
    A(GPU_DIRECT_RDMA_SUPPORTED),
    A(GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED),
    A(GPU_DIRECT_RDMA_WITH_LOCALIZED_MEMORY_SUPPORTED),
    A(DMA_BUF_SUPPORTED),
    A(DMA_BUF_MMAP_SUPPORTED),
    A(HOST_ALLOC_DMA_BUF_SUPPORTED),
    A(HANDLE_TYPE_FABRIC_SUPPORTED),
    A(HANDLE_TYPE_WIN32_HANDLE_SUPPORTED),
    A(HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED),
    A(D3D12_CIG_SUPPORTED),
    A(D3D12_CIG_STREAMS_SUPPORTED),
    A(VULKAN_CIG_SUPPORTED),
    A(VULKAN_CIG_STREAMS_SUPPORTED),
    // What shares the server's device with us is not this machine's MPS.
    A(MPS_ENABLED),
    // No call of ours knows these.
    A(ATOMIC_REDUCTION_SUPPORTED),
    A(LOCALITY_DOMAIN_COUNT),
    A(LOCALITY_DOMAIN_MULTIPROCESSOR_COUNT),
    A(MAX_OVERSIZED_SHARED_MEMORY_PER_BLOCK),
};

static _Bool is_passed(unsigned attribute) {
  for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
    if (attribute >= passed[i].first && attribute <= passed[i].last) return 1;
  return 0;
}

static _Bool is_refused(unsigned attribute) {
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
    if (attribute == refused[i]) return 1;
  return 0;
}

_Bool device_claims_knows(unsigned attribute) {
  return is_passed(attribute) != is_refused(attribute);
}

static void say_unknown(unsigned attribute, int value) {
  static _Bool said[DEVICE_ATTRIBUTES_MAX];
  if (said[attribute]) return;
  said[attribute] = 1;
  log_info(
      "the device's attribute %u is %d on the server, and 0 here: this library does not know it",
      attribute, value);
}

void device_claims_restrict(struct device *device) {
  for (unsigned i = 1; i < device->attribute_count; i++) {
    if (is_passed(i)) continue;
    if (device->attributes[i] && !is_refused(i)) say_unknown(i, device->attributes[i]);
    device->attributes[i] = 0;
  }
  // Pools travel in files of ours (sharing.h), and in no other way.
  if (device->attribute_count > A(MEMPOOL_SUPPORTED_HANDLE_TYPES))
    device->attributes[A(MEMPOOL_SUPPORTED_HANDLE_TYPES)] &=
        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  // The device's memory is no node of this machine.
  if (device->attribute_count > A(NUMA_ID)) device->attributes[A(NUMA_ID)] = -1;
}
