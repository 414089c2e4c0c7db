// Pools of other processes. A pool has no memory of its own to share, so what travels is a name
// that nobody can guess; what is shared are its allocations, one by one, each of which carries a
// word of that name.
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "allocation/internal.h"
#include "allocation/pool.h"
#include "allocation/sharing.h"
#include "guest_calls.h"
#include "memory/memory.h"
#include "memory/memory_range.h"
#include "memory/share_name.h"
#include "session/device.h"
#include "session/handle.h"
#include "session/session.h"

#define POOL_MAGIC 0x316c6f6f70626fu
// Words of the share name: four of the name, then the device. Share names of the server leave the
// last one 0.
enum { NAME_WORD = 7 };

CUresult pool_name(struct pool *pool) {
  return syscall(SYS_getrandom, pool->name, sizeof pool->name, 0) == sizeof pool->name &&
                 *pool->name
             ? CUDA_SUCCESS
             : CUDA_ERROR_OPERATING_SYSTEM;
}

CUresult guest_cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool,
                                                CUmemAllocationHandleType handleType,
                                                unsigned long long flags) {
  const struct pool *found = pool_find(pool);
  if (!found || !handle_out || flags) return CUDA_ERROR_INVALID_VALUE;
  if (found->imported || !*found->name || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return CUDA_ERROR_INVALID_VALUE;
  struct share_name note = {{0}};
  memcpy(note.words, found->name, sizeof found->name);
  memcpy(note.words + 4, &device_get(found->device)->uuid, sizeof(CUuuid));
  int fd = sharing_create_note(POOL_MAGIC, &note);
  if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *(int *)handle_out = fd;
  return CUDA_SUCCESS;
}

CUresult guest_cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle,
                                                  CUmemAllocationHandleType handleType,
                                                  unsigned long long flags) {
  struct share_name note;
  if (!pool_out || flags || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
      !sharing_read_note(handle, POOL_MAGIC, &note) || !*note.words)
    return CUDA_ERROR_INVALID_VALUE;
  int device = 0;
  while (device < device_count() &&
         memcmp(note.words + 4, &device_get(device)->uuid, sizeof(CUuuid)) != 0)
    device++;
  if (device == device_count()) return CUDA_ERROR_INVALID_DEVICE;
  uint64_t made = pool_make(device, 0);
  struct pool *pool = pool_find((CUmemoryPool)(uintptr_t)made);
  if (!pool) return CUDA_ERROR_OUT_OF_MEMORY;
  memcpy(pool->name, note.words, sizeof pool->name);
  pool->imported = 1;
  *pool_out = (CUmemoryPool)(uintptr_t)made;
  return CUDA_SUCCESS;
}

CUresult guest_cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr) {
  struct allocation found;
  if (!shareData_out || !memory_find(ptr, &found) || found.kind != ALLOCATION_PLAIN ||
      found.address != ptr)
    return CUDA_ERROR_INVALID_VALUE;
  const struct pool *pool = found.pool ? handle_object(WIRE_KIND_POOL, found.pool) : NULL;
  if (!pool || !*pool->name) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t name = *pool->name;
  struct share_name share_name;
  CUresult result = sharing_offer(&found, &share_name);
  if (result) return result;
  share_name.words[NAME_WORD] = name;
  _Static_assert(sizeof share_name == sizeof *shareData_out,
                 "a share name is what CUDA passes around");
  memcpy(shareData_out, &share_name, sizeof share_name);
  return CUDA_SUCCESS;
}

CUresult guest_cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool,
                                      CUmemPoolPtrExportData *shareData) {
  const struct pool *found = pool_find(pool);
  if (!found || !ptr_out || !shareData) return CUDA_ERROR_INVALID_VALUE;
  struct share_name share_name;
  memcpy(&share_name, shareData, sizeof share_name);
  if (!found->imported || share_name.words[NAME_WORD] != *found->name)
    return CUDA_ERROR_INVALID_VALUE;
  share_name.words[NAME_WORD] = 0;
  struct thread_session before = session_switch(session_of_device(found->device));
  CUresult result = sharing_open(&share_name, handle_of(pool), ptr_out);
  session_back(before);
  return result;
}
