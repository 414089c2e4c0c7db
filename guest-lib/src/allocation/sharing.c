// Memory and events shared with other processes, which have sessions of their own. What the program
// passes around are share names of the server, as they are, or in a file that it passes by
// descriptor.
#include "allocation/sharing.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "abi_descriptor.h"
#include "allocation/internal.h"
#include "allocation/virtual_memory.h"
#include "guest_calls.h"
#include "memory/limit.h"
#include "memory/memory_range.h"
#include "session/context.h"
#include "session/handle.h"
#include "streams/event.h"
#include "wire/order.h"

// Memory of another process, mapped here.
struct import {
  struct holding holding;
  struct physical *physical;
  struct share_name share_name;
  uint64_t address, size;  // what is meant of it
  uint64_t context;
  uint64_t pool;  // handle of the imported pool that it is of, or 0
  uint64_t id;
  unsigned opened;
  struct import *next;
};

static struct import *imports;

static _Bool find_import(struct holding *holding, uint64_t address, struct allocation *found) {
  struct import *import = (struct import *)holding;
  if (address - import->address >= import->size) return 0;
  *found = (struct allocation){.kind = ALLOCATION_IMPORTED,
                               .device = import->physical->device,
                               .address = import->address,
                               .size = import->size,
                               .context = import->context,
                               .pool = import->pool,
                               .id = import->id,
                               .access = ACCESS_ALL};
  return 1;
}

static const struct holding_kind import_kind = {find_import, NULL, NULL};

// ---- questions ---------------------------------------------------------------------------------

static CUresult export_memory(struct session *session, uint64_t memory, uint64_t address,
                              uint64_t size, uint64_t offset, uint64_t length,
                              struct share_name *share_name) {
  struct answer answer;
  answer_init(&answer);
  CUresult result = ask_MemoryExport(session, memory, address, size, offset, length, &answer);
  result = answer_own_result(result, &answer);
  if (!result) {
    const struct wire_MemoryExport_reply *reply = answer.reply;
    memcpy(share_name, &reply->name0, sizeof *share_name);
  }
  answer_free(&answer);
  return result;
}

struct imported {
  uint64_t size, offset, length;
};

static CUresult import_memory(struct session *session, uint64_t handle, _Bool own,
                              const struct share_name *t, struct imported *imported) {
  struct answer answer;
  answer_init(&answer);
  CUresult result = ask_MemoryImport(session, handle, own, SHARE_NAME_ARGUMENTS(*t), &answer);
  result = answer_own_result(result, &answer);
  if (!result) {
    const struct wire_MemoryImport_reply *reply = answer.reply;
    *imported = (struct imported){reply->size, reply->offset, reply->length};
    if (!granular(0, imported->size) || imported->size > WIRE_WINDOW_SIZE ||
        imported->offset > imported->size || imported->length > imported->size - imported->offset)
      result = CUDA_ERROR_INVALID_HANDLE;
  }
  answer_free(&answer);
  return result;
}

// Makes a piece, with one reference, of the memory that a share name stands for. It counts towards
// this session's limit, too, as it keeps the other process's memory alive.
static CUresult import_physical(_Bool own, const struct share_name *share_name,
                                struct physical **out, struct imported *imported) {
  pthread_mutex_lock(&memory_lock);
  struct physical *physical = physical_new(session_here(), 0, device_here(), 1);
  pthread_mutex_unlock(&memory_lock);
  if (!physical) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = import_memory(session_here(), physical->handle, own, share_name, imported);
  _Bool there = !result;
  pthread_mutex_lock(&memory_lock);
  if (!result && !memory_charge_made(session_here(), imported->size))
    result = CUDA_ERROR_OUT_OF_MEMORY;
  if (!result) {
    physical->size = imported->size;
    physical->imported = 1;
    *out = physical;
  } else if (there) {
    physical->references = 0;
    physical_drop_unused(physical);
  } else {
    // The server never had it.
    handle_retire(WIRE_KIND_MEMORY, physical->handle);
    handle_recycle(WIRE_KIND_MEMORY, physical->handle);
    free(physical);
  }
  pthread_mutex_unlock(&memory_lock);
  return result;
}

// Whether the server that has given a share name says that it still stands.
static CUresult check_name(struct session *session, const struct share_name *t) {
  if (!session->share_ends) return CUDA_SUCCESS;
  struct answer answer;
  answer_init(&answer);
  CUresult result = ask_ShareCheck(session, SHARE_NAME_ARGUMENTS(*t), &answer);
  result = answer_own_result(result, &answer);
  answer_free(&answer);
  return result;
}

// ---- memory by handles -------------------------------------------------------------------------

CUresult sharing_offer(const struct allocation *wanted, struct share_name *share_name) {
  struct allocation found;
  struct holding whole = {0};
  pthread_mutex_lock(&memory_lock);
  if (memory_find_locked(wanted->address, &found) && memory_name(found.address, wanted->id))
    whole = *window_at(wanted->address);
  pthread_mutex_unlock(&memory_lock);
  if (!whole.size) return CUDA_ERROR_INVALID_VALUE;
  struct thread_session before = session_switch(whole.session);
  // The server may have to put the bytes elsewhere, for which all work must be done.
  struct session *session = session_here();
  CUresult result = context_is_settled(session) ? CUDA_SUCCESS : context_synchronize(session);
  if (!result)
    result = export_memory(session_here(), 0, whole.address, whole.size,
                           wanted->address - whole.address, wanted->size, share_name);
  session_back(before);
  return result;
}

CUresult guest_cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr) {
  struct allocation found;
  if (!pHandle) return CUDA_ERROR_INVALID_VALUE;
  if (!memory_find(dptr, &found) || found.kind != ALLOCATION_PLAIN || found.pool)
    return CUDA_ERROR_INVALID_VALUE;
  struct share_name share_name;
  CUresult result = sharing_offer(&found, &share_name);
  if (result) return result;
  _Static_assert(sizeof share_name == sizeof *pHandle, "a share name is what CUDA passes around");
  memcpy(pHandle, &share_name, sizeof *pHandle);
  return CUDA_SUCCESS;
}

static CUresult map_import(const struct share_name *share_name, uint64_t pool,
                           struct physical *physical, const struct imported *imported,
                           uint64_t *address) {
  struct import *import = calloc(1, sizeof *import);
  uint64_t at;
  if (!import || !window_take(imported->size, window_granule(), &at)) {
    free(import);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  struct session *session = session_here();
  import->holding = (struct holding){
      .address = at, .size = imported->size, .session = session, .kind = &import_kind};
  import->physical = physical;
  import->share_name = *share_name;
  import->address = at + imported->offset;
  import->size = imported->length;
  import->context = context_current_handle();
  import->pool = pool;
  import->id = memory_next_id();
  import->opened = 1;
  import->next = imports;
  imports = import;
  physical->mappings = 1;
  window_put(&import->holding);
  *address = import->address;
  CUresult result = put_MemoryPlace(session, at, imported->size, 0, physical->handle);
  if (!result)
    result = put_MemoryAccess(session, at, imported->size, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  return result;
}

// What the current context has by a share name, or NULL. The caller holds the memory lock.
static struct import *import_named(const struct share_name *share_name) {
  struct import *import = imports;
  while (import && (memcmp(&import->share_name, share_name, sizeof *share_name) != 0 ||
                    import->context != context_current_handle()))
    import = import->next;
  return import;
}

CUresult sharing_open(const struct share_name *share_name, uint64_t pool, CUdeviceptr *out) {
  pthread_mutex_lock(&memory_lock);
  const _Bool known = import_named(share_name) != NULL;
  pthread_mutex_unlock(&memory_lock);
  if (known) {
    // What is open here may have been freed there, and then has no name any more.
    CUresult result = check_name(session_here(), share_name);
    if (result) return result;
    pthread_mutex_lock(&memory_lock);
    struct import *import = import_named(share_name);
    if (import) {
      import->opened++;
      *out = import->address;
    }
    pthread_mutex_unlock(&memory_lock);
    if (import) return CUDA_SUCCESS;
  }
  struct physical *physical;
  struct imported imported;
  CUresult result = import_physical(0, share_name, &physical, &imported);
  if (result) return result;
  pthread_mutex_lock(&memory_lock);
  uint64_t address;
  result = map_import(share_name, pool, physical, &imported, &address);
  physical->references = 0;  // the mapping holds it
  if (result) physical_drop_unused(physical);
  pthread_mutex_unlock(&memory_lock);
  if (!result) *out = address;
  return result;
}

CUresult guest_cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle,
                                     unsigned int Flags) {
  if (!pdptr || Flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
  struct share_name share_name;
  memcpy(&share_name, &handle, sizeof share_name);
  return sharing_open(&share_name, 0, pdptr);
}

CUresult guest_cuIpcOpenMemHandle(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags) {
  return guest_cuIpcOpenMemHandle_v2(pdptr, handle, Flags);
}

CUresult sharing_close(CUdeviceptr dptr, _Bool at_once) {
  pthread_mutex_lock(&memory_lock);
  struct import **link = &imports;
  while (*link && (*link)->address != dptr) link = &(*link)->next;
  struct import *import = *link;
  _Bool last = import && (--import->opened == 0 || at_once);
  if (last) {
    *link = import->next;
    window_remove(&import->holding);
  }
  pthread_mutex_unlock(&memory_lock);
  if (!import) return CUDA_ERROR_INVALID_VALUE;
  if (!last) return CUDA_SUCCESS;
  struct thread_session before = session_switch(import->holding.session);
  struct answer answer;
  answer_init(&answer);
  CUresult result =
      ask_MemoryDisplace(session_here(), import->holding.address, import->holding.size, &answer);
  result = answer_own_result(result, &answer);
  answer_free(&answer);
  pthread_mutex_lock(&memory_lock);
  window_give(import->holding.address, import->holding.size);
  import->physical->mappings = 0;
  physical_drop_unused(import->physical);
  pthread_mutex_unlock(&memory_lock);
  session_back(before);
  free(import);
  return result;
}

CUresult guest_cuIpcCloseMemHandle(CUdeviceptr dptr) { return sharing_close(dptr, 0); }

// ---- memory by descriptors ---------------------------------------------------------------------

// What a file holds that stands for memory or a pool. It is sealed, so that it cannot change on
// its way.
struct note {
  uint64_t magic;
  struct share_name share_name;
};
#define MEMORY_MAGIC 0x3165746f6e626fu
#define NOTE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)

int sharing_create_note(uint64_t magic, const struct share_name *share_name) {
  const struct note note = {magic, *share_name};
  int fd = descriptor_above(
      (int)syscall(SYS_memfd_create, "outboard-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (fd < 0) return -1;
  if (write(fd, &note, sizeof note) == sizeof note && !fcntl(fd, F_ADD_SEALS, NOTE_SEALS))
    return fd;
  close(fd);
  return -1;
}

_Bool sharing_read_note(const void *handle, uint64_t magic, struct share_name *share_name) {
  struct stat about;
  struct note note;
  const intptr_t number = (intptr_t)handle;
  if (number < 0 || number > INT32_MAX) return 0;
  const int fd = (int)number, seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || !(seals & F_SEAL_WRITE) || fstat(fd, &about) || about.st_size != sizeof note ||
      pread(fd, &note, sizeof note, 0) != sizeof note || note.magic != magic)
    return 0;
  *share_name = note.share_name;
  return 1;
}

CUresult guest_cuMemExportToShareableHandle(void *shareableHandle,
                                            CUmemGenericAllocationHandle handle,
                                            CUmemAllocationHandleType handleType,
                                            unsigned long long flags) {
  pthread_mutex_lock(&memory_lock);
  struct physical *physical = physical_find(handle);
  uint64_t size = physical ? physical->size : 0;
  _Bool shareable = physical && physical->shareable;
  pthread_mutex_unlock(&memory_lock);
  if (!shareableHandle || !size || flags) return CUDA_ERROR_INVALID_VALUE;
  if (handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  if (!shareable) return CUDA_ERROR_INVALID_VALUE;
  struct share_name share_name;
  CUresult result = export_memory(session_here(), handle, 0, 0, 0, size, &share_name);
  if (result) return result;
  int fd = sharing_create_note(MEMORY_MAGIC, &share_name);
  if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *(int *)shareableHandle = fd;
  return CUDA_SUCCESS;
}

CUresult guest_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
                                              CUmemAllocationHandleType shHandleType) {
  if (!handle) return CUDA_ERROR_INVALID_VALUE;
  if (shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  struct share_name share_name;
  if (!sharing_read_note(osHandle, MEMORY_MAGIC, &share_name)) return CUDA_ERROR_INVALID_VALUE;
  struct physical *physical;
  struct imported imported;
  CUresult result = import_physical(1, &share_name, &physical, &imported);
  if (result == CUDA_ERROR_INVALID_HANDLE) return CUDA_ERROR_INVALID_VALUE;
  if (!result) *handle = physical->handle;
  return result;
}

// ---- events ------------------------------------------------------------------------------------

CUresult guest_cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent event) {
  _Bool shared;
  if (!event_is(event, &shared)) return CUDA_ERROR_INVALID_HANDLE;
  if (!pHandle) return CUDA_ERROR_INVALID_VALUE;
  if (!shared) return CUDA_ERROR_INVALID_HANDLE;
  struct answer answer;
  answer_init(&answer);
  CUresult result = ask_EventExport(session_here(), handle_of(event), &answer);
  result = answer_own_result(result, &answer);
  if (!result) {
    const struct wire_EventExport_reply *reply = answer.reply;
    memcpy(pHandle, &reply->name0, sizeof *pHandle);
  }
  answer_free(&answer);
  return result;
}

CUresult guest_cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle) {
  if (!phEvent) return CUDA_ERROR_INVALID_VALUE;
  struct share_name t;
  memcpy(&t, &handle, sizeof t);
  uint64_t wire = event_mint(session_here(), CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
  if (!wire) return CUDA_ERROR_OUT_OF_MEMORY;
  struct answer answer;
  answer_init(&answer);
  CUresult result = ask_EventImport(session_here(), wire, SHARE_NAME_ARGUMENTS(t), &answer);
  result = answer_own_result(result, &answer);
  answer_free(&answer);
  if (result)
    event_unmint(wire);
  else
    *phEvent = (CUevent)(uintptr_t)wire;
  return result;
}
