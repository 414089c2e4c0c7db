#include "host_memory.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "answer.h"
#include "guest_calls.h"
#include "memory.h"
#include "stream.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct host_range *ranges;
static size_t count, room;

static struct host_range *find_locked(const void *pointer) {
  for (size_t i = 0; i < count; i++)
    if ((uintptr_t)pointer - (uintptr_t)ranges[i].base < ranges[i].size) return &ranges[i];
  return NULL;
}

_Bool host_find(const void *pointer, struct host_range *found) {
  pthread_mutex_lock(&lock);
  struct host_range *range = find_locked(pointer);
  if (range) *found = *range;
  pthread_mutex_unlock(&lock);
  return range != NULL;
}

_Bool host_is_pinned(const void *pointer, size_t size) {
  struct host_range range;
  return host_find(pointer, &range) &&
         size <= range.size - ((uintptr_t)pointer - (uintptr_t)range.base);
}

static _Bool add(struct host_range range) {
  if (count == room) {
    size_t wanted = room ? room * 2 : 16;
    struct host_range *grown = realloc(ranges, wanted * sizeof *ranges);
    if (!grown) return 0;
    ranges = grown;
    room = wanted;
  }
  ranges[count++] = range;
  return 1;
}

// Copies that are on their way into pinned memory must land before it goes.
static CUresult finish_downloads(void) {
  return answer_outstanding() ? context_synchronize() : CUDA_SUCCESS;
}

static CUresult take(void *p, int registered, CUresult absent, struct host_range *taken) {
  CUresult result = finish_downloads();
  if (result) return result;
  pthread_mutex_lock(&lock);
  struct host_range *range = find_locked(p);
  if (!range || range->base != p || range->registered != registered) {
    result = absent;
  } else {
    *taken = *range;
    *range = ranges[--count];
  }
  pthread_mutex_unlock(&lock);
  return result;
}

// ---- entry points ------------------------------------------------------------------------------

CUresult guest_cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags) {
  const unsigned known =
      CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  if (!pp || !bytesize || Flags & ~known) return CUDA_ERROR_INVALID_VALUE;
  void *memory = mmap(NULL, bytesize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  pthread_mutex_lock(&lock);
  _Bool added = add((struct host_range){memory, bytesize, Flags, 0});
  pthread_mutex_unlock(&lock);
  if (!added) {
    munmap(memory, bytesize);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *pp = memory;
  return CUDA_SUCCESS;
}

CUresult guest_cuMemAllocHost_v2(void **pp, size_t bytesize) {
  return guest_cuMemHostAlloc(pp, bytesize, 0);
}

CUresult guest_cuMemFreeHost(void *p) {
  struct host_range range;
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = take(p, 0, CUDA_ERROR_INVALID_VALUE, &range);
  if (!result) munmap(range.base, range.size);
  return result;
}

CUresult guest_cuMemHostGetFlags(unsigned int *pFlags, void *p) {
  struct host_range range;
  if (!pFlags || !host_find(p, &range)) return CUDA_ERROR_INVALID_VALUE;
  *pFlags = range.flags;
  return CUDA_SUCCESS;
}

CUresult guest_cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags) {
  const unsigned known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                         CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
  if (!p || !bytesize || Flags & ~known) return CUDA_ERROR_INVALID_VALUE;
  uintptr_t begin = (uintptr_t)p, end;
  if (__builtin_add_overflow(begin, bytesize, &end)) return CUDA_ERROR_INVALID_VALUE;
  if (Flags & CU_MEMHOSTREGISTER_IOMEMORY) return CUDA_ERROR_NOT_SUPPORTED;
  if (memory_is_device(p)) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = CUDA_SUCCESS;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < count; i++)
    if (begin < (uintptr_t)ranges[i].base + ranges[i].size && (uintptr_t)ranges[i].base < end)
      result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  if (!result && !add((struct host_range){p, bytesize, Flags, 1}))
    result = CUDA_ERROR_OUT_OF_MEMORY;
  pthread_mutex_unlock(&lock);
  return result;
}

CUresult guest_cuMemHostUnregister(void *p) {
  struct host_range range;
  return p ? take(p, 1, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, &range) : CUDA_ERROR_INVALID_VALUE;
}
