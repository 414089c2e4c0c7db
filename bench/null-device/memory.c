// Memory: host memory that is called device memory, and virtual memory management by mmap, so that
// a caller that picks addresses gets them.
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "null.h"

#define GRANULE (2ull << 20)
#define ALIGNMENT 512

// Bytes of cuMemCreate; cuMemAlloc is not counted, for nobody says its size at cuMemFree.
static _Atomic size_t created;

CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
  *total = NULL_DEVICE_MEMORY;
  *free = NULL_DEVICE_MEMORY - created;
  return CUDA_SUCCESS;
}

static CUresult allocate(void **memory, size_t size, size_t alignment) {
  if (!size) return CUDA_ERROR_INVALID_VALUE;
  return posix_memalign(memory, alignment, size) ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size) {
  void *memory;
  CUresult result = allocate(&memory, size, ALIGNMENT);
  if (!result) *address = (CUdeviceptr)(uintptr_t)memory;
  return result;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t height,
                            unsigned int element) {
  (void)element;
  *pitch = (width + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  return cuMemAlloc_v2(address, *pitch * height);
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  free(null_pointer(address));
  return CUDA_SUCCESS;
}

CUresult cuMemAllocAsync(CUdeviceptr *address, size_t size, CUstream stream) {
  (void)stream;
  return cuMemAlloc_v2(address, size);
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  (void)stream;
  return cuMemFree_v2(address);
}

CUresult cuMemHostAlloc(void **memory, size_t size, unsigned int flags) {
  (void)flags;
  return allocate(memory, size, 4096);
}
CUresult cuMemAllocHost_v2(void **memory, size_t size) { return cuMemHostAlloc(memory, size, 0); }

CUresult cuMemFreeHost(void *memory) {
  free(memory);
  return CUDA_SUCCESS;
}

CUresult cuMemHostRegister_v2(void *memory, size_t size, unsigned int flags) {
  (void)memory, (void)size, (void)flags;
  return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void *memory) {
  (void)memory;
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *memory, unsigned int flags) {
  (void)flags;
  *address = (CUdeviceptr)(uintptr_t)memory;
  return CUDA_SUCCESS;
}

// ---- virtual memory management -----------------------------------------------------------------

// One cuMemCreate. Its pages come with the mapping, so there can be only one of them.
struct physical {
  size_t size;
  bool mapped;
};

static CUresult from_errno(void) {
  return errno == ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags option) {
  (void)prop, (void)option;
  *granularity = GRANULE;
  return CUDA_SUCCESS;
}

// At `wanted` if that is free, as the driver does: the address is a wish.
CUresult cuMemAddressReserve(CUdeviceptr *address, size_t size, size_t alignment,
                             CUdeviceptr wanted, unsigned long long flags) {
  (void)flags;
  const int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  if (alignment < GRANULE) alignment = GRANULE;
  if (!size || size % GRANULE) return CUDA_ERROR_INVALID_VALUE;
  if (wanted) {
    void *placed = mmap(null_pointer(wanted), size, PROT_NONE, how | MAP_FIXED_NOREPLACE, -1, 0);
    // Kernels before 4.17 take the flag for a wish too.
    if (placed == null_pointer(wanted)) {
      *address = wanted;
      return CUDA_SUCCESS;
    }
    if (placed != MAP_FAILED) munmap(placed, size);
  }
  char *placed = mmap(NULL, size + alignment, PROT_NONE, how, -1, 0);
  if (placed == MAP_FAILED) return from_errno();
  size_t before = (alignment - (uintptr_t)placed % alignment) % alignment;
  if (before) munmap(placed, before);
  munmap(placed + before + size, alignment - before);
  *address = (CUdeviceptr)(uintptr_t)(placed + before);
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t size) {
  return munmap(null_pointer(address), size) ? from_errno() : CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                     const CUmemAllocationProp *prop, unsigned long long flags) {
  (void)prop, (void)flags;
  if (!size || size % GRANULE) return CUDA_ERROR_INVALID_VALUE;
  struct physical *physical = calloc(1, sizeof *physical);
  if (!physical) return CUDA_ERROR_OUT_OF_MEMORY;
  if (atomic_fetch_add(&created, size) + size > NULL_DEVICE_MEMORY) {
    atomic_fetch_sub(&created, size);
    free(physical);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  physical->size = size;
  *handle = (CUmemGenericAllocationHandle)(uintptr_t)physical;
  return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  struct physical *physical = (struct physical *)(uintptr_t)handle;
  atomic_fetch_sub(&created, physical->size);
  free(physical);
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  struct physical *physical = (struct physical *)(uintptr_t)handle;
  if (offset || flags || size != physical->size) return CUDA_ERROR_INVALID_VALUE;
  if (physical->mapped) return CUDA_ERROR_NOT_SUPPORTED;
  void *placed = mmap(null_pointer(address), size, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (placed == MAP_FAILED) return from_errno();
  physical->mapped = true;
  return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc *access,
                        size_t count) {
  (void)access, (void)count;
  return mprotect(null_pointer(address), size, PROT_READ | PROT_WRITE) ? from_errno()
                                                                       : CUDA_SUCCESS;
}

// Of what is mapped.
CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                        CUdeviceptr address) {
  (void)location, (void)address;
  *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t size) {
  void *placed = mmap(null_pointer(address), size, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return placed == MAP_FAILED ? from_errno() : CUDA_SUCCESS;
}
