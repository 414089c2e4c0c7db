// What an address belongs to, and whether a range is the program's.
#include "guest_calls.h"
#include "memory/host_memory.h"
#include "memory/internal.h"
#include "memory/memory.h"
#include "memory/window.h"
#include "pages/page_ranges.h"
#include "pages/pages.h"
#include "session/session.h"
#include "setup/log.h"
#include "wire.h"

_Bool memory_find_locked(uint64_t address, struct allocation *found) {
  struct holding *holding = window_at(address);
  if (!holding) return variable_find(session_here(), address, found);
  if (!holding->kind->find(holding, address, found)) return 0;
  found->session = holding->session;
  return 1;
}

_Bool memory_find(uint64_t address, struct allocation *found) {
  pthread_mutex_lock(&memory_lock);
  _Bool there = memory_find_locked(address, found);
  pthread_mutex_unlock(&memory_lock);
  return there;
}

// Whether a range lies in allocations that may be used; in mappings, it may go on in the next.
static _Bool range_is_usable(uint64_t address, uint64_t size) {
  struct allocation found;
  _Bool first = 1;
  while (memory_find_locked(address, &found) && (found.access || found.borrowers)) {
    if (!sessions_have(found.borrowers, session_here()))
      session_follow(found.session, CUDA_ERROR_INVALID_VALUE);
    // What continues a mapping must be one, too.
    if (!first && found.kind != ALLOCATION_MAPPING) return 0;
    uint64_t rest = found.size - (address - found.address);
    if (found.uneven) rest = window_granule() - (address & (window_granule() - 1));
    if (size <= rest) return 1;
    if (found.kind != ALLOCATION_MAPPING) return 0;
    address += rest;
    size -= rest;
    first = 0;
  }
  return 0;
}

static CUresult check(uint64_t address, uint64_t size, _Bool writes) {
  if (!size) return CUDA_SUCCESS;
  if (window_in_host_part(address)) {
    CUresult result = host_share(session_here(), address);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) return result;
  }
  pthread_mutex_lock(&memory_lock);
  _Bool good = range_is_usable(address, size);
  pthread_mutex_unlock(&memory_lock);
  if (good) {
    pages_use(address, size, writes);
    return CUDA_SUCCESS;
  }
  log_debug("0x%llx + %llu bytes is not device memory of this program", (unsigned long long)address,
            (unsigned long long)size);
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult memory_check(uint64_t address, uint64_t size) { return check(address, size, 1); }
CUresult memory_check_source(uint64_t address, uint64_t size) { return check(address, size, 0); }

_Bool memory_is_shared(const void *pointer) {
  struct allocation found;
  return pages_ranges && memory_find((uint64_t)(uintptr_t)pointer, &found) &&
         (found.kind == ALLOCATION_MANAGED || found.kind == ALLOCATION_HOST);
}

_Bool memory_is_device(const void *pointer) {
  uint64_t address = (uint64_t)(uintptr_t)pointer;
  struct allocation found;
  if (window_in_host_part(address)) return !host_is_only_here(address);
  if (window_has(address)) return 1;
  return variables_exist() && memory_find(address, &found);
}

CUresult guest_cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr) {
  struct allocation found;
  struct host_range pinned;
  if (!memory_find(dptr, &found)) {
    if (!host_find((const void *)(uintptr_t)dptr, &pinned)) return CUDA_ERROR_NOT_FOUND;
    found.address = (uint64_t)(uintptr_t)pinned.base;
    found.size = pinned.size;
  }
  if (pbase) *pbase = found.address;
  if (psize) *psize = found.size;
  return CUDA_SUCCESS;
}
