#include "abi_storage.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "abi_tables.h"

// The runtime makes one get per API call, and a handful of puts in its life. So: a short list of
// slots that readers scan without a lock, and a sequence number that writers make odd while they
// change it (a reader who saw it change scans again). Slots are reused, never freed.

enum { CHUNK = 64 };

struct slot {
  _Atomic(CUcontext) context;
  _Atomic(void *) key;  // meaningful while context is not NULL
  _Atomic(void *) value;
  abi_storage_dtor dtor;  // under the lock
};

struct chunk {
  struct slot slots[CHUNK];
  _Atomic(struct chunk *) next;
};

static struct chunk first;
static atomic_uint sequence;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static CUcontext resolve(CUcontext context) {
  if (context && context != (CUcontext)-1) return context;
  return abi_host.current_context();
}

static struct slot *find(CUcontext context, const void *key) {
  for (struct chunk *chunk = &first; chunk;
       chunk = atomic_load_explicit(&chunk->next, memory_order_acquire))
    for (int i = 0; i < CHUNK; i++) {
      struct slot *slot = &chunk->slots[i];
      if (atomic_load_explicit(&slot->context, memory_order_acquire) == context &&
          (!context || atomic_load_explicit(&slot->key, memory_order_acquire) == key))
        return slot;
    }
  return NULL;
}

// Under the lock. NULL when memory is out.
static struct slot *free_slot(void) {
  struct slot *slot = find(NULL, NULL);
  if (slot) return slot;
  struct chunk *last = &first;
  for (struct chunk *next; (next = atomic_load(&last->next));) last = next;
  struct chunk *added = calloc(1, sizeof *added);
  if (!added) return NULL;
  atomic_store_explicit(&last->next, added, memory_order_release);
  return &added->slots[0];
}

static void write_begin(void) {
  pthread_mutex_lock(&lock);
  atomic_fetch_add(&sequence, 1);
}

static void write_end(void) {
  atomic_fetch_add(&sequence, 1);
  pthread_mutex_unlock(&lock);
}

CUresult abi_storage_put(CUcontext context, void *key, void *value, abi_storage_dtor dtor) {
  context = resolve(context);
  if (!context) return CUDA_ERROR_INVALID_HANDLE;
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  write_begin();
  struct slot *slot = find(context, key);
  if (!slot) slot = free_slot();
  if (slot) {
    atomic_store(&slot->key, key);
    atomic_store(&slot->value, value);
    slot->dtor = dtor;
    atomic_store(&slot->context, context);
    result = CUDA_SUCCESS;
  }
  write_end();
  return result;
}

CUresult abi_storage_delete(CUcontext context, void *key) {
  context = resolve(context);
  if (!context) return CUDA_ERROR_INVALID_HANDLE;
  write_begin();
  struct slot *slot = find(context, key);
  if (slot) atomic_store(&slot->context, NULL);
  write_end();
  return slot ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult abi_storage_get(void **value, CUcontext context, void *key) {
  context = resolve(context);
  if (!context) return CUDA_ERROR_INVALID_HANDLE;
  for (;;) {
    unsigned before = atomic_load_explicit(&sequence, memory_order_acquire);
    if (before & 1) continue;
    struct slot *slot = find(context, key);
    void *found = slot ? atomic_load_explicit(&slot->value, memory_order_acquire) : NULL;
    if (atomic_load_explicit(&sequence, memory_order_acquire) != before) continue;
    if (!slot) return CUDA_ERROR_INVALID_HANDLE;
    *value = found;
    return CUDA_SUCCESS;
  }
}

void abi_storage_drop(CUcontext context) {
  if (!context) return;
  // One at a time, because a dtor may come back to this storage.
  for (;;) {
    void *key = NULL, *value = NULL;
    abi_storage_dtor dtor = NULL;
    struct slot *slot = NULL;
    write_begin();
    for (struct chunk *chunk = &first; chunk && !slot; chunk = atomic_load(&chunk->next))
      for (int i = 0; i < CHUNK && !slot; i++)
        if (atomic_load(&chunk->slots[i].context) == context) slot = &chunk->slots[i];
    if (slot) {
      key = atomic_load(&slot->key);
      value = atomic_load(&slot->value);
      dtor = slot->dtor;
      atomic_store(&slot->context, NULL);
    }
    write_end();
    if (!slot) return;
    if (dtor) dtor(context, key, value);
  }
}
