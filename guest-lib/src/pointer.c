// What a pointer is: all known in the guest.
#include "context.h"
#include "guest_calls.h"
#include "host_memory.h"
#include "memory.h"

struct pointer {
  enum { NOT_OURS, DEVICE, HOST } kind;
  uint64_t address, base, size, context;
};

static struct pointer look_up(CUdeviceptr address) {
  struct pointer pointer = {.kind = NOT_OURS, .address = address};
  struct allocation allocation;
  struct host_range range;
  if (memory_find(address, &allocation)) {
    pointer.kind = DEVICE;
    pointer.base = allocation.address;
    pointer.size = allocation.size;
    pointer.context = allocation.context;
  } else if (host_find((void *)(uintptr_t)address, &range)) {
    pointer.kind = HOST;
    pointer.base = (uint64_t)(uintptr_t)range.base;
    pointer.size = range.size;
  }
  if (pointer.kind != NOT_OURS && !pointer.context) pointer.context = context_current_handle();
  return pointer;
}

// One attribute. For memory that is not ours the answer is zeros and INVALID_VALUE.
static CUresult attribute(const struct pointer *pointer, CUpointer_attribute attribute,
                          void *data) {
  _Bool ours = pointer->kind != NOT_OURS;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *(uint64_t *)data = ours ? pointer->context : 0;
      break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *(unsigned *)data = pointer->kind == DEVICE ? CU_MEMORYTYPE_DEVICE
                          : pointer->kind == HOST ? CU_MEMORYTYPE_HOST
                                                  : 0;
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      // Pinned host memory cannot be reached from the device across the network.
      *(uint64_t *)data = pointer->kind == DEVICE ? pointer->address : 0;
      break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      *(uint64_t *)data = pointer->kind == HOST ? pointer->address : 0;
      break;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:  // four bytes, as cudart reads it; the others are one
      *(unsigned *)data = 0;
      break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      *(_Bool *)data = 0;
      break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      *(unsigned long long *)data = pointer->base;
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: {
      struct context *context = ours ? handle_object(WIRE_KIND_CONTEXT, pointer->context) : NULL;
      *(int *)data = context ? context->device : -2;
      break;
    }
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *(uint64_t *)data = pointer->base;
      break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *(size_t *)data = pointer->size;
      break;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      *(_Bool *)data = ours;
      break;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      *(uint64_t *)data = 0;
      break;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
  return ours ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult guest_cuPointerGetAttribute(void *data, CUpointer_attribute attribute_id,
                                     CUdeviceptr ptr) {
  if (!data || !ptr) return CUDA_ERROR_INVALID_VALUE;
  struct pointer pointer = look_up(ptr);
  return attribute(&pointer, attribute_id, data);
}

CUresult guest_cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes,
                                      void **data, CUdeviceptr ptr) {
  if (!attributes || !data) return CUDA_ERROR_INVALID_VALUE;
  struct pointer pointer = look_up(ptr);
  for (unsigned i = 0; i < numAttributes; i++) {
    if (!data[i]) return CUDA_ERROR_INVALID_VALUE;
    if (attribute(&pointer, attributes[i], data[i]) == CUDA_ERROR_NOT_SUPPORTED)
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}
