// Entry points: managed memory, and what programs advise for it. Host and devices share it: pages
// move nowhere, and advice is kept to be asked for.
#include "entry/entry.h"
#include "streams/task.h"

using namespace softdev::driver;

namespace {

CUmemLocation location_of(CUdevice device) {
  if (device == kHostAsDevice) return {CU_MEM_LOCATION_TYPE_HOST, 0};
  return {CU_MEM_LOCATION_TYPE_DEVICE, device};
}

// What the calls from before locations had types answer.
int device_of(const Home &place) {
  switch (place.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      return place.id;
    case CU_MEM_LOCATION_TYPE_NONE:
      return kNoDevice;
    default:
      return kHostAsDevice;
  }
}

CUresult check_location(CUmemLocation location, bool numa) {
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      if (!driver()->device(location.id))
        return refuse(CUDA_ERROR_INVALID_DEVICE, "there is no device %d", location.id);
      return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST:
      return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      return numa ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// With the pin held.
const Region *find_managed(CUdeviceptr address, size_t size) {
  const Region *region = driver()->memory.find(address);
  if (region && region->kind == RegionKind::kManaged && size &&
      size <= region->size - (address - region->base))
    return region;
  refuse(CUDA_ERROR_INVALID_VALUE, "0x%llx, %zu bytes, is not managed memory", address, size);
  return nullptr;
}

CUresult change(CUdeviceptr address, size_t size, const std::function<void(Advice &)> &how) {
  if (size && driver()->memory.advise(address, size, how)) return CUDA_SUCCESS;
  return refuse(CUDA_ERROR_INVALID_VALUE, "0x%llx, %zu bytes, is not managed memory", address,
                size);
}

void set_accessed_by(Advice &advice, CUmemLocation location, bool on) {
  if (location.type == CU_MEM_LOCATION_TYPE_HOST) {
    advice.accessed_by_host = on;
    return;
  }
  uint64_t bit = uint64_t{1} << location.id;
  advice.accessed_by = on ? advice.accessed_by | bit : advice.accessed_by & ~bit;
}

CUresult advise(CUdeviceptr address, size_t size, CUmem_advise advice, CUmemLocation location) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter_anywhere(&context)) return bad;
  if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
    return CUDA_ERROR_INVALID_VALUE;
  bool on = advice % 2 == 1;  // each set is followed by its unset
  // Only where it matters is the place looked at.
  bool accessed_by =
      advice == CU_MEM_ADVISE_SET_ACCESSED_BY || advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
  if (advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION || accessed_by)
    if (CUresult bad = check_location(location, !accessed_by)) return bad;
  return guarded([&] {
    return change(address, size, [&](Advice &held) {
      if (accessed_by)
        set_accessed_by(held, location, on);
      else if (advice <= CU_MEM_ADVISE_UNSET_READ_MOSTLY)
        held.read_mostly = on;
      else
        held.preferred = on ? Home{location.type, location.id} : Home{};
    });
  });
}

CUresult prefetch(CUdeviceptr address, size_t size, CUmemLocation location, unsigned flags,
                  CUstream handle, Default null) {
  StreamRef stream;
  if (CUresult bad = find_stream(handle, null, &stream)) return bad;
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult bad = check_location(location, true)) return bad;
  return guarded([&] {
    return change(address, size, [&](Advice &held) {
      held.prefetched = {location.type, location.id};
    });
  });
}

// Batches: location i is for the ranges from indices[i] to the next one.
CUresult prefetch_batch(const CUdeviceptr *addresses, const size_t *sizes, size_t count,
                        const CUmemLocation *locations, const size_t *indices,
                        size_t location_count, unsigned long long flags, CUstream handle,
                        Default null) {
  if (!addresses || !sizes || !count || !locations || !indices || !location_count ||
      location_count > count || indices[0] != 0 || flags)
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 1; i < location_count; i++)
    if (indices[i] <= indices[i - 1] || indices[i] >= count) return CUDA_ERROR_INVALID_VALUE;
  size_t place = 0;
  for (size_t i = 0; i < count; i++) {
    if (place + 1 < location_count && indices[place + 1] == i) place++;
    if (CUresult bad = prefetch(addresses[i], sizes[i], locations[place], 0, handle, null))
      return bad;
  }
  return CUDA_SUCCESS;
}

// What was there may be lost: keeping it is allowed.
CUresult discard_batch(const CUdeviceptr *addresses, const size_t *sizes, size_t count,
                       unsigned long long flags, CUstream handle, Default null) {
  StreamRef stream;
  if (CUresult bad = find_stream(handle, null, &stream)) return bad;
  if (!addresses || !sizes || !count || flags) return CUDA_ERROR_INVALID_VALUE;
  auto pin = driver()->memory.pin();
  for (size_t i = 0; i < count; i++)
    if (!find_managed(addresses[i], sizes[i])) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

CUresult attach(CUstream handle, CUdeviceptr address, size_t length, unsigned flags, Default null) {
  StreamRef stream;
  if (CUresult bad = find_stream(handle, null, &stream)) return bad;
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST && flags != CU_MEM_ATTACH_SINGLE)
    return CUDA_ERROR_INVALID_VALUE;
  if (flags == CU_MEM_ATTACH_SINGLE && stream->role == Stream::Role::kLegacy)
    return refuse(CUDA_ERROR_INVALID_VALUE, "memory cannot be attached to the legacy stream alone");
  auto pin = driver()->memory.pin();
  const Region *region = find_managed(address, 1);
  if (!region) return CUDA_ERROR_INVALID_VALUE;
  if (length && length != region->size)
    return refuse(CUDA_ERROR_INVALID_VALUE, "only whole allocations can be attached");
  return CUDA_SUCCESS;
}

// ---------------------------------------------------------------------------------------------

// One answer for a range: that of all its pages, or `mixed` where they differ.
template <class Get>
int common(const Region &region, uint64_t offset, size_t size, int mixed, Get get) {
  bool first = true;
  int value = mixed;
  region.advice.each(offset, offset + size, [&](const Advice &advice) {
    int here = get(advice);
    value = first || here == value ? here : mixed;
    first = false;
  });
  return value;
}

void accessed_by(const Region &region, uint64_t offset, size_t size, int *out, size_t room) {
  uint64_t devices = UINT64_MAX;
  bool host = true;
  region.advice.each(offset, offset + size, [&](const Advice &advice) {
    devices &= advice.accessed_by;
    host = host && advice.accessed_by_host;
  });
  size_t used = 0;
  for (int i = 0; i < 64 && used < room; i++)
    if (devices >> i & 1) out[used++] = i;
  if (host && used < room) out[used++] = kHostAsDevice;
  while (used < room) out[used++] = kNoDevice;
}

CUresult range_attribute(void *data, size_t data_size, CUmem_range_attribute attribute,
                         const Region &region, uint64_t offset, size_t size) {
  if (!data || data_size < 4 || data_size % 4) return CUDA_ERROR_INVALID_VALUE;
  if (attribute != CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY && data_size != 4)
    return CUDA_ERROR_INVALID_VALUE;
  int *out = static_cast<int *>(data);
  auto answer = [&](int mixed, auto get) {
    *out = common(region, offset, size, mixed, get);
    return CUDA_SUCCESS;
  };
  switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
      return answer(0, [](const Advice &advice) { return static_cast<int>(advice.read_mostly); });
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
      return answer(kNoDevice, [](const Advice &advice) { return device_of(advice.preferred); });
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
      return answer(kNoDevice, [](const Advice &advice) { return device_of(advice.prefetched); });
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
      return answer(CU_MEM_LOCATION_TYPE_INVALID,
                    [](const Advice &advice) { return advice.preferred.type; });
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
      return answer(kNoDevice, [](const Advice &advice) { return advice.preferred.id; });
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
      return answer(CU_MEM_LOCATION_TYPE_INVALID,
                    [](const Advice &advice) { return advice.prefetched.type; });
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
      return answer(kNoDevice, [](const Advice &advice) { return advice.prefetched.id; });
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
      accessed_by(region, offset, size, out, data_size / 4);
      return CUDA_SUCCESS;
    default:
      return refuse(CUDA_ERROR_INVALID_VALUE, "there is no attribute %d of a range", attribute);
  }
}

}  // namespace

extern "C" {

CUresult cuMemAllocManaged(CUdeviceptr *address, size_t size, unsigned int flags) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  if (CUresult bad = admit_unsafe()) return bad;
  if (!address || !size || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
    return CUDA_ERROR_INVALID_VALUE;
  return guarded([&] {
    *address = driver()->memory.allocate_host(size, RegionKind::kManaged, context->device().ordinal,
                                              context->handle(), flags);
    return *address ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  });
}

CUresult cuMemAdvise_v2(CUdeviceptr address, size_t size, CUmem_advise advice,
                        CUmemLocation location) {
  return advise(address, size, advice, location);
}
CUresult cuMemAdvise(CUdeviceptr address, size_t size, CUmem_advise advice, CUdevice device) {
  return advise(address, size, advice, location_of(device));
}

CUresult cuMemRangeGetAttribute(void *data, size_t data_size, CUmem_range_attribute attribute,
                                CUdeviceptr address, size_t size) {
  return cuMemRangeGetAttributes(&data, &data_size, &attribute, 1, address, size);
}

CUresult cuMemRangeGetAttributes(void **data, size_t *data_sizes, CUmem_range_attribute *attributes,
                                 size_t count, CUdeviceptr address, size_t size) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter_anywhere(&context)) return bad;
  if (!data || !data_sizes || !attributes || !count) return CUDA_ERROR_INVALID_VALUE;
  auto pin = driver()->memory.pin();
  const Region *region = find_managed(address, size);
  if (!region) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; i++)
    if (CUresult bad = range_attribute(data[i], data_sizes[i], attributes[i], *region,
                                       address - region->base, size))
      return bad;
  return CUDA_SUCCESS;
}

// In either default stream.
#define BOTH(name, suffixed, parameters, call, ...)                        \
  CUresult name parameters { return call(__VA_ARGS__, Default::kLegacy); } \
  CUresult suffixed parameters { return call(__VA_ARGS__, Default::kPerThread); }

BOTH(cuMemPrefetchAsync_v2, cuMemPrefetchAsync_v2_ptsz,
     (CUdeviceptr address, size_t size, CUmemLocation location, unsigned int flags,
      CUstream stream),
     prefetch, address, size, location, flags, stream)
BOTH(cuMemPrefetchAsync, cuMemPrefetchAsync_ptsz,
     (CUdeviceptr address, size_t size, CUdevice device, CUstream stream), prefetch, address, size,
     location_of(device), 0, stream)
BOTH(cuMemPrefetchBatchAsync, cuMemPrefetchBatchAsync_ptsz,
     (CUdeviceptr * addresses, size_t *sizes, size_t count, CUmemLocation *locations,
      size_t *indices, size_t location_count, unsigned long long flags, CUstream stream),
     prefetch_batch, addresses, sizes, count, locations, indices, location_count, flags, stream)
BOTH(cuMemDiscardBatchAsync, cuMemDiscardBatchAsync_ptsz,
     (CUdeviceptr * addresses, size_t *sizes, size_t count, unsigned long long flags,
      CUstream stream),
     discard_batch, addresses, sizes, count, flags, stream)
BOTH(cuMemDiscardAndPrefetchBatchAsync, cuMemDiscardAndPrefetchBatchAsync_ptsz,
     (CUdeviceptr * addresses, size_t *sizes, size_t count, CUmemLocation *locations,
      size_t *indices, size_t location_count, unsigned long long flags, CUstream stream),
     prefetch_batch, addresses, sizes, count, locations, indices, location_count, flags, stream)
BOTH(cuStreamAttachMemAsync, cuStreamAttachMemAsync_ptsz,
     (CUstream stream, CUdeviceptr address, size_t length, unsigned int flags), attach, stream,
     address, length, flags)

}  // extern "C"
