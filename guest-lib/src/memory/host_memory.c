#include "memory/host_memory.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/grow.h"
#include "base/own_memory.h"
#include "guest_calls.h"
#include "memory/host_block.h"
#include "memory/internal.h"
#include "memory/memory.h"
#include "memory/window.h"
#include "pages/merged.h"
#include "pages/page_ranges.h"
#include "pages/pages.h"
#include "session/session.h"
#include "wire/answer.h"
#include "wire/enter.h"
#include "wire/order.h"

// All pinned ranges, by address. The memory lock guards them.
static struct host_range *ranges;
static size_t count, room;

// How many ranges begin at or before a pointer.
static size_t ranges_until(const void *pointer) {
  size_t low = 0, high = count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if ((uintptr_t)ranges[middle].base <= (uintptr_t)pointer)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static struct host_range *find_locked(const void *pointer) {
  size_t i = ranges_until(pointer);
  if (!i || (uintptr_t)pointer - (uintptr_t)ranges[i - 1].base >= ranges[i - 1].size) return NULL;
  return &ranges[i - 1];
}

_Bool host_find(const void *pointer, struct host_range *found) {
  pthread_mutex_lock(&memory_lock);
  struct host_range *range = find_locked(pointer);
  if (range) *found = *range;
  pthread_mutex_unlock(&memory_lock);
  return range != NULL;
}

_Bool host_is_pinned(const void *pointer, size_t size) {
  struct host_range range;
  return host_find(pointer, &range) &&
         size <= range.size - ((uintptr_t)pointer - (uintptr_t)range.base);
}

static _Bool add(struct host_range range) {
  if (!grow(&ranges, &room, count, sizeof *ranges)) return 0;
  size_t at = ranges_until(range.base);
  memmove(&ranges[at + 1], &ranges[at], (count++ - at) * sizeof *ranges);
  ranges[at] = range;
  return 1;
}

static void take_out(struct host_range *range) {
  size_t at = (size_t)(range - ranges);
  memmove(range, range + 1, (--count - at) * sizeof *ranges);
}

// Copies that are on their way into pinned memory must land before it goes, or before its pages are
// shared.
static CUresult finish_downloads(void) {
  CUresult result = CUDA_SUCCESS;
  for (struct session *session = sessions; session < sessions_end() && !result; session++) {
    struct thread_session before = session_switch(session);
    if (answer_outstanding(session)) result = context_synchronize(session);
    session_back(before);
  }
  return result;
}

// Waits for the work of the session whose device reaches a range and, where that is wanted, brings
// what the device has of it.
static CUresult finish_work(const struct host_range *range, _Bool wanted) {
  struct thread_session before = session_switch(range->session);
  CUresult result = context_synchronize(session_here());
  if (!guest_is_lost()) pages_have_waited(session_here());
  if (!guest_is_lost() && wanted) pages_bring_all(range->device);
  session_back(before);
  return result;
}

// ---- where the device has it -------------------------------------------------------------------

// Returns the range whose address for devices `address` is, or NULL. The caller holds the lock.
static struct host_range *on_device_locked(uint64_t address) {
  struct host_range *range = NULL;
  const void *base = host_block_owner(address);
  if (base) {
    range = find_locked(base);
    if (range && address - range->device >= range->size) range = NULL;
  } else if (window_in_host_part(address)) {
    range = find_locked((const void *)(uintptr_t)address);
  }
  return range;
}

_Bool host_find_on_device(uint64_t address, struct host_range *found) {
  if (!window_in_host_part(address)) return 0;
  pthread_mutex_lock(&memory_lock);
  struct host_range *range = on_device_locked(address);
  if (range) *found = *range;
  pthread_mutex_unlock(&memory_lock);
  return range != NULL;
}

// Returns the address of a range for devices. Registered memory gets one when it is first asked
// for. The caller holds the lock.
static uint64_t device_address(struct host_range *range) {
  if (range->device) return range->device;
  // The address lies as far from the start of a page as the program's does.
  uint64_t over = (uintptr_t)range->base % WIRE_PAGE;
  range->block = host_block_make(over + range->size, range->base);
  if (range->block) range->device = host_block_address(range->block) + over;
  return range->device;
}

uint64_t host_device_address(const void *pointer) {
  pthread_mutex_lock(&memory_lock);
  struct host_range *range = find_locked(pointer);
  uint64_t address = range ? device_address(range) : 0;
  if (address) address += (uintptr_t)pointer - (uintptr_t)range->base;
  pthread_mutex_unlock(&memory_lock);
  return address;
}

_Atomic unsigned host_shared, host_shadows;

const void *host_on_device_slow(const void *pointer) {
  pthread_mutex_lock(&memory_lock);
  const struct host_range *range = find_locked(pointer);
  uintptr_t offset = range ? (uintptr_t)pointer - (uintptr_t)range->base : 0;
  if (range && range->shared) pointer = (const void *)(uintptr_t)(range->device + offset);
  pthread_mutex_unlock(&memory_lock);
  return pointer;
}

void *host_view(const void *pointer) {
  uint64_t address = (uint64_t)(uintptr_t)pointer;
  return window_in_host_part(address) ? host_block_view(address) : (void *)(uintptr_t)pointer;
}

static _Atomic unsigned users;
static _Atomic _Bool viewed;  // something was, or is about to be, the device's

void *host_use(const void *pointer) {
  atomic_fetch_add(&users, 1);
  return viewed ? host_view(pointer) : (void *)(uintptr_t)pointer;
}

void host_used(void) { atomic_fetch_sub(&users, 1); }

// Has the library go by the second view from now on, and waits for those that do not yet.
static void use_views(void) {
  viewed = 1;
  while (users) sched_yield();
}

static _Bool in_window(const struct host_range *range) {
  return range->device == (uintptr_t)range->base;
}

_Bool host_is_only_here(uint64_t address) {
  pthread_mutex_lock(&memory_lock);
  const struct host_range *range = on_device_locked(address);
  _Bool here = range && in_window(range) && !range->shared;
  pthread_mutex_unlock(&memory_lock);
  return here;
}

// Shares a range with the device of the thread's session. The caller holds the lock.
static CUresult share(struct host_range *range) {
  uint64_t address = range->device, size = range->size;
  CUresult result = host_block_map(range->block);
  if (result) return result;
  if (in_window(range))
    result = pages_share_pinned(session_here(), address, host_block_round(size),
                                host_block_view(address),
                                !host_block_is_stale(session_here(), range->block));
  else
    result = pages_share_own(session_here(), address, size, range->base,
                             range->registered && range->flags & CU_MEMHOSTREGISTER_READ_ONLY);
  if (result) {
    host_block_unmap(session_here(), range->block);
    return result;
  }
  range->shared = 1;
  range->session = session_here();
  host_shared++;
  if (!in_window(range)) host_shadows++;
  return CUDA_SUCCESS;
}

// Ends the sharing of a range, of which all that the device has changed is here. `tell` says that
// the server still has memory there. The caller holds the lock.
static void end_sharing(struct host_range *range, _Bool tell) {
  if (!range->shared) return;
  struct thread_session before = session_switch(range->session);
  pages_unshare_pinned(range->device);
  range->shared = 0;
  host_shared--;
  if (!in_window(range)) host_shadows--;
  if (tell) host_block_unmap(session_here(), range->block);
  session_back(before);
}

CUresult host_share(struct session *session, uint64_t address) {
  pthread_mutex_lock(&memory_lock);
  const struct host_range *there = on_device_locked(address);
  const struct host_range range = there ? *there : (struct host_range){0};
  pthread_mutex_unlock(&memory_lock);
  if (!there) return CUDA_ERROR_INVALID_VALUE;
  if (range.shared && range.session == session) return CUDA_SUCCESS;
  use_views();
  CUresult result = finish_downloads();
  // Another device has it: it moves to this one's.
  if (!result && range.shared) result = finish_work(&range, 1);
  if (result) return result;
  pthread_mutex_lock(&memory_lock);
  for (int attempt = 0; attempt < 2; attempt++) {
    struct host_range *found = on_device_locked(address);
    if (found && found->shared && found->session != session) end_sharing(found, 1);
    if (!found)
      result = CUDA_ERROR_INVALID_VALUE;
    else
      result = found->shared ? CUDA_SUCCESS : share(found);
    if (result != CUDA_ERROR_OUT_OF_MEMORY || attempt) break;
    uint64_t size = found->size;
    if (memory_make_room(session)) break;
    memory_log_shortage(session, size);
  }
  pthread_mutex_unlock(&memory_lock);
  return result;
}

CUresult host_share_named(const unsigned char *parameters, uint32_t size) {
  // Managed memory is the only device's, where there is one.
  _Bool managed = sessions_many() && pages_ranges, variables = sessions_many() && variables_exist();
  if (!host_blocks && !managed && !variables) return CUDA_SUCCESS;
  struct session *session = session_here();
  for (uint32_t at = 0; at + sizeof(uint64_t) <= size; at += sizeof(uint64_t)) {
    uint64_t value;
    memcpy(&value, parameters + at, sizeof value);
    if (managed && window_has(value) &&
        memory_bring_managed(session, value) == CUDA_ERROR_OUT_OF_MEMORY)
      return CUDA_ERROR_OUT_OF_MEMORY;
    if (window_in_host_part(value) && host_share(session, value) == CUDA_ERROR_OUT_OF_MEMORY)
      return CUDA_ERROR_OUT_OF_MEMORY;
    if (variables && !window_has(value) && variable_is_out_of_reach(session, value))
      return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
}

_Bool host_find_allocation(uint64_t address, struct allocation *found) {
  const struct host_range *range = on_device_locked(address);
  if (!range || !range->shared) return 0;
  *found = (struct allocation){.kind = ALLOCATION_HOST,
                               .device = device_of_session(range->session),
                               .address = range->device,
                               .size = range->size,
                               .id = (uint64_t)(uintptr_t)range->base,
                               .access = ACCESS_ALL};
  return 1;
}

void host_forget_block(struct session *session, const struct host_block *block) {
  for (size_t i = 0; i < count; i++)
    if (ranges[i].block == block && ranges[i].session == session) end_sharing(&ranges[i], 0);
}

// ---- its end -----------------------------------------------------------------------------------

static CUresult take(void *p, int registered, CUresult absent, struct host_range *taken) {
  struct host_range found;
  _Bool ours = host_find(p, &found) && found.base == p && found.registered == registered;
  // Work may still use the range, and the program may want what the work makes.
  CUresult result = finish_downloads();
  if (!result && ours && found.shared) result = finish_work(&found, 0);
  if (guest_is_lost()) return result;
  if (result) guest_async_error(session_here(), result);  // of work before
  result = CUDA_SUCCESS;
  pthread_mutex_lock(&memory_lock);
  struct host_range *range = find_locked(p);
  if (!range || range->base != p || range->registered != registered) {
    result = absent;
  } else {
    end_sharing(range, 1);
    *taken = *range;
    take_out(range);
    if (taken->block) host_block_release(taken->block, taken->device, taken->size);
  }
  pthread_mutex_unlock(&memory_lock);
  return result;
}

// ---- entry points ------------------------------------------------------------------------------

// Takes memory for a range in the window, or elsewhere when there is no room. The caller holds the
// lock.
static void *allocate(size_t size, struct host_range *range) {
  range->block = host_block_take(size, &range->device);
  if (range->block) return (void *)(uintptr_t)range->device;
  void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  range->outside = 1;
  return memory == MAP_FAILED ? NULL : memory;
}

CUresult guest_cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags) {
  const unsigned known =
      CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  if (!pp || !bytesize || Flags & ~known) return CUDA_ERROR_INVALID_VALUE;
  struct host_range range = {.size = bytesize, .flags = Flags};
  pthread_mutex_lock(&memory_lock);
  range.base = allocate(bytesize, &range);
  _Bool added = range.base && add(range);
  if (range.base && !added) {
    if (range.block)
      host_block_release(range.block, range.device, bytesize);
    else
      munmap(range.base, bytesize);
  }
  pthread_mutex_unlock(&memory_lock);
  if (!added) return CUDA_ERROR_OUT_OF_MEMORY;
  *pp = range.base;
  return CUDA_SUCCESS;
}

CUresult guest_cuMemAllocHost_v2(void **pp, size_t bytesize) {
  return guest_cuMemHostAlloc(pp, bytesize, 0);
}

CUresult guest_cuMemFreeHost(void *p) {
  struct host_range range;
  if (!p) return CUDA_SUCCESS;  // cudart hands on what cudaFreeHost gets
  CUresult result = take(p, 0, CUDA_ERROR_INVALID_VALUE, &range);
  if (!result && range.outside) munmap(range.base, range.size);
  return result;
}

CUresult guest_cuMemHostGetFlags(unsigned int *pFlags, void *p) {
  struct host_range range;
  if (!pFlags || !host_find(p, &range) || range.registered) return CUDA_ERROR_INVALID_VALUE;
  // All pinned memory is mapped, whether it was asked for or not.
  *pFlags = range.flags | CU_MEMHOSTALLOC_DEVICEMAP;
  return CUDA_SUCCESS;
}

// A program that asks may put the address where we do not see it, as in memory of the device. So
// the range is shared at once.
CUresult guest_cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags) {
  struct host_range range;
  if (!pdptr || Flags || !host_find(p, &range)) return CUDA_ERROR_INVALID_VALUE;
  uint64_t address = host_device_address(p);
  CUresult result = address ? host_share(session_here(), address) : CUDA_ERROR_OUT_OF_MEMORY;
  if (!result) *pdptr = address;
  return result;
}

CUresult guest_cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags) {
  const unsigned known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                         CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
  if (!p || !bytesize || Flags & ~known) return CUDA_ERROR_INVALID_VALUE;
  uintptr_t begin = (uintptr_t)p, end;
  if (__builtin_add_overflow(begin, bytesize, &end)) return CUDA_ERROR_INVALID_VALUE;
  if (Flags & CU_MEMHOSTREGISTER_IOMEMORY) return CUDA_ERROR_NOT_SUPPORTED;
  struct host_range pinned;
  if (host_find(p, &pinned)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  // NVIDIA's driver pins the pages as ones to be written unless it is told otherwise, which the
  // kernel refuses for those that the program may not write (open-gpu-kernel-modules,
  // RmCreateOsDescriptor and os_lock_user_pages): with the same status as for a hole.
  if (window_has(begin) || memory_is_device(p) ||
      !own_is_open(begin, end, !(Flags & CU_MEMHOSTREGISTER_READ_ONLY)))
    return CUDA_ERROR_INVALID_VALUE;
  CUresult result = CUDA_SUCCESS;
  pthread_mutex_lock(&memory_lock);
  for (size_t i = ranges_until((void *)(end - 1)); i && !result; i--) {
    if ((uintptr_t)ranges[i - 1].base + ranges[i - 1].size <= begin) break;
    result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  }
  if (!result &&
      !add((struct host_range){.base = p, .size = bytesize, .flags = Flags, .registered = 1}))
    result = CUDA_ERROR_OUT_OF_MEMORY;
  pthread_mutex_unlock(&memory_lock);
  return result;
}

CUresult guest_cuMemHostUnregister(void *p) {
  struct host_range range;
  if (!p || (host_find(p, &range) && (range.base != p || !range.registered)))
    return CUDA_ERROR_INVALID_VALUE;
  return take(p, 1, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, &range);
}
