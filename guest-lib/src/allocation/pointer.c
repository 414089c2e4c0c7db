// What a pointer is. The guest knows all of that.
#include <string.h>

#include "guest_calls.h"
#include "memory/host_memory.h"
#include "memory/memory.h"
#include "memory/memory_range.h"
#include "session/context.h"
#include "setup/log.h"
#include "wire/enter.h"

struct pointer {
  enum { NOT_OURS, DEVICE, MANAGED, HOST } kind;
  uint64_t address;
  struct host_range host;
  struct allocation in;
};

static struct pointer look_up(CUdeviceptr address) {
  struct pointer pointer = {.kind = NOT_OURS, .address = address};
  if (host_find_on_device(address, &pointer.host)) {
    pointer.address = (uint64_t)(uintptr_t)pointer.host.base + (address - pointer.host.device);
    pointer.kind = HOST;
  } else if (memory_find(address, &pointer.in)) {
    if (pointer.in.context && guest_context_is_gone(pointer.in.context)) return pointer;
    pointer.kind = pointer.in.kind == ALLOCATION_MANAGED ? MANAGED : DEVICE;
  } else if (host_find((void *)(uintptr_t)address, &pointer.host)) {
    pointer.kind = HOST;
  }
  if (pointer.kind == HOST) {
    uint64_t base = (uint64_t)(uintptr_t)pointer.host.base;
    pointer.in = (struct allocation){
        .address = base, .size = pointer.host.size, .id = base, .access = ACCESS_ALL};
  }
  if (pointer.kind == NOT_OURS || pointer.in.context) return pointer;
  // Mappings are of no context.
  if (pointer.in.kind != ALLOCATION_MAPPING) pointer.in.context = context_current_handle();
  if (pointer.kind == HOST) pointer.in.device = device_here();
  return pointer;
}

// Answers for an address that is not ours, and for an attribute that does not apply to one that is.
static CUresult unknown(CUpointer_attribute attribute, void *data) {
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
      memset(data, 0, 8);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:  // four bytes, as cudart reads it; others are one
      memset(data, 0, 4);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      memcpy(data, &(int){-2}, sizeof(int));
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      memset(data, 0, 1);
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

static CUresult put(void *data, const void *value, size_t size) {
  memcpy(data, value, size);
  return CUDA_SUCCESS;
}
#define PUT(type, value) put(data, &(type){(type)(value)}, sizeof(type))

static CUresult known(const struct pointer *pointer, CUpointer_attribute attribute, void *data) {
  const struct allocation *in = &pointer->in;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return PUT(uint64_t, in->context);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return PUT(unsigned, pointer->kind == HOST ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      if (pointer->kind != HOST) return PUT(uint64_t, pointer->address);
      return PUT(uint64_t, host_device_address((const void *)(uintptr_t)pointer->address));
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (pointer->kind == DEVICE) return CUDA_ERROR_INVALID_VALUE;
      return PUT(uint64_t, pointer->address);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return PUT(uint64_t, in->id);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return PUT(unsigned, pointer->kind == MANAGED);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return PUT(int, in->device);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return PUT(uint64_t, in->address);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return PUT(uint64_t, in->size);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return PUT(_Bool, 1);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return PUT(_Bool, pointer->kind == DEVICE && in->kind == ALLOCATION_PLAIN && !in->pool);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return PUT(uint64_t, in->shareable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
                                         : CU_MEM_HANDLE_TYPE_NONE);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return PUT(uint64_t, in->pool);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return PUT(int, in->access &ACCESS_WRITE  ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
                      : in->access &ACCESS_READ ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ
                                                : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE);
    default:
      return unknown(attribute, data);
  }
}

CUresult guest_cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr) {
  if (!data) return CUDA_ERROR_INVALID_VALUE;
  struct pointer pointer = look_up(ptr);
  if (pointer.kind != NOT_OURS) return known(&pointer, attribute, data);
  unknown(attribute, data);
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult guest_cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes,
                                      void **data, CUdeviceptr ptr) {
  if (!numAttributes || !attributes || !data) return CUDA_ERROR_INVALID_VALUE;
  struct pointer pointer = look_up(ptr);
  for (unsigned i = 0; i < numAttributes; i++) {
    if (!data[i]) return CUDA_ERROR_INVALID_VALUE;
    // One attribute that does not apply does not spoil the others.
    CUresult result = pointer.kind == NOT_OURS ? CUDA_ERROR_INVALID_VALUE
                                               : known(&pointer, attributes[i], data[i]);
    if (result) result = unknown(attributes[i], data[i]);
    if (result) return result;
  }
  return CUDA_SUCCESS;
}

// SYNC_MEMOPS is for other machines' network cards, which see copies when the program does. None
// can reach this memory, and copies and fills within the device go on when their call returns.
CUresult guest_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
                                     CUdeviceptr ptr) {
  if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) return CUDA_ERROR_INVALID_VALUE;
  if (look_up(ptr).kind == NOT_OURS) return CUDA_ERROR_INVALID_VALUE;
  if (!*(const unsigned *)value) return CUDA_SUCCESS;
  log_warn(
      "CU_POINTER_ATTRIBUTE_SYNC_MEMOPS is not served: copies and fills within a device go on "
      "when their call returns");
  return CUDA_ERROR_NOT_SUPPORTED;
}
