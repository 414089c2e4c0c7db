// Managed memory: allocation, advice and prefetches.
#include "allocation/advice.h"
#include "guest_calls.h"
#include "memory/memory.h"
#include "memory/memory_range.h"
#include "pages/pages.h"
#include "session/device.h"
#include "session/session.h"
#include "streams/stream.h"
#include "wire/order.h"

// Where devices are named by number, these stand for the host and for no place.
enum { DEVICE_CPU = -1, DEVICE_NONE = -2 };

#define PAGE 4096ull

static CUmemLocation location_of(CUdevice device) {
  if (device == DEVICE_CPU) return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST};
  return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
}

// Returns the number of a location, as calls do that are older than types of locations.
static int device_of(CUmemLocation location) {
  if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) return location.id;
  return location.type ? DEVICE_CPU : DEVICE_NONE;
}

static CUresult check_location(CUmemLocation location, _Bool numa) {
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      return device_exists(location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    case CU_MEM_LOCATION_TYPE_HOST:
      return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      return numa ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

static CUresult find_managed(CUdeviceptr address, size_t size, struct allocation *found) {
  if (!size || !memory_find(address, found) || found->kind != ALLOCATION_MANAGED ||
      size > found->size - (address - found->address))
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

CUresult guest_cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags) {
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST) return CUDA_ERROR_INVALID_VALUE;
  CUdeviceptr address;
  if (!dptr || !bytesize) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = memory_obtain(bytesize, ALLOCATION_MANAGED, &address);
  if (result) return result;
  advice_forget(address, address + bytesize);
  *dptr = address;
  return CUDA_SUCCESS;
}

// ---- advice ------------------------------------------------------------------------------------

struct change {
  enum { READ_MOSTLY, PREFERRED, ACCESSED_BY, PREFETCHED } what;
  _Bool on;
  CUmemLocation location;
};

static void apply(struct advice *advice, const void *context) {
  const struct change *change = context;
  switch (change->what) {
    case READ_MOSTLY:
      advice->read_mostly = change->on;
      break;
    case PREFERRED:
      advice->preferred = change->location;
      break;
    case PREFETCHED:
      advice->prefetched = change->location;
      break;
    case ACCESSED_BY:
      if (change->location.type == CU_MEM_LOCATION_TYPE_HOST)
        advice->accessed_by_host = change->on;
      else if (change->on)
        advice->accessed_by |= 1ull << change->location.id;
      else
        advice->accessed_by &= ~(1ull << change->location.id);
      break;
  }
}

// Makes a change for all pages that the range touches, counted from where its allocation begins.
static CUresult change_range(CUdeviceptr address, size_t size, const struct change *change) {
  struct allocation found;
  CUresult result = find_managed(address, size, &found);
  if (result) return result;
  uint64_t from = (address - found.address) & ~(PAGE - 1);
  uint64_t to = (address - found.address + size + PAGE - 1) & ~(PAGE - 1);
  if (to > found.size) to = found.size;
  return advice_change(found.address + from, found.address + to, apply, change)
             ? CUDA_SUCCESS
             : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult guest_cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
                              CUmemLocation location) {
  if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
    return CUDA_ERROR_INVALID_VALUE;
  struct change change = {.on = advice % 2 == 1, .location = location};
  // The location is looked at only where it matters.
  _Bool accessed_by = advice >= CU_MEM_ADVISE_SET_ACCESSED_BY;
  if (accessed_by || advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION) {
    CUresult result = check_location(location, !accessed_by);
    if (result) return result;
  }
  change.what = accessed_by                                 ? ACCESSED_BY
                : advice <= CU_MEM_ADVISE_UNSET_READ_MOSTLY ? READ_MOSTLY
                                                            : PREFERRED;
  if (change.what == PREFERRED && !change.on) change.location = (CUmemLocation){0};
  return change_range(devPtr, count, &change);
}

CUresult guest_cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device) {
  return guest_cuMemAdvise_v2(devPtr, count, advice, location_of(device));
}

// ---- prefetches --------------------------------------------------------------------------------

static CUresult prefetch(CUdeviceptr address, size_t size, CUmemLocation location) {
  CUresult result = check_location(location, 1);
  struct change change = {.what = PREFETCHED, .location = location};
  if (!result) result = change_range(address, size, &change);
  if (result) return result;
  // Pages come to the host when they are touched.
  if (location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_SUCCESS;
  struct session *session = session_of_device(location.id);
  struct thread_session before = session_switch(session);
  result = sessions_many() ? memory_bring_managed(session, address) : CUDA_SUCCESS;
  session_back(before);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return result;
  pages_use(address, size, 0);
  return CUDA_SUCCESS;
}

CUresult guest_cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location,
                                     unsigned int flags, CUstream hStream, int per_thread) {
  uint64_t stream;
  CUresult result = stream_for_work(hStream, per_thread, &stream);
  if (!result && flags) result = CUDA_ERROR_INVALID_VALUE;
  return result ? result : prefetch(devPtr, count, location);
}

CUresult guest_cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice,
                                  CUstream hStream, int per_thread) {
  return guest_cuMemPrefetchAsync_v2(devPtr, count, location_of(dstDevice), 0, hStream, per_thread);
}

// Place i is for the ranges from prefetchLocIdxs[i] to the next one's.
CUresult guest_cuMemPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
                                       CUmemLocation *prefetchLocs, size_t *prefetchLocIdxs,
                                       size_t numPrefetchLocs, unsigned long long flags,
                                       CUstream hStream, int per_thread) {
  if (!dptrs || !sizes || !count || !prefetchLocs || !prefetchLocIdxs || !numPrefetchLocs ||
      numPrefetchLocs > count || prefetchLocIdxs[0] != 0 || flags)
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 1; i < numPrefetchLocs; i++)
    if (prefetchLocIdxs[i] <= prefetchLocIdxs[i - 1] || prefetchLocIdxs[i] >= count)
      return CUDA_ERROR_INVALID_VALUE;
  uint64_t stream;
  CUresult result = stream_for_work(hStream, per_thread, &stream);
  size_t place = 0;
  for (size_t i = 0; i < count && !result; i++) {
    if (place + 1 < numPrefetchLocs && prefetchLocIdxs[place + 1] == i) place++;
    result = prefetch(dptrs[i], sizes[i], prefetchLocs[place]);
  }
  return result;
}

CUresult guest_cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
                                                 CUmemLocation *prefetchLocs,
                                                 size_t *prefetchLocIdxs, size_t numPrefetchLocs,
                                                 unsigned long long flags, CUstream hStream,
                                                 int per_thread) {
  return guest_cuMemPrefetchBatchAsync(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs,
                                       numPrefetchLocs, flags, hStream, per_thread);
}

// A program that discards memory does not need what is there. To keep it is allowed.
CUresult guest_cuMemDiscardBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
                                      unsigned long long flags, CUstream hStream, int per_thread) {
  uint64_t stream;
  CUresult result = stream_for_work(hStream, per_thread, &stream);
  if (result) return result;
  if (!dptrs || !sizes || !count || flags) return CUDA_ERROR_INVALID_VALUE;
  struct allocation found;
  for (size_t i = 0; i < count && !result; i++) result = find_managed(dptrs[i], sizes[i], &found);
  return result;
}

// CUDA lets programs say who may touch the memory when. Here everybody may at all times.
CUresult guest_cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length,
                                      unsigned int flags, int per_thread) {
  uint64_t stream;
  CUresult result = stream_for_work(hStream, per_thread, &stream);
  if (result) return result;
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST && flags != CU_MEM_ATTACH_SINGLE)
    return CUDA_ERROR_INVALID_VALUE;
  if (flags == CU_MEM_ATTACH_SINGLE && stream == STREAM_LEGACY_WIRE)
    return CUDA_ERROR_INVALID_VALUE;
  struct allocation found;
  result = find_managed(dptr, 1, &found);
  if (!result && length && length != found.size) result = CUDA_ERROR_INVALID_VALUE;
  return result;
}

// ---- what was advised --------------------------------------------------------------------------

static int number_of(const struct advice *advice, CUmem_range_attribute attribute) {
  switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
      return advice->read_mostly;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
      return device_of(advice->preferred);
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
      return device_of(advice->prefetched);
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
      return (int)advice->preferred.type;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
      return advice->preferred.id;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
      return (int)advice->prefetched.type;
    default:
      return advice->prefetched.id;
  }
}

// Returns what programs are answered for a range whose pages differ.
static int mixed(CUmem_range_attribute attribute) {
  switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
      return 0;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
      return CU_MEM_LOCATION_TYPE_INVALID;
    default:
      return DEVICE_NONE;
  }
}

static void accessed_by(uint64_t begin, uint64_t end, int *out, size_t room) {
  uint64_t devices = UINT64_MAX, stop;
  _Bool host = 1;
  for (uint64_t at = begin; at < end; at = stop) {
    stop = end;
    struct advice advice = advice_at(at, &stop);
    devices &= advice.accessed_by;
    host = host && advice.accessed_by_host;
  }
  size_t used = 0;
  for (int i = 0; i < 64 && used < room; i++)
    if (devices >> i & 1) out[used++] = i;
  if (host && used < room) out[used++] = DEVICE_CPU;
  while (used < room) out[used++] = DEVICE_NONE;
}

static CUresult range_attribute(void *data, size_t size, CUmem_range_attribute attribute,
                                uint64_t begin, uint64_t end) {
  if (!data || size < 4 || size % 4) return CUDA_ERROR_INVALID_VALUE;
  if (attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY) {
    accessed_by(begin, end, data, size / 4);
    return CUDA_SUCCESS;
  }
  if (size != 4 || attribute < CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY ||
      attribute > CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID)
    return CUDA_ERROR_INVALID_VALUE;
  int answer = 0;
  uint64_t stop;
  for (uint64_t at = begin; at < end; at = stop) {
    stop = end;
    struct advice advice = advice_at(at, &stop);
    int here = number_of(&advice, attribute);
    if (at != begin && here != answer) {
      answer = mixed(attribute);
      break;
    }
    answer = here;
  }
  *(int *)data = answer;
  return CUDA_SUCCESS;
}

CUresult guest_cuMemRangeGetAttributes(void **data, size_t *dataSizes,
                                       CUmem_range_attribute *attributes, size_t numAttributes,
                                       CUdeviceptr devPtr, size_t count) {
  if (!data || !dataSizes || !attributes || !numAttributes) return CUDA_ERROR_INVALID_VALUE;
  struct allocation found;
  CUresult result = find_managed(devPtr, count, &found);
  for (size_t i = 0; i < numAttributes && !result; i++)
    result = range_attribute(data[i], dataSizes[i], attributes[i], devPtr, devPtr + count);
  return result;
}

CUresult guest_cuMemRangeGetAttribute(void *data, size_t dataSize, CUmem_range_attribute attribute,
                                      CUdeviceptr devPtr, size_t count) {
  return guest_cuMemRangeGetAttributes(&data, &dataSize, &attribute, 1, devPtr, count);
}
