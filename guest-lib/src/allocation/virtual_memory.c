// Reservations of addresses, and mappings of memory in them. All is decided here; the server is
// told what to map.
#include "allocation/virtual_memory.h"

#include <stdlib.h>
#include <string.h>

#include "allocation/internal.h"
#include "base/grow.h"
#include "guest_calls.h"
#include "memory/memory_range.h"
#include "memory/peer.h"
#include "session/device.h"
#include "session/session.h"
#include "wire/answer.h"
#include "wire/enter.h"
#include "wire/order.h"

struct reservation {
  uint64_t address, size;
  unsigned mappings;
};

struct mapping {
  struct holding holding;
  struct physical *physical;
  uint64_t id;
  // By the session of a device, what it may do, in each granule: in all of it, while `each` is
  // NULL.
  struct access {
    unsigned all;
    uint8_t *each;
  } access[SESSIONS_MAX];
};

static struct reservation *reservations;  // by address
static size_t reservation_count, reservation_room;

// Returns the place of the first reservation that begins behind an address.
static size_t reservations_until(uint64_t address) {
  size_t low = 0, high = reservation_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (reservations[middle].address <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// Returns the reservation that has all of a range, or NULL.
static struct reservation *reservation_of(uint64_t address, uint64_t size) {
  size_t i = reservations_until(address);
  if (!i) return NULL;
  struct reservation *in = &reservations[i - 1];
  uint64_t offset = address - in->address;
  return offset < in->size && size <= in->size - offset ? in : NULL;
}

// ---- mappings ----------------------------------------------------------------------------------

static const struct holding_kind mapping_kind;

static struct mapping *mapping_at(uint64_t address) {
  struct holding *holding = window_at(address);
  return holding && holding->kind == &mapping_kind ? (struct mapping *)holding : NULL;
}

static unsigned access_at(const struct mapping *mapping, uint64_t address,
                          struct session *session) {
  const struct access *access = &mapping->access[session->number];
  if (!access->each) return access->all;
  return access->each[(address - mapping->holding.address) >> window_shift];
}

static _Bool is_uneven(const struct mapping *mapping) {
  for (struct session *session = sessions; session < sessions_end(); session++)
    if (mapping->access[session->number].each) return 1;
  return 0;
}

// Returns those borrowers of a mapping that may do anything at an address, a bit each.
static uint8_t borrowers_at(const struct mapping *mapping, uint64_t address) {
  unsigned borrowers = mapping->holding.borrowers, found = 0;
  for (struct session *session; sessions_take(&borrowers, &session);)
    if (access_at(mapping, address, session)) found |= session_bit(session);
  return (uint8_t)found;
}

static _Bool find_in_mapping(struct holding *holding, uint64_t address, struct allocation *found) {
  struct mapping *mapping = (struct mapping *)holding;
  *found = (struct allocation){.kind = ALLOCATION_MAPPING,
                               .device = mapping->physical->device,
                               .address = holding->address,
                               .size = holding->size,
                               .id = mapping->id,
                               .access = access_at(mapping, address, holding->session),
                               .borrowers = borrowers_at(mapping, address),
                               .uneven = is_uneven(mapping),
                               .shareable = mapping->physical->shareable};
  return 1;
}

// Mapped memory belongs to no context, so that it outlives resets.
static const struct holding_kind mapping_kind = {find_in_mapping, NULL, NULL};

// Whether mappings side by side have all of a range; `whole`: and nothing else.
static _Bool mapped(uint64_t address, uint64_t size, _Bool whole) {
  struct mapping *mapping = mapping_at(address);
  if (whole && mapping && mapping->holding.address != address) return 0;
  uint64_t end = address + size, at = address;
  for (; mapping && at < end; mapping = mapping_at(at))
    at = mapping->holding.address + mapping->holding.size;
  return whole ? at == end : at >= end;
}

static CUresult map(struct session *session, uint64_t address, uint64_t size, uint64_t offset,
                    struct physical *physical) {
  if (offset & (window_granule() - 1) || offset > physical->size || size > physical->size - offset)
    return CUDA_ERROR_INVALID_VALUE;
  struct reservation *in = reservation_of(address, size);
  if (!in) return CUDA_ERROR_INVALID_VALUE;
  for (uint64_t at = address; at < address + size; at += window_granule())
    if (window_at(at)) return CUDA_ERROR_INVALID_VALUE;
  struct mapping *mapping = calloc(1, sizeof *mapping);
  if (!mapping) return CUDA_ERROR_OUT_OF_MEMORY;
  mapping->holding =
      (struct holding){.address = address, .size = size, .session = session, .kind = &mapping_kind};
  mapping->physical = physical;
  mapping->id = memory_next_id();
  window_put(&mapping->holding);
  physical->mappings++;
  in->mappings++;
  return put_MemoryPlace(session, address, size, offset, physical->handle);
}

// Takes the mappings of a range from the program. The caller ends them once the server has unmapped
// them. NULL when there is no memory for that.
static struct mapping *take(uint64_t address, uint64_t size, size_t *count) {
  *count = 0;
  for (uint64_t at = address; at < address + size; at += mapping_at(at)->holding.size) ++*count;
  struct mapping *taken = malloc(*count * sizeof *taken);
  if (!taken) return NULL;
  for (size_t i = 0; i < *count; i++) {
    struct mapping *mapping = mapping_at(address);
    taken[i] = *mapping;
    address += mapping->holding.size;
    window_remove(&mapping->holding);
    free(mapping);
  }
  return taken;
}

// ---- access ------------------------------------------------------------------------------------

static CUmemAccess_flags as_flags(unsigned access) {
  return access & ACCESS_WRITE  ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
         : access & ACCESS_READ ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                : CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

// Notes what the device of a session may do in a part of a mapping, from `first` on.
static CUresult note_access(struct mapping *mapping, uint64_t first, uint64_t bytes,
                            struct session *session, unsigned access) {
  struct access *noted = &mapping->access[session->number];
  if (bytes == mapping->holding.size) {
    free(noted->each);
    *noted = (struct access){access, NULL};
    return CUDA_SUCCESS;
  }
  if (!noted->each) {
    uint64_t granules = mapping->holding.size >> window_shift;
    noted->each = malloc(granules);
    if (!noted->each) return CUDA_ERROR_OUT_OF_MEMORY;
    memset(noted->each, (int)noted->all, granules);
  }
  memset(noted->each + ((first - mapping->holding.address) >> window_shift), (int)access,
         bytes >> window_shift);
  return CUDA_SUCCESS;
}

// Tells the server what a peer's device may do there. The whole mapping is lent to the peer when it
// may do anything in it for the first time.
static CUresult tell_peer(struct mapping *mapping, uint64_t first, uint64_t bytes,
                          struct session *session, unsigned access) {
  _Bool there = sessions_have(mapping->holding.borrowers, session),
        whole = bytes == mapping->holding.size;
  if (!there && !access) return CUDA_SUCCESS;
  if (!there)
    peer_lend(&mapping->holding, session, whole ? as_flags(access) : CU_MEM_ACCESS_FLAGS_PROT_NONE);
  return there || !whole ? put_MemoryAccess(session, first, bytes, as_flags(access)) : CUDA_SUCCESS;
}

// Sets what the device of a session may do in a range.
static CUresult set_access(uint64_t address, uint64_t size, struct session *session,
                           unsigned access) {
  if (!reservation_of(address, size) || !mapped(address, size, 0)) return CUDA_ERROR_INVALID_VALUE;
  const struct session *own = mapping_at(address)->holding.session;
  CUresult result = CUDA_SUCCESS;
  session_use(session);
  for (uint64_t at = address, end = address + size; at < end && !result;) {
    struct mapping *mapping = mapping_at(at);
    uint64_t until = mapping->holding.address + mapping->holding.size;
    if (until > end) until = end;
    result = note_access(mapping, at, until - at, session, access);
    if (!result && session != own) result = tell_peer(mapping, at, until - at, session, access);
    at = until;
  }
  return result || session != own ? result
                                  : put_MemoryAccess(session, address, size, as_flags(access));
}

// Whether all that is mapped in a range is of one device, which goes into *device. *lendable says
// whether all of it is this process's own, as servers lend only that.
static _Bool is_of_one(uint64_t address, uint64_t size, int *device, _Bool *lendable) {
  const struct mapping *mapping = mapping_at(address);
  if (!mapping || !granular(address, size)) return 0;
  *device = mapping->physical->device;
  *lendable = 1;
  for (uint64_t at = address; mapping && at < address + size; mapping = mapping_at(at)) {
    if (mapping->physical->device != *device) return 0;
    if (mapping->physical->imported) *lendable = 0;
    at = mapping->holding.address + mapping->holding.size;
  }
  return 1;
}

// Sets *access to what a description of access means, or *skip where nothing is to be done.
// CUDA_ERROR_INVALID_VALUE when it means nothing.
static CUresult read_access(const CUmemAccessDesc *desc, unsigned *access, _Bool *skip) {
  // The host never reaches such memory here, whatever is asked.
  *skip = desc->location.type == CU_MEM_LOCATION_TYPE_HOST;
  if (*skip) return CUDA_SUCCESS;
  if (desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE || !device_exists(desc->location.id))
    return CUDA_ERROR_INVALID_VALUE;
  switch (desc->flags) {
    case CU_MEM_ACCESS_FLAGS_PROT_NONE:
      *access = 0;
      return CUDA_SUCCESS;
    case CU_MEM_ACCESS_FLAGS_PROT_READ:
      *access = ACCESS_READ;
      return CUDA_SUCCESS;
    case CU_MEM_ACCESS_FLAGS_PROT_READWRITE:
      *access = ACCESS_ALL;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// ---- entry points: addresses -------------------------------------------------------------------

CUresult guest_cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment,
                                   CUdeviceptr addr, unsigned long long flags) {
  if (!ptr || !granular(0, size) || flags || addr & (window_granule() - 1) ||
      (alignment & (alignment - 1)))
    return CUDA_ERROR_INVALID_VALUE;
  if (alignment < window_granule()) alignment = window_granule();
  uint64_t address = addr;
  CUresult result = CUDA_SUCCESS;
  pthread_mutex_lock(&memory_lock);
  if (!grow(&reservations, &reservation_room, reservation_count, sizeof *reservations)) {
    result = CUDA_ERROR_OUT_OF_MEMORY;
  } else if (!(addr && addr % alignment == 0 && window_take_at(addr, size)) &&
             !window_take(size, alignment, &address)) {
    result = CUDA_ERROR_OUT_OF_MEMORY;
  } else {
    size_t i = reservations_until(address);
    memmove(&reservations[i + 1], &reservations[i],
            (reservation_count++ - i) * sizeof *reservations);
    reservations[i] = (struct reservation){address, size, 0};
    *ptr = address;
  }
  pthread_mutex_unlock(&memory_lock);
  return result;
}

CUresult guest_cuMemAddressFree(CUdeviceptr ptr, size_t size) {
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&memory_lock);
  size_t i = reservations_until(ptr);
  if (i && reservations[i - 1].address == ptr && reservations[i - 1].size == size &&
      !reservations[i - 1].mappings) {
    memmove(&reservations[i - 1], &reservations[i],
            (reservation_count-- - i) * sizeof *reservations);
    window_give(ptr, size);
    result = CUDA_SUCCESS;
  }
  pthread_mutex_unlock(&memory_lock);
  return result;
}

// ---- entry points: mappings --------------------------------------------------------------------

CUresult guest_cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
                        CUmemGenericAllocationHandle handle, unsigned long long flags) {
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&memory_lock);
  struct physical *physical = physical_find(handle);
  if (physical && !flags && granular(ptr, size))
    result = map(session_here(), ptr, size, offset, physical);
  pthread_mutex_unlock(&memory_lock);
  return result;
}

CUresult guest_cuMemUnmap(CUdeviceptr ptr, size_t size) {
  if (!granular(ptr, size)) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&memory_lock);
  if (!reservation_of(ptr, size) || !mapped(ptr, size, 1)) {
    pthread_mutex_unlock(&memory_lock);
    return CUDA_ERROR_INVALID_VALUE;
  }
  unsigned borrowers = 0;
  for (uint64_t at = ptr; at < ptr + size; at += mapping_at(at)->holding.size) {
    session_follow(mapping_at(at)->holding.session, CUDA_ERROR_NOT_SUPPORTED);
    borrowers |= mapping_at(at)->holding.borrowers;
  }
  if (session_mixed_error()) {
    pthread_mutex_unlock(&memory_lock);
    return session_mixed_error();
  }
  if (borrowers) {
    pthread_mutex_unlock(&memory_lock);
    sessions_settle(borrowers);
    pthread_mutex_lock(&memory_lock);
    if (!reservation_of(ptr, size) || !mapped(ptr, size, 1)) {
      pthread_mutex_unlock(&memory_lock);
      return CUDA_ERROR_INVALID_VALUE;
    }
    for (uint64_t at = ptr; at < ptr + size; at += mapping_at(at)->holding.size)
      peer_end_all(&mapping_at(at)->holding);
  }
  size_t count;
  struct mapping *taken = take(ptr, size, &count);
  pthread_mutex_unlock(&memory_lock);
  if (!taken) return CUDA_ERROR_OUT_OF_MEMORY;

  struct answer answer;
  answer_init(&answer);
  CUresult result = ask_MemoryDisplace(session_here(), ptr, size, &answer);
  answer_free(&answer);
  if (!guest_is_lost()) {
    // Errors of earlier work are for the next call that synchronises.
    if (result != (CUresult)answer.result) guest_async_error(session_here(), result);
    result = (CUresult)answer.result;
  }

  pthread_mutex_lock(&memory_lock);
  reservation_of(ptr, size)->mappings -= (unsigned)count;
  for (size_t i = 0; i < count; i++) {
    struct physical *physical = taken[i].physical;
    physical->mappings--;
    for (struct session *session = sessions; session < sessions_end(); session++)
      free(taken[i].access[session->number].each);
    CUresult ended = physical_drop_unused(physical);
    if (!result) result = ended;
  }
  pthread_mutex_unlock(&memory_lock);
  free(taken);
  return result;
}

static CUresult set_for_device(uint64_t address, uint64_t size, int device, unsigned access) {
  int owner = device;
  pthread_mutex_lock(&memory_lock);
  _Bool lendable = 0, good = is_of_one(address, size, &owner, &lendable);
  pthread_mutex_unlock(&memory_lock);
  if (!good) return CUDA_ERROR_INVALID_VALUE;
  if (owner != device && access) {
    if (!lendable || !device_peer(device, owner)) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    CUresult result = peer_join(session_of_device(device), session_of_device(owner));
    if (result) return result;
  }
  // Where one session has both devices, its server is told only of the access of the memory's own.
  if (owner != device && session_of_device(device) == session_of_device(owner)) return CUDA_SUCCESS;
  pthread_mutex_lock(&memory_lock);
  CUresult result = set_access(address, size, session_of_device(device), access);
  pthread_mutex_unlock(&memory_lock);
  return result;
}

CUresult guest_cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc,
                              size_t count) {
  if (!desc || !count) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = CUDA_SUCCESS;
  for (size_t i = 0; i < count && !result; i++) {
    unsigned access = 0;
    _Bool skip;
    result = read_access(&desc[i], &access, &skip);
    if (!result && !skip) result = set_for_device(ptr, size, desc[i].location.id, access);
  }
  return result;
}

CUresult guest_cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                              CUdeviceptr ptr) {
  if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
      !device_exists(location->id))
    return CUDA_ERROR_INVALID_VALUE;
  struct allocation found = {.device = location->id};
  pthread_mutex_lock(&memory_lock);
  // Where addresses are reserved but not mapped, nobody may do anything.
  _Bool there = memory_find_locked(ptr, &found) || reservation_of(ptr, 1);
  const struct mapping *mapping = there ? mapping_at(ptr) : NULL;
  unsigned access = found.device == location->id ? found.access : 0;
  if (mapping && found.device != location->id && sessions_many())
    access = access_at(mapping, ptr, session_of_device(location->id));
  pthread_mutex_unlock(&memory_lock);
  if (!there) return CUDA_ERROR_INVALID_VALUE;
  *flags = as_flags(access);
  return CUDA_SUCCESS;
}

CUresult guest_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr) {
  if (!handle) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&memory_lock);
  struct mapping *mapping = mapping_at((uint64_t)(uintptr_t)addr);
  if (mapping) {
    mapping->physical->references++;
    *handle = mapping->physical->handle;
    result = CUDA_SUCCESS;
  }
  pthread_mutex_unlock(&memory_lock);
  return result;
}
